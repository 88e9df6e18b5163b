//! The queries, over any version of a trie whose keys are those of prefixes.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::Bound;

use smallvec::SmallVec;

use super::code::{self, Key, alternatives, encode};
use super::string::{AsBits, BitPrefix, BitString};
use sapwood_qp::parts::{self, EntryRef, LANES, Mem, View};
use sapwood_qp::{Range, Trusted};

/// A table of at least this many prefixes is larger than the second-level cache, and a batch of
/// lookups gains from prefetching.
const LARGE: usize = 1 << 14;

/// The value of a prefix.
#[inline]
pub(super) fn get<'a, V, M: Mem>(view: View<'a, V, M>, prefix: impl AsBits) -> Option<&'a V> {
    prefix.with_bits(|bits| view.get(&encode(bits)))
}

/// The longest prefix of `bits`, and its value.
#[inline]
pub(super) fn lookup<'a, V, M: Mem>(
    view: View<'a, V, M>,
    bits: impl AsBits,
) -> Option<(usize, &'a V)> {
    let entry = bits.with_bits(|bits| view.longest_match(&encode(bits), alternatives))?;
    found(view, entry)
}

#[inline(always)]
fn found<'a, V, M: Mem>(view: View<'a, V, M>, entry: EntryRef) -> Option<(usize, &'a V)> {
    let (key, value) = view.entry(entry.some()?)?;
    Some((code::bits_of(&key), value))
}

/// Looks up many.
pub(super) fn lookup_batch<'a, V, M: Mem, Q: AsBits>(
    view: View<'a, V, M>,
    len: usize,
    queries: &[Q],
    out: &mut [Option<(usize, &'a V)>],
) {
    assert_eq!(queries.len(), out.len(), "as many places as queries");
    if len < LARGE {
        for (query, out) in queries.iter().zip(out) {
            *out = lookup(view, query);
        }
        return;
    }
    for (queries, out) in queries.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let mut keys: [Key; LANES] = core::array::from_fn(|_| Key::new());
        for (key, query) in keys.iter_mut().zip(queries) {
            *key = query.with_bits(encode);
        }
        view.longest_matches(&keys[..queries.len()], alternatives, |i, entry| {
            out[i] = found(view, entry);
        });
    }
}

/// All prefixes of `bits`.
pub(super) fn matches<'a, V, M: Mem>(view: View<'a, V, M>, bits: impl AsBits) -> BitMatches<'a, V> {
    let mut found = SmallVec::new();
    let key = bits.with_bits(encode);
    view.all_matches(&key, alternatives, |entry| {
        found.extend(view.entry(entry).map(|(k, v)| (code::bits_of(&k), v)));
    });
    BitMatches(found.into_iter())
}

/// The stored prefixes that a prefix covers, itself included.
pub(super) fn covered_by<'a, V, M: Mem>(
    view: View<'a, V, M>,
    prefix: BitPrefix<'_>,
) -> BitIter<'a, V, M> {
    let key = encode(prefix);
    let end = code::end_of(&key);
    let bounds = (Bound::Included(&key[..]), Bound::Excluded(&end[..]));
    BitIter(parts::range::<V, M, [u8], _>(view, &bounds))
}

/// The outermost stored prefixes inside a prefix, without itself.
pub(super) fn children<'a, V, M: Mem>(
    view: View<'a, V, M>,
    prefix: BitPrefix<'_>,
) -> BitChildren<'a, V, M> {
    let key = encode(prefix);
    BitChildren {
        view,
        end: code::end_of(&key),
        behind: key,
        strict: true,
    }
}

/// Prefixes with their values, in order; from `iter` and `covered_by`.
///
/// Order is by the bits padded with zeros, and then by length: a prefix comes right before what it
/// covers.
pub struct BitIter<'a, V, M: Copy = Trusted>(Range<'a, V, M>);

impl<V, M: Copy> Clone for BitIter<'_, V, M> {
    fn clone(&self) -> Self {
        BitIter(self.0.clone())
    }
}

// Only damaged files have keys that are not prefixes' keys: the walk leaves these out.

impl<'a, V, M: Mem> Iterator for BitIter<'a, V, M> {
    type Item = (BitString, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .find_map(|(key, value)| Some((code::decode(&key)?, value)))
    }
}

impl<V, M: Mem> DoubleEndedIterator for BitIter<'_, V, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let (key, value) = self.0.next_back()?;
            if let Some(prefix) = code::decode(&key) {
                return Some((prefix, value));
            }
        }
    }
}

impl<V, M: Mem> FusedIterator for BitIter<'_, V, M> {}

impl<V: fmt::Debug, M: Mem> fmt::Debug for BitIter<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// The stored prefixes directly inside one, in order; from `children`.
///
/// A step takes one descent, however much the child covers.
pub struct BitChildren<'a, V, M: Copy = Trusted> {
    view: View<'a, V, M>,
    /// The next child has a key not less than this, or, when `strict`, greater.
    behind: Key,
    strict: bool,
    /// Keys from here on are not covered.
    end: Key,
}

impl<V, M: Copy> Clone for BitChildren<'_, V, M> {
    fn clone(&self) -> Self {
        BitChildren {
            view: self.view,
            behind: self.behind.clone(),
            strict: self.strict,
            end: self.end.clone(),
        }
    }
}

impl<'a, V, M: Mem> Iterator for BitChildren<'a, V, M> {
    type Item = (BitString, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let found = parts::seek(self.view, |cursor| {
            cursor.seek_ge(&self.view, &self.behind, self.strict);
        });
        // A damaged file may lead anywhere, also back: then the walk ends here.
        let child = found
            .filter(|(key, _)| self.behind[..] <= **key && **key < self.end[..])
            .and_then(|(key, value)| Some((code::decode(&key)?, key, value)));
        let Some((prefix, key, value)) = child else {
            self.behind = self.end.clone();
            return None;
        };
        self.behind = code::end_of(&key);
        self.strict = false;
        Some((prefix, value))
    }
}

impl<V, M: Mem> FusedIterator for BitChildren<'_, V, M> {}

impl<V: fmt::Debug, M: Mem> fmt::Debug for BitChildren<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// The prefixes that cover a bit string, shortest first, as their lengths and values; from
/// `matches`.
pub struct BitMatches<'a, V>(smallvec::IntoIter<[(usize, &'a V); 8]>);

impl<V> Clone for BitMatches<'_, V> {
    fn clone(&self) -> Self {
        BitMatches(self.0.clone())
    }
}

impl<'a, V> Iterator for BitMatches<'a, V> {
    type Item = (usize, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V> DoubleEndedIterator for BitMatches<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<V> ExactSizeIterator for BitMatches<'_, V> {}
impl<V> FusedIterator for BitMatches<'_, V> {}

impl<V: fmt::Debug> fmt::Debug for BitMatches<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// Writes the reading methods for a type with `fn trie(..) -> View<'lt, V, mem>` and `fn len()`.
macro_rules! bit_methods {
    ([$($g:lifetime)?] $lt:lifetime [$($this:tt)+] $self:ident $mem:ty) => {
        /// Whether there is no prefix.
        ///
        /// O(1).
        pub fn is_empty(&$self) -> bool {
            $self.len() == 0
        }

        /// The value of exactly this prefix.
        ///
        /// O(bits of the prefix).
        #[inline]
        pub fn get$(<$g>)?($($this)+ $self, prefix: impl $crate::AsBits) -> Option<&$lt V> {
            $crate::bits::read::get($self.trie(), prefix)
        }

        /// The longest stored prefix of `bits`: its length, and its value.
        ///
        /// O(number of branches on the path): one descent, and a search back up along the path. A
        /// path of more than 16 branches, and a query of more than 256 bits, take memory from the
        /// heap.
        #[inline]
        pub fn lookup$(<$g>)?($($this)+ $self, bits: impl $crate::AsBits) -> Option<(usize, &$lt V)> {
            $crate::bits::read::lookup($self.trie(), bits)
        }

        /// Looks up many at once: `out[i]` becomes what [`lookup`](Self::lookup) finds for
        /// `queries[i]`.
        ///
        /// The sum of the lookups, of which many wait at once.
        ///
        /// In tables larger than the cache, the memory that sixteen lookups read is prefetched.
        ///
        /// # Panics
        /// When `queries` and `out` differ in length.
        pub fn lookup_batch<$($g,)? Q: $crate::AsBits>(
            $($this)+ $self,
            queries: &[Q],
            out: &mut [Option<(usize, &$lt V)>],
        ) {
            $crate::bits::read::lookup_batch($self.trie(), $self.len(), queries, out);
        }

        /// All stored prefixes of `bits` (itself included), shortest first: lengths and values.
        ///
        /// O(number of branches on the path).
        pub fn matches$(<$g>)?($($this)+ $self, bits: impl $crate::AsBits) -> $crate::BitMatches<$lt, V> {
            $crate::bits::read::matches($self.trie(), bits)
        }

        /// The stored prefixes that `prefix` covers (itself included), in order.
        ///
        /// O(bits of the prefix); each step is O(1) on average.
        pub fn covered_by$(<$g>)?(
            $($this)+ $self,
            prefix: impl $crate::AsBits,
        ) -> $crate::BitIter<$lt, V, $mem> {
            prefix.with_bits(|prefix| $crate::bits::read::covered_by($self.trie(), prefix))
        }

        /// The stored prefixes directly inside `prefix`, in order: `prefix` covers them, and no
        /// other stored prefix inside `prefix` does. `prefix` itself is left out.
        ///
        /// O(prefixes inside this one).
        pub fn children$(<$g>)?(
            $($this)+ $self,
            prefix: impl $crate::AsBits,
        ) -> $crate::BitChildren<$lt, V, $mem> {
            prefix.with_bits(|prefix| $crate::bits::read::children($self.trie(), prefix))
        }

        /// All prefixes in order.
        ///
        /// Each step is O(1) on average.
        pub fn iter$(<$g>)?($($this)+ $self) -> $crate::BitIter<$lt, V, $mem> {
            $self.covered_by($crate::BitString::new())
        }
    };
}
pub(super) use bit_methods;

//! The reading methods of all kinds of maps, written once for every type that has a view.

use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow, RangeBounds};

use super::closest::{Closest, Denial};
use super::iter::Range;
#[cfg(feature = "std")]
use super::raw::batch;
use super::raw::closest::{Found, wildcard_of};
use super::raw::cursor::Cursor;
use super::raw::inline::EntryRef;
use super::raw::leaf::mismatch;
use super::raw::mem::Mem;
use super::raw::span::Span;
use super::raw::view::View;
use crate::{ReadEntry, Value};

/// Maps with fewer bytes of nodes than this fit into the second-level cache, where interleaving
/// makes a batch of lookups no quicker.
pub(crate) const BATCH_FROM: usize = 512 << 10;

/// The entries between two bounds; none when they have crossed.
pub fn range<'a, V: ?Sized + Value, M: Mem, K, R>(
    view: View<'a, V, M>,
    bounds: &R,
) -> Range<'a, V, M>
where
    K: AsRef<[u8]> + ?Sized,
    R: RangeBounds<K>,
{
    let mut front = Cursor::new();
    match bounds.start_bound() {
        Bound::Unbounded => front.first(&view),
        Bound::Included(k) => front.seek_ge(&view, k.as_ref(), false),
        Bound::Excluded(k) => front.seek_ge(&view, k.as_ref(), true),
    }
    let end = |key: &K, strict| {
        let mut back = Cursor::new();
        back.seek_le(&view, key.as_ref(), strict);
        back
    };
    let back = match bounds.end_bound() {
        Bound::Unbounded => None,
        Bound::Included(k) => Some(end(k, false)),
        Bound::Excluded(k) => Some(end(k, true)),
    };
    Range {
        span: Span::between(view, front, back),
    }
}

/// The entry at the leaf to which `seek` moves the cursor.
pub fn seek<'a, V: ?Sized + Value, M: Mem>(
    view: View<'a, V, M>,
    seek: impl FnOnce(&mut Cursor),
) -> Option<ReadEntry<'a, V>> {
    let mut cursor = Cursor::new();
    seek(&mut cursor);
    view.entry(cursor.entry.some()?)
}

/// Calls `each` with the entries between two bounds until it breaks.
pub(crate) fn for_each<'a, V: ?Sized + Value, M: Mem, K, R, B>(
    view: View<'a, V, M>,
    bounds: &R,
    each: impl FnMut(&[u8], &'a V) -> ControlFlow<B>,
) -> ControlFlow<B>
where
    K: AsRef<[u8]> + ?Sized,
    R: RangeBounds<K>,
{
    range(view, bounds).span.for_each(each)
}

/// The bytes of the keys of a range from an offset on, each in one piece. The first key that does
/// not have them so ends the walk.
#[cfg(feature = "std")]
pub fn tails<'a, V: ?Sized + Value, M: Mem>(
    range: Range<'a, V, M>,
    at: usize,
) -> impl Iterator<Item = &'a [u8]> {
    let mut span = range.span;
    core::iter::from_fn(move || {
        let entry = span.next()?;
        span.view.key(entry)?.from(at)
    })
}

/// Looks up many keys, interleaved when the map is `large`.
#[cfg(feature = "std")]
pub(crate) fn get_many<'a, V: ?Sized + Value, M: Mem, K: AsRef<[u8]>>(
    view: View<'a, V, M>,
    large: bool,
    keys: &[K],
    out: &mut [Option<&'a V>],
) {
    assert_eq!(keys.len(), out.len(), "`keys` and `out` differ in length");
    if large {
        batch::find_many(&view, keys, |i, entry| {
            out[i] = entry.some().and_then(|entry| view.value(entry));
        });
    } else {
        for (key, out) in keys.iter().zip(out) {
            *out = view.get(key.as_ref());
        }
    }
}

/// All stored prefixes of a key, shortest first.
pub(crate) fn ancestors<'a, V: ?Sized + Value, M: Mem>(
    view: View<'a, V, M>,
    key: &[u8],
    keep: impl Fn(&[u8]) -> bool,
) -> Vec<ReadEntry<'a, V>> {
    let entries = view.prefixes_of(key).into_iter();
    entries
        .filter_map(|entry| view.entry(entry))
        .filter(|(k, _)| keep(k))
        .collect()
}

/// The answer for a name: see [`Closest`].
pub(crate) fn closest<'a, V: ?Sized + Value, M: Mem>(
    view: View<'a, V, M>,
    name: &[u8],
    separator: u8,
    mut is_cut: impl FnMut(&[u8], &'a V) -> bool,
) -> Closest<'a, V> {
    let found = view.closest(name, separator).unwrap_or_default();
    entries_of(view, name, &found, &mut is_cut)
}

/// The entries of what was found for a name.
#[inline(always)]
fn entries_of<'a, V: ?Sized + Value, M: Mem>(
    view: View<'a, V, M>,
    name: &[u8],
    found: &Found,
    is_cut: &mut impl FnMut(&[u8], &'a V) -> bool,
) -> Closest<'a, V> {
    let entry = |entry: EntryRef| view.entry(entry.some()?);
    // In a map that others change or damage, the walk may have met an entry that is not above the
    // name.
    let above = |found: &EntryRef| entry(*found).filter(|(k, _)| name.starts_with(k));
    Closest {
        exact: entry(found.exact),
        exists: found.exists,
        encloser: found.encloser,
        ancestor: found.above.iter().find_map(above),
        wildcard: entry(found.wildcard),
        predecessor: entry(found.before).filter(|(k, _)| **k < *name),
        cut: (found.above.iter().rev().filter_map(above)).find(|(k, v)| is_cut(k, v)),
    }
}

/// What proves that a name is not there: see [`Denial`].
pub(crate) fn denial<'a, V: ?Sized + Value, M: Mem>(
    view: View<'a, V, M>,
    name: &[u8],
    separator: u8,
    mut is_cut: impl FnMut(&[u8], &'a V) -> bool,
) -> Denial<'a, V> {
    let (found, beside) = view.denial(name, separator).unwrap_or_default();
    let closest = entries_of(view, name, &found, &mut is_cut);
    // No cut lies above the entry before a name, and is not above the name as well, unless it is
    // longer than what both share.
    let mut uncut = |name: &[u8], before: Option<ReadEntry<'a, V>>| {
        let cut = closest.cut.clone().filter(|(k, _)| k.len() < name.len());
        let Some((key, _)) = before.as_ref().filter(|_| cut.is_none()) else {
            return cut;
        };
        let both = mismatch(key, name)
            .unwrap_or(key.len())
            .min(closest.encloser);
        let between = key.get(both..key.len().saturating_sub(1));
        if between.is_none_or(|labels| !labels.contains(&separator)) {
            return before;
        }
        let above = view.names_above(key, both, separator).unwrap_or_default();
        let names = (above.iter().rev()).filter_map(|entry| view.entry(*entry));
        let mut above = names.filter(|(k, _)| key.starts_with(k));
        above.find(|(k, v)| is_cut(k, v)).or(before)
    };
    let predecessor = uncut(name, closest.predecessor.clone());
    let mut before_wildcard = None;
    if !closest.exists {
        let wildcard = wildcard_of(&name[..closest.encloser], separator);
        let entry = beside.before.some().and_then(|before| view.entry(before));
        let before = entry.filter(|(k, _)| **k < wildcard[..]);
        before_wildcard = uncut(&wildcard, before);
    }
    Denial {
        closest,
        wildcard_exists: beside.exists,
        predecessor,
        wildcard_predecessor: before_wildcard,
    }
}

/// Whether `ancestor`, a prefix of `key`, ends where a component of `key` ends.
pub(crate) fn at_separator(ancestor: &[u8], key: &[u8], separator: u8) -> bool {
    ancestor.len() == key.len()
        || ancestor.is_empty()
        || key.get(ancestor.len()) == Some(&separator)
        || ancestor.last() == Some(&separator)
}

/// Writes the methods that find an entry near a key, for any type with a `fn view(..)`. Beside
/// writers, each part of an answer was right at some moment of the call; under
/// [`exact`](crate::SharedView::exact), all parts are right at one moment.
macro_rules! near_methods {
    ([$($g:lifetime)?] $lt:lifetime [$($this:tt)+] $self:ident) => {
        /// The entry with the greatest key less than `key`.
        ///
        /// O(length of `key` and of the key that is found).
        pub fn predecessor$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
        ) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            $crate::read::seek(view, |c| c.seek_le(&view, key.as_ref(), true))
        }

        /// The entry with the least key greater than `key`.
        ///
        /// O(length of `key` and of the key that is found).
        pub fn successor$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
        ) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            $crate::read::seek(view, |c| c.seek_ge(&view, key.as_ref(), true))
        }

        /// The answer of a zone for a name, in one descent. It has the name's own entry, its
        /// closest encloser, the wildcard there, the predecessor, and the zone cut. The cut is the
        /// shortest of the names at or above the name for which `is_cut` returns true. Each label
        /// of `name` ends with `separator`; [`dns_name`]($crate::key::dns_name) makes such names,
        /// with 0 as the separator. See [`Closest`]($crate::Closest).
        ///
        /// O(length of the name + entries above it).
        pub fn closest$(<$g>)?(
            $($this)+ $self,
            name: impl AsRef<[u8]>,
            separator: u8,
            is_cut: impl FnMut(&[u8], &$lt V) -> bool,
        ) -> $crate::Closest<$lt, V> {
            $crate::read::closest($self.view(), name.as_ref(), separator, is_cut)
        }

        /// What [`closest`](Self::closest) finds for a name, with all that proves that the name is
        /// not there. This takes a second search, of which the wildcard is the goal, from the place
        /// where it leaves the path of the first one. A third and a fourth one are needed only when
        /// an entry before the name or the wildcard lies deeper than these. See
        /// [`Denial`]($crate::Denial).
        ///
        /// Each search is O(length of the name and of the keys that it finds).
        pub fn denial$(<$g>)?(
            $($this)+ $self,
            name: impl AsRef<[u8]>,
            separator: u8,
            is_cut: impl FnMut(&[u8], &$lt V) -> bool,
        ) -> $crate::Denial<$lt, V> {
            $crate::read::denial($self.view(), name.as_ref(), separator, is_cut)
        }
    };
}
pub(crate) use near_methods;

/// Writes the reading methods for a type with `fn view(..) -> View<'lt, V, mem>`, `fn len()` and
/// `fn is_large()`: all but the lookups of single keys.
macro_rules! read_methods {
    ([$($g:lifetime)?] $lt:lifetime [$($this:tt)+] $self:ident $mem:ty) => {
        /// Whether there is no entry.
        ///
        /// O(1).
        pub fn is_empty(&$self) -> bool {
            $self.len() == 0
        }

        /// The entry with the least key.
        ///
        /// O(length of its key).
        pub fn first_key_value$(<$g>)?($($this)+ $self) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            $crate::read::seek(view, |c| c.first(&view))
        }

        /// The entry with the greatest key.
        ///
        /// O(length of its key).
        pub fn last_key_value$(<$g>)?($($this)+ $self) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            $crate::read::seek(view, |c| c.last(&view))
        }

        /// All entries in ascending order of keys, from both ends.
        ///
        /// O(length of the first key); each step is O(1) on average.
        pub fn iter$(<$g>)?($($this)+ $self) -> $crate::Iter<$lt, V, $mem> {
            $crate::Iter::new($crate::raw::span::Span::all($self.view()), $self.len())
        }

        /// All keys in ascending order.
        ///
        /// As [`iter`](Self::iter).
        pub fn keys$(<$g>)?($($this)+ $self) -> $crate::Keys<$lt, V, $mem> {
            $crate::Keys($self.iter())
        }

        /// All values in ascending order of their keys.
        ///
        /// As [`iter`](Self::iter).
        pub fn values$(<$g>)?($($this)+ $self) -> $crate::Values<$lt, V, $mem> {
            $crate::Values($self.iter())
        }

        /// The entries between two bounds, in order, from both ends. There are none if the bounds
        /// have crossed.
        ///
        /// O(lengths of the bounds and of the keys at them): two descents. Each step is O(1) on
        /// average.
        pub fn range<$($g,)? K, R>($($this)+ $self, bounds: R) -> $crate::Range<$lt, V, $mem>
        where
            K: AsRef<[u8]> + ?Sized,
            R: core::ops::RangeBounds<K>,
        {
            $crate::read::range($self.view(), &bounds)
        }

        /// Calls `each` with the key and the value of each entry between two bounds, in order,
        /// until it breaks. The key is lent for the call. This is the quickest walk: a map that
        /// has the bytes that neighbouring keys share only once copies the rest of each key, where
        /// [`range`](Self::range) makes a [`Key`]($crate::Key).
        ///
        /// As [`range`](Self::range).
        ///
        /// ```
        /// use std::ops::ControlFlow;
        /// use sapwood::qp::QpMap;
        /// let map = QpMap::from([("ash", 1), ("elder", 2), ("elm", 3), ("oak", 4)]);
        /// let mut sum = 0;
        /// let stop = map.for_each("b".., |key, value| {
        ///     if key.starts_with(b"o") {
        ///         return ControlFlow::Break(*value);
        ///     }
        ///     sum += value;
        ///     ControlFlow::Continue(())
        /// });
        /// assert_eq!((sum, stop), (5, ControlFlow::Break(4)));
        /// ```
        pub fn for_each<$($g,)? K, R, B>(
            $($this)+ $self,
            bounds: R,
            each: impl FnMut(&[u8], &$lt V) -> core::ops::ControlFlow<B>,
        ) -> core::ops::ControlFlow<B>
        where
            K: AsRef<[u8]> + ?Sized,
            R: core::ops::RangeBounds<K>,
        {
            $crate::read::for_each($self.view(), &bounds, each)
        }

        /// A cursor before the first entry. It goes both ways, seeks, and lends keys.
        ///
        /// O(1).
        pub fn cursor$(<$g>)?($($this)+ $self) -> $crate::Cursor<$lt, V, $mem> {
            $crate::Cursor::new($self.view())
        }

        /// The entries whose keys start with `prefix` (the key equal to it included), in order.
        ///
        /// O(length of the prefix and of the first key below it); each step is O(1) on average.
        pub fn prefix$(<$g>)?($($this)+ $self, prefix: impl AsRef<[u8]>) -> $crate::Range<$lt, V, $mem> {
            let view = $self.view();
            let top = view.subtree(prefix.as_ref());
            $crate::Range { span: $crate::raw::span::Span::below(view, top) }
        }

        /// The entry with the longest key that is a prefix of `key` (`key` itself included).
        ///
        /// O(key length).
        ///
        /// It walks down once, compares one leaf, and goes back up to the first prefix.
        pub fn longest_prefix$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
        ) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            view.entry(view.longest_prefix(key.as_ref())?)
        }

        /// All entries whose keys are prefixes of `key` (`key` itself included), shortest first.
        ///
        /// O(key length + entries that are found).
        pub fn ancestors$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
        ) -> alloc::vec::Vec<$crate::ReadEntry<$lt, V>> {
            $crate::read::ancestors($self.view(), key.as_ref(), |_| true)
        }

        /// The entries whose keys are prefixes of `key` and end where a component of `key` ends.
        /// Such a prefix ends in `separator`, is followed by it in `key`, is empty, or is the whole
        /// key. The shortest comes first, so the last is the closest enclosing name.
        ///
        /// O(key length + prefixes of the key that are stored).
        pub fn ancestors_at$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
            separator: u8,
        ) -> alloc::vec::Vec<$crate::ReadEntry<$lt, V>> {
            let key = key.as_ref();
            $crate::read::ancestors($self.view(), key, |a| {
                $crate::read::at_separator(a, key, separator)
            })
        }

        $crate::read::near_methods!([$($g)?] $lt [$($this)+] $self);
    };
}
pub(crate) use read_methods;

/// Writes the lookups of single keys for a type without a point index that has the methods that
/// `read_methods` needs.
#[cfg(feature = "std")]
macro_rules! point_methods {
    ([$($g:lifetime)?] $lt:lifetime [$($this:tt)+] $self:ident $mem:ty) => {
        /// The value of a key. O(key length); touches one leaf.
        #[inline]
        pub fn get$(<$g>)?($($this)+ $self, key: impl AsRef<[u8]>) -> Option<&$lt V> {
            $self.view().get(key.as_ref())
        }

        /// The stored key and its value.
        ///
        /// As [`get`](Self::get).
        pub fn get_key_value$(<$g>)?(
            $($this)+ $self,
            key: impl AsRef<[u8]>,
        ) -> Option<$crate::ReadEntry<$lt, V>> {
            let view = $self.view();
            view.find(key.as_ref()).and_then(|entry| view.entry(entry))
        }

        /// Whether the key is stored.
        ///
        /// As [`get`](Self::get).
        #[inline]
        pub fn contains_key(&$self, key: impl AsRef<[u8]>) -> bool {
            $self.view().find(key.as_ref()).is_some()
        }

        /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`.
        ///
        /// O(sum of the key lengths).
        ///
        /// In maps larger than the cache, 16 lookups run interleaved. They take a half to three
        /// quarters of the time of single lookups.
        ///
        /// # Panics
        /// When `keys` and `out` differ in length.
        pub fn get_many<$($g,)? K: AsRef<[u8]>>($($this)+ $self, keys: &[K], out: &mut [Option<&$lt V>]) {
            $crate::read::get_many($self.view(), $self.is_large(), keys, out);
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use point_methods;

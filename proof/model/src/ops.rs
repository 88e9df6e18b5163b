//! Operations on a map of byte strings, and the oracle's answer to each.

use std::borrow::Borrow;
use std::ops::Bound;

use crate::keys::KeyPool;
use crate::oracle::{ByteMap, Closest, Denial};

/// One operation on a map from byte strings to `u64`.
///
/// With the feature `arbitrary` it can be drawn from a fuzzer's bytes. Such keys are often short
/// and share prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Op {
    /// Store a value at a key.
    Insert(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>,
        u64,
    ),
    /// Remove a key.
    Remove(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// Look a key up.
    Get(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// List the entries whose keys start with a prefix.
    Prefix(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>,
        Direction,
    ),
    /// List the entries within two bounds, which may cross.
    Range(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::bound))] Bound<Vec<u8>>,
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::bound))] Bound<Vec<u8>>,
        Direction,
    ),
    /// Find the greatest key less than this one.
    Predecessor(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// Find the least key greater than this one.
    Successor(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// Find the longest key that is a prefix of this one.
    LongestPrefix(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// List all keys that are prefixes of this one.
    Ancestors(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// List the prefixes of this key that end at a component; see [`ByteMap::ancestors_sep`].
    AncestorsSep(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>,
        u8,
    ),
    /// Find what a name leads to, whose labels each end with a separator; see
    /// [`ByteMap::closest`].
    Closest(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>,
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::separator))] u8,
    ),
    /// Find what proves that a name is not there; see [`ByteMap::denial`].
    Denial(
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>,
        #[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::separator))] u8,
    ),
    /// Remove the entries whose keys start with a prefix.
    RemovePrefix(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// Remove the entry with the least key.
    PopFirst,
    /// Remove the entry with the greatest key.
    PopLast,
    /// Keep the entries whose value has this bit (modulo 64) set.
    Retain(u8),
    /// Keep the entries whose keys are less than this key. The others are removed and are the
    /// answer.
    SplitOff(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::key))] Vec<u8>),
    /// Append a map of these entries. A later entry replaces an earlier one with the same key.
    Append(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::entries))] Vec<(Vec<u8>, u64)>),
    /// Compact the memory, which changes no answer.
    Compact,
    /// Look many keys up at once.
    GetMany(#[cfg_attr(feature = "arbitrary", arbitrary(with = fuzz::keys))] Vec<Vec<u8>>),
    /// Remove all entries.
    Clear,
}

/// The direction of an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Direction {
    /// From the least key up.
    Forward,
    /// From the greatest key down.
    Backward,
}

/// The answer to an [`Op`], in a form that a map under test can build, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation has no answer: `Retain`, `Append`, `Compact`, `Clear`.
    Done,
    /// `Insert`, `Remove`, `Get`: the value before the operation.
    Value(Option<u64>),
    /// `GetMany`: the values, in the order of the keys.
    Values(Vec<Option<u64>>),
    /// `Predecessor`, `Successor`, `LongestPrefix`, `PopFirst`, `PopLast`.
    Entry(Option<(Vec<u8>, u64)>),
    /// `Prefix`, `Range`, `Ancestors`, `AncestorsSep`, `RemovePrefix`, `SplitOff`. Removed entries
    /// are in key order.
    Entries(Vec<(Vec<u8>, u64)>),
    /// `Closest`: the keys of the entries, in the order of the fields of
    /// [`Closest`].
    Closest {
        /// Whether the name exists, and the bytes of its encloser.
        name: (bool, usize),
        /// Exact, ancestor, wildcard, predecessor, cut.
        keys: [Option<Vec<u8>>; 5],
    },
    /// `Denial`: an [`Outcome::Closest`], and what the proofs need beside it.
    Denial {
        /// What `Closest` gives.
        closest: Box<Outcome>,
        /// Whether the wildcard exists.
        wildcard_exists: bool,
        /// Predecessor of the name, and of the wildcard.
        keys: [Option<Vec<u8>>; 2],
    },
}

impl Outcome {
    /// An [`Outcome::Entry`] of borrowed parts.
    #[must_use]
    pub fn entry(entry: Option<(impl AsRef<[u8]>, impl Borrow<u64>)>) -> Self {
        Self::Entry(entry.map(owned))
    }

    /// An [`Outcome::Entries`] of borrowed parts.
    pub fn entries(
        entries: impl IntoIterator<Item = (impl AsRef<[u8]>, impl Borrow<u64>)>,
    ) -> Self {
        Self::Entries(entries.into_iter().map(owned).collect())
    }
}

impl From<Closest<'_>> for Outcome {
    fn from(found: Closest<'_>) -> Self {
        let entries = [
            found.exact,
            found.ancestor,
            found.wildcard,
            found.predecessor,
            found.cut,
        ];
        Self::Closest {
            name: (found.exists, found.encloser),
            keys: entries.map(|key| key.map(<[u8]>::to_vec)),
        }
    }
}

impl From<Denial<'_>> for Outcome {
    fn from(found: Denial<'_>) -> Self {
        let keys = [found.predecessor, found.wildcard_predecessor];
        Self::Denial {
            closest: Box::new(found.closest.into()),
            wildcard_exists: found.wildcard_exists,
            keys: keys.map(|key| key.map(<[u8]>::to_vec)),
        }
    }
}

fn owned((key, value): (impl AsRef<[u8]>, impl Borrow<u64>)) -> (Vec<u8>, u64) {
    (key.as_ref().to_vec(), *value.borrow())
}

/// Whether [`Op::Retain`] keeps a value.
#[must_use]
pub fn retains(bit: u8, value: u64) -> bool {
    value >> (bit % 64) & 1 == 1
}

/// What is a cut for [`Op::Closest`] and [`Op::Denial`].
#[must_use]
pub fn is_cut(value: u64) -> bool {
    value % 3 == 0
}

/// Borrows a bound, for `range` methods.
#[must_use]
pub fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Op {
    /// Applies the operation to the oracle; returns the answer that every map must give.
    pub fn apply(&self, map: &mut ByteMap<u64>) -> Outcome {
        match self {
            Op::Insert(key, value) => Outcome::Value(map.insert(key, *value)),
            Op::Remove(key) => Outcome::Value(map.remove(key)),
            Op::Get(key) => Outcome::Value(map.get(key).copied()),
            Op::Prefix(prefix, Direction::Forward) => Outcome::entries(map.prefix(prefix)),
            Op::Prefix(prefix, Direction::Backward) => Outcome::entries(map.prefix(prefix).rev()),
            Op::Range(lower, upper, direction) => {
                let range = map.range(as_slice(lower), as_slice(upper));
                match direction {
                    Direction::Forward => Outcome::entries(range),
                    Direction::Backward => Outcome::entries(range.rev()),
                }
            }
            Op::Predecessor(key) => Outcome::entry(map.predecessor(key)),
            Op::Successor(key) => Outcome::entry(map.successor(key)),
            Op::LongestPrefix(key) => Outcome::entry(map.longest_prefix(key)),
            Op::Ancestors(key) => Outcome::entries(map.ancestors(key)),
            Op::AncestorsSep(key, separator) => {
                Outcome::entries(map.ancestors_sep(key, *separator))
            }
            Op::Closest(name, separator) => {
                map.closest(name, *separator, |value| is_cut(*value)).into()
            }
            Op::Denial(name, separator) => {
                map.denial(name, *separator, |value| is_cut(*value)).into()
            }
            Op::RemovePrefix(prefix) => Outcome::Entries(map.remove_prefix(prefix)),
            Op::PopFirst => Outcome::Entry(map.pop_first()),
            Op::PopLast => Outcome::Entry(map.pop_last()),
            Op::Retain(bit) => {
                map.retain(|_, value| retains(*bit, *value));
                Outcome::Done
            }
            Op::SplitOff(key) => Outcome::Entries(map.split_off(key).to_vec()),
            Op::Append(entries) => {
                map.append(&mut entries.iter().cloned().collect());
                Outcome::Done
            }
            Op::Compact => Outcome::Done,
            Op::GetMany(keys) => {
                Outcome::Values(keys.iter().map(|key| map.get(key).copied()).collect())
            }
            Op::Clear => {
                map.clear();
                Outcome::Done
            }
        }
    }
}

/// The weight with which each [`Op`] is drawn. An operation of weight zero is not drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // One field for each operation, of the same name.
pub struct Weights {
    pub insert: u32,
    pub remove: u32,
    pub get: u32,
    pub prefix: u32,
    pub range: u32,
    pub predecessor: u32,
    pub successor: u32,
    pub longest_prefix: u32,
    pub ancestors: u32,
    pub ancestors_sep: u32,
    pub closest: u32,
    pub denial: u32,
    pub remove_prefix: u32,
    pub pop_first: u32,
    pub pop_last: u32,
    pub retain: u32,
    pub split_off: u32,
    pub append: u32,
    pub compact: u32,
    pub get_many: u32,
    pub clear: u32,
}

impl Weights {
    /// No operation; a base for `Weights { insert: 1, get: 2, ..Weights::NONE }`.
    pub const NONE: Self = Self {
        insert: 0,
        remove: 0,
        get: 0,
        prefix: 0,
        range: 0,
        predecessor: 0,
        successor: 0,
        longest_prefix: 0,
        ancestors: 0,
        ancestors_sep: 0,
        closest: 0,
        denial: 0,
        remove_prefix: 0,
        pop_first: 0,
        pop_last: 0,
        retain: 0,
        split_off: 0,
        append: 0,
        compact: 0,
        get_many: 0,
        clear: 0,
    };

    /// All operations. Those that empty the map are rare, so that it grows to some hundreds of
    /// entries.
    pub const MIXED: Self = Self {
        insert: 400,
        remove: 150,
        get: 100,
        prefix: 40,
        range: 40,
        predecessor: 40,
        successor: 40,
        longest_prefix: 40,
        ancestors: 20,
        ancestors_sep: 20,
        closest: 20,
        denial: 20,
        remove_prefix: 5,
        pop_first: 10,
        pop_last: 10,
        retain: 1,
        split_off: 1,
        append: 5,
        compact: 5,
        get_many: 10,
        clear: 1,
    };

    /// The operations on one key, for maps with concurrent writers.
    pub const SINGLE_KEY: Self = Self {
        insert: 4,
        remove: 3,
        get: 3,
        ..Self::NONE
    };

    fn list(&self) -> [u32; 21] {
        [
            self.insert,
            self.remove,
            self.get,
            self.prefix,
            self.range,
            self.predecessor,
            self.successor,
            self.longest_prefix,
            self.ancestors,
            self.ancestors_sep,
            self.remove_prefix,
            self.pop_first,
            self.pop_last,
            self.retain,
            self.split_off,
            self.append,
            self.compact,
            self.get_many,
            self.clear,
            self.closest,
            self.denial,
        ]
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self::MIXED
    }
}

/// An endless source of operations on the keys of a [`KeyPool`].
#[derive(Clone, Debug)]
pub struct OpGen {
    keys: KeyPool,
    weights: Weights,
}

impl OpGen {
    /// A source of all operations on keys of all shapes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(KeyPool::new(seed, 400), Weights::MIXED)
    }

    /// A source of operations on `keys` that are drawn by `weights`.
    ///
    /// # Panics
    ///
    /// If all weights are zero.
    #[must_use]
    pub fn with(keys: KeyPool, weights: Weights) -> Self {
        assert!(
            weights.list().iter().any(|weight| *weight > 0),
            "some operation has a weight"
        );
        Self { keys, weights }
    }

    /// The next operation.
    pub fn op(&mut self) -> Op {
        let weights = self.weights.list();
        let mut at = self.keys.rng().u32(..weights.iter().sum::<u32>());
        let mut chosen = 0;
        while at >= weights[chosen] {
            at -= weights[chosen];
            chosen += 1;
        }
        match chosen {
            0 => Op::Insert(self.keys.key(), self.value()),
            1 => Op::Remove(self.keys.key()),
            2 => Op::Get(self.keys.key()),
            3 => Op::Prefix(self.prefix(), self.direction()),
            4 => Op::Range(self.bound(), self.bound(), self.direction()),
            5 => Op::Predecessor(self.keys.key()),
            6 => Op::Successor(self.keys.key()),
            7 => Op::LongestPrefix(self.keys.key()),
            8 => Op::Ancestors(self.keys.key()),
            9 => {
                let separator = self.separator();
                Op::AncestorsSep(self.keys.key(), separator)
            }
            10 => Op::RemovePrefix(self.prefix()),
            11 => Op::PopFirst,
            12 => Op::PopLast,
            13 => Op::Retain(self.keys.rng().u8(..64)),
            14 => Op::SplitOff(self.keys.key()),
            15 => {
                let count = self.keys.rng().usize(..40);
                Op::Append(
                    (0..count)
                        .map(|_| (self.keys.key(), self.value()))
                        .collect(),
                )
            }
            16 => Op::Compact,
            17 => {
                let count = self.keys.rng().usize(..50);
                Op::GetMany((0..count).map(|_| self.keys.key()).collect())
            }
            18 => Op::Clear,
            19 => {
                let separator = self.separator();
                Op::Closest(self.keys.key(), separator)
            }
            _ => {
                let separator = self.separator();
                Op::Denial(self.keys.key(), separator)
            }
        }
    }

    fn separator(&mut self) -> u8 {
        b"\0\x01_/."[self.keys.rng().usize(..5)]
    }

    fn value(&mut self) -> u64 {
        self.keys.rng().u64(..)
    }

    fn prefix(&mut self) -> Vec<u8> {
        let mut prefix = self.keys.key();
        let length = self.keys.rng().usize(..=prefix.len());
        prefix.truncate(length);
        prefix
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.keys.rng().u8(..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.keys.key()),
            _ => Bound::Excluded(self.keys.key()),
        }
    }

    fn direction(&mut self) -> Direction {
        if self.keys.rng().bool() {
            Direction::Forward
        } else {
            Direction::Backward
        }
    }
}

impl Iterator for OpGen {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        Some(self.op())
    }
}

/// Draws keys from a fuzzer's bytes.
#[cfg(feature = "arbitrary")]
mod fuzz {
    use std::ops::Bound;

    use arbitrary::{Arbitrary, Result, Unstructured};

    /// Mostly a few bytes of a small alphabet, so that keys share prefixes; otherwise any bytes, or
    /// a long run of one byte and a tail.
    pub(super) fn key(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        const ALPHABET: [u8; 8] = [0, 1, 2, b'a', b'b', b'/', 254, 255];
        match u.int_in_range(0..=15_u8)? {
            0..=10 => {
                let length = u.int_in_range(0..=8)?;
                (0..length).map(|_| u.choose(&ALPHABET).copied()).collect()
            }
            11..=14 => {
                let mut free = Vec::arbitrary(u)?;
                free.truncate(crate::keys::MAX_KEY);
                Ok(free)
            }
            _ => {
                let mut run = vec![*u.choose(&ALPHABET)?; usize::from(u16::arbitrary(u)?)];
                if u.ratio(1, 2)? && run.len() < crate::keys::MAX_KEY {
                    run.push(u8::arbitrary(u)?);
                }
                Ok(run)
            }
        }
    }

    /// Of the bytes that keys have most.
    pub(super) fn separator(u: &mut Unstructured<'_>) -> Result<u8> {
        u.choose(b"\0\x01ab/").copied()
    }

    pub(super) fn keys(u: &mut Unstructured<'_>) -> Result<Vec<Vec<u8>>> {
        let count = u.int_in_range(0..=40)?;
        (0..count).map(|_| key(u)).collect()
    }

    pub(super) fn entries(u: &mut Unstructured<'_>) -> Result<Vec<(Vec<u8>, u64)>> {
        let count = u.int_in_range(0..=20)?;
        (0..count)
            .map(|_| Ok((key(u)?, u64::arbitrary(u)?)))
            .collect()
    }

    pub(super) fn bound(u: &mut Unstructured<'_>) -> Result<Bound<Vec<u8>>> {
        Ok(match u.int_in_range(0..=4_u8)? {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key(u)?),
            _ => Bound::Excluded(key(u)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_mix_draws_everything_and_the_map_grows() {
        let mut map = ByteMap::new();
        let mut kinds = HashSet::new();
        let mut most = 0;
        for op in OpGen::new(1).take(20_000) {
            kinds.insert(std::mem::discriminant(&op));
            op.apply(&mut map);
            most = most.max(map.len());
        }
        assert_eq!(kinds.len(), Weights::MIXED.list().len());
        assert!(most > 100, "at most {most} entries");
    }

    #[test]
    fn weights_leave_operations_out() {
        let keys = KeyPool::new(2, 10);
        let ops = OpGen::with(
            keys,
            Weights {
                get: 1,
                compact: 1,
                ..Weights::NONE
            },
        );
        assert!(
            ops.take(100)
                .all(|op| matches!(op, Op::Get(_) | Op::Compact))
        );
    }

    #[cfg(feature = "arbitrary")]
    #[test]
    fn operations_from_bytes() {
        use arbitrary::{Arbitrary, Unstructured};
        let mut bytes = vec![0; 100_000];
        fastrand::Rng::with_seed(4).fill(&mut bytes);
        let mut u = Unstructured::new(&bytes);
        let mut kinds = HashSet::new();
        let mut map = ByteMap::new();
        while !u.is_empty() {
            let op = Op::arbitrary(&mut u).unwrap();
            kinds.insert(std::mem::discriminant(&op));
            op.apply(&mut map);
        }
        assert!(kinds.len() > 15);
    }
}

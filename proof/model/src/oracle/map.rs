//! [`ByteMap`]: a naive ordered map of byte strings.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// The answer of [`ByteMap::closest`] for a name; names are keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closest<'a> {
    /// The name itself, if it is stored.
    pub exact: Option<&'a [u8]>,
    /// Whether a stored key begins with the name.
    pub exists: bool,
    /// The length of the encloser in bytes: the longest beginning of the name, itself or up to a
    /// separator, with which a stored key begins.
    pub encloser: usize,
    /// The longest stored name at or above the name.
    pub ancestor: Option<&'a [u8]>,
    /// The wildcard below the encloser, when the name does not exist.
    pub wildcard: Option<&'a [u8]>,
    /// The greatest stored key less than the name.
    pub predecessor: Option<&'a [u8]>,
    /// The shortest stored name at or above the name that is a cut.
    pub cut: Option<&'a [u8]>,
}

/// The answer of [`ByteMap::denial`] for a name; names are keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial<'a> {
    /// What [`ByteMap::closest`] says.
    pub closest: Closest<'a>,
    /// Whether a stored key begins with the wildcard below the encloser, when the name does not
    /// exist.
    pub wildcard_exists: bool,
    /// The greatest stored key less than the name that is not below a cut.
    pub predecessor: Option<&'a [u8]>,
    /// The same for the wildcard, when the name does not exist.
    pub wildcard_predecessor: Option<&'a [u8]>,
}

/// A naive ordered map of byte strings.
///
/// A `BTreeMap` gives the storage and the order: lexicographic by unsigned bytes, a prefix before
/// longer keys. Every other query is the definition of its answer, and looks at all keys.
///
/// ```
/// use sapwood_model::oracle::ByteMap;
///
/// let mut map = ByteMap::new();
/// map.insert(b"com", 1);
/// map.insert(b"com.example", 2);
/// assert_eq!(map.longest_prefix(b"com.example.www"), Some((&b"com.example"[..], &2)));
/// assert_eq!(map.predecessor(b"com.example"), Some((&b"com"[..], &1)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteMap<V> {
    map: BTreeMap<Vec<u8>, V>,
}

impl<V> ByteMap<V> {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self {
            map: BTreeMap::new(),
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The value at `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.map.get(key)
    }

    /// A mutable reference to the value at `key`.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Whether `key` is stored.
    #[must_use]
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.map.contains_key(key)
    }

    /// Stores `value` at `key`; returns the value before.
    pub fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        self.map.insert(key.to_vec(), value)
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.map.remove(key)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// All entries in key order, from either end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &V)> {
        self.map.iter().map(|(key, value)| (key.as_slice(), value))
    }

    /// The entries whose keys lie within both bounds, in key order, from either end.
    ///
    /// Bounds that cross give no entries, while `BTreeMap::range` panics.
    pub fn range<'a>(
        &'a self,
        lower: Bound<&'a [u8]>,
        upper: Bound<&'a [u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a V)> {
        self.iter()
            .filter(move |(key, _)| (lower, upper).contains(*key))
    }

    /// The entries whose keys start with `prefix`, in key order, from either end.
    pub fn prefix<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a V)> {
        self.iter().filter(move |(key, _)| key.starts_with(prefix))
    }

    /// The entry with the least key.
    #[must_use]
    pub fn first_key_value(&self) -> Option<(&[u8], &V)> {
        self.iter().next()
    }

    /// The entry with the greatest key.
    #[must_use]
    pub fn last_key_value(&self) -> Option<(&[u8], &V)> {
        self.iter().next_back()
    }

    /// Removes the entry with the least key.
    pub fn pop_first(&mut self) -> Option<(Vec<u8>, V)> {
        self.map.pop_first()
    }

    /// Removes the entry with the greatest key.
    pub fn pop_last(&mut self) -> Option<(Vec<u8>, V)> {
        self.map.pop_last()
    }

    /// The entry with the greatest key that is less than `key`, which need not be stored.
    #[must_use]
    pub fn predecessor(&self, key: &[u8]) -> Option<(&[u8], &V)> {
        self.iter().rfind(|(stored, _)| *stored < key)
    }

    /// The entry with the least key that is greater than `key`, which need not be stored.
    #[must_use]
    pub fn successor(&self, key: &[u8]) -> Option<(&[u8], &V)> {
        self.iter().find(|(stored, _)| *stored > key)
    }

    /// The entry with the longest key that is a prefix of `key`; `key` itself counts.
    #[must_use]
    pub fn longest_prefix(&self, key: &[u8]) -> Option<(&[u8], &V)> {
        self.iter()
            .filter(|(stored, _)| key.starts_with(stored))
            .max_by_key(|(stored, _)| stored.len())
    }

    /// The entries whose keys are prefixes of `key`, shortest first; `key` itself counts.
    #[must_use]
    pub fn ancestors(&self, key: &[u8]) -> Vec<(&[u8], &V)> {
        let mut found: Vec<_> = self
            .iter()
            .filter(|(stored, _)| key.starts_with(stored))
            .collect();
        found.sort_by_key(|(stored, _)| stored.len());
        found
    }

    /// The names closest to a name whose labels each end with a separator; see [`Closest`].
    #[must_use]
    pub fn closest(&self, name: &[u8], separator: u8, is_cut: impl Fn(&V) -> bool) -> Closest<'_> {
        let is_name = |n: usize| n == 0 || n == name.len() || name[n - 1] == separator;
        let common = |key: &[u8]| key.iter().zip(name).take_while(|(a, b)| a == b).count();
        // As many bytes of the name as some stored key begins with.
        let agree = self.iter().map(|(stored, _)| common(stored)).max();
        let exists = |n: &usize| agree.is_some_and(|agree| *n <= agree);
        let mut names = (0..=name.len()).filter(|n| is_name(*n));
        let encloser = names.rfind(exists).unwrap_or(0);
        let wildcard = [&name[..encloser], b"*", &[separator]].concat();
        let is_there = exists(&name.len());
        let stored = |key: &[u8]| self.map.get_key_value(key).map(|(k, _)| k.as_slice());
        let mut above = self.ancestors(name);
        above.retain(|(stored, _)| is_name(stored.len()));
        Closest {
            exact: stored(name),
            exists: is_there,
            encloser,
            ancestor: above.last().map(|(k, _)| *k),
            wildcard: stored(&wildcard).filter(|_| !is_there),
            predecessor: self.predecessor(name).map(|(k, _)| k),
            cut: above.iter().find(|(_, v)| is_cut(v)).map(|(k, _)| *k),
        }
    }

    /// What proves that a name is not there; see [`Denial`]. A stored key is below a cut if a
    /// shorter beginning of it, up to a separator or empty, is stored and a cut.
    #[must_use]
    pub fn denial(&self, name: &[u8], separator: u8, is_cut: impl Fn(&V) -> bool) -> Denial<'_> {
        let closest = self.closest(name, separator, &is_cut);
        let wildcard = [&name[..closest.encloser], b"*", &[separator]].concat();
        let is_below = |key: &[u8]| {
            (self.ancestors(key).into_iter()).any(|(above, value)| {
                let is_name = above.last().is_none_or(|last| *last == separator);
                above.len() < key.len() && is_name && is_cut(value)
            })
        };
        let before = |key: &[u8]| {
            let mut less = self.iter().rev().filter(|(stored, _)| *stored < key);
            less.find(|(stored, _)| !is_below(stored))
                .map(|(stored, _)| stored)
        };
        let wanted = !closest.exists;
        Denial {
            wildcard_exists: wanted && self.iter().any(|(key, _)| key.starts_with(&wildcard)),
            predecessor: before(name),
            wildcard_predecessor: before(&wildcard).filter(|_| wanted),
            closest,
        }
    }

    /// The [`ancestors`](Self::ancestors) of `key` that end where a component of `key` ends,
    /// shortest first.
    ///
    /// A component ends before a separator, after a separator, at the start and at the end of
    /// `key`: for `a/b` and `/`, at the lengths 0, 1, 2 and 3. So `com` and `com.` are both
    /// ancestors of `com.example`, and `co` is not.
    #[must_use]
    pub fn ancestors_sep(&self, key: &[u8], separator: u8) -> Vec<(&[u8], &V)> {
        let ends_component = |length: usize| {
            length == 0
                || length == key.len()
                || key[length] == separator
                || key[length - 1] == separator
        };
        let mut found = self.ancestors(key);
        found.retain(|(stored, _)| ends_component(stored.len()));
        found
    }

    /// Removes the entries whose keys start with `prefix` and returns them in key order.
    pub fn remove_prefix(&mut self, prefix: &[u8]) -> Vec<(Vec<u8>, V)> {
        let (gone, kept) = self
            .take()
            .into_iter()
            .partition(|(key, _)| key.starts_with(prefix));
        self.map = kept;
        Vec::from_iter::<BTreeMap<_, _>>(gone)
    }

    /// Keeps the entries for which `keep` returns true. It is called in key order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &mut V) -> bool) {
        self.map.retain(|key, value| keep(key, value));
    }

    /// Removes the entries whose keys are `key` or greater; returns them as a map.
    #[must_use]
    pub fn split_off(&mut self, key: &[u8]) -> Self {
        let (upper, lower) = self
            .take()
            .into_iter()
            .partition(|(stored, _)| stored.as_slice() >= key);
        self.map = lower;
        Self { map: upper }
    }

    /// Moves all entries of `other` to this map. For keys of both maps the value of `other` stays.
    pub fn append(&mut self, other: &mut Self) {
        for (key, value) in other.take() {
            self.map.insert(key, value);
        }
    }

    fn take(&mut self) -> BTreeMap<Vec<u8>, V> {
        std::mem::take(&mut self.map)
    }
}

impl<V: Clone> ByteMap<V> {
    /// Copies of all entries in key order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Vec<u8>, V)> {
        self.map.clone().into_iter().collect()
    }
}

impl<V> FromIterator<(Vec<u8>, V)> for ByteMap<V> {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, V)>>(entries: I) -> Self {
        Self {
            map: entries.into_iter().collect(),
        }
    }
}

impl<V> IntoIterator for ByteMap<V> {
    type Item = (Vec<u8>, V);
    type IntoIter = std::collections::btree_map::IntoIter<Vec<u8>, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(keys: &[&str]) -> ByteMap<usize> {
        keys.iter()
            .enumerate()
            .map(|(i, key)| (key.as_bytes().to_vec(), i))
            .collect()
    }

    fn names<'a, V: 'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a V)>) -> Vec<&'a str> {
        entries
            .into_iter()
            .map(|(key, _)| std::str::from_utf8(key).unwrap())
            .collect()
    }

    #[test]
    fn neighbours() {
        let map = map(&["", "a", "ab", "b"]);
        assert_eq!(names(map.predecessor(b"ab")), ["a"]);
        assert_eq!(names(map.predecessor(b"aa")), ["a"]);
        assert_eq!(names(map.predecessor(b"")), [""; 0]);
        assert_eq!(names(map.successor(b"")), ["a"]);
        assert_eq!(names(map.successor(b"aa")), ["ab"]);
        assert_eq!(names(map.successor(b"b")), [""; 0]);
    }

    #[test]
    fn prefixes_of_a_key() {
        let map = map(&["", "a", "a/", "a/b", "a/bc", "b"]);
        assert_eq!(names(map.longest_prefix(b"a/bd")), ["a/b"]);
        assert_eq!(
            names(map.ancestors(b"a/bc")),
            ["", "a", "a/", "a/b", "a/bc"]
        );
        assert_eq!(
            names(map.ancestors_sep(b"a/bc", b'/')),
            ["", "a", "a/", "a/bc"]
        );
        assert_eq!(names(map.ancestors_sep(b"a", b'/')), ["", "a"]);
    }

    #[test]
    fn ranges() {
        use Bound::{Excluded, Included, Unbounded};
        let map = map(&["a", "b", "c", "d"]);
        assert_eq!(names(map.range(Included(b"b"), Excluded(b"d"))), ["b", "c"]);
        assert_eq!(
            names(map.range(Excluded(b"b"), Unbounded).rev()),
            ["d", "c"]
        );
        assert_eq!(names(map.range(Included(b"d"), Included(b"a"))), [""; 0]);
        assert_eq!(names(map.range(Excluded(b"b"), Excluded(b"b"))), [""; 0]);
    }

    #[test]
    fn cutting_and_joining() {
        let mut left = map(&["a", "aa", "ab", "b"]);
        assert_eq!(left.remove_prefix(b"aa"), [(b"aa".to_vec(), 1)]);
        let mut right = left.split_off(b"ab");
        assert_eq!(
            (names(left.iter()), names(right.iter())),
            (vec!["a"], vec!["ab", "b"])
        );
        right.insert(b"a", 9);
        left.append(&mut right);
        assert!(right.is_empty());
        assert_eq!(
            left.to_vec(),
            [(b"a".to_vec(), 9), (b"ab".to_vec(), 2), (b"b".to_vec(), 3)]
        );
    }
}

//! What a thread with a guard does with a shared map: reading, and changing with references to what was there.

use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::{Bound, ControlFlow, RangeBounds};

use sapwood_qsbr::Guard;

use super::iter::Shown;
use super::map::checked;
use super::raw::batch;
use super::raw::mem::Live;
use super::raw::shared::ops::Outcome;
use super::raw::shared::trie::Trie;
use super::raw::shared::walk::{Walk, prefix_bounds};
use super::raw::shared::write::Mode;
use super::raw::view::View;
use super::read;
use crate::{Error, Rejected};

/// A [`QpShared`](super::QpShared) under a guard: references that it gives out live as long as the guard.
///
/// Stays on its thread. Operations on one key are linearizable. What combines several entries is not: see
/// [`exact`](Self::exact).
pub struct QpSharedView<'g, V> {
    trie: &'g Trie<V>,
    guard: Guard<'g>,
}

impl<V> Clone for QpSharedView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for QpSharedView<'_, V> {}

/// How often an exact query is tried before writers have to wait for it.
const EXACT_TRIES: usize = 8;

impl<'g, V: Send + Sync + 'static> QpSharedView<'g, V> {
    pub(crate) fn new(trie: &'g Trie<V>, guard: Guard<'g>) -> Self {
        assert!(
            guard.belongs_to(trie.domain()),
            "a guard of the map's own domain"
        );
        QpSharedView { trie, guard }
    }

    #[inline(always)]
    fn view(&self) -> View<'g, V, Live> {
        self.trie.guarded_view(self.guard)
    }

    /// Number of entries; exact while nobody writes.
    pub fn len(&self) -> usize {
        self.trie.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.view().root == 0
    }

    /// The value of a key. Waits for nobody. O(key length); with a point index, two cache lines.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&'g V> {
        let leaf = self.trie.find_guarded(self.guard, key.as_ref())?;
        self.view().value(leaf)
    }

    /// The stored key and its value.
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        let leaf = self.trie.find_guarded(self.guard, key.as_ref())?;
        self.view().entry(leaf)
    }

    /// Whether the key is stored.
    #[inline]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.trie.find_guarded(self.guard, key.as_ref()).is_some()
    }

    /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`. Each is looked up at a moment of its own.
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut [Option<&'g V>]) {
        assert_eq!(keys.len(), out.len(), "as many places as keys");
        let large = self.len() >= read::BATCH_FROM / 32;
        let view = self.view();
        self.trie
            .find_many_guarded(self.guard, keys, large, |i, leaf| {
                out[i] = (leaf != 0).then(|| view.value(leaf)).flatten();
            });
    }

    fn walk(&self, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> QpSharedRange<'g, V> {
        QpSharedRange {
            walk: Walk::new(self.view(), low, high),
        }
    }

    /// All entries in ascending order of keys, from both ends; weakly consistent: see [`QpSharedRange`].
    pub fn iter(&self) -> QpSharedRange<'g, V> {
        self.walk(Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries between two bounds, in order, from both ends. Bounds that have crossed give none.
    pub fn range<K, R>(&self, bounds: R) -> QpSharedRange<'g, V>
    where
        K: AsRef<[u8]> + ?Sized,
        R: RangeBounds<K>,
    {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.walk(owned(bounds.start_bound()), owned(bounds.end_bound()))
    }

    /// The entries whose keys start with `prefix` (the key equal to it included), in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> QpSharedRange<'g, V> {
        let (low, high) = prefix_bounds(prefix.as_ref());
        self.walk(low, high)
    }

    /// Calls `each` with the entries in ascending order until it breaks.
    pub fn for_each<B>(
        &self,
        mut each: impl FnMut(&'g [u8], &'g V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (key, value) in self.iter() {
            each(key, value)?;
        }
        ControlFlow::Continue(())
    }

    /// The entry with the least key.
    pub fn first_key_value(&self) -> Option<(&'g [u8], &'g V)> {
        self.iter().next()
    }

    /// The entry with the greatest key.
    pub fn last_key_value(&self) -> Option<(&'g [u8], &'g V)> {
        self.iter().next_back()
    }

    /// The entry with the least key greater than `key`, whether `key` is there or not: a step of a walk that holds nothing
    /// between its steps, as the kernel's `get_next_key` does.
    pub fn next_after(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        let view = self.view();
        read::seek(view, |c| c.seek_ge(&view, key.as_ref(), true))
    }

    /// The entry with the greatest key less than `key`.
    pub fn predecessor(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        let view = self.view();
        read::seek(view, |c| c.seek_le(&view, key.as_ref(), true))
    }

    /// The entry with the least key greater than `key`; the same as [`next_after`](Self::next_after).
    pub fn successor(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        self.next_after(key)
    }

    /// The entry with the longest key that is a prefix of `key` (`key` itself included).
    ///
    /// What it gives was there and is a prefix. Beside writers it may not be the longest at any moment: the walk may
    /// meet two changes that never stood together. See [`exact`](Self::exact).
    pub fn longest_prefix(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        self.ancestors(key).pop()
    }

    /// All entries whose keys are prefixes of `key` (`key` itself included), shortest first; beside writers as
    /// [`longest_prefix`](Self::longest_prefix) is.
    pub fn ancestors(&self, key: impl AsRef<[u8]>) -> Vec<(&'g [u8], &'g V)> {
        let key = key.as_ref();
        // A branch that came between the two walks down may hold a key that is none.
        read::ancestors(self.view(), key, |ancestor| key.starts_with(ancestor))
    }

    /// The entries whose keys are prefixes of `key` that end where a component of `key` ends: the prefix ends in
    /// `separator`, is followed by it, is empty, or is the whole key. Shortest first.
    pub fn ancestors_at(&self, key: impl AsRef<[u8]>, separator: u8) -> Vec<(&'g [u8], &'g V)> {
        let key = key.as_ref();
        read::ancestors(self.view(), key, |ancestor| {
            key.starts_with(ancestor) && read::at_separator(ancestor, key, separator)
        })
    }

    /// Runs a query of several entries so that its result is exact for one moment: again and again until nothing was
    /// changed meanwhile, and after a few times while writers wait.
    ///
    /// The query must not change the map, by this view or otherwise: it would wait for itself.
    ///
    /// ```
    /// # let map = sapwood::qp::QpShared::new()?;
    /// map.insert("a", 1)?;
    /// let pin = map.pin();
    /// let (zone, first) = pin.view().exact(|view| (view.longest_prefix("ab"), view.first_key_value()));
    /// assert_eq!(zone, first);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn exact<R>(&self, query: impl Fn(QpSharedView<'g, V>) -> R) -> R {
        for _ in 0..EXACT_TRIES {
            if let Some(result) = self.trie.undisturbed(|| query(*self)) {
                return result;
            }
        }
        let _writers_wait = self.trie.all_shards();
        query(*self)
    }

    /// Runs one change; a change that lacks memory is tried again after all free memory was collected.
    fn change(
        &self,
        key: &[u8],
        value: V,
        mode: &mut Mode<'_, V>,
    ) -> Result<Outcome<'g, V>, Rejected<V>> {
        let garbage = checked(key)
            .map(drop)
            .and_then(|()| Ok(self.trie.try_admit(key.len())?));
        match garbage {
            Ok(()) => self.trie.change(self.guard, key, value, mode),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Inserts or replaces; the value that was replaced can be read as long as the guard is held.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ArenaFull`], [`Error::GarbageLimit`], [`Error::Full`], with the value given
    /// back; the map is unchanged.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: V) -> Result<Option<&'g V>, Rejected<V>> {
        match self.change(key.as_ref(), value, &mut Mode::Put)? {
            Outcome::Replaced(old) => Ok(Some(old)),
            _ => Ok(None),
        }
    }

    /// Inserts a key that is not there.
    ///
    /// # Errors
    /// [`Error::Exists`] when it is there; else as [`insert`](Self::insert).
    pub fn insert_new(&self, key: impl AsRef<[u8]>, value: V) -> Result<&'g V, Rejected<V>> {
        match self.change(key.as_ref(), value, &mut Mode::New)? {
            Outcome::Inserted(new) | Outcome::Replaced(new) => Ok(new),
            Outcome::Refused(_, value) => Err(Rejected {
                value,
                error: Error::Exists,
            }),
        }
    }

    /// Replaces the value of a key that is there, and gives the old one.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is not there; else as [`insert`](Self::insert).
    pub fn replace(&self, key: impl AsRef<[u8]>, value: V) -> Result<&'g V, Rejected<V>> {
        match self.change(key.as_ref(), value, &mut Mode::Replace)? {
            Outcome::Inserted(old) | Outcome::Replaced(old) => Ok(old),
            Outcome::Refused(_, value) => Err(Rejected {
                value,
                error: Error::Absent,
            }),
        }
    }

    /// Replaces the value of a key if it equals `current`; says what it found.
    ///
    /// The comparison must not wait for all writers: it must not call `verify`, `memory`, `contention` or `exact`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        current: &V,
        new: V,
    ) -> Result<Exchange<'g, V>, Rejected<V>>
    where
        V: PartialEq,
    {
        let mut same = |value: &V| value == current;
        Ok(
            match self.change(key.as_ref(), new, &mut Mode::If(&mut same))? {
                Outcome::Inserted(old) | Outcome::Replaced(old) => Exchange::Done(old),
                Outcome::Refused(found, value) => Exchange::Refused { found, value },
            },
        )
    }

    /// The value of a key; inserts the one that `make` makes if it is not there.
    ///
    /// No lock is held while `make` runs. If another thread inserts the key meanwhile, that thread's value
    /// is the result, and the one that was made is dropped.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn get_or_insert_with(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> V,
    ) -> Result<&'g V, Error> {
        let key = key.as_ref();
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        match self.change(key, make(), &mut Mode::New)? {
            Outcome::Inserted(value) | Outcome::Replaced(value) => Ok(value),
            Outcome::Refused(Some(value), _) => Ok(value),
            Outcome::Refused(None, _) => unreachable!("a key is there or is inserted"),
        }
    }

    /// Reads what changes of these keys are going to read.
    pub(crate) fn warm<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        batch::warm(&self.view(), keys);
    }

    pub(crate) fn compact_step(&self, budget: usize) -> Result<bool, Error> {
        Ok(self.trie.compact(self.guard, budget.max(1))?)
    }

    /// Removes a key; the value can be read as long as the guard is held.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], as a branch with a child less is built beside the old one; [`Error::GarbageLimit`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<&'g V>, Error> {
        self.remove_if(key, |_| true)
    }

    /// Removes a key if its value passes a test. The test may be run several times; the last counts.
    ///
    /// It must not wait for all writers: not call `verify`, `memory`, `contention` or `exact`.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_if(
        &self,
        key: impl AsRef<[u8]>,
        mut test: impl FnMut(&V) -> bool,
    ) -> Result<Option<&'g V>, Error> {
        let key = key.as_ref();
        if key.len() > super::MAX_KEY {
            return Ok(None);
        }
        self.trie.try_admit(key.len())?;
        Ok(self.trie.take(self.guard, key, &mut test)?)
    }
}

/// What came of a [`compare_exchange`](QpSharedView::compare_exchange).
#[derive(Debug, PartialEq, Eq)]
pub enum Exchange<'g, V> {
    /// The value was replaced: the old one.
    Done(&'g V),
    /// It was another, or the key was not there.
    Refused {
        /// What was found.
        found: Option<&'g V>,
        /// The value that was to be stored.
        value: V,
    },
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for QpSharedView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl<'g, V: Send + Sync + 'static> IntoIterator for QpSharedView<'g, V> {
    type Item = (&'g [u8], &'g V);
    type IntoIter = QpSharedRange<'g, V>;

    fn into_iter(self) -> QpSharedRange<'g, V> {
        self.iter()
    }
}

/// Entries of a shared map in ascending order of keys, from both ends, while others write.
///
/// Weakly consistent: keys come in order and never twice; a key that is there throughout is not skipped; of keys that
/// are inserted or removed meanwhile some come and some do not. It holds its guard: for long walks that should
/// not hold memory back, take [`next_after`](QpSharedView::next_after) under a guard for each step.
pub struct QpSharedRange<'g, V> {
    walk: Walk<'g, V>,
}

impl<V> Clone for QpSharedRange<'_, V> {
    fn clone(&self) -> Self {
        QpSharedRange {
            walk: self.walk.clone(),
        }
    }
}

impl<'g, V> Iterator for QpSharedRange<'g, V> {
    type Item = (&'g [u8], &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let leaf = self.walk.next()?;
        self.walk.entry(leaf)
    }
}

impl<V> DoubleEndedIterator for QpSharedRange<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let leaf = self.walk.next_back()?;
        self.walk.entry(leaf)
    }
}

impl<V> FusedIterator for QpSharedRange<'_, V> {}

impl<V: fmt::Debug> fmt::Debug for QpSharedRange<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.clone().map(|(k, v)| (k.escape_ascii(), v));
        f.debug_map().entries(shown.map(Shown::of)).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::qp::QpShared;

    /// The prefixes of a key when `change` happens as soon as the second way down has found the empty key.
    fn prefixes(
        map: &QpShared<u32>,
        key: &[u8],
        change: impl FnOnce(),
    ) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let pin = map.pin();
        let view = pin.view().view();
        let (mut found, mut change) = (Vec::new(), Some(change));
        let longest = view.prefixes_of(key, |leaf| {
            found.push(view.key(leaf).unwrap().to_vec());
            if let Some(change) = change.take() {
                change();
            }
        });
        assert!(change.is_none(), "there was a second way");
        (found, longest.map(|leaf| view.key(leaf).unwrap().to_vec()))
    }

    fn map(keys: &[&str]) -> QpShared<u32> {
        let map = QpShared::new().unwrap();
        for key in keys {
            map.insert(key, 1).unwrap();
        }
        map
    }

    #[test]
    fn a_prefix_that_becomes_a_lone_leaf_is_found() {
        let map = map(&["", "a", "axy"]);
        let (found, longest) = prefixes(&map, b"axz", || {
            assert!(map.remove("axy").unwrap());
        });
        assert_eq!(found, [b"".to_vec(), b"a".to_vec()]);
        assert_eq!(longest, Some(b"a".to_vec()));
    }

    #[test]
    fn a_prefix_whose_value_changes_is_found_once() {
        let map = map(&["", "a", "ab"]);
        let (found, longest) = prefixes(&map, b"ax", || {
            map.insert("a", 2).unwrap();
        });
        assert_eq!(found, [b"".to_vec(), b"a".to_vec()]);
        assert_eq!(longest, Some(b"a".to_vec()));
        // The same, when it is alone as well.
        let (found, _) = prefixes(&map, b"ax", || {
            assert!(map.remove("ab").unwrap());
            map.insert("a", 3).unwrap();
        });
        assert_eq!(found, [b"".to_vec(), b"a".to_vec()]);
    }

    #[test]
    fn a_prefix_that_comes_meanwhile_is_in_its_place() {
        let map = map(&["", "a", "axyz"]);
        let (found, longest) = prefixes(&map, b"axyq", || {
            assert!(map.remove("axyz").unwrap());
            map.insert("axy", 2).unwrap();
            assert!(map.remove("a").unwrap());
        });
        assert_eq!(found, [b"".to_vec(), b"axy".to_vec()]);
        assert_eq!(longest, Some(b"axy".to_vec()));
        // The leaf that the first way ended at goes, and a shorter prefix comes.
        let (found, longest) = prefixes(&map, b"axy", || {
            map.insert("ax", 2).unwrap();
            assert!(map.remove("axy").unwrap());
        });
        assert_eq!(found, [b"".to_vec(), b"ax".to_vec(), b"axy".to_vec()]);
        assert_eq!(longest, Some(b"axy".to_vec()));
    }
}

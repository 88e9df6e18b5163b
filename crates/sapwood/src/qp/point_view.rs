//! What a thread with a guard does with a map that has only the index.

use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::ControlFlow;

use sapwood_qsbr::Guard;

use super::iter::Shown;
use super::map::checked;
use super::raw::alone::Alone;
use super::raw::alone::ops::{Removed, Test, Walk};
use super::raw::shared::ops::Outcome;
use super::raw::shared::write::Mode;
use super::read;
use super::shared_view::Exchange;
use crate::{Error, Rejected};

/// A [`PointMap`](super::PointMap) under a guard: references that it gives out live as long as the guard.
///
/// Stays on its thread. Operations on one key are linearizable.
pub struct PointMapView<'g, V> {
    map: &'g Alone<V>,
    guard: Guard<'g>,
}

impl<V> Clone for PointMapView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for PointMapView<'_, V> {}

impl<'g, V: Send + Sync + 'static> PointMapView<'g, V> {
    #[inline]
    pub(super) fn new(map: &'g Alone<V>, guard: Guard<'g>) -> Self {
        assert!(
            guard.belongs_to(map.domain()),
            "a guard of the map's own domain"
        );
        PointMapView { map, guard }
    }

    /// Number of entries; exact while nobody writes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no entry; as [`len`](Self::len) says.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. Waits for nobody. Two cache lines.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&'g V> {
        let leaf = self.map.find(self.guard, key.as_ref())?;
        Some(self.map.value(self.guard, leaf))
    }

    /// The stored key and its value.
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<(&'g [u8], &'g V)> {
        let leaf = self.map.find(self.guard, key.as_ref())?;
        Some(self.map.entry(self.guard, leaf))
    }

    /// Whether the key is stored.
    #[inline]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.map.find(self.guard, key.as_ref()).is_some()
    }

    /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`. Each is looked up at a moment of its own.
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut [Option<&'g V>]) {
        assert_eq!(keys.len(), out.len(), "as many places as keys");
        let large = self.len() >= read::BATCH_FROM / 32;
        self.map.find_many(self.guard, keys, large, |i, leaf| {
            out[i] = (leaf != 0).then(|| self.map.value(self.guard, leaf));
        });
    }

    /// All entries, in no order; weakly consistent: see [`PointMapIter`].
    pub fn iter(&self) -> PointMapIter<'g, V> {
        PointMapIter {
            walk: self.map.walk(self.guard),
        }
    }

    /// Calls `each` with all entries, in no order, until it breaks.
    pub fn for_each<B>(
        &self,
        mut each: impl FnMut(&'g [u8], &'g V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (key, value) in self.iter() {
            each(key, value)?;
        }
        ControlFlow::Continue(())
    }

    /// A few keys of a walk, and where to go on.
    pub(super) fn some_keys(&self, from: u32) -> (Vec<Vec<u8>>, Option<u32>) {
        self.map.some_keys(self.guard, from)
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
            .and_then(|()| Ok(self.map.try_admit(key.len())?));
        match garbage {
            Ok(()) => self.map.change(self.guard, key, value, mode),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Inserts or replaces; the value that was replaced can be read as long as the guard is held.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ArenaFull`], [`Error::GarbageLimit`], [`Error::Full`], with the value given
    /// back; the map is unchanged. See [`PointMap::insert`](super::PointMap::insert).
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
    /// The comparison must not wait for all writers: it must not call `verify`, `memory` or `contention`.
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

    /// Removes a key; the value can be read as long as the guard is held. Needs no memory.
    ///
    /// # Errors
    /// [`Error::GarbageLimit`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<&'g V>, Error> {
        Ok(self.take(key.as_ref(), None)?.value)
    }

    /// Removes a key if its value passes a test. The test may be run several times; the last counts.
    ///
    /// It must not wait for all writers: not call `verify`, `memory` or `contention`.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_if(
        &self,
        key: impl AsRef<[u8]>,
        mut test: impl FnMut(&V) -> bool,
    ) -> Result<Option<&'g V>, Error> {
        Ok(self.take(key.as_ref(), Some(&mut test))?.value)
    }

    #[inline]
    pub(super) fn take(
        &self,
        key: &[u8],
        test: Option<&mut Test<'_, V>>,
    ) -> Result<Removed<'g, V>, Error> {
        self.map.try_admit(key.len())?;
        Ok(self.map.take(self.guard, key, test))
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for PointMapView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl<'g, V: Send + Sync + 'static> IntoIterator for PointMapView<'g, V> {
    type Item = (&'g [u8], &'g V);
    type IntoIter = PointMapIter<'g, V>;

    fn into_iter(self) -> PointMapIter<'g, V> {
        self.iter()
    }
}

/// Entries of a [`PointMap`](super::PointMap) in no order, while others write.
///
/// Weakly consistent, also while tables grow and shrink: no key comes twice; a key that is there throughout is not skipped; of keys that are
/// inserted or removed meanwhile some come and some do not. Each value was the key's at some time of the walk. It holds its guard.
///
/// ```
/// # use sapwood::qp::PointMap;
/// let map = PointMap::new()?;
/// map.insert("a", 1)?;
/// map.insert("b", 2)?;
/// let pin = map.pin();
/// let mut keys: Vec<_> = pin.view().iter().map(|(key, _)| key).collect();
/// keys.sort();
/// assert_eq!(keys, [b"a", b"b"]);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct PointMapIter<'g, V> {
    walk: Walk<'g, V>,
}

impl<V> Clone for PointMapIter<'_, V> {
    fn clone(&self) -> Self {
        PointMapIter {
            walk: self.walk.clone(),
        }
    }
}

impl<'g, V> Iterator for PointMapIter<'g, V> {
    type Item = (&'g [u8], &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next()
    }
}

impl<V> FusedIterator for PointMapIter<'_, V> {}

impl<V: fmt::Debug> fmt::Debug for PointMapIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.clone().map(|(k, v)| (k.escape_ascii(), v));
        f.debug_map().entries(shown.map(Shown::of)).finish()
    }
}

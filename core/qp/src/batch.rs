//! Changes of many keys in one call.
//!
//! The changes are made one by one, in the order given. In a large map, sixteen interleaved
//! descents first fetch the cache lines that the next sixteen changes will read, so that their
//! cache misses overlap. Each change still walks down by itself, because an earlier change may
//! alter the path of a later one.

use smallvec::SmallVec;

use super::map::QpMap;
use super::raw::batch::{LANES, warm};
use super::raw::leaf::MAX_KEY;
use super::raw::value::{Accepts, IntoValue, Value};
#[cfg(feature = "std")]
use super::shared::QpShared;
#[cfg(feature = "std")]
use super::txn::QpTxn;
use crate::{Error, Rejected};

/// From this many entries on, a map is much larger than the caches, and the descents beforehand
/// save time. Measured with domain names as keys, insertions gain nothing up to 200,000 entries,
/// and 30 % at a million.
const WARM_FROM: usize = 1 << 18;

/// What changes of many keys need of a map.
pub(crate) trait Keys {
    /// Fetches into the cache what changes of these keys will read.
    fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>);
    fn count(&self) -> usize;
    /// Returns whether the key was there.
    fn take(&mut self, key: &[u8]) -> Result<bool, Error>;
}

/// What insertions of many entries need of a map.
pub(crate) trait Many<V: ?Sized + Value>: Keys {
    /// Inserts or replaces; returns whether the key is new.
    fn put<N: IntoValue<V>>(&mut self, key: &[u8], value: N) -> Result<bool, Rejected<V::Held>>
    where
        V: Accepts<N>;
}

/// Fetches into the cache what changes of these keys will read, if the map is large.
#[inline]
fn prepare<'k, T: Keys>(map: &T, keys: impl Iterator<Item = &'k [u8]>) {
    if map.count() >= WARM_FROM {
        map.fetch(keys);
    }
}

/// Inserts entries in order; returns how many keys are new.
pub(crate) fn insert<
    V: ?Sized + Value + Accepts<N>,
    T: Many<V>,
    K: AsRef<[u8]>,
    N: IntoValue<V>,
>(
    map: &mut T,
    entries: impl Iterator<Item = (K, N)>,
) -> Result<usize, Rejected<V::Held>> {
    let mut entries = entries;
    let mut new = 0;
    let mut keys: SmallVec<[K; LANES]> = SmallVec::new();
    let mut values: SmallVec<[N; LANES]> = SmallVec::new();
    loop {
        // A small map takes one entry at a time, so no entry is taken before it is needed.
        if map.count() < WARM_FROM {
            let Some((key, value)) = entries.next() else {
                return Ok(new);
            };
            new += usize::from(map.put(key.as_ref(), value)?);
            continue;
        }
        for entry in entries.by_ref().take(LANES) {
            // The group ends with a key that will be rejected; the entries that follow stay in the
            // iterator.
            let last = entry.0.as_ref().len() > MAX_KEY;
            keys.push(entry.0);
            values.push(entry.1);
            if last {
                break;
            }
        }
        if keys.is_empty() {
            return Ok(new);
        }
        // What is fetched is what is inserted, whatever a key answers when it is asked again.
        let bytes: SmallVec<[&[u8]; LANES]> = keys.iter().map(AsRef::as_ref).collect();
        map.fetch(bytes.iter().copied());
        for (key, value) in bytes.iter().zip(values.drain(..)) {
            new += usize::from(map.put(key, value)?);
        }
        drop(bytes);
        keys.clear();
    }
}

/// Removes keys in order; returns how many were there.
pub(crate) fn remove<T: Keys, K: AsRef<[u8]>>(map: &mut T, keys: &[K]) -> Result<usize, Error> {
    let mut removed = 0;
    for group in keys.chunks(LANES) {
        let mut bytes: [&[u8]; LANES] = [&[]; LANES];
        for (to, key) in bytes.iter_mut().zip(group) {
            *to = key.as_ref();
        }
        let group = &bytes[..group.len()];
        prepare(map, group.iter().copied());
        for key in group {
            removed += usize::from(map.take(key)?);
        }
    }
    Ok(removed)
}

impl<V: ?Sized + Value> Keys for QpMap<V> {
    fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        warm(&self.view(), keys);
    }

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn take(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.remove(key).is_some())
    }
}

impl<V: ?Sized + Value> Many<V> for QpMap<V> {
    #[inline]
    fn put<N: IntoValue<V>>(&mut self, key: &[u8], value: N) -> Result<bool, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        self.insert(key, value).map(|old| old.is_none())
    }
}

impl<V: ?Sized + Value> QpMap<V> {
    /// Inserts or replaces many entries, in the order of the iterator; returns how many keys are
    /// new. Of equal keys, the last wins. Values that are replaced are dropped.
    ///
    /// O(sum of the key lengths).
    ///
    /// The result is the same as that of single insertions. In a map of about 300,000 entries or
    /// more it takes less time, because the cache misses of sixteen entries overlap.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`] or [`Error::ArenaFull`], with the value of
    /// the first entry that was rejected. All entries before it are in the map, none after it. If
    /// the key was too long, the entries after it are still in the iterator. Otherwise, up to 15 of
    /// them were taken from the iterator and are dropped.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let mut map = QpMap::from([("ash", 1), ("elm", 2)]);
    /// assert_eq!(map.insert_many([("elm", 3), ("oak", 4), ("oak", 5)])?, 1);
    /// assert!(map.iter().map(|(_, tree)| *tree).eq([1, 3, 5]));
    ///
    /// // Leaving out an entry that cannot be inserted:
    /// let long = "x".repeat(70_000);
    /// let mut entries = [("fir", 6), (&long, 7), ("yew", 8)].into_iter();
    /// let rejected = map.insert_many(entries.by_ref()).unwrap_err();
    /// assert_eq!(rejected.value, 7);
    /// assert_eq!(map.insert_many(entries)?, 1);
    /// assert_eq!(map.len(), 5);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, N: IntoValue<V>>(
        &mut self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<usize, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        insert::<V, _, _, _>(self, entries.into_iter())
    }
}

impl<V: ?Sized + Value> QpMap<V> {
    /// Removes many keys and drops their values; returns how many keys were there. A removal needs
    /// no memory. [`remove`](Self::remove) returns the value.
    ///
    /// O(sum of the key lengths).
    ///
    /// In a large map this is quicker than single removals, as [`insert_many`](Self::insert_many)
    /// is quicker than single insertions.
    ///
    /// ```
    /// use sapwood::qp::QpMap;
    /// let mut map = QpMap::from([("ash", 1), ("elm", 2), ("oak", 3)]);
    /// assert_eq!(map.remove_many(&["oak", "fir", "oak", "ash"]), 2);
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn remove_many<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> usize {
        // An owned removal cannot fail.
        remove(self, keys).unwrap_or(0)
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> Keys for QpTxn<'_, V> {
    fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        warm(&self.view(), keys);
    }

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn take(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.remove(key).map(|old| old.is_some())
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> Many<V> for QpTxn<'_, V> {
    #[inline]
    fn put<N: IntoValue<V>>(&mut self, key: &[u8], value: N) -> Result<bool, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        self.insert(key, value).map(|old| old.is_none())
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> QpTxn<'_, V> {
    /// Inserts or replaces many entries, in the order of the iterator; returns how many keys are
    /// new. Of equal keys, the last wins.
    ///
    /// O(sum of the key lengths).
    ///
    /// The result is the same as that of single insertions. In a map of about 300,000 entries or
    /// more it takes less time, because the cache misses of sixteen entries overlap.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), with the value of the first entry that was rejected. All
    /// entries before it are in the transaction, none after it. If the key was too long, the
    /// entries after it are still in the iterator. Otherwise, up to 15 of them were taken from the
    /// iterator and are dropped.
    ///
    /// ```
    /// use sapwood::qp::QpStore;
    /// let store = QpStore::new()?;
    /// let mut txn = store.begin();
    /// assert_eq!(txn.insert_many([("elm", 1), ("oak", 2), ("elm", 3)])?, 2);
    /// assert_eq!(txn.remove_many(&["oak", "fir"])?, 1);
    /// txn.commit();
    /// assert_eq!(store.snapshot().get("elm"), Some(&3));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, N: IntoValue<V>>(
        &mut self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<usize, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        insert::<V, _, _, _>(self, entries.into_iter())
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> QpTxn<'_, V> {
    /// Removes many keys; returns how many were there.
    ///
    /// O(sum of the key lengths).
    ///
    /// # Errors
    /// As [`remove`](Self::remove). The keys before the one that failed are removed.
    pub fn remove_many<K: AsRef<[u8]>>(&mut self, keys: &[K]) -> Result<usize, Error> {
        remove(self, keys)
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> Keys for &QpShared<V> {
    fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.pin().view().warm(keys);
    }

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn take(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.remove(key)
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> Many<V> for &QpShared<V> {
    #[inline]
    fn put<N: IntoValue<V>>(&mut self, key: &[u8], value: N) -> Result<bool, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        self.insert(key, value)
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> QpShared<V> {
    /// Inserts or replaces many entries, in the order of the iterator; returns how many keys are
    /// new. Of equal keys, the last wins.
    ///
    /// O(sum of the key lengths).
    ///
    /// The result is the same as that of single insertions. Each takes effect at a moment of its
    /// own. In a map of about 300,000 entries or more they take less time, because the cache misses
    /// of sixteen entries overlap.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), with the value of the first entry that was rejected. All
    /// entries before it are in the map, none after it. If the key was too long, the entries after
    /// it are still in the iterator. Otherwise, up to 15 of them were taken from the iterator and
    /// are dropped.
    ///
    /// ```
    /// use sapwood::qp::QpShared;
    /// let map = QpShared::new()?;
    /// assert_eq!(map.insert_many([("elm", 1), ("oak", 2), ("elm", 3)])?, 2);
    /// assert_eq!(map.remove_many(&["oak", "fir"])?, 1);
    /// assert_eq!(map.get("elm"), Some(3));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, N: IntoValue<V>>(
        &self,
        entries: impl IntoIterator<Item = (K, N)>,
    ) -> Result<usize, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        insert::<V, _, _, _>(&mut &*self, entries.into_iter())
    }
}

#[cfg(feature = "std")]
impl<V: ?Sized + Value + Send + Sync + 'static> QpShared<V> {
    /// Removes many keys; returns how many were there.
    ///
    /// O(sum of the key lengths).
    ///
    /// # Errors
    /// As [`remove`](Self::remove). The keys before the one that failed are removed.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize, Error> {
        remove(&mut &*self, keys)
    }
}

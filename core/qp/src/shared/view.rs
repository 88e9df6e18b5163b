//! Views: the methods of a shared map under a guard, which return references.

use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;

use sapwood_qsbr::Guard;

use super::Order;
use crate::iter::Shown;
use crate::map::checked;
use crate::raw::value::{storing, storing_taken};
use crate::raw::writers::ops::{Mode, Operations, Outcome, Removed, Structure, Test};
use crate::read;
use crate::{Accepts, IntoValue, ReadEntry, Value};
use crate::{Error, Rejected};

/// A [`SharedMap`](super::SharedMap) under a guard. References that it returns live as long as the
/// guard.
///
/// A view stays on its thread. Operations on one key are linearizable. A query that combines
/// several entries is not; an ordered map has [`exact`](SharedView::exact) for such queries.
pub struct SharedView<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> {
    pub(super) raw: &'g O::Raw<V>,
    pub(super) guard: Guard<'g>,
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Clone for SharedView<'_, O, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Copy for SharedView<'_, O, V> {}

impl<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> SharedView<'g, O, V> {
    #[inline]
    pub(super) fn new(raw: &'g O::Raw<V>, guard: Guard<'g>) -> Self {
        assert!(
            guard.belongs_to(raw.domain()),
            "{}",
            sapwood_common::raw::FOREIGN_GUARD
        );
        SharedView { raw, guard }
    }

    /// Number of entries. It is exact while nobody writes.
    ///
    /// O(shards).
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether the map has no entry.
    ///
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.raw.is_vacant()
    }

    /// The value of a key. With an index, it touches two cache lines; otherwise it takes O(key
    /// length). It waits for nobody, with one exception: in an unordered map it waits when writers
    /// move eight whole tables meanwhile.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&'g V> {
        let leaf = self.raw.find_guarded(self.guard, key.as_ref())?;
        Some(self.raw.value(self.guard, leaf))
    }

    /// The stored key and its value.
    ///
    /// As [`get`](Self::get).
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<ReadEntry<'g, V>> {
        let leaf = self.raw.find_guarded(self.guard, key.as_ref())?;
        let (key, value) = self.raw.entry(self.guard, leaf);
        Some((key.into(), value))
    }

    /// Whether the key is stored.
    ///
    /// As [`get`](Self::get).
    #[inline]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.raw.find_guarded(self.guard, key.as_ref()).is_some()
    }

    /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`. Each key is looked up
    /// at a moment of its own.
    ///
    /// O(sum of the key lengths).
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut [Option<&'g V>]) {
        assert_eq!(keys.len(), out.len(), "`keys` and `out` differ in length");
        let large = self.len() >= read::BATCH_FROM / 32;
        if !large {
            for (key, out) in keys.iter().zip(out) {
                *out = self.get(key);
            }
            return;
        }
        self.raw.find_many_guarded(self.guard, keys, |i, leaf| {
            out[i] = (leaf != 0).then(|| self.raw.value(self.guard, leaf));
        });
    }

    /// All entries. In an ordered map they come in ascending order of keys, from both ends: see
    /// [`QpSharedRange`](super::QpSharedRange). In an unordered map they come in no order: see
    /// [`PointMapIter`](super::PointMapIter).
    ///
    /// Each step is O(1) on average, or O(key length) after a change at the place where it stands.
    pub fn iter(&self) -> O::Iter<'g, V> {
        O::iter(self.raw, self.guard)
    }

    /// Calls `each` with all entries until it breaks, in the order of [`iter`](Self::iter).
    ///
    /// O(entries).
    pub fn for_each<B>(
        &self,
        mut each: impl FnMut(&[u8], &'g V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (key, value) in self.iter() {
            each(&key, value)?;
        }
        ControlFlow::Continue(())
    }

    /// Runs one change. A change that lacks memory, or room for garbage, runs again after free
    /// memory was collected.
    fn change<'a>(
        &self,
        key: &[u8],
        value: V::New<'a>,
        mode: Mode,
    ) -> Result<Outcome<'g, V, V::New<'a>>, Rejected<V::New<'a>>> {
        match checked(key) {
            Ok(key) => self.raw.change(self.guard, key, value, mode),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Removes a key; returns its value. The reference lives as long as the guard.
    ///
    /// O(key length), if no other writer is at the same branch.
    ///
    /// # Errors
    /// As [`SharedMap::remove`](super::SharedMap::remove).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<&'g V>, Error> {
        Ok(self.take(key.as_ref())?.value)
    }

    /// Removes a key if `test` returns true for its value; returns the value. The test may run
    /// several times; its last answer counts.
    ///
    /// As [`SharedMap::remove_if`](super::SharedMap::remove_if).
    ///
    /// No lock is held while the test runs, so it may call every method of this map.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_if(
        &self,
        key: impl AsRef<[u8]>,
        mut test: impl FnMut(&V) -> bool,
    ) -> Result<Option<&'g V>, Error> {
        Ok(self.take_if(key.as_ref(), &mut test)?.value)
    }

    #[inline]
    pub(super) fn take(&self, key: &[u8]) -> Result<Removed<'g, V>, Error> {
        Ok(self.raw.take(self.guard, key, None)?)
    }

    pub(super) fn take_if(
        &self,
        key: &[u8],
        test: &mut Test<'_, V>,
    ) -> Result<Removed<'g, V>, Error> {
        Ok(self.raw.take_if(self.guard, key, test)?)
    }

    /// The next keys of a walk, and the place where it goes on.
    pub(super) fn next_keys(
        &self,
        from: Option<Place<O, V>>,
    ) -> (Vec<Vec<u8>>, Option<Place<O, V>>) {
        self.raw.next_keys(self.guard, from)
    }

    pub(super) fn put<'a>(
        &self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Option<&'g V>, Rejected<V::New<'a>>> {
        match self.change(key, value, Mode::Put)? {
            Outcome::Replaced(old) => Ok(Some(old)),
            _ => Ok(None),
        }
    }

    pub(super) fn put_new<'a>(
        &self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<&'g V, Rejected<V::New<'a>>> {
        match self.change(key, value, Mode::New)? {
            Outcome::Inserted(new) | Outcome::Replaced(new) => Ok(new),
            Outcome::Refused(_, value) => Err(Rejected {
                value,
                error: Error::Exists,
            }),
        }
    }

    pub(super) fn put_over<'a>(
        &self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<&'g V, Rejected<V::New<'a>>> {
        match self.change(key, value, Mode::Replace)? {
            Outcome::Inserted(old) | Outcome::Replaced(old) => Ok(old),
            Outcome::Refused(_, value) => Err(Rejected {
                value,
                error: Error::Absent,
            }),
        }
    }

    pub(super) fn exchange<'a>(
        &self,
        key: &[u8],
        current: &V,
        new: V::New<'a>,
    ) -> Result<Outcome<'g, V, V::New<'a>>, Rejected<V::New<'a>>>
    where
        V: PartialEq,
    {
        match checked(key) {
            Ok(key) => (self.raw).change_if(self.guard, key, new, &mut |value| value == current),
            Err(error) => Err(Rejected { value: new, error }),
        }
    }

    /// The value of a key; inserts `value` if the key is absent.
    pub(super) fn get_or_put<'a>(
        &self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<&'g V, Rejected<V::New<'a>>> {
        match self.change(key, value, Mode::New)? {
            Outcome::Inserted(value) | Outcome::Replaced(value) => Ok(value),
            Outcome::Refused(Some(value), _) => Ok(value),
            Outcome::Refused(None, _) => unreachable!("an absent key is inserted"),
        }
    }

    /// Replaces the value of a key if it is that of this leaf, which was found under the guard;
    /// returns the old value if it was replaced.
    fn replace_this<'a>(
        &self,
        key: &[u8],
        old: u32,
        new: V::New<'a>,
    ) -> Result<Option<&'g V>, Rejected<V::New<'a>>> {
        match self.change(key, new, Mode::Only(old))? {
            Outcome::Inserted(old) | Outcome::Replaced(old) => Ok(Some(old)),
            Outcome::Refused(..) => Ok(None),
        }
    }
}

impl<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> SharedView<'g, O, V> {
    /// Inserts or replaces; returns the value that was replaced. The reference lives as long as the
    /// guard.
    ///
    /// As [`SharedMap::insert`](super::SharedMap::insert).
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::ArenaFull`],
    /// [`Error::GarbageLimit`], [`Error::Full`], with the value; the map is unchanged.
    ///
    /// ```
    /// use sapwood::qp::QpShared;
    /// let map: QpShared<[u8]> = QpShared::new()?;
    /// let pin = map.pin();
    /// pin.view().insert("elm", b"Ulmus")?;
    /// let elm: &[u8] = pin.view().get("elm").unwrap(); // lives as long as the pin
    /// assert_eq!(pin.view().insert("elm", b"Ulmus glabra")?, Some(elm));
    /// assert_eq!(elm, b"Ulmus");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<Option<&'g V>, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.put(key.as_ref(), value))
    }

    /// Inserts a key that is absent; returns the value in its place.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::Exists`] when the key is there; otherwise as [`insert`](Self::insert).
    pub fn insert_new<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<&'g V, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.put_new(key.as_ref(), value))
    }

    /// Replaces the value of a key that is there; returns the old value.
    ///
    /// As [`insert`](Self::insert); only a leaf is made.
    ///
    /// # Errors
    /// [`Error::Absent`] when the key is absent; otherwise as [`insert`](Self::insert).
    pub fn replace<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<&'g V, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.put_over(key.as_ref(), value))
    }

    /// Replaces the value of a key if it equals `current`; returns what it found.
    ///
    /// As [`replace`](Self::replace), and one lookup for each comparison.
    ///
    /// No lock is held while the values are compared, so the comparison may call every method of
    /// this map.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// use sapwood::qp::{Exchange, QpShared};
    /// let map: QpShared<[u8]> = QpShared::new()?;
    /// map.insert("elm", b"Ulmus")?;
    /// let pin = map.pin();
    /// let refused = pin.view().compare_exchange("elm", b"U.", b"?")?;
    /// assert!(matches!(refused, Exchange::Refused { found: Some(b"Ulmus"), .. }));
    /// let done = pin.view().compare_exchange("elm", b"Ulmus", b"U.")?;
    /// assert!(matches!(done, Exchange::Done(b"Ulmus")));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn compare_exchange<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        current: &V,
        new: N,
    ) -> Result<Exchange<'g, V>, Rejected<V::Held>>
    where
        V: Accepts<N>,
        V: PartialEq,
    {
        storing::<V, _, _>(new, |new| {
            Ok(match self.exchange(key.as_ref(), current, new)? {
                Outcome::Inserted(old) | Outcome::Replaced(old) => Exchange::Done(old),
                Outcome::Refused(found, value) => Exchange::Refused {
                    found,
                    value: V::held(value),
                },
            })
        })
    }

    /// Replaces the value of a key by the value that `new` makes of it; returns the old value, or
    /// `None` when the key is absent.
    ///
    /// A lookup and a replacement for each run of `new`.
    ///
    /// No lock is held while `new` runs. If another thread changes the key meanwhile, `new` runs
    /// again with the new value. So no change is lost: a stored value was made of the value that it
    /// replaces. For values that change often, use atomics, which change in place.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value that was made is dropped.
    ///
    /// ```
    /// # let map = sapwood::qp::QpShared::new()?;
    /// map.insert("hits", 1)?;
    /// let pin = map.pin();
    /// assert_eq!(pin.view().update("hits", |hits| hits + 1)?, Some(&1));
    /// assert_eq!(map.get("hits"), Some(2));
    ///
    /// let texts: sapwood::qp::PointMap<[u8]> = sapwood::qp::PointMap::new()?;
    /// texts.insert("elm", b"Ulmus")?;
    /// texts.update("elm", |old| [old, b" glabra"].concat().into())?;
    /// assert_eq!(texts.get("elm").as_deref(), Some(&b"Ulmus glabra"[..]));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(&V) -> V::Taken,
    ) -> Result<Option<&'g V>, Error> {
        let key = key.as_ref();
        while let Some(leaf) = self.raw.find_guarded(self.guard, key) {
            let mut place = None;
            let made = new(self.raw.value(self.guard, leaf));
            let replaced =
                storing_taken::<V, _>(made, &mut place, |new| self.replace_this(key, leaf, new))?;
            if let Some(old) = replaced {
                return Ok(Some(old));
            }
        }
        Ok(None)
    }

    /// The value of a key. If the key is absent, the map first inserts the value that `make` makes.
    ///
    /// A lookup, and an insertion if the key is absent.
    ///
    /// No lock is held while `make` runs. If another thread inserts the key meanwhile, that
    /// thread's value is the result, and the value of `make` is dropped.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn get_or_insert_with(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> V::Taken,
    ) -> Result<&'g V, Error> {
        let key = key.as_ref();
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let mut place = None;
        let stored = storing_taken::<V, _>(make(), &mut place, |new| self.get_or_put(key, new));
        Ok(stored?)
    }
}

/// A place in a walk over keys.
type Place<O, V> = <<O as Order>::Raw<V> as Structure<V>>::Place;

/// The result of a [`compare_exchange`](SharedView::compare_exchange).
#[derive(Debug, PartialEq, Eq)]
pub enum Exchange<'g, V: ?Sized + Value> {
    /// The value was replaced; this is the old one.
    Done(&'g V),
    /// The value was another, or the key was absent.
    Refused {
        /// The value of the key, if the key was there.
        found: Option<&'g V>,
        /// The value that was not stored. For byte strings, the caller still has the bytes.
        value: V::Held,
    },
}

impl<O: Order, V: ?Sized + Value + Send + Sync + fmt::Debug + 'static> fmt::Debug
    for SharedView<'_, O, V>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(Shown::entry))
            .finish()
    }
}

impl<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> IntoIterator
    for SharedView<'g, O, V>
{
    type Item = ReadEntry<'g, V>;
    type IntoIter = O::Iter<'g, V>;

    fn into_iter(self) -> O::Iter<'g, V> {
        self.iter()
    }
}

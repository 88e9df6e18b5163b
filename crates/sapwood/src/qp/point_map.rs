//! The map that has only the point index.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::ControlFlow;

use sapwood_arena::{Arena, ArenaOptions, Backing};
use sapwood_qsbr::{Domain, Guard, Pinned, Reader, TooManyReaders};

use super::point_view::PointMapView;
use super::raw::alone::Alone;
use super::raw::index::Index;
use super::raw::version::stable_arena;
use super::shared_view::Exchange;
use super::store::RESERVE;
use super::{Contention, QpSharedMemory};
use crate::seed::seed;
use crate::{Error, Rejected};

/// A map over byte strings without order, that any number of threads read and change at once: [`QpShared`](super::QpShared)'s point
/// index, without its trie.
///
/// - A lookup touches two cache lines, whatever the number of entries. Readers take no lock, retry nothing and write
///   nothing. They need a guard: a [`pin`](Self::pin), or a [`PointMapReader`].
/// - An insertion writes the leaf (key and value) and one bucket. Writers of different keys hardly meet: they lock a bucket or two, and
///   one of some dozens of stripes, by the hash of the key.
/// - Tables grow and shrink a few buckets at each change; no change waits for a whole one. (But one that met a lack of memory before may:
///   see [`insert`](Self::insert).)
/// - Operations on one key are linearizable. [Walks](PointMapView::iter) come in no order, and are weakly consistent.
/// - It takes the keys, the values, 1 to 8 bytes an entry to fill whole words, and 6 to 8 bytes an entry for the tables. The hash is seeded at
///   random, so nobody can choose keys that collide.
///
/// There are no ranges, prefixes or neighbours of keys: for those, take [`QpShared`](super::QpShared), with an index if
/// lookups of whole keys matter too.
///
/// Methods of the map itself take a guard for their duration and give copies; those of a [`PointMapView`] give references. Handles are
/// cheap to clone.
///
/// ```
/// use sapwood::qp::PointMap;
/// let map = PointMap::new()?;
/// std::thread::scope(|scope| {
///     for worker in 0..4u32 {
///         let map = &map;
///         scope.spawn(move || {
///             for i in 0..100u32 {
///                 map.insert(format!("{worker}/{i:03}"), i).unwrap();
///             }
///         });
///     }
/// });
/// assert_eq!(map.len(), 400);
/// assert_eq!(map.get("2/017"), Some(17));
/// let pin = map.pin();
/// let sum: u32 = pin.view().iter().map(|(_, value)| value).sum();
/// assert_eq!(sum, 4 * 4950);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct PointMap<V: Send + Sync + 'static> {
    map: Arc<Alone<V>>,
}

impl<V: Send + Sync + 'static> Clone for PointMap<V> {
    fn clone(&self) -> Self {
        PointMap {
            map: Arc::clone(&self.map),
        }
    }
}

/// How a [`PointMap`] is made.
///
/// ```
/// use sapwood::{Error, qp::PointMap};
/// let map = PointMap::builder().max_entries(2).build()?;
/// map.insert("a", 1)?;
/// map.insert("b", 2)?;
/// assert_eq!(map.insert("c", 3).unwrap_err().error, Error::Full { max_entries: 2 });
/// # Ok::<(), sapwood::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PointMapBuilder<V> {
    options: ArenaOptions,
    domain: Option<Domain>,
    most: Option<usize>,
    values: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> PointMapBuilder<V> {
    /// The arena's options. The backing must be one that does not move; the default reserves 16 GiB of address
    /// space and commits memory as it is used, in small pages: as [`QpSharedBuilder::options`](super::QpSharedBuilder::options) says.
    pub fn options(mut self, options: ArenaOptions) -> Self {
        self.options = options;
        self
    }

    /// The domain whose grace periods the map waits for; several maps may share one. Default: its own.
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// The most entries that there may be: one more is [`Error::Full`]. Default: as many as memory has room for.
    ///
    /// Counting them costs writers a shared counter.
    pub fn max_entries(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    /// An empty map.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// # Panics
    /// When the backing is one that moves as it grows ([`Backing::Auto`], [`Backing::Heap`]).
    pub fn build(self) -> Result<PointMap<V>, Error> {
        let arena = stable_arena(self.options.clone())?;
        Ok(self.finish(arena, Index::new(seed())))
    }

    pub(super) fn finish(self, arena: Arena, index: Index<V, true>) -> PointMap<V> {
        let domain = self.domain.unwrap_or_default();
        PointMap {
            map: Arc::new(Alone::new(arena, domain, self.most, index)),
        }
    }
}

impl<V: Send + Sync + 'static> PointMap<V> {
    /// An empty map with a domain of its own.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when no address space can be had.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A map that is made to measure.
    pub fn builder() -> PointMapBuilder<V> {
        PointMapBuilder {
            options: ArenaOptions::default()
                .backing(Backing::Mmap { reserve: RESERVE })
                .huge_pages(false),
            domain: None,
            most: None,
            values: PhantomData,
        }
    }

    /// The domain whose grace periods the map waits for.
    pub fn domain(&self) -> &Domain {
        self.map.domain()
    }

    /// A guard for a few operations on this thread. Costs a few nanoseconds; holds back memory while it lives.
    #[inline]
    pub fn pin(&self) -> PointMapPin<'_, V> {
        PointMapPin {
            map: &self.map,
            pinned: self.domain().pin(),
        }
    }

    /// Registers this thread (or the one that the reader is sent to): guards cost it nothing.
    ///
    /// # Errors
    /// When the domain has as many readers as it may have.
    pub fn reader(&self, name: &str) -> Result<PointMapReader<V>, TooManyReaders> {
        Ok(PointMapReader {
            reader: self.domain().register(name)?,
            map: Arc::clone(&self.map),
        })
    }

    /// The map under a guard that the caller holds, for users of several maps at once.
    ///
    /// # Panics
    /// When the guard is of another domain.
    pub fn view<'g>(&'g self, guard: Guard<'g>) -> PointMapView<'g, V> {
        PointMapView::new(&self.map, guard)
    }

    /// Runs `f` under a pin of its own.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(PointMapView<'_, V>) -> R) -> R {
        let pinned = self.domain().pin();
        f(PointMapView::new(&self.map, pinned.guard()))
    }

    /// Number of entries: exact while nobody writes; else each operation counts from a moment within it.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no entry; as [`len`](Self::len) says.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most entries that there may be, if that was limited.
    pub fn max_entries(&self) -> Option<usize> {
        self.map.most()
    }

    /// A copy of a key's value.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<V>
    where
        V: Clone,
    {
        self.with(|view| view.get(key).cloned())
    }

    /// Whether the key is stored.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.with(|view| view.contains_key(key))
    }

    /// Makes room for garbage, by the domain's policy; then runs `f` with the value.
    #[inline]
    fn admitted<R>(
        &self,
        key: &[u8],
        value: V,
        f: impl FnOnce(PointMapView<'_, V>, V) -> Result<R, Rejected<V>>,
    ) -> Result<R, Rejected<V>> {
        match self.map.admit(key.len()) {
            Ok(()) => self.with(|view| f(view, value)),
            Err(limit) => Err(Rejected {
                value,
                error: limit.into(),
            }),
        }
    }

    /// Inserts or replaces; whether the key is new.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ArenaFull`], [`Error::GarbageLimit`], [`Error::Full`], with the value given
    /// back; the map is unchanged.
    ///
    /// A table that could not grow, for want of memory, is filled to the last slot; then an insertion is `ArenaFull`, and one that comes when there
    /// is memory again may have to move many entries at once.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: V) -> Result<bool, Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| {
            view.insert(key, value).map(|old| old.is_none())
        })
    }

    /// Inserts a key that is not there.
    ///
    /// # Errors
    /// [`Error::Exists`] when it is there; else as [`insert`](Self::insert).
    pub fn insert_new(&self, key: impl AsRef<[u8]>, value: V) -> Result<(), Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| {
            view.insert_new(key, value).map(drop)
        })
    }

    /// Replaces the value of a key that is there.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is not there; else as [`insert`](Self::insert).
    pub fn replace(&self, key: impl AsRef<[u8]>, value: V) -> Result<(), Rejected<V>> {
        let key = key.as_ref();
        self.admitted(key, value, |view, value| view.replace(key, value).map(drop))
    }

    /// Replaces the value of a key if it equals `current`.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::Differs`]; else as [`insert`](Self::insert).
    ///
    /// ```
    /// # use sapwood::{Error, qp::PointMap};
    /// let map = PointMap::new()?;
    /// map.insert("hits", 1)?;
    /// map.compare_exchange("hits", &1, 2)?;
    /// let rejected = map.compare_exchange("hits", &1, 3).unwrap_err();
    /// assert_eq!((rejected.error, rejected.value), (Error::Differs, 3));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        current: &V,
        new: V,
    ) -> Result<(), Rejected<V>>
    where
        V: PartialEq,
    {
        let key = key.as_ref();
        self.admitted(key, new, |view, new| {
            match view.compare_exchange(key, current, new)? {
                Exchange::Done(_) => Ok(()),
                Exchange::Refused { found, value } => Err(Rejected {
                    value,
                    error: match found {
                        Some(_) => Error::Differs,
                        None => Error::Absent,
                    },
                }),
            }
        })
    }

    /// A copy of a key's value, after inserting the one that `make` makes if the key is not there.
    ///
    /// No lock is held while `make` runs: another thread may insert the key meanwhile, and then its value wins.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn get_or_insert_with(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> V,
    ) -> Result<V, Error>
    where
        V: Clone,
    {
        let key = key.as_ref();
        self.map.admit(key.len())?;
        self.with(|view| view.get_or_insert_with(key, make).cloned())
    }

    /// Removes a key; whether it was there. Needs no memory.
    ///
    /// # Errors
    /// [`Error::GarbageLimit`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = key.as_ref();
        self.map.admit(key.len())?;
        let pinned = self.domain().pin();
        let removed = PointMapView::new(&self.map, pinned.guard()).take(key, None)?;
        let (was_there, last) = (removed.value.is_some(), removed.last);
        drop(pinned);
        if last {
            self.reclaim(usize::MAX);
        }
        Ok(was_there)
    }

    /// Calls `each` with all entries, in no order, until it breaks; weakly consistent, as
    /// [`PointMapIter`](super::PointMapIter) says.
    pub fn for_each<B>(&self, each: impl FnMut(&[u8], &V) -> ControlFlow<B>) -> ControlFlow<B> {
        self.with(|view| view.for_each(each))
    }

    /// Removes all entries that are there; returns how many. Keys inserted meanwhile may stay.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); what was removed before stays removed.
    pub fn clear(&self) -> Result<usize, Error> {
        let mut removed = 0;
        let mut from = Some(0);
        while let Some(at) = from {
            let (keys, next) = self.with(|view| view.some_keys(at));
            for key in keys {
                removed += usize::from(self.remove(&key)?);
            }
            from = next;
        }
        Ok(removed)
    }

    /// Frees up to `budget` leaves and blocks that no reader can hold any more; returns how many. Writers do some of it on the
    /// way; this is for an idle loop, or after a stall. Values are dropped here, on the calling thread.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut values = Vec::new();
        self.map.reclaim(budget, &mut values)
    }

    /// What writers met so far.
    pub fn contention(&self) -> Contention {
        Contention::of(self.map.contended())
    }

    /// Where the memory is; there are no branches. Waits for writers that are at work.
    pub fn memory(&self) -> QpSharedMemory {
        self.map.memory()
    }

    /// Walks the map and checks every invariant, and the accounts against what is there. Writers wait meanwhile.
    ///
    /// # Errors
    /// What is wrong, for a person to read.
    pub fn verify(&self) -> Result<(), String> {
        self.map.verify()
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for PointMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|view| view.fmt(f))
    }
}

/// A guard of a [`PointMap`] for a few operations. Stays on its thread.
#[must_use = "references live as long as the pin"]
pub struct PointMapPin<'m, V: Send + Sync + 'static> {
    map: &'m Alone<V>,
    pinned: Pinned<'m>,
}

impl<V: Send + Sync + 'static> PointMapPin<'_, V> {
    /// The map under this guard.
    #[inline]
    pub fn view(&self) -> PointMapView<'_, V> {
        PointMapView::new(self.map, self.pinned.guard())
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for PointMapPin<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointMapPin").finish_non_exhaustive()
    }
}

/// A thread's way into a [`PointMap`]: registered once, then its guards cost nothing.
///
/// Call [`quiescent`](Self::quiescent) from time to time (once per round of an event loop, say), or go
/// [`offline`](Self::offline) before blocking: else memory is held back.
///
/// ```
/// # use sapwood::qp::PointMap;
/// let map = PointMap::new()?;
/// map.insert("alder", 4)?;
/// let mut reader = map.reader("worker")?;
/// assert_eq!(reader.view().get("alder"), Some(&4));
/// reader.quiescent();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PointMapReader<V: Send + Sync + 'static> {
    reader: Reader,
    map: Arc<Alone<V>>,
}

impl<V: Send + Sync + 'static> PointMapReader<V> {
    /// The map, as it is at each operation.
    #[inline]
    pub fn view(&self) -> PointMapView<'_, V> {
        PointMapView::new(&self.map, self.reader.guard())
    }

    /// Says that this thread holds nothing. No view can be alive: the borrow checker sees to it.
    #[inline]
    pub fn quiescent(&mut self) {
        self.reader.quiescent();
    }

    /// Takes the reader offline while the result lives: for a thread that is about to block.
    pub fn offline(&mut self) -> sapwood_qsbr::Offline<'_> {
        self.reader.offline()
    }

    /// The registered reader, for the hooks of an event loop.
    pub fn reader_mut(&mut self) -> &mut Reader {
        &mut self.reader
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for PointMapReader<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointMapReader").finish_non_exhaustive()
    }
}

//! The maps that many threads change at once: [`QpShared`], which is ordered, and [`PointMap`],
//! which has only the index. Both are [`SharedMap`]. The modules `ordered` and `unordered` hold the
//! methods that only one of them has.

mod attached;
mod ordered;
mod published;
mod unordered;
mod view;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;

use sapwood_arena::Arena;
use sapwood_qsbr::{Domain, Guard};

pub use attached::{AttachedMap, AttachedView};
pub use ordered::{Ordered, QpShared, QpSharedRange, QpSharedView};
pub use unordered::{PointMap, PointMapIter, PointMapView, SweepPlace, Unordered};
pub use view::{Exchange, SharedView};

use super::QpSharedMemory;
use super::raw::index::Index;
use super::raw::value::{storing, storing_taken};
use super::raw::version::stable_arena;
use super::raw::writers::ops::{Operations, Outcome, Removed, Structure};
use crate::figures;
use crate::seed::seed;
use crate::{Accepts, IntoValue, ReadEntry, Value};
use crate::{Buildable, Builder, Error, Readable, Rejected};
use sapwood_common::raw::memory::MemoryOptions;
use sapwood_common::reading_methods;

/// Whether a [`SharedMap`] keeps its entries in order: [`Ordered`] or [`Unordered`].
pub trait Order: Sized + 'static {
    /// The structure behind the map.
    #[doc(hidden)]
    type Raw<V: ?Sized + Value + Send + Sync + 'static>: Structure<V> + Send + Sync + 'static;

    /// The iterator over all entries.
    type Iter<'g, V: ?Sized + Value + Send + Sync + 'static>: Iterator<Item = ReadEntry<'g, V>>
        + Clone;

    /// Whether the map has only an index, and no trie.
    #[doc(hidden)]
    const ONLY_INDEX: bool;

    #[doc(hidden)]
    fn iter<'g, V: ?Sized + Value + Send + Sync + 'static>(
        raw: &'g Self::Raw<V>,
        guard: Guard<'g>,
    ) -> Self::Iter<'g, V>;

    /// An empty structure in an arena with a stable base.
    #[doc(hidden)]
    fn empty<V: ?Sized + Value + Send + Sync + 'static>(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> Self::Raw<V>;
}

/// A map over byte strings that any number of threads read and change at once. [`QpShared`] and
/// [`PointMap`] are its two kinds.
///
/// - Readers take no lock. They need a guard: a [`pin`](Self::pin) for a few operations, or a
///   [`Reader`](sapwood_common::Reader) for a thread with a loop.
/// - Operations on one key are linearizable. Walks are weakly consistent.
/// - The memory of removed entries is freed after a grace period. An emptied map keeps no more than
///   a page, once [`reclaim`](Self::reclaim) has freed the nodes that waited.
///
/// Methods of the map itself take a guard for their duration and give copies. Methods of a
/// [`SharedView`] give references. A map is a handle, cheap to clone: all clones are handles of one
/// map.
pub struct SharedMap<O: Order, V: ?Sized + Value + Send + Sync + 'static> {
    raw: Arc<O::Raw<V>>,
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Clone for SharedMap<O, V> {
    fn clone(&self) -> Self {
        SharedMap {
            raw: Arc::clone(&self.raw),
        }
    }
}

/// What the builder of a shared map can set.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct SharedChoices {
    most: Option<usize>,
    index: bool,
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Buildable for SharedMap<O, V> {
    type Choices = SharedChoices;
    type Builder = Builder<Self>;
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Builder<SharedMap<O, V>> {
    /// Sets the greatest number of entries. An insertion beyond it fails with [`Error::Full`]. By
    /// default, only memory limits the number of entries.
    ///
    /// With this limit, all writers change one shared counter.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::qp::{Error, QpShared};
    /// let map = QpShared::builder().max_entries(2).build()?;
    /// map.insert("a", 1)?;
    /// map.insert("b", 2)?;
    /// assert_eq!(map.insert("c", 3).unwrap_err().error, Error::Full { max_entries: 2 });
    /// // This map never takes more than 64 KiB.
    /// let map = QpShared::<u64>::builder().memory_limit(64 << 10).build()?;
    /// let refused = (0..100_000u64).find_map(|i| map.insert(i.to_be_bytes(), i).err()).unwrap();
    /// assert!(matches!(refused.error, Error::ArenaFull(_)));
    /// assert_eq!(map.len() as u64, refused.value);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn max_entries(mut self, most: usize) -> Self {
        self.choices.most = Some(most);
        self
    }

    /// An empty map.
    ///
    /// O(processors), as there are shards for them; it reserves address space, in which pages come
    /// as they are used.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the backing cannot be had.
    ///
    /// # Panics
    /// When the backing moves as it grows: [`Backing::Auto`](sapwood_arena::Backing), which is the
    /// default of [`ArenaOptions`](sapwood_arena::ArenaOptions), and `Backing::Heap`.
    pub fn build(self) -> Result<SharedMap<O, V>, Error> {
        let arena = stable_arena(self.memory.clone().stable())?;
        let index = self.choices.index.then(|| Index::new(seed()));
        Ok(self.build_over(arena, index))
    }

    /// An empty map in this arena, with this index.
    fn build_over(self, arena: Arena, index: Option<Index<V, true>>) -> SharedMap<O, V> {
        let domain = self.domain_or_new();
        SharedMap::from_raw(O::empty(arena, domain, self.choices.most, index))
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> SharedMap<O, V> {
    fn from_raw(raw: O::Raw<V>) -> Self {
        SharedMap { raw: Arc::new(raw) }
    }

    /// An empty map with a domain of its own.
    ///
    /// As [`build`](Builder::build).
    ///
    /// # Errors
    /// [`Error::ArenaFull`] when the system refuses the address space.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> Builder<Self> {
        let mut memory = MemoryOptions::default();
        // A fault on a huge page clears 2 MiB, and may wait until the system finds a free one: see
        // `options`.
        memory.options = memory.options.huge_pages(false);
        let choices = SharedChoices {
            most: None,
            index: O::ONLY_INDEX,
        };
        Builder::begin(memory, choices)
    }

    reading_methods!(SharedView<'g, O, V>);

    /// Number of entries. It is exact while nobody writes. Beside writers, each change counts from
    /// some moment within its call.
    ///
    /// O(shards), of which there are about four for each processor.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether the map has no entry.
    ///
    /// O(1) with order; without, O(shards), as [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.raw.is_vacant()
    }

    /// The greatest number of entries, if it is limited.
    ///
    /// O(1).
    pub fn max_entries(&self) -> Option<usize> {
        self.raw.most()
    }

    /// A copy of a key's value.
    ///
    /// A pin, and the cost of [`SharedView::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<V::Owned>
    where
        V: ToOwned,
    {
        self.read(|view| view.get(key).map(V::to_owned))
    }

    /// Whether the key is stored.
    ///
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.read(|view| view.contains_key(key))
    }

    /// Runs a change that stores a value: see [`stored`](Self::stored).
    fn storing<'a, N: IntoValue<V> + 'a, R>(
        &self,
        value: N,
        change: impl FnMut(SharedView<'_, O, V>, V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
    ) -> Result<R, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        storing::<V, _, _>(value, |value| self.stored(value, change))
    }

    /// Runs a change that stores a value, each time under a guard of its own: see
    /// [`Operations::with_room`].
    fn stored<'a, R>(
        &self,
        value: V::New<'a>,
        mut change: impl FnMut(SharedView<'_, O, V>, V::New<'a>) -> Result<R, Rejected<V::New<'a>>>,
    ) -> Result<R, Rejected<V::New<'a>>> {
        let once = |value| {
            let done = self.read(|view| change(view, value));
            done.map_err(|Rejected { value, error }| (value, error))
        };
        let done = self.raw.with_room(value, once);
        done.map_err(|(value, error)| Rejected { value, error })
    }

    /// Runs a change that takes no value, each time under a guard of its own: see
    /// [`Operations::with_room`].
    fn retrying<R>(
        &self,
        mut change: impl FnMut(SharedView<'_, O, V>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let once = |()| self.read(&mut change).map_err(|error| ((), error));
        self.raw.with_room((), once).map_err(|((), error)| error)
    }

    /// Removes a key; returns whether it was there.
    ///
    /// O(key length), if no other writer is at the same branch.
    ///
    /// # Errors
    /// [`Error::GarbageLimit`]. [`Error::ArenaFull`] in an ordered map, whose removal sometimes
    /// builds a smaller branch or cluster beside the old one. An unordered map needs no memory for
    /// a removal.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.removing(key.as_ref(), |view, key| view.take(key))
    }

    /// Removes a key if `test` returns true for its value; returns whether it was removed. See
    /// [`SharedView::remove_if`].
    ///
    /// As [`remove`](Self::remove), and one lookup for each run of the test.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_if(
        &self,
        key: impl AsRef<[u8]>,
        mut test: impl FnMut(&V) -> bool,
    ) -> Result<bool, Error> {
        self.removing(key.as_ref(), |view, key| view.take_if(key, &mut test))
    }

    fn removing(
        &self,
        key: &[u8],
        mut take: impl for<'g> FnMut(SharedView<'g, O, V>, &[u8]) -> Result<Removed<'g, V>, Error>,
    ) -> Result<bool, Error> {
        let (removed, last) = self.retrying(|view| {
            let removed = take(view, key)?;
            Ok((removed.value.is_some(), removed.last))
        })?;
        if last {
            self.reclaim(usize::MAX);
        }
        Ok(removed)
    }

    /// Calls `each` with all entries until it breaks. Order and consistency are those of
    /// [`SharedView::iter`].
    ///
    /// O(entries).
    pub fn for_each<B>(&self, each: impl FnMut(&[u8], &V) -> ControlFlow<B>) -> ControlFlow<B> {
        self.read(|view| view.for_each(each))
    }

    /// Removes all entries; returns their number. Keys that are inserted meanwhile may stay.
    ///
    /// O(entries), each by a removal of its own.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); the entries removed before the error stay removed.
    pub fn clear(&self) -> Result<usize, Error> {
        self.sweeping(|key| self.remove(key))
    }

    /// Removes the entries for which `keep` returns false; returns their number.
    ///
    /// O(entries), each by a lookup of its own.
    ///
    /// Each entry is tested and removed at a moment of its own. Of keys that are inserted
    /// meanwhile, some are tested and some are not. The walk takes a new guard for every few keys,
    /// so it holds no memory back for long, however large the map is. When another thread changes a
    /// value that was tested, `keep` is called again with the new value, and its last answer
    /// counts.
    ///
    /// No lock is held while `keep` runs, so it may call every method of this map.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); the entries removed before the error stay removed.
    ///
    /// ```
    /// # use sapwood::qp::QpShared;
    /// let map = QpShared::new()?;
    /// for i in 0..100u8 {
    ///     map.insert([i], i)?;
    /// }
    /// assert_eq!(map.retain(|key, value| key[0] < 50 && value % 2 == 0)?, 75);
    /// assert_eq!(map.len(), 25);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &V) -> bool) -> Result<usize, Error> {
        self.sweeping(|key| self.remove_if(key, |value| !keep(key, value)))
    }

    /// Calls `remove` with all keys, a few keys at a time; returns how many it removed.
    fn sweeping(
        &self,
        mut remove: impl FnMut(&[u8]) -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let mut removed = 0;
        let mut from = None;
        loop {
            let (keys, next) = self.read(|view| view.next_keys(from));
            for key in keys {
                removed += usize::from(remove(&key)?);
            }
            if next.is_none() {
                return Ok(removed);
            }
            from = next;
        }
    }

    /// Frees up to `budget` nodes that no reader can hold any more; returns their number. Writers
    /// free some nodes with each change. This call is for an idle loop, or for the time after a
    /// stall. The calling thread drops the values.
    ///
    /// O(budget + shards), and a look at each reader. After many nodes, free pages go back to the
    /// system: 512 KiB in a call, or a page for 32 nodes of the budget; the next calls go on. The
    /// call that frees the last node of an empty map gives all memory back.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut values = Vec::new();
        self.raw.reclaim(budget, &mut values)
    }

    /// How often writers had to wait for each other, or begin anew, so far.
    ///
    /// O(shards).
    pub fn contention(&self) -> Contention {
        self.raw.contention()
    }

    /// What the map's memory holds. It waits for changes that are under way.
    ///
    /// O(shards).
    pub fn memory(&self) -> QpSharedMemory {
        self.raw.memory()
    }

    /// Walks the map and checks every invariant. Compares the accounts with the nodes that are
    /// there. Writers wait meanwhile.
    ///
    /// O(sum of all key lengths).
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.raw.verify()
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> SharedMap<O, V> {
    /// Inserts or replaces; returns whether the key is new.
    ///
    /// O(key length), if no other writer is at the same branch. A node is copied, not changed.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::ArenaFull`],
    /// [`Error::GarbageLimit`], [`Error::Full`], with the value; the map is unchanged.
    ///
    /// ```
    /// use sapwood::qp::PointMap;
    /// let texts: PointMap<[u8]> = PointMap::new()?;
    /// assert!(texts.insert("elm", b"Ulmus")?);
    /// assert!(!texts.insert("elm", b"Ulmus glabra")?);
    /// assert_eq!(texts.read(|view| view.get("elm").map(<[u8]>::len)), Some(12));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn insert<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<bool, Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        let key = key.as_ref();
        self.storing(value, |view, value| {
            view.put(key, value).map(|old| old.is_none())
        })
    }

    /// Inserts a key that is absent.
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Errors
    /// [`Error::Exists`] when the key is there; otherwise as [`insert`](Self::insert).
    pub fn insert_new<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<(), Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        let key = key.as_ref();
        self.storing(value, |view, value| view.put_new(key, value).map(drop))
    }

    /// Replaces the value of a key that is there.
    ///
    /// As [`insert`](Self::insert); only a leaf is made.
    ///
    /// # Errors
    /// [`Error::Absent`] when the key is absent; otherwise as [`insert`](Self::insert).
    pub fn replace<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        value: N,
    ) -> Result<(), Rejected<V::Held>>
    where
        V: Accepts<N>,
    {
        let key = key.as_ref();
        self.storing(value, |view, value| view.put_over(key, value).map(drop))
    }

    /// Replaces the value of a key if it equals `current`.
    ///
    /// As [`replace`](Self::replace), and one lookup for each comparison.
    ///
    /// # Errors
    /// [`Error::Absent`] when the key is absent, [`Error::Differs`] when its value is another;
    /// otherwise as [`insert`](Self::insert).
    ///
    /// ```
    /// # use sapwood::qp::{Error, QpShared};
    /// let map = QpShared::new()?;
    /// map.insert("hits", 1)?;
    /// map.compare_exchange("hits", &1, 2)?;
    /// let rejected = map.compare_exchange("hits", &1, 3).unwrap_err();
    /// assert_eq!((rejected.error, rejected.value), (Error::Differs, 3));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn compare_exchange<N: IntoValue<V>>(
        &self,
        key: impl AsRef<[u8]>,
        current: &V,
        new: N,
    ) -> Result<(), Rejected<V::Held>>
    where
        V: Accepts<N>,
        V: PartialEq,
    {
        let key = key.as_ref();
        self.storing(new, |view, new| match view.exchange(key, current, new)? {
            Outcome::Refused(found, value) => Err(Rejected {
                value,
                error: match found {
                    Some(_) => Error::Differs,
                    None => Error::Absent,
                },
            }),
            _ => Ok(()),
        })
    }

    /// A copy of a key's value. If the key is absent, the map first inserts the value that `make`
    /// makes.
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
    ) -> Result<V::Owned, Error>
    where
        V: ToOwned,
    {
        let key = key.as_ref();
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let mut place = None;
        let stored = storing_taken::<V, _>(make(), &mut place, |value| {
            self.stored(value, |view, value| {
                view.get_or_put(key, value).map(V::to_owned)
            })
        });
        Ok(stored?)
    }

    /// Replaces the value of a key by the value that `new` makes of it; returns whether the key was
    /// there. See [`SharedView::update`].
    ///
    /// A lookup and a replacement for each run of `new`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value that was made is dropped.
    ///
    /// ```
    /// # use sapwood::qp::PointMap;
    /// let map = PointMap::new()?;
    /// map.insert("hits", 0u32)?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| {
    ///             for _ in 0..100 {
    ///                 assert!(map.update("hits", |n| n + 1).unwrap());
    ///             }
    ///         });
    ///     }
    /// });
    /// assert_eq!(map.get("hits"), Some(400));
    /// assert_eq!(map.update("misses", |n| n + 1), Ok(false));
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(&V) -> V::Taken,
    ) -> Result<bool, Error> {
        let key = key.as_ref();
        self.retrying(|view| Ok(view.update(key, &mut new)?.is_some()))
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Readable for SharedMap<O, V> {
    type View<'g> = SharedView<'g, O, V>;

    fn domain(&self) -> &Domain {
        self.raw.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> SharedView<'g, O, V> {
        SharedView::new(&*self.raw, guard)
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + fmt::Debug + 'static> fmt::Debug
    for SharedMap<O, V>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|view| view.fmt(f))
    }
}

/// The contention of writers since the map was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// Number of changes that were made or refused. What a test or a comparison of the user refuses
    /// is a lookup, and not counted.
    pub operations: u64,
    /// Number of changes that found a branch locked by another writer, or had to begin anew after
    /// another writer's change.
    pub met_lock: u64,
    /// Sum of the times that changes waited for locks.
    pub waited: Duration,
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("operations", self.operations),
            ("met a lock", self.met_lock),
        ];
        figures::counts(f, &counts)?;
        writeln!(f, "{:<16} {:>12.6} s", "waited", self.waited.as_secs_f64())
    }
}

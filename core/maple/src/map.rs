//! The map: its handle, and the methods that need no view and no writer.

use core::fmt;
use std::sync::Arc;

use sapwood_qsbr::{Domain, Guard};

use super::builder;
use super::map_iter::{MapGaps, MapIter};
use super::memory::MapleMemory;
use super::owned::Removed;
use super::plan::{self, ErasePlan, EraseReservation, Reservation, StorePlan};
use super::raw::table::{Config, MapleShared};
use super::snapshot::MapleSnapshot;
use super::txn::MapleTxn;
use super::unknown::UnknownReservation;
use super::view::MapleView;
use super::window::Window;
use super::writer::MapleWriter;
use crate::index::open;
use crate::{Builder, Error, Index, IndexRange, OldestSnapshot, Range, Readable, Rejected};
use sapwood_common::reading_methods;

/// A map from ranges of indices to values, with one writer at a time and readers that never wait.
///
/// Indices are `u64`, or another type of integers or addresses ([`Index`]). Entries do not overlap;
/// each is an inclusive range, up to `0..=u64::MAX`. A gap is a maximal run of indices that no
/// entry has. Neighbours with equal values stay two entries, unless
/// [`store_coalescing`](Self::store_coalescing) joins them.
///
/// A map is a handle, cheap to clone: all clones are handles of one map ([`dup`](Self::dup) makes
/// another map). The map's own reading methods return copies; a [`Reader`](sapwood_common::Reader)
/// gives references, and is quicker. Each change takes the map's lock, and is visible when it
/// returns; [`write`](Self::write) holds the lock for many changes. A new map takes no memory in
/// the arena before its first entry.
///
/// ```
/// use sapwood::maple::{Error, MapleMap};
///
/// let map = MapleMap::new();
/// map.insert_new(100..=199, "first")?;
/// map.insert_new(300..=399, "second")?;
/// let refused = map.insert_new(150..=250, "third").unwrap_err();
/// assert_eq!(refused.error, Error::Occupied { start: 100, end: 199 });
/// assert_eq!(map.alloc_range(150, 0..=999, "fourth")?, 400..=549);
/// assert_eq!(map.remove(350)?, Some((300..=399, "second")));
/// assert_eq!(map.find_gap(200, 0..=999), Some(200..=399));
/// # Ok::<(), Error>(())
/// ```
///
/// # Cost
///
/// Loads and stores take logarithmic time, and so do searches for gaps, apart from the cases that
/// [`MapleView::find_gap`] names. A store copies one leaf, of 512 bytes at most, and a few nodes
/// more when the leaf is split or merged. A store over many leaves also copies their parents, and
/// frees the nodes between.
pub struct MapleMap<V, K: Index = u64> {
    shared: Arc<MapleShared<V, K::Word>>,
}

impl<V, K: Index> Clone for MapleMap<V, K> {
    fn clone(&self) -> Self {
        MapleMap {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Default for MapleMap<V, K> {
    fn default() -> Self {
        Self::keyed().build()
    }
}

impl<V: Clone + Send + Sync + 'static> MapleMap<V> {
    /// An empty map, which takes no memory but the handle's.
    ///
    /// O(1).
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A builder, which sets what [`new`](Self::new) leaves at its default.
    ///
    /// O(1).
    pub fn builder() -> Builder<Self> {
        builder::begin()
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> MapleMap<V, K> {
    pub(super) fn with(config: Config<V, K::Word>, domain: Domain) -> Self {
        MapleMap::from_shared(MapleShared::new(config, domain))
    }

    pub(super) fn from_shared(shared: MapleShared<V, K::Word>) -> Self {
        MapleMap {
            shared: Arc::new(shared),
        }
    }

    /// A builder of a map with these indices: [`builder`](MapleMap::builder) is the one for `u64`.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// use std::net::Ipv4Addr;
    /// let map = MapleMap::<&str, Ipv4Addr>::keyed().build();
    /// map.store(Ipv4Addr::new(10, 0, 0, 0)..=Ipv4Addr::new(10, 0, 0, 255), "lab")?;
    /// assert_eq!(map.get(Ipv4Addr::new(10, 0, 0, 7)), Some("lab"));
    /// # Ok::<(), sapwood::maple::Error<Ipv4Addr>>(())
    /// ```
    pub fn keyed() -> Builder<Self> {
        builder::begin()
    }

    pub(super) fn shared(&self) -> &Arc<MapleShared<V, K::Word>> {
        &self.shared
    }

    reading_methods!(MapleView<'g, V, K>);

    /// A copy of the value at an index.
    ///
    /// A pin, and O(log entries).
    pub fn get(&self, index: K) -> Option<V> {
        self.read(|view| view.get(index).cloned())
    }

    /// The entry that holds an index, with a copy of its value.
    ///
    /// A pin, and O(log entries).
    pub fn get_entry(&self, index: K) -> Option<(Range<K>, V)> {
        self.read(|view| cloned(view.get_entry(index)))
    }

    /// Whether an entry holds an index.
    ///
    /// A pin, and O(log entries).
    pub fn contains(&self, index: K) -> bool {
        self.read(|view| view.contains(index))
    }

    /// The first entry, with a copy of its value.
    ///
    /// A pin, and O(log entries).
    pub fn first(&self) -> Option<(Range<K>, V)> {
        self.read(|view| cloned(view.first()))
    }

    /// The last entry, with a copy of its value.
    ///
    /// A pin, and O(log entries).
    pub fn last(&self) -> Option<(Range<K>, V)> {
        self.read(|view| cloned(view.last()))
    }

    /// The first entry that starts after an index, with a copy of its value.
    ///
    /// A pin, and O(log entries).
    pub fn next_after(&self, index: K) -> Option<(Range<K>, V)> {
        self.read(|view| cloned(view.next_after(index)))
    }

    /// The last entry that ends before an index, with a copy of its value.
    ///
    /// A pin, and O(log entries).
    pub fn prev_before(&self, index: K) -> Option<(Range<K>, V)> {
        self.read(|view| cloned(view.prev_before(index)))
    }

    /// All entries in order, from both ends, with copies of their values.
    ///
    /// Each step is a lookup of its own: nothing is held back between two of them, and each sees
    /// the map as it is then. A [view](MapleView::iter) walks from leaf to leaf, gives references,
    /// and holds garbage back meanwhile.
    ///
    /// O(1); each step is O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(5..=9, 'a'), (20..=29, 'b')]);
    /// for (range, _) in &map {
    ///     map.remove(*range.start())?;
    /// }
    /// assert!(map.is_empty());
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn iter(&self) -> MapIter<'_, V, K> {
        self.range(..)
    }

    /// As [`iter`](Self::iter), but only the entries that have an index in a range, each whole. An
    /// empty range has none.
    pub fn range(&self, range: impl IndexRange<K>) -> MapIter<'_, V, K> {
        MapIter::new(self, open(range))
    }

    /// The gaps in a range, in order, from both ends, clipped to the range. An empty range has
    /// none. Each step is a search of its own, as in [`iter`](Self::iter).
    ///
    /// O(1); each step is a search, O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(5..=9, 'a'), (20..=29, 'b')]);
    /// assert!(map.gaps(0..=24).eq([0..=4, 10..=19]));
    /// ```
    pub fn gaps(&self, within: impl IndexRange<K>) -> MapGaps<'_, V, K> {
        MapGaps::new(self, open(within))
    }

    /// Number of entries.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether there are no entries.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`MapleView::find_gap`].
    #[inline]
    pub fn find_gap(&self, size: K::Word, within: impl Into<Window<K>>) -> Option<Range<K>> {
        self.read(|view| view.find_gap(size, within))
    }

    /// Takes the map's lock, for many changes, plans and cursors. If another thread's writer has
    /// it, this waits for its end.
    ///
    /// # Panics
    /// When this thread has the lock, by a [`MapleWriter`] or a [`Reservation`]: it would wait for
    /// itself. All methods of the map that change it, plan or reserve take the same lock, and panic
    /// as well; so do [`dup`](Self::dup), [`memory`](Self::memory), [`verify`](Self::verify),
    /// [`reclaim`](Self::reclaim), and the end of an [`UnknownReservation`]. A writer has methods
    /// of its own for changes and plans.
    #[track_caller]
    pub fn write(&self) -> MapleWriter<'_, V, K> {
        MapleWriter::new(self, self.shared.write())
    }

    /// Takes the map's lock and begins a transaction, whose changes become visible together. If
    /// another thread's writer has the lock, this waits for its end.
    ///
    /// O(1).
    ///
    /// # Panics
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn begin(&self) -> MapleTxn<'_, V, K> {
        MapleTxn::new(self.write())
    }

    /// As [`write`](Self::write), but returns `None` when somebody has the lock.
    pub fn try_write(&self) -> Option<MapleWriter<'_, V, K>> {
        Some(MapleWriter::new(self, self.shared.try_write()?))
    }

    /// As [`begin`](Self::begin), but returns `None` when somebody has the lock.
    pub fn try_begin(&self) -> Option<MapleTxn<'_, V, K>> {
        self.try_write().map(MapleTxn::new)
    }

    /// A snapshot of the map. This waits for another thread's writer, and then takes constant time.
    ///
    /// Reading the snapshot takes no lock. While snapshots are alive, a change replaces the inner
    /// nodes on its path as well, and nothing that it replaces is freed.
    ///
    /// # Panics
    /// When this thread has the lock ([`write`](Self::write)); use [`MapleWriter::snapshot`] there.
    #[track_caller]
    pub fn snapshot(&self) -> MapleSnapshot<V, K> {
        self.write().snapshot()
    }

    /// The number of snapshots that are alive. Waits for no writer.
    ///
    /// O(versions that snapshots keep).
    pub fn snapshots(&self) -> usize {
        self.shared.versions().snapshots()
    }

    /// The oldest version that snapshots keep, and how much it holds back. This waits for no
    /// writer: a monitor can call it while a writer is blocked at the hard limit of garbage.
    /// [`Domain::stalls`] reports on all structures of the domain.
    ///
    /// O(1), and a short lock.
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a')]);
    /// let snapshot = map.snapshot();
    /// map.store(5..=6, 'b')?;
    /// assert_eq!(map.oldest_snapshot().unwrap().bytes, map.memory().waiting.1);
    /// drop(snapshot);
    /// assert!(map.oldest_snapshot().is_none());
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn oldest_snapshot(&self) -> Option<OldestSnapshot> {
        self.shared.versions().oldest()
    }

    /// Makes a range one entry with this value. Entries that it overlaps keep the indices outside
    /// the range; an entry that reaches out on both sides becomes two, with a clone of its value.
    ///
    /// O(log entries + entries that it overlaps).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::new();
    /// map.store(0..=99, 'a')?;
    /// map.store(40..=59, 'b')?;
    /// assert_eq!(format!("{map:?}"), "{0..=39: 'a', 40..=59: 'b', 60..=99: 'a'}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::GarbageLimit`], with the value given
    /// back.
    pub fn store(&self, range: impl IndexRange<K>, value: V) -> Result<(), Rejected<V, K>> {
        self.write().store(range, value)
    }

    /// As [`store`](Self::store), and joins the entry with neighbours that touch it and have an
    /// equal value; with [`Split::at`](crate::Split::at), with those that it continues, and that
    /// continue it. Returns the range of the entry.
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'a'), (30..=39, 'b')]);
    /// assert_eq!(map.store_coalescing(10..=19, 'a')?, 0..=29);
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn store_coalescing(
        &self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>>
    where
        V: PartialEq,
    {
        self.write().store_coalescing(range, value)
    }

    /// As [`store`](Self::store), if no entry has an index of the range.
    ///
    /// The cost of [`store`](Self::store).
    ///
    /// # Errors
    /// [`Error::Occupied`] with the first entry in the way, and those of [`store`](Self::store),
    /// with the value given back.
    pub fn insert_new(&self, range: impl IndexRange<K>, value: V) -> Result<(), Rejected<V, K>> {
        self.write().insert_new(range, value)
    }

    /// Removes and returns the whole entry that holds an index.
    ///
    /// O(log entries).
    ///
    /// # Errors
    /// [`Error::ArenaFull`], [`Error::GarbageLimit`]: a removal replaces nodes, too.
    pub fn remove(&self, index: K) -> Result<Option<(Range<K>, V)>, Error<K>> {
        self.write().remove(index)
    }

    /// As [`store`](Self::store), and returns what was there before: entries, and the parts of
    /// those that the range cuts, with clones of their values.
    ///
    /// The cost of [`store`](Self::store).
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn replace(
        &self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Removed<V, K>, Rejected<V, K>> {
        self.write().replace(range, value)
    }

    /// As [`clear_range`](Self::clear_range), and returns what was there, as
    /// [`replace`](Self::replace) does. This is what `munmap` needs.
    ///
    /// The cost of [`clear_range`](Self::clear_range).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
    /// assert_eq!(map.take_range(5..=24)?, [(5..=9, 'a'), (20..=24, 'b')]);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`clear_range`](Self::clear_range).
    pub fn take_range(&self, range: impl IndexRange<K>) -> Result<Removed<V, K>, Error<K>> {
        self.write().take_range(range)
    }

    /// Makes a range a gap. Entries that it overlaps keep the indices outside the range.
    ///
    /// O(log entries + entries that it overlaps).
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::GarbageLimit`].
    pub fn clear_range(&self, range: impl IndexRange<K>) -> Result<(), Error<K>> {
        self.write().clear_range(range)
    }

    /// Gives the entries in a range the values that the function makes of theirs, and joins
    /// neighbours that touch and are then equal, as [`store_coalescing`](Self::store_coalescing)
    /// does. An entry that the range cuts is changed only inside of it. The function gets the part
    /// of each entry that lies in the range, with its value, in order. Readers see all changes, or
    /// none.
    ///
    /// This is what `mprotect` does to an address space.
    ///
    /// A change for each entry: O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=99, 1), (100..=199, 3)]);
    /// map.modify_range(50..=149, |_, _| 2)?;
    /// assert_eq!(format!("{map:?}"), "{0..=49: 1, 50..=149: 2, 150..=199: 3}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::GarbageLimit`]: nothing has changed.
    pub fn modify_range(
        &self,
        range: impl IndexRange<K>,
        change: impl FnMut(Range<K>, &V) -> V,
    ) -> Result<(), Error<K>>
    where
        V: PartialEq,
    {
        let mut txn = self.begin();
        txn.modify_range(range, change)?;
        txn.commit();
        Ok(())
    }

    /// Moves what is in a range, entries and gaps, to another one of the same length, which begins
    /// at `to`. What was there is cleared. The ranges may overlap. Entries that the range cuts
    /// stay outside of it. Readers see all of it, or nothing.
    ///
    /// This is what `mremap` does to an address space.
    ///
    /// A change for each entry: O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
    /// map.move_range(5..=24, 100)?;
    /// assert_eq!(format!("{map:?}"), "{0..=4: 'a', 25..=29: 'b', 100..=104: 'a', 115..=119: 'b'}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyRange`]; [`Error::WindowTooSmall`] when the range would end beyond the highest
    /// index; [`Error::ArenaFull`], [`Error::GarbageLimit`]: nothing has changed.
    pub fn move_range(&self, range: impl IndexRange<K>, to: K) -> Result<(), Error<K>> {
        let mut txn = self.begin();
        txn.move_range(range, to)?;
        txn.commit();
        Ok(())
    }

    /// Removes all entries.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// [`Error::GarbageLimit`].
    pub fn clear(&self) -> Result<(), Error<K>> {
        self.clear_range(..)
    }

    /// Stores at the lowest `size` indices of a window that no entry has, or at the place that the
    /// [`Window`] chooses. Returns the range.
    ///
    /// The search of [`find_gap`](Self::find_gap), and a store.
    ///
    /// ```
    /// use sapwood::maple::{Error, MapleMap, Window};
    /// let map = MapleMap::new();
    /// assert_eq!(map.alloc_range(10, 5..=90, 'a')?, 5..=14);
    /// assert_eq!(map.alloc_range(10, Window::new(5..=90).from_end(), 'b')?, 81..=90);
    /// let refused = map.alloc_range(100, 5..=90, 'c').unwrap_err();
    /// assert_eq!(refused.error, Error::WindowTooSmall { size: 100, start: 5, end: 90 });
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoGap`]; [`Error::EmptyRange`], [`Error::ZeroSize`], [`Error::WindowTooSmall`],
    /// [`Error::Alignment`]; those of [`store`](Self::store); with the value given back.
    pub fn alloc_range(
        &self,
        size: K::Word,
        within: impl Into<Window<K>>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>> {
        self.write().alloc_range(size, within, value)
    }

    /// Plans a store: counts the nodes that it makes if the map stays as it is until then. A plan
    /// holds nothing.
    ///
    /// As [`store`](Self::store), and it makes nothing.
    ///
    /// All methods that plan take the map's lock. Beside a [`write`](Self::write) on the same
    /// thread they panic; the [`MapleWriter`] has the same methods for that case.
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn plan_store(
        &self,
        range: impl IndexRange<K>,
        value: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        self.write().plan_store(range, value)
    }

    /// As [`plan_store`](Self::plan_store), for [`insert_new`](Self::insert_new): if somebody has
    /// stored an entry in the range when the plan is reserved, the reservation fails with
    /// [`Error::Occupied`].
    ///
    /// # Errors
    /// [`Error::EmptyRange`]; [`Error::Occupied`], if there is an entry now.
    pub fn plan_insert_new(
        &self,
        range: impl IndexRange<K>,
        value: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        self.write().plan_insert_new(range, value)
    }

    /// As [`plan_store`](Self::plan_store), at the place that [`alloc_range`](Self::alloc_range)
    /// would choose.
    ///
    /// # Errors
    /// As [`alloc_range`](Self::alloc_range).
    pub fn plan_alloc(
        &self,
        size: K::Word,
        within: impl Into<Window<K>>,
        value: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        self.write().plan_alloc(size, within, value)
    }

    /// As [`plan_store`](Self::plan_store), for [`clear_range`](Self::clear_range).
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn plan_clear(&self, range: impl IndexRange<K>) -> Result<ErasePlan<K>, Error<K>> {
        self.write().plan_clear(range)
    }

    /// As [`plan_store`](Self::plan_store), for [`remove`](Self::remove).
    pub fn plan_remove(&self, index: K) -> ErasePlan<K> {
        self.write().plan_remove(index)
    }

    /// Takes the memory that a planned store needs, and the map's lock. This is the only step that
    /// can fail. If the map was changed since, the plan is made anew, and a plan of
    /// [`plan_alloc`](Self::plan_alloc) searches its gap anew.
    ///
    /// O(nodes of the plan).
    ///
    /// # Errors
    /// [`Error::ArenaFull`], also when the process's heap has no memory for the lists that the
    /// change needs; [`Error::GarbageLimit`]; [`Error::NoGap`] when the gap has gone.
    pub fn reserve(&self, plan: StorePlan<K>) -> Result<Reservation<'_, V, K>, Error<K>> {
        plan::reserve(&self.shared, &plan)
    }

    /// As [`reserve`](Self::reserve), for an erasure. A stale plan of
    /// [`plan_remove`](Self::plan_remove) searches the entry anew.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn reserve_erase(
        &self,
        plan: ErasePlan<K>,
    ) -> Result<EraseReservation<'_, V, K>, Error<K>> {
        plan::reserve_erase(&self.shared, &plan)
    }

    /// Takes the most memory that `changes` later stores or erasures may need, wherever they are.
    /// It does not hold the lock.
    ///
    /// # Errors
    /// [`Error::ArenaFull`], also when the process's heap has no memory for the lists.
    pub fn reserve_unknown(&self, changes: usize) -> Result<UnknownReservation<V, K>, Error<K>> {
        UnknownReservation::new(self, changes)
    }

    /// An independent map with the same entries, clones of the values, and nodes of the same shape.
    /// Its arena has the same options; it shares the domain.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// [`Error::ArenaFull`]; this map is as it was.
    pub fn dup(&self) -> Result<MapleMap<V, K>, Error<K>> {
        let from = self.write();
        let other = MapleMap::with(self.shared.config(&from.writer), self.domain().clone());
        let mut to = other.write();
        self.shared
            .copy_to(&from.writer, &other.shared, &mut to.writer)?;
        drop(to);
        Ok(other)
    }

    /// The memory that the map uses.
    ///
    /// It takes the lock of the map, reads the accounts and walks nothing.
    pub fn memory(&self) -> MapleMemory {
        MapleMemory::new(&self.write().writer)
    }

    /// Checks every invariant: order, bounds, gap words, fill, accounts. It takes linear time under
    /// the lock.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        let writer = self.write();
        self.shared.verify(&writer.writer)
    }

    /// Frees up to `budget` blocks that no reader and no snapshot can reach any more; returns how
    /// many. Each change frees some blocks as well. The call that frees the last block of an empty
    /// map gives all memory back to the system.
    ///
    /// O(budget), and a look at each reader.
    pub fn reclaim(&self, budget: usize) -> usize {
        let mut writer = self.write();
        let MapleWriter {
            writer, dropped, ..
        } = &mut writer;
        self.shared.reclaim(writer, budget, dropped)
    }
}

pub(super) fn cloned<V: Clone, K>(entry: Option<(Range<K>, &V)>) -> Option<(Range<K>, V)> {
    entry.map(|(range, value)| (range, value.clone()))
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static, K: Index> fmt::Debug for MapleMap<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|view| view.fmt(f))
    }
}

impl<'m, V: Clone + Send + Sync + 'static, K: Index> IntoIterator for &'m MapleMap<V, K> {
    type Item = (Range<K>, V);
    type IntoIter = MapIter<'m, V, K>;

    fn into_iter(self) -> MapIter<'m, V, K> {
        self.iter()
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Readable for MapleMap<V, K> {
    type View<'g> = MapleView<'g, V, K>;

    fn domain(&self) -> &Domain {
        self.shared.domain()
    }

    #[inline]
    fn view<'g>(&'g self, guard: Guard<'g>) -> MapleView<'g, V, K> {
        MapleView::new(self.shared.view(guard))
    }
}

/// Stores the entries one after the other.
///
/// # Panics
/// For an empty range, and when the arena is full.
impl<V: Clone + Send + Sync + 'static, K: Index> Extend<(Range<K>, V)> for MapleMap<V, K> {
    fn extend<I: IntoIterator<Item = (Range<K>, V)>>(&mut self, entries: I) {
        for (range, value) in entries {
            if let Err(refused) = self.store(range, value) {
                panic!("{refused}");
            }
        }
    }
}

/// Stores the entries one after the other.
///
/// # Panics
/// For an empty range, and when the arena is full.
impl<V: Clone + Send + Sync + 'static> FromIterator<(Range, V)> for MapleMap<V> {
    fn from_iter<I: IntoIterator<Item = (Range, V)>>(entries: I) -> Self {
        let mut map = MapleMap::new();
        map.extend(entries);
        map
    }
}

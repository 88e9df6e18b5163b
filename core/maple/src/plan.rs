//! Plans, and reservations of exactly the memory that they need.

use core::fmt;

use super::gap::Fit;
use super::raw::space::Held;
use super::raw::table::{MapleShared, Writer};
use super::raw::write::Cost;
use super::view::MapleView;
use super::window::Window;
use super::writer::MapleWriter;
use crate::index::{bounds, span};
use crate::sync::WriterGuard;
use crate::{Error, Index, IndexRange, Range, Word, Words};

/// The plan of a store, from [`MapleMap::plan_store`](super::MapleMap::plan_store) and others.
///
/// A plan holds nothing. If the map is changed before the plan is reserved, `reserve` makes it
/// anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlan<K: Index = u64> {
    pub(super) range: Words<K>,
    /// The search that found the range, if the caller did not give it.
    fit: Option<Fit<K::Word>>,
    /// Whether the range has to be free when the plan is reserved.
    free: bool,
    pub(super) cost: Cost<K::Word>,
}

/// The plan of an erasure, from [`MapleMap::plan_clear`](super::MapleMap::plan_clear) and
/// [`plan_remove`](super::MapleMap::plan_remove).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasePlan<K: Index = u64> {
    /// The range to clear; `None` when there is nothing to erase.
    range: Option<Words<K>>,
    /// The index whose entry is to be erased, if the caller gave an index and not a range.
    index: Option<K>,
    pub(super) cost: Cost<K::Word>,
}

/// The methods of a plan or a reservation that return its [`Cost`]; the argument is the field.
macro_rules! costs {
    ($($cost:ident).+) => {
        /// The exact number of nodes that the change makes, if the map stays as it is until then.
        ///
        /// O(1).
        pub fn nodes(&self) -> usize {
            self.$($cost).+.nodes
        }

        /// The bytes of these nodes, and of the blocks of values.
        ///
        /// O(1).
        pub fn bytes(&self) -> usize {
            self.$($cost).+.bytes
        }
    };
}

impl<K: Index> StorePlan<K> {
    costs!(cost);

    /// The plan for the case that the range is still free when the plan is reserved; otherwise
    /// [`reserve`](super::MapleMap::reserve) fails with [`Error::Occupied`]. A plan of
    /// [`plan_alloc`](super::MapleMap::plan_alloc) keeps its place then, where it would search
    /// another one.
    ///
    /// O(1).
    ///
    /// ```
    /// use sapwood::maple::{Error, MapleMap};
    /// let map = MapleMap::new();
    /// let plan = map.plan_alloc(10, 0..=99, &'a')?.if_free();
    /// map.store(5..=5, 'b')?; // somebody else
    /// let refused = map.reserve(plan).err();
    /// assert_eq!(refused, Some(Error::Occupied { start: 5, end: 5 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn if_free(self) -> Self {
        StorePlan {
            fit: None,
            free: true,
            ..self
        }
    }

    /// The range where the value is to be stored.
    ///
    /// O(1).
    pub fn range(&self) -> Range<K> {
        span::<K>(self.range)
    }
}

impl<K: Index> ErasePlan<K> {
    costs!(cost);

    /// The range that is to be cleared, if any.
    ///
    /// O(1).
    pub fn range(&self) -> Option<Range<K>> {
        self.range.map(span::<K>)
    }
}

/// The writing side, for a reservation: its own, or borrowed from a [`MapleWriter`].
enum Side<'a, V, W> {
    Own(WriterGuard<'a, Writer<V, W>>, Vec<V>),
    Lent(&'a mut Writer<V, W>, &'a mut Vec<V>),
}

impl<V, W: Word> Side<'_, V, W> {
    fn parts(&mut self) -> (&mut Writer<V, W>, &mut Vec<V>) {
        match self {
            Side::Own(writer, dropped) => (writer, dropped),
            Side::Lent(writer, dropped) => (writer, dropped),
        }
    }
}

/// Blocks that are held for one change, and the map's lock.
struct Holding<'a, V, W: Word> {
    shared: &'a MapleShared<V, W>,
    // The lock is released before values are dropped: their `drop` may use the map.
    side: Side<'a, V, W>,
    held: Vec<Held>,
    /// The range to change; `None` when there is nothing to change.
    range: Option<(W, W)>,
    cost: Cost<W>,
}

impl<V: Clone, W: Word> Holding<'_, V, W> {
    fn change(mut self, value: Option<V>) {
        if self.range.is_none() {
            return;
        }
        let (writer, _) = self.side.parts();
        // `drop` gives back the blocks that are not used, as when a clone panics.
        self.shared.change_held(writer, value, &mut self.held);
    }
}

impl<V, W: Word> Drop for Holding<'_, V, W> {
    fn drop(&mut self) {
        let mut held = core::mem::take(&mut self.held);
        let shared = self.shared;
        shared.drop_held(self.side.parts().0, &mut held);
    }
}

/// The memory of a planned store, reserved. [`store`](Self::store) cannot fail any more, and takes
/// nothing else, neither from the arena nor from the process's heap. Only the `clone` of a value
/// may.
///
/// A reservation holds the map's lock. Other threads that take the lock wait until it is dropped;
/// the same thread panics, as it would wait for itself. Dropping a reservation gives everything
/// back.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
/// let plan = map.plan_store(5..=24, &'c')?;
/// assert_eq!(plan.nodes(), 1);
/// let reservation = map.reserve(plan)?;
/// assert_eq!(reservation.nodes(), 1);
/// reservation.store('c');
/// assert_eq!(map.get_entry(20), Some((5..=24, 'c')));
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct Reservation<'a, V: Clone, K: Index = u64> {
    holding: Holding<'a, V, K::Word>,
    range: Words<K>,
}

/// The memory of a planned erasure, reserved as in a [`Reservation`].
pub struct EraseReservation<'a, V: Clone, K: Index = u64> {
    holding: Holding<'a, V, K::Word>,
}

impl<V: Clone, K: Index> Reservation<'_, V, K> {
    costs!(holding.cost);

    /// The range where the value will be stored.
    ///
    /// O(1).
    pub fn range(&self) -> Range<K> {
        span::<K>(self.range)
    }

    /// Stores the value.
    ///
    /// O(nodes of the plan), which it writes; it marks those that they replace.
    ///
    /// # Panics
    /// Only when the clone of a value that the range cuts in two panics; then nothing has changed.
    pub fn store(self, value: V) {
        self.holding.change(Some(value));
    }
}

impl<V: Clone, K: Index> EraseReservation<'_, V, K> {
    costs!(holding.cost);

    /// Clears the planned range.
    ///
    /// O(nodes of the plan), as [`Reservation::store`].
    ///
    /// # Panics
    /// As [`Reservation::store`].
    pub fn erase(self) {
        self.holding.change(None);
    }
}

impl<V: Clone, K: Index> fmt::Debug for Reservation<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("range", &self.range())
            .field("nodes", &self.nodes())
            .finish_non_exhaustive()
    }
}

impl<V: Clone, K: Index> fmt::Debug for EraseReservation<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EraseReservation")
            .field("nodes", &self.nodes())
            .finish_non_exhaustive()
    }
}

/// Drafts a change; returns what it takes.
fn plan<V: Clone, W: Word>(
    shared: &MapleShared<V, W>,
    writer: &mut Writer<V, W>,
    range: (W, W),
    put: bool,
) -> Cost<W> {
    shared.draft(writer, range, put);
    shared.cost(writer, put)
}

/// Holds the blocks of a change. Drafts the change anew if the map has been changed since.
fn hold<'a, V: Clone, K: Index>(
    shared: &'a MapleShared<V, K::Word>,
    mut side: Side<'a, V, K::Word>,
    range: Option<Words<K>>,
    put: bool,
    mut cost: Cost<K::Word>,
) -> Result<Holding<'a, V, K::Word>, Error<K>> {
    let (writer, dropped) = side.parts();
    let held = match range {
        None => Vec::new(),
        Some(range) => {
            if !MapleShared::<V, _>::is_newest(writer, cost.draft) {
                shared.draft(writer, range, put);
            }
            // Also when the draft is the newest: the plan may be that of the same change of another
            // map.
            cost = shared.cost(writer, put);
            shared.hold::<Error<K>>(writer, put, dropped)?
        }
    };
    Ok(Holding {
        shared,
        side,
        held,
        range,
        cost,
    })
}

/// As [`hold`], for a store. Searches its range anew, too, if the caller did not give it.
fn hold_store<'a, V: Clone, K: Index>(
    shared: &'a MapleShared<V, K::Word>,
    mut side: Side<'a, V, K::Word>,
    plan: &StorePlan<K>,
) -> Result<Reservation<'a, V, K>, Error<K>> {
    let mut range = plan.range;
    let writer = &*side.parts().0;
    if let (Some(fit), false) = (
        &plan.fit,
        MapleShared::<V, _>::is_newest(writer, plan.cost.draft),
    ) {
        let start = shared.still(writer).place(fit);
        let start = start.ok_or(Error::NoGap { size: fit.size })?;
        range = (start, start + (fit.size - K::Word::ONE));
    }
    if plan.free && !MapleShared::<V, _>::is_newest(writer, plan.cost.draft) {
        MapleView::<V, K>::new(shared.still(writer)).free(range)?;
    }
    let holding = hold(shared, side, Some(range), true, plan.cost)?;
    Ok(Reservation { holding, range })
}

/// As [`hold`], for an erasure. Searches the entry anew, too, if the caller gave an index.
fn hold_erase<'a, V: Clone, K: Index>(
    shared: &'a MapleShared<V, K::Word>,
    mut side: Side<'a, V, K::Word>,
    plan: &ErasePlan<K>,
) -> Result<EraseReservation<'a, V, K>, Error<K>> {
    let mut range = plan.range;
    let writer = &*side.parts().0;
    if let (Some(index), false) = (
        plan.index,
        MapleShared::<V, _>::is_newest(writer, plan.cost.draft),
    ) {
        let entry = shared.still(writer).entry(index.to_word());
        range = entry.map(|entry| (entry.start, entry.end));
    }
    let holding = hold(shared, side, range, false, plan.cost)?;
    Ok(EraseReservation { holding })
}

impl<V: Clone + Send + Sync + 'static, K: Index> MapleWriter<'_, V, K> {
    /// As [`MapleMap::plan_store`](super::MapleMap::plan_store).
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn plan_store(
        &mut self,
        range: impl IndexRange<K>,
        _: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        let range = bounds(range)?;
        let cost = plan(self.shared(), &mut self.writer, range, true);
        Ok(StorePlan {
            range,
            fit: None,
            free: false,
            cost,
        })
    }

    /// As [`MapleMap::plan_insert_new`](super::MapleMap::plan_insert_new).
    ///
    /// # Errors
    /// As [`MapleMap::plan_insert_new`](super::MapleMap::plan_insert_new).
    pub fn plan_insert_new(
        &mut self,
        range: impl IndexRange<K>,
        value: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        let words = bounds(range)?;
        self.view().free(words)?;
        Ok(self.plan_store(span::<K>(words), value)?.if_free())
    }

    /// As [`MapleMap::plan_alloc`](super::MapleMap::plan_alloc).
    ///
    /// # Errors
    /// As [`MapleMap::alloc_range`](super::MapleMap::alloc_range).
    pub fn plan_alloc(
        &mut self,
        size: K::Word,
        within: impl Into<Window<K>>,
        value: &V,
    ) -> Result<StorePlan<K>, Error<K>> {
        let fit = within.into().fit(size)?;
        let found = self.view().place(&fit);
        let plan = self.plan_store(found.ok_or(Error::NoGap { size })?, value)?;
        Ok(StorePlan {
            fit: Some(fit),
            ..plan
        })
    }

    /// As [`MapleMap::plan_clear`](super::MapleMap::plan_clear).
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn plan_clear(&mut self, range: impl IndexRange<K>) -> Result<ErasePlan<K>, Error<K>> {
        let range = bounds(range)?;
        let cost = plan(self.shared(), &mut self.writer, range, false);
        Ok(ErasePlan {
            range: Some(range),
            index: None,
            cost,
        })
    }

    /// As [`MapleMap::plan_remove`](super::MapleMap::plan_remove).
    pub fn plan_remove(&mut self, index: K) -> ErasePlan<K> {
        let entry = self.view().get_entry(index).map(|(range, _)| range);
        match entry {
            Some(entry) => {
                let range = (entry.start().to_word(), entry.end().to_word());
                let cost = plan(self.shared(), &mut self.writer, range, false);
                ErasePlan {
                    range: Some(range),
                    index: Some(index),
                    cost,
                }
            }
            None => ErasePlan {
                range: None,
                index: Some(index),
                cost: Cost::default(),
            },
        }
    }

    /// As [`MapleMap::reserve`](super::MapleMap::reserve), under this writer's lock.
    ///
    /// # Errors
    /// As [`MapleMap::reserve`](super::MapleMap::reserve).
    pub fn reserve(&mut self, plan: StorePlan<K>) -> Result<Reservation<'_, V, K>, Error<K>> {
        let shared = self.shared();
        hold_store(
            shared,
            Side::Lent(&mut self.writer, &mut self.dropped),
            &plan,
        )
    }

    /// As [`MapleMap::reserve_erase`](super::MapleMap::reserve_erase), under this writer's lock.
    ///
    /// # Errors
    /// As [`MapleMap::reserve`](super::MapleMap::reserve).
    pub fn reserve_erase(
        &mut self,
        plan: ErasePlan<K>,
    ) -> Result<EraseReservation<'_, V, K>, Error<K>> {
        let shared = self.shared();
        let side = Side::Lent(&mut self.writer, &mut self.dropped);
        hold_erase(shared, side, &plan)
    }
}

/// A reservation that keeps the map's lock by itself.
pub(super) fn reserve<'m, V: Clone, K: Index>(
    shared: &'m MapleShared<V, K::Word>,
    plan: &StorePlan<K>,
) -> Result<Reservation<'m, V, K>, Error<K>> {
    hold_store(shared, Side::Own(shared.write(), Vec::new()), plan)
}

/// As [`reserve`], for an erasure.
pub(super) fn reserve_erase<'m, V: Clone, K: Index>(
    shared: &'m MapleShared<V, K::Word>,
    plan: &ErasePlan<K>,
) -> Result<EraseReservation<'m, V, K>, Error<K>> {
    hold_erase(shared, Side::Own(shared.write(), Vec::new()), plan)
}

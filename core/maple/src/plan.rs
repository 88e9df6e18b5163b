//! Plans, and reservations of exactly the memory that they need.

use core::fmt;

use super::gap::Fit;
use super::raw::space::Held;
use super::raw::table::{MapleShared, Writer};
use super::raw::write::Cost;
use super::view::MapleView;
use super::window::Window;
use super::writer::MapleWriter;
use super::{Range, bounds};
use crate::Error;
use crate::sync::WriterGuard;

/// The plan of a store, from [`MapleMap::plan_store`](super::MapleMap::plan_store) and others.
///
/// A plan holds nothing. If the map is changed before the plan is reserved, `reserve` makes it
/// anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlan {
    pub(super) range: (u64, u64),
    /// The search that found the range, if the caller did not give it.
    fit: Option<Fit>,
    /// Whether the range has to be free when the plan is reserved.
    free: bool,
    pub(super) cost: Cost,
}

/// The plan of an erasure, from [`MapleMap::plan_clear`](super::MapleMap::plan_clear) and
/// [`plan_remove`](super::MapleMap::plan_remove).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasePlan {
    /// The range to clear; `None` when there is nothing to erase.
    range: Option<(u64, u64)>,
    /// The index whose entry is to be erased, if the caller gave an index and not a range.
    index: Option<u64>,
    pub(super) cost: Cost,
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

impl StorePlan {
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
    pub fn range(&self) -> Range {
        self.range.0..=self.range.1
    }
}

impl ErasePlan {
    costs!(cost);

    /// The range that is to be cleared, if any.
    ///
    /// O(1).
    pub fn range(&self) -> Option<Range> {
        self.range.map(|(start, end)| start..=end)
    }
}

/// The writing side, for a reservation: its own, or borrowed from a [`MapleWriter`].
enum Side<'a, V> {
    Own(WriterGuard<'a, Writer<V>>, Vec<V>),
    Lent(&'a mut Writer<V>, &'a mut Vec<V>),
}

impl<V> Side<'_, V> {
    fn parts(&mut self) -> (&mut Writer<V>, &mut Vec<V>) {
        match self {
            Side::Own(writer, dropped) => (writer, dropped),
            Side::Lent(writer, dropped) => (writer, dropped),
        }
    }
}

/// Blocks that are held for one change, and the map's lock.
struct Holding<'a, V> {
    shared: &'a MapleShared<V>,
    // The lock is released before values are dropped: their `drop` may use the map.
    side: Side<'a, V>,
    held: Vec<Held>,
    /// The range to change; `None` when there is nothing to change.
    range: Option<(u64, u64)>,
    cost: Cost,
}

impl<V: Clone> Holding<'_, V> {
    fn change(mut self, value: Option<V>) {
        if self.range.is_none() {
            return;
        }
        let (writer, _) = self.side.parts();
        // `drop` gives back the blocks that are not used, as when a clone panics.
        self.shared.change_held(writer, value, &mut self.held);
    }
}

impl<V> Drop for Holding<'_, V> {
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
pub struct Reservation<'a, V: Clone> {
    holding: Holding<'a, V>,
    range: (u64, u64),
}

/// The memory of a planned erasure, reserved as in a [`Reservation`].
pub struct EraseReservation<'a, V: Clone> {
    holding: Holding<'a, V>,
}

impl<V: Clone> Reservation<'_, V> {
    costs!(holding.cost);

    /// The range where the value will be stored.
    ///
    /// O(1).
    pub fn range(&self) -> Range {
        self.range.0..=self.range.1
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

impl<V: Clone> EraseReservation<'_, V> {
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

impl<V: Clone> fmt::Debug for Reservation<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("range", &self.range())
            .field("nodes", &self.nodes())
            .finish_non_exhaustive()
    }
}

impl<V: Clone> fmt::Debug for EraseReservation<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EraseReservation")
            .field("nodes", &self.nodes())
            .finish_non_exhaustive()
    }
}

/// Drafts a change; returns what it takes.
fn plan<V: Clone>(
    shared: &MapleShared<V>,
    writer: &mut Writer<V>,
    range: (u64, u64),
    put: bool,
) -> Cost {
    shared.draft(writer, range, put);
    shared.cost(writer, put)
}

/// Holds the blocks of a change. Drafts the change anew if the map has been changed since.
fn hold<'a, V: Clone>(
    shared: &'a MapleShared<V>,
    mut side: Side<'a, V>,
    range: Option<(u64, u64)>,
    put: bool,
    mut cost: Cost,
) -> Result<Holding<'a, V>, Error> {
    let (writer, dropped) = side.parts();
    let held = match range {
        None => Vec::new(),
        Some(range) => {
            if !MapleShared::is_newest(writer, cost.draft) {
                shared.draft(writer, range, put);
            }
            // Also when the draft is the newest: the plan may be that of the same change of another
            // map.
            cost = shared.cost(writer, put);
            shared.hold(writer, put, dropped)?
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
fn hold_store<'a, V: Clone>(
    shared: &'a MapleShared<V>,
    mut side: Side<'a, V>,
    plan: &StorePlan,
) -> Result<Reservation<'a, V>, Error> {
    let mut range = plan.range;
    let writer = &*side.parts().0;
    if let (Some(fit), false) = (&plan.fit, MapleShared::is_newest(writer, plan.cost.draft)) {
        let start = shared.still(writer).place(fit);
        let start = start.ok_or(Error::NoGap { size: fit.size })?;
        range = (start, start + (fit.size - 1));
    }
    if plan.free && !MapleShared::is_newest(writer, plan.cost.draft) {
        MapleView::new(shared.still(writer)).free(range)?;
    }
    let holding = hold(shared, side, Some(range), true, plan.cost)?;
    Ok(Reservation { holding, range })
}

/// As [`hold`], for an erasure. Searches the entry anew, too, if the caller gave an index.
fn hold_erase<'a, V: Clone>(
    shared: &'a MapleShared<V>,
    mut side: Side<'a, V>,
    plan: &ErasePlan,
) -> Result<EraseReservation<'a, V>, Error> {
    let mut range = plan.range;
    let writer = &*side.parts().0;
    if let (Some(index), false) = (plan.index, MapleShared::is_newest(writer, plan.cost.draft)) {
        let entry = shared.still(writer).entry(index);
        range = entry.map(|entry| (entry.start, entry.end));
    }
    let holding = hold(shared, side, range, false, plan.cost)?;
    Ok(EraseReservation { holding })
}

impl<V: Clone + Send + Sync + 'static> MapleWriter<'_, V> {
    /// As [`MapleMap::plan_store`](super::MapleMap::plan_store).
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn plan_store(&mut self, range: Range, _: &V) -> Result<StorePlan, Error> {
        let range = bounds(&range)?;
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
    pub fn plan_insert_new(&mut self, range: Range, value: &V) -> Result<StorePlan, Error> {
        self.view().free(bounds(&range)?)?;
        Ok(self.plan_store(range, value)?.if_free())
    }

    /// As [`MapleMap::plan_alloc`](super::MapleMap::plan_alloc).
    ///
    /// # Errors
    /// As [`MapleMap::alloc_range`](super::MapleMap::alloc_range).
    pub fn plan_alloc(
        &mut self,
        size: u64,
        within: impl Into<Window>,
        value: &V,
    ) -> Result<StorePlan, Error> {
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
    pub fn plan_clear(&mut self, range: Range) -> Result<ErasePlan, Error> {
        let range = bounds(&range)?;
        let cost = plan(self.shared(), &mut self.writer, range, false);
        Ok(ErasePlan {
            range: Some(range),
            index: None,
            cost,
        })
    }

    /// As [`MapleMap::plan_remove`](super::MapleMap::plan_remove).
    pub fn plan_remove(&mut self, index: u64) -> ErasePlan {
        let entry = self.view().get_entry(index).map(|(range, _)| range);
        match entry {
            Some(entry) => {
                let range = (*entry.start(), *entry.end());
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
    pub fn reserve(&mut self, plan: StorePlan) -> Result<Reservation<'_, V>, Error> {
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
    pub fn reserve_erase(&mut self, plan: ErasePlan) -> Result<EraseReservation<'_, V>, Error> {
        let shared = self.shared();
        let side = Side::Lent(&mut self.writer, &mut self.dropped);
        hold_erase(shared, side, &plan)
    }
}

/// A reservation that keeps the map's lock by itself.
pub(super) fn reserve<'m, V: Clone>(
    shared: &'m MapleShared<V>,
    plan: &StorePlan,
) -> Result<Reservation<'m, V>, Error> {
    hold_store(shared, Side::Own(shared.write(), Vec::new()), plan)
}

/// As [`reserve`], for an erasure.
pub(super) fn reserve_erase<'m, V: Clone>(
    shared: &'m MapleShared<V>,
    plan: &ErasePlan,
) -> Result<EraseReservation<'m, V>, Error> {
    hold_erase(shared, Side::Own(shared.write(), Vec::new()), plan)
}

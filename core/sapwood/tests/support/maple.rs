//! Applies the model's operations to range maps, and compares answers, contents and invariants, and
//! the nodes planned with the nodes made.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::maple::{ErasePlan, MapleMap, MapleTxn, MapleView, UnknownReservation, Window};
use sapwood::maple::{Error, Rejected};
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{RangeOp, RangeOutcome};

use super::spaces::{Plain, Space};

pub type Range = RangeInclusive<u64>;

/// A value that shows the number of the model from which it was made.
pub trait Number: Clone + PartialEq + Send + Sync + 'static {
    fn number(&self) -> u64;
}

impl Number for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

/// A value that owns memory, so that a sanitizer sees a second drop and a leak. It is larger than a
/// slot.
impl Number for (Box<u64>, u64) {
    fn number(&self) -> u64 {
        assert_eq!(*self.0, self.1);
        self.1
    }
}

/// Options that detect misuse: freed memory is poisoned.
pub fn loud() -> ArenaOptions {
    small().debug(DebugMode::Poison)
}

/// The same for memory that moves when it grows.
pub fn loud_heap() -> ArenaOptions {
    ArenaOptions::default().debug(DebugMode::Poison)
}

/// Options with address space for a test.
pub fn small() -> ArenaOptions {
    ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 })
}

/// A map with nodes so small that a few entries make a tree of many levels.
pub fn tiny_nodes<V: Clone + Send + Sync + 'static>(options: ArenaOptions) -> MapleMap<V> {
    MapleMap::builder().options(options).nodes(128, 4).build()
}

/// A map with nodes of the usual size.
pub fn usual_nodes<V: Clone + Send + Sync + 'static>(options: ArenaOptions) -> MapleMap<V> {
    MapleMap::builder().options(options).build()
}

/// The means by which an operation is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the map's own method.
    Plain,
    /// By a writer that holds the lock.
    Writer,
    /// By a plan and a reservation of exactly its nodes.
    Reserved,
    /// By a reservation made before the range was known.
    Unknown,
}

/// A map and its model with the same contents.
pub struct Pair<V, M, S: Space = Plain> {
    pub map: MapleMap<V, S::Key>,
    pub model: RangeMap<u64>,
    make: M,
    turn: u64,
}

impl<V: Number, M: Fn(u64) -> V> Pair<V, M> {
    /// Makes a pair of an empty map and model; `make` makes the map's values from the model's.
    pub fn new(map: MapleMap<V>, make: M) -> Self {
        Pair::in_space(map, make)
    }
}

impl<V: Number, M: Fn(u64) -> V, S: Space> Pair<V, M, S> {
    /// As [`new`](Pair::new), with a map of other indices than the model's.
    pub fn in_space(map: MapleMap<V, S::Key>, make: M) -> Self {
        assert!(map.is_empty());
        Pair {
            map,
            model: RangeMap::new(),
            make,
            turn: 0,
        }
    }

    /// The map's value for one of the model's.
    pub fn value(&self, number: u64) -> V {
        (self.make)(number)
    }

    /// The number of nodes that the map has made so far.
    pub fn made(&self) -> u64 {
        self.map.memory().nodes_made
    }

    /// Applies an operation to both, by alternating means.
    pub fn step(&mut self, op: &RangeOp) {
        self.try_step(op).unwrap();
    }

    /// Does the same as [`step`](Self::step) where memory may run out; the model is then unchanged.
    pub fn try_step(&mut self, op: &RangeOp) -> Result<(), Error<S::Key>> {
        self.turn += 1;
        let way = match self.turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 {
            0..4 => Way::Plain,
            4 => Way::Writer,
            5 | 6 => Way::Reserved,
            _ => Way::Unknown,
        };
        self.try_step_by(way, op)
    }

    /// Applies an operation to both by this means: the answers are equal, and the plan states the
    /// nodes made.
    pub fn try_step_by(&mut self, way: Way, op: &RangeOp) -> Result<(), Error<S::Key>> {
        let mut model = self.model.clone();
        let expected = op.apply(&mut model);
        let planned = self.planned(op, &expected);
        let before = self.made();
        let outcome = self.apply(way, op)?;
        assert_eq!(outcome, expected, "{op:?} by {way:?}");
        if let (Some(planned), false) = (planned, way == Way::Unknown) {
            let made = self.made() - before;
            assert_eq!(made, planned as u64, "{op:?} by {way:?}: made, planned");
        }
        self.model = model;
        Ok(())
    }

    /// Makes the change of this number on the map alone, by alternating means; its outcome is not
    /// compared.
    pub fn change_alone(&self, number: u64, op: &RangeOp) -> Result<(), Error<S::Key>> {
        let way = match number % 5 {
            0 => Way::Writer,
            1 => Way::Reserved,
            2 => Way::Unknown,
            _ => Way::Plain,
        };
        self.apply(way, op).map(drop)
    }

    /// The number of nodes that the operation needs, if there is a plan for it.
    fn planned(&self, op: &RangeOp, expected: &RangeOutcome) -> Option<usize> {
        use RangeOutcome as Out;
        let store = |range: &Range, value: u64| {
            let value = self.value(value);
            let plan = self.map.plan_store(S::range(range), &value).unwrap();
            assert_eq!(S::back(plan.range()), *range);
            Some(plan.nodes())
        };
        match (op, expected) {
            (_, Out::BadArgument | Out::NoGap | Out::Occupied(_)) => Some(0),
            (RangeOp::Store(range, value) | RangeOp::Insert(range, value), _) => {
                store(range, *value)
            }
            (RangeOp::StoreCoalescing(_, value), Out::At(Some(place))) => store(place, *value),
            (
                RangeOp::Alloc {
                    size,
                    align: 1,
                    within,
                    highest: false,
                    value,
                },
                Out::At(Some(place)),
            ) => {
                let value = self.value(*value);
                let plan = self
                    .map
                    .plan_alloc(S::size(*size), S::range(within), &value)
                    .unwrap();
                assert_eq!(S::back(plan.range()), *place);
                Some(plan.nodes())
            }
            (RangeOp::Alloc { value, .. }, Out::At(Some(place)))
            | (RangeOp::AllocCyclic { value, .. }, Out::Cyclic(place, _)) => store(place, *value),
            (RangeOp::Erase(index), _) => Some(self.map.plan_remove(S::index(*index)).nodes()),
            (RangeOp::ClearRange(range), _) => {
                Some(self.map.plan_clear(S::range(range)).unwrap().nodes())
            }
            (RangeOp::Clear, _) => None,
            _ => Some(0),
        }
    }

    fn apply(&self, way: Way, op: &RangeOp) -> Result<RangeOutcome, Error<S::Key>> {
        match (way, op) {
            (Way::Writer, _) if op.writes() => self.write(op),
            (Way::Reserved, RangeOp::Store(range, value)) => {
                answer::<_, S>(self.store_reserved(range, *value), |()| RangeOutcome::Done)
            }
            (Way::Reserved, RangeOp::ClearRange(range)) => {
                let plan = self.map.plan_clear(S::range(range));
                answer::<_, S>(plan.and_then(|plan| self.erase_reserved(plan)), |()| {
                    RangeOutcome::Done
                })
            }
            (Way::Reserved, RangeOp::Erase(index)) => {
                let there = self.map.get_entry(S::index(*index));
                let plan = self.map.plan_remove(S::index(*index));
                answer::<_, S>(self.erase_reserved(plan), |()| entry::<V, S>(there))
            }
            (Way::Unknown, RangeOp::Store(range, value)) => self.unknown(|reservation| {
                let stored = reservation.store(S::range(range), self.value(*value));
                back::<_, _, S>(stored, *value).map(|()| RangeOutcome::Done)
            }),
            (Way::Unknown, RangeOp::ClearRange(range)) => self.unknown(|reservation| {
                let cleared = reservation.clear_range(S::range(range));
                cleared.map(|()| RangeOutcome::Done)
            }),
            (
                Way::Unknown,
                RangeOp::Alloc {
                    size,
                    align: 1,
                    within,
                    highest: false,
                    value,
                },
            ) => self.unknown(|reservation| {
                let stored =
                    reservation.alloc_range(S::size(*size), S::range(within), self.value(*value));
                back::<_, _, S>(stored, *value).map(|place| RangeOutcome::At(Some(S::back(place))))
            }),
            _ if op.writes() => self.change(op),
            _ => Ok(self.ask(op)),
        }
    }

    /// Stores by an exact reservation. The memory held by the arena grows by at most the reserved
    /// bytes.
    fn store_reserved(&self, range: &Range, value: u64) -> Result<(), Error<S::Key>> {
        let value = self.value(value);
        let plan = self.map.plan_store(S::range(range), &value)?;
        let (nodes, bytes) = (plan.nodes(), plan.bytes());
        let before = self.map.memory();
        let reservation = self.map.reserve(plan)?;
        assert_eq!((reservation.nodes(), reservation.bytes()), (nodes, bytes));
        assert_eq!(S::back(reservation.range()), *range);
        reservation.store(value);
        let after = self.map.memory();
        assert_eq!(after.reserved, before.reserved);
        let (before, after) = (before.arena, after.arena);
        assert!(
            after.live + after.retired <= before.live + before.retired + bytes,
            "{bytes} bytes for {range:?}; {before:?}; {after:?}"
        );
        Ok(())
    }

    fn erase_reserved(&self, plan: ErasePlan<S::Key>) -> Result<(), Error<S::Key>> {
        let (nodes, bytes) = (plan.nodes(), plan.bytes());
        let before = self.map.memory();
        self.map.reserve_erase(plan)?.erase();
        let after = self.map.memory();
        assert_eq!(after.reserved, before.reserved);
        let (before, after) = (before.arena, after.arena);
        assert!(
            after.live + after.retired <= before.live + before.retired + bytes,
            "{nodes} nodes, {bytes} bytes; {before:?}; {after:?}"
        );
        Ok(())
    }

    /// Makes a change by a reservation for an unknown range. The change takes only reserved memory.
    fn unknown(
        &self,
        change: impl FnOnce(&mut UnknownReservation<V, S::Key>) -> Result<RangeOutcome, Error<S::Key>>,
    ) -> Result<RangeOutcome, Error<S::Key>> {
        let mut reservation = self.map.reserve_unknown(1)?;
        let before = self.map.memory().arena;
        let result = change(&mut reservation);
        assert_eq!(reservation.remaining(), usize::from(result.is_err()));
        let after = self.map.memory().arena;
        assert!(
            after.live + after.retired <= before.live + before.retired
                && after.frontier <= before.frontier,
            "{before:?}; {after:?}"
        );
        answer::<_, S>(result, |outcome| outcome)
    }

    /// Compares the contents of both, and verifies the map's invariants.
    pub fn agree(&self) {
        if let Err(wrong) = self.map.verify() {
            panic!("{wrong}");
        }
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.is_empty(), self.model.is_empty());
        let expected = self.model.to_vec();
        self.map.read(|view| {
            assert!(view.iter().map(owned::<V, S>).eq(expected.iter().cloned()));
            let back = view.iter().rev().map(owned::<V, S>);
            assert!(back.eq(expected.iter().rev().cloned()));
        });
    }
}

/// The window of a search.
pub fn window<S: Space>(within: &Range, align: u64, highest: bool) -> Window<S::Key> {
    let window = Window::new(S::range(within));
    let window = match align {
        1 => window,
        align => window.aligned(S::size(align)),
    };
    match highest {
        true => window.from_end(),
        false => window,
    }
}

/// The answer of a view to a query.
pub fn ask<V: Number, S: Space>(view: MapleView<'_, V, S::Key>, op: &RangeOp) -> RangeOutcome {
    use RangeOutcome as Out;
    match op {
        RangeOp::Locate(index) => {
            let index = S::index(*index);
            let (range, value) = view.locate(index);
            let range = S::back(range);
            assert_eq!(view.get(index).map(V::number), value.map(V::number));
            assert_eq!(view.contains(index), value.is_some());
            let there = value.map(|value| (range.clone(), value.number()));
            assert_eq!(view.get_entry(index).map(owned::<V, S>), there);
            Out::Place(range, value.map(V::number))
        }
        RangeOp::NextAfter(index) => {
            Out::Entry(view.next_after(S::index(*index)).map(owned::<V, S>))
        }
        RangeOp::PrevBefore(index) => {
            Out::Entry(view.prev_before(S::index(*index)).map(owned::<V, S>))
        }
        RangeOp::End { last: false } => Out::Entry(view.first().map(owned::<V, S>)),
        RangeOp::End { last: true } => Out::Entry(view.last().map(owned::<V, S>)),
        RangeOp::Range(range) => {
            let forward: Vec<_> = view.range(S::range(range)).map(owned::<V, S>).collect();
            let mut back: Vec<_> = view
                .range(S::range(range))
                .rev()
                .map(owned::<V, S>)
                .collect();
            back.reverse();
            assert_eq!(forward, back, "{range:?}");
            Out::Entries(forward)
        }
        RangeOp::Gaps(range) => Out::Gaps(view.gaps(S::range(range)).map(S::back).collect()),
        RangeOp::FindGap {
            size,
            align,
            within,
            highest,
        } => {
            let place = view.find_gap(S::size(*size), window::<S>(within, *align, *highest));
            if (*align, *highest) == (1, false) {
                assert_eq!(view.find_gap(S::size(*size), S::range(within)), place);
            }
            Out::At(place.map(S::back))
        }
        _ => unreachable!("a query"),
    }
}

/// Makes a query by the view and by the map.
impl<V: Number, M: Fn(u64) -> V, S: Space> Pair<V, M, S> {
    fn ask(&self, op: &RangeOp) -> RangeOutcome {
        use RangeOutcome as Out;
        let map = &self.map;
        let seen = map.read(|view| ask::<V, S>(view, op));
        let direct = match op {
            RangeOp::Locate(index) => {
                let index = S::index(*index);
                let there = map.get_entry(index);
                assert_eq!(map.contains(index), there.is_some());
                let value = there.map(|(_, value)| value.number());
                assert_eq!(map.get(index).map(|value| value.number()), value);
                let Out::Place(range, _) = &seen else {
                    unreachable!("a place")
                };
                Out::Place(range.clone(), value)
            }
            RangeOp::NextAfter(index) => entry::<V, S>(map.next_after(S::index(*index))),
            RangeOp::PrevBefore(index) => entry::<V, S>(map.prev_before(S::index(*index))),
            RangeOp::End { last: false } => entry::<V, S>(map.first()),
            RangeOp::End { last: true } => entry::<V, S>(map.last()),
            RangeOp::Range(range) => {
                let copied = |(range, value): (_, V)| (S::back(range), value.number());
                let forward: Vec<_> = map.range(S::range(range)).map(copied).collect();
                let mut back: Vec<_> = map.range(S::range(range)).rev().map(copied).collect();
                back.reverse();
                assert_eq!(forward, back, "{range:?}");
                Out::Entries(forward)
            }
            RangeOp::Gaps(range) => {
                let forward: Vec<_> = map.gaps(S::range(range)).map(S::back).collect();
                let mut back: Vec<_> = map.gaps(S::range(range)).rev().map(S::back).collect();
                back.reverse();
                assert_eq!(forward, back, "{range:?}");
                Out::Gaps(forward)
            }
            RangeOp::FindGap {
                size,
                align,
                within,
                highest,
            } => {
                let window = window::<S>(within, *align, *highest);
                Out::At(map.find_gap(S::size(*size), window).map(S::back))
            }
            _ => seen.clone(),
        };
        assert_eq!(seen, direct, "{op:?}");
        seen
    }
}

/// A writing operation by the methods of the map, of its writer or of a transaction, which have the
/// same names.
macro_rules! change_by {
    ($pair:expr, $to:expr, $op:expr) => {
        match $op {
            RangeOp::Store(range, value) => {
                let stored = $to.store(S::range(range), $pair.value(*value));
                answer::<_, S>(back::<_, _, S>(stored, *value), |()| RangeOutcome::Done)
            }
            RangeOp::StoreCoalescing(range, value) => {
                let stored = $to.store_coalescing(S::range(range), $pair.value(*value));
                answer::<_, S>(back::<_, _, S>(stored, *value), |place| {
                    RangeOutcome::At(Some(S::back(place)))
                })
            }
            RangeOp::Insert(range, value) => {
                let stored = $to.insert_new(S::range(range), $pair.value(*value));
                answer::<_, S>(back::<_, _, S>(stored, *value), |()| RangeOutcome::Done)
            }
            RangeOp::Erase(index) => answer::<_, S>($to.remove(S::index(*index)), entry::<V, S>),
            RangeOp::ClearRange(range) => {
                answer::<_, S>($to.clear_range(S::range(range)), |()| RangeOutcome::Done)
            }
            RangeOp::Clear => answer::<_, S>($to.clear_range(..), |()| RangeOutcome::Done),
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            } => {
                let (size, new) = (S::size(*size), $pair.value(*value));
                let stored = match (highest, align) {
                    (false, 1) => $to.alloc_range(size, S::range(within), new),
                    _ => $to.alloc_range(size, window::<S>(within, *align, *highest), new),
                };
                answer::<_, S>(back::<_, _, S>(stored, *value), |place| {
                    RangeOutcome::At(Some(S::back(place)))
                })
            }
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let window = Window::new(S::range(within)).starting_at(S::first(*next));
                let stored = $to.alloc_range(S::size(*size), window, $pair.value(*value));
                answer::<_, S>(back::<_, _, S>(stored, *value), |place| {
                    let place = S::back(place);
                    let next = place.end().checked_add(1).unwrap_or(*within.start());
                    RangeOutcome::Cyclic(place, next)
                })
            }
            _ => unreachable!("a change"),
        }
    };
}

impl<V: Number, M: Fn(u64) -> V, S: Space> Pair<V, M, S> {
    fn change(&self, op: &RangeOp) -> Result<RangeOutcome, Error<S::Key>> {
        change_by!(self, self.map, op)
    }

    fn write(&self, op: &RangeOp) -> Result<RangeOutcome, Error<S::Key>> {
        let mut writer = self.map.write();
        change_by!(self, writer, op)
    }

    /// Makes a change in a transaction.
    pub fn change_in(
        &self,
        txn: &mut MapleTxn<'_, V, S::Key>,
        op: &RangeOp,
    ) -> Result<RangeOutcome, Error<S::Key>> {
        change_by!(self, txn, op)
    }
}

/// Checks that a rejected value is the given one; returns the error.
fn back<T, V: Number, S: Space>(
    stored: Result<T, Rejected<V, S::Key>>,
    value: u64,
) -> Result<T, Error<S::Key>> {
    stored.map_err(|rejected| {
        assert_eq!(rejected.value.number(), value);
        rejected.error
    })
}

/// The outcome of a change, or an error if memory ran out.
fn answer<T, S: Space>(
    result: Result<T, Error<S::Key>>,
    done: impl FnOnce(T) -> RangeOutcome,
) -> Result<RangeOutcome, Error<S::Key>> {
    match result {
        Ok(value) => Ok(done(value)),
        Err(
            Error::EmptyRange { .. }
            | Error::WindowTooSmall { .. }
            | Error::ZeroSize
            | Error::Alignment { .. },
        ) => Ok(RangeOutcome::BadArgument),
        Err(Error::Occupied { start, end }) => Ok(RangeOutcome::Occupied(S::back(start..=end))),
        Err(Error::NoGap { .. }) => Ok(RangeOutcome::NoGap),
        Err(error) => Err(error),
    }
}

fn owned<V: Number, S: Space>((range, value): (RangeInclusive<S::Key>, &V)) -> (Range, u64) {
    (S::back(range), value.number())
}

fn entry<V: Number, S: Space>(entry: Option<(RangeInclusive<S::Key>, V)>) -> RangeOutcome {
    RangeOutcome::Entry(entry.map(|(range, value)| (S::back(range), value.number())))
}

/// Runs the operations, and compares everything after each `every`th. Returns the number of
/// operations and the greatest height.
pub fn run<V: Number, M: Fn(u64) -> V, S: Space>(
    pair: &mut Pair<V, M, S>,
    ops: impl IntoIterator<Item = RangeOp>,
    every: usize,
) -> (usize, usize) {
    let (mut done, mut height) = (0, 0);
    for op in ops {
        pair.step(&op);
        done += 1;
        if done % every == 0 {
            pair.agree();
            height = height.max(pair.map.memory().height);
        }
    }
    pair.agree();
    (done, height)
}

/// Panics unless the error says that memory ran out.
pub fn is_memory<E: Into<Error> + Debug>(error: E) {
    let error = error.into();
    assert!(matches!(error, Error::ArenaFull(_)), "{error:?}");
}

fn numbers<V: Number, S: Space>(
    entries: impl Iterator<Item = (RangeInclusive<S::Key>, V)>,
) -> Vec<(Range, u64)> {
    entries
        .map(|(range, value)| (S::back(range), value.number()))
        .collect()
}

/// Applies operations to both as one transaction, which is committed or dropped.
pub fn transaction<V: Number, M: Fn(u64) -> V, S: Space>(
    pair: &mut Pair<V, M, S>,
    group: &[RangeOp],
    commit: bool,
) {
    let before = pair.model.to_vec();
    let mut model = pair.model.clone();
    let mut txn = pair.map.begin();
    for op in group {
        let expected = op.apply(&mut model);
        let outcome = match op.writes() {
            true => pair.change_in(&mut txn, op).unwrap(),
            false => ask::<V, S>(txn.view(), op),
        };
        assert_eq!(outcome, expected, "{op:?}");
        txn.verify().unwrap();
        assert_eq!(txn.len(), model.len());
        // Readers see what was there before.
        assert_eq!(pair.map.len(), before.len());
    }
    let entries = numbers::<V, S>(
        txn.view()
            .iter()
            .map(|(range, value)| (range, value.clone())),
    );
    assert_eq!(entries, model.to_vec());
    assert_eq!(numbers::<V, S>(pair.map.iter()), before);
    if commit {
        txn.commit();
        pair.model = model;
    } else {
        drop(txn);
    }
}

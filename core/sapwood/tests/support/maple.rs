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
pub struct Pair<V, M> {
    pub map: MapleMap<V>,
    pub model: RangeMap<u64>,
    make: M,
    turn: u64,
}

impl<V: Number, M: Fn(u64) -> V> Pair<V, M> {
    /// Makes a pair of an empty map and model; `make` makes the map's values from the model's.
    pub fn new(map: MapleMap<V>, make: M) -> Self {
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
    pub fn try_step(&mut self, op: &RangeOp) -> Result<(), Error> {
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
    pub fn try_step_by(&mut self, way: Way, op: &RangeOp) -> Result<(), Error> {
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
    pub fn change_alone(&self, number: u64, op: &RangeOp) -> Result<(), Error> {
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
            let plan = self.map.plan_store(range.clone(), &value).unwrap();
            assert_eq!(plan.range(), *range);
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
                let plan = self.map.plan_alloc(*size, within.clone(), &value).unwrap();
                assert_eq!(plan.range(), *place);
                Some(plan.nodes())
            }
            (RangeOp::Alloc { value, .. }, Out::At(Some(place)))
            | (RangeOp::AllocCyclic { value, .. }, Out::Cyclic(place, _)) => store(place, *value),
            (RangeOp::Erase(index), _) => Some(self.map.plan_remove(*index).nodes()),
            (RangeOp::ClearRange(range), _) => {
                Some(self.map.plan_clear(range.clone()).unwrap().nodes())
            }
            (RangeOp::Clear, _) => None,
            _ => Some(0),
        }
    }

    fn apply(&self, way: Way, op: &RangeOp) -> Result<RangeOutcome, Error> {
        match (way, op) {
            (Way::Writer, _) if op.writes() => self.write(op),
            (Way::Reserved, RangeOp::Store(range, value)) => {
                answer(self.store_reserved(range, *value), |()| RangeOutcome::Done)
            }
            (Way::Reserved, RangeOp::ClearRange(range)) => {
                let plan = self.map.plan_clear(range.clone());
                answer(plan.and_then(|plan| self.erase_reserved(plan)), |()| {
                    RangeOutcome::Done
                })
            }
            (Way::Reserved, RangeOp::Erase(index)) => {
                let there = self.map.get_entry(*index);
                let plan = self.map.plan_remove(*index);
                answer(self.erase_reserved(plan), |()| entry(there))
            }
            (Way::Unknown, RangeOp::Store(range, value)) => self.unknown(|reservation| {
                let stored = reservation.store(range.clone(), self.value(*value));
                back(stored, *value).map(|()| RangeOutcome::Done)
            }),
            (Way::Unknown, RangeOp::ClearRange(range)) => self.unknown(|reservation| {
                let cleared = reservation.clear_range(range.clone());
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
                let stored = reservation.alloc_range(*size, within.clone(), self.value(*value));
                back(stored, *value).map(|place| RangeOutcome::At(Some(place)))
            }),
            _ if op.writes() => self.change(op),
            _ => Ok(self.ask(op)),
        }
    }

    /// Stores by an exact reservation. The memory held by the arena grows by at most the reserved
    /// bytes.
    fn store_reserved(&self, range: &Range, value: u64) -> Result<(), Error> {
        let value = self.value(value);
        let plan = self.map.plan_store(range.clone(), &value)?;
        let (nodes, bytes) = (plan.nodes(), plan.bytes());
        let before = self.map.memory();
        let reservation = self.map.reserve(plan)?;
        assert_eq!((reservation.nodes(), reservation.bytes()), (nodes, bytes));
        assert_eq!(reservation.range(), *range);
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

    fn erase_reserved(&self, plan: ErasePlan) -> Result<(), Error> {
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
        change: impl FnOnce(&mut UnknownReservation<V>) -> Result<RangeOutcome, Error>,
    ) -> Result<RangeOutcome, Error> {
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
        answer(result, |outcome| outcome)
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
            assert!(view.iter().map(owned).eq(expected.iter().cloned()));
            let back = view.iter().rev().map(owned);
            assert!(back.eq(expected.iter().rev().cloned()));
        });
    }
}

/// The answer of a view to a query.
pub fn ask<V: Number>(view: MapleView<'_, V>, op: &RangeOp) -> RangeOutcome {
    use RangeOutcome as Out;
    match op {
        RangeOp::Locate(index) => {
            let (range, value) = view.locate(*index);
            assert_eq!(view.get(*index).map(V::number), value.map(V::number));
            assert_eq!(view.contains(*index), value.is_some());
            let there = value.map(|value| (range.clone(), value.number()));
            assert_eq!(view.get_entry(*index).map(owned), there);
            Out::Place(range, value.map(V::number))
        }
        RangeOp::NextAfter(index) => Out::Entry(view.next_after(*index).map(owned)),
        RangeOp::PrevBefore(index) => Out::Entry(view.prev_before(*index).map(owned)),
        RangeOp::End { last: false } => Out::Entry(view.first().map(owned)),
        RangeOp::End { last: true } => Out::Entry(view.last().map(owned)),
        RangeOp::Range(range) => {
            let forward: Vec<_> = view.range(range.clone()).map(owned).collect();
            let mut back: Vec<_> = view.range(range.clone()).rev().map(owned).collect();
            back.reverse();
            assert_eq!(forward, back, "{range:?}");
            Out::Entries(forward)
        }
        RangeOp::Gaps(range) => Out::Gaps(view.gaps(range.clone()).collect()),
        RangeOp::FindGap {
            size,
            align,
            within,
            highest,
        } => Out::At(match (highest, align) {
            (false, 1) => view.find_gap(*size, within.clone()),
            (true, 1) => view.find_gap(*size, Window::new(within.clone()).from_end()),
            (false, _) => view.find_gap(*size, Window::new(within.clone()).aligned(*align)),
            (true, _) => view.find_gap(
                *size,
                Window::new(within.clone()).aligned(*align).from_end(),
            ),
        }),
        _ => unreachable!("a query"),
    }
}

/// Makes a query by the view and by the map.
impl<V: Number, M: Fn(u64) -> V> Pair<V, M> {
    fn ask(&self, op: &RangeOp) -> RangeOutcome {
        use RangeOutcome as Out;
        let map = &self.map;
        let seen = map.read(|view| ask(view, op));
        let direct = match op {
            RangeOp::Locate(index) => {
                let there = map.get_entry(*index);
                assert_eq!(map.contains(*index), there.is_some());
                let value = there.map(|(_, value)| value.number());
                assert_eq!(map.get(*index).map(|value| value.number()), value);
                let Out::Place(range, _) = &seen else {
                    unreachable!("a place")
                };
                Out::Place(range.clone(), value)
            }
            RangeOp::NextAfter(index) => entry(map.next_after(*index)),
            RangeOp::PrevBefore(index) => entry(map.prev_before(*index)),
            RangeOp::End { last: false } => entry(map.first()),
            RangeOp::End { last: true } => entry(map.last()),
            RangeOp::Range(range) => {
                let copied = |(range, value): (Range, V)| (range, value.number());
                let forward: Vec<_> = map.range(range.clone()).map(copied).collect();
                let mut back: Vec<_> = map.range(range.clone()).rev().map(copied).collect();
                back.reverse();
                assert_eq!(forward, back, "{range:?}");
                Out::Entries(forward)
            }
            RangeOp::Gaps(range) => {
                let forward: Vec<_> = map.gaps(range.clone()).collect();
                let mut back: Vec<_> = map.gaps(range.clone()).rev().collect();
                back.reverse();
                assert_eq!(forward, back, "{range:?}");
                Out::Gaps(forward)
            }
            RangeOp::FindGap {
                size,
                align,
                within,
                highest,
            } => Out::At(match highest {
                false => map.find_gap(*size, Window::new(within.clone()).aligned(*align)),
                true => map.find_gap(
                    *size,
                    Window::new(within.clone()).aligned(*align).from_end(),
                ),
            }),
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
                let stored = $to.store(range.clone(), $pair.value(*value));
                answer(back(stored, *value), |()| RangeOutcome::Done)
            }
            RangeOp::StoreCoalescing(range, value) => {
                let stored = $to.store_coalescing(range.clone(), $pair.value(*value));
                answer(back(stored, *value), |place| RangeOutcome::At(Some(place)))
            }
            RangeOp::Insert(range, value) => {
                let stored = $to.insert_new(range.clone(), $pair.value(*value));
                answer(back(stored, *value), |()| RangeOutcome::Done)
            }
            RangeOp::Erase(index) => answer($to.remove(*index), entry),
            RangeOp::ClearRange(range) => {
                answer($to.clear_range(range.clone()), |()| RangeOutcome::Done)
            }
            RangeOp::Clear => answer($to.clear_range(0..=u64::MAX), |()| RangeOutcome::Done),
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            } => {
                let (within, new) = (within.clone(), $pair.value(*value));
                let stored = match (highest, align) {
                    (false, 1) => $to.alloc_range(*size, within, new),
                    (true, 1) => $to.alloc_range(*size, Window::new(within).from_end(), new),
                    (false, _) => $to.alloc_range(*size, Window::new(within).aligned(*align), new),
                    (true, _) => {
                        $to.alloc_range(*size, Window::new(within).aligned(*align).from_end(), new)
                    }
                };
                answer(back(stored, *value), |place| RangeOutcome::At(Some(place)))
            }
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let window = Window::new(within.clone()).starting_at(*next);
                let stored = $to.alloc_range(*size, window, $pair.value(*value));
                answer(back(stored, *value), |place| {
                    let next = place.end().checked_add(1).unwrap_or(*within.start());
                    RangeOutcome::Cyclic(place, next)
                })
            }
            _ => unreachable!("a change"),
        }
    };
}

impl<V: Number, M: Fn(u64) -> V> Pair<V, M> {
    fn change(&self, op: &RangeOp) -> Result<RangeOutcome, Error> {
        change_by!(self, self.map, op)
    }

    fn write(&self, op: &RangeOp) -> Result<RangeOutcome, Error> {
        let mut writer = self.map.write();
        change_by!(self, writer, op)
    }

    /// Makes a change in a transaction.
    pub fn change_in(
        &self,
        txn: &mut MapleTxn<'_, V>,
        op: &RangeOp,
    ) -> Result<RangeOutcome, Error> {
        change_by!(self, txn, op)
    }
}

/// Checks that a rejected value is the given one; returns the error.
fn back<T, V: Number>(stored: Result<T, Rejected<V>>, value: u64) -> Result<T, Error> {
    stored.map_err(|rejected| {
        assert_eq!(rejected.value.number(), value);
        rejected.error
    })
}

/// The outcome of a change, or an error if memory ran out.
fn answer<T>(
    result: Result<T, Error>,
    done: impl FnOnce(T) -> RangeOutcome,
) -> Result<RangeOutcome, Error> {
    match result {
        Ok(value) => Ok(done(value)),
        Err(
            Error::EmptyRange { .. }
            | Error::WindowTooSmall { .. }
            | Error::ZeroSize
            | Error::Alignment { .. },
        ) => Ok(RangeOutcome::BadArgument),
        Err(Error::Occupied { start, end }) => Ok(RangeOutcome::Occupied(start..=end)),
        Err(Error::NoGap { .. }) => Ok(RangeOutcome::NoGap),
        Err(error) => Err(error),
    }
}

fn owned<V: Number>((range, value): (Range, &V)) -> (Range, u64) {
    (range, value.number())
}

fn entry<V: Number>(entry: Option<(Range, V)>) -> RangeOutcome {
    RangeOutcome::Entry(entry.map(|(range, value)| (range, value.number())))
}

/// Runs the operations, and compares everything after each `every`th. Returns the number of
/// operations and the greatest height.
pub fn run<V: Number, M: Fn(u64) -> V>(
    pair: &mut Pair<V, M>,
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

fn numbers<V: Number>(entries: impl Iterator<Item = (Range, V)>) -> Vec<(Range, u64)> {
    entries
        .map(|(range, value)| (range, value.number()))
        .collect()
}

/// Applies operations to both as one transaction, which is committed or dropped.
pub fn transaction<V: Number, M: Fn(u64) -> V>(
    pair: &mut Pair<V, M>,
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
            false => ask(txn.view(), op),
        };
        assert_eq!(outcome, expected, "{op:?}");
        txn.verify().unwrap();
        assert_eq!(txn.len(), model.len());
        // Readers see what was there before.
        assert_eq!(pair.map.len(), before.len());
    }
    let entries = numbers(
        txn.view()
            .iter()
            .map(|(range, value)| (range, value.clone())),
    );
    assert_eq!(entries, model.to_vec());
    assert_eq!(numbers(pair.map.iter()), before);
    if commit {
        txn.commit();
        pair.model = model;
    } else {
        drop(txn);
    }
}

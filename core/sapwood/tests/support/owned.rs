//! Applies the model's operations to owned range maps, and compares answers, contents and
//! invariants.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use std::ops::RangeInclusive;

use sapwood::arena::ArenaOptions;
use sapwood::maple::{Error, RangeMap, Rejected, Removed, Split, Window};
use sapwood_model::oracle;
use sapwood_model::range_ops::{RangeOp, RangeOutcome};

use super::maple::{Number, Range, ask, window};
use super::spaces::{Plain, Space};

pub type Model = oracle::RangeMap<u64>;

/// A map and its model with the same contents.
pub struct OwnedPair<V, M, S: Space = Plain> {
    pub map: RangeMap<V, S::Key>,
    pub model: Model,
    make: M,
}

impl<V: Number, M: Fn(u64) -> V> OwnedPair<V, M> {
    pub fn new(map: RangeMap<V>, make: M) -> Self {
        OwnedPair::in_space(map, make)
    }
}

impl<V: Number, M: Fn(u64) -> V, S: Space> OwnedPair<V, M, S> {
    /// As [`new`](OwnedPair::new), with a map of other indices than the model's.
    pub fn in_space(map: RangeMap<V, S::Key>, make: M) -> Self {
        OwnedPair {
            map,
            model: Model::new(),
            make,
        }
    }

    fn value(&self, number: u64) -> V {
        (self.make)(number)
    }

    /// Applies an operation to both, a store and an erasure in one of several ways.
    pub fn step(&mut self, turn: usize, op: &RangeOp) {
        let before = self.model.clone();
        let expected = op.apply(&mut self.model);
        let outcome = match op {
            RangeOp::Store(range, value) if turn % 4 == 1 && !range.is_empty() => {
                let value = self.value(*value);
                let removed = self.map.replace(S::range(range), value).unwrap();
                self.removed(&before, range, removed);
                RangeOutcome::Done
            }
            RangeOp::ClearRange(range) if turn % 4 == 1 && !range.is_empty() => {
                let removed = self.map.take_range(S::range(range)).unwrap();
                self.removed(&before, range, removed);
                RangeOutcome::Done
            }
            _ if op.writes() => self.change(op).unwrap(),
            _ => ask::<V, S>(self.map.view(), op),
        };
        assert_eq!(outcome, expected, "{op:?}");
    }

    /// What a change of a range returns is what was there.
    fn removed(&self, before: &Model, within: &Range, removed: Removed<V, S::Key>) {
        let there = before.range(within.clone()).map(|(range, value)| {
            let start = *range.start().max(within.start());
            (start..=*range.end().min(within.end()), *value)
        });
        let removed = removed.into_iter().map(numbered::<V, S>);
        assert!(removed.eq(there), "{within:?} of {before:?}");
    }

    fn change(&mut self, op: &RangeOp) -> Result<RangeOutcome, Error<S::Key>> {
        use RangeOutcome as Out;
        let entry = |entry: Option<_>| Out::Entry(entry.map(numbered::<V, S>));
        let done = match op {
            RangeOp::Store(range, value) => {
                back::<_, _, S>(self.map.store(S::range(range), (self.make)(*value)), *value)
                    .map(|()| Out::Done)
            }
            RangeOp::StoreCoalescing(range, value) => {
                let value_of = self.value(*value);
                back::<_, _, S>(self.map.store_coalescing(S::range(range), value_of), *value)
                    .map(|place| Out::At(Some(S::back(place))))
            }
            RangeOp::Insert(range, value) => {
                let value_of = self.value(*value);
                back::<_, _, S>(self.map.insert_new(S::range(range), value_of), *value)
                    .map(|()| Out::Done)
            }
            RangeOp::Erase(index) => self.map.remove(S::index(*index)).map(entry),
            RangeOp::ClearRange(range) => self.map.clear_range(S::range(range)).map(|()| Out::Done),
            RangeOp::Clear => {
                self.map.clear();
                Ok(Out::Done)
            }
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            } => {
                let window = window::<S>(within, *align, *highest);
                let stored = self
                    .map
                    .alloc_range(S::size(*size), window, self.value(*value));
                back::<_, _, S>(stored, *value).map(|place| Out::At(Some(S::back(place))))
            }
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let window = Window::new(S::range(within)).starting_at(S::first(*next));
                let stored = self
                    .map
                    .alloc_range(S::size(*size), window, self.value(*value));
                back::<_, _, S>(stored, *value).map(|place| {
                    let place = S::back(place);
                    let next = place.end().checked_add(1).unwrap_or(*within.start());
                    Out::Cyclic(place, next)
                })
            }
            _ => unreachable!("a change"),
        };
        match done {
            Err(
                Error::EmptyRange { .. }
                | Error::WindowTooSmall { .. }
                | Error::ZeroSize
                | Error::Alignment { .. },
            ) => Ok(Out::BadArgument),
            Err(Error::Occupied { start, end }) => Ok(Out::Occupied(S::back(start..=end))),
            Err(Error::NoGap { .. }) => Ok(Out::NoGap),
            other => other,
        }
    }

    pub fn agree(&mut self) {
        if let Err(wrong) = self.map.verify() {
            panic!("{wrong}");
        }
        assert_eq!(self.map.len(), self.model.len());
        let numbers = |(range, value): (_, &V)| (S::back(range), value.number());
        let expected = self.model.to_vec();
        assert!(self.map.iter().map(numbers).eq(expected.iter().cloned()));
        let back = self.map.iter().rev().map(numbers);
        assert!(back.eq(expected.iter().rev().cloned()));
        // `for_each` has a loop of its own.
        let mut met = Vec::new();
        self.map.iter().for_each(|entry| met.push(numbers(entry)));
        assert_eq!(met, expected);
        let changed = self
            .map
            .iter_mut()
            .map(|(range, v)| (S::back(range), v.number()));
        assert!(changed.eq(expected.iter().cloned()));
    }
}

/// An entry with the model's numbers.
fn numbered<V: Number, S: Space>((range, value): (RangeInclusive<S::Key>, V)) -> (Range, u64) {
    (S::back(range), value.number())
}

fn back<T, V: Number, S: Space>(
    stored: Result<T, Rejected<V, S::Key>>,
    value: u64,
) -> Result<T, Error<S::Key>> {
    stored.map_err(|rejected| {
        assert_eq!(rejected.value.number(), value);
        rejected.error
    })
}

/// A map with nodes so small that a few entries make a tree of some levels.
pub fn tiny_owned<V: Clone>(options: ArenaOptions) -> RangeMap<V> {
    RangeMap::with_nodes(options, Split::by_clone(), (192, 4))
}

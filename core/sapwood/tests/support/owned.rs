//! Applies the model's operations to owned range maps, and compares answers, contents and
//! invariants.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use sapwood::arena::ArenaOptions;
use sapwood::maple::{Error, RangeMap, Rejected, Split, Window};
use sapwood_model::oracle;
use sapwood_model::range_ops::{RangeOp, RangeOutcome};

use super::maple::{Number, Range, ask};

pub type Model = oracle::RangeMap<u64>;

/// A map and its model with the same contents.
pub struct OwnedPair<V, M> {
    pub map: RangeMap<V>,
    pub model: Model,
    make: M,
}

impl<V: Number, M: Fn(u64) -> V> OwnedPair<V, M> {
    pub fn new(map: RangeMap<V>, make: M) -> Self {
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
                let removed = self.map.replace(range.clone(), value).unwrap();
                self.removed(&before, range, removed);
                RangeOutcome::Done
            }
            RangeOp::ClearRange(range) if turn % 4 == 1 && !range.is_empty() => {
                let removed = self.map.take_range(range.clone()).unwrap();
                self.removed(&before, range, removed);
                RangeOutcome::Done
            }
            _ if op.writes() => self.change(op).unwrap(),
            _ => ask(self.map.view(), op),
        };
        assert_eq!(outcome, expected, "{op:?}");
    }

    /// What a change of a range returns is what was there.
    fn removed(&self, before: &Model, within: &Range, removed: Vec<(Range, V)>) {
        let there = before.range(within.clone()).map(|(range, value)| {
            let start = *range.start().max(within.start());
            (start..=*range.end().min(within.end()), *value)
        });
        let removed = removed.iter().map(|(range, v)| (range.clone(), v.number()));
        assert!(removed.eq(there), "{within:?} of {before:?}");
    }

    fn change(&mut self, op: &RangeOp) -> Result<RangeOutcome, Error> {
        use RangeOutcome as Out;
        let entry = |entry: Option<(Range, V)>| {
            Out::Entry(entry.map(|(range, value)| (range, value.number())))
        };
        let done = match op {
            RangeOp::Store(range, value) => {
                back(self.map.store(range.clone(), (self.make)(*value)), *value).map(|()| Out::Done)
            }
            RangeOp::StoreCoalescing(range, value) => {
                let value_of = self.value(*value);
                back(self.map.store_coalescing(range.clone(), value_of), *value)
                    .map(|place| Out::At(Some(place)))
            }
            RangeOp::Insert(range, value) => {
                let value_of = self.value(*value);
                back(self.map.insert_new(range.clone(), value_of), *value).map(|()| Out::Done)
            }
            RangeOp::Erase(index) => self.map.remove(*index).map(entry),
            RangeOp::ClearRange(range) => self.map.clear_range(range.clone()).map(|()| Out::Done),
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
                let window = Window::new(within.clone()).aligned(*align);
                let window = match highest {
                    true => window.from_end(),
                    false => window,
                };
                let value_of = self.value(*value);
                back(self.map.alloc_range(*size, window, value_of), *value)
                    .map(|place| Out::At(Some(place)))
            }
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let window = Window::new(within.clone()).starting_at(*next);
                let value_of = self.value(*value);
                back(self.map.alloc_range(*size, window, value_of), *value).map(|place| {
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
            Err(Error::Occupied { start, end }) => Ok(Out::Occupied(start..=end)),
            Err(Error::NoGap { .. }) => Ok(Out::NoGap),
            other => other,
        }
    }

    pub fn agree(&mut self) {
        if let Err(wrong) = self.map.verify() {
            panic!("{wrong}");
        }
        assert_eq!(self.map.len(), self.model.len());
        let numbers = |(range, value): (Range, &V)| (range, value.number());
        let expected = self.model.to_vec();
        assert!(self.map.iter().map(numbers).eq(expected.iter().cloned()));
        let back = self.map.iter().rev().map(numbers);
        assert!(back.eq(expected.iter().rev().cloned()));
        // `for_each` has a loop of its own.
        let mut met = Vec::new();
        self.map.iter().for_each(|entry| met.push(numbers(entry)));
        assert_eq!(met, expected);
        let changed = self.map.iter_mut().map(|(range, v)| (range, v.number()));
        assert!(changed.eq(expected.iter().cloned()));
    }
}

fn back<T, V: Number>(stored: Result<T, Rejected<V>>, value: u64) -> Result<T, Error> {
    stored.map_err(|rejected| {
        assert_eq!(rejected.value.number(), value);
        rejected.error
    })
}

/// A map with nodes so small that a few entries make a tree of some levels.
pub fn tiny_owned<V: Clone>(options: ArenaOptions) -> RangeMap<V> {
    RangeMap::with_nodes(options, Split::by_clone(), (192, 4))
}

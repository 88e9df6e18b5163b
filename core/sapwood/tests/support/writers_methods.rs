//! The methods of maps for many writers, with answers in the form of the model.

use std::ops::ControlFlow;

use sapwood::qp::Error;
use sapwood::qp::{
    Key, Order, Ordered, QpShared, QpSharedView, ReadEntry, SharedMap, SharedView, SweepPlace,
    Unordered,
};
use sapwood_model::history::{Answer, Op as Single};
use sapwood_model::ops::{Direction, Op, Outcome, as_slice, retains};

pub use super::super::values::Value;
use super::super::values::{cuts, denial_of, keys_of};

/// The queries that only ordered maps answer.
pub trait Kind: Order {
    const ORDERED: bool;

    /// The answer of the view to an operation that reads.
    fn ask<V: ?Sized + Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome;
    /// The same answer, taken at one moment.
    fn ask_exact<V: ?Sized + Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome;
    /// Removes the first entry, or the last one.
    fn pop<V: ?Sized + Value>(
        view: SharedView<'_, Self, V>,
        first: bool,
    ) -> Result<Option<(Vec<u8>, u64)>, Error>;
    /// All entries, by a walk that holds no reference between its steps.
    fn by_steps<V: ?Sized + Value>(map: &SharedMap<Self, V>) -> Vec<(Vec<u8>, u64)>;
    /// Compacts up to `budget` branches, if the map has branches.
    fn compact<V: ?Sized + Value>(map: &SharedMap<Self, V>, budget: usize) -> Result<(), Error>;
}

impl Kind for Unordered {
    const ORDERED: bool = false;

    fn ask<V: ?Sized + Value>(_: SharedView<'_, Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn ask_exact<V: ?Sized + Value>(_: SharedView<'_, Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn pop<V: ?Sized + Value>(
        _: SharedView<'_, Self, V>,
        _: bool,
    ) -> Result<Option<(Vec<u8>, u64)>, Error> {
        unreachable!("the first entry needs an order")
    }

    fn by_steps<V: ?Sized + Value>(map: &SharedMap<Self, V>) -> Vec<(Vec<u8>, u64)> {
        let (mut all, mut next) = (Vec::new(), Some(SweepPlace::default()));
        while let Some(place) = next {
            let before = all.len();
            let each = |key: &[u8], value: &V| all.push((key.to_vec(), number(value)));
            next = map.pin().view().sweep(place, 7, each);
            assert!(next.is_none() || all.len() >= before + 7);
        }
        all
    }

    fn compact<V: ?Sized + Value>(_: &SharedMap<Self, V>, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// An answer, reduced to what the methods of maps return.
pub fn weaker(op: Single, answer: Answer) -> Answer {
    match (op, answer) {
        (Single::Insert(_), Answer::Value(old)) => Answer::Done(old.is_none()),
        (Single::Replace(_) | Single::Remove, Answer::Value(old)) => Answer::Done(old.is_some()),
        (_, Answer::Exchange(done)) => Answer::Exchange(done.map_err(|found| found.map(|_| 0))),
        (_, all) => all,
    }
}

fn number<V: ?Sized + Value>(value: &V) -> u64 {
    value.number()
}

fn owned<V: ?Sized + Value>((key, value): ReadEntry<'_, V>) -> (Vec<u8>, u64) {
    (key.to_vec(), number(value))
}

fn entry<'a, V: ?Sized + Value>((key, value): ReadEntry<'a, V>) -> (Key<'a>, u64) {
    (key, value.number())
}

/// Whether a change was made; `wrong` is the only error that may prevent it.
fn unless(done: Result<(), Error>, wrong: &Error) -> Result<Answer, Error> {
    match done {
        Ok(()) => Ok(Answer::Done(true)),
        Err(error) if error == *wrong => Ok(Answer::Done(false)),
        Err(error) => Err(error),
    }
}

/// The methods by which [`run_writers`](super::run_writers) runs operations.
pub struct Methods<'m, O: Kind, V: ?Sized + Value>(pub &'m SharedMap<O, V>);

impl<O: Kind, V: ?Sized + Value> Methods<'_, O, V> {
    /// Runs an operation on one key by the map's own method. The answer is [`weaker`], because the
    /// methods return less.
    pub fn by_map(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        Ok(match op {
            Single::Get => {
                let found = V::shared_get(self.0, key);
                assert_eq!(self.0.contains_key(key), found.is_some());
                Answer::Value(found)
            }
            Single::Insert(n) => Answer::Done(V::insert(self.0, key, n)?),
            Single::InsertNew(n) => unless(V::insert_new(self.0, key, n), &Error::Exists)?,
            Single::Replace(n) => unless(V::replace(self.0, key, n), &Error::Absent)?,
            Single::Remove => Answer::Done(self.0.remove(key)?),
            Single::CompareExchange { expected, new } => {
                Answer::Exchange(match V::exchange(self.0, key, expected, new) {
                    Ok(()) => Ok(()),
                    Err(Error::Differs) => Err(Some(0)),
                    Err(Error::Absent) => Err(None),
                    Err(error) => return Err(error),
                })
            }
            Single::GetOrInsert(n) => Answer::Value(Some(V::get_or_insert(self.0, key, n)?)),
        })
    }

    /// Runs an operation on one key by the view's method.
    pub fn by_view(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        let pin = self.0.pin();
        let view = pin.view();
        let value = match op {
            Single::Get => {
                let found = view.get_key_value(key).map(entry);
                assert!(found.as_ref().is_none_or(|(stored, _)| *stored == key));
                let value = found.map(|(_, value)| value);
                assert_eq!(view.get(key).map(V::number), value);
                assert_eq!(view.contains_key(key), value.is_some());
                value
            }
            Single::Insert(n) => V::view_insert(view, key, n)?,
            Single::InsertNew(n) => {
                let there = V::view_insert_new(view, key, n);
                let there = there.map(|new| assert_eq!(new, n));
                return unless(there, &Error::Exists);
            }
            Single::Replace(n) => match V::view_replace(view, key, n) {
                Ok(old) => Some(old),
                Err(Error::Absent) => None,
                Err(error) => return Err(error),
            },
            Single::Remove => view.remove(key)?.map(number),
            Single::CompareExchange { expected, new } => {
                let done = V::view_exchange(view, key, expected, new)?;
                return Ok(Answer::Exchange(done.map(|old| assert_eq!(old, expected))));
            }
            Single::GetOrInsert(n) => Some(V::view_get_or_insert(view, key, n)?),
        };
        Ok(Answer::Value(value))
    }

    /// Removes a key whose value has this bit.
    pub fn remove_if_bit(&self, key: &[u8], bit: u8) -> Result<Option<u64>, Error> {
        let pin = self.0.pin();
        let removed = pin
            .view()
            .remove_if(key, |value| retains(bit, number(value)));
        removed.map(|old| old.map(number))
    }

    /// Changes some bits of a key's value, if the key is present. Returns the old value by the
    /// view's method, 0 by the map's method, which does not return the old value.
    pub fn update(&self, key: &[u8], by: u64, by_view: bool) -> Result<Option<u64>, Error> {
        let new = |old| old ^ by;
        match by_view {
            true => V::view_update(self.0.pin().view(), key, new),
            false => Ok(V::update(self.0, key, new)?.then_some(0)),
        }
    }

    /// Removes the entries whose values do not have this bit.
    pub fn retain_bit(&self, bit: u8) -> Result<usize, Error> {
        self.0.retain(|key, value| {
            assert!(self.0.contains_key(key));
            retains(bit, number(value))
        })
    }

    /// The answer of the view to an operation that reads.
    pub fn ask(&self, op: &Op) -> Outcome {
        let pin = self.0.pin();
        let view = pin.view();
        match op {
            Op::GetMany(keys) => {
                let mut out = vec![None; keys.len()];
                view.get_many(keys, &mut out);
                Outcome::Values(out.into_iter().map(|v| v.map(number)).collect())
            }
            op => O::ask(view, op),
        }
    }

    /// The first `most` entries that the map's `for_each` visits.
    pub fn walk(&self, most: usize) -> Vec<(Vec<u8>, u64)> {
        let mut met = Vec::new();
        let stopped = self.0.for_each(|key, value| {
            if met.len() == most {
                return ControlFlow::Break(());
            }
            met.push((key.to_vec(), number(value)));
            ControlFlow::Continue(())
        });
        assert_eq!(stopped.is_break(), self.0.len() > most);
        met
    }

    /// All entries by the view's iterator, sorted.
    pub fn entries(&self) -> Vec<(Vec<u8>, u64)> {
        let mut all: Vec<_> = self.0.pin().view().iter().map(owned).collect();
        assert_eq!(O::by_steps(self.0), all);
        if !O::ORDERED {
            all.sort();
        }
        all
    }

    /// Holds all entries by a registered reader or a pin while `meanwhile` runs, and checks that
    /// they do not change.
    pub fn hold(&self, registered: bool, meanwhile: &mut dyn FnMut()) {
        let (mut reader, mut pin) = (None, None);
        let view = match registered {
            true => reader.insert(self.0.reader("held").unwrap()).view(),
            false => pin.insert(self.0.pin()).view(),
        };
        let held: Vec<_> = view
            .iter()
            .map(|item| (item.clone(), owned(item)))
            .collect();
        meanwhile();
        for (now, before) in held {
            assert_eq!(owned(now), before, "changed under a reader");
        }
    }
}

impl Kind for Ordered {
    const ORDERED: bool = true;

    fn ask<V: ?Sized + Value>(view: QpSharedView<'_, V>, op: &Op) -> Outcome {
        match op {
            Op::Prefix(prefix, Direction::Forward) => {
                Outcome::entries(view.prefix(prefix).map(entry))
            }
            Op::Prefix(prefix, Direction::Backward) => {
                Outcome::entries(view.prefix(prefix).rev().map(entry))
            }
            Op::Range(lower, upper, direction) => {
                let range = view.range::<[u8], _>((as_slice(lower), as_slice(upper)));
                match direction {
                    Direction::Forward => Outcome::entries(range.map(entry)),
                    Direction::Backward => Outcome::entries(range.rev().map(entry)),
                }
            }
            Op::Predecessor(key) => Outcome::entry(view.predecessor(key).map(entry)),
            Op::Successor(key) => {
                let next = view.successor(key).map(entry);
                assert_eq!(view.successor(key).map(entry), next);
                Outcome::entry(next)
            }
            Op::LongestPrefix(key) => Outcome::entry(view.longest_prefix(key).map(entry)),
            Op::Ancestors(key) => Outcome::entries(view.ancestors(key).into_iter().map(entry)),
            Op::AncestorsSep(key, separator) => {
                Outcome::entries(view.ancestors_at(key, *separator).into_iter().map(entry))
            }
            Op::Closest(name, separator) => keys_of(&view.closest(name, *separator, cuts)).into(),
            Op::Denial(name, separator) => denial_of(&view.denial(name, *separator, cuts)).into(),
            Op::PopFirst => Outcome::entry(view.first_key_value().map(entry)),
            Op::PopLast => Outcome::entry(view.last_key_value().map(entry)),
            other => unreachable!("{other:?} is not a query"),
        }
    }

    fn ask_exact<V: ?Sized + Value>(view: QpSharedView<'_, V>, op: &Op) -> Outcome {
        view.exact(|view| Self::ask(view, op))
    }

    fn pop<V: ?Sized + Value>(
        view: QpSharedView<'_, V>,
        first: bool,
    ) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let popped = match first {
            true => view.pop_first()?,
            false => view.pop_last()?,
        };
        Ok(popped.map(owned))
    }

    fn by_steps<V: ?Sized + Value>(map: &QpShared<V>) -> Vec<(Vec<u8>, u64)> {
        let first = map.read(|view| view.first_key_value().map(owned));
        std::iter::successors(first, |(key, _)| {
            map.read(|view| view.successor(key).map(owned))
        })
        .collect()
    }

    fn compact<V: ?Sized + Value>(map: &QpShared<V>, budget: usize) -> Result<(), Error> {
        map.compact_step(budget).map(drop)
    }
}

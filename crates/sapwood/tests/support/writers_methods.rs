//! The methods of maps for many writers, as answers of the model.

use std::fmt::Debug;
use std::ops::ControlFlow;

use sapwood::Error;
use sapwood::qp::{
    Exchange, Order, Ordered, QpShared, QpSharedView, SharedMap, SharedView, SweepPlace, Unordered,
};
use sapwood_model::history::{Answer, Op as Single};
use sapwood_model::ops::{Direction, Op, Outcome, as_slice, retains};

/// A value made of a number of the model.
pub trait Value: Clone + PartialEq + Debug + Send + Sync + 'static {
    fn new(number: u64) -> Self;
    fn number(&self) -> &u64;
}

impl Value for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn number(&self) -> &u64 {
        self
    }
}

/// Memory of the heap: a sanitizer sees a second drop and a leak.
impl Value for Box<u64> {
    fn new(number: u64) -> Self {
        Box::new(number)
    }

    fn number(&self) -> &u64 {
        self
    }
}

/// What only maps with an order answer.
pub trait Kind: Order {
    const ORDERED: bool;

    /// The answer to an operation that reads, by the view.
    fn ask<V: Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome;
    /// The same as of one moment.
    fn ask_exact<V: Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome;
    /// All entries, by a walk that holds nothing between its steps.
    fn by_steps<V: Value>(map: &SharedMap<Self, V>) -> Vec<(Vec<u8>, u64)>;
    /// Compacts up to `budget` branches, where there are any.
    fn compact<V: Value>(map: &SharedMap<Self, V>, budget: usize) -> Result<(), Error>;
}

impl Kind for Unordered {
    const ORDERED: bool = false;

    fn ask<V: Value>(_: SharedView<'_, Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn ask_exact<V: Value>(_: SharedView<'_, Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn by_steps<V: Value>(map: &SharedMap<Self, V>) -> Vec<(Vec<u8>, u64)> {
        let (mut all, mut next) = (Vec::new(), Some(SweepPlace::default()));
        while let Some(place) = next {
            let before = all.len();
            let each = |key: &[u8], value: &V| all.push((key.to_vec(), number(value)));
            next = map.pin().view().sweep(place, 7, each);
            assert!(next.is_none() || all.len() >= before + 7);
        }
        all
    }

    fn compact<V: Value>(_: &SharedMap<Self, V>, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// An answer without what the methods of maps do not return.
pub fn weaker(op: Single, answer: Answer) -> Answer {
    match (op, answer) {
        (Single::Insert(_), Answer::Value(old)) => Answer::Done(old.is_none()),
        (Single::Replace(_) | Single::Remove, Answer::Value(old)) => Answer::Done(old.is_some()),
        (_, Answer::Exchange(done)) => Answer::Exchange(done.map_err(|found| found.map(|_| 0))),
        (_, all) => all,
    }
}

fn number<V: Value>(value: &V) -> u64 {
    *value.number()
}

fn owned<V: Value>((key, value): (&[u8], &V)) -> (Vec<u8>, u64) {
    (key.to_vec(), number(value))
}

fn entry<'a, V: Value>((key, value): (&'a [u8], &'a V)) -> (&'a [u8], &'a u64) {
    (key, value.number())
}

/// The error of a change that was refused, after a look at the value that came back.
macro_rules! refused {
    ($done:expr, $value:expr) => {
        $done.map_err(|rejected| {
            assert_eq!(number(&rejected.value), $value, "another value came back");
            rejected.error
        })
    };
}

/// Whether a change was made, if the only thing in its way was `wrong`.
fn unless(done: Result<(), Error>, wrong: &Error) -> Result<Answer, Error> {
    match done {
        Ok(()) => Ok(Answer::Done(true)),
        Err(error) if error == *wrong => Ok(Answer::Done(false)),
        Err(error) => Err(error),
    }
}

/// The methods by which [`run_writers`](super::run_writers) does operations.
pub struct Methods<'m, O: Kind, V: Value>(pub &'m SharedMap<O, V>);

impl<O: Kind, V: Value> Methods<'_, O, V> {
    /// Does an operation on one key by the map's own method. The answer is [`weaker`], as the
    /// methods return less.
    pub fn by_map(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        Ok(match op {
            Single::Get => {
                let found = self.0.get(key).as_ref().map(number);
                assert_eq!(self.0.contains_key(key), found.is_some());
                Answer::Value(found)
            }
            Single::Insert(n) => Answer::Done(refused!(self.0.insert(key, V::new(n)), n)?),
            Single::InsertNew(n) => {
                let done = refused!(self.0.insert_new(key, V::new(n)), n);
                unless(done, &Error::Exists)?
            }
            Single::Replace(n) => {
                let done = refused!(self.0.replace(key, V::new(n)), n);
                unless(done, &Error::Absent)?
            }
            Single::Remove => Answer::Done(self.0.remove(key)?),
            Single::CompareExchange { expected, new } => {
                let expected = V::new(expected);
                let done = self.0.compare_exchange(key, &expected, V::new(new));
                Answer::Exchange(match refused!(done, new) {
                    Ok(()) => Ok(()),
                    Err(Error::Differs) => Err(Some(0)),
                    Err(Error::Absent) => Err(None),
                    Err(error) => return Err(error),
                })
            }
            Single::GetOrInsert(n) => {
                let there = self.0.get_or_insert_with(key, || V::new(n))?;
                Answer::Value(Some(number(&there)))
            }
        })
    }

    /// Does an operation on one key by the view's method.
    pub fn by_view(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        let pin = self.0.pin();
        let view = pin.view();
        let value = match op {
            Single::Get => {
                let found = view.get_key_value(key).map(entry);
                assert!(found.is_none_or(|(stored, _)| stored == key));
                assert_eq!(view.get(key).map(V::number), found.map(|entry| entry.1));
                assert_eq!(view.contains_key(key), found.is_some());
                found.map(|(_, value)| *value)
            }
            Single::Insert(n) => refused!(view.insert(key, V::new(n)), n)?.map(number),
            Single::InsertNew(n) => {
                let there = refused!(view.insert_new(key, V::new(n)), n);
                let there = there.map(|new| assert_eq!(number(new), n));
                return unless(there, &Error::Exists);
            }
            Single::Replace(n) => match refused!(view.replace(key, V::new(n)), n) {
                Ok(old) => Some(number(old)),
                Err(Error::Absent) => None,
                Err(error) => return Err(error),
            },
            Single::Remove => view.remove(key)?.map(number),
            Single::CompareExchange { expected, new } => {
                let current = V::new(expected);
                let done = view.compare_exchange(key, &current, V::new(new));
                return Ok(Answer::Exchange(match refused!(done, new)? {
                    Exchange::Done(old) => {
                        assert_eq!(number(old), expected);
                        Ok(())
                    }
                    Exchange::Refused { found, value } => {
                        assert_eq!(number(&value), new);
                        Err(found.map(number))
                    }
                }));
            }
            Single::GetOrInsert(n) => {
                let there = view.get_or_insert_with(key, || V::new(n));
                Some(number(there?))
            }
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

    /// Gives a key's value, if there is one, some other bits; the old one, which the map's method
    /// says to be 0.
    pub fn update(&self, key: &[u8], by: u64, by_view: bool) -> Result<Option<u64>, Error> {
        let new = |old: &V| V::new(number(old) ^ by);
        match by_view {
            true => Ok(self.0.pin().view().update(key, new)?.map(number)),
            false => Ok(self.0.update(key, new)?.then_some(0)),
        }
    }

    /// Removes the entries whose values do not have this bit.
    pub fn retain_bit(&self, bit: u8) -> Result<usize, Error> {
        self.0.retain(|key, value| {
            assert!(self.0.contains_key(key));
            retains(bit, number(value))
        })
    }

    /// The answer to an operation that reads, by the view.
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

    /// The first `most` entries that the map's `for_each` meets.
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

    /// Holds all entries by a registered reader or a pin while `meanwhile` runs: they stay as they
    /// were.
    pub fn hold(&self, registered: bool, meanwhile: &mut dyn FnMut()) {
        let (mut reader, mut pin) = (None, None);
        let view = match registered {
            true => reader.insert(self.0.reader("held").unwrap()).view(),
            false => pin.insert(self.0.pin()).view(),
        };
        let copy = |(key, value): (&[u8], &V)| (key.to_vec(), value.clone());
        let held: Vec<_> = view.iter().map(|item| (item, copy(item))).collect();
        meanwhile();
        for (now, before) in held {
            assert_eq!(copy(now), before, "changed under a reader");
        }
    }
}

impl Kind for Ordered {
    const ORDERED: bool = true;

    fn ask<V: Value>(view: QpSharedView<'_, V>, op: &Op) -> Outcome {
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
                assert_eq!(view.next_after(key).map(entry), next);
                Outcome::entry(next)
            }
            Op::LongestPrefix(key) => Outcome::entry(view.longest_prefix(key).map(entry)),
            Op::Ancestors(key) => Outcome::entries(view.ancestors(key).into_iter().map(entry)),
            Op::AncestorsSep(key, separator) => {
                Outcome::entries(view.ancestors_at(key, *separator).into_iter().map(entry))
            }
            Op::PopFirst => Outcome::entry(view.first_key_value().map(entry)),
            Op::PopLast => Outcome::entry(view.last_key_value().map(entry)),
            other => unreachable!("{other:?} is not a question"),
        }
    }

    fn ask_exact<V: Value>(view: QpSharedView<'_, V>, op: &Op) -> Outcome {
        view.exact(|view| Self::ask(view, op))
    }

    fn by_steps<V: Value>(map: &QpShared<V>) -> Vec<(Vec<u8>, u64)> {
        let first = map.read(|view| view.first_key_value().map(owned));
        std::iter::successors(first, |(key, _)| {
            let (key, value) = map.next_after(key)?;
            Some((key, number(&value)))
        })
        .collect()
    }

    fn compact<V: Value>(map: &QpShared<V>, budget: usize) -> Result<(), Error> {
        map.compact_step(budget).map(drop)
    }
}

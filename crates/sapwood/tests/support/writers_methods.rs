//! The methods of maps for many writers, as answers of the model.

use std::fmt::Debug;
use std::ops::ControlFlow;

use sapwood::Error;
use sapwood::qp::{Exchange, Order, Ordered, SharedMap, SharedView, Unordered};
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

/// A map for many writers, as the interpreter uses it.
pub trait ManyWriters {
    /// Whether it has a trie, and so an order.
    const ORDERED: bool;

    /// Does an operation on one key by the map's own method. The answer is [`weaker`], as the methods return less.
    fn by_map(&self, op: Single, key: &[u8]) -> Result<Answer, Error>;
    /// Does an operation on one key by the view's method.
    fn by_view(&self, op: Single, key: &[u8]) -> Result<Answer, Error>;
    /// Removes a key whose value has this bit.
    fn remove_if(&self, key: &[u8], bit: u8) -> Result<Option<u64>, Error>;
    /// The answer to an operation that reads, by the view.
    fn ask(&self, op: &Op) -> Outcome;
    /// The answer to an operation that reads, as of one moment.
    fn ask_exact(&self, op: &Op) -> Outcome;
    /// The first `most` entries that the map's `for_each` meets.
    fn walk(&self, most: usize) -> Vec<(Vec<u8>, u64)>;
    /// All entries by the view's iterators; sorted where the map is not.
    fn entries(&self) -> Vec<(Vec<u8>, u64)>;
    /// Holds all entries by a registered reader or a pin while `meanwhile` runs: they stay as they were.
    fn hold(&self, registered: bool, meanwhile: &mut dyn FnMut());
    /// Compacts up to `budget` branches, where there are any.
    fn compact(&self, budget: usize) -> Result<(), Error>;
    fn clear(&self) -> Result<usize, Error>;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool;
    fn max_entries(&self) -> Option<usize>;
    fn reclaim(&self, budget: usize) -> usize;
    /// Nodes and bytes that wait for readers, and the arena's live bytes.
    fn memory(&self) -> ((usize, usize), usize);
    fn verify(&self) -> Result<(), String>;
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

/// What only one kind of map answers or does.
pub trait Asked: Order {
    const ORDERED: bool;

    /// The answer to a question about order.
    fn ask<V: Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome;
    /// The same, as of one moment.
    fn ask_exact<V: Value>(map: &SharedMap<Self, V>, op: &Op) -> Outcome;
    fn compact<V: Value>(map: &SharedMap<Self, V>, budget: usize) -> Result<(), Error>;
}

impl Asked for Unordered {
    const ORDERED: bool = false;

    fn ask<V: Value>(_: SharedView<'_, Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn ask_exact<V: Value>(_: &SharedMap<Self, V>, op: &Op) -> Outcome {
        unreachable!("{op:?} needs an order")
    }

    fn compact<V: Value>(_: &SharedMap<Self, V>, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl Asked for Ordered {
    const ORDERED: bool = true;

    fn ask<V: Value>(view: SharedView<'_, Self, V>, op: &Op) -> Outcome {
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

    fn ask_exact<V: Value>(map: &SharedMap<Self, V>, op: &Op) -> Outcome {
        map.pin().view().exact(|view| Self::ask(view, op))
    }

    fn compact<V: Value>(map: &SharedMap<Self, V>, budget: usize) -> Result<(), Error> {
        map.compact_step(budget).map(drop)
    }
}

impl<O: Asked, V: Value> ManyWriters for SharedMap<O, V> {
    const ORDERED: bool = O::ORDERED;

    fn by_map(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        Ok(match op {
            Single::Get => {
                let found = self.get(key).as_ref().map(number);
                assert_eq!(self.contains_key(key), found.is_some());
                Answer::Value(found)
            }
            Single::Insert(n) => Answer::Done(refused!(self.insert(key, V::new(n)), n)?),
            Single::InsertNew(n) => {
                let done = refused!(self.insert_new(key, V::new(n)), n);
                unless(done, &Error::Exists)?
            }
            Single::Replace(n) => {
                let done = refused!(self.replace(key, V::new(n)), n);
                unless(done, &Error::Absent)?
            }
            Single::Remove => Answer::Done(self.remove(key)?),
            Single::CompareExchange { expected, new } => {
                let expected = V::new(expected);
                let done = self.compare_exchange(key, &expected, V::new(new));
                Answer::Exchange(match refused!(done, new) {
                    Ok(()) => Ok(()),
                    Err(Error::Differs) => Err(Some(0)),
                    Err(Error::Absent) => Err(None),
                    Err(error) => return Err(error),
                })
            }
            Single::GetOrInsert(n) => {
                let there = self.get_or_insert_with(key, || V::new(n))?;
                Answer::Value(Some(number(&there)))
            }
        })
    }

    fn by_view(&self, op: Single, key: &[u8]) -> Result<Answer, Error> {
        let pin = self.pin();
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

    fn remove_if(&self, key: &[u8], bit: u8) -> Result<Option<u64>, Error> {
        let pin = self.pin();
        let removed = pin
            .view()
            .remove_if(key, |value| retains(bit, number(value)));
        removed.map(|old| old.map(number))
    }

    fn ask(&self, op: &Op) -> Outcome {
        let pin = self.pin();
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

    fn ask_exact(&self, op: &Op) -> Outcome {
        O::ask_exact(self, op)
    }

    fn walk(&self, most: usize) -> Vec<(Vec<u8>, u64)> {
        let mut met = Vec::new();
        let stopped = self.for_each(|key, value| {
            if met.len() == most {
                return ControlFlow::Break(());
            }
            met.push((key.to_vec(), number(value)));
            ControlFlow::Continue(())
        });
        assert_eq!(stopped.is_break(), self.len() > most);
        met
    }

    fn entries(&self) -> Vec<(Vec<u8>, u64)> {
        let pin = self.pin();
        let owned = |(key, value): (&[u8], &V)| (key.to_vec(), number(value));
        let mut all: Vec<_> = pin.view().iter().map(owned).collect();
        if !O::ORDERED {
            all.sort();
        }
        all
    }

    fn hold(&self, registered: bool, meanwhile: &mut dyn FnMut()) {
        let (mut reader, mut pin) = (None, None);
        let view = match registered {
            true => reader.insert(self.reader("held").unwrap()).view(),
            false => pin.insert(self.pin()).view(),
        };
        let copy = |(key, value): (&[u8], &V)| (key.to_vec(), value.clone());
        let held: Vec<_> = view.iter().map(|item| (item, copy(item))).collect();
        meanwhile();
        for (now, before) in held {
            assert_eq!(copy(now), before, "changed under a reader");
        }
    }

    fn compact(&self, budget: usize) -> Result<(), Error> {
        O::compact(self, budget)
    }

    fn clear(&self) -> Result<usize, Error> {
        SharedMap::clear(self)
    }

    fn len(&self) -> usize {
        assert_eq!(self.pin().view().len(), SharedMap::len(self));
        SharedMap::len(self)
    }

    fn is_empty(&self) -> bool {
        SharedMap::is_empty(self)
    }

    fn max_entries(&self) -> Option<usize> {
        SharedMap::max_entries(self)
    }

    fn reclaim(&self, budget: usize) -> usize {
        SharedMap::reclaim(self, budget)
    }

    fn memory(&self) -> ((usize, usize), usize) {
        let memory = SharedMap::memory(self);
        (memory.waiting, memory.arena.live)
    }

    fn verify(&self) -> Result<(), String> {
        SharedMap::verify(self)
    }
}

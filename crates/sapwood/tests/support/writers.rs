//! Does the model's operations to maps for many writers, with and without a trie, and compares. One thread does all
//! of them: what several threads do at once is checked by the histories.
#![allow(dead_code)] // Each test, and each fuzz target, uses its part.

use std::fmt::Debug;
use std::ops::ControlFlow;

use sapwood::Error;
use sapwood::qp::{Exchange, PointMap, QpShared};
use sapwood_model::history::{Answer, Op as Single};
use sapwood_model::ops::{Direction, Op, Outcome, as_slice, retains};
use sapwood_model::oracle::ByteMap;

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

/// A map for many writers, as [`run_writers`] uses it.
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
fn weaker(op: Single, answer: Answer) -> Answer {
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

macro_rules! many_writers {
    ($map:ident, $ordered:literal, $ask:ident, $exact:ident, $compact:ident) => {
        impl<V: Value> ManyWriters for $map<V> {
            const ORDERED: bool = $ordered;

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
                    op => $ask!(view, op),
                }
            }

            fn ask_exact(&self, op: &Op) -> Outcome {
                $exact!(self, op)
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
                if !$ordered {
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
                $compact!(self, budget)
            }

            fn clear(&self) -> Result<usize, Error> {
                $map::clear(self)
            }

            fn len(&self) -> usize {
                assert_eq!(self.pin().view().len(), $map::len(self));
                $map::len(self)
            }

            fn is_empty(&self) -> bool {
                $map::is_empty(self)
            }

            fn max_entries(&self) -> Option<usize> {
                $map::max_entries(self)
            }

            fn reclaim(&self, budget: usize) -> usize {
                $map::reclaim(self, budget)
            }

            fn memory(&self) -> ((usize, usize), usize) {
                let memory = $map::memory(self);
                (memory.waiting, memory.arena.live)
            }

            fn verify(&self) -> Result<(), String> {
                $map::verify(self)
            }
        }
    };
}

macro_rules! ask_in_order {
    ($view:expr, $op:expr) => {{
        let view = $view;
        match $op {
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
    }};
}

macro_rules! ask_exact_in_order {
    ($map:expr, $op:expr) => {{
        let pin = $map.pin();
        pin.view().exact(|view| ask_in_order!(view, $op))
    }};
}

macro_rules! compact_branches {
    ($map:expr, $budget:expr) => {
        $map.compact_step($budget).map(drop)
    };
}

macro_rules! no_question {
    ($view:expr, $op:expr) => {{
        let _ = &$view;
        unreachable!("{:?} needs an order", $op)
    }};
}

macro_rules! no_branches {
    ($map:expr, $budget:expr) => {{
        let _ = ($map, $budget);
        Ok(())
    }};
}

many_writers!(
    QpShared,
    true,
    ask_in_order,
    ask_exact_in_order,
    compact_branches
);
many_writers!(PointMap, false, no_question, no_question, no_branches);

/// The same with a key to look up, for a map without an order.
fn without_order(op: Op) -> Op {
    match op {
        Op::Prefix(key, _)
        | Op::Predecessor(key)
        | Op::Successor(key)
        | Op::LongestPrefix(key)
        | Op::Ancestors(key)
        | Op::AncestorsSep(key, _) => Op::Get(key),
        other => other,
    }
}

/// A map and its model, which hold the same.
struct Pair<'m, M> {
    map: &'m M,
    model: ByteMap<u64>,
    /// Memory may run out, and garbage reach its limit.
    scarce: bool,
    done: u64,
    failed: u64,
}

/// What the interpreter decides beside the operations: a number below another one.
type Random<'r> = &'r mut dyn FnMut(usize) -> usize;

impl<M: ManyWriters> Pair<'_, M> {
    /// One operation on one key. When it fails for want of memory, the model stays as it was, too.
    fn single(&mut self, op: Single, key: &[u8], by_view: bool) {
        let held = self.model.get(key).copied();
        let (expected, after) = op.apply(held);
        let full =
            held.is_none() && after.is_some() && self.map.max_entries() == Some(self.model.len());
        let (found, expected) = match by_view {
            true => (self.map.by_view(op, key), expected),
            false => (self.map.by_map(op, key), weaker(op, expected)),
        };
        match found {
            Ok(found) => {
                assert!(!full, "{op} of {key:?} was done in a full map");
                assert_eq!(found, expected, "{op} of {key:?}");
                match after {
                    Some(value) => drop(self.model.insert(key, value)),
                    None => drop(self.model.remove(key)),
                }
            }
            Err(Error::Full { max_entries }) if full => {
                assert_eq!(max_entries, self.model.len());
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &Error) {
        let expected = matches!(error, Error::ArenaFull(_) | Error::GarbageLimit(_));
        assert!(self.scarce && expected, "{error}");
        self.failed += 1;
    }

    fn remove_if(&mut self, key: &[u8], bit: u8) {
        let there = self.model.get(key).copied();
        match self.map.remove_if(key, bit) {
            Ok(removed) => {
                assert_eq!(
                    removed,
                    there.filter(|value| retains(bit, *value)),
                    "{key:?}"
                );
                if removed.is_some() {
                    self.model.remove(key);
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    fn keys(&self, chosen: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let keys = self.model.iter().map(|(key, _)| key);
        keys.filter(|key| chosen(key)).map(<[u8]>::to_vec).collect()
    }

    fn step(&mut self, op: Op, random: Random<'_>) {
        self.done += 1;
        let by_view = random(2) == 0;
        match op {
            Op::Insert(key, value) => {
                let held = self.model.get(&key).copied();
                let one = match random(8) {
                    0 => Single::InsertNew(value),
                    1 => Single::Replace(value),
                    2 => Single::GetOrInsert(value),
                    3 => Single::CompareExchange {
                        expected: held.unwrap_or(value),
                        new: value,
                    },
                    4 => Single::CompareExchange {
                        expected: value,
                        new: value ^ 1,
                    },
                    _ => Single::Insert(value),
                };
                self.single(one, &key, by_view);
            }
            Op::Remove(key) => match random(4) {
                0 => self.remove_if(&key, value_bit(&key)),
                _ => self.single(Single::Remove, &key, by_view),
            },
            Op::Get(key) => self.single(Single::Get, &key, by_view),
            Op::RemovePrefix(prefix) => {
                for key in self.keys(|key| key.starts_with(&prefix)) {
                    self.single(Single::Remove, &key, by_view);
                }
            }
            end @ (Op::PopFirst | Op::PopLast) => {
                let (first, last) = (self.model.iter().next(), self.model.iter().next_back());
                let there = if end == Op::PopFirst { first } else { last };
                if M::ORDERED {
                    assert_eq!(self.map.ask(&end), Outcome::entry(there));
                }
                if let Some(key) = there.map(|(key, _)| key.to_vec()) {
                    self.single(Single::Remove, &key, by_view);
                }
            }
            Op::Retain(bit) => {
                for key in self.keys(|_| true) {
                    self.remove_if(&key, bit);
                }
            }
            // A walk that stops where the other map splits.
            Op::SplitOff(key) => {
                let most = self.model.iter().take_while(|(k, _)| **k < key[..]).count();
                let met = self.map.walk(most);
                assert_eq!(met.len(), most);
                for (at, (key, value)) in met.iter().enumerate() {
                    assert_eq!(self.model.get(key), Some(value));
                    assert!(!M::ORDERED || at == 0 || met[at - 1].0 < *key);
                }
            }
            Op::Append(list) => {
                for (key, value) in list {
                    self.single(Single::GetOrInsert(value), &key, by_view);
                }
            }
            Op::Compact => {
                if let Err(error) = self.map.compact(1 + random(40)) {
                    self.fail(&error);
                }
            }
            Op::Clear => self.clear(),
            // An empty answer of a model without entries is as good as any other.
            Op::Range(..) if !M::ORDERED => {}
            question => {
                let expected = question.apply(&mut self.model);
                let exact = M::ORDERED && !matches!(question, Op::GetMany(_)) && random(4) == 0;
                let found = match exact {
                    true => self.map.ask_exact(&question),
                    false => self.map.ask(&question),
                };
                assert_eq!(found, expected, "{question:?}");
            }
        }
    }

    /// Removes everything. What was removed before an error stays removed.
    fn clear(&mut self) {
        match self.map.clear() {
            Ok(removed) => {
                assert_eq!(removed, self.model.len());
                self.model.clear();
            }
            Err(error) => {
                self.fail(&error);
                let left: ByteMap<u64> = self.map.entries().into_iter().collect();
                assert!(
                    left.iter()
                        .all(|(key, value)| self.model.get(key) == Some(value))
                );
                self.model = left;
            }
        }
    }

    fn verify(&self) {
        if let Err(wrong) = self.map.verify() {
            panic!("after operation {}: {wrong}", self.done);
        }
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.is_empty(), self.model.is_empty());
    }

    fn agree(&self) {
        self.verify();
        let all = self.model.iter().map(|(key, value)| (key.to_vec(), *value));
        assert!(self.map.entries().into_iter().eq(all));
    }
}

/// The bit that a conditional removal of this key looks at.
fn value_bit(key: &[u8]) -> u8 {
    key.last().map_or(0, |byte| byte % 8)
}

/// A map for many writers against the model: each operation by one of the methods that do it, `verify` after every step
/// while the map is small, at intervals when it is large. A reader or a pin holds what is there for some steps, now and
/// then. `scarce` says that memory may run out: what fails then must change nothing. Returns the number of operations and
/// how many changes failed.
pub fn run_writers<M: ManyWriters>(
    map: &M,
    mut ops: impl Iterator<Item = Op>,
    mut random: impl FnMut(usize) -> usize,
    small: usize,
    scarce: bool,
) -> (u64, u64) {
    let mut pair = Pair {
        map,
        model: ByteMap::new(),
        scarce,
        done: 0,
        failed: 0,
    };
    let mut some = |pair: &mut Pair<'_, M>, most: usize, random: Random<'_>| -> bool {
        for _ in 0..most {
            let Some(op) = ops.next() else {
                return false;
            };
            let op = if M::ORDERED { op } else { without_order(op) };
            pair.step(op, random);
            if pair.model.len() <= small || pair.done % 1024 == 0 {
                pair.verify();
            }
            if pair.done % 4096 == 0 {
                pair.agree();
            }
        }
        true
    };
    let mut more = true;
    while more {
        match random(16) {
            0 | 1 => {
                let (registered, steps) = (random(2) == 0, 1 + random(30));
                map.hold(registered, &mut || {
                    more = some(&mut pair, steps, &mut random);
                });
            }
            2 => drop(map.reclaim(random(40))),
            _ => {
                let steps = 1 + random(30);
                more = some(&mut pair, steps, &mut random);
            }
        }
    }
    pair.agree();
    // Each round frees what the next one needs.
    for _ in 0..64 {
        if pair.model.is_empty() {
            break;
        }
        pair.clear();
        map.reclaim(usize::MAX);
    }
    map.reclaim(usize::MAX);
    pair.agree();
    let (waiting, live) = map.memory();
    assert_eq!(waiting, (0, 0), "all garbage is gone");
    if pair.model.is_empty() && !M::ORDERED {
        assert_eq!(live, 0, "an emptied map keeps nothing");
    }
    (pair.done, pair.failed)
}

//! Applies the model's operations to maps for many writers, with and without a trie, and compares.
//! One thread runs all of them; the histories check several threads at once.
#![allow(dead_code)] // Each test, and each fuzz target, uses only a part of it.

#[path = "writers_methods.rs"]
mod methods;

use sapwood::qp::Error;
use sapwood::qp::SharedMap;
use sapwood_model::history::Op as Single;
use sapwood_model::ops::{Op, Outcome, retains};
use sapwood_model::oracle::ByteMap;

use methods::Methods;
use methods::weaker;
pub use methods::{Kind, Value};

/// The same operation as a lookup of a key, for a map without an order.
fn without_order(op: Op) -> Op {
    match op {
        Op::Prefix(key, _)
        | Op::Predecessor(key)
        | Op::Successor(key)
        | Op::LongestPrefix(key)
        | Op::Ancestors(key)
        | Op::AncestorsSep(key, _)
        | Op::Closest(key, _)
        | Op::Denial(key, _) => Op::Get(key),
        other => other,
    }
}

/// A map and its model with the same contents.
struct Pair<'m, O: Kind, V: ?Sized + Value> {
    map: &'m SharedMap<O, V>,
    model: ByteMap<u64>,
    /// Whether memory may run out, and garbage may reach its limit.
    scarce: bool,
    done: u64,
    failed: u64,
}

/// Decisions beside the operations: a random number below another one.
type Random<'r> = &'r mut dyn FnMut(usize) -> usize;

impl<O: Kind, V: ?Sized + Value> Pair<'_, O, V> {
    fn methods(&self) -> Methods<'_, O, V> {
        Methods(self.map)
    }

    /// Runs one operation on one key. If it fails for lack of memory, the model stays unchanged,
    /// too.
    fn single(&mut self, op: Single, key: &[u8], by_view: bool) {
        let held = self.model.get(key).copied();
        let (expected, after) = op.apply(held);
        let full =
            held.is_none() && after.is_some() && self.map.max_entries() == Some(self.model.len());
        let (found, expected) = match by_view {
            true => (self.methods().by_view(op, key), expected),
            false => (self.methods().by_map(op, key), weaker(op, expected)),
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
        match self.methods().remove_if_bit(key, bit) {
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
                if random(8) == 0 {
                    return self.update(&key, value, by_view);
                }
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
                if O::ORDERED {
                    assert_eq!(self.methods().ask(&end), Outcome::entry(there));
                }
                let there = there.map(|(key, value)| (key.to_vec(), *value));
                match there {
                    expected if O::ORDERED && by_view => {
                        match O::pop(self.map.pin().view(), end == Op::PopFirst) {
                            Ok(popped) => {
                                assert_eq!(popped, expected);
                                expected.map(|(key, _)| self.model.remove(&key));
                            }
                            Err(error) => self.fail(&error),
                        }
                    }
                    Some((key, _)) => self.single(Single::Remove, &key, by_view),
                    None => {}
                }
            }
            Op::Retain(bit) if by_view => {
                for key in self.keys(|_| true) {
                    self.remove_if(&key, bit);
                }
            }
            Op::Retain(bit) => self.retain(bit),
            // A walk that stops at the key where an owned map would split.
            Op::SplitOff(key) => {
                let most = self.model.iter().take_while(|(k, _)| **k < key[..]).count();
                let met = self.methods().walk(most);
                assert_eq!(met.len(), most);
                for (at, (key, value)) in met.iter().enumerate() {
                    assert_eq!(self.model.get(key), Some(value));
                    assert!(!O::ORDERED || at == 0 || met[at - 1].0 < *key);
                }
            }
            Op::Append(list) => {
                for (key, value) in list {
                    self.single(Single::GetOrInsert(value), &key, by_view);
                }
            }
            Op::Compact => {
                if let Err(error) = O::compact(self.map, 1 + random(40)) {
                    self.fail(&error);
                }
            }
            Op::Clear => self.clear(),
            // A model without entries has no range to compare.
            Op::Range(..) if !O::ORDERED => {}
            question => {
                let expected = question.apply(&mut self.model);
                let exact = O::ORDERED && !matches!(question, Op::GetMany(_)) && random(4) == 0;
                let found = match exact {
                    true => O::ask_exact(self.map.pin().view(), &question),
                    false => self.methods().ask(&question),
                };
                assert_eq!(found, expected, "{question:?}");
            }
        }
    }

    /// Removes all entries.
    fn clear(&mut self) {
        let cleared = self.map.clear();
        self.swept(cleared, |_, _| true);
    }

    /// Removes the entries whose values do not have the bit.
    fn retain(&mut self, bit: u8) {
        let retained = self.methods().retain_bit(bit);
        self.swept(retained, |_, value| !retains(bit, value));
    }

    /// Applies many removals to the model: all of them, or those before a failed one.
    fn swept(&mut self, removed: Result<usize, Error>, chosen: impl Fn(&[u8], u64) -> bool) {
        let gone = |(key, value): &(&[u8], &u64)| chosen(key, **value);
        let keys = self.model.iter().filter(gone).map(|(key, _)| key.to_vec());
        let keys: Vec<_> = keys.collect();
        match removed {
            Ok(removed) => {
                assert_eq!(removed, keys.len());
                for key in &keys {
                    self.model.remove(key);
                }
            }
            Err(error) => {
                self.fail(&error);
                let left: ByteMap<u64> = self.methods().entries().into_iter().collect();
                assert!(left.len() + keys.len() >= self.model.len());
                assert!(
                    left.iter()
                        .all(|(key, value)| self.model.get(key) == Some(value))
                );
                self.model = left;
            }
        }
    }

    fn update(&mut self, key: &[u8], by: u64, by_view: bool) {
        let held = self.model.get(key).copied();
        match self.methods().update(key, by, by_view) {
            Ok(old) => {
                assert_eq!(old, if by_view { held } else { held.map(|_| 0) });
                if let Some(held) = held {
                    self.model.insert(key, held ^ by);
                }
            }
            Err(error) => {
                assert!(held.is_some(), "the key was absent");
                self.fail(&error);
            }
        }
    }

    fn verify(&self) {
        if let Err(wrong) = self.map.verify() {
            panic!("after operation {}: {wrong}", self.done);
        }
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.pin().view().len(), self.model.len());
        assert_eq!(self.map.is_empty(), self.model.is_empty());
    }

    fn agree(&self) {
        self.verify();
        let all = self.model.iter().map(|(key, value)| (key.to_vec(), *value));
        assert!(self.methods().entries().into_iter().eq(all));
    }
}

/// The bit that a conditional removal of this key tests.
fn value_bit(key: &[u8]) -> u8 {
    key.last().map_or(0, |byte| byte % 8)
}

/// Runs a map for many writers against the model: each operation by one of its methods, with
/// `verify` after every step while the map is small, at intervals when it is large. At times a
/// reader or a pin holds the entries for some steps. `scarce` says that memory may run out: a
/// failed change must change nothing. Returns the number of operations and of failed changes.
pub fn run_writers<O: Kind, V: ?Sized + Value>(
    map: &SharedMap<O, V>,
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
    let mut some = |pair: &mut Pair<'_, O, V>, most: usize, random: Random<'_>| -> bool {
        for _ in 0..most {
            let Some(op) = ops.next() else {
                return false;
            };
            let op = if O::ORDERED { op } else { without_order(op) };
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
                Methods(map).hold(registered, &mut || {
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
    // Each round frees the memory that the next one needs.
    for _ in 0..64 {
        if pair.model.is_empty() {
            break;
        }
        pair.clear();
        map.reclaim(usize::MAX);
    }
    map.reclaim(usize::MAX);
    pair.agree();
    let memory = map.memory();
    assert_eq!(memory.waiting, (0, 0), "all garbage is freed");
    if pair.model.is_empty() && !O::ORDERED {
        assert_eq!(memory.arena.live, 0, "an emptied map holds no memory");
    }
    (pair.done, pair.failed)
}

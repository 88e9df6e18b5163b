//! Tests with histories that are linearizable and histories that are not, written and recorded.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::shared_ops::{Absent, LockedMap, Present, SharedMap, drive, hot_keys};

fn value(value: u64) -> Answer {
    Answer::Value(Some(value))
}

const NONE: Answer = Answer::Value(None);

/// A history of one key. Each line has thread, call, return, operation and answer.
fn history(lines: &[(u32, u64, u64, Op, Answer)]) -> History {
    let event = |&(thread, called, returned, op, answer): &(u32, u64, u64, Op, Answer)| Event {
        thread,
        key: 0,
        called,
        returned,
        op,
        answer,
    };
    History::from_events([b"key".to_vec()], lines.iter().map(event).collect())
}

/// The operation that has no place in any order, with its answer.
fn culprit(lines: &[(u32, u64, u64, Op, Answer)]) -> (Op, Answer) {
    let error = history(lines).check().unwrap_err();
    let event = error.events[error.culprit];
    (event.op, event.answer)
}

#[test]
fn one_after_the_other() {
    let exchange = |expected, new| Op::CompareExchange { expected, new };
    let stats = history(&[
        (0, 1, 2, Op::Get, NONE),
        (0, 3, 4, Op::Replace(1), NONE),
        (0, 5, 6, exchange(1, 2), Answer::Exchange(Err(None))),
        (0, 7, 8, Op::InsertNew(3), Answer::Done(true)),
        (1, 9, 10, Op::InsertNew(4), Answer::Done(false)),
        (1, 11, 12, exchange(4, 5), Answer::Exchange(Err(Some(3)))),
        (1, 13, 14, exchange(3, 6), Answer::Exchange(Ok(()))),
        (0, 15, 16, Op::GetOrInsert(7), value(6)),
        (0, 17, 18, Op::Replace(8), value(6)),
        (0, 19, 20, Op::Insert(9), value(8)),
        (1, 21, 22, Op::Remove, value(9)),
        (0, 23, 24, Op::Remove, NONE),
        (0, 25, 26, Op::GetOrInsert(10), value(10)),
        (0, 27, 28, Op::Get, value(10)),
    ])
    .check()
    .unwrap();
    assert_eq!((stats.keys, stats.operations), (1, 14));
    assert_eq!((stats.pieces, stats.longest), (14, 1));
}

#[test]
fn overlapping_operations_may_come_in_any_order() {
    // Both reads ran during the insert. The first may come before it and the second after it, but
    // not the other way round.
    let insert = (0, 1, 10, Op::Insert(1), NONE);
    let early = |answer| (1, 2, 3, Op::Get, answer);
    let late = |answer| (1, 4, 5, Op::Get, answer);
    for (first, second) in [(NONE, NONE), (NONE, value(1)), (value(1), value(1))] {
        history(&[insert, early(first), late(second)])
            .check()
            .unwrap();
    }
    let wrong = [insert, early(value(1)), late(NONE)];
    assert_eq!(culprit(&wrong), (Op::Get, NONE));

    // Three writers at once; only their answers tell their order.
    history(&[
        (0, 1, 9, Op::Insert(1), value(3)),
        (1, 2, 8, Op::Insert(2), NONE),
        (2, 3, 7, Op::Insert(3), value(2)),
        (2, 10, 11, Op::Get, value(1)),
    ])
    .check()
    .unwrap();
}

#[test]
fn stale_read() {
    let lines = [
        (0, 1, 2, Op::Insert(1), NONE),
        (0, 3, 4, Op::Insert(2), value(1)),
        (1, 5, 6, Op::Get, value(1)),
    ];
    assert_eq!(culprit(&lines), (Op::Get, value(1)));
}

#[test]
fn value_from_nowhere_and_from_the_future() {
    assert_eq!(
        culprit(&[(0, 1, 2, Op::Get, value(9))]),
        (Op::Get, value(9))
    );
    let lines = [(0, 1, 2, Op::Get, value(9)), (0, 3, 4, Op::Insert(9), NONE)];
    assert_eq!(culprit(&lines), (Op::Get, value(9)));
}

#[test]
fn lost_update() {
    // Both exchanged the same value, so one of them overwrote the value of the other.
    let lines = [
        (0, 1, 2, Op::Insert(1), NONE),
        (
            1,
            3,
            7,
            Op::CompareExchange {
                expected: 1,
                new: 2,
            },
            Answer::Exchange(Ok(())),
        ),
        (
            2,
            4,
            8,
            Op::CompareExchange {
                expected: 1,
                new: 3,
            },
            Answer::Exchange(Ok(())),
        ),
    ];
    let (op, _) = culprit(&lines);
    assert!(matches!(op, Op::CompareExchange { new: 3, .. }));
    // Two inserts that both found no value.
    let lines = [
        (1, 3, 7, Op::Insert(2), NONE),
        (2, 4, 8, Op::Insert(3), NONE),
    ];
    assert_eq!(culprit(&lines), (Op::Insert(3), NONE));
}

#[test]
fn two_successful_insert_new() {
    let lines = [
        (0, 1, 5, Op::InsertNew(1), Answer::Done(true)),
        (1, 2, 6, Op::InsertNew(2), Answer::Done(true)),
    ];
    assert_eq!(culprit(&lines), (Op::InsertNew(2), Answer::Done(true)));
    // There is an order with a removal that may come between them.
    let removed = (2, 3, 8, Op::Remove, value(1));
    history(&[lines[0], lines[1], removed]).check().unwrap();
    // There is no order if the removal began after both had returned.
    let late = (2, 7, 8, Op::Remove, value(1));
    let (op, _) = culprit(&[lines[0], lines[1], late]);
    assert_eq!(op, Op::InsertNew(2));
}

#[test]
fn failing_remove_in_between() {
    let lines = [
        (0, 1, 2, Op::Insert(1), NONE),
        (1, 3, 4, Op::Remove, NONE),
        (0, 5, 6, Op::Get, value(1)),
    ];
    assert_eq!(culprit(&lines), (Op::Remove, NONE));
    // A failed operation is a read, because its answer tells the value.
    let lines = [
        (0, 1, 2, Op::Insert(1), NONE),
        (1, 3, 4, Op::GetOrInsert(2), value(2)),
    ];
    assert_eq!(culprit(&lines), (Op::GetOrInsert(2), value(2)));
    let lines = [
        (0, 1, 2, Op::Insert(1), NONE),
        (1, 3, 4, Op::InsertNew(2), Answer::Done(true)),
    ];
    assert_eq!(culprit(&lines), (Op::InsertNew(2), Answer::Done(true)));
}

#[test]
fn what_is_shown_is_what_matters() {
    let mut lines = vec![(0, 1, 2, Op::Insert(1), NONE)];
    // A piece in which each operation overlaps another one, with many reads that change nothing.
    lines.push((7, 3, 1000, Op::Get, value(1)));
    for at in 0..40 {
        lines.push((1, 10 + 4 * at, 12 + 4 * at, Op::Get, value(1)));
    }
    lines.push((2, 300, 310, Op::Insert(2), value(1)));
    lines.push((3, 320, 330, Op::Get, value(1)));
    // A read that was called before the error, with a value that was written after it.
    lines.push((4, 325, 500, Op::Get, value(3)));
    lines.push((5, 400, 450, Op::Insert(3), value(2)));
    let error = history(&lines).check().unwrap_err();
    let shown: Vec<_> = error.events.iter().map(|event| event.op).collect();
    assert_eq!(shown, [Op::Insert(2), Op::Get]);
    assert_eq!((error.culprit, error.held.as_slice()), (1, &[Some(1)][..]));
    assert_eq!(error.left_out, lines.len() - 3);
    let text = error.to_string();
    assert!(text.contains("the key \"key\""), "{text}");
    assert!(text.contains("before them it held 1"), "{text}");
    assert!(
        text.contains("   thread 2  [300, 310]  insert(2) = 1"),
        "{text}"
    );
    assert!(
        text.contains("-> thread 3  [320, 330]  get() = 1"),
        "{text}"
    );
}

#[test]
fn keys_do_not_concern_each_other() {
    let keys = [b"a".to_vec(), b"b".to_vec()];
    let event = |key, called, op, answer| Event {
        thread: 0,
        key,
        called,
        returned: called + 1,
        op,
        answer,
    };
    let events = vec![
        event(0, 1, Op::Insert(1), NONE),
        event(1, 3, Op::Get, NONE),
        event(1, 5, Op::Get, value(5)),
    ];
    let history = History::from_events(keys, events);
    let error = history.clone().check().unwrap_err();
    assert_eq!((error.key.as_slice(), error.culprit), (&b"b"[..], 0));
    // The same with a value of the second key at first, and one read that did not find it.
    let error = history
        .starting_with(vec![None, Some(5)])
        .check()
        .unwrap_err();
    assert_eq!(error.events[error.culprit].answer, NONE);
}

#[test]
fn many_writers_at_once_are_checked_quickly() {
    // Eight threads without a cut, and each value is written twice.
    let mut held = None;
    let mut rng = fastrand::Rng::with_seed(5);
    let mut lines = Vec::new();
    for at in 0..800_u64 {
        let op = match rng.u8(..5) {
            0 => Op::Get,
            1 => Op::Insert(rng.u64(..400)),
            2 => Op::Remove,
            3 => Op::InsertNew(rng.u64(..400)),
            _ => Op::Replace(rng.u64(..400)),
        };
        let (answer, after) = op.apply(held);
        held = after;
        // The operation happens at `moment`, which is between its stamps.
        let moment = 1000 + 10 * at;
        let called = moment - rng.u64(1..40) * 2;
        let returned = moment + rng.u64(..40) * 2 + 1;
        lines.push(((at % 8) as u32, called, returned, op, answer));
    }
    let stats = history(&lines).check().unwrap();
    assert_eq!(stats.operations, 800);
    assert!(stats.longest > 100, "{stats:?}");
    assert!(stats.situations < 200_000, "{stats:?}");
    // One read in the middle gets an answer that no order allows.
    let read = (400..800).find(|at| lines[*at].3 == Op::Get);
    lines[read.expect("one in five is a read")].4 = value(1000);
    assert_eq!(culprit(&lines), (Op::Get, value(1000)));
}

/// A map with one defect. All else is done by a right map.
struct Broken {
    map: LockedMap,
    defect: Defect,
    calls: AtomicU64,
    cache: Mutex<HashMap<Vec<u8>, Option<u64>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// Some reads are answered from a cache that writers do not update.
    CachedRead,
    /// It checks whether a key is present, and inserts it a moment later.
    CheckThenInsert,
    /// It reads the value, and stores another one a moment later.
    ReadThenExchange,
    /// A removal is done, but sometimes answers that the key was absent.
    SilentRemove,
}

impl Broken {
    fn new(defect: Defect) -> Self {
        Self {
            map: LockedMap::default(),
            defect,
            calls: AtomicU64::new(0),
            cache: Mutex::default(),
        }
    }

    /// Whether this call has the defect: one in `every` calls, if the map has it.
    fn now(&self, defect: Defect, every: u64) -> bool {
        self.defect == defect && self.calls.fetch_add(1, Ordering::Relaxed) % every == 0
    }
}

impl SharedMap for Broken {
    fn get(&self, key: &[u8]) -> Option<u64> {
        let fresh = self.map.get(key);
        let mut cache = self.cache.lock().unwrap();
        if self.now(Defect::CachedRead, 16) {
            return cache.get(key).copied().unwrap_or(fresh);
        }
        cache.insert(key.to_vec(), fresh);
        fresh
    }

    fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
        self.map.insert(key, value)
    }

    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
        if self.defect != Defect::CheckThenInsert {
            return self.map.insert_new(key, value);
        }
        if self.map.get(key).is_some() {
            return Err(Present);
        }
        std::thread::yield_now();
        self.map.insert(key, value);
        Ok(())
    }

    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
        self.map.replace(key, value)
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        let removed = self.map.remove(key);
        removed.filter(|_| !self.now(Defect::SilentRemove, 50))
    }

    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
        if self.defect != Defect::ReadThenExchange {
            return self.map.compare_exchange(key, expected, new);
        }
        let held = self.map.get(key);
        if held != Some(expected) {
            return Err(held);
        }
        std::thread::yield_now();
        self.map.insert(key, new);
        Ok(())
    }

    fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
        self.map.get_or_insert(key, value)
    }
}

const OPERATIONS: usize = if cfg!(miri) { 100 } else { 2000 };

#[test]
fn a_map_behind_a_lock_is_linearizable() {
    for (threads, keys) in [(2, 1), (4, 8), (8, 16)] {
        let map = LockedMap::default();
        let keys = hot_keys(keys);
        // Several times on the same map, because a history may start with stored keys.
        for seed in 0..3 {
            let history = drive(&map, threads, OPERATIONS, &keys, seed);
            let stats = history.check().unwrap();
            assert_eq!(stats.keys, keys.len());
            // Each key is looked up once more at the end.
            assert_eq!(stats.operations, threads * OPERATIONS + keys.len());
        }
    }
}

#[test]
fn broken_maps_are_caught() {
    for defect in [
        Defect::CachedRead,
        Defect::CheckThenInsert,
        Defect::ReadThenExchange,
        Defect::SilentRemove,
    ] {
        let keys = hot_keys(4);
        let tries = 0..200;
        let caught = tries
            .map(|seed| drive(&Broken::new(defect), 4, OPERATIONS, &keys, seed))
            .find_map(|history| history.check().err());
        let error = caught.unwrap_or_else(|| panic!("{defect:?} was not caught"));
        assert!(keys.contains(&error.key), "{error}");
        assert!(error.culprit < error.events.len(), "{error}");
    }
}

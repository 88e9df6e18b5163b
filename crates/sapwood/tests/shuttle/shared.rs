//! `QpShared` under threads whose interleaving shuttle chooses: every pair of operations, and more threads at random.
//!
//! Whatever the schedule, the answers of all operations and what is left must be those of some order of the
//! operations, one after the other, in which each thread's own keep theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::QpShared;

use crate::{check_pct, check_random, runs};

type Oracle = BTreeMap<&'static str, u64>;

/// What an operation said.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Flag(bool),
    Value(Option<u64>),
    Failed(Error),
    Entries(Vec<(String, u64)>),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(&'static str),
    Insert(&'static str, u64),
    InsertNew(&'static str, u64),
    Replace(&'static str, u64),
    Remove(&'static str),
    Exchange(&'static str, u64, u64),
    GetOrInsert(&'static str, u64),
    ExactScan,
}

fn entries<'a>(all: impl Iterator<Item = (&'a [u8], &'a u64)>) -> Vec<(String, u64)> {
    all.map(|(k, v)| (String::from_utf8_lossy(k).into_owned(), *v))
        .collect()
}

impl Op {
    fn on_map(self, map: &QpShared<u64>) -> Answer {
        let failed = |result: Result<(), sapwood::Rejected<u64>>| match result {
            Ok(()) => Answer::Flag(true),
            Err(no) => Answer::Failed(no.error),
        };
        match self {
            Op::Get(k) => Answer::Value(map.get(k)),
            Op::Insert(k, v) => Answer::Flag(map.insert(k, v).unwrap()),
            Op::InsertNew(k, v) => failed(map.insert_new(k, v)),
            Op::Replace(k, v) => failed(map.replace(k, v)),
            Op::Remove(k) => Answer::Flag(map.remove(k).unwrap()),
            Op::Exchange(k, a, b) => failed(map.compare_exchange(k, &a, b)),
            Op::GetOrInsert(k, v) => Answer::Value(Some(map.get_or_insert_with(k, || v).unwrap())),
            Op::ExactScan => Answer::Entries(map.pin().view().exact(|view| entries(view.iter()))),
        }
    }

    fn on_oracle(self, map: &mut Oracle) -> Answer {
        match self {
            Op::Get(k) => Answer::Value(map.get(k).copied()),
            Op::Insert(k, v) => Answer::Flag(map.insert(k, v).is_none()),
            Op::InsertNew(k, v) => match map.get(k) {
                Some(_) => Answer::Failed(Error::Exists),
                None => Answer::Flag(map.insert(k, v).is_none()),
            },
            Op::Replace(k, v) => match map.get_mut(k) {
                None => Answer::Failed(Error::Absent),
                Some(value) => {
                    *value = v;
                    Answer::Flag(true)
                }
            },
            Op::Remove(k) => Answer::Flag(map.remove(k).is_some()),
            Op::Exchange(k, a, b) => match map.get_mut(k) {
                None => Answer::Failed(Error::Absent),
                Some(value) if *value == a => {
                    *value = b;
                    Answer::Flag(true)
                }
                Some(_) => Answer::Failed(Error::Differs),
            },
            Op::GetOrInsert(k, v) => Answer::Value(Some(*map.entry(k).or_insert(v))),
            Op::ExactScan => Answer::Entries(entries(map.iter().map(|(k, v)| (k.as_bytes(), v)))),
        }
    }
}

/// Whether some order of the threads' operations gives these answers, and leaves this.
fn explained(
    state: &Oracle,
    threads: &[Vec<(Op, Answer)>],
    at: &mut Vec<usize>,
    left: &[(String, u64)],
) -> bool {
    if threads.iter().zip(&*at).all(|(ops, at)| *at == ops.len()) {
        return entries(state.iter().map(|(k, v)| (k.as_bytes(), v))) == left;
    }
    for thread in 0..threads.len() {
        let Some((op, answer)) = threads[thread].get(at[thread]) else {
            continue;
        };
        let mut next = state.clone();
        if op.on_oracle(&mut next) == *answer {
            at[thread] += 1;
            if explained(&next, threads, at, left) {
                return true;
            }
            at[thread] -= 1;
        }
    }
    false
}

fn new_map(index: bool) -> QpShared<u64> {
    let options = ArenaOptions::default()
        .backing(Backing::HeapFixed(1 << 15))
        .debug(DebugMode::Poison);
    let builder = QpShared::builder().options(options);
    let builder = if index { builder.with_index() } else { builder };
    builder.build().unwrap()
}

/// Runs the threads' operations on a map with these keys (values 1) under one schedule.
fn run(keys: &[&'static str], threads: &[Vec<Op>], compact: bool, index: bool) {
    let map = Arc::new(new_map(index));
    let start: Oracle = keys.iter().map(|k| (*k, 1)).collect();
    for k in keys {
        map.insert(k, 1).unwrap();
    }
    let handles: Vec<_> = threads
        .iter()
        .map(|ops| {
            let (map, ops) = (Arc::clone(&map), ops.clone());
            shuttle::thread::spawn(move || {
                ops.into_iter()
                    .map(|op| (op, op.on_map(&map)))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    if compact {
        while map.compact_step(1).unwrap() {}
    }
    // A walk beside all this: in order, nothing twice, nothing skipped that nobody touches.
    let seen: Vec<_> = map.pin().view().iter().map(|e| e.0.to_vec()).collect();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    let touched = |key: &str| {
        threads.iter().flatten().any(|op| match op {
            Op::Remove(k) => *k == key,
            _ => false,
        })
    };
    for k in keys.iter().filter(|k| !touched(k)) {
        assert!(seen.iter().any(|s| s == k.as_bytes()), "{k} in {seen:?}");
    }
    let done: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
    map.verify().unwrap();
    let left = entries(map.pin().view().iter());
    assert!(
        explained(&start, &done, &mut vec![0; done.len()], &left),
        "from {keys:?} no order explains {done:?}, leaving {left:?}"
    );
}

/// What a map may hold at the start, and three keys to work on: siblings, a chain of prefixes, and branches that split
/// and merge.
const WORLDS: [(&[&str], [&str; 3]); 6] = [
    (&[], ["a", "b", "c"]),
    (&["a"], ["a", "b", "ab"]),
    (&["a", "b"], ["a", "b", "c"]),
    (&["", "a", "ab"], ["", "ab", "abc"]),
    (&["abc", "abd", "x"], ["abc", "abe", "ax"]),
    (&["abc", "abd", "axy", "axz"], ["abd", "axy", "b"]),
];

fn all_ops(keys: [&'static str; 3], value: u64) -> Vec<Op> {
    let mut ops = vec![Op::ExactScan];
    for k in keys {
        ops.extend([
            Op::Get(k),
            Op::Insert(k, value),
            Op::InsertNew(k, value),
            Op::Replace(k, value),
            Op::Remove(k),
            Op::Exchange(k, 1, value),
            Op::GetOrInsert(k, value),
        ]);
    }
    ops
}

#[test]
fn every_pair_of_operations() {
    for (keys, on) in WORLDS {
        for first in all_ops(on, 2) {
            for second in all_ops(on, 3) {
                for index in [false, true] {
                    let threads = [vec![first], vec![second]];
                    check_random(move || run(keys, &threads, false, index), runs(6));
                }
            }
        }
    }
}

#[test]
fn every_operation_beside_compaction() {
    for (keys, on) in WORLDS {
        for first in all_ops(on, 2) {
            let threads = [vec![first]];
            check_random(move || run(keys, &threads, true, true), runs(20));
        }
    }
}

fn random_threads(
    seed: u64,
    threads: usize,
    ops: usize,
) -> (&'static [&'static str], Vec<Vec<Op>>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (keys, on) = WORLDS[rng.usize(0..WORLDS.len())];
    let thread = |rng: &mut fastrand::Rng, t: usize| {
        let all = all_ops(on, 10 + t as u64);
        // Changes more often than not.
        (0..ops)
            .map(|_| {
                loop {
                    let op = all[rng.usize(0..all.len())];
                    if !matches!(op, Op::Get(_)) || rng.u8(0..3) == 0 {
                        return op;
                    }
                }
            })
            .collect()
    };
    (keys, (0..threads).map(|t| thread(&mut rng, t)).collect())
}

#[test]
fn three_and_four_threads() {
    for seed in 0..runs(300) as u64 {
        let (keys, threads) = random_threads(seed, 3 + seed as usize % 2, 2);
        let threads = Arc::new(threads);
        check_random(
            move || run(keys, &threads, seed % 5 == 0, seed % 2 == 0),
            12,
        );
    }
}

#[test]
fn with_few_preemptions_at_the_worst_places() {
    for seed in 0..runs(150) as u64 {
        let (keys, threads) = random_threads(1000 + seed, 2 + seed as usize % 2, 3);
        let threads = Arc::new(threads);
        check_pct(move || run(keys, &threads, false, seed % 2 == 0), 20, 3);
    }
}

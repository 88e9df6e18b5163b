//! `PointMap` under threads whose interleaving shuttle chooses: every pair of operations, and more
//! threads at random, over keys that make the smallest tables come, grow and go. `RUSTFLAGS="--cfg
//! shuttle" cargo test -p sapwood --test shuttle_points --release`; `SHUTTLE_RUNS` makes it longer.
//!
//! Whatever the schedule, the answers of all operations and what is left must be those of some
//! order of the operations, one after the other, in which each thread's own keep theirs.

#![cfg(shuttle)]

use std::collections::BTreeMap;
use std::sync::Arc;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::PointMap;

type Oracle = BTreeMap<u8, u64>;

/// What an operation said.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Flag(bool),
    Value(Option<u64>),
    Failed(Error),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(u8),
    Insert(u8, u64),
    InsertNew(u8, u64),
    Replace(u8, u64),
    Remove(u8),
    Exchange(u8, u64, u64),
    GetOrInsert(u8, u64),
}

impl Op {
    fn on_map(self, map: &PointMap<u64>) -> Answer {
        let failed = |result: Result<(), sapwood::Rejected<u64>>| match result {
            Ok(()) => Answer::Flag(true),
            Err(no) => Answer::Failed(no.error),
        };
        match self {
            Op::Get(k) => Answer::Value(map.get([k])),
            Op::Insert(k, v) => Answer::Flag(map.insert([k], v).unwrap()),
            Op::InsertNew(k, v) => failed(map.insert_new([k], v)),
            Op::Replace(k, v) => failed(map.replace([k], v)),
            Op::Remove(k) => Answer::Flag(map.remove([k]).unwrap()),
            Op::Exchange(k, a, b) => failed(map.compare_exchange([k], &a, b)),
            Op::GetOrInsert(k, v) => {
                Answer::Value(Some(map.get_or_insert_with([k], || v).unwrap()))
            }
        }
    }

    fn on_oracle(self, map: &mut Oracle) -> Answer {
        match self {
            Op::Get(k) => Answer::Value(map.get(&k).copied()),
            Op::Insert(k, v) => Answer::Flag(map.insert(k, v).is_none()),
            Op::InsertNew(k, v) => match map.get(&k) {
                Some(_) => Answer::Failed(Error::Exists),
                None => Answer::Flag(map.insert(k, v).is_none()),
            },
            Op::Replace(k, v) => match map.get_mut(&k) {
                None => Answer::Failed(Error::Absent),
                Some(value) => {
                    *value = v;
                    Answer::Flag(true)
                }
            },
            Op::Remove(k) => Answer::Flag(map.remove(&k).is_some()),
            Op::Exchange(k, a, b) => match map.get_mut(&k) {
                None => Answer::Failed(Error::Absent),
                Some(value) if *value == a => {
                    *value = b;
                    Answer::Flag(true)
                }
                Some(_) => Answer::Failed(Error::Differs),
            },
            Op::GetOrInsert(k, v) => Answer::Value(Some(*map.entry(k).or_insert(v))),
        }
    }
}

/// Whether some order of the threads' operations gives these answers, and leaves this.
fn explained(
    state: &Oracle,
    threads: &[Vec<(Op, Answer)>],
    at: &mut Vec<usize>,
    left: &Oracle,
) -> bool {
    if threads.iter().zip(&*at).all(|(ops, at)| *at == ops.len()) {
        return state == left;
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

/// Runs the threads' operations on a map with so many keys (values 1) under one schedule, and a
/// walk beside them.
fn run(keys: u8, threads: &[Vec<Op>]) {
    let options = ArenaOptions::default()
        .backing(Backing::HeapFixed(1 << 16))
        .debug(DebugMode::Poison);
    let map = Arc::new(PointMap::builder().options(options).build().unwrap());
    let start: Oracle = (0..keys).map(|k| (k, 1)).collect();
    for k in 0..keys {
        map.insert([k], 1).unwrap();
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
    let mut seen: Vec<u8> = map.pin().view().iter().map(|e| e.0[0]).collect();
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    let removed = |key| {
        let mut ops = threads.iter().flatten();
        ops.any(|op| matches!(op, Op::Remove(k) if *k == key))
    };
    for k in (0..keys).filter(|k| !removed(*k)) {
        assert!(seen.contains(&k), "{k} in {seen:?}");
    }
    let done: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
    map.verify().unwrap();
    let left: Oracle = (map.pin().view().iter()).map(|e| (e.0[0], *e.1)).collect();
    assert!(
        explained(&start, &done, &mut vec![0; done.len()], &left),
        "from {keys} keys no order explains {done:?}, leaving {left:?}"
    );
}

fn runs(n: usize) -> usize {
    std::env::var("SHUTTLE_RUNS").map_or(n, |runs| runs.parse().expect("a number"))
}

/// How many keys there are at the start: none, one, and as many as the smallest table is meant for,
/// or a few more, so that it is being moved.
const WORLDS: [u8; 5] = [0, 1, 41, 43, 60];

fn all_ops(keys: u8, value: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for k in [keys.saturating_sub(1), keys] {
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
    for keys in WORLDS {
        for first in all_ops(keys, 2) {
            for second in all_ops(keys, 3) {
                let threads = [vec![first], vec![second]];
                shuttle::check_random(move || run(keys, &threads), runs(6));
            }
        }
    }
}

fn random_threads(seed: u64, threads: usize, ops: usize) -> (u8, Vec<Vec<Op>>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let keys = WORLDS[rng.usize(0..WORLDS.len())];
    let thread = |t: usize| {
        let all = all_ops(keys, 10 + t as u64);
        (0..ops).map(|_| all[rng.usize(0..all.len())]).collect()
    };
    (keys, (0..threads).map(thread).collect())
}

#[test]
fn three_and_four_threads() {
    for seed in 0..runs(150) as u64 {
        let (keys, threads) = random_threads(seed, 3 + seed as usize % 2, 2);
        let threads = Arc::new(threads);
        shuttle::check_random(move || run(keys, &threads), 12);
    }
}

#[test]
fn with_few_preemptions_at_the_worst_places() {
    for seed in 0..runs(100) as u64 {
        let (keys, threads) = random_threads(1000 + seed, 2 + seed as usize % 2, 3);
        let threads = Arc::new(threads);
        shuttle::check_pct(move || run(keys, &threads), 20, 3);
    }
}

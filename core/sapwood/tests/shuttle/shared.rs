//! Maps for many writers with threads whose interleaving shuttle chooses: every pair of operations,
//! and more threads at random. A map with only the index begins with more keys, so that its
//! smallest tables are created, grow and are dropped.
//!
//! In every schedule, the answers of all operations and the entries left must be those of some
//! sequential order of the operations, which keeps the order of each thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Key, Order, PointMap, QpShared, ReadEntry, SharedMap};

use crate::support::values::Value;
use crate::{check_pct, check_random, runs};

type Oracle = BTreeMap<&'static str, u64>;

/// The answer of an operation.
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

fn entries<'a, V: ?Sized + Value>(
    all: impl Iterator<Item = ReadEntry<'a, V>>,
) -> Vec<(String, u64)> {
    all.map(|(k, v)| (String::from_utf8_lossy(&k).into_owned(), v.number()))
        .collect()
}

impl Op {
    fn on_map<V: ?Sized + Value>(self, map: &Kind<V>) -> Answer {
        match map {
            Kind::Trie(map) if matches!(self, Op::ExactScan) => {
                Answer::Entries(map.pin().view().exact(|view| entries(view.iter())))
            }
            Kind::Trie(map) => self.on_shared(map),
            Kind::Points(map) => self.on_shared(map),
        }
    }

    fn on_shared<O: Order, V: ?Sized + Value>(self, map: &SharedMap<O, V>) -> Answer {
        let failed = |result: Result<(), Error>| match result {
            Ok(()) => Answer::Flag(true),
            Err(error) => Answer::Failed(error),
        };
        match self {
            Op::Get(k) => Answer::Value(V::shared_get(map, k.as_bytes())),
            Op::Insert(k, v) => Answer::Flag(V::insert(map, k.as_bytes(), v).unwrap()),
            Op::InsertNew(k, v) => failed(V::insert_new(map, k.as_bytes(), v)),
            Op::Replace(k, v) => failed(V::replace(map, k.as_bytes(), v)),
            Op::Remove(k) => Answer::Flag(map.remove(k).unwrap()),
            Op::Exchange(k, a, b) => failed(V::exchange(map, k.as_bytes(), a, b)),
            Op::GetOrInsert(k, v) => {
                let pin = map.pin();
                let there = V::view_get_or_insert(pin.view(), k.as_bytes(), v);
                Answer::Value(Some(there.unwrap()))
            }
            Op::ExactScan => unreachable!("asked of tries only"),
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
            Op::ExactScan => Answer::Entries(entries(map.iter().map(|(k, v)| (Key::from(*k), v)))),
        }
    }
}

/// Whether some order of the threads' operations gives these answers and leaves these entries.
fn explained(
    state: &Oracle,
    threads: &[Vec<(Op, Answer)>],
    at: &mut Vec<usize>,
    left: &[(String, u64)],
) -> bool {
    if threads.iter().zip(&*at).all(|(ops, at)| *at == ops.len()) {
        return entries(state.iter().map(|(k, v)| (Key::from(*k), v))) == left;
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

/// A map of one of the kinds.
enum Kind<V: ?Sized + Value> {
    Trie(QpShared<V>),
    Points(PointMap<V>),
}

impl<V: ?Sized + Value> Clone for Kind<V> {
    fn clone(&self) -> Self {
        match self {
            Kind::Trie(map) => Kind::Trie(map.clone()),
            Kind::Points(map) => Kind::Points(map.clone()),
        }
    }
}

/// The kind of map, and the activity beside the operations.
#[derive(Clone, Copy, PartialEq)]
enum With {
    Trie,
    Index,
    Compaction,
    OnlyIndex,
}

/// Calls `$f` with the map of either kind.
macro_rules! either {
    ($kind:expr, $map:ident => $f:expr) => {
        match $kind {
            Kind::Trie($map) => $f,
            Kind::Points($map) => $f,
        }
    };
}

impl<V: ?Sized + Value> Kind<V> {
    fn new(with: With) -> Kind<V> {
        let options = |bytes| {
            ArenaOptions::default()
                .backing(Backing::HeapFixed(bytes))
                .debug(DebugMode::Poison)
        };
        let trie = || QpShared::<V>::builder().options(options(1 << 15));
        match with {
            With::Trie => Kind::Trie(trie().build().unwrap()),
            With::Index | With::Compaction => Kind::Trie(trie().with_index().build().unwrap()),
            With::OnlyIndex => Kind::Points(
                PointMap::builder()
                    .options(options(1 << 16))
                    .build()
                    .unwrap(),
            ),
        }
    }

    /// All entries of a walk, in the order of their keys.
    fn walk(&self) -> Vec<(String, u64)> {
        match self {
            Kind::Trie(map) => entries(map.pin().view().iter()),
            Kind::Points(map) => {
                let mut all = entries(map.pin().view().iter());
                all.sort_unstable();
                all
            }
        }
    }
}

/// Runs the threads' operations on a map with these keys (values 1) under one schedule.
fn run(keys: &[&'static str], threads: &[Vec<Op>], with: With) {
    run_of::<u64>(keys, threads, with);
}

/// The same with values of any kind.
fn run_of<V: ?Sized + Value>(keys: &[&'static str], threads: &[Vec<Op>], with: With) {
    let map = Kind::<V>::new(with);
    let start: Oracle = keys.iter().map(|k| (*k, 1)).collect();
    for k in keys {
        either!(&map, map => V::insert(map, k.as_bytes(), 1).unwrap());
    }
    let handles: Vec<_> = threads
        .iter()
        .map(|ops| {
            let (map, ops) = (map.clone(), ops.clone());
            shuttle::thread::spawn(move || {
                ops.into_iter()
                    .map(|op| (op, op.on_map(&map)))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    if let (With::Compaction, Kind::Trie(map)) = (with, &map) {
        while map.compact_step(1).unwrap() {}
    }
    // A walk beside all operations: in order, without repetition, and without skipping a key that
    // no operation touches.
    let seen = map.walk();
    assert!(
        seen.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{seen:?}"
    );
    let removed = |key: &str| {
        let mut ops = threads.iter().flatten();
        ops.any(|op| matches!(op, Op::Remove(k) if *k == key))
    };
    for k in keys.iter().filter(|k| !removed(k)) {
        assert!(seen.iter().any(|s| s.0 == *k), "{k} in {seen:?}");
    }
    let done: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
    either!(&map, map => map.verify().unwrap());
    let left = map.walk();
    assert!(
        explained(&start, &done, &mut vec![0; done.len()], &left),
        "from {keys:?} no order explains {done:?}, leaving {left:?}"
    );
}

/// Initial keys of a map, and three keys to work on: siblings, a chain of prefixes, and clusters
/// and branches that split and merge. Under shuttle a cluster has at most four leaves.
const WORLDS: [(&[&str], [&str; 3]); 9] = [
    (&[], ["a", "b", "c"]),
    (&["a"], ["a", "b", "ab"]),
    (&["a", "b"], ["a", "b", "c"]),
    (&["", "a", "ab"], ["", "ab", "abc"]),
    (&["abc", "abd", "x"], ["abc", "abe", "ax"]),
    (&["abc", "abd", "axy", "axz"], ["abd", "axy", "b"]),
    // A branch of two clusters, of which one is full: the next insertion makes three clusters, and
    // a removal may leave one.
    (&["a", "b", "c", "d", "e", "f"], ["a", "f", "g"]),
    (&["a", "b", "c", "d", "e"], ["b", "bb", "e"]),
    // Branches below one another, and keys that end where others diverge.
    (
        &["a", "ab", "ac", "ad", "ae", "b", "c", "d"],
        ["ab", "af", "b"],
    ),
];

/// Keys for maps with only the index, in ascending order.
#[rustfmt::skip]
const MANY: [&str; 61] = [
    "k00", "k01", "k02", "k03", "k04", "k05", "k06", "k07", "k08", "k09", "k10", "k11",
    "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19", "k20", "k21", "k22", "k23",
    "k24", "k25", "k26", "k27", "k28", "k29", "k30", "k31", "k32", "k33", "k34", "k35",
    "k36", "k37", "k38", "k39", "k40", "k41", "k42", "k43", "k44", "k45", "k46", "k47",
    "k48", "k49", "k50", "k51", "k52", "k53", "k54", "k55", "k56", "k57", "k58", "k59",
    "k60",
];

/// The numbers of initial keys: none, one, and as many as the smallest table is sized for, or a few
/// more, so that the table is being moved.
const TABLES: [usize; 5] = [0, 1, 41, 43, 60];

/// A world for a map with only the index: the initial keys, and two keys to work on: the last of
/// them and the next one.
fn table_world(n: usize) -> (&'static [&'static str], [&'static str; 2]) {
    (&MANY[..n], [MANY[n.saturating_sub(1)], MANY[n]])
}

fn all_ops(keys: &[&'static str], value: u64, with: With) -> Vec<Op> {
    let mut ops = Vec::new();
    if with != With::OnlyIndex {
        ops.push(Op::ExactScan);
    }
    for &k in keys {
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

/// Every pair of operations on these keys.
fn every_pair(keys: &'static [&'static str], on: &[&'static str], with: With) {
    for first in all_ops(on, 2, with) {
        for second in all_ops(on, 3, with) {
            let threads = [vec![first], vec![second]];
            check_random(move || run(keys, &threads, with), runs(6));
        }
    }
}

#[test]
fn every_pair_of_operations() {
    for (keys, on) in WORLDS {
        every_pair(keys, &on, With::Trie);
        every_pair(keys, &on, With::Index);
    }
}

#[test]
fn every_pair_of_operations_on_an_index_alone() {
    for n in TABLES {
        let (keys, on) = table_world(n);
        every_pair(keys, &on, With::OnlyIndex);
    }
}

/// Byte strings have a length in each leaf, and replacing one changes it.
#[test]
fn every_pair_of_operations_on_bytes() {
    let (keys, on) = table_world(43);
    let worlds = WORLDS
        .iter()
        .map(|(keys, on)| (*keys, &on[1..], With::Index));
    for (keys, on, with) in worlds.chain([(keys, &on[..1], With::OnlyIndex)]) {
        for first in all_ops(on, 2, with) {
            for second in all_ops(on, 3, with) {
                let threads = [vec![first], vec![second]];
                check_random(move || run_of::<[u8]>(keys, &threads, with), runs(3));
            }
        }
    }
}

#[test]
fn every_operation_beside_compaction() {
    for (keys, on) in WORLDS {
        for first in all_ops(&on, 2, With::Compaction) {
            let threads = [vec![first]];
            check_random(move || run(keys, &threads, With::Compaction), runs(20));
        }
    }
}

fn random_threads(
    seed: u64,
    threads: usize,
    ops: usize,
    with: With,
) -> (&'static [&'static str], Vec<Vec<Op>>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (keys, on) = match with {
        With::OnlyIndex => {
            let (keys, on) = table_world(TABLES[rng.usize(0..TABLES.len())]);
            (keys, on.to_vec())
        }
        _ => {
            let (keys, on) = WORLDS[rng.usize(0..WORLDS.len())];
            (keys, on.to_vec())
        }
    };
    let thread = |rng: &mut fastrand::Rng, t: usize| {
        let all = all_ops(&on, 10 + t as u64, with);
        // Changes are more frequent than reads.
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

/// The kinds of maps, alternating with the seed.
fn kind_of(seed: u64) -> With {
    let kinds = [With::Trie, With::Index, With::OnlyIndex, With::Compaction];
    kinds[(seed % kinds.len() as u64) as usize]
}

#[test]
fn three_and_four_threads() {
    for seed in 0..runs(450) as u64 {
        let with = kind_of(seed / 2);
        let (keys, threads) = random_threads(seed, 3 + seed as usize % 2, 2, with);
        let threads = Arc::new(threads);
        check_random(move || run(keys, &threads, with), 12);
    }
}

#[test]
fn with_few_preemptions_at_the_worst_places() {
    for seed in 0..runs(250) as u64 {
        let with = kind_of(seed / 2);
        let (keys, threads) = random_threads(1000 + seed, 2 + seed as usize % 2, 3, with);
        let threads = Arc::new(threads);
        check_pct(move || run(keys, &threads, with), 20, 3);
    }
}

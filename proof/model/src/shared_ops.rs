//! Runs operations of many threads on one map at once. They use few keys, chosen so that a trie
//! splits and merges nodes all the time.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::history::{Answer, History, Op, Recorder};

/// The error of an operation whose key was present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present;

/// The error of an operation whose key was absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

/// A map from byte strings to `u64` that threads share. Each operation must be linearizable.
#[allow(clippy::missing_errors_doc)] // The type of the error is the reason.
pub trait SharedMap: Sync {
    /// The value at a key.
    fn get(&self, key: &[u8]) -> Option<u64>;
    /// Stores a value; returns the value before.
    fn insert(&self, key: &[u8], value: u64) -> Option<u64>;
    /// Stores a value at a key that is absent.
    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present>;
    /// Stores a value at a key that is present; returns the value before.
    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent>;
    /// Removes a key; returns its value.
    fn remove(&self, key: &[u8]) -> Option<u64>;
    /// Stores `new` if the value is `expected`; otherwise returns the value that the key has.
    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>>;
    /// Stores a value at a key that is absent; returns the value that the key has after that.
    fn get_or_insert(&self, key: &[u8], value: u64) -> u64;

    /// Each thread calls this between operations from time to time, to reclaim or to compact.
    fn pause(&self) {}
}

/// The oracle: a `BTreeMap` under one lock.
#[derive(Debug, Default)]
pub struct LockedMap(Mutex<BTreeMap<Vec<u8>, u64>>);

impl LockedMap {
    /// The entries of the map.
    #[must_use]
    pub fn into_inner(self) -> BTreeMap<Vec<u8>, u64> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedMap for LockedMap {
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.lock().get(key).copied()
    }

    fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
        self.lock().insert(key.to_vec(), value)
    }

    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
        match self.lock().entry(key.to_vec()) {
            Entry::Occupied(_) => Err(Present),
            Entry::Vacant(place) => {
                place.insert(value);
                Ok(())
            }
        }
    }

    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
        let mut map = self.lock();
        let place = map.get_mut(key).ok_or(Absent)?;
        Ok(std::mem::replace(place, value))
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        self.lock().remove(key)
    }

    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
        match self.lock().get_mut(key) {
            Some(value) if *value == expected => {
                *value = new;
                Ok(())
            }
            other => Err(other.copied()),
        }
    }

    fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
        *self.lock().entry(key.to_vec()).or_insert(value)
    }
}

impl Op {
    /// Runs the operation on a map.
    pub fn call<M: SharedMap + ?Sized>(self, map: &M, key: &[u8]) -> Answer {
        match self {
            Op::Get => Answer::Value(map.get(key)),
            Op::Insert(value) => Answer::Value(map.insert(key, value)),
            Op::InsertNew(value) => Answer::Done(map.insert_new(key, value).is_ok()),
            Op::Replace(value) => Answer::Value(map.replace(key, value).ok()),
            Op::Remove => Answer::Value(map.remove(key)),
            Op::CompareExchange { expected, new } => {
                Answer::Exchange(map.compare_exchange(key, expected, new))
            }
            Op::GetOrInsert(value) => Answer::Value(Some(map.get_or_insert(key, value))),
        }
    }
}

/// Returns `count` keys whose insertions and removals often change the shape of a trie: the empty
/// key, chains of prefixes, keys that differ at the end or in the middle of long common parts,
/// zeros, and more children of one node than a small node has.
#[must_use]
pub fn hot_keys(count: usize) -> Vec<Vec<u8>> {
    const FIRST: [&[u8]; 16] = [
        b"ab",
        b"abc",
        b"abd",
        b"a",
        b"",
        b"ab\0",
        b"abcdefghijklmnop",
        b"abcdefghijklmnoq",
        b"abcdefgh",
        b"ab\0\0",
        b"b",
        b"\0",
        b"\xff\xff",
        b"\xff",
        b"abcdefghijklmno",
        b"b\xff",
    ];
    let first = FIRST.iter().map(|key| key.to_vec());
    // Then the children of one node, each with one child of its own.
    let wide = (0..=u8::MAX).flat_map(|byte| [vec![b'w', byte], vec![b'w', byte, byte]]);
    let more = (0_u32..).map(|number| [b"abcdefgh".as_slice(), &number.to_be_bytes()].concat());
    first.chain(wide).chain(more).take(count).collect()
}

/// How many operations a thread runs between two calls of `pause`.
const PAUSE: usize = 64;
/// How many operations a thread runs before it waits for the others.
const TOGETHER: usize = 16;

/// A barrier at which threads wait for each other, so that they go on at the same time. The threads
/// spin, because a thread that must be woken would go on too late.
struct Meeting {
    threads: usize,
    arrived: AtomicUsize,
}

/// The longest wait for other threads, as one may have no core or have panicked.
const PATIENCE: Duration = Duration::from_micros(100);

impl Meeting {
    fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
        }
    }

    /// Waits until all threads have called this as often as this thread, which calls it for the
    /// `times`-th time, or until the wait is too long.
    fn wait(&self, times: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let start = Instant::now();
        while self.arrived.load(Ordering::Acquire) < times * self.threads
            && start.elapsed() < PATIENCE
        {
            std::thread::yield_now();
        }
    }
}

/// Runs random operations of several threads on these keys, and records all of them. It also looks
/// each key up once before and once after. It does not touch other keys of the map. No value is
/// written twice, so that each value tells the operation that wrote it.
///
/// # Panics
///
/// If two of the keys are equal, or `keys` is empty. A panic of the map is passed on.
pub fn drive<M: SharedMap + ?Sized>(
    map: &M,
    threads: usize,
    ops_per_thread: usize,
    keys: &[Vec<u8>],
    seed: u64,
) -> History {
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "no key comes twice");
    assert!(!keys.is_empty(), "there is a key");
    let held = keys.iter().map(|key| map.get(key)).collect();
    let recorder = Recorder::new(keys);
    let meeting = Meeting::new(threads);
    let mut logs: Vec<_> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|thread| {
                let (mut log, meeting) = (recorder.thread(), &meeting);
                scope.spawn(move || {
                    let mut ops = Ops::new(thread, keys.len(), seed);
                    for step in 0..ops_per_thread {
                        if step % TOGETHER == 0 {
                            meeting.wait(step / TOGETHER + 1);
                        }
                        let (key, op) = ops.next();
                        let answer = log.run(key, op, || op.call(map, &keys[key]));
                        ops.learn(key, op, answer);
                        if step % PAUSE == PAUSE - 1 {
                            map.pause();
                        }
                    }
                    log
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(log) => log,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        working.into_iter().map(join).collect()
    });
    let mut last = recorder.thread();
    for (at, key) in keys.iter().enumerate() {
        last.run(at, Op::Get, || Op::Get.call(map, key));
    }
    logs.push(last);
    History::merge(logs).starting_with(held)
}

/// An endless source of operations for one thread. A key is given by its place.
pub(crate) struct Ops {
    pub(crate) rng: Rng,
    /// The next value. The values of this thread have its number in the upper bits.
    next: u64,
    /// The last value of each key that the thread knows.
    known: Vec<Option<u64>>,
}

impl Ops {
    pub(crate) fn new(thread: usize, keys: usize, seed: u64) -> Self {
        let thread = thread as u64 + 1;
        Self {
            rng: Rng::with_seed(seed ^ thread.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            // The seed is a part of the values, so that several drives of one map write different
            // ones.
            next: thread << 48 | (seed & 0xffff) << 32,
            known: vec![None; keys],
        }
    }

    pub(crate) fn next(&mut self) -> (usize, Op) {
        let key = self.rng.usize(..self.known.len());
        self.next += 1;
        let value = self.next;
        let op = match self.rng.u8(..16) {
            0..4 => Op::Get,
            4..6 => Op::Insert(value),
            6..8 => Op::InsertNew(value),
            8 => Op::Replace(value),
            9..13 => Op::Remove,
            13..15 => match self.known[key] {
                Some(expected) => Op::CompareExchange {
                    expected,
                    new: value,
                },
                None => Op::Get,
            },
            _ => Op::GetOrInsert(value),
        };
        (key, op)
    }

    /// Updates the known value of a key by an answer.
    pub(crate) fn learn(&mut self, key: usize, op: Op, answer: Answer) {
        // The value after the operation follows from the value before, which the answer tells.
        let before = match answer {
            Answer::Value(held) | Answer::Exchange(Err(held)) => held,
            Answer::Exchange(Ok(())) => match op {
                Op::CompareExchange { expected, .. } => Some(expected),
                _ => None,
            },
            Answer::Done(true) => None,
            // The key is present, but its value is not known.
            Answer::Done(false) => return,
        };
        self.known[key] = op.apply(before).1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn hot_keys_are_distinct_and_nested() {
        let keys = hot_keys(1000);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 1000);
        assert!(keys[..5].contains(&Vec::new()));
        for few in [2, 4, 8, 16] {
            let keys = hot_keys(few);
            let nested = |key: &Vec<u8>| {
                keys.iter()
                    .any(|other| other != key && other.starts_with(key))
            };
            assert!(keys.iter().any(nested), "{few}");
        }
        // One branch has more children than a small node.
        let wide = keys.iter().filter(|key| key.len() == 2 && key[0] == b'w');
        assert!(wide.count() > 100);
    }

    #[test]
    fn a_panic_ends_the_drive() {
        /// A map whose hundredth call panics.
        struct Fragile(LockedMap, AtomicUsize);

        impl SharedMap for Fragile {
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.0.get(key)
            }

            fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
                self.0.insert(key, value)
            }

            fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
                self.0.insert_new(key, value)
            }

            fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
                self.0.replace(key, value)
            }

            fn remove(&self, key: &[u8]) -> Option<u64> {
                let calls = self.1.fetch_add(1, Ordering::Relaxed);
                assert_ne!(calls, 99, "the hundredth");
                self.0.remove(key)
            }

            fn compare_exchange(&self, key: &[u8], was: u64, new: u64) -> Result<(), Option<u64>> {
                self.0.compare_exchange(key, was, new)
            }

            fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
                self.0.get_or_insert(key, value)
            }
        }

        let map = Fragile(LockedMap::default(), AtomicUsize::new(0));
        let run = std::panic::AssertUnwindSafe(|| drive(&map, 3, 1000, &hot_keys(4), 1));
        let panic = std::panic::catch_unwind(run).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("the hundredth"), "{text}");
    }

    #[test]
    fn threads_learn_what_keys_hold() {
        let mut ops = Ops::new(0, 1, 1);
        ops.learn(0, Op::Insert(7), Answer::Value(None));
        assert_eq!(ops.known, [Some(7)]);
        let exchange = Op::CompareExchange {
            expected: 7,
            new: 8,
        };
        ops.learn(0, exchange, Answer::Exchange(Ok(())));
        assert_eq!(ops.known, [Some(8)]);
        ops.learn(0, Op::InsertNew(9), Answer::Done(false));
        assert_eq!(ops.known, [Some(8)]);
        ops.learn(0, exchange, Answer::Exchange(Err(Some(5))));
        assert_eq!(ops.known, [Some(5)]);
        ops.learn(0, Op::Replace(6), Answer::Value(None));
        assert_eq!(ops.known, [None]);
        ops.learn(0, Op::GetOrInsert(4), Answer::Value(Some(4)));
        assert_eq!(ops.known, [Some(4)]);
        ops.learn(0, Op::Remove, Answer::Value(Some(4)));
        assert_eq!(ops.known, [None]);
    }

    #[test]
    fn no_value_is_written_twice() {
        let mut values = HashSet::new();
        for (thread, seed) in [(0, 1), (1, 1), (0, 2), (7, 2)] {
            let mut ops = Ops::new(thread, 3, seed);
            for _ in 0..1000 {
                let (key, op) = ops.next();
                assert!(key < 3);
                if let Op::Insert(value) | Op::InsertNew(value) | Op::GetOrInsert(value) = op {
                    assert!(values.insert(value), "{op}");
                }
            }
        }
        assert!(values.len() > 500);
    }
}

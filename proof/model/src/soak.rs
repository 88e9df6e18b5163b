//! A long run of many threads on one map. At its end it is known what the map must hold.
//!
//! Each key is either a thread's own or shared by all threads. Other threads do not touch a
//! thread's own keys, so the thread knows each answer from its own oracle. For shared keys the
//! threads count insertions and removals. A key with one more insertion than removals must be
//! present, and its value must be the last one of some thread. A key with as many insertions as
//! removals must be absent. Keys of both kinds are neighbours in the order of the keys.
//!
//! ```
//! use std::time::Duration;
//! use sapwood_model::soak::{Length, soak};
//! use sapwood_model::shared_ops::LockedMap;
//!
//! let map = LockedMap::default();
//! let expected = soak(&map, 3, Length::Time(Duration::from_millis(20)), 7);
//! // Everything that the map holds, in the order of its keys.
//! let entries = map.into_inner();
//! let checked = expected.check(entries.iter().map(|(key, value)| (key.as_slice(), *value)));
//! assert_eq!(checked, Ok(entries.len()));
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::history::{Answer, Op};
use crate::keys::{KeyPool, Shape};
use crate::shared_ops::{SharedMap, hot_keys};

/// The length of each thread's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This many operations. The same seed gives each thread the same operations.
    Operations(u64),
    /// This time by the clock.
    Time(Duration),
}

/// The entries that the map must have after a [`soak`].
#[derive(Clone, Debug)]
pub struct Expected {
    entries: BTreeMap<Vec<u8>, Allowed>,
    /// The number of operations of all threads.
    pub operations: u64,
}

/// The values that a present key may have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    /// The only value of a thread's own key.
    Own(u64),
    /// The values of a shared key that were the last ones of some thread.
    Shared(Vec<u64>),
}

/// A difference between a map and the entries that it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A key is missing.
    Missing(Vec<u8>),
    /// A key must not be present, or comes twice, or is in the wrong place.
    Unexpected(Vec<u8>),
    /// A key has a value that it cannot have.
    Value(Vec<u8>, u64),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "\"{}\" is missing", key.escape_ascii()),
            Self::Unexpected(key) => write!(
                f,
                "\"{}\" must not be there, or not in this place",
                key.escape_ascii()
            ),
            Self::Value(key, value) => {
                write!(f, "\"{}\" cannot hold {value:#x}", key.escape_ascii())
            }
        }
    }
}

impl std::error::Error for Difference {}

impl Expected {
    /// How many keys the map must have.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map must be empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The keys that the map must have, in their order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.entries.keys().map(Vec::as_slice)
    }

    /// Compares with all entries of a map, in the order of its keys. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// The first [`Difference`].
    pub fn check<K: AsRef<[u8]>>(
        &self,
        found: impl IntoIterator<Item = (K, u64)>,
    ) -> Result<usize, Difference> {
        let mut expected = self.entries.iter();
        for (key, value) in found {
            let key = key.as_ref();
            match expected.next() {
                Some((wanted, _)) if wanted.as_slice() < key => {
                    return Err(Difference::Missing(wanted.clone()));
                }
                Some((wanted, allowed)) if wanted == key => {
                    let fits = match allowed {
                        Allowed::Own(own) => value == *own,
                        Allowed::Shared(last) => last.contains(&value),
                    };
                    if !fits {
                        return Err(Difference::Value(key.to_vec(), value));
                    }
                }
                _ => return Err(Difference::Unexpected(key.to_vec())),
            }
        }
        match expected.next() {
            Some((wanted, _)) => Err(Difference::Missing(wanted.clone())),
            None => Ok(self.len()),
        }
    }
}

/// How many keys are shared.
const SHARED: usize = 48;

/// The size of the pool from which each thread draws its own keys.
const POOL: usize = 4000;

/// The number of own keys at which a thread begins to remove more than it inserts.
const FLOOD: usize = if cfg!(miri) { 100 } else { 3000 };
/// The number of own keys at which it begins to insert more again.
const EBB: usize = 8;

/// How many operations a thread runs between two readings of the clock and two calls of `pause`.
const PAUSE: u64 = 64;

/// Runs random operations of `threads` threads on a map that is empty at first, checks each answer
/// that a thread can know, and returns the entries that the map must have at the end.
///
/// Two in three operations are on a thread's own keys, which are up to some thousands. Their number
/// rises and falls, so that nodes grow, split, shrink and merge. The other operations are on some
/// dozens of shared keys.
///
/// # Panics
///
/// If an answer is wrong, or if the insertions and removals of a shared key do not match.
pub fn soak<M: SharedMap + ?Sized>(map: &M, threads: usize, length: Length, seed: u64) -> Expected {
    let shared = hot_keys(SHARED);
    let start = Barrier::new(threads);
    let done: Vec<Thread<'_, M>> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|number| {
                let (shared, start) = (&shared, &start);
                scope.spawn(move || {
                    let mut thread = Thread::new(map, number, threads, shared, seed);
                    start.wait();
                    thread.work(length);
                    thread
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(thread) => thread,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        working.into_iter().map(join).collect()
    });

    let mut entries = BTreeMap::new();
    for (at, key) in shared.iter().enumerate() {
        let accounts: Vec<_> = done.iter().map(|thread| &thread.accounts[at]).collect();
        let name = key.escape_ascii();
        let balance: i64 = accounts.iter().map(|account| account.balance).sum();
        let last: Vec<Option<u64>> = accounts.iter().filter_map(|account| account.last).collect();
        match balance {
            0 => assert!(
                last.is_empty() || last.contains(&None),
                "\"{name}\": removed as often as inserted, but no thread removed it last"
            ),
            1 => {
                let values: Vec<u64> = last.into_iter().flatten().collect();
                assert!(
                    !values.is_empty(),
                    "\"{name}\": inserted, but every thread removed it last"
                );
                entries.insert(key.clone(), Allowed::Shared(values));
            }
            _ => panic!("\"{name}\": inserted {balance} times more often than removed"),
        }
    }
    let operations = done.iter().map(|thread| thread.operations).sum();
    for thread in done {
        let own = thread.own.into_iter();
        entries.extend(own.map(|(key, value)| (key, Allowed::Own(value))));
    }
    Expected {
        entries,
        operations,
    }
}

/// A thread's account of a shared key.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The thread's insertions of the key, less its removals.
    balance: i64,
    /// The thread's last change of the key: the value, or `None` for a removal.
    last: Option<Option<u64>>,
    /// A value of the key that the thread has seen, for exchanges.
    seen: u64,
}

impl Account {
    fn new(key: usize) -> Self {
        Self {
            balance: 0,
            last: None,
            // No thread writes this value. It has the key's number like the written ones.
            seen: (key as u64) << 56,
        }
    }
}

/// One thread of a soak.
struct Thread<'m, M: ?Sized> {
    map: &'m M,
    number: usize,
    threads: usize,
    shared: &'m [Vec<u8>],
    pool: KeyPool,
    own: BTreeMap<Vec<u8>, u64>,
    accounts: Vec<Account>,
    /// Whether the number of its own keys rises.
    grows: bool,
    operations: u64,
}

impl<'m, M: SharedMap + ?Sized> Thread<'m, M> {
    fn new(map: &'m M, number: usize, threads: usize, shared: &'m [Vec<u8>], seed: u64) -> Self {
        let seed = seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            map,
            number,
            threads,
            shared,
            pool: KeyPool::with_shapes(seed, POOL, &Shape::SHORT),
            own: BTreeMap::new(),
            accounts: (0..shared.len()).map(Account::new).collect(),
            grows: true,
            operations: 0,
        }
    }

    fn work(&mut self, length: Length) {
        let start = Instant::now();
        loop {
            let goes_on = match length {
                Length::Operations(operations) => self.operations < operations,
                Length::Time(time) => self.operations % PAUSE != 0 || start.elapsed() < time,
            };
            if !goes_on {
                break;
            }
            self.operations += 1;
            if self.pool.rng().u8(..3) == 0 {
                self.on_shared_key();
            } else {
                self.on_own_key();
            }
            if self.operations % PAUSE == 0 {
                self.map.pause();
            }
        }
    }

    /// Runs an operation on a key of this thread, and checks its answer.
    fn on_own_key(&mut self) {
        let key = self.own_key();
        let held = self.own.get(&key).copied();
        let value = self.value(self.shared.len());
        let op = self.draw(value, held.unwrap_or(value));
        let (right, after) = op.apply(held);
        let answer = op.call(self.map, &key);
        assert_eq!(
            answer,
            right,
            "thread {}: {op} on its own key \"{}\", which held {held:x?}",
            self.number,
            key.escape_ascii()
        );
        match after {
            Some(value) => self.own.insert(key, value),
            None => self.own.remove(&key),
        };
        match self.own.len() {
            FLOOD.. => self.grows = false,
            ..=EBB => self.grows = true,
            _ => {}
        }
    }

    /// A key of this thread; while their number falls, most likely a stored one.
    fn own_key(&mut self) -> Vec<u8> {
        let mut key = self.pool.key();
        if !self.grows && self.pool.rng().u8(..8) != 0 {
            let near = self.own.range(key.clone()..).next();
            if let Some((near, _)) = near.or_else(|| self.own.iter().next()) {
                return near.clone();
            }
        }
        while !self.owns(&key) {
            key = self.pool.key();
        }
        key
    }

    /// Runs an operation on a shared key, and updates the account.
    fn on_shared_key(&mut self) {
        let at = self.pool.rng().usize(..self.shared.len());
        let value = self.value(at);
        let op = self.draw(value, self.accounts[at].seen);
        let answer = op.call(self.map, &self.shared[at]);
        let name = self.shared[at].escape_ascii();
        let account = &mut self.accounts[at];
        let before = match answer {
            // The answer is the thread's own new value, so this operation stored it.
            Answer::Value(Some(there)) if matches!(op, Op::GetOrInsert(_)) && there == value => {
                None
            }
            Answer::Value(held) | Answer::Exchange(Err(held)) => held,
            Answer::Exchange(Ok(())) => match op {
                Op::CompareExchange { expected, .. } => Some(expected),
                _ => unreachable!("only an exchange is answered so"),
            },
            Answer::Done(done) => (!done).then_some(account.seen),
        };
        if let Some(value) = before {
            assert_eq!(key_of(value), at, "{op} on \"{name}\" found {value:#x}");
            account.seen = value;
        }
        let (_, after) = op.apply(before);
        account.balance += i64::from(after.is_some()) - i64::from(before.is_some());
        if after != before {
            account.last = Some(after);
        }
    }

    /// Whether a key is one of this thread's own.
    fn owns(&self, key: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() % self.threads as u64 == self.number as u64
            && !self.shared.iter().any(|shared| shared == key)
    }

    /// A value that no other operation writes, with the number of its shared key.
    fn value(&self, key: usize) -> u64 {
        (key as u64) << 56 | (self.number as u64 + 1) << 44 | self.operations
    }

    fn draw(&mut self, value: u64, expected: u64) -> Op {
        let inserts = if self.grows { 9 } else { 4 };
        match self.pool.rng().u8(..16) {
            0..2 => Op::Get,
            at if at < inserts => match at % 3 {
                0 => Op::Insert(value),
                1 => Op::InsertNew(value),
                _ => Op::GetOrInsert(value),
            },
            2..11 => Op::Remove,
            11..13 => Op::Replace(value),
            13..15 => Op::CompareExchange {
                expected,
                new: value,
            },
            // An exchange that most likely fails.
            _ => Op::CompareExchange {
                expected: value,
                new: value + 1,
            },
        }
    }
}

/// The number of the shared key in a value.
fn key_of(value: u64) -> usize {
    (value >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_ops::{Absent, LockedMap, Present};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};

    const LENGTH: Length = Length::Operations(if cfg!(miri) { 500 } else { 40_000 });

    #[test]
    fn a_map_behind_a_lock_passes() {
        for threads in [1, 2, 4, 7] {
            let map = LockedMap::default();
            let expected = soak(&map, threads, LENGTH, threads as u64);
            let entries = map.into_inner();
            let found = entries.iter().map(|(key, value)| (key, *value));
            assert_eq!(expected.check(found), Ok(entries.len()));
            assert_eq!(expected.len(), entries.len());
            assert!(expected.keys().eq(entries.keys()));
            let Length::Operations(each) = LENGTH else {
                panic!("the length is a number of operations")
            };
            assert_eq!(expected.operations, each * threads as u64);
            let shared = |allowed: &&Allowed| matches!(allowed, Allowed::Shared(_));
            let shared = expected.entries.values().filter(shared).count();
            assert!((1..=SHARED).contains(&shared), "{shared} shared keys");
        }
    }

    #[test]
    fn one_thread_always_does_the_same() {
        let run = || {
            let map = LockedMap::default();
            soak(&map, 1, LENGTH, 3);
            map.into_inner()
        };
        let entries = run();
        assert!(!entries.is_empty());
        assert_eq!(entries, run());
    }

    #[test]
    fn keys_rise_and_fall() {
        let map = LockedMap::default();
        let shared = hot_keys(SHARED);
        let mut thread = Thread::new(&map, 0, 2, &shared, 1);
        let mut turns = 0;
        let mut most = 0;
        while turns < 4 {
            let grew = thread.grows;
            thread.on_own_key();
            thread.operations += 1;
            turns += u32::from(grew != thread.grows);
            most = most.max(thread.own.len());
            assert!(thread.operations < 1_000_000, "it turns within that");
        }
        assert!((FLOOD..FLOOD + 10).contains(&most));
        assert!(thread.own.len() <= EBB);
    }

    #[test]
    fn differences_are_found() {
        let entries = BTreeMap::from([
            (b"a".to_vec(), Allowed::Own(1)),
            (b"b".to_vec(), Allowed::Shared(vec![2, 3])),
            (b"c".to_vec(), Allowed::Own(4)),
        ]);
        let expected = Expected {
            entries,
            operations: 0,
        };
        let check = |found: &[(&str, u64)]| expected.check(found.iter().copied());
        assert_eq!(check(&[("a", 1), ("b", 2), ("c", 4)]), Ok(3));
        assert_eq!(check(&[("a", 1), ("b", 3), ("c", 4)]), Ok(3));
        let missing = |key: &str| Err(Difference::Missing(key.into()));
        let unexpected = |key: &str| Err(Difference::Unexpected(key.into()));
        assert_eq!(check(&[]), missing("a"));
        assert_eq!(check(&[("a", 1), ("c", 4)]), missing("b"));
        assert_eq!(check(&[("a", 1), ("b", 2)]), missing("c"));
        assert_eq!(check(&[("a", 1), ("aa", 1)]), unexpected("aa"));
        assert_eq!(check(&[("a", 1), ("a", 1)]), unexpected("a"));
        let four = [("a", 1), ("b", 2), ("c", 4), ("d", 5)];
        assert_eq!(check(&four), unexpected("d"));
        let value = Err(Difference::Value(b"b".to_vec(), 4));
        assert_eq!(check(&[("a", 1), ("b", 4), ("c", 4)]), value);
    }

    /// A map that forgets one removal in many, or lets one insertion in many happen twice.
    struct Forgetful {
        map: LockedMap,
        calls: AtomicU64,
        removals: bool,
    }

    impl Forgetful {
        fn forgets(&self) -> bool {
            self.calls.fetch_add(1, Ordering::Relaxed) % 997 == 996
        }
    }

    impl SharedMap for Forgetful {
        fn get(&self, key: &[u8]) -> Option<u64> {
            self.map.get(key)
        }

        fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
            self.map.insert(key, value)
        }

        fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
            if !self.removals && self.forgets() {
                self.map.insert(key, value);
                return Ok(());
            }
            self.map.insert_new(key, value)
        }

        fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
            self.map.replace(key, value)
        }

        fn remove(&self, key: &[u8]) -> Option<u64> {
            if self.removals && self.forgets() {
                return self.map.get(key);
            }
            self.map.remove(key)
        }

        fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
            self.map.compare_exchange(key, expected, new)
        }

        fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
            self.map.get_or_insert(key, value)
        }
    }

    #[test]
    fn forgetful_maps_are_caught() {
        for removals in [true, false] {
            let map = Forgetful {
                map: LockedMap::default(),
                calls: AtomicU64::new(0),
                removals,
            };
            let run = AssertUnwindSafe(|| soak(&map, 2, LENGTH, 1));
            assert!(catch_unwind(run).is_err(), "removals: {removals}");
        }
    }

    #[test]
    fn accounts_of_shared_keys_come_out_even_or_the_soak_fails() {
        // Shared keys only, so that the checks of own keys cannot catch it.
        for removals in [true, false] {
            let map = Forgetful {
                map: LockedMap::default(),
                calls: AtomicU64::new(0),
                removals,
            };
            let shared = hot_keys(SHARED);
            let mut thread = Thread::new(&map, 0, 1, &shared, 1);
            let wrong = (0..20_000).any(|_| {
                thread.operations += 1;
                thread.on_shared_key();
                let balances = thread.accounts.iter().map(|account| account.balance);
                balances
                    .into_iter()
                    .any(|balance| !(0..=1).contains(&balance))
            });
            assert!(wrong, "removals: {removals}");
        }
    }
}

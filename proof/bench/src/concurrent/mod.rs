//! The maps that the group `threads` compares: from byte strings to `u64`, read and written by many
//! threads.
//!
//! # To add an engine
//!
//! Write a file in `peers` that implements [`ConcurrentEngine`] for the map and [`Session`] for the
//! state of one thread, and name the type in [`lanes`]. A session keeps its guard or its
//! registration between calls. It releases what the guard protects in [`Session::pause`], which is
//! called after each run of [`RUN`] keys. An engine with batched lookups overrides
//! [`Session::lookups`]. An engine that counts its contended operations returns the count from
//! [`ConcurrentEngine::waits`]. Two ways to use one map are two engines.
//!
//! # Values
//!
//! The low 16 bits of a value are the *stamp*: which thread wrote the value, and when. The other
//! bits belong to the key and never change. A thread can therefore check every answer while others
//! write.

mod shared;

use crate::keylist::KeyList;
use crate::peers;

/// The number of keys that a thread processes between two pauses.
pub const RUN: usize = 256;

/// The bits of a value that its writer chooses.
pub const STAMP: u64 = 0xffff;

/// A map from byte strings to `u64` that threads share.
pub trait ConcurrentEngine: Send + Sync + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// A known defect by which the map loses a few keys. Such a map is measured as long as it
    /// misses at most one key in a thousand, and its losses are reported. Any other wrong answer
    /// ends the run, and so does any loss from a map without this note.
    const LOSES_KEYS: Option<&'static str> = None;
    /// Whether a key stays present while its value is replaced.
    const REPLACES_IN_PLACE: bool = true;

    /// Why the map cannot hold these keys, if it cannot.
    fn refuses(keys: &KeyList) -> Option<String> {
        let _ = keys;
        None
    }

    /// An empty map.
    fn new() -> Self;

    /// A session, made on the thread that uses it.
    fn session(&self) -> impl Session;

    /// How long the operations of all finished sessions waited, if the map can tell.
    fn waits(&self) -> Option<Waits> {
        None
    }

    /// The bytes that the map holds outside malloc's heap, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

/// The state by which one thread uses a map.
pub trait Session {
    /// The value at a key.
    fn get(&mut self, key: &[u8]) -> Option<u64>;

    /// Stores a value at an absent key; returns whether the key was absent.
    fn insert(&mut self, key: &[u8], value: u64) -> bool;

    /// Replaces the value at a present key, by the cheapest operation that the map has; returns the
    /// old value.
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64>;

    /// Removes a key; returns its value.
    fn remove(&mut self, key: &[u8]) -> Option<u64>;

    /// Says that the thread holds no reference, so that removed entries can be freed.
    fn pause(&mut self) {}

    /// Looks a run of keys up.
    fn lookups(&mut self, keys: &KeyList, from: usize, count: usize) -> Answers {
        Answers::of(keys, from, count, |key, _| self.get(key))
    }

    /// Inserts a run of absent keys. Keys that were present count as missed.
    fn inserts(&mut self, keys: &KeyList, from: usize, count: usize, stamp: u16) -> Answers {
        Answers::of(keys, from, count, |key, value| {
            self.insert(key, value | u64::from(stamp)).then_some(value)
        })
    }

    /// Replaces the values of a run of present keys.
    fn replaces(&mut self, keys: &KeyList, from: usize, count: usize, stamp: u16) -> Answers {
        Answers::of(keys, from, count, |key, value| {
            self.replace(key, value | u64::from(stamp))
        })
    }

    /// Removes a run of present keys.
    fn removes(&mut self, keys: &KeyList, from: usize, count: usize) -> Answers {
        Answers::of(keys, from, count, |key, _| self.remove(key))
    }
}

/// The answers to a run of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Keys with a value of their own.
    pub right: u64,
    /// Keys that were absent, or present when they were to be inserted.
    pub missed: u64,
    /// Keys with a value that never was theirs.
    pub wrong: u64,
}

impl Answers {
    /// Runs `ask` for a run of keys, with each key and its value with an empty stamp.
    #[inline]
    fn of(
        keys: &KeyList,
        from: usize,
        count: usize,
        mut ask: impl FnMut(&[u8], u64) -> Option<u64>,
    ) -> Self {
        let mut answers = Self::default();
        for (key, value) in keys.run(from, count) {
            match ask(key, value) {
                Some(met) if met & !STAMP == value => answers.right += 1,
                Some(_) => answers.wrong += 1,
                None => answers.missed += 1,
            }
        }
        answers
    }

    /// The number of keys that were asked for.
    pub fn count(&self) -> u64 {
        self.right + self.missed + self.wrong
    }
}

impl std::ops::AddAssign for Answers {
    fn add_assign(&mut self, other: Self) {
        self.right += other.right;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }
}

/// The contention that operations met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The number of operations that met a lock which another thread held.
    pub met: u64,
    /// How long they waited, in nanoseconds of wall-clock time.
    pub nanoseconds: u64,
}

impl std::ops::Sub for Waits {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            met: self.met - earlier.met,
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
        }
    }
}

/// An engine with its type erased.
pub struct Lane {
    /// [`ConcurrentEngine::NAME`].
    pub name: &'static str,
    /// [`ConcurrentEngine::LOSES_KEYS`].
    pub loses_keys: Option<&'static str>,
    /// [`ConcurrentEngine::REPLACES_IN_PLACE`].
    pub replaces_in_place: bool,
    /// [`ConcurrentEngine::refuses`].
    pub refuses: fn(&KeyList) -> Option<String>,
    /// [`ConcurrentEngine::new`].
    pub new: fn() -> Box<dyn Map>,
}

/// A map of an engine with its type erased; one call of a session is a whole run of keys.
#[allow(missing_docs)] // They are the methods of `ConcurrentEngine`.
pub trait Map: Send + Sync {
    fn session(&self) -> Box<dyn Session + '_>;
    fn waits(&self) -> Option<Waits>;
    fn mapped_bytes(&self) -> usize;
}

impl<E: ConcurrentEngine> Map for E {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(ConcurrentEngine::session(self))
    }

    fn waits(&self) -> Option<Waits> {
        ConcurrentEngine::waits(self)
    }

    fn mapped_bytes(&self) -> usize {
        ConcurrentEngine::mapped_bytes(self)
    }
}

fn lane<E: ConcurrentEngine>() -> Lane {
    Lane {
        name: E::NAME,
        loses_keys: E::LOSES_KEYS,
        replaces_in_place: E::REPLACES_IN_PLACE,
        refuses: E::refuses,
        new: || Box::new(E::new()),
    }
}

/// All engines, in the order in which tables list them.
pub fn lanes() -> Vec<Lane> {
    vec![
        lane::<shared::Shared>(),
        lane::<shared::Indexed>(),
        lane::<shared::Points>(),
        lane::<peers::dashmap::Dashmap>(),
        lane::<peers::papaya::Papaya>(),
        lane::<peers::scc::Hash>(),
        lane::<peers::skiplist::Skiplist>(),
        lane::<peers::masstree::Masstree>(),
        lane::<peers::rwlock::RwLockHashbrown>(),
    ]
}

#[cfg(test)]
mod tests;

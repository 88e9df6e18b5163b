//! The maps that the group `threads` compares: byte strings to `u64`, many threads that read and
//! write.
//!
//! # To add an engine
//!
//! Write a file here that implements [`ConcurrentEngine`] for the map and [`Session`] for what one
//! thread holds of it, and name the type in [`lanes`]. A session keeps its guard or its
//! registration between calls, and lets go of what it protects in [`Session::pause`], which comes
//! after each run of [`RUN`] keys; one that can do many lookups at once overrides
//! [`Session::lookups`]. A map that knows how often its operations met a lock says so in
//! [`ConcurrentEngine::waits`]. Two ways to use one map are two engines.
//!
//! # Values
//!
//! The low 16 bits of a value are the *stamp*, which says who wrote it and when; the others belong
//! to the key and never change. So every answer can be judged while others write.

mod dashmap;
mod masstree;
mod papaya;
mod rwlock;
mod scc;
mod shared;
mod skiplist;

use crate::keylist::KeyList;

/// The keys that a thread works on between two pauses.
pub const RUN: usize = 256;

/// The bits of a value that its writer chooses.
pub const STAMP: u64 = 0xffff;

/// A map from byte strings to `u64` that threads share.
pub trait ConcurrentEngine: Send + Sync + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// A known defect by which a few keys get lost. Such a map is measured all the same while it
    /// misses at most one in a thousand, and losses are reported. Any other wrong answer, and any
    /// at all of a map without this, ends the run.
    const LOSES_KEYS: Option<&'static str> = None;
    /// Whether a key is there at every moment while its value is replaced.
    const REPLACES_IN_PLACE: bool = true;

    /// Why it cannot hold these keys, if so.
    fn refuses(keys: &KeyList) -> Option<String> {
        let _ = keys;
        None
    }

    /// An empty map.
    fn new() -> Self;

    /// A session, made on the thread that uses it.
    fn session(&self) -> impl Session;

    /// What the operations of all sessions that are over waited, if the map can tell.
    fn waits(&self) -> Option<Waits> {
        None
    }

    /// Bytes it holds beside those of malloc, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

/// One thread's way to use a map.
pub trait Session {
    /// The value at a key.
    fn get(&mut self, key: &[u8]) -> Option<u64>;

    /// Stores a value at a key that is absent; returns whether it was.
    fn insert(&mut self, key: &[u8], value: u64) -> bool;

    /// Stores a value at a key that is present, in the cheapest way that the map has; returns the
    /// value before.
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64>;

    /// Removes a key; returns its value.
    fn remove(&mut self, key: &[u8]) -> Option<u64>;

    /// The thread holds nothing: what others have removed can be freed.
    fn pause(&mut self) {}

    /// Looks a run of keys up.
    fn lookups(&mut self, keys: &KeyList, from: usize, count: usize) -> Answers {
        Answers::of(keys, from, count, |key, _| self.get(key))
    }

    /// Inserts a run of absent keys; those that were there are missed.
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

/// What a run of operations met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Keys with a value of their own.
    pub right: u64,
    /// Keys that were not there, or were when they were to be inserted.
    pub missed: u64,
    /// Keys with a value that was never theirs.
    pub wrong: u64,
}

impl Answers {
    /// Asks for a run of keys; `ask` gets the key and its value with an empty stamp.
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

    /// How many keys were asked for.
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

/// What operations waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Operations that met a lock which another thread held.
    pub met: u64,
    /// For how long they waited, in nanoseconds on the clock.
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

/// An engine whose type is forgotten.
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

/// A map of an engine whose type is forgotten; one call of a session is a whole run of keys.
#[allow(missing_docs)] // They have the names and the meaning of the methods of `ConcurrentEngine`.
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
        lane::<dashmap::Dashmap>(),
        lane::<papaya::Papaya>(),
        lane::<scc::Scc>(),
        lane::<skiplist::Skiplist>(),
        lane::<masstree::Masstree>(),
        lane::<rwlock::RwLockHashbrown>(),
    ]
}

#[cfg(test)]
mod tests;

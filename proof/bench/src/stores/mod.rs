//! The stores that the suite `versions` compares: from byte strings to `u64`, many readers, one
//! writer.
//!
//! # To add a store
//!
//! Write a file in `peers` that implements [`Store`] with its [`Reader`], [`Writer`] and [`Txn`],
//! and name the type in `lanes` of the suite. A store with grace periods reports its quiescent
//! state in [`Reader::pause`] and reclaims in [`Writer::pause`]. Both are called between loops of
//! transactions, as an event loop would call them. A store that needs an optional library says in
//! [`Store::available`] whether it is installed.
//!
//! `sapwood` and all stores whose names end with `-qp` have the same trie. They differ only in how
//! they protect readers.

mod published;
mod sapwood;
mod urcu;

pub use published::{Protection, Published, Version};
pub use sapwood::Sapwood;
pub use urcu::{Memb, Qsbr, Urcu};

use std::time::Duration;

use crate::keylist::KeyList;

/// Lookups in one version.
pub type Snapshot<'s> = Box<dyn Fn(&[u8]) -> Option<u64> + 's>;

/// A map that threads share.
pub trait Store: Send + Sync + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// The facts for a fair comparison, for the notes.
    const NOTE: &'static str;

    /// Why this machine cannot run the store, if so.
    fn available() -> Result<(), String> {
        Ok(())
    }

    /// An empty store.
    fn new() -> Self;

    /// A reader, made on the thread that uses it.
    fn reader(&self) -> impl Reader;

    /// The writer, made on the thread that uses it; only one exists at a time.
    fn writer(&self) -> impl Writer;

    /// A snapshot of the current version, which later commits do not change, if the store has
    /// snapshots.
    fn snapshot(&self) -> Option<Snapshot<'_>> {
        None
    }

    /// The bytes that the store holds outside malloc's heap, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

/// The state by which one thread reads a store.
pub trait Reader {
    /// Runs one read transaction: looks up `count` keys of the list from the place `from` on, in
    /// one version if the store has versions.
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen;

    /// Ends a loop of transactions: the thread holds no reference.
    fn pause(&mut self) {}
}

/// The state by which the writing thread changes a store.
pub trait Writer {
    /// Opens a transaction.
    fn begin(&mut self) -> impl Txn;

    /// Ends a loop of transactions: the writer may reclaim memory.
    fn pause(&mut self) {}

    /// The longest step of a compaction so far, if the store has such steps.
    fn longest_step(&self) -> Option<Duration> {
        None
    }
}

/// An open transaction.
pub trait Txn {
    /// Stores a value at a key.
    fn insert(&mut self, key: &[u8], value: u64);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);
    /// Publishes all changes at once, if the store can.
    fn commit(self);
}

/// The answers to reads.
///
/// A value tells whether the writer may touch its key: values of keys that always stay are even. A
/// reader can therefore check each answer while the writer works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of keys with the right value.
    pub found: u64,
    /// The number of keys that the writer has removed at the moment.
    pub absent: u64,
    /// The number of wrong values, and of missing keys that should have stayed.
    pub wrong: u64,
}

impl Seen {
    /// Looks a run of keys up.
    #[inline]
    pub fn of(
        keys: &KeyList,
        from: usize,
        count: usize,
        mut get: impl FnMut(&[u8]) -> Option<u64>,
    ) -> Self {
        let mut seen = Self::default();
        for (key, expected) in keys.run(from, count) {
            match get(key) {
                Some(value) if value == expected => seen.found += 1,
                None if expected & 1 == 1 => seen.absent += 1,
                _ => seen.wrong += 1,
            }
        }
        seen
    }

    /// The number of keys that were looked up.
    pub fn count(&self) -> u64 {
        self.found + self.absent + self.wrong
    }
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.found += other.found;
        self.absent += other.absent;
        self.wrong += other.wrong;
    }
}

#[cfg(test)]
mod tests;

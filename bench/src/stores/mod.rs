//! The stores that the suite `versions` compares: byte strings to `u64`, many readers, one writer.
//!
//! # To add a store
//!
//! Write a file here that implements [`Store`] with its [`Reader`], [`Writer`] and [`Txn`], and
//! name the type in `lanes` of the suite. A store with grace periods reports its quiescent state in
//! [`Reader::pause`] and reclaims in [`Writer::pause`]: both come between loops of transactions, as
//! from an event loop. One that needs a library that may not be installed says so in
//! [`Store::available`].
//!
//! `sapwood` and all stores whose names end with `-qp` have the same trie: they differ in how
//! readers are protected.

mod arcswap;
mod left_right;
mod published;
mod rwlock;
mod sapwood;
mod skiplist;
mod urcu;

pub use arcswap::ArcSwapImbl;
pub use left_right::LeftRight;
pub use published::{Published, Version};
pub use rwlock::{RwLockBtree, RwLockQp};
pub use sapwood::Sapwood;
pub use skiplist::Skiplist;
pub use urcu::{Memb, Qsbr, Urcu};

use crate::keylist::KeyList;

/// Lookups in one version.
pub type Snapshot<'s> = Box<dyn Fn(&[u8]) -> Option<u64> + 's>;

/// A map that threads share.
pub trait Store: Send + Sync + Sized + 'static {
    /// The name in tables and records.
    const NAME: &'static str;
    /// What must be known to compare it fairly, for the notes.
    const NOTE: &'static str;

    /// Why there is none here, if so.
    fn available() -> Result<(), String> {
        Ok(())
    }

    /// An empty store.
    fn new() -> Self;

    /// A reader, made on the thread that uses it.
    fn reader(&self) -> impl Reader;

    /// The writer, made on the thread that uses it; there is one at a time.
    fn writer(&self) -> impl Writer;

    /// A look at the version of now that later commits do not change, if the store can give one.
    fn snapshot(&self) -> Option<Snapshot<'_>> {
        None
    }

    /// Bytes it holds beside those of malloc, such as mappings.
    fn mapped_bytes(&self) -> usize {
        0
    }
}

/// A thread's way to read.
pub trait Reader {
    /// One read transaction: looks up `count` keys of the list from the place `from` on, in one
    /// version if the store has versions.
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen;

    /// The end of a loop of transactions: the thread holds nothing.
    fn pause(&mut self) {}
}

/// The writing thread's way to write.
pub trait Writer {
    /// Opens a transaction.
    fn begin(&mut self) -> impl Txn;

    /// The end of a loop of transactions: time to reclaim.
    fn pause(&mut self) {}
}

/// An open transaction.
pub trait Txn {
    /// Stores a value at a key.
    fn insert(&mut self, key: &[u8], value: u64);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);
    /// Publishes all of it at once, if the store can.
    fn commit(self);
}

/// What reads met.
///
/// Values tell whether the writer may touch their key: those of keys that always stand are even. So
/// a reader can judge each answer while the writer is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Keys with the right value.
    pub found: u64,
    /// Keys that the writer has out at the moment.
    pub absent: u64,
    /// Wrong values, and keys that should stand and do not.
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

    /// How many keys were looked up.
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

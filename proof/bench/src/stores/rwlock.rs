//! Maps behind a reader-writer lock: a B-tree, the usual first choice of a program, and Sapwood's
//! trie.

use std::collections::BTreeMap;

use parking_lot::{RwLock, RwLockWriteGuard};
use sapwood::qp::QpMap;

use super::{Reader, Seen, Store, Txn, Writer};
use crate::engines::qp_mapped_bytes;
use crate::keylist::KeyList;

/// A map that one thread at a time changes.
pub trait Owned: Default + Send + Sync + 'static {
    /// See [`Store::NAME`].
    const NAME: &'static str;
    /// See [`Store::NOTE`].
    const NOTE: &'static str;
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<u64>;
    /// Stores a value at a key.
    fn insert(&mut self, key: &[u8], value: u64);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);
    /// See [`Store::mapped_bytes`].
    fn mapped_bytes(&self) -> usize {
        0
    }
}

impl Owned for BTreeMap<Box<[u8]>, u64> {
    const NAME: &'static str = "rwlock-btreemap";
    const NOTE: &'static str = "readers and the writer wait for each other; no snapshots";

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get(key).copied()
    }

    fn insert(&mut self, key: &[u8], value: u64) {
        self.insert(Box::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.remove(key);
    }
}

impl Owned for QpMap<u64> {
    const NAME: &'static str = "rwlock-qp";
    const NOTE: &'static str =
        "QpMap, changed in place and never compacted; readers and the writer wait for each other";

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get(key).copied()
    }

    fn insert(&mut self, key: &[u8], value: u64) {
        self.insert(key, value).expect("the key fits");
    }

    fn remove(&mut self, key: &[u8]) {
        self.remove(key);
    }

    fn mapped_bytes(&self) -> usize {
        qp_mapped_bytes(self)
    }
}

/// `parking_lot::RwLock` over a map; each transaction holds the lock.
pub struct Locked<M>(RwLock<M>);

/// A B-tree behind the lock.
pub type RwLockBtree = Locked<BTreeMap<Box<[u8]>, u64>>;

/// Sapwood's trie behind the lock.
pub type RwLockQp = Locked<QpMap<u64>>;

/// A reader, which takes the lock for each read transaction.
pub struct Shared<'s, M>(&'s RwLock<M>);

/// A writer, which takes the lock for each write transaction.
pub struct Exclusive<'s, M>(&'s RwLock<M>);

/// A transaction, which holds the lock.
pub struct Held<'w, M>(RwLockWriteGuard<'w, M>);

impl<M: Owned> Store for Locked<M> {
    const NAME: &'static str = M::NAME;
    const NOTE: &'static str = M::NOTE;

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn reader(&self) -> impl Reader {
        Shared(&self.0)
    }

    fn writer(&self) -> impl Writer {
        Exclusive(&self.0)
    }

    fn mapped_bytes(&self) -> usize {
        self.0.read().mapped_bytes()
    }
}

impl<M: Owned> Reader for Shared<'_, M> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let map = self.0.read();
        Seen::of(keys, from, count, |key| map.get(key))
    }
}

impl<M: Owned> Writer for Exclusive<'_, M> {
    fn begin(&mut self) -> impl Txn {
        Held(self.0.write())
    }
}

impl<M: Owned> Txn for Held<'_, M> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn commit(self) {}
}

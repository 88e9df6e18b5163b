//! A B-tree behind a reader-writer lock: what most programs start with.

use std::collections::BTreeMap;

use parking_lot::{RwLock, RwLockWriteGuard};

use super::{Reader, Seen, Store, Txn, Writer};
use crate::keylist::KeyList;

type Map = BTreeMap<Box<[u8]>, u64>;

/// `parking_lot::RwLock<BTreeMap>`; each transaction holds the lock.
pub struct RwLockBtree(RwLock<Map>);

/// Takes the lock for each read transaction.
pub struct Shared<'s>(&'s RwLock<Map>);

/// Takes the lock for each write transaction.
pub struct Exclusive<'s>(&'s RwLock<Map>);

/// The lock, held.
pub struct Locked<'w>(RwLockWriteGuard<'w, Map>);

impl Store for RwLockBtree {
    const NAME: &'static str = "rwlock-btreemap";
    const NOTE: &'static str = "readers wait for the writer and it for them; no snapshots";

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn reader(&self) -> impl Reader {
        Shared(&self.0)
    }

    fn writer(&self) -> impl Writer {
        Exclusive(&self.0)
    }
}

impl Reader for Shared<'_> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let map = self.0.read();
        Seen::of(keys, from, count, |key| map.get(key).copied())
    }
}

impl Writer for Exclusive<'_> {
    fn begin(&mut self) -> impl Txn {
        Locked(self.0.write())
    }
}

impl Txn for Locked<'_> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(Box::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn commit(self) {}
}

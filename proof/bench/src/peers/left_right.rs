//! Two copies of a B-tree: readers use one while the writer changes the other, and a commit
//! exchanges them.

use std::collections::BTreeMap;

use left_right::{Absorb, ReadHandle, ReadHandleFactory, WriteHandle};
use parking_lot::{Mutex, MutexGuard};

use crate::keylist::KeyList;
use crate::stores::{Reader, Seen, Store, Txn, Writer};

/// One of the two copies.
#[derive(Clone, Default)]
pub struct Map(BTreeMap<Box<[u8]>, u64>);

/// A change in the log, which is applied to both copies.
pub enum Change {
    /// Store a value at a key.
    Insert(Box<[u8]>, u64),
    /// Remove a key.
    Remove(Box<[u8]>),
}

impl Absorb<Change> for Map {
    fn absorb_first(&mut self, change: &mut Change, _: &Self) {
        match change {
            Change::Insert(key, value) => drop(self.0.insert(key.clone(), *value)),
            Change::Remove(key) => drop(self.0.remove(key)),
        }
    }

    fn absorb_second(&mut self, change: Change, _: &Self) {
        match change {
            Change::Insert(key, value) => drop(self.0.insert(key, value)),
            Change::Remove(key) => drop(self.0.remove(&key)),
        }
    }

    fn sync_with(&mut self, first: &Self) {
        self.clone_from(first);
    }
}

/// `left_right` over `BTreeMap`; a commit publishes the changes.
pub struct LeftRight {
    write: Mutex<WriteHandle<Map, Change>>,
    readers: ReadHandleFactory<Map>,
}

/// A reader's handle.
pub struct Left(ReadHandle<Map>);

/// The one writer.
pub struct Right<'s>(MutexGuard<'s, WriteHandle<Map, Change>>);

/// Changes that are not yet published.
pub struct Log<'w>(&'w mut WriteHandle<Map, Change>);

impl Store for LeftRight {
    const NAME: &'static str = "left-right";
    const NOTE: &'static str =
        "holds the map twice; a commit waits until no reader is inside; no snapshots";

    fn new() -> Self {
        let (write, read) = left_right::new();
        Self {
            write: Mutex::new(write),
            readers: read.factory(),
        }
    }

    fn reader(&self) -> impl Reader {
        Left(self.readers.handle())
    }

    fn writer(&self) -> impl Writer {
        Right(self.write.lock())
    }
}

impl Reader for Left {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let map = self.0.enter().expect("the writer lives");
        Seen::of(keys, from, count, |key| map.0.get(key).copied())
    }
}

impl Writer for Right<'_> {
    fn begin(&mut self) -> impl Txn {
        Log(&mut self.0)
    }
}

impl Txn for Log<'_> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.append(Change::Insert(Box::from(key), value));
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.append(Change::Remove(Box::from(key)));
    }

    fn commit(self) {
        self.0.publish();
    }
}

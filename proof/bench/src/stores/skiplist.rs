//! crossbeam's skip list: lock-free, but without transactions.

use crossbeam_skiplist::SkipMap;

use super::{Reader, Seen, Store, Txn, Writer};
use crate::keylist::KeyList;

type Map = SkipMap<Box<[u8]>, u64>;

/// `SkipMap`; each change is visible at once, and a commit does nothing.
pub struct Skiplist(Map);

/// A reader, with one pin per transaction.
pub struct Pinned<'s>(&'s Map);

/// A writer, whose changes are visible at once.
#[derive(Clone, Copy)]
pub struct Direct<'s>(&'s Map);

impl Store for Skiplist {
    const NAME: &'static str = "crossbeam-skipmap";
    const NOTE: &'static str = "no transactions: each change is seen at once; no snapshots";

    fn new() -> Self {
        Self(SkipMap::new())
    }

    fn reader(&self) -> impl Reader {
        Pinned(&self.0)
    }

    fn writer(&self) -> impl Writer {
        Direct(&self.0)
    }
}

impl Reader for Pinned<'_> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let _pin = crossbeam_epoch::pin();
        Seen::of(keys, from, count, |key| {
            self.0.get(key).map(|entry| *entry.value())
        })
    }
}

impl Writer for Direct<'_> {
    fn begin(&mut self) -> impl Txn {
        *self
    }
}

impl Txn for Direct<'_> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(Box::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn commit(self) {}
}

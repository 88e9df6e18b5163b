//! crossbeam's lock-free skip list.

use std::cell::Cell;
use std::ops::Bound;

use crossbeam_skiplist::SkipMap;

use crate::concurrent::{ConcurrentEngine, Session};
use crate::engines::{Built, Engine, in_turns};
use crate::keylist::{KeyList, ScanSum, Tally};
use crate::stores::{Reader, Seen, Store, Txn, Writer};

type Map = SkipMap<Box<[u8]>, u64>;

/// `SkipMap`. One pin covers a pass of one thread, a run of keys of many threads, or a transaction
/// that reads, so that the pins inside the calls are cheap. As a store it has no transactions: each
/// change is visible at once, and a commit does nothing.
pub struct Skiplist(Map);

impl Engine for Skiplist {
    const NAME: &'static str = "crossbeam-skipmap";

    fn build(pairs: &KeyList) -> Self {
        let _pin = crossbeam_epoch::pin();
        let map = SkipMap::new();
        for (key, value) in pairs.iter() {
            map.insert(Box::from(key), value);
        }
        Self(map)
    }
}

impl Built for Skiplist {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(|entry| *entry.value())
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        let _pin = crossbeam_epoch::pin();
        Tally::of(keys, |key| self.get(key))
    }

    fn scan(&self) -> ScanSum {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for entry in self.0.iter() {
            sum.add(entry.key(), *entry.value());
        }
        sum
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for (start, _) in starts.iter() {
            let bounds = (Bound::Included(start), Bound::Unbounded);
            for entry in self.0.range::<[u8], _>(bounds).take(count) {
                sum.add(entry.key(), *entry.value());
            }
        }
        Some(sum)
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for (key, _) in keys.iter() {
            if let Some(entry) = self.0.upper_bound::<[u8]>(Bound::Excluded(key)) {
                sum.add(entry.key(), *entry.value());
            }
        }
        Some(sum)
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.0.remove(old);
            self.0.insert(Box::from(new), value);
        });
    }
}

/// A pinned thread.
pub struct Pinned<'m> {
    map: &'m Map,
    pin: crossbeam_epoch::Guard,
}

impl ConcurrentEngine for Skiplist {
    const NAME: &'static str = "crossbeam-skipmap";
    // `SkipMap` removes the entry and then inserts another.
    const REPLACES_IN_PLACE: bool = false;

    fn new() -> Self {
        Self(SkipMap::new())
    }

    fn session(&self) -> impl Session {
        Pinned {
            map: &self.0,
            pin: crossbeam_epoch::pin(),
        }
    }
}

impl Session for Pinned<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get(key).map(|entry| *entry.value())
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.replace(key, value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let before = Cell::new(None);
        self.map.compare_insert(Box::from(key), value, |old| {
            before.set(Some(*old));
            true
        });
        before.get()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map.remove(key).map(|entry| *entry.value())
    }

    fn pause(&mut self) {
        self.pin.repin();
    }
}

impl Store for Skiplist {
    const NAME: &'static str = "crossbeam-skipmap";
    const NOTE: &'static str = "no transactions: each change is seen at once; no snapshots";

    fn new() -> Self {
        Self(SkipMap::new())
    }

    fn reader(&self) -> impl Reader {
        self
    }

    fn writer(&self) -> impl Writer {
        self
    }
}

impl Reader for &Skiplist {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let _pin = crossbeam_epoch::pin();
        Seen::of(keys, from, count, |key| {
            self.0.get(key).map(|entry| *entry.value())
        })
    }
}

impl Writer for &Skiplist {
    fn begin(&mut self) -> impl Txn {
        *self
    }
}

impl Txn for &Skiplist {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(Box::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn commit(self) {}
}

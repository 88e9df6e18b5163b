//! crossbeam's lock-free skip list.

use std::cell::Cell;

use crossbeam_skiplist::SkipMap;

use super::{ConcurrentEngine, Session};

/// `SkipMap`. One pin covers a run of keys, so that the pins inside the calls are cheap.
pub struct Skiplist(SkipMap<Box<[u8]>, u64>);

/// A pinned thread.
pub struct Pinned<'m> {
    map: &'m SkipMap<Box<[u8]>, u64>,
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

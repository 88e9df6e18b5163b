//! dashmap: hash tables in shards, each behind a lock.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dashmap::DashMap;

use crate::cache::{CacheEngine, Hasher, Key, Value};
use crate::concurrent::{ConcurrentEngine, Session};

/// `DashMap` with its default number of shards.
pub struct Dashmap(DashMap<Box<[u8]>, u64, Hasher>);

impl ConcurrentEngine for Dashmap {
    const NAME: &'static str = "dashmap";

    fn new() -> Self {
        Self(DashMap::default())
    }

    fn session(&self) -> impl Session {
        self
    }
}

impl Session for &Dashmap {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(|value| *value)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.insert(Box::from(key), value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let mut place = self.0.get_mut(key)?;
        Some(std::mem::replace(&mut *place, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.0.remove(key).map(|(_, value)| value)
    }
}

/// `DashMap` as a cache, which refuses new keys when it is full: with an entry count beside it,
/// because its own `len` locks all shards.
pub struct Cache {
    map: DashMap<Key, Value, Hasher>,
    count: AtomicUsize,
    most: usize,
}

impl CacheEngine for Cache {
    const NAME: &'static str = "dashmap";

    fn new(capacity: usize, bounded: bool) -> Self {
        Self {
            map: DashMap::with_capacity_and_hasher(capacity, Hasher::default()),
            count: AtomicUsize::new(0),
            most: if bounded { capacity } else { usize::MAX },
        }
    }

    #[inline]
    fn get(&self, _: usize, key: &Key) -> Option<Value> {
        self.map.get(key).map(|value| *value)
    }

    #[inline]
    fn insert(&self, _: usize, key: Key, value: Value) {
        if self.count.load(Relaxed) < self.most && self.map.insert(key, value).is_none() {
            self.count.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    fn refresh(&self, _: usize, key: Key, value: Value) {
        if let Some(mut place) = self.map.get_mut(&key) {
            *place = value;
        }
    }

    #[inline]
    fn remove(&self, _: usize, key: &Key) {
        if self.map.remove(key).is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
    }
}

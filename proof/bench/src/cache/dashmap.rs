//! dashmap, which refuses new keys when it is full.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{CacheEngine, Hasher, Key, Value};

/// `DashMap` with an entry count beside it, because its own `len` locks all shards.
pub struct Dashmap {
    map: dashmap::DashMap<Key, Value, Hasher>,
    count: AtomicUsize,
    most: usize,
}

impl CacheEngine for Dashmap {
    const NAME: &'static str = "dashmap";

    fn new(capacity: usize, bounded: bool) -> Self {
        Self {
            map: dashmap::DashMap::with_capacity_and_hasher(capacity, Hasher::default()),
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

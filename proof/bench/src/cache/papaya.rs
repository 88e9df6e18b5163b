//! papaya, which refuses new keys when it is full.

use super::{CacheEngine, Hasher, Key, Value};

/// `papaya::HashMap`, pinned for each operation.
pub struct Papaya {
    map: papaya::HashMap<Key, Value, Hasher>,
    most: usize,
}

impl CacheEngine for Papaya {
    const NAME: &'static str = "papaya";

    fn new(capacity: usize, bounded: bool) -> Self {
        Self {
            map: papaya::HashMap::with_capacity_and_hasher(capacity, Hasher::default()),
            most: if bounded { capacity } else { usize::MAX },
        }
    }

    #[inline]
    fn get(&self, _: usize, key: &Key) -> Option<Value> {
        self.map.pin().get(key).copied()
    }

    #[inline]
    fn insert(&self, _: usize, key: Key, value: Value) {
        if self.map.len() < self.most {
            self.map.pin().insert(key, value);
        }
    }

    #[inline]
    fn refresh(&self, _: usize, key: Key, value: Value) {
        self.map.pin().insert(key, value);
    }

    #[inline]
    fn remove(&self, _: usize, key: &Key) {
        self.map.pin().remove(key);
    }
}

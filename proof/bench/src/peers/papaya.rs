//! papaya: a hash table whose readers never lock.

use papaya::{Guard, HashMap, LocalGuard};

use crate::cache::{CacheEngine, Hasher, Key, Value};
use crate::concurrent::{ConcurrentEngine, Session};

type Table = HashMap<Box<[u8]>, u64, Hasher>;

/// `papaya::HashMap`. One guard covers a run of keys.
pub struct Papaya(Table);

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m Table,
    guard: LocalGuard<'m>,
}

impl ConcurrentEngine for Papaya {
    const NAME: &'static str = "papaya";

    fn new() -> Self {
        Self(HashMap::default())
    }

    fn session(&self) -> impl Session {
        Guarded {
            map: &self.0,
            guard: self.0.guard(),
        }
    }
}

impl Session for Guarded<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get(key, &self.guard).copied()
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map
            .insert(Box::from(key), value, &self.guard)
            .is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        // `update` needs an owned key, too.
        self.map.insert(Box::from(key), value, &self.guard).copied()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map.remove(key, &self.guard).copied()
    }

    fn pause(&mut self) {
        self.guard.refresh();
    }
}

/// `papaya::HashMap` as a cache, pinned for each operation. It refuses new keys when it is full.
pub struct Cache {
    map: HashMap<Key, Value, Hasher>,
    most: usize,
}

impl CacheEngine for Cache {
    const NAME: &'static str = "papaya";

    fn new(capacity: usize, bounded: bool) -> Self {
        Self {
            map: HashMap::with_capacity_and_hasher(capacity, Hasher::default()),
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

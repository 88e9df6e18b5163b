//! quick_cache.

use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::{CacheEngine, Hasher, Key, Value};

/// `quick_cache::sync::Cache`.
pub struct Quick(Cache<Key, Value, UnitWeighter, Hasher>);

impl CacheEngine for Quick {
    const NAME: &'static str = "quick_cache";

    fn new(capacity: usize, _: bool) -> Self {
        Self(Cache::with(
            capacity,
            capacity as u64,
            UnitWeighter,
            Hasher::default(),
            DefaultLifecycle::default(),
        ))
    }

    #[inline]
    fn get(&self, _: usize, key: &Key) -> Option<Value> {
        self.0.get(key)
    }

    #[inline]
    fn insert(&self, _: usize, key: Key, value: Value) {
        self.0.insert(key, value);
    }

    #[inline]
    fn remove(&self, _: usize, key: &Key) {
        self.0.remove(key);
    }
}

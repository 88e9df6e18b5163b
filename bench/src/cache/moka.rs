//! moka.

use moka::sync::Cache;

use super::{CacheEngine, Hasher, Key, Value};

/// `moka::sync::Cache`.
pub struct Moka(Cache<Key, Value, Hasher>);

impl CacheEngine for Moka {
    const NAME: &'static str = "moka";

    fn new(capacity: usize, _: bool) -> Self {
        let builder = Cache::builder().max_capacity(capacity as u64);
        Self(builder.build_with_hasher(Hasher::default()))
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
        self.0.invalidate(key);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

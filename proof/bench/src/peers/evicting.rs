//! Caches that evict entries by themselves: moka and quick_cache.

use quick_cache::UnitWeighter;
use quick_cache::sync::DefaultLifecycle;

use crate::cache::{CacheEngine, Hasher, Key, Value};

macro_rules! engines {
    ($(
        $(#[$doc:meta])*
        $engine:ident($cache:ty) = $name:literal, $new:expr, $remove:ident, $settle:expr;
    )*) => {$(
        $(#[$doc])*
        pub struct $engine($cache);

        impl CacheEngine for $engine {
            const NAME: &'static str = $name;

            fn new(capacity: usize, _: bool) -> Self {
                Self($new(capacity))
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
                self.0.$remove(key);
            }

            fn settle(&self) {
                $settle(&self.0);
            }
        }
    )*};
}

type QuickCache = quick_cache::sync::Cache<Key, Value, UnitWeighter, Hasher>;
type MokaCache = moka::sync::Cache<Key, Value, Hasher>;

engines! {
    /// `quick_cache::sync::Cache`.
    Quick(QuickCache) = "quick_cache", quick, remove, |_| ();
    /// `moka::sync::Cache`.
    Moka(MokaCache) = "moka", moka, invalidate, MokaCache::run_pending_tasks;
}

fn quick(capacity: usize) -> QuickCache {
    let (weight, life) = (capacity as u64, DefaultLifecycle::default());
    QuickCache::with(capacity, weight, UnitWeighter, Hasher::default(), life)
}

fn moka(capacity: usize) -> MokaCache {
    let builder = moka::sync::Cache::builder().max_capacity(capacity as u64);
    builder.build_with_hasher(Hasher::default())
}

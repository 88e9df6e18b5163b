//! Sapwood's route cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sapwood::route::RouteCache;

use super::{CacheEngine, Key, Value};

/// The time, which a switch reads once per burst of packets.
static CLOCK: AtomicU64 = AtomicU64::new(1);

#[inline]
fn now() -> u64 {
    CLOCK.load(Relaxed)
}

/// One cache for all threads.
pub struct Sapwood(RouteCache<Key, Value>);

impl CacheEngine for Sapwood {
    const NAME: &'static str = "sapwood";

    fn tick() {
        CLOCK.fetch_add(1, Relaxed);
    }

    fn new(capacity: usize, _: bool) -> Self {
        // The entries of the peers do not age, so these must not expire either.
        let hour = std::time::Duration::from_secs(3600);
        let cache = RouteCache::builder().capacity(capacity).threads(8);
        Self(cache.fresh(hour).build())
    }

    #[inline]
    fn get(&self, _: usize, key: &Key) -> Option<Value> {
        self.0.get(key, now())
    }

    #[inline]
    fn insert(&self, _: usize, key: Key, value: Value) {
        self.0.insert(&key, self.0.hash(&key), now(), value);
    }

    #[inline]
    fn remove(&self, _: usize, key: &Key) {
        self.0.invalidate(key);
    }
}

/// One cache for all threads, each of which looks up through a reader with a front of its own.
pub struct SapwoodFront(Sapwood);

impl CacheEngine for SapwoodFront {
    const NAME: &'static str = "sapwood-front";

    fn tick() {
        Sapwood::tick();
    }

    fn new(capacity: usize, bounded: bool) -> Self {
        Self(Sapwood::new(capacity, bounded))
    }

    #[inline]
    fn get(&self, thread: usize, key: &Key) -> Option<Value> {
        self.0.get(thread, key)
    }

    #[inline]
    fn reader(&self, _: usize) -> impl FnMut(&Key) -> Option<Value> {
        let Sapwood(cache) = &self.0;
        let mut reader = cache.reader();
        move |key| reader.get(key, now())
    }

    #[inline]
    fn insert(&self, thread: usize, key: Key, value: Value) {
        self.0.insert(thread, key, value);
    }

    #[inline]
    fn remove(&self, thread: usize, key: &Key) {
        self.0.remove(thread, key);
    }
}

/// One cache per thread, as a switch has one per port.
pub struct SapwoodApart([Sapwood; 2]);

impl CacheEngine for SapwoodApart {
    const NAME: &'static str = "sapwood-apart";
    const SEVERAL: bool = true;

    fn tick() {
        Sapwood::tick();
    }

    fn new(capacity: usize, bounded: bool) -> Self {
        Self([0, 1].map(|_| Sapwood::new(capacity, bounded)))
    }

    #[inline]
    fn get(&self, thread: usize, key: &Key) -> Option<Value> {
        self.0[thread].get(thread, key)
    }

    #[inline]
    fn insert(&self, thread: usize, key: Key, value: Value) {
        self.0[thread].insert(thread, key, value);
    }

    #[inline]
    fn remove(&self, thread: usize, key: &Key) {
        self.0[thread].remove(thread, key);
    }
}

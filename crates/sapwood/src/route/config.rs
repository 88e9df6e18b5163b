//! How a route cache is made.

use core::marker::PhantomData;
use core::time::Duration;

use super::{Plain, RouteCache};

/// Makes a [`RouteCache`]; from [`RouteCache::builder`].
///
/// ```
/// use std::time::Duration;
/// use sapwood::route::RouteCache;
///
/// let cache: RouteCache<(u128, u32), u64> = RouteCache::builder()
///     .capacity(1000)
///     .fresh(Duration::from_millis(50))
///     .negative_ttl(Duration::from_millis(5))
///     .build();
/// assert_eq!(cache.capacity(), 1000);
/// ```
#[derive(Clone, Debug)]
pub struct RouteCacheBuilder<K, V> {
    pub(super) capacity: usize,
    pub(super) fresh: u64,
    pub(super) keep: u64,
    pub(super) negative: Option<u64>,
    pub(super) seed: Option<u64>,
    pub(super) threads: usize,
    #[cfg(feature = "std")]
    pub(super) single_flight: bool,
    types: PhantomData<(K, V)>,
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().min(1 << 61) as u64
}

impl<K: Plain, V: Plain> RouteCacheBuilder<K, V> {
    pub(super) fn new() -> Self {
        #[cfg(feature = "std")]
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        #[cfg(not(feature = "std"))]
        let threads = 0;
        Self {
            capacity: 8192,
            fresh: 100_000_000,
            keep: 1_000_000_000,
            negative: None,
            seed: None,
            threads: threads.min(64),
            #[cfg(feature = "std")]
            single_flight: false,
            types: PhantomData,
        }
    }

    /// How many entries there can be: 8,192 unless said. Any number will do; with 0, every lookup
    /// is a miss.
    #[must_use]
    pub fn capacity(mut self, entries: usize) -> Self {
        self.capacity = entries;
        self
    }

    /// For how long an answer is given again: 100 ms unless said. Older entries are resolved again.
    #[must_use]
    pub fn fresh(mut self, time: Duration) -> Self {
        self.fresh = nanoseconds(time);
        self
    }

    /// For how long an entry may keep its slot without being resolved again: 1 s unless said, and
    /// never less than `fresh`. [`sweep`](RouteCache::sweep) removes older ones.
    #[must_use]
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = nanoseconds(time);
        self
    }

    /// Caches failures of the resolver for so long, which should be short. Without this, they are
    /// not cached.
    #[must_use]
    pub fn negative_ttl(mut self, time: Duration) -> Self {
        self.negative = Some(nanoseconds(time));
        self
    }

    /// The seed of the hash. Without this it is random; without `std` it is made of addresses, so
    /// that who has random numbers should give one.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// For how many threads there are counters of their own (128 bytes each): as many as there are
    /// processors unless said, up to 64. More threads can use the cache; they share counters, which
    /// costs them a few nanoseconds.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.min(256);
        self
    }

    /// Lets one thread at a time resolve a key; others who ask for it meanwhile wait for its
    /// answer. Different keys are resolved side by side, as many as there are. Off unless said.
    ///
    /// The only case in which a cache takes memory later: keys are divided among 64 locks by their
    /// hash, and when more than four keys of one lock are resolved at once, their list grows. A
    /// resolver must not ask the cache for its own key: it would wait for itself.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn single_flight(mut self, on: bool) -> Self {
        self.single_flight = on;
        self
    }

    /// The cache, with all of its memory.
    ///
    /// # Panics
    ///
    /// If there cannot be this many entries.
    pub fn build(mut self) -> RouteCache<K, V> {
        self.keep = self.keep.max(self.fresh);
        let seed = self.seed.unwrap_or_else(crate::seed::seed);
        RouteCache::with(&self, seed)
    }
}

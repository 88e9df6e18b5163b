//! The builder of route caches.

use core::marker::PhantomData;

use super::{CacheHooks, Choices, NoHooks, Plain, RouteCache};
use crate::Error;

/// A builder of a [`RouteCache`], from [`RouteCache::builder`].
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
pub struct RouteCacheBuilder<K, V, H = NoHooks> {
    pub(super) choices: Choices,
    pub(super) threads: usize,
    #[cfg(feature = "std")]
    pub(super) single_flight: bool,
    pub(super) hooks: H,
    inclusive: bool,
    types: PhantomData<(K, V)>,
}

impl<K: Plain, V: Plain> RouteCacheBuilder<K, V> {
    pub(super) fn new() -> Self {
        #[cfg(feature = "std")]
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        #[cfg(not(feature = "std"))]
        let threads = 0;
        Self {
            choices: Choices::default(),
            threads: threads.min(64),
            #[cfg(feature = "std")]
            single_flight: false,
            hooks: NoHooks,
            inclusive: false,
            types: PhantomData,
        }
    }
}

impl<K: Plain, V: Plain, H: CacheHooks<K, V>> RouteCacheBuilder<K, V, H> {
    crate::cache_choices!();

    /// The number of threads that have counters of their own, of 128 bytes each. Further threads
    /// share counters, which costs them a few nanoseconds. Default: the number of processors, at
    /// most 64.
    ///
    /// O(1).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.min(256);
        self
    }

    /// Lets one thread at a time resolve a key; other threads that ask for the key meanwhile wait
    /// for its answer, and take it, also if the cache has no room for it. Any number of different
    /// keys can be resolved at once. Default: off.
    ///
    /// Threads that wait for a resolver that fails, without a
    /// [`negative_ttl`](Self::negative_ttl), or that panics, resolve one after the other. An answer
    /// from before an invalidation or insertion of the key is taken by nobody.
    ///
    /// A resolver may ask this cache and others. Where it would wait for itself, for its own key or
    /// for a resolver that waits for this thread, it is answered by a call of its own resolver.
    /// This cannot be seen when a resolver waits for a thread by other means, such as a join.
    ///
    /// This is the only case in which a cache takes memory later: keys are divided among 64 locks
    /// by their hash, and when more than four keys of one lock are resolved at once, their list
    /// grows; so does the process's list of threads that wait, when more do than ever before.
    ///
    /// O(1).
    #[cfg(feature = "std")]
    #[must_use]
    pub fn single_flight(mut self, on: bool) -> Self {
        self.single_flight = on;
        self
    }

    /// Whether the limits belong to what they limit. By default an answer is returned while it is
    /// younger than `fresh`, and swept when it is as old as `keep`. With inclusive limits, an
    /// answer that is exactly as old as `fresh` is still returned, and one that is exactly as old
    /// as `keep` still has its slot; so it is for `negative_ttl`.
    ///
    /// O(1).
    #[must_use]
    pub fn inclusive(mut self, yes: bool) -> Self {
        self.inclusive = yes;
        self
    }

    /// The hooks that hear of the cache's events. Default: none.
    ///
    /// O(1).
    #[must_use]
    pub fn hooks<T: CacheHooks<K, V>>(self, hooks: T) -> RouteCacheBuilder<K, V, T> {
        RouteCacheBuilder {
            choices: self.choices,
            threads: self.threads,
            #[cfg(feature = "std")]
            single_flight: self.single_flight,
            hooks,
            inclusive: self.inclusive,
            types: PhantomData,
        }
    }

    /// The cache, with all of its memory.
    ///
    /// O(entries + threads), whose memory it takes at once.
    ///
    /// # Panics
    ///
    /// When there is no memory for this many entries; [`try_build`](Self::try_build) returns an
    /// error then.
    pub fn build(self) -> RouteCache<K, V, H> {
        let entries = self.choices.capacity;
        match self.try_build() {
            Ok(cache) => cache,
            Err(error) => panic!("a route cache of {entries} entries: {error}"),
        }
    }

    /// As [`build`](Self::build), but without memory this returns an error.
    ///
    /// ```
    /// use sapwood::route::RouteCache;
    /// let huge = RouteCache::<u32, u32>::builder().capacity(1 << 50);
    /// let error = huge.try_build().err().unwrap();
    /// assert!(error.to_string().starts_with("no address space: "), "{error}");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::ArenaFull`] when there is no memory for this many entries.
    pub fn try_build(mut self) -> Result<RouteCache<K, V, H>, Error> {
        self.choices = self.choices.settled();
        if self.inclusive {
            // Times are whole nanoseconds.
            let choices = &mut self.choices;
            choices.fresh += 1;
            choices.keep += 1;
            choices.negative = choices.negative.map(|time| time + 1);
        }
        Ok(RouteCache::with(self)?)
    }
}

//! The counters of a cache, and the last time that each thread gave.
//!
//! A hit should not write a word that other threads write. So each thread that has a number
//! (`thread`) below the count of shards has a shard of its own, and adds with a load and a store.
//! All other threads, and all threads without `std`, share the last shard and add with a
//! read-modify-write.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::raw::sync;
use crate::figures;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $variant:ident;)*) => {
        /// The counters of a [`RouteCache`](super::RouteCache) since it was made.
        ///
        /// While nobody uses the cache, `hit + miss` is the number of lookups, and
        /// `insert - evict - swept - invalidated` is `occupancy`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Slots that are taken now. The cache does not return entries from before
            /// [`invalidate_all`](super::RouteCache::invalidate_all), but they keep their slots
            /// until their set is written or swept.
            pub occupancy: usize,
            /// All slots.
            pub capacity: usize,
        }

        /// The events that are counted.
        #[derive(Clone, Copy)]
        pub(crate) enum Event { $($variant,)* }

        const EVENTS: usize = [$(Event::$variant,)*].len();

        impl fmt::Display for CacheStats {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (occupancy, capacity) = (self.occupancy as u64, self.capacity as u64);
                let slots = [("occupancy", occupancy), ("capacity", capacity)];
                figures::counts(f, &[$((stringify!($name), self.$name),)*])?;
                figures::counts(f, &slots)
            }
        }

        impl CacheStats {
            fn add(&mut self, shard: &Shard) {
                $(self.$name = self.$name.wrapping_add(shard.counts[Event::$variant as usize].load(Relaxed));)*
            }
        }
    };
}
counters! {
    /// Lookups that the cache answered, negative answers among them.
    hit Hit;
    /// Lookups that it did not answer.
    miss Miss;
    /// Entries that were written again in their slot.
    refresh Refresh;
    /// Entries that were inserted.
    insert Insert;
    /// Entries that were evicted for others.
    evict Evict;
    /// Entries that were evicted before they were older than `keep`: the cache is too small.
    full Full;
    /// Misses that found an entry which was too old; part of `miss`.
    stale Stale;
    /// Hits that found a cached failure; part of `hit`.
    negative Negative;
    /// Calls of resolvers that failed.
    error Error;
    /// Entries that `sweep` removed for their age.
    swept Swept;
    /// Entries that `invalidate` removed, and entries from before `invalidate_all` whose slots were
    /// needed or swept.
    invalidated Invalidated;
    /// Answers that were returned but not cached, because of an invalidation, an insertion or a
    /// newer answer meanwhile.
    overtaken Overtaken;
    /// Answers that were not cached because other writers held the set for too long.
    busy Busy;
    /// How often a thread's clock stepped back.
    clock_back ClockBack;
}

/// The counters of a thread. They take 128 bytes, as processors fetch cache lines in pairs.
#[repr(align(128))]
struct Shard {
    last: AtomicU64,
    counts: [AtomicU64; EVENTS],
}

const _: () = assert!(size_of::<Shard>() == 128);

/// All shards.
pub(crate) struct Counters {
    own: Box<[Shard]>,
    shared: Shard,
}

/// The shard that a thread counts in.
#[derive(Clone, Copy)]
pub(crate) struct Mine<'c> {
    shard: &'c Shard,
    pub alone: bool,
}

/// A shard that no other thread counts in now.
#[derive(Clone, Copy)]
pub(crate) struct Own<'c>(&'c Shard);

impl<'c> Own<'c> {
    #[inline(always)]
    pub(super) fn mine(self) -> Mine<'c> {
        Mine {
            shard: self.0,
            alone: true,
        }
    }

    /// The hits of this thread, and of threads that had its shard before.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(super) fn hits(self) -> u64 {
        self.0.counts[Event::Hit as usize].load(Relaxed)
    }
}

impl Counters {
    /// Shards for threads with numbers below `threads`, and one for all others.
    pub(super) fn new(threads: usize) -> Self {
        let shard = || Shard {
            last: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; EVENTS],
        };
        Self {
            own: (0..threads).map(|_| shard()).collect(),
            shared: shard(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.own)
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.own.iter().chain([&self.shared])
    }

    /// The calling thread's shard.
    #[inline(always)]
    pub(super) fn mine(&self) -> Mine<'_> {
        #[cfg(feature = "std")]
        if let Some(shard) = super::thread::number(|number| self.own.get(number)) {
            return Mine { shard, alone: true };
        }
        Mine {
            shard: &self.shared,
            alone: false,
        }
    }

    /// The calling thread's shard, if it has one of its own and has used it before.
    #[inline(always)]
    pub(super) fn own(&self) -> Option<Own<'_>> {
        #[cfg(feature = "std")]
        return self.own.get(super::thread::known()).map(Own);
        #[cfg(not(feature = "std"))]
        None
    }

    /// The sums.
    pub(super) fn sum(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        for shard in self.shards() {
            stats.add(shard);
        }
        stats
    }

    /// The latest time that any thread gave.
    fn latest(&self) -> u64 {
        let times = self.shards().map(|shard| shard.last.load(Relaxed));
        times.max().unwrap_or(0)
    }
}

impl Mine<'_> {
    #[inline(always)]
    pub(super) fn count(self, event: Event) {
        self.add(event, 1);
    }

    #[inline(always)]
    pub(super) fn add(self, event: Event, n: usize) {
        let count = &self.shard.counts[event as usize];
        if self.alone {
            count.store(count.load(Relaxed).wrapping_add(n as u64), Relaxed);
        } else {
            sync::point();
            count.fetch_add(n as u64, Relaxed);
        }
    }

    /// Notes the time. If the clock stepped back, returns by how much all entries age. That is at
    /// least `life`, so that no entry is fresh any more: nobody knows how long the clock had run
    /// before the step.
    #[inline(always)]
    pub(super) fn note(self, now: u64, all: &Counters, life: u64) -> u64 {
        if self.runs_on(now) {
            return 0;
        }
        let last = self.shard.last.load(Relaxed);
        self.note_slowly(now, last, all, life)
    }

    /// Notes the time in the usual case: the clock stands still, or a thread with a shard of its
    /// own sees it advance.
    #[inline(always)]
    pub(super) fn runs_on(self, now: u64) -> bool {
        let last = self.shard.last.load(Relaxed);
        if now == last {
            return true;
        }
        let advances = now > last && last != 0 && self.alone;
        if advances {
            self.shard.last.store(now, Relaxed);
        }
        advances
    }

    #[cold]
    #[inline(never)]
    fn note_slowly(self, now: u64, last: u64, all: &Counters, life: u64) -> u64 {
        if now > last && last != 0 {
            self.shard.last.fetch_max(now, Relaxed);
            return 0;
        }
        let behind = all.latest().saturating_sub(now);
        if self.alone {
            self.shard.last.store(now, Relaxed);
            // A thread that is new here may have read the clock shortly before others did.
            return if last != 0 || behind >= life {
                behind.saturating_add(life)
            } else {
                0
            };
        }
        // Threads that share a shard come in any order. One of those that see a step reports it.
        let exchanged = self
            .shard
            .last
            .compare_exchange(last, now, Relaxed, Relaxed);
        match exchanged {
            Err(_) => 0,
            Ok(_) if behind < life => last.saturating_sub(now),
            Ok(_) => behind.saturating_add(life),
        }
    }
}

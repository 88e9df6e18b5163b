//! The choices of all route caches: those of this process, and those that BPF programs fill.

use core::time::Duration;

use crate::hash::Secrets;

/// What the builder of every route cache chooses.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The most entries.
    pub capacity: usize,
    /// Nanoseconds for which lookups return an answer.
    pub fresh: u64,
    /// Nanoseconds for which an entry may keep its slot.
    pub keep: u64,
    /// Nanoseconds for which lookups return a failure.
    pub negative: Option<u64>,
    /// The seed of the hash.
    pub seed: Option<u64>,
}

/// The longest time that entries are compared with: times are nanoseconds modulo 2^63, and an entry
/// may be as much ahead as behind.
const LONGEST: Duration = Duration::from_nanos(1 << 61);

impl Choices {
    /// The nanoseconds of a time, or of the longest one.
    pub fn nanoseconds(time: Duration) -> u64 {
        time.min(LONGEST).as_nanos() as u64
    }

    /// The choices with what follows from others: an entry is kept at least as long as it is fresh.
    pub fn settled(mut self) -> Choices {
        self.keep = self.keep.max(self.fresh);
        self
    }

    /// The secrets of the hash, from the seed or at random.
    pub fn secrets(&self) -> Secrets {
        Secrets::new(self.seed.unwrap_or_else(crate::seed::seed))
    }
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            capacity: 8192,
            fresh: 100_000_000,
            keep: 1_000_000_000,
            negative: None,
            seed: None,
        }
    }
}

/// The methods by which a builder with the field `choices` sets them.
#[doc(hidden)]
#[macro_export]
macro_rules! cache_choices {
    () => {
        /// The most entries. Default: 8,192. With 0, every lookup is a miss.
        ///
        /// O(1).
        #[must_use]
        pub fn capacity(mut self, entries: usize) -> Self {
            self.choices.capacity = entries;
            self
        }

        /// For how long the cache returns an answer. Older entries are resolved again. Default: 100
        /// ms. At most 2^61 nanoseconds, which are 73 years: a longer time counts as that, here and
        /// in [`keep`](Self::keep) and [`negative_ttl`](Self::negative_ttl).
        ///
        /// O(1).
        #[must_use]
        pub fn fresh(mut self, time: core::time::Duration) -> Self {
            self.choices.fresh = $crate::Choices::nanoseconds(time);
            self
        }

        /// For how long an entry may keep its slot without being resolved again, at least `fresh`.
        /// A sweep removes older entries. Default: 1 s.
        ///
        /// O(1).
        #[must_use]
        pub fn keep(mut self, time: core::time::Duration) -> Self {
            self.choices.keep = $crate::Choices::nanoseconds(time);
            self
        }

        /// For how long the cache remembers that the resolver failed; the time should be short. By
        /// default it does not remember failures.
        ///
        /// O(1).
        #[must_use]
        pub fn negative_ttl(mut self, time: core::time::Duration) -> Self {
            self.choices.negative = Some($crate::Choices::nanoseconds(time));
            self
        }

        /// The hash seed. By default it is random. Without `std` it is made of addresses, so
        /// callers that have random numbers should give one.
        ///
        /// O(1).
        #[must_use]
        pub fn seed(mut self, seed: u64) -> Self {
            self.choices.seed = Some(seed);
            self
        }
    };
}

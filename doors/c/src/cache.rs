//! `sapwood_cache`: answers of a slow resolver, kept for a short time in fixed memory.

use std::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

use sapwood::route::{Lookup, Plain, RouteCache, Unresolved};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{self, extensible};
use crate::output::{as_int, hand_out, put_extensible, verified};

/// The longest key.
const LONGEST: usize = 31;

/// A key of up to 31 bytes, with its length in the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; 4]);

impl Plain for Key {
    type Words = [u64; 4];

    #[inline(always)]
    fn to_words(self) -> [u64; 4] {
        self.0
    }

    #[inline(always)]
    fn from_words(words: [u64; 4]) -> Self {
        Key(words)
    }
}

impl Key {
    /// # Safety
    /// `at` is NULL, or it points to `len` bytes.
    #[inline(always)]
    unsafe fn new(at: *const c_void, len: usize) -> Outcome<Self> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { input::bytes(at, len, "the key") }?;
        let mut all = [0; LONGEST + 1];
        match all.get_mut(..len) {
            Some(room) if len <= LONGEST => room.copy_from_slice(bytes),
            _ => return Err(too_long(len)),
        }
        all[LONGEST] = len as u8;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(all.chunks_exact(8)) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        Ok(Key(words))
    }
}

#[cold]
fn too_long(len: usize) -> Failure {
    Failure::new(
        libc::E2BIG,
        format!("a key of a cache has at most {LONGEST} bytes, and this one has {len}"),
    )
}

/// The inside of a cache's handle.
#[derive(Debug)]
pub struct CacheBody {
    cache: RouteCache<Key, u64>,
}

impl Body for CacheBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swCa");
    const NAME: &'static str = "cache";
}

extensible!(sapwood_cache_options);

extensible!(sapwood_cache_stats);

c_api!(
    /// A cache of a slow resolver's answers, such as next hops, in memory that is all taken at the
    /// beginning. Keys have at most 31 bytes (-E2BIG), values are numbers. The caller gives the
    /// time in nanoseconds of a monotonic clock. Readers take no lock, and need no sapwood_reader.
    pub type sapwood_cache = Handle<CacheBody>;

    /// caches: one thread at a time resolves a key, others wait
    pub const SAPWOOD_SINGLE_FLIGHT: c_uint = 4;

    #[derive(Debug)]
    pub struct sapwood_cache_options {
        /// sizeof(struct sapwood_cache_options)
        pub size: usize,
        /// SAPWOOD_CHECKED, SAPWOOD_SINGLE_FLIGHT
        pub flags: c_uint,
        /// with counters of their own; 0: as many as processors
        pub threads: c_uint,
        /// the most entries; 0: 8,192
        pub capacity: usize,
        /// for how long an answer is returned; 0: 100 ms; 2^61 at most
        pub fresh_ns: u64,
        /// after which a sweep removes it; 0: 1 s
        pub keep_ns: u64,
        /// for how long a failure is remembered; 0: it is not
        pub negative_ns: u64,
    }

    /// Makes a cache with all of its memory.
    fn sapwood_cache_new(
        options: *const sapwood_cache_options,
        out: *mut *mut sapwood_cache,
    ) -> c_int {
        let out = input::place(out, "out")?;
        let options: sapwood_cache_options = input::given(options)?;
        known_flags(options.flags, SAPWOOD_CHECKED | SAPWOOD_SINGLE_FLIGHT)?;
        let mut builder = RouteCache::builder();
        // An entry has five words and a half; more than this is no address space.
        if options.capacity > 1 << 40 {
            return Err(Failure::new(
                libc::ENOMEM,
                format!("there is no memory for {} entries", options.capacity),
            ));
        }
        if options.capacity > 0 {
            builder = builder.capacity(options.capacity);
        }
        if options.threads > 0 {
            builder = builder.threads(options.threads as usize);
        }
        if options.fresh_ns > 0 {
            builder = builder.fresh(Duration::from_nanos(options.fresh_ns));
        }
        if options.keep_ns > 0 {
            builder = builder.keep(Duration::from_nanos(options.keep_ns));
        }
        if options.negative_ns > 0 {
            builder = builder.negative_ttl(Duration::from_nanos(options.negative_ns));
        }
        let cache = builder
            .single_flight(options.flags & SAPWOOD_SINGLE_FLIGHT != 0)
            .build();
        let checked = options.flags & SAPWOOD_CHECKED != 0;
        hand_out(out, CacheBody { cache }, checked)
    }

    /// Frees a cache. One thread at a time.
    fn sapwood_cache_free(cache: *mut sapwood_cache) {
        free(cache)
    }

    /// Stores the fresh value of a key. -ENOENT: there is none. -ENODATA: the resolver failed less
    /// than negative_ns ago. O(1).
    fn sapwood_cache_get(
        cache: *const sapwood_cache,
        key: *const c_void,
        key_len: usize,
        now_ns: u64,
        value: *mut u64,
    ) -> c_int {
        let cache = &Handle::shared(cache)?.cache;
        let key = Key::new(key, key_len)?;
        let value = input::place(value, "the place for the value")?;
        match cache.lookup(&key, cache.hash(&key), now_ns) {
            Lookup::Value(found) => *value = found,
            Lookup::Negative => return Ok(-libc::ENODATA),
            Lookup::Absent => return Ok(-libc::ENOENT),
        }
        Ok(0)
    }

    /// Stores a value of the time now_ns. Resolvers that run now do not replace it. O(1).
    fn sapwood_cache_put(
        cache: *const sapwood_cache,
        key: *const c_void,
        key_len: usize,
        now_ns: u64,
        value: u64,
    ) -> c_int {
        let cache = &Handle::shared(cache)?.cache;
        let key = Key::new(key, key_len)?;
        cache.insert(&key, cache.hash(&key), now_ns, value);
        Ok(0)
    }

    /// Finds the value of a key: stores it in *value and returns 0, or returns -errno.
    pub type sapwood_resolve_fn = Option<
        unsafe extern "C" fn(
            key: *const c_void,
            key_len: usize,
            value: *mut u64,
            ctx: *mut c_void,
        ) -> c_int,
    >;

    /// Stores the fresh value of a key or else the resolver's, which goes into the cache. now_ns is
    /// read before the call. No lock is held while the resolver runs, except that with
    /// SAPWOOD_SINGLE_FLIGHT others who ask for its key wait. Returns what the resolver returned
    /// when it failed, or -ENODATA as sapwood_cache_get.
    fn sapwood_cache_resolve(
        cache: *const sapwood_cache,
        key: *const c_void,
        key_len: usize,
        now_ns: u64,
        resolve: sapwood_resolve_fn,
        ctx: *mut c_void,
        value: *mut u64,
    ) -> c_int {
        let cache = &Handle::shared(cache)?.cache;
        let words = Key::new(key, key_len)?;
        let value = input::place(value, "the place for the value")?;
        let resolve = resolve.ok_or_else(|| Failure::null("the resolver"))?;
        let ask = |_: &Key| {
            let mut found = 0;
            // C gave both for this.
            match resolve(key, key_len, &raw mut found, ctx) {
                0 => Ok(found),
                failed => Err(failed),
            }
        };
        match cache.get_or_resolve(&words, cache.hash(&words), now_ns, ask) {
            Ok(found) => *value = found,
            Err(Unresolved::Negative) => return Ok(-libc::ENODATA),
            Err(Unresolved::Error(failed)) if failed < 0 => return Ok(failed),
            Err(Unresolved::Error(failed)) => {
                return Err(Failure::invalid(format!(
                    "the resolver returned {failed}; it may return 0 or -errno"
                )));
            }
        }
        Ok(0)
    }

    /// Removes a key. -ENOENT: it was not there. Resolvers that run for it do not store their
    /// answers.
    fn sapwood_cache_invalidate(
        cache: *const sapwood_cache,
        key: *const c_void,
        key_len: usize,
    ) -> c_int {
        let cache = &Handle::shared(cache)?.cache;
        let key = Key::new(key, key_len)?;
        Ok(if cache.invalidate(&key) {
            0
        } else {
            -libc::ENOENT
        })
    }

    /// Removes everything. O(1).
    fn sapwood_cache_invalidate_all(cache: *const sapwood_cache) -> c_int {
        Handle::shared(cache)?.cache.invalidate_all();
        Ok(0)
    }

    /// Removes entries older than keep_ns, of about `budget` slots; returns how many it removed.
    fn sapwood_cache_sweep(cache: *const sapwood_cache, now_ns: u64, budget: usize) -> c_int {
        let removed = Handle::shared(cache)?.cache.sweep(now_ns, budget);
        Ok(as_int(removed))
    }

    /// Counters since the cache was made. They are exact while nobody uses the cache.
    #[derive(Debug)]
    pub struct sapwood_cache_stats {
        /// sizeof(struct sapwood_cache_stats)
        pub size: usize,
        /// slots that are taken now
        pub occupancy: usize,
        /// all slots
        pub capacity: usize,
        /// that the cache took when it was made
        pub bytes: usize,
        /// lookups that it answered, failures that it remembers among them
        pub hit: u64,
        /// lookups that it did not answer
        pub miss: u64,
        /// entries written again in their slot
        pub refresh: u64,
        /// entries inserted
        pub insert: u64,
        /// entries evicted for others
        pub evict: u64,
        /// of these, younger than keep_ns: the cache is too small
        pub full: u64,
        /// misses that found an entry which was too old
        pub stale: u64,
        /// hits that found a failure
        pub negative: u64,
        /// resolvers that failed
        pub error: u64,
        /// entries that a sweep removed for their age
        pub swept: u64,
        /// entries that were invalidated
        pub invalidated: u64,
        /// answers that were returned but not stored
        pub overtaken: u64,
        /// answers that were not stored because others wrote
        pub busy: u64,
        /// how often a thread's clock stepped back
        pub clock_back: u64,
    }

    /// Stores the counters; the caller has set stats->size. O(slots).
    fn sapwood_cache_stats_get(
        cache: *const sapwood_cache,
        stats: *mut sapwood_cache_stats,
    ) -> c_int {
        let cache = &Handle::shared(cache)?.cache;
        let counted = cache.stats();
        let all = sapwood_cache_stats {
            size: size_of::<sapwood_cache_stats>(),
            occupancy: counted.occupancy,
            capacity: counted.capacity,
            bytes: cache.memory(),
            hit: counted.hit,
            miss: counted.miss,
            refresh: counted.refresh,
            insert: counted.insert,
            evict: counted.evict,
            full: counted.full,
            stale: counted.stale,
            negative: counted.negative,
            error: counted.error,
            swept: counted.swept,
            invalidated: counted.invalidated,
            overtaken: counted.overtaken,
            busy: counted.busy,
            clock_back: counted.clock_back,
        };
        put_extensible(stats, "the place for the counters", &all)
    }

    /// Checks the invariants while nobody uses the cache, for tests. -EUCLEAN: one does not hold.
    fn sapwood_cache_verify(cache: *const sapwood_cache) -> c_int {
        verified(Handle::shared(cache)?.cache.verify())
    }
);

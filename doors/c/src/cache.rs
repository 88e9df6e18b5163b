//! `sapwood_cache`: answers of a slow resolver, kept for a short time in fixed memory.

use std::ffi::{c_int, c_uint, c_void};
use std::time::Duration;

use sapwood::route::{Lookup, Plain, RouteCache, Unresolved};

use crate::call::{call, call_void};
use crate::domain::{CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, free};
use crate::input::{self, Extensible};

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

/// C's `sapwood_cache`.
pub type sapwood_cache = Handle<CacheBody>;

/// The flag of a cache that lets one thread at a time resolve a key.
const SINGLE_FLIGHT: c_uint = 4;

/// The choices for a cache.
#[repr(C)]
#[derive(Debug, Default)]
pub struct sapwood_cache_options {
    /// `sizeof` this structure.
    pub size: usize,
    /// `SAPWOOD_CHECKED`, `SAPWOOD_SINGLE_FLIGHT`.
    pub flags: c_uint,
    /// Threads with counters of their own; 0: as many as processors.
    pub threads: c_uint,
    /// The most entries; 0: 8,192.
    pub capacity: usize,
    /// Nanoseconds for which an answer is returned; 0: 100 ms.
    pub fresh_ns: u64,
    /// Nanoseconds after which a sweep removes an entry; 0: 1 s.
    pub keep_ns: u64,
    /// Nanoseconds for which a failure is remembered; 0: not at all.
    pub negative_ns: u64,
}

// SAFETY: integers, of which the first is the size.
unsafe impl Extensible for sapwood_cache_options {
    const NAME: &'static str = "sapwood_cache_options";
}

/// Makes a cache.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_new(
    options: *const sapwood_cache_options,
    out: *mut *mut sapwood_cache,
) -> c_int {
    call("sapwood_cache_new", || {
        let out = input::place(out, "out")?;
        // SAFETY: C.
        let options: sapwood_cache_options = unsafe { input::extensible(options) }?;
        known_flags(options.flags, CHECKED | SINGLE_FLIGHT)?;
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
            .single_flight(options.flags & SINGLE_FLIGHT != 0)
            .build();
        let checked = options.flags & CHECKED != 0;
        // SAFETY: C.
        unsafe { *out = Handle::into_c(CacheBody { cache }, checked) };
        Ok(0)
    })
}

/// Frees a cache.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_free(cache: *mut sapwood_cache) {
    // SAFETY: C.
    call_void("sapwood_cache_free", || unsafe { free(cache) });
}

/// The fresh value of a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_get(
    cache: *const sapwood_cache,
    key: *const c_void,
    key_len: usize,
    now_ns: u64,
    value: *mut u64,
) -> c_int {
    call("sapwood_cache_get", || {
        // SAFETY: C.
        let cache = &unsafe { Handle::shared(cache) }?.cache;
        // SAFETY: C.
        let key = unsafe { Key::new(key, key_len) }?;
        let value = input::place(value, "the place for the value")?;
        match cache.lookup(&key, cache.hash(&key), now_ns) {
            // SAFETY: C.
            Lookup::Value(found) => unsafe { *value = found },
            Lookup::Negative => return Ok(-libc::ENODATA),
            Lookup::Absent => return Ok(-libc::ENOENT),
        }
        Ok(0)
    })
}

/// Stores a value.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_put(
    cache: *const sapwood_cache,
    key: *const c_void,
    key_len: usize,
    now_ns: u64,
    value: u64,
) -> c_int {
    call("sapwood_cache_put", || {
        // SAFETY: C.
        let cache = &unsafe { Handle::shared(cache) }?.cache;
        // SAFETY: C.
        let key = unsafe { Key::new(key, key_len) }?;
        cache.insert(&key, cache.hash(&key), now_ns, value);
        Ok(0)
    })
}

/// The value of a key: the fresh one, or else the resolver's.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_resolve(
    cache: *const sapwood_cache,
    key: *const c_void,
    key_len: usize,
    now_ns: u64,
    resolve: Option<
        unsafe extern "C" fn(
            key: *const c_void,
            key_len: usize,
            value: *mut u64,
            ctx: *mut c_void,
        ) -> c_int,
    >,
    ctx: *mut c_void,
    value: *mut u64,
) -> c_int {
    call("sapwood_cache_resolve", || {
        // SAFETY: C.
        let cache = &unsafe { Handle::shared(cache) }?.cache;
        // SAFETY: C.
        let words = unsafe { Key::new(key, key_len) }?;
        let value = input::place(value, "the place for the value")?;
        let resolve = resolve.ok_or_else(|| Failure::null("the resolver"))?;
        let ask = |_: &Key| {
            let mut found = 0;
            // SAFETY: C gave both for this.
            match unsafe { resolve(key, key_len, &raw mut found, ctx) } {
                0 => Ok(found),
                failed => Err(failed),
            }
        };
        match cache.get_or_resolve(&words, cache.hash(&words), now_ns, ask) {
            // SAFETY: C.
            Ok(found) => unsafe { *value = found },
            Err(Unresolved::Negative) => return Ok(-libc::ENODATA),
            Err(Unresolved::Error(failed)) if failed < 0 => return Ok(failed),
            Err(Unresolved::Error(failed)) => {
                return Err(Failure::invalid(format!(
                    "the resolver returned {failed}; it may return 0 or -errno"
                )));
            }
        }
        Ok(0)
    })
}

/// Removes a key.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_invalidate(
    cache: *const sapwood_cache,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    call("sapwood_cache_invalidate", || {
        // SAFETY: C.
        let cache = &unsafe { Handle::shared(cache) }?.cache;
        // SAFETY: C.
        let key = unsafe { Key::new(key, key_len) }?;
        Ok(if cache.invalidate(&key) {
            0
        } else {
            -libc::ENOENT
        })
    })
}

/// Removes everything.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_invalidate_all(cache: *const sapwood_cache) -> c_int {
    call("sapwood_cache_invalidate_all", || {
        // SAFETY: C.
        unsafe { Handle::shared(cache) }?.cache.invalidate_all();
        Ok(0)
    })
}

/// Removes old entries; returns how many.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_sweep(
    cache: *const sapwood_cache,
    now_ns: u64,
    budget: usize,
) -> c_int {
    call("sapwood_cache_sweep", || {
        // SAFETY: C.
        let removed = unsafe { Handle::shared(cache) }?
            .cache
            .sweep(now_ns, budget);
        Ok(c_int::try_from(removed).unwrap_or(c_int::MAX))
    })
}

/// The counters of a cache.
#[repr(C)]
#[derive(Debug, Default)]
pub struct sapwood_cache_stats {
    /// `sizeof` this structure.
    pub size: usize,
    /// Slots that are taken now.
    pub occupancy: usize,
    /// All slots.
    pub capacity: usize,
    /// The bytes that the cache took when it was made.
    pub bytes: usize,
    /// Lookups that the cache answered.
    pub hit: u64,
    /// Lookups that it did not answer.
    pub miss: u64,
    /// Entries that were written again in their slot.
    pub refresh: u64,
    /// Entries that were inserted.
    pub insert: u64,
    /// Entries that were evicted for others.
    pub evict: u64,
    /// Entries that were evicted before they were older than `keep_ns`.
    pub full: u64,
    /// Misses that found an entry which was too old.
    pub stale: u64,
    /// Hits that found a remembered failure.
    pub negative: u64,
    /// Calls of resolvers that failed.
    pub error: u64,
    /// Entries that a sweep removed for their age.
    pub swept: u64,
    /// Entries that were invalidated.
    pub invalidated: u64,
    /// Answers that were returned but not stored.
    pub overtaken: u64,
    /// Answers that were not stored because others wrote.
    pub busy: u64,
    /// How often a thread's clock stepped back.
    pub clock_back: u64,
}

/// Stores the counters.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_stats_get(
    cache: *const sapwood_cache,
    stats: *mut sapwood_cache_stats,
) -> c_int {
    call("sapwood_cache_stats_get", || {
        // SAFETY: C.
        let cache = &unsafe { Handle::shared(cache) }?.cache;
        let to = input::place(stats, "the place for the counters")?;
        // SAFETY: C; the first field is a `usize`.
        let size = unsafe { (*to).size };
        if size < size_of::<usize>() || size > 4096 {
            return Err(Failure::invalid(format!(
                "the field size of sapwood_cache_stats is {size}; set it to sizeof(sapwood_cache_stats)"
            )));
        }
        let counted = cache.stats();
        let all = sapwood_cache_stats {
            size,
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
        let copied = size.min(size_of::<sapwood_cache_stats>());
        // SAFETY: C. The caller has room for `size` bytes, and the structure has no padding.
        unsafe {
            to.cast::<u8>()
                .copy_from_nonoverlapping((&raw const all).cast(), copied);
        }
        Ok(0)
    })
}

/// Checks the cache's invariants.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_cache_verify(cache: *const sapwood_cache) -> c_int {
    call("sapwood_cache_verify", || {
        // SAFETY: C.
        match unsafe { Handle::shared(cache) }?.cache.verify() {
            Ok(()) => Ok(0),
            Err(wrong) => Err(Failure::new(libc::EUCLEAN, wrong)),
        }
    })
}

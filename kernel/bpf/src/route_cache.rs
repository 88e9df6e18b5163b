//! The route cache that programs fill and read. User space makes it, reads it, and has programs
//! sweep it.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sapwood::route::{CacheStats, Choices, Lookup};
use sapwood_arena::Arena;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::arena::{BpfArena, WindowInfo};
use crate::error::Error;
use crate::layout::Kind;
use crate::layout::route::{COUNTERS, COUNTERS_BYTES, EVENTS, GENERATION, SLOTS};
use crate::loader::{Loader, Programs};
use crate::own_window::OwnWindow;

mod entry;
mod set;
mod shape;

pub use entry::{NextHop, RouteEntry, RouteKey, RouteValue};
use set::Set;
use shape::Shape;

/// The object with the program that sweeps and invalidates.
const WORKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/route-cache.bpf.o"));

/// Slots that one run of the program examines, which takes some tens of microseconds.
const SLICE: usize = 4096;

/// The layout hash of a route cache.
const LAYOUT: u64 = u64::from_le_bytes(*b"route  1");

/// A cache of next hops (or of anything) that BPF programs fill and read: `sapwood/route.bpf.h`.
///
/// Programs write the cache, under a lock for each set. This process reads it, and runs programs
/// that sweep it and remove keys. So no set stays locked when a process is killed at any point. The
/// cache takes all of its memory when it is made.
///
/// A lookup returns an answer while it is younger than `fresh` (100 ms). [`sweep`](Self::sweep)
/// removes answers that are older than `keep` (1 s), and a new answer may evict another one
/// earlier. Times are those of the kernel's monotonic clock, which [`now`](Self::now) reads.
///
/// Handles of other processes ([`open`](Self::open)) have all methods of the maker's handle.
/// Whatever bytes the window holds, no method reads outside of it or runs without end.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, ProgramRouteCache};
/// let arena = BpfArena::create(64 << 20)?;
/// let flows = ProgramRouteCache::builder(&arena, "flows").capacity(65_536).build()?;
/// println!("programs name it {}", flows.window().number);
/// flows.sweep(ProgramRouteCache::now(), flows.capacity())?;
/// flows.invalidate_all();
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct ProgramRouteCache {
    arena: BpfArena,
    window: WindowInfo,
    shape: Shape,
    /// Only in the maker's handle, whose drop closes the window.
    made: Option<(OwnWindow, Arena)>,
    /// The worker program, which is loaded at its first use. The lock admits one order at a time.
    worker: Mutex<Option<Programs>>,
}

/// Builds a [`ProgramRouteCache`].
pub struct ProgramRouteCacheBuilder {
    arena: BpfArena,
    name: String,
    choices: Choices,
}

/// An order to the worker program: `struct sw_route_order`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Order {
    what: u32,
    window: u32,
    now: u64,
    budget: u64,
    result: i64,
    key: RouteKey,
}

const SWEEP: u32 = 0;
const INVALIDATE: u32 = 1;

impl ProgramRouteCacheBuilder {
    sapwood::route::cache_choices!();

    /// Makes the cache, takes all of its memory, and publishes it to programs.
    ///
    /// # Errors
    /// [`Error::NoRoom`], [`Error::Name`], [`Error::TooManyWindows`], [`Error::NoMemory`].
    pub fn build(self) -> Result<ProgramRouteCache, Error> {
        let processors = libbpf_rs::num_possible_cpus()
            .map_err(|error| Error::system("counting processors", error))?;
        let choices = self.choices.settled();
        let no_room = || Error::NoRoom {
            name: self.name.clone(),
            bytes: choices.capacity.saturating_mul(64),
            left: self.arena.bytes_left(),
        };
        let shape = Shape {
            fresh: choices.fresh,
            keep: choices.keep,
            negative: choices.negative,
            secrets: choices.secrets().words(),
            ..Shape::new(choices.capacity, processors).ok_or_else(no_room)?
        };
        let bytes = shape.bytes();
        let (header, mut window) = self.arena.make_window(&self.name, bytes, LAYOUT)?;
        let memory = self.arena.memory();
        // Programs' stores to pages without memory would be lost.
        if !memory.populate(window.at, window.at + bytes) {
            return Err(Error::NoMemory { bytes });
        }
        shape.write(memory, window.at);
        window.open(Kind::Route);
        Ok(ProgramRouteCache {
            window: window.clone(),
            arena: self.arena,
            shape,
            made: Some((window, header)),
            worker: Mutex::default(),
        })
    }
}

impl ProgramRouteCache {
    /// A builder of a cache with this name in the arena.
    pub fn builder(arena: &BpfArena, name: &str) -> ProgramRouteCacheBuilder {
        ProgramRouteCacheBuilder {
            arena: arena.clone(),
            name: name.to_owned(),
            choices: Choices::default(),
        }
    }

    /// Opens the cache of this name, which any process may have made in the arena.
    ///
    /// # Errors
    /// [`Error::NoWindow`]; [`Error::Damaged`] when the window breaks the format.
    pub fn open(arena: &BpfArena, name: &str) -> Result<ProgramRouteCache, Error> {
        let window = arena.window(name, Kind::Route)?;
        let shape = Shape::read(arena.memory(), window.at, window.len)?;
        Ok(ProgramRouteCache {
            arena: arena.clone(),
            window,
            shape,
            made: None,
            worker: Mutex::default(),
        })
    }

    /// Turns this into a handle as of [`open`](Self::open), whose drop leaves the cache to programs
    /// and other processes.
    #[must_use]
    pub fn leave(mut self) -> Self {
        if let Some((mut window, _)) = self.made.take() {
            window.leave();
        }
        self
    }

    /// The time of the kernel's monotonic clock, in nanoseconds. Programs read it with
    /// `bpf_ktime_get_ns`.
    pub fn now() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// The cache's window. Programs refer to the cache by the window's number.
    pub fn window(&self) -> &WindowInfo {
        &self.window
    }

    /// The arena that holds the cache.
    pub fn arena(&self) -> &BpfArena {
        &self.arena
    }

    /// The number of slots.
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// How long lookups return an answer.
    pub fn fresh(&self) -> Duration {
        Duration::from_nanos(self.shape.fresh)
    }

    /// How long an entry may keep its slot.
    pub fn keep(&self) -> Duration {
        Duration::from_nanos(self.shape.keep)
    }

    /// How long lookups return a failure; `None` when failures are not kept.
    pub fn negative_ttl(&self) -> Option<Duration> {
        self.shape.negative.map(Duration::from_nanos)
    }

    /// The bytes of the cache, which it has taken since it was made.
    pub fn memory(&self) -> usize {
        self.shape.bytes()
    }

    /// The hash of a key, as programs compute it. The upper 32 bits choose the set.
    pub fn hash(&self, key: &RouteKey) -> u64 {
        self.shape.hash(key.words())
    }

    fn sets(&self) -> impl Iterator<Item = Set<'_>> + use<'_> {
        (0..self.shape.sets).map(|index| self.set(index))
    }

    fn set(&self, index: usize) -> Set<'_> {
        Set::new(self.arena.memory(), self.window.at, &self.shape, index)
    }

    fn generation(&self) -> u64 {
        let word = self.arena.memory().u64(self.window.at + GENERATION);
        word.load(Acquire)
    }

    /// The answer that programs would get for a key at `now`. This counts nothing, and does not
    /// mark the entry as hit.
    pub fn lookup(&self, key: &RouteKey, now: u64) -> Lookup<RouteValue> {
        if self.shape.sets == 0 {
            return Lookup::Absent;
        }
        let (index, tag) = self.shape.place(self.hash(key));
        let Some((generation, entry)) = self.set(index).find(tag, key) else {
            return Lookup::Absent;
        };
        let span = match entry.value {
            Some(_) => self.shape.fresh,
            None => self.shape.negative.unwrap_or(0),
        };
        let age = now.wrapping_sub(entry.time) & (u64::MAX >> 1);
        match entry.value {
            _ if generation != self.generation() || age >= span => Lookup::Absent,
            Some(value) => Lookup::Value(value),
            None => Lookup::Negative,
        }
    }

    /// The answer for a key, if the cache has one that is fresh.
    pub fn get(&self, key: &RouteKey, now: u64) -> Option<RouteValue> {
        match self.lookup(key, now) {
            Lookup::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Copies of all valid entries, fresh or not, in no order. The iterator copies one set at a
    /// time, when it reaches the set. It skips a set when writers disturb each of its attempts.
    pub fn iter(&self) -> impl Iterator<Item = RouteEntry> + use<'_> {
        self.sets().enumerate().flat_map(|(index, set)| {
            let ways = self.shape.ways_of(index);
            let copied = set
                .copy()
                .filter(|copied| copied.generation == self.generation());
            let entries = copied.map_or(Vec::new(), |copied| copied.entries);
            entries
                .into_iter()
                .filter(move |(way, ..)| *way < ways)
                .map(|(.., entry)| entry)
        })
    }

    /// Invalidates all entries, and all answers that are being resolved. After this has returned,
    /// no lookup of a program returns an answer that was resolved before. It takes one atomic
    /// addition and no system call.
    pub fn invalidate_all(&self) {
        let word = self.arena.memory().u64(self.window.at + GENERATION);
        word.fetch_add(1, AcqRel);
    }

    /// Removes a key, and returns whether it was there. Answers for the key that are being resolved
    /// will not be stored. When the set stays locked by other programs, this invalidates all
    /// entries instead.
    ///
    /// # Errors
    /// The kernel's error when it does not load or run the program that removes keys.
    pub fn invalidate(&self, key: &RouteKey) -> Result<bool, Error> {
        let order = Order {
            what: INVALIDATE,
            key: *key,
            ..Order::default()
        };
        Ok(self.order(order)? == 1)
    }

    /// Removes entries that are older than `keep` or older than an
    /// [`invalidate_all`](Self::invalidate_all), in about the next `budget` slots. Returns the
    /// number of removed entries. The next call, by any process, continues from there.
    ///
    /// A program sweeps some thousand slots in each run. It occupies a processor for some tens of
    /// microseconds. A process that is killed meanwhile leaves no set locked.
    ///
    /// # Errors
    /// The kernel's error when it does not load or run that program.
    pub fn sweep(&self, now: u64, budget: usize) -> Result<usize, Error> {
        let mut left = budget.min(self.shape.sets * SLOTS);
        let mut removed = 0;
        while left > 0 {
            let some = left.min(SLICE);
            let order = Order {
                what: SWEEP,
                now,
                budget: some as u64,
                ..Order::default()
            };
            removed += self.order(order)? as usize;
            left -= some;
        }
        Ok(removed)
    }

    fn order(&self, order: Order) -> Result<u64, Error> {
        let mut answer = Order {
            window: self.window.number,
            ..order
        };
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = match &mut *worker {
            Some(programs) => programs,
            none => none.insert(Loader::open(&self.arena, WORKER)?.load()?),
        };
        programs.run("sw_route_order", answer.as_mut_bytes())?;
        u64::try_from(answer.result).map_err(|_| {
            let error = std::io::Error::from_raw_os_error(-answer.result as i32);
            Error::io("sweeping the route cache", error)
        })
    }

    /// The counts of events in the cache, and its occupancy. The sums are exact while no program
    /// uses the cache. Then `hit + miss` is the number of lookups, and `insert - evict - swept -
    /// invalidated` is `occupancy`.
    pub fn stats(&self) -> CacheStats {
        let mut sums = [0u64; EVENTS.len()];
        for processor in 0..self.shape.processors {
            let counters = self.window.at + COUNTERS + processor * COUNTERS_BYTES;
            for (i, sum) in sums.iter_mut().enumerate() {
                let word = self.arena.memory().u64(counters + 8 + 8 * i);
                *sum = sum.wrapping_add(word.load(Relaxed));
            }
        }
        let mut stats = CacheStats::default();
        [
            stats.hit,
            stats.miss,
            stats.refresh,
            stats.insert,
            stats.evict,
            stats.full,
            stats.stale,
            stats.negative,
            stats.error,
            stats.swept,
            stats.invalidated,
            stats.overtaken,
            stats.busy,
            stats.clock_back,
        ] = sums;
        stats.occupancy = self.occupancy();
        stats.capacity = self.capacity();
        stats
    }

    /// The number of slots in use, by a walk over all sets.
    pub fn occupancy(&self) -> usize {
        self.sets().map(|set| set.count()).sum()
    }

    /// Checks the cache's invariants. No program may use the cache meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first invariant that does not hold.
    pub fn verify(&self) -> Result<(), Error> {
        self.check().map_err(Error::Damaged)
    }

    fn check(&self) -> Result<(), String> {
        let shape = Shape::read(self.arena.memory(), self.window.at, self.window.len)
            .map_err(|error| error.to_string())?;
        if shape != self.shape {
            return Err("its measures have changed".into());
        }
        let generation = self.generation();
        for (index, set) in self.sets().enumerate() {
            let wrong = |what: &str| Err(format!("set {index}: {what}"));
            let Some(copied) = set.copy() else {
                return wrong("it is locked");
            };
            let behind = generation.wrapping_sub(copied.generation);
            if !copied.entries.is_empty() && behind >= 1 << 63 {
                return wrong("it is of a generation that never was");
            }
            let mut keys = Vec::new();
            for (way, tag, entry) in copied.entries {
                if way >= shape.ways_of(index) {
                    return wrong("an entry in a slot that it has not");
                }
                if shape.place(self.hash(&entry.key)) != (index, tag) {
                    return wrong("a key that belongs elsewhere");
                }
                if keys.contains(&entry.key) {
                    return wrong("a key is there twice");
                }
                keys.push(entry.key);
            }
        }
        let stats = self.stats();
        let gone = [stats.evict, stats.swept, stats.invalidated];
        let left = gone.into_iter().fold(stats.insert, u64::wrapping_sub);
        if left != stats.occupancy as u64 {
            return Err(format!("{left} entries should be there: {stats:?}"));
        }
        if stats.full > stats.evict || stats.stale > stats.miss || stats.negative > stats.hit {
            return Err(format!("a part is more than the whole: {stats:?}"));
        }
        Ok(())
    }
}

impl fmt::Debug for ProgramRouteCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramRouteCache")
            .field("window", &self.window)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

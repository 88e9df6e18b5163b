//! The domain: its generation counter, and the check whether a generation has elapsed.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use crossbeam_utils::CachePadded;

use crate::builder::{
    DomainBuilder, GarbageLimit, LimitPolicy, Limits, TooManyReaders, WaitsForItself,
};
use crate::defer::DeferQueue;
use crate::holder::Holders;
use crate::reader::Reader;
use crate::slots::{Slot, Slots};
use crate::source::{GraceSource, Sources};
use crate::sync::{AtomicU64, Backoff, Clock, fence, plain, raise, this_thread};

/// The nanoseconds after which a thread that waits for its own reader gives up.
const OWN_READER: u64 = 3_000_000_000;

/// The number of a grace period of a domain, from [`Domain::advance`]. Later ones are greater.
///
/// It has a meaning only for the domain that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// The generation before all others, which has elapsed.
    pub const ZERO: Self = Self(0);

    /// The number, for an atomic or a header.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The generation with this number. A generation that has not begun yet has not elapsed.
    #[inline]
    pub const fn from_raw(number: u64) -> Self {
        Self(number)
    }
}

/// A domain of grace periods: readers that never wait, and writers that learn when memory may be
/// reused.
///
/// A clone is another handle to the same domain. A structure and its readers share a domain.
/// Several structures may share one, too; then they also share its slowest reader.
///
/// When the last handle is dropped, the remaining deferred closures run. Readers hold a handle, so
/// no reader is left then.
///
/// ```
/// use sapwood_qsbr::Domain;
///
/// let domain = Domain::new();
/// let mut reader = domain.register("packet loop")?;
///
/// // A writer has unlinked a block. When may it free the block?
/// let generation = domain.advance();
/// assert!(!domain.elapsed(generation)); // `reader` may hold the block
/// reader.quiescent();
/// assert!(domain.elapsed(generation));
/// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
/// ```
#[derive(Clone)]
pub struct Domain(Arc<Shared>);

pub(crate) struct Shared {
    /// The newest generation that has begun. It is not 0, which means offline in a slot.
    generation: CachePadded<AtomicU64>,
    /// The newest generation known to have elapsed, for readers and sources alike.
    known: CachePadded<AtomicU64>,
    garbage: CachePadded<plain::AtomicUsize>,
    /// Threads that have cached a slot for pinning hold it, too: they may outlive the domain.
    pub(crate) slots: Arc<Slots>,
    pub(crate) sources: Option<Sources>,
    pub(crate) deferred: DeferQueue,
    pub(crate) holders: Holders,
    readers: plain::AtomicUsize,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

impl Shared {
    /// The newest generation. The load is an Acquire: blocks that were unlinked before it began are
    /// unlinked for the caller.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.generation.load(Acquire)
    }

    pub(crate) fn reader_gone(&self) {
        self.readers.fetch_sub(1, Relaxed);
    }

    /// The newest generation that no reader holds back. Stamps the readers that hold back `wanted`.
    fn scan(&self, wanted: u64) -> u64 {
        // Loaded before the fence: each unlinking before a generation up to this one happened
        // before the fence, whichever thread did it. A reader whose slot reads 0 below has its own
        // fence after ours, so its next reads see those unlinkings (see `Slot::come_online`). So no
        // answer may be beyond this generation.
        let mut oldest = self.current();
        fence(SeqCst);
        for slot in self.slots.iter() {
            let seen = slot.seen();
            if seen != 0 && seen < oldest {
                oldest = seen;
            }
            if seen != 0 && seen < wanted {
                slot.note_stuck(seen, || self.clock.nanos());
            }
        }
        oldest
    }

    #[inline(never)]
    fn elapsed_slow(&self, wanted: u64) -> bool {
        let mut done = self.scan(wanted);
        if let Some(sources) = &self.sources {
            done = done.min(sources.progress(&self.generation, || self.clock.nanos()));
        }
        // A Release, so that the reads before the readers' quiescent states happened before the
        // steps of every thread that loads `known`.
        raise(&self.known, done);
        wanted <= done
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.slots.close();
        self.deferred.run_all_on_drop();
    }
}

impl Domain {
    /// A domain without limits or sources.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A builder, which sets limits and sources.
    pub fn builder() -> DomainBuilder {
        DomainBuilder::new()
    }

    pub(crate) fn from_parts(mut limits: Limits, sources: Vec<Arc<dyn GraceSource>>) -> Self {
        limits.soft = limits.soft.min(limits.hard);
        Self(Arc::new(Shared {
            generation: CachePadded::new(AtomicU64::new(1)),
            known: CachePadded::new(AtomicU64::new(0)),
            garbage: CachePadded::new(plain::AtomicUsize::new(0)),
            slots: Arc::new(Slots::new()),
            sources: (!sources.is_empty()).then(|| Sources::new(sources)),
            deferred: DeferQueue::new(),
            holders: Holders::new(),
            readers: plain::AtomicUsize::new(0),
            limits,
            clock: Clock::new(),
        }))
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Registers a reader, which is online at once. Stall reports call it `name`.
    ///
    /// O(slots) if a slot is used again, otherwise an allocation.
    ///
    /// It reuses the slot of a reader that was dropped, so the memory is that of the most readers
    /// at one time. It does not block readers or writers.
    ///
    /// # Errors
    ///
    /// [`TooManyReaders`] when [`DomainBuilder::max_readers`] are registered.
    pub fn register(&self, name: impl Into<String>) -> Result<Reader, TooManyReaders> {
        let max = self.0.limits.max_readers;
        self.0
            .readers
            .fetch_update(Relaxed, Relaxed, |n| (n < max).then_some(n + 1))
            .map_err(|_| TooManyReaders { max })?;
        Ok(Reader::new(self.clone(), name.into()))
    }

    /// The number of registered readers. Threads that only pin are not counted.
    ///
    /// O(1).
    pub fn readers(&self) -> usize {
        self.0.readers.load(Relaxed)
    }

    /// The number of reader slots that have been allocated: the most readers and pinning threads at
    /// one time.
    pub fn reader_slots(&self) -> usize {
        self.0.slots.allocated()
    }

    /// Whether both are handles to the same domain.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Starts a grace period. Everything that was unlinked before this call may be reused once the
    /// result has [`elapsed`](Self::elapsed).
    ///
    /// That includes blocks that other threads unlinked, if this happened before the call. The cost
    /// is one atomic add, and the start of a period of each idle source.
    pub fn advance(&self) -> Generation {
        // Release publishes our unlinkings with the number. Each add continues the release
        // sequences of those before it, so a thread that loads a number sees the unlinkings of all
        // generations up to it. (Acquire is for sanitizers; no model needs it.) There is no fence
        // here: the one in `scan` comes later and suffices.
        let generation = self.0.generation.fetch_add(1, AcqRel) + 1;
        if let Some(sources) = &self.0.sources {
            sources.start_if_idle(&self.0.generation, || self.0.clock.nanos());
        }
        Generation(generation)
    }

    /// Whether the grace period is over: no reader can hold anything that was unlinked before
    /// `generation` began. It does not block.
    ///
    /// The cost is one load if that is known already, and otherwise one fence and a look at every
    /// reader's slot.
    #[inline]
    pub fn elapsed(&self, generation: Generation) -> bool {
        generation.0 <= self.0.known.load(Acquire) || self.0.elapsed_slow(generation.0)
    }

    /// The newest generation that has begun.
    ///
    /// One load.
    pub fn generation(&self) -> Generation {
        Generation(self.0.current())
    }

    /// Blocks until a grace period is over: nobody holds anything that was unlinked before the
    /// call.
    ///
    /// It spins, then yields, then sleeps; without `std` it only spins. Writers on a data path
    /// should not call it, but queue and [`poll`](Self::poll).
    ///
    /// A thread whose own [`Reader`] is online must call [`Reader::synchronize`], or take the
    /// reader offline first: it would wait for itself.
    ///
    /// The cost is that of [`advance`](Self::advance), and of [`elapsed`](Self::elapsed) until the
    /// slowest reader and source have moved.
    ///
    /// # Panics
    ///
    /// Where [`try_synchronize`](Self::try_synchronize) returns an error.
    pub fn synchronize(&self) {
        if let Err(error) = self.try_synchronize() {
            panic!("{error}");
        }
    }

    /// As [`synchronize`](Self::synchronize), but gives up when this thread would wait for itself.
    ///
    /// # Errors
    ///
    /// [`WaitsForItself`]: at once if this thread is inside `pin` of this domain, and after three
    /// seconds if its own reader is online. A reader belongs to the thread that came online with
    /// it, or announced a grace period last; one that is only moved to another thread, and not used
    /// there for three seconds while the first thread waits here, still counts as its own. Without
    /// `std`, threads cannot be told apart, and the call does not return.
    pub fn try_synchronize(&self) -> Result<(), WaitsForItself> {
        #[cfg(feature = "std")]
        if crate::pin::is_pinned(self) {
            return Err(WaitsForItself { reader: None });
        }
        let generation = self.advance();
        let mut backoff = Backoff::new();
        let mut own = OwnReader::new(generation);
        while !self.elapsed(generation) {
            if let Some(name) = own.stands_in_the_way(self, &backoff) {
                return Err(WaitsForItself { reader: Some(name) });
            }
            backoff.wait();
        }
        Ok(())
    }

    /// Bytes that wait for a grace period.
    ///
    /// One load.
    pub fn garbage(&self) -> usize {
        self.0.garbage.load(Relaxed)
    }

    /// Counts `bytes` more garbage, without checking the limits. A
    /// [`RetireQueue`](crate::RetireQueue) does it by itself.
    ///
    /// One atomic addition.
    pub fn add_garbage(&self, bytes: usize) {
        self.0.garbage.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` as garbage if that stays within the hard limit. It is one atomic step, also
    /// among many writers.
    ///
    /// O(1).
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`], whatever the policy; it does not wait.
    pub fn try_add_garbage(&self, bytes: usize) -> Result<(), GarbageLimit> {
        let limit = self.0.limits.hard;
        self.0
            .garbage
            .fetch_update(Relaxed, Relaxed, |now| {
                now.checked_add(bytes).filter(|&sum| sum <= limit)
            })
            .map(|_| ())
            .map_err(|garbage| GarbageLimit {
                garbage,
                requested: bytes,
                limit,
            })
    }

    /// Subtracts `bytes` from the garbage count.
    ///
    /// One atomic subtraction.
    ///
    /// # Panics
    ///
    /// With debug assertions, when more is subtracted than was added; otherwise the count stops at
    /// 0.
    pub fn sub_garbage(&self, bytes: usize) {
        let before = self.0.garbage.fetch_sub(bytes, Relaxed);
        if before < bytes {
            self.0.garbage.fetch_add(bytes - before, Relaxed);
            debug_assert!(
                before >= bytes,
                "{bytes} bytes subtracted, only {before} were counted"
            );
        }
    }

    /// Whether more garbage waits than the soft limit. Then writers should reclaim more than usual.
    ///
    /// One load.
    pub fn over_soft_limit(&self) -> bool {
        self.garbage() > self.0.limits.soft
    }

    /// The soft limit in bytes, if one was set. It is at most the hard limit.
    pub fn soft_limit(&self) -> Option<usize> {
        Some(self.0.limits.soft).filter(|&soft| soft != usize::MAX)
    }

    /// The hard limit in bytes, if one was set.
    pub fn hard_limit(&self) -> Option<usize> {
        Some(self.0.limits.hard).filter(|&hard| hard != usize::MAX)
    }

    /// Checks that `bytes` more garbage would stay within the hard limit now. It does not wait, and
    /// counts nothing.
    ///
    /// One load.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] if they would not, whatever the policy.
    pub fn try_admit(&self, bytes: usize) -> Result<(), GarbageLimit> {
        let (garbage, limit) = (self.garbage(), self.0.limits.hard);
        match garbage.checked_add(bytes) {
            Some(sum) if sum <= limit => Ok(()),
            _ => Err(GarbageLimit {
                garbage,
                requested: bytes,
                limit,
            }),
        }
    }

    /// Checks, before a write that would make `bytes` of garbage, that the hard limit allows it. It
    /// counts nothing.
    ///
    /// One load while there is room; otherwise the cost of [`poll`](Self::poll).
    ///
    /// So `n` writers at once may cross the limit by what `n - 1` of them add. Where that matters,
    /// call [`try_add_garbage`](Self::try_add_garbage) or
    /// [`RetireQueue::reserve`](crate::RetireQueue::reserve), which check and count in one step.
    ///
    /// Under [`LimitPolicy::Error`] it [`poll`](Self::poll)s once before it refuses. Under
    /// [`LimitPolicy::Block`] it waits and polls until there is room. It cannot empty the caller's
    /// own [`RetireQueue`](crate::RetireQueue): there, use
    /// [`RetireQueue::make_room`](crate::RetireQueue::make_room) or
    /// [`admit_with`](Self::admit_with).
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] under [`LimitPolicy::Error`]. Under either policy, when `bytes` alone is
    /// more than the limit, and when this thread would wait for itself, as for
    /// [`try_synchronize`](Self::try_synchronize).
    ///
    /// # Panics
    ///
    /// When a closure panics that it runs, as [`poll`](Self::poll).
    pub fn admit(&self, bytes: usize) -> Result<(), GarbageLimit> {
        self.admit_with(bytes, || true)
    }

    /// As [`admit`](Self::admit), but calls `work` while it waits. `work` frees what it can, and
    /// returns whether waiting makes sense.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit), and when `work` returns `false` and there is still no room.
    pub fn admit_with(
        &self,
        bytes: usize,
        mut work: impl FnMut() -> bool,
    ) -> Result<(), GarbageLimit> {
        let mut backoff = Backoff::new();
        let (mut helped, mut own) = (false, None);
        loop {
            let Err(full) = self.try_admit(bytes) else {
                return Ok(());
            };
            if bytes > full.limit {
                return Err(full);
            }
            #[cfg(feature = "std")]
            let waits_for_itself = crate::pin::is_pinned(self);
            #[cfg(not(feature = "std"))]
            let waits_for_itself = false;
            if self.0.limits.policy == LimitPolicy::Error
                || waits_for_itself
                || own
                    .get_or_insert_with(|| OwnReader::new(self.generation()))
                    .stands_in_the_way(self, &backoff)
                    .is_some()
            {
                // What can be freed now does not stand in the way.
                if !helped && self.help() > 0 {
                    helped = true;
                    continue;
                }
                return Err(full);
            }
            let hope = work();
            if self.poll() == 0 && !hope && self.deferred() == 0 {
                return self.try_admit(bytes);
            }
            backoff.wait();
        }
    }
}

/// The check of a thread that waits, whether it waits for its own reader.
struct OwnReader {
    /// Readers that have not announced this generation hold the thread back.
    generation: Generation,
    /// When the wait became slow, on the domain's clock.
    since: Option<u64>,
}

impl OwnReader {
    fn new(generation: Generation) -> Self {
        OwnReader {
            generation,
            since: None,
        }
    }

    /// The name of a reader of this thread that has held it back for so long that no other thread
    /// can be about to use it.
    fn stands_in_the_way(&mut self, domain: &Domain, backoff: &Backoff) -> Option<String> {
        let thread = this_thread().filter(|_| backoff.is_slow())?;
        let now = domain.0.clock.nanos();
        let since = *self.since.get_or_insert(now);
        let stands = |slot: &&Slot| {
            let seen = slot.seen();
            seen != 0 && seen < self.generation.0 && slot.is_of(thread)
        };
        let own = domain.0.slots.iter().find(stands)?;
        (now.saturating_sub(since) >= OWN_READER).then(|| own.name())
    }
}

/// A panic in a closure, a source or a callback leaves a domain as usable as before, which tests
/// check. The compiler cannot see that through `dyn GraceSource`.
impl core::panic::UnwindSafe for Domain {}
impl core::panic::RefUnwindSafe for Domain {}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("generation", &self.0.current())
            .field("elapsed", &self.0.known.load(Relaxed))
            .field("readers", &self.readers())
            .field("garbage", &self.garbage())
            .field("deferred", &self.deferred())
            .field("sources", &self.0.sources)
            .finish()
    }
}

//! The domain: its generation counter, and the question whether a generation has elapsed.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use crossbeam_utils::CachePadded;

use crate::builder::{DomainBuilder, GarbageLimit, LimitPolicy, Limits, TooManyReaders};
use crate::defer::DeferQueue;
use crate::reader::Reader;
use crate::slots::Slots;
use crate::source::{GraceSource, Sources};
use crate::sync::{AtomicU64, Backoff, Clock, fence, plain, raise};

/// A point in a domain's history, from [`Domain::advance`]. Later ones are greater.
///
/// It means something to the domain that made it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// Before everything: has always elapsed.
    pub const ZERO: Self = Self(0);

    /// The number, to keep it in an atomic or a header.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The generation with that number. One that has not begun yet has not elapsed.
    #[inline]
    pub const fn from_raw(number: u64) -> Self {
        Self(number)
    }
}

/// Readers that never wait, writers that know when memory may be reused: one grace-period world.
///
/// Cloning it makes another handle to the same domain. A structure and everything that reads it share one; many
/// structures may share one too, at the price that they share its slowest reader.
///
/// When the last handle is gone the remaining deferred closures run: readers hold a handle, so there is none left.
///
/// ```
/// use sapwood_qsbr::Domain;
///
/// let domain = Domain::new();
/// let mut reader = domain.register("packet loop")?;
///
/// // A writer has unlinked something. When may it go?
/// let generation = domain.advance();
/// assert!(!domain.elapsed(generation)); // `reader` may hold it
/// reader.quiescent();
/// assert!(domain.elapsed(generation));
/// # Ok::<(), sapwood_qsbr::TooManyReaders>(())
/// ```
#[derive(Clone)]
pub struct Domain(Arc<Shared>);

pub(crate) struct Shared {
    /// The newest generation that has begun. Never 0, which means offline in a slot.
    generation: CachePadded<AtomicU64>,
    /// The newest generation known to have elapsed, for readers and sources alike.
    known: CachePadded<AtomicU64>,
    garbage: CachePadded<plain::AtomicUsize>,
    /// Held by threads that have cached a slot for pinning, too: they may outlive the domain.
    pub(crate) slots: Arc<Slots>,
    pub(crate) sources: Option<Sources>,
    pub(crate) deferred: DeferQueue,
    readers: plain::AtomicUsize,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

impl Shared {
    /// The newest generation. Acquire: what was unlinked before it began is unlinked for the caller.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.generation.load(Acquire)
    }

    pub(crate) fn reader_gone(&self) {
        self.readers.fetch_sub(1, Relaxed);
    }

    /// The newest generation that no reader holds back; stamps those that hold back `wanted`.
    fn scan(&self, wanted: u64) -> u64 {
        // Loaded before the fence: what was unlinked before any generation up to this one happened before the
        // fence, whichever thread unlinked it. A reader whose slot reads 0 below has its own fence after ours, so
        // its next reads see those unlinkings (see `Slot::come_online`). Hence no answer beyond this one.
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
        // Releases, so that what the readers did before they let go happened before whatever is done by those who
        // take our word for it.
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

    /// Sets limits and sources first.
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
            readers: plain::AtomicUsize::new(0),
            limits,
            clock: Clock::new(),
        }))
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Adds a reader, online at once. `name` is what stall reports call it.
    ///
    /// Reuses the slot of a reader that is gone, so memory follows the most readers that there were at one time.
    /// Never blocks readers or writers.
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

    /// How many readers are registered. Threads that only pin are not counted.
    pub fn readers(&self) -> usize {
        self.0.readers.load(Relaxed)
    }

    /// How many reader slots have been allocated: the most readers and pinning threads that there were at once.
    pub fn reader_slots(&self) -> usize {
        self.0.slots.allocated()
    }

    /// Whether both are handles to one domain.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Starts a grace period: everything unlinked before this call may be reused once the result has
    /// [`elapsed`](Self::elapsed).
    ///
    /// "Before" includes what other threads unlinked, if that happened before this call. One atomic add, plus the
    /// start of a period of each idle source.
    pub fn advance(&self) -> Generation {
        // Release publishes our unlinkings with the number, and as each add continues the release sequences of those
        // before it, whoever loads a number sees the unlinkings of all generations up to it. (Acquire is for
        // sanitizers; no model needs it.) There is no fence here: the one in `scan` comes later and suffices.
        let generation = self.0.generation.fetch_add(1, AcqRel) + 1;
        if let Some(sources) = &self.0.sources {
            sources.start_if_idle(&self.0.generation, || self.0.clock.nanos());
        }
        Generation(generation)
    }

    /// Whether no reader can hold anything that was unlinked before `generation` began. Never blocks.
    ///
    /// One load if that is known already; else one fence and a look at every reader's slot.
    #[inline]
    pub fn elapsed(&self, generation: Generation) -> bool {
        generation.0 <= self.0.known.load(Acquire) || self.0.elapsed_slow(generation.0)
    }

    /// The newest generation that has begun.
    pub fn generation(&self) -> Generation {
        Generation(self.0.current())
    }

    /// Blocks until a grace period has passed: nobody holds what was unlinked before the call.
    ///
    /// Spins, then yields, then sleeps (spins only, without `std`). Writers on a data path do not want this: they
    /// queue and [`poll`](Self::poll).
    ///
    /// A thread whose own [`Reader`] is online waits for ever: use [`Reader::synchronize`].
    ///
    /// # Panics
    ///
    /// If this thread is inside `pin` of this domain, as it would wait for itself.
    pub fn synchronize(&self) {
        #[cfg(feature = "std")]
        assert!(
            !crate::pin::is_pinned(self),
            "synchronize inside a pin of the same domain would never return"
        );
        let generation = self.advance();
        let mut backoff = Backoff::new();
        while !self.elapsed(generation) {
            backoff.wait();
        }
    }

    /// Bytes that wait for a grace period.
    pub fn garbage(&self) -> usize {
        self.0.garbage.load(Relaxed)
    }

    /// Counts `bytes` more garbage, without asking for the limits. [`RetireQueue`](crate::RetireQueue) does it itself.
    pub fn add_garbage(&self, bytes: usize) {
        self.0.garbage.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` as garbage only if that stays within the hard limit: one step, exact among many writers.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`], whatever the policy; it never waits.
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

    /// Takes `bytes` off the garbage count.
    ///
    /// # Panics
    ///
    /// With debug assertions, when more is taken off than was added; else the count stops at 0.
    pub fn sub_garbage(&self, bytes: usize) {
        let before = self.0.garbage.fetch_sub(bytes, Relaxed);
        if before < bytes {
            self.0.garbage.fetch_add(bytes - before, Relaxed);
            debug_assert!(
                before >= bytes,
                "{bytes} bytes taken off, only {before} were counted"
            );
        }
    }

    /// Whether more garbage waits than the soft limit: reclaim more than one usually would.
    pub fn over_soft_limit(&self) -> bool {
        self.garbage() > self.0.limits.soft
    }

    /// The soft limit in bytes, if one was set. Never above the hard limit.
    pub fn soft_limit(&self) -> Option<usize> {
        Some(self.0.limits.soft).filter(|&soft| soft != usize::MAX)
    }

    /// The hard limit in bytes, if one was set.
    pub fn hard_limit(&self) -> Option<usize> {
        Some(self.0.limits.hard).filter(|&hard| hard != usize::MAX)
    }

    /// Whether `bytes` more garbage would stay within the hard limit, now; never waits, counts nothing.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] if not, whatever the policy.
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

    /// Asks, before a write that would make `bytes` of garbage, whether the hard limit allows it; counts nothing.
    ///
    /// As it only asks, `n` writers at once may cross the limit by what `n - 1` of them add; where
    /// that matters, [`try_add_garbage`](Self::try_add_garbage) and
    /// [`RetireQueue::reserve`](crate::RetireQueue::reserve) ask and count in one step.
    ///
    /// Under [`LimitPolicy::Block`] it waits and [`poll`](Self::poll)s until there is room. It cannot empty the
    /// caller's own [`RetireQueue`](crate::RetireQueue): there, use
    /// [`RetireQueue::make_room`](crate::RetireQueue::make_room) or [`admit_with`](Self::admit_with).
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] by policy; and under either policy when `bytes` alone is more than the limit, or when this
    /// thread is inside `pin` of this domain and would have to wait for itself.
    pub fn admit(&self, bytes: usize) -> Result<(), GarbageLimit> {
        self.admit_with(bytes, || true)
    }

    /// As [`admit`](Self::admit); while it waits it calls `work`, which frees what it can and returns whether
    /// waiting makes sense.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit), and when `work` says `false` and there is still no room.
    pub fn admit_with(
        &self,
        bytes: usize,
        mut work: impl FnMut() -> bool,
    ) -> Result<(), GarbageLimit> {
        let mut backoff = Backoff::new();
        loop {
            let Err(full) = self.try_admit(bytes) else {
                return Ok(());
            };
            #[cfg(feature = "std")]
            let waits_for_itself = crate::pin::is_pinned(self);
            #[cfg(not(feature = "std"))]
            let waits_for_itself = false;
            if self.0.limits.policy == LimitPolicy::Error || bytes > full.limit || waits_for_itself
            {
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

/// A panic in a closure, a source or a callback leaves a domain as usable as before, and tests hold us to it; the
/// compiler cannot see that through `dyn GraceSource`.
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

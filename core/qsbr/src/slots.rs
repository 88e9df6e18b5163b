//! The list of reader slots. Scanners walk it without locks, registration claims slots, and slots
//! are not unlinked.
//!
//! ```text
//!  Slots.head ──► Slot ──► Slot ──► Slot ──► null        pushed at the head, freed with the domain only
//!                 ┌────────────────────────┐
//!                 │ seen  u64   0: offline │  one cache line of its own: written by the reader,
//!                 │             g: saw g   │  read by whoever asks whether a grace period is over
//!                 │ next  ptr   constant   │
//!                 │ thread      who used it│
//!                 ├────────────────────────┤
//!                 │ claimed, name, stamps  │  cold
//!                 └────────────────────────┘
//! ```

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, ColdMutex, fence, plain, this_thread};

/// The cache line that a reader and scanners share.
struct Hot {
    /// 0 while the reader is offline, else the newest generation that it has announced.
    seen: AtomicU64,
    /// Set before the slot is published, and constant afterwards.
    next: plain::AtomicPtr<Slot>,
    /// The number of the thread that came online or announced last; 0 where threads have none. It
    /// tells a thread that it would wait for itself.
    thread: plain::AtomicUsize,
}

/// The slot of one reader, which scanners read.
pub(crate) struct Slot {
    hot: CachePadded<Hot>,
    claimed: AtomicBool,
    pinned: plain::AtomicBool,
    name: ColdMutex<String>,
    /// The value of `seen` that a scanner was held back by; 0 for none.
    stuck_at: plain::AtomicU64,
    /// When a scanner first noticed it, on the domain's clock.
    stuck_since: plain::AtomicU64,
}

impl Slot {
    /// The value that this reader has announced. The load is an Acquire: what the reader did before
    /// the announcement happened before the caller's next steps, such as reusing the memory.
    pub(crate) fn seen(&self) -> u64 {
        self.hot.seen.load(Acquire)
    }

    /// Takes the reader from offline to online: announces `generation`, and orders that before
    /// every later read.
    ///
    /// The fence pairs with the one in `Shared::scan`. If ours is first, the scanner sees the
    /// announcement. If the scanner's is first, every read after ours sees the unlinking that came
    /// before the scan.
    pub(crate) fn come_online(&self, generation: u64) {
        self.hot.seen.store(generation, Release);
        fence(SeqCst);
    }

    /// Notes that this thread uses the reader.
    pub(crate) fn note_thread(&self) {
        self.hot.thread.store(this_thread().unwrap_or(0), Relaxed);
    }

    /// Whether a thread used the reader last.
    pub(crate) fn is_of(&self, thread: usize) -> bool {
        self.hot.thread.load(Relaxed) == thread
    }

    /// Announces a quiescent state of an online reader. `generation` was loaded with Acquire, so
    /// later reads see every unlinking before it began. A fence is not needed, since a scanner that
    /// sees this store late only waits longer.
    pub(crate) fn announce(&self, generation: u64) {
        self.hot.seen.store(generation, Release);
    }

    pub(crate) fn go_offline(&self) {
        self.hot.seen.store(0, Release);
    }

    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// Notes that the reader stays at `seen` and holds a grace period back. Calls `now` only if
    /// that was not noted before. Returns since when it has been noted.
    ///
    /// Observers that race may mix up their stamps, by the length of the race, so the time is a
    /// diagnosis.
    pub(crate) fn note_stuck(&self, seen: u64, now: impl FnOnce() -> u64) -> u64 {
        if self.stuck_at.load(Acquire) == seen {
            return self.stuck_since.load(Relaxed);
        }
        let now = now();
        self.stuck_since.store(now, Relaxed);
        self.stuck_at.store(seen, Release);
        now
    }
}

pub(crate) struct Slots {
    head: AtomicPtr<Slot>,
    /// At least the number of unclaimed slots. It saves the walk when there are none.
    free: plain::AtomicUsize,
    len: plain::AtomicUsize,
    /// The domain was dropped. Threads that have cached a slot for pinning can drop it.
    closed: plain::AtomicBool,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            free: plain::AtomicUsize::new(0),
            len: plain::AtomicUsize::new(0),
            closed: plain::AtomicBool::new(false),
        }
    }

    /// All slots, claimed or not. An unclaimed slot reads as offline.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let mut at = self.head.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: slots come from `Box::into_raw` in `push`, were initialised before they were
            // published (Release CAS, Acquire load above), and are freed only by `drop(&mut self)`,
            // which the borrow of `self` in the items excludes.
            let slot = unsafe { at.as_ref() }?;
            at = slot.hot.next.load(Relaxed);
            Some(slot)
        })
    }

    /// The number of slots that have been allocated: the most readers at one time.
    pub(crate) fn allocated(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Release);
    }

    #[cfg(feature = "std")]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Claims an unused slot, or adds one. It starts offline.
    pub(crate) fn claim(self: &Arc<Self>, name: String, pinned: bool) -> Claim {
        let slot = self.claim_unused().unwrap_or_else(|| self.push());
        let claim = Claim {
            slots: Arc::clone(self),
            slot,
        };
        *claim.name.lock() = name;
        claim.pinned.store(pinned, Relaxed);
        claim.hot.thread.store(0, Relaxed);
        claim.stuck_at.store(0, Release);
        claim
    }

    fn claim_unused(&self) -> Option<NonNull<Slot>> {
        if self.free.load(Relaxed) == 0 {
            return None;
        }
        // Acquire on success: the last owner's reads are done before ours begin (Release in
        // `Claim::drop`).
        let slot = self.iter().find(|slot| {
            slot.claimed
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_ok()
        })?;
        self.free.fetch_sub(1, Relaxed);
        Some(NonNull::from(slot))
    }

    fn push(&self) -> NonNull<Slot> {
        let slot = Box::into_raw(Box::new(Slot {
            hot: CachePadded::new(Hot {
                seen: AtomicU64::new(0),
                next: plain::AtomicPtr::new(ptr::null_mut()),
                thread: plain::AtomicUsize::new(0),
            }),
            claimed: AtomicBool::new(true),
            pinned: plain::AtomicBool::new(false),
            name: ColdMutex::new(String::new()),
            stuck_at: plain::AtomicU64::new(0),
            stuck_since: plain::AtomicU64::new(0),
        }));
        // SAFETY: the slot was just made from a box, so it is not null, and nobody frees it before
        // `drop`.
        let slot = unsafe { NonNull::new_unchecked(slot) };
        let mut head = self.head.load(Acquire);
        loop {
            // SAFETY: as above; only this thread knows the slot until the exchange succeeds.
            unsafe { slot.as_ref() }.hot.next.store(head, Relaxed);
            match self
                .head
                .compare_exchange_weak(head, slot.as_ptr(), AcqRel, Acquire)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.len.fetch_add(1, Relaxed);
        slot
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut at = self.head.load(Acquire);
        while !at.is_null() {
            // SAFETY: every slot was boxed in `push` and is on the list once. In drop no `Claim` is
            // left, as each holds an `Arc` of the list, and no iterator is left either.
            let slot = unsafe { Box::from_raw(at) };
            at = slot.hot.next.load(Relaxed);
        }
    }
}

/// The claim of one reader on one slot. Dropping it takes the reader offline and gives the slot
/// back.
pub(crate) struct Claim {
    slots: Arc<Slots>,
    slot: NonNull<Slot>,
}

// SAFETY: a slot is made of atomics and a lock, usable from any thread, and stays where it is;
// which thread holds the claim makes no difference to it.
unsafe impl Send for Claim {}

impl Claim {
    #[cfg(feature = "std")]
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }
}

impl Deref for Claim {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        // SAFETY: `slots` owns the slot and frees it only when the last `Arc` is gone; we hold one.
        unsafe { self.slot.as_ref() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.go_offline();
        // Counted before the slot can be claimed, so that the count does not wrap below zero.
        self.slots.free.fetch_add(1, Relaxed);
        self.claimed.store(false, Release);
    }
}

//! The list of reader slots: scanners walk it without locks, registration claims slots, nothing is
//! ever unlinked.
//!
//! ```text
//!  Slots.head ──► Slot ──► Slot ──► Slot ──► null        pushed at the head, freed with the domain only
//!                 ┌────────────────────────┐
//!                 │ seen  u64   0: offline │  one cache line of its own: written by the reader,
//!                 │             g: saw g   │  read by whoever asks whether a grace period is over
//!                 │ next  ptr   constant   │
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

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, ColdMutex, fence, plain};

/// The line that reader and scanners share.
struct Hot {
    /// 0 while the reader is offline, else the newest generation that it has announced.
    seen: AtomicU64,
    /// Set before the slot is published, constant from then on.
    next: plain::AtomicPtr<Slot>,
}

/// What one reader tells the scanners.
pub(crate) struct Slot {
    hot: CachePadded<Hot>,
    claimed: AtomicBool,
    pinned: plain::AtomicBool,
    name: ColdMutex<String>,
    /// The value of `seen` that a scanner was held back by; 0 for none.
    stuck_at: plain::AtomicU64,
    /// When that was first noticed, on the domain's clock.
    stuck_since: plain::AtomicU64,
}

impl Slot {
    /// What the scanners know of this reader. Acquire: what the reader did before it announced this
    /// value happened before whatever the caller does next (such as reusing the memory).
    pub(crate) fn seen(&self) -> u64 {
        self.hot.seen.load(Acquire)
    }

    /// From offline to online: announces `generation`, then orders that before every later read.
    ///
    /// The fence pairs with the one in `Shared::scan`. Of the two one is first: if ours, the
    /// scanner sees the announcement; if the scanner's, every read after ours sees the unlinking
    /// that came before the scan.
    pub(crate) fn come_online(&self, generation: u64) {
        self.hot.seen.store(generation, Release);
        fence(SeqCst);
    }

    /// While online: announces that everything held so far has been let go. `generation` was loaded
    /// with Acquire, so later reads see whatever was unlinked before it began; there is nothing
    /// left for a fence to do, since a scanner that sees this store late only waits longer.
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

    /// Notes that the reader stands at `seen` and holds somebody back; `now` is asked only if that
    /// is news. Returns since when it has been known to.
    ///
    /// Racing observers may mix up their stamps by the length of the race. It is a diagnosis, not a
    /// proof.
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
    /// Unclaimed slots, never less than there are: saves the walk when there are none.
    free: plain::AtomicUsize,
    len: plain::AtomicUsize,
    /// The domain is gone; threads that have cached a slot for pinning can let go of it.
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

    /// All slots there are, claimed or not; an unclaimed one reads as offline.
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

    /// How many slots have been allocated: the most readers that there ever were at once.
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

    /// Claims an unused slot or adds one; it starts offline.
    pub(crate) fn claim(self: &Arc<Self>, name: String, pinned: bool) -> Claim {
        let slot = self.claim_unused().unwrap_or_else(|| self.push());
        let claim = Claim {
            slots: Arc::clone(self),
            slot,
        };
        *claim.name.lock() = name;
        claim.pinned.store(pinned, Relaxed);
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
            }),
            claimed: AtomicBool::new(true),
            pinned: plain::AtomicBool::new(false),
            name: ColdMutex::new(String::new()),
            stuck_at: plain::AtomicU64::new(0),
            stuck_since: plain::AtomicU64::new(0),
        }));
        // SAFETY: just made from a box, so it is not null and nobody frees it before `drop`.
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
            // SAFETY: every slot was boxed in `push` and is on the list once. `&mut self` in drop:
            // every `Claim` holds an `Arc` of us, so none is left, and no iterator is either.
            let slot = unsafe { Box::from_raw(at) };
            at = slot.hot.next.load(Relaxed);
        }
    }
}

/// The use of one slot by one reader. Dropping it takes the reader offline and gives the slot back.
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
        // Counted before it can be claimed, so that the count never wraps below zero.
        self.slots.free.fetch_add(1, Relaxed);
        self.claimed.store(false, Release);
    }
}

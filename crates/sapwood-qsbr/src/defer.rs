//! Closures that run after a grace period.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::sync::atomic::Ordering::Relaxed;

use crate::builder::GarbageLimit;
use crate::domain::{Domain, Generation};
use crate::sync::{Mutex, plain};

struct Deferred {
    generation: Generation,
    bytes: usize,
    run: Box<dyn FnOnce() + Send>,
}

/// Oldest first. The lock is never held while code of others runs: not a closure, not a source.
pub(crate) struct DeferQueue {
    queue: Mutex<VecDeque<Deferred>>,
    len: plain::AtomicUsize,
}

impl DeferQueue {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            len: plain::AtomicUsize::new(0),
        }
    }

    fn oldest(&self) -> Option<Generation> {
        self.queue
            .lock()
            .front()
            .map(|deferred| deferred.generation)
    }

    /// The oldest closure, if its grace period is among those up to `elapsed`.
    fn take(&self, elapsed: Generation) -> Option<Deferred> {
        let mut queue = self.queue.lock();
        if queue.front()?.generation > elapsed {
            return None;
        }
        let deferred = queue.pop_front();
        if queue.is_empty() && queue.capacity() > 1024 {
            *queue = VecDeque::new();
        }
        self.len.fetch_sub(1, Relaxed);
        deferred
    }

    /// Runs what is left when the domain's last handle goes: no reader is left to wait for.
    ///
    /// A panic has been shown by the panic hook and stops here; passed on from a drop it could
    /// abort the process.
    pub(crate) fn run_all_on_drop(&self) {
        /// Without `std` nobody catches: then this runs the rest while the panic unwinds.
        struct Rest<'q>(&'q DeferQueue);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                while let Some(deferred) = self.0.take(Generation::from_raw(u64::MAX)) {
                    (deferred.run)();
                }
            }
        }
        let rest = Rest(self);
        while let Some(deferred) = self.take(Generation::from_raw(u64::MAX)) {
            #[cfg(feature = "std")]
            drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(
                deferred.run,
            )));
            #[cfg(not(feature = "std"))]
            (deferred.run)();
        }
        drop(rest);
    }
}

impl Domain {
    /// Runs `f` once, after a grace period, on whichever thread [`poll`](Self::poll)s; `bytes`
    /// count as garbage till then.
    ///
    /// For owners of things that a [`RetireQueue`](crate::RetireQueue) does not fit. What `f` is to
    /// free has to be unlinked already. A closure that owns a handle to this domain keeps it alive
    /// until it has run.
    ///
    /// Costs an allocation and a lock. Several threads may defer and poll at once; closures start
    /// in order.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] if `bytes` do not fit, as for [`admit`](Self::admit); then `f` is dropped,
    /// not run.
    ///
    /// ```
    /// # use sapwood_qsbr::Domain;
    /// # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    /// let domain = Domain::new();
    /// let mut reader = domain.register("reader").unwrap();
    /// let freed = Arc::new(AtomicBool::new(false));
    /// let f = { let freed = freed.clone(); move || freed.store(true, Ordering::Relaxed) };
    /// domain.defer(64, f)?;
    /// assert_eq!((domain.poll(), domain.garbage()), (0, 64));
    /// reader.quiescent();
    /// assert_eq!((domain.poll(), domain.garbage()), (1, 0));
    /// assert!(freed.load(Ordering::Relaxed));
    /// # Ok::<(), sapwood_qsbr::GarbageLimit>(())
    /// ```
    pub fn defer(
        &self,
        bytes: usize,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<(), GarbageLimit> {
        self.admit(bytes)?;
        let run = Box::new(f);
        // Calls a source's `start`, whose panic must find nothing half done: so before anything is
        // counted, and outside the lock.
        let generation = self.advance();
        while self.try_add_garbage(bytes).is_err() {
            self.admit(bytes)?;
        }
        let deferred = &self.shared().deferred;
        let mut queue = deferred.queue.lock();
        // Another thread may have queued a newer generation in between; ours has to wait behind it,
        // which the newer stamp says.
        let generation = queue
            .back()
            .map_or(generation, |last| last.generation.max(generation));
        queue.push_back(Deferred {
            generation,
            bytes,
            run,
        });
        deferred.len.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Runs the deferred closures whose grace period is over, and returns how many. Never waits.
    ///
    /// The plain function for any event loop: call it once per turn, on any thread.
    ///
    /// # Panics
    ///
    /// When a closure does: its panic passes through. That closure counts as run; all others stay
    /// queued for the next poll, and the domain is as usable as before.
    pub fn poll(&self) -> usize {
        self.poll_budget(usize::MAX)
    }

    /// As [`poll`](Self::poll), but runs at most `budget` closures.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_budget(&self, budget: usize) -> usize {
        let deferred = &self.shared().deferred;
        let mut ran = 0;
        while ran < budget && self.deferred() > 0 {
            let Some(generation) = deferred
                .oldest()
                .filter(|&generation| self.elapsed(generation))
            else {
                break;
            };
            let Some(Deferred { bytes, run, .. }) = deferred.take(generation) else {
                break;
            };
            ran += 1;
            // Before it runs, so that its panic leaves the count right.
            self.sub_garbage(bytes);
            run();
        }
        ran
    }

    /// How many deferred closures wait.
    pub fn deferred(&self) -> usize {
        self.shared().deferred.len.load(Relaxed)
    }
}

//! Closures that run after a grace period.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::sync::atomic::Ordering::Relaxed;

use crate::builder::GarbageLimit;
use crate::domain::{Domain, Generation};
use crate::sync::{Depth, Mutex, plain};

struct Deferred {
    generation: Generation,
    bytes: usize,
    run: Box<dyn FnOnce() + Send>,
}

/// The deferred closures, oldest first. The lock is not held while a closure or a source runs.
pub(crate) struct DeferQueue {
    queue: Mutex<VecDeque<Deferred>>,
    len: plain::AtomicUsize,
    /// The number of calls that poll because a limit was met. They may be called by closures.
    helping: Depth,
}

/// The most calls of one thread, or of all threads without `std`, that poll at a limit within each
/// other: the closure of one may meet the limit again.
const HELPERS: usize = 8;

impl DeferQueue {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            len: plain::AtomicUsize::new(0),
            helping: Depth::new(),
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

    /// Runs the remaining closures when the domain's last handle is dropped: no reader is left to
    /// wait for.
    ///
    /// A panic of a closure stops here, after the panic hook has shown it: from a drop it could
    /// abort the process.
    pub(crate) fn run_all_on_drop(&self) {
        /// Without `std` a panic cannot be caught: then this runs the rest while the panic unwinds.
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
    /// Defers `f`: it runs once, after a grace period, on a thread that calls [`poll`](Self::poll),
    /// or that meets a limit of garbage. Until then `bytes` count as garbage.
    ///
    /// This is for garbage that does not fit a [`RetireQueue`](crate::RetireQueue). The memory that
    /// `f` frees must be unlinked already. A closure that owns a handle to this domain keeps the
    /// domain alive until it has run.
    ///
    /// It costs an allocation and a lock. Several threads may defer and poll at once; closures
    /// start in order. Above the soft limit, and before it would be refused at the hard limit, this
    /// call polls: so nothing is refused that could be freed, and without readers no more garbage
    /// waits than the soft limit and `bytes`. That costs what [`poll`](Self::poll) costs.
    ///
    /// # Errors
    ///
    /// [`GarbageLimit`] if `bytes` do not fit, as for [`admit`](Self::admit); then `f` is dropped,
    /// not run.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll), at a limit. At the hard limit `f` is dropped then, at the soft
    /// limit it stays queued.
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
        // This calls a source's `start`, which may panic: so it comes before anything is counted,
        // and outside the lock.
        let generation = self.advance();
        while self.try_add_garbage(bytes).is_err() {
            self.admit(bytes)?;
        }
        let deferred = &self.shared().deferred;
        let mut queue = deferred.queue.lock();
        // Another thread may have queued a newer generation in between. Our closure waits behind
        // that one, so it gets the newer stamp.
        let generation = queue
            .back()
            .map_or(generation, |last| last.generation.max(generation));
        queue.push_back(Deferred {
            generation,
            bytes,
            run,
        });
        deferred.len.fetch_add(1, Relaxed);
        drop(queue);
        if self.over_soft_limit() {
            self.help();
        }
        Ok(())
    }

    /// Polls because a limit was met; returns how many closures ran.
    ///
    /// A closure may meet a limit again, and so on. The last one of a few such calls within each
    /// other does not poll, so that no number of closures takes the whole stack.
    #[cold]
    pub(crate) fn help(&self) -> usize {
        match self.shared().deferred.helping.enter(HELPERS) {
            Some(_inside) => self.poll(),
            None => 0,
        }
    }

    /// Runs the deferred closures whose grace period is over, and returns how many. It does not
    /// wait.
    ///
    /// An event loop calls it once in each turn, on any thread. A closure may call everything of
    /// its domain but what waits, [`synchronize`](Self::synchronize) among others, while a guard of
    /// its thread holds a grace period back. What a closure defers does not run in the same poll,
    /// so a closure that defers itself again does not make a poll endless.
    ///
    /// It costs a lock for each closure, and for the first one of a grace period what
    /// [`elapsed`](Self::elapsed) costs.
    ///
    /// # Panics
    ///
    /// When a closure panics. That closure counts as run; all others stay queued for the next poll,
    /// and the domain is as usable as before.
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
        // Each closure that is deferred later has a later generation.
        let newest = self.generation();
        let mut ran = 0;
        while ran < budget && self.deferred() > 0 {
            let Some(generation) = deferred
                .oldest()
                .filter(|&generation| generation <= newest && self.elapsed(generation))
            else {
                break;
            };
            let Some(Deferred { bytes, run, .. }) = deferred.take(generation) else {
                break;
            };
            ran += 1;
            // Counted before the closure runs, so that its panic leaves the count right.
            self.sub_garbage(bytes);
            run();
        }
        ran
    }

    /// The number of deferred closures that wait.
    ///
    /// One load.
    pub fn deferred(&self) -> usize {
        self.shared().deferred.len.load(Relaxed)
    }
}

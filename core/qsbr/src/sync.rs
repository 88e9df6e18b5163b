//! The atomics and locks that the crate uses: those of `core` and `std`, or loom's.
//!
//! The parts that the protocol's proof needs (generation, slots, list head, locks, fences) are
//! loom's in its models. Counters and diagnostics stay `core` atomics there as well: they order
//! nothing, and each visible operation multiplies the schedules that a model has to try.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};

/// `fetch_max` with AcqRel, as a loop: ThreadSanitizer does not instrument the instruction that
/// `fetch_max` becomes, and then reports races where there are none. When the value is as high
/// already, another thread has published at least as much, and this writes nothing.
///
/// It guesses the old value, as generations go up by one, and does not load it first. Loom
/// remembers only the last access to an atomic when it looks for schedules to try, so such a load
/// would hide the accesses of other threads from it: with the load, wrong orderings passed the
/// models.
pub(crate) fn raise(value: &AtomicU64, to: u64) {
    let mut now = to.saturating_sub(1);
    while let Err(newer) = value.compare_exchange(now, to, AcqRel, Relaxed) {
        if newer >= to {
            return;
        }
        now = newer;
    }
}

/// Atomics that no proof rests on; see the module's note.
pub(crate) mod plain {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
}

#[cfg(any(loom, feature = "std"))]
macro_rules! unpoisoned_mutex {
    ($(#[$doc:meta])* $name:ident, $($path:ident)::+) => {
        $(#[$doc])*
        pub(crate) struct $name<T>($($path)::+::Mutex<T>);

        #[allow(dead_code, reason = "each lock uses its own part of this")]
        impl<T> $name<T> {
            pub(crate) fn new(value: T) -> Self {
                Self($($path)::+::Mutex::new(value))
            }

            /// User code does not run while one of these locks guards a half-done change, so the
            /// poison mark has no meaning here.
            pub(crate) fn lock(&self) -> $($path)::+::MutexGuard<'_, T> {
                self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
            }

            pub(crate) fn try_lock(&self) -> Option<$($path)::+::MutexGuard<'_, T>> {
                match self.0.try_lock() {
                    Ok(guard) => Some(guard),
                    Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                    Err(std::sync::TryLockError::WouldBlock) => None,
                }
            }
        }
    };
}

#[cfg(loom)]
unpoisoned_mutex!(
    /// A lock that the models explore.
    Mutex, loom::sync
);
#[cfg(loom)]
unpoisoned_mutex!(
    /// A lock that is not held across an operation that a model can see.
    ColdMutex, std::sync
);

#[cfg(all(not(loom), feature = "std"))]
unpoisoned_mutex!(
    /// A lock for the cold paths: registration names, deferred closures, grace sources.
    Mutex, std::sync
);
#[cfg(not(loom))]
pub(crate) use Mutex as ColdMutex;
#[cfg(all(not(loom), not(feature = "std")))]
pub(crate) use spin::Mutex;

/// A plain test-and-set lock, for programs without an operating system.
#[allow(missing_docs)]
#[cfg(not(loom))]
pub mod spin {
    use core::cell::UnsafeCell;
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    pub struct Mutex<T> {
        held: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: `held` lets one thread at a time reach the value, so a shared lock only moves access
    // to `T` from thread to thread, which `T: Send` allows.
    unsafe impl<T: Send> Sync for Mutex<T> {}

    pub struct MutexGuard<'a, T>(&'a Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self {
                held: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            }
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            loop {
                if let Some(guard) = self.try_lock() {
                    return guard;
                }
                while self.held.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            }
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            // A guard is made only when the lock was taken: its drop releases the lock.
            (!self.held.swap(true, Ordering::Acquire)).then(|| MutexGuard(self))
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.value.get_mut()
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            // SAFETY: this guard exists, so its thread took `held`, and nobody else has a guard.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as in `deref`, and `&mut self` excludes other borrows through this guard.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            self.0.held.store(false, Ordering::Release);
        }
    }
}

/// A number of this thread, not 0, that no other thread has while this one runs: the address of a
/// variable of its own. `None` where threads cannot be told apart.
#[inline]
pub(crate) fn this_thread() -> Option<usize> {
    #[cfg(all(feature = "std", not(loom)))]
    {
        std::thread_local!(static HERE: u8 = const { 0 });
        (HERE.try_with(|here| core::ptr::from_ref(here).addr())).ok()
    }
    #[cfg(not(all(feature = "std", not(loom))))]
    None
}

/// The number of calls of a kind within each other, on one thread or, where threads cannot be told
/// apart, on all.
pub(crate) struct Depth {
    #[cfg(not(all(feature = "std", not(loom))))]
    calls: plain::AtomicUsize,
}

#[cfg(all(feature = "std", not(loom)))]
std::thread_local!(static CALLS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) });

impl Depth {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(all(feature = "std", not(loom))))]
            calls: plain::AtomicUsize::new(0),
        }
    }

    /// Counts one call more until the result is dropped; `None` if there are `most` already.
    pub(crate) fn enter(&self, most: usize) -> Option<Inside<'_>> {
        let before = self.add(1);
        let inside = Inside(self);
        (before < most).then_some(inside)
    }

    /// Adds to the number of calls; returns what it was before.
    fn add(&self, calls: isize) -> usize {
        #[cfg(all(feature = "std", not(loom)))]
        return CALLS
            .try_with(|all| all.replace(all.get().wrapping_add_signed(calls)))
            .unwrap_or(usize::MAX);
        #[cfg(not(all(feature = "std", not(loom))))]
        self.calls
            .fetch_add(calls as usize, core::sync::atomic::Ordering::Relaxed)
    }
}

/// A call that a [`Depth`] counts.
pub(crate) struct Inside<'d>(&'d Depth);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// The steps of a wait: it spins, then yields, then sleeps for up to a millisecond.
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    /// Whether the wait has lasted for some time already.
    pub(crate) fn is_slow(&self) -> bool {
        self.0 > 64
    }

    pub(crate) fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(all(not(loom), feature = "std"))]
        match self.0 {
            0..=6 => (0..1_u32 << self.0).for_each(|_| core::hint::spin_loop()),
            7..=32 => std::thread::yield_now(),
            n => std::thread::sleep(std::time::Duration::from_micros(
                u64::from((n - 32).min(20)) * 50,
            )),
        }
        #[cfg(all(not(loom), not(feature = "std")))]
        (0..1_u32 << self.0.min(10)).for_each(|_| core::hint::spin_loop());
    }
}

/// A clock: nanoseconds since the domain was made, or 0 where there is no clock.
pub(crate) struct Clock {
    #[cfg(feature = "std")]
    start: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(feature = "std")]
            start: std::time::Instant::now(),
        }
    }

    pub(crate) fn nanos(&self) -> u64 {
        #[cfg(feature = "std")]
        return u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        #[cfg(not(feature = "std"))]
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::Mutex;

    /// The lock of programs without an operating system.
    #[test]
    fn a_lock_that_spins() {
        let mut mutex = super::spin::Mutex::<usize>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..500).for_each(|_| *mutex.lock() += 1));
            }
        });
        assert_eq!(*mutex.get_mut(), 1000);
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert_eq!(mutex.try_lock().as_deref(), Some(&1000));
    }

    #[test]
    fn a_failed_attempt_leaves_the_lock_locked() {
        let mutex = Mutex::new(1);
        let mut guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock().is_none());
        *guard += 1;
        drop(guard);
        assert_eq!(mutex.try_lock().as_deref(), Some(&2));
        assert_eq!(*mutex.lock(), 2);
    }
}

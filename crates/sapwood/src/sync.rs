//! Whose atomics, locks and threads the shared map runs on: the standard library's, or a model
//! checker's.
//!
//! - `--cfg loom`: the models of the lock protocol (`lock`), under every order of its memory
//!   accesses.
//! - `--cfg shuttle`: whole maps on threads whose interleaving is chosen by a scheduler. Nodes lie
//!   in plain memory, so their atomics stay `core`'s, and [`point`] tells the scheduler that one is
//!   about to be touched.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};
#[cfg(shuttle)]
pub(crate) use {
    core::sync::atomic::{AtomicU32, Ordering},
    shuttle::sync::{Condvar, Mutex, MutexGuard},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use {
    core::sync::atomic::{AtomicU32, Ordering},
    std::sync::{Condvar, Mutex, MutexGuard},
};

/// A place where a scheduler may let another thread run: before an access to memory that others
/// change.
#[inline(always)]
pub(crate) fn point() {
    #[cfg(shuttle)]
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

/// Lets other threads run while this one waits for them.
#[inline(always)]
pub(crate) fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    core::hint::spin_loop();
}

/// Lets another thread run that this one needs a step of.
pub(crate) fn wait() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    std::thread::yield_now();
}

/// The guard of a lock, whether or not a thread panicked while it held it: what these locks guard
/// is whole at every step that can unwind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// As [`lock`], when it can be had at once.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

//! The atomics, locks and threads that the structures use: the standard library's, or a model
//! checker's.
//!
//! - `--cfg loom`: the models of the lock protocol (`lock`), under every order of its memory
//!   accesses.
//! - `--cfg shuttle`: whole maps on threads whose interleaving is chosen by a scheduler. Nodes lie
//!   in plain memory, so their atomics stay `core`'s, and [`point`] tells the scheduler that one is
//!   about to be touched.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicUsize;

pub use super::points::*;

#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
pub use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};
/// Without a system, locks that spin.
#[cfg(not(any(loom, shuttle, feature = "std")))]
pub use sapwood_qsbr::spin::{Mutex, MutexGuard};
#[cfg(all(feature = "std", not(any(loom, shuttle))))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(shuttle)]
pub use {
    core::sync::atomic::{AtomicU32, Ordering},
    shuttle::sync::{Condvar, Mutex, MutexGuard},
};

/// Lets other threads run while this one waits for them.
#[inline(always)]
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    core::hint::spin_loop();
}

/// Lets another thread run, because this one needs a step of it.
pub fn wait() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(all(feature = "std", not(any(loom, shuttle))))]
    std::thread::yield_now();
    #[cfg(not(any(loom, shuttle, feature = "std")))]
    core::hint::spin_loop();
}

/// Locks a mutex, also after a thread panicked while it held the lock: the data of these locks is
/// whole at every step that can unwind.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(any(loom, shuttle, feature = "std"))]
    return mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    #[cfg(not(any(loom, shuttle, feature = "std")))]
    mutex.lock()
}

/// The data of a lock that nobody else can reach.
pub fn get_mut<T>(mutex: &mut Mutex<T>) -> &mut T {
    #[cfg(any(loom, shuttle, feature = "std"))]
    return mutex
        .get_mut()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    #[cfg(not(any(loom, shuttle, feature = "std")))]
    mutex.get_mut()
}

/// As [`lock`], but returns `None` when the lock is held.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    #[cfg(any(loom, shuttle, feature = "std"))]
    return match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    };
    #[cfg(not(any(loom, shuttle, feature = "std")))]
    mutex.try_lock()
}

/// The lock of a structure with one writer at a time. Users may hold it for long, in a transaction,
/// a writer or a reservation. A thread that would wait for itself panics. Without the feature `std`
/// threads cannot be told apart, and it waits for ever.
pub struct WriterLock<T> {
    /// [`this_thread`] of the thread that holds the lock, or 0.
    owner: AtomicUsize,
    inner: Mutex<T>,
}

impl<T> WriterLock<T> {
    pub fn new(value: T) -> Self {
        WriterLock {
            owner: AtomicUsize::new(0),
            inner: Mutex::new(value),
        }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// When this thread holds it.
    #[track_caller]
    pub fn lock(&self) -> WriterGuard<'_, T> {
        assert!(
            !self.is_held_here(),
            "this thread is changing the same structure already (a transaction, writer or \
             reservation of its own is open): it would wait for itself. End that one first"
        );
        self.guard(lock(&self.inner))
    }

    /// Whether this thread holds the lock.
    pub fn is_held_here(&self) -> bool {
        // Relaxed: a thread finds its own mark if and only if it holds the lock.
        let here = this_thread();
        here != 0 && self.owner.load(Ordering::Relaxed) == here
    }

    /// As [`lock`](Self::lock), but returns `None` when the lock is held.
    pub fn try_lock(&self) -> Option<WriterGuard<'_, T>> {
        try_lock(&self.inner).map(|inner| self.guard(inner))
    }

    fn guard<'a>(&'a self, inner: MutexGuard<'a, T>) -> WriterGuard<'a, T> {
        let owner = &self.owner;
        owner.store(this_thread(), Ordering::Relaxed);
        WriterGuard { owner, inner }
    }

    /// The data of a lock that nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        get_mut(&mut self.inner)
    }
}

/// The guard of a [`WriterLock`]. It stays on its thread.
pub struct WriterGuard<'a, T> {
    owner: &'a AtomicUsize,
    inner: MutexGuard<'a, T>,
}

impl<T> Deref for WriterGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for WriterGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for WriterGuard<'_, T> {
    fn drop(&mut self) {
        // The lock itself is released afterwards.
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// A number of this thread, not 0, that no other thread has while this one runs: the address of a
/// variable of its own. 0 without the feature `std`.
#[inline]
pub fn this_thread() -> usize {
    #[cfg(loom)]
    loom::thread_local!(static HERE: u8 = 0);
    #[cfg(shuttle)]
    shuttle::thread_local!(static HERE: u8 = 0);
    #[cfg(all(feature = "std", not(any(loom, shuttle))))]
    std::thread_local!(static HERE: u8 = const { 0 });
    #[cfg(any(loom, shuttle, feature = "std"))]
    return HERE.with(|here| core::ptr::from_ref(here).addr());
    #[cfg(not(any(loom, shuttle, feature = "std")))]
    0
}

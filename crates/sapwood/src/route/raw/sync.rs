//! Whose atomics and locks the cache runs on: the standard library's, or a scheduler's that tries interleavings.

#[cfg(all(feature = "std", shuttle))]
pub(crate) use shuttle::sync::{Condvar, Mutex};
#[cfg(all(feature = "std", not(shuttle)))]
pub(crate) use std::sync::{Condvar, Mutex};

/// A place where a scheduler may let another thread run: before an access to a word that others change.
#[inline(always)]
pub(crate) fn point() {
    #[cfg(shuttle)]
    shuttle::sync::atomic::AtomicBool::new(false).load(core::sync::atomic::Ordering::SeqCst);
}

/// Lets other threads go on while this one waits for them, for the `n`th time.
#[inline]
pub(crate) fn spin(n: u32) {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(all(feature = "std", not(shuttle)))]
    if n > 64 {
        std::thread::yield_now();
    }
    let _ = n;
    core::hint::spin_loop();
}

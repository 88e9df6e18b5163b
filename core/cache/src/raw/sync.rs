//! The atomics and locks that the cache uses: the standard library's, or those of a scheduler that
//! tries interleavings.

#[cfg(feature = "std")]
pub(crate) use crate::sync::{Condvar, Mutex, lock, point};

#[cfg(not(feature = "std"))]
pub(crate) fn point() {}

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

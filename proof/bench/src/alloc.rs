//! The counting allocator: how many bytes the engines hold, malloc's rounding and headers included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The system allocator. It counts while [`counted`] runs; otherwise each call costs one load and
/// one branch more.
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// glibc keeps the size of each block in one word before it; `malloc_usable_size` does not include
/// that word.
const CHUNK_HEADER: i64 = 8;

// SAFETY: every call is passed on to `System` unchanged; counting neither allocates nor touches the
// blocks.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `System` asks for the same promise that our caller makes.
        let block = unsafe { System.alloc(layout) };
        // SAFETY: the block is null or live.
        unsafe { count(block, 1) };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a live block.
        unsafe { count(block, -1) };
        // SAFETY: `System` asks for the same promise that our caller makes.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `System` asks for the same promise that our caller makes.
        let block = unsafe { System.alloc_zeroed(layout) };
        // SAFETY: the block is null or live.
        unsafe { count(block, 1) };
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller passes a live block.
        unsafe { count(block, -1) };
        // SAFETY: `System` asks for the same promise that our caller makes.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        // A failed realloc leaves the old block as it was.
        let live = if moved.is_null() { block } else { moved };
        // SAFETY: the block is live.
        unsafe { count(live, 1) };
        moved
    }
}

/// Adds (`sign` 1) or subtracts (-1) the size of a block while the allocator counts.
///
/// # Safety
///
/// `block` is null or a live block of `System`.
unsafe fn count(block: *mut u8, sign: i64) {
    if ON.load(Relaxed) && !block.is_null() {
        // SAFETY: `System` is malloc, and the block is live.
        let usable = unsafe { libc::malloc_usable_size(block.cast()) };
        LIVE.fetch_add(sign * (usable as i64 + CHUNK_HEADER), Relaxed);
    }
}

/// Runs `build` and returns how many bytes it left allocated, on all threads. Calls must not be
/// nested.
pub fn counted<T>(build: impl FnOnce() -> T) -> (T, i64) {
    LIVE.store(0, Relaxed);
    ON.store(true, Relaxed);
    let built = build();
    ON.store(false, Relaxed);
    (built, LIVE.load(Relaxed))
}

/// Gives free memory back to the system, so that each engine starts from a similar heap.
pub fn trim() {
    // SAFETY: malloc_trim takes no pointers and may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn rounding_and_headers_count() {
        // Other tests run beside this one, and the count includes what their threads allocate and
        // free. The test therefore repeats short attempts until one is undisturbed. It does not
        // write to the block, so that an attempt is short. A count that is wrong is wrong in every
        // attempt.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (block, bytes) = counted(|| black_box(Vec::<u8>::with_capacity(10_000_001)));
            drop(block);
            if (10_000_001..10_400_000).contains(&bytes) {
                break;
            }
            assert!(Instant::now() < deadline, "{bytes} bytes");
        }
    }
}

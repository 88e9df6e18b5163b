//! The counting allocator of the unit tests, and the test that a cache allocates nothing after
//! construction.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::route::RouteCache;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has asked for memory.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call is passed on to `System` as it came; the count is a thread's own, and has no
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the one that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[test]
fn nothing_is_allocated_after_construction() {
    for single_flight in [false, true] {
        let before = ALLOCATIONS.get();
        let cache = RouteCache::<u64, [u64; 4]>::builder()
            .capacity(40)
            .seed(1)
            .negative_ttl(core::time::Duration::from_millis(1))
            .single_flight(single_flight)
            .build();
        assert!(ALLOCATIONS.get() > before, "the allocator counts");
        let before = ALLOCATIONS.get();
        let mut now = 0;
        for i in 0..1000u64 {
            let key = i % 150;
            let hash = cache.hash(&key);
            let answer = cache.get_or_resolve(&key, hash, now, |k| match k % 3 {
                0 => Err(()),
                _ => Ok([i; 4]),
            });
            assert_eq!(answer.is_ok(), key % 3 != 0);
            let _ = cache.get(&(key + 1), now);
            now += 1_000_000;
            match i % 90 {
                3 => cache.insert(&key, hash, now, [0; 4]),
                4 => assert!(cache.sweep(now, 50) <= 64),
                5 => cache.invalidate_all(),
                6 => now -= 1_500_000,
                7 => assert!(!cache.invalidate(&1000)),
                _ => {}
            }
        }
        let stats = cache.stats();
        assert_eq!(ALLOCATIONS.get(), before, "{stats:?}");
        assert!(stats.evict > 0 && stats.swept > 0 && stats.clock_back > 0);
    }
}

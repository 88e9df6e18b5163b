//! The test that a cache allocates nothing after construction.

use sapwood_model::allocations::{Counting, allocations};

use crate::RouteCache;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_after_construction() {
    for single_flight in [false, true] {
        let before = allocations();
        let cache = RouteCache::<u64, [u64; 4]>::builder()
            .capacity(40)
            .seed(1)
            .negative_ttl(core::time::Duration::from_millis(1))
            .single_flight(single_flight)
            .build();
        assert!(allocations() > before, "the allocator counts");
        let mut reader = cache.reader();
        let before = allocations();
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
            let _ = reader.get(&(key % 7), now);
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
        assert_eq!(allocations(), before, "{stats:?}");
        assert!(stats.evict > 0 && stats.swept > 0 && stats.clock_back > 0);
    }
}

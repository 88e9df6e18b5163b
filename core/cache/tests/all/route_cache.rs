//! The route cache with one thread: compared with a naive oracle, by its rules of time, and at its
//! limits. `SAPWOOD_OPS` sets the number of operations of the long tests.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::support::route_cache::{FRESH, KEEP, Key, MS, builder, key, run_cache};
use sapwood::route::{Lookup, RouteCache, Unresolved};

fn ops(usual: u64) -> u64 {
    std::env::var("SAPWOOD_OPS").map_or(usual, |n| n.parse().expect("a number"))
}

type Cache = RouteCache<Key, [u64; 4]>;

/// Looks a key up with a resolver that never fails; returns the answer and whether the resolver was
/// called.
fn ask(cache: &Cache, key: Key, now: u64, value: [u64; 4]) -> ([u64; 4], bool) {
    let mut called = false;
    let answer = cache.get_or_resolve(&key, cache.hash(&key), now, |_| {
        called = true;
        Ok::<_, Infallible>(value)
    });
    (answer.unwrap(), called)
}

#[test]
fn ages() {
    let cache = builder(8).build();
    let start = 77;
    assert_eq!(ask(&cache, key(1), start, [1; 4]), ([1; 4], true));
    for now in [start, start + 1, start + FRESH - 1] {
        assert_eq!(ask(&cache, key(1), now, [2; 4]), ([1; 4], false));
        assert_eq!(cache.get(&key(1), now), Some([1; 4]));
    }
    let now = start + FRESH;
    assert_eq!(cache.get(&key(1), now), None);
    assert_eq!(cache.sweep(now, 8), 0);
    assert_eq!(ask(&cache, key(1), now, [2; 4]), ([2; 4], true));
    let stats = cache.stats();
    assert_eq!((stats.hit, stats.miss, stats.stale), (6, 3, 2));
    assert_eq!((stats.insert, stats.refresh, stats.occupancy), (1, 1, 1));
    // Two timers: the entry is kept long after it stops being fresh.
    assert_eq!(cache.sweep(now + KEEP - 1, 8), 0);
    assert_eq!(cache.sweep(now + KEEP, 8), 1);
    assert_eq!((cache.stats().swept, cache.occupancy()), (1, 0));
    cache.verify().unwrap();
}

#[test]
fn age_counts_from_before_the_resolver() {
    // A resolver that takes longer than the lifetime of an answer: the answer is returned, but is
    // already stale.
    let cache = builder(8).build();
    let clock = std::cell::Cell::new(1000);
    let slow = |_: &Key| {
        clock.set(clock.get() + FRESH);
        Ok::<_, Infallible>([clock.get(); 4])
    };
    let hash = cache.hash(&key(1));
    let mut before = 0;
    for _ in 0..10 {
        let [answer, ..] = cache
            .get_or_resolve(&key(1), hash, clock.get(), slow)
            .unwrap();
        assert!(answer > before, "a stale answer was returned again");
        before = answer;
    }
    assert_eq!((cache.stats().hit, cache.stats().refresh), (0, 9));
}

#[test]
fn errors_are_not_cached_unless_asked() {
    for ttl in [None, Some(Duration::from_millis(5))] {
        let mut builder = builder(8);
        if let Some(ttl) = ttl {
            builder = builder.negative_ttl(ttl);
        }
        let cache = builder.build();
        let hash = cache.hash(&key(1));
        let fail = |now| cache.get_or_resolve(&key(1), hash, now, |_| Err("down"));
        assert_eq!(fail(MS), Err(Unresolved::Error("down")));
        if ttl.is_none() {
            assert_eq!(fail(MS), Err(Unresolved::Error("down")));
            let stats = cache.stats();
            assert_eq!((stats.error, stats.occupancy, stats.negative), (2, 0, 0));
            continue;
        }
        assert_eq!(fail(6 * MS - 1), Err(Unresolved::Negative));
        assert_eq!(cache.lookup(&key(1), hash, 6 * MS - 1), Lookup::Negative);
        assert_eq!(cache.get(&key(1), 6 * MS - 1), None);
        // A later lookup resolves again, and the answer takes the slot.
        assert_eq!(cache.lookup(&key(1), hash, 6 * MS), Lookup::Absent);
        assert_eq!(ask(&cache, key(1), 6 * MS, [3; 4]), ([3; 4], true));
        let stats = cache.stats();
        assert_eq!((stats.error, stats.negative, stats.hit), (1, 3, 3));
        assert_eq!((stats.miss, stats.insert, stats.refresh), (3, 1, 1));
        // A failure replaces a stale answer, and is swept soon.
        let late = 6 * MS + FRESH;
        assert_eq!(fail(late), Err(Unresolved::Error("down")));
        assert_eq!(cache.sweep(late + 5 * MS, 8), 1);
        cache.verify().unwrap();
    }
}

#[test]
fn a_failure_leaves_the_old_entry_old() {
    let cache = builder(8).build();
    ask(&cache, key(1), MS, [1; 4]);
    let hash = cache.hash(&key(1));
    let now = MS + FRESH;
    assert_eq!(
        cache.get_or_resolve(&key(1), hash, now, |_| Err(1)),
        Err(Unresolved::Error(1))
    );
    assert_eq!(cache.get(&key(1), now), None);
    assert_eq!(cache.occupancy(), 1);
}

#[test]
fn a_panic_leaves_the_cache_usable() {
    for single_flight in [false, true] {
        let cache = builder(8).single_flight(single_flight).build();
        let hash = cache.hash(&key(1));
        for _ in 0..3 {
            let panicking = || {
                cache.get_or_resolve(&key(1), hash, MS, |_| -> Result<_, ()> {
                    panic!("the resolver panics")
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
            cache.verify().unwrap();
        }
        assert_eq!(ask(&cache, key(1), MS, [1; 4]), ([1; 4], true));
        assert_eq!(ask(&cache, key(1), MS, [2; 4]), ([1; 4], false));
        assert_eq!((cache.stats().miss, cache.stats().hit), (4, 1));
    }
}

#[test]
fn what_happens_while_a_resolver_runs() {
    type Meanwhile = fn(&Cache);
    let cases: [(Meanwhile, Option<[u64; 4]>); 5] = [
        (|_| {}, Some([1; 4])),
        (|cache| cache.invalidate_all(), None),
        (|cache| assert!(!cache.invalidate(&key(1))), None),
        // An explicit insertion is newer than an answer that is being resolved.
        (
            |cache| cache.insert(&key(1), cache.hash(&key(1)), MS, [9; 4]),
            Some([9; 4]),
        ),
        // A resolver that began later and ended earlier.
        (
            |cache| assert_eq!(ask(cache, key(1), MS + 1, [8; 4]), ([8; 4], true)),
            Some([8; 4]),
        ),
    ];
    for (at, (meanwhile, left)) in cases.into_iter().enumerate() {
        let cache = builder(8).build();
        let answer = cache.get_or_resolve(&key(1), cache.hash(&key(1)), MS, |_| {
            meanwhile(&cache);
            Ok::<_, ()>([1; 4])
        });
        assert_eq!(
            answer,
            Ok([1; 4]),
            "the resolver's answer is returned in any case"
        );
        assert_eq!(cache.get(&key(1), MS + 1), left, "case {at}");
        assert_eq!(cache.stats().overtaken, u64::from(at > 0));
        cache.verify().unwrap();
    }
}

#[test]
fn invalidation() {
    let cache = builder(64).build();
    for n in 0..20 {
        ask(&cache, key(n), MS, [n; 4]);
    }
    assert!(cache.invalidate(&key(3)));
    assert!(!cache.invalidate(&key(3)));
    assert_eq!((cache.get(&key(3), MS), cache.occupancy()), (None, 19));
    cache.invalidate_all();
    assert!((0..20).all(|n| cache.get(&key(n), MS).is_none()));
    assert!(!cache.invalidate(&key(4)), "the key is already removed");
    assert_eq!(ask(&cache, key(5), MS, [50; 4]), ([50; 4], true));
    assert_eq!(cache.get(&key(5), MS), Some([50; 4]));
    cache.verify().unwrap();
    cache.sweep(MS, 64);
    assert_eq!((cache.occupancy(), cache.stats().invalidated), (1, 20));
    cache.verify().unwrap();
}

#[test]
fn capacities() {
    for capacity in [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 100, 1021] {
        let cache = builder(capacity).build();
        assert_eq!(cache.capacity(), capacity);
        let n = 3 * capacity as u64 + 5;
        for i in 0..n {
            assert_eq!(ask(&cache, key(i), MS, [i; 4]), ([i; 4], true));
            let again = ask(&cache, key(i), MS, [i; 4]);
            assert_eq!(again, ([i; 4], capacity == 0));
        }
        cache.insert(&key(n), cache.hash(&key(n)), MS, [n; 4]);
        assert_eq!(cache.get(&key(n), MS).is_some(), capacity > 0);
        let stats = cache.stats();
        // Every slot is used, and no more entries than slots exist.
        assert!(stats.occupancy <= capacity && stats.occupancy * 10 >= capacity * 9);
        let hits = if capacity == 0 { 0 } else { n + 1 };
        assert_eq!((stats.hit, stats.hit + stats.miss), (hits, 2 * n + 1));
        assert_eq!(stats.full, stats.evict);
        cache.verify().unwrap();
        cache.sweep(MS + KEEP, capacity);
        assert_eq!(cache.occupancy(), 0);
        assert!(!cache.invalidate(&key(n)));
        cache.verify().unwrap();
    }
}

#[test]
fn hash_of_the_callers() {
    // The worst possible hash: one set, one tag.
    let cache = builder(64).build();
    for n in 0..100 {
        cache.insert(&key(n), 0, MS, [n; 4]);
        assert_eq!(cache.get_hashed(&key(n), 0, MS), Some([n; 4]));
    }
    let there = (0..100).filter(|n| cache.get_hashed(&key(*n), 0, MS) == Some([*n; 4]));
    assert_eq!(there.count(), 16);
    assert!(cache.invalidate_hashed(&key(99), 0));
    assert_eq!(cache.get_hashed(&key(99), 0, MS), None);
    cache.verify().unwrap();
}

#[test]
fn what_was_hit_stays() {
    // Eight hot keys in a stream of others: nearly all lookups of the hot keys hit.
    let cache = builder(64).build();
    let mut hits = 0;
    let n = ops(20_000).min(20_000);
    for i in 0..n {
        let hot = key(i % 8);
        hits += u64::from(!ask(&cache, hot, MS, [1; 4]).1);
        assert!(ask(&cache, key(1000 + i), MS, [2; 4]).1);
    }
    assert!(hits * 100 >= n * 95, "{hits} of {n}");
    cache.verify().unwrap();
}

#[test]
fn hot_keys_after_hostile_ones() {
    // The workload of the suite: 16,384 keys that never come again, then 80 % of 4,096 hot keys and
    // 20 % new ones.
    if cfg!(miri) {
        return;
    }
    let cache = builder(8192).build();
    let mut fresh = 1 << 32;
    let mut one_shot = || {
        fresh += 1;
        key(fresh)
    };
    for _ in 0..16_384 {
        ask(&cache, one_shot(), MS, [0; 4]);
    }
    let mut rng = fastrand::Rng::with_seed(4);
    let (mut hits, n) = (0, 200_000);
    for _ in 0..n {
        let key = match rng.u8(0..5) {
            0 => one_shot(),
            _ => key(rng.u64(0..4096)),
        };
        hits += u64::from(!ask(&cache, key, MS, [0; 4]).1);
    }
    let rate = hits as f64 / f64::from(n);
    assert!(rate >= 0.77, "{rate}");
    cache.verify().unwrap();
}

/// Eight keys in eight slots, so that nothing is ever evicted: every answer is the oracle's.
#[test]
fn differential() {
    let n = ops(200_000);
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let stats = run_cache(builder(8), 8, 8, &mut rng, n / 4, 64);
        assert!(stats.clock_back > 0 || n < 10_000);
    }
}

/// More keys than slots: an answer is the oracle's, or absent.
#[test]
fn differential_with_evictions() {
    let n = ops(200_000);
    for (seed, capacity) in [8, 16, 20, 33].into_iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let stats = run_cache(builder(capacity), capacity, 40, &mut rng, n / 8, 64);
        assert!(stats.evict > 0 || n < 10_000);
    }
}

#[test]
fn a_clock_that_steps_back() {
    for back in [1, MS, FRESH - 1, FRESH, KEEP - 1, KEEP, 50 * KEEP] {
        let cache = builder(8).build();
        let now = 100 * KEEP;
        ask(&cache, key(1), now, [1; 4]);
        assert_eq!(cache.get(&key(1), now + 1), Some([1; 4]));
        // The age is unknown, so the answer is not returned again, now or later.
        for later in [0, 1, FRESH / 2, back, back + FRESH / 2] {
            assert_eq!(cache.get(&key(1), now + 1 - back + later), None, "{back}");
        }
        // New answers have the usual lifetime.
        let now = now + FRESH + 1;
        assert_eq!(ask(&cache, key(1), now, [2; 4]), ([2; 4], true));
        assert_eq!(cache.get(&key(1), now + FRESH - 1), Some([2; 4]));
        assert_eq!(cache.get(&key(1), now + FRESH), None);
        cache.verify().unwrap();
    }
}

#[test]
fn the_ends_of_time() {
    let cache = builder(8).build();
    for now in [
        0,
        1,
        u64::MAX / 2 - 5,
        u64::MAX / 2 + 5,
        u64::MAX - 1,
        u64::MAX,
    ] {
        assert_eq!(ask(&cache, key(1), now, [now; 4]).0.len(), 4);
        cache.sweep(now, 8);
        cache.verify().unwrap();
    }
    assert_eq!(ask(&cache, key(1), 0, [7; 4]), ([7; 4], true));
    assert_eq!(cache.get(&key(1), FRESH), None);
}

/// A day on a simulated clock: keys come and go, memory stays bounded, counters agree.
#[test]
fn a_day() {
    let n = ops(300_000);
    let day = 24 * 3600 * 1000 * MS;
    let cache = builder(1000).build();
    let (memory, mut rng) = (cache.memory(), fastrand::Rng::with_seed(9));
    let (mut gets, mut calls) = (0u64, 0u64);
    for i in 0..n {
        // Bursts: a thousand operations within a second, then a pause.
        let now = day / n.div_ceil(1000) * (i / 1000) + MS * (i % 1000) + 1;
        let k = match rng.u8(0..10) {
            0 => rng.u64(..),
            _ => rng.u64(0..800),
        };
        let hash = cache.hash(&key(k));
        match rng.u8(0..100) {
            0 => assert!(cache.sweep(now, 100) <= 112),
            1 => drop(cache.invalidate(&key(k))),
            2 if rng.u8(0..20) == 0 => cache.invalidate_all(),
            3..=10 => {
                gets += 1;
                if let Some([of, at, ..]) = cache.get(&key(k), now) {
                    assert!(of == k && now - at < FRESH);
                }
            }
            _ => {
                gets += 1;
                let answer = cache.get_or_resolve(&key(k), hash, now, |_| {
                    calls += 1;
                    if k % 50 == 0 {
                        Err(())
                    } else {
                        Ok([k, now, 0, 0])
                    }
                });
                match answer {
                    Ok([of, at, ..]) => assert!(of == k && now - at < FRESH && k % 50 != 0),
                    Err(error) => assert!(error == Unresolved::Error(()) && k % 50 == 0),
                }
            }
        }
        if i % (n / if cfg!(miri) { 2 } else { 50 } + 1) == 0 {
            cache.verify().unwrap();
        }
    }
    cache.verify().unwrap();
    let stats = cache.stats();
    assert_eq!(stats.hit + stats.miss, gets, "{stats:?}");
    assert!(calls <= stats.miss && stats.refresh + stats.insert + stats.error == calls);
    assert_eq!(cache.memory(), memory);
    assert!(
        n < 10_000
            || [stats.hit, stats.swept, stats.evict, stats.stale]
                .iter()
                .all(|n| *n > 0)
    );
}

/// A time of more than 73 years counts as 73 years: entries are fresh until then and not after.
#[test]
fn a_time_beyond_the_longest_counts_as_the_longest() {
    const LONGEST: u64 = 1 << 61;
    for time in [Duration::from_nanos(LONGEST), Duration::MAX] {
        let cache = builder(8).fresh(time).keep(Duration::MAX).build();
        let hash = cache.hash(&key(1));
        cache.insert(&key(1), hash, MS, [7; 4]);
        assert_eq!(cache.get(&key(1), MS + LONGEST - 1), Some([7; 4]));
        assert_eq!(cache.get(&key(1), MS + LONGEST), None);
        cache.verify().unwrap();
    }
}

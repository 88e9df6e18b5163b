//! The route cache with many threads: entries are whole and fresh, and none is older than an
//! invalidation. `SAPWOOD_OPS` sets the number of operations of all threads of a test.
#![cfg(not(shuttle))]

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use sapwood::route::{RouteCache, Unresolved};

const MS: u64 = 1_000_000;
const FRESH: u64 = 100 * MS;

type Cache = RouteCache<(u64, u32), [u64; 4]>;

fn ops(usual: u64) -> u64 {
    let ops = std::env::var("SAPWOOD_OPS").map_or(usual, |n| n.parse().expect("a number"));
    if cfg!(miri) {
        ops.min(300)
    } else {
        ops.min(usual)
    }
}

/// A value in which a mix of two values can be recognized.
fn value(key: u64, time: u64) -> [u64; 4] {
    let mixed = (key ^ time.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [key, time, mixed, !mixed]
}

fn whole(value: [u64; 4], of: u64) -> bool {
    value[0] == of && value == self::value(of, value[1])
}

fn ask(cache: &Cache, key: u64, now: u64, value: [u64; 4]) -> [u64; 4] {
    let full = (key, key as u32);
    let hash = cache.hash(&full);
    let answer = cache.get_or_resolve(&full, hash, now, |_| Ok::<_, Infallible>(value));
    answer.unwrap()
}

/// Four threads look up, get, insert, invalidate and sweep by one running clock. No answer is torn,
/// and none is older than `fresh`, counted from the time at which the calling thread read the
/// clock, before its resolver was called.
fn by_a_running_clock(threads: usize) {
    let cache = Cache::builder().capacity(100).threads(threads).build();
    let clock = AtomicU64::new(1);
    let (asked, n) = (AtomicU64::new(0), ops(120_000) / 4);
    thread::scope(|scope| {
        for id in 0..4 {
            let (cache, clock, asked) = (&cache, &clock, &asked);
            scope.spawn(move || {
                let mut reader = cache.reader();
                let mut rng = fastrand::Rng::with_seed(id);
                for _ in 0..n {
                    clock.fetch_add(rng.u64(0..MS / 2), SeqCst);
                    let key = rng.u64(0..150);
                    let full = (key, key as u32);
                    let now = clock.load(SeqCst);
                    match rng.u8(0..100) {
                        0 => drop(cache.invalidate(&full)),
                        1 => drop(cache.sweep(now, 32)),
                        2 if rng.u8(0..20) == 0 => cache.invalidate_all(),
                        3..=6 => cache.insert(&full, cache.hash(&full), now, value(key, now)),
                        kind @ 7..=60 => {
                            asked.fetch_add(1, SeqCst);
                            let found = match kind % 2 {
                                0 => cache.get(&full, now),
                                _ => reader.get(&full, now),
                            };
                            if let Some(found) = found {
                                assert!(whole(found, key), "{key}: {found:?}");
                                assert!(now.saturating_sub(found[1]) < FRESH);
                            }
                        }
                        _ => {
                            asked.fetch_add(1, SeqCst);
                            let found = ask(cache, key, now, value(key, now));
                            assert!(whole(found, key), "{key}: {found:?}");
                            assert!(now.saturating_sub(found[1]) < FRESH);
                        }
                    }
                }
            });
        }
    });
    cache.verify().unwrap();
    let stats = cache.stats();
    assert_eq!(stats.hit + stats.miss, asked.into_inner(), "{stats:?}");
    assert!(stats.hit > 0 || n < 1000);
}

#[test]
fn counters_of_their_own() {
    by_a_running_clock(256);
}

#[test]
fn shared_counters() {
    by_a_running_clock(0);
}

/// The truth changes, and the cache is then invalidated. A lookup that begins after that never
/// returns an earlier truth, whatever resolvers were running.
#[test]
fn invalidation_races_resolvers() {
    for everything in [false, true] {
        let cache = Cache::builder().capacity(64).threads(256).build();
        let truth: Vec<_> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let told: Vec<_> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let n = ops(60_000) / 4;
        thread::scope(|scope| {
            for id in 0..3 {
                let (cache, truth, told) = (&cache, &truth, &told);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(id);
                    for _ in 0..n {
                        let key = rng.u64(0..4);
                        let least = told[key as usize].load(SeqCst);
                        let full = (key, 0);
                        let hash = cache.hash(&full);
                        let answer = cache.get_or_resolve(&full, hash, 5, |_| {
                            let now = truth[key as usize].load(SeqCst);
                            // Some resolvers are slow.
                            if rng.u8(0..8) == 0 {
                                thread::yield_now();
                            }
                            Ok::<_, Infallible>(value(key, now))
                        });
                        let found = answer.unwrap();
                        assert!(whole(found, key) && found[1] >= least, "{found:?} {least}");
                    }
                });
            }
            for version in 1..=n / 4 {
                let key = version % 4;
                truth[key as usize].store(version, SeqCst);
                if everything {
                    cache.invalidate_all();
                } else {
                    cache.invalidate(&(key, 0));
                }
                told[key as usize].store(version, SeqCst);
                if version % 8 == 0 {
                    thread::yield_now();
                }
            }
        });
        cache.verify().unwrap();
    }
}

/// Entries are removed and replaced while others look them up again and again. A lookup, also one
/// that the front of a reader answers, never returns an entry older than a removal or insertion
/// that came before it.
#[test]
fn fronts_beside_writers() {
    for kind in 0..3 {
        let cache = Cache::builder().capacity(64).threads(256).build();
        let told: Vec<_> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let store = |key: u64, version: u64| {
            let full = (key, 0);
            cache.insert(&full, cache.hash(&full), 5, value(key, version));
        };
        (0..4).for_each(|key| store(key, 0));
        let (n, done, hits) = (ops(60_000) / 4, AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for id in 0..2 {
                let (cache, told, done, hits) = (&cache, &told, &done, &hits);
                scope.spawn(move || {
                    let mut reader = cache.reader();
                    let mut rng = fastrand::Rng::with_seed(id);
                    while done.load(SeqCst) == 0 {
                        let key = rng.u64(0..4);
                        let least = told[key as usize].load(SeqCst);
                        if let Some(found) = reader.get(&(key, 0), 5) {
                            hits.fetch_add(1, SeqCst);
                            assert!(whole(found, key) && found[1] >= least, "{found:?} {least}");
                        }
                    }
                });
            }
            for version in 1..=n {
                let key = version % 4;
                match kind {
                    0 => store(key, version),
                    1 => {
                        cache.invalidate(&(key, 0));
                        told[key as usize].store(version, SeqCst);
                        store(key, version);
                    }
                    _ => {
                        cache.invalidate_all();
                        told.iter().for_each(|told| told.store(version, SeqCst));
                        (0..4).for_each(|key| store(key, version));
                    }
                }
                told[key as usize].store(version, SeqCst);
                // The readers' fronts are asked meanwhile.
                if version % 64 == 0 {
                    let seen = hits.load(SeqCst);
                    while hits.load(SeqCst) < seen + 32 {
                        thread::yield_now();
                    }
                }
            }
            done.store(1, SeqCst);
        });
        cache.verify().unwrap();
        let stats = cache.stats();
        assert_eq!(stats.hit, hits.into_inner(), "{stats:?}");
    }
}

/// No key has two resolvers at once, however many keys are looked up at the same time.
#[test]
fn single_flight_of_many_keys() {
    let keys = if cfg!(miri) { 100 } else { 10_000 };
    let cache = Cache::builder()
        .capacity(keys / 10)
        .threads(16)
        .single_flight(true)
        .build();
    let inside: Vec<_> = (0..keys).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for seed in 0..8 {
            let (cache, inside) = (&cache, &inside);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..keys {
                    // Many threads look up the same few keys.
                    let at = random.usize(..keys) & random.usize(..keys);
                    let key = (at as u64, at as u32);
                    let answer = cache.get_or_resolve(&key, cache.hash(&key), 7, |_| {
                        assert_eq!(inside[at].fetch_add(1, SeqCst), 0, "two at once for {at}");
                        if at % 3 == 0 {
                            thread::yield_now();
                        }
                        inside[at].fetch_sub(1, SeqCst);
                        Ok::<_, ()>(value(at as u64, 7))
                    });
                    assert_eq!(answer.unwrap(), value(at as u64, 7));
                }
            });
        }
    });
    cache.verify().unwrap();
}

/// The resolver is called once for all threads that look up at once. If it fails or panics, one of
/// the waiting threads calls it.
#[test]
fn single_flight() {
    for fails in 0..3usize {
        for panics in [false, true] {
            let cache = Cache::builder().threads(256).single_flight(true).build();
            let (calls, inside) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let barrier = Barrier::new(4);
            let one = || {
                barrier.wait();
                let hash = cache.hash(&(1, 1));
                cache.get_or_resolve(&(1, 1), hash, 7, |_| {
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two at once");
                    let call = calls.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(2));
                    inside.fetch_sub(1, SeqCst);
                    if call >= fails {
                        return Ok(value(1, 7));
                    }
                    assert!(!panics, "the resolver panics");
                    Err("down")
                })
            };
            let answers: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| catch_unwind(AssertUnwindSafe(one))))
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(calls.into_inner(), fails + 1);
            let panicked = answers.iter().filter(|a| a.is_err()).count();
            let failed = answers
                .iter()
                .filter(|a| matches!(a, Ok(Err(Unresolved::Error("down")))))
                .count();
            let right = answers
                .iter()
                .filter(|a| matches!(a, Ok(Ok(found)) if *found == value(1, 7)))
                .count();
            let expected = if panics { (fails, 0) } else { (0, fails) };
            assert_eq!(((panicked, failed), right), (expected, 4 - fails));
            let stats = cache.stats();
            assert_eq!(stats.hit + stats.miss, 4, "{stats:?}");
            assert_eq!(stats.miss, fails as u64 + 1);
            cache.verify().unwrap();
        }
    }
}

/// Threads that start and end take over the counters and the clocks of earlier threads.
#[test]
fn many_short_threads() {
    let cache = Cache::builder().threads(256).build();
    let n = if cfg!(miri) { 10 } else { 200 };
    for round in 0..n {
        thread::scope(|scope| {
            for id in 0..3 {
                let cache = &cache;
                scope.spawn(move || ask(cache, id, round * MS + 1, value(id, round)));
            }
        });
    }
    let stats = cache.stats();
    assert_eq!(stats.hit + stats.miss, 3 * n);
    assert_eq!((stats.insert, stats.clock_back), (3, 0), "{stats:?}");
    cache.verify().unwrap();
}

//! Random operations on a route cache, with a clock of the test; the naive oracle checks each
//! answer.
#![allow(dead_code)] // Each test, and the fuzz target, uses only a part of it.

use std::collections::HashMap;
use std::time::Duration;

use sapwood::route::{CacheStats, Lookup, RouteCache, RouteCacheBuilder, Unresolved};
use sapwood_model::choices::Choices;

pub const MS: u64 = 1_000_000;
pub const FRESH: u64 = 100 * MS;
pub const KEEP: u64 = 1000 * MS;

pub type Key = (u128, u32);

/// More threads than tests run at once, so that each thread has its own counters and clock.
pub fn builder(capacity: usize) -> RouteCacheBuilder<Key, [u64; 4]> {
    RouteCache::builder()
        .capacity(capacity)
        .threads(256)
        .seed(1)
}

pub fn key(n: u64) -> Key {
    (u128::from(n) << 64 | 5, n as u32)
}

/// The rules of the cache without slots: any number of entries, one thread.
#[derive(Default)]
struct Oracle {
    entries: HashMap<u64, (u64, Option<[u64; 4]>)>,
    last: u64,
    aged: u64,
}

impl Oracle {
    const NEGATIVE: u64 = 7 * MS;

    fn time(&mut self, now: u64) -> u64 {
        let back = self.last.saturating_sub(now);
        if back >= KEEP {
            self.entries.clear();
        } else if back > 0 {
            self.aged += back + FRESH;
        }
        self.last = now;
        now + self.aged
    }

    fn get(&mut self, key: u64, now: u64) -> Lookup<[u64; 4]> {
        let time = self.time(now);
        match self.entries.get(&key) {
            Some((born, Some(value))) if time - born < FRESH => Lookup::Value(*value),
            Some((born, None)) if time - born < Self::NEGATIVE => Lookup::Negative,
            _ => Lookup::Absent,
        }
    }

    fn sweep(&mut self, now: u64) -> usize {
        let (time, before) = (self.time(now), self.entries.len());
        self.entries.retain(|_, (born, value)| {
            time - *born
                < if value.is_some() {
                    KEEP
                } else {
                    Self::NEGATIVE
                }
        });
        before - self.entries.len()
    }
}

/// The advance of the clock, up to a fraction of a few of the relevant times.
fn ahead(choices: &mut impl Choices, most: u64) -> u64 {
    most / 1024 * choices.below(1024) as u64 + choices.below(16) as u64
}

/// Runs up to `steps` random operations on a cache with `keys` keys, and verifies after each
/// `every`th. Lookups are those of the cache, or of a reader with a front. With at most eight keys,
/// which fit in one set, nothing is ever evicted, and each answer is the oracle's. With more keys,
/// an answer may be absent.
pub fn run_cache(
    builder: RouteCacheBuilder<Key, [u64; 4]>,
    capacity: usize,
    keys: usize,
    choices: &mut impl Choices,
    steps: u64,
    every: u64,
) -> CacheStats {
    let cache = builder
        .negative_ttl(Duration::from_nanos(Oracle::NEGATIVE))
        .build();
    let mut reader = cache.reader();
    let mut oracle = Oracle::default();
    let whole = keys <= capacity && keys <= 8;
    let agree = |found: Lookup<[u64; 4]>, right: Lookup<[u64; 4]>| {
        assert!(
            found == right || !whole && found == Lookup::Absent,
            "{found:?} instead of {right:?}"
        );
    };
    let mut now = 5_000 * MS;
    // The real time, which values contain as the time of their resolution.
    let mut real = 0;
    for step in 0..steps {
        if !choices.more() {
            break;
        }
        let ahead = match choices.below(20) {
            0 => ahead(choices, 3 * FRESH),
            1 => ahead(choices, 2 * KEEP),
            2 => [FRESH - 1, FRESH, KEEP, Oracle::NEGATIVE][choices.below(4)],
            _ => ahead(choices, FRESH / 4),
        };
        now += ahead;
        real += ahead;
        // The clock steps back behind every time that the cache has seen.
        let back = choices.below(200) == 0 && oracle.last > 1;
        if back {
            now = oracle.last - (1 + self::ahead(choices, 2 * KEEP)).min(oracle.last - 1);
        }
        let n = choices.below(keys) as u64;
        let hash = cache.hash(&key(n));
        if back {
            // A lookup shows the cache this time at once, because not every operation passes it the
            // time. By the next operation that does, the clock may have advanced beyond the last
            // time seen; the cache would then not notice the step back.
            let found = match choices.below(2) {
                0 => cache.lookup(&key(n), hash, now),
                _ => reader.lookup(&key(n), hash, now),
            };
            agree(found, oracle.get(n, now));
        }
        let value = [n, real, step, 0];
        match choices.below(100) {
            0 => {
                cache.invalidate_all();
                oracle.entries.clear();
            }
            // Entries from before `invalidate_all` that the cache still holds cannot be told from
            // other entries.
            1..=4 => {
                let there = oracle.entries.remove(&n).is_some();
                let removed = cache.invalidate(&key(n));
                assert!(removed == there || !whole && there);
            }
            5..=9 => {
                let time = oracle.time(now);
                oracle.entries.insert(n, (time, Some(value)));
                cache.insert(&key(n), hash, now, value);
                if capacity > 0 {
                    assert_eq!(cache.get(&key(n), now), Some(value));
                }
            }
            10..=14 => {
                let invalidated = cache.stats().invalidated;
                let removed = cache.sweep(now, capacity);
                let gone = cache.stats().invalidated - invalidated;
                let (removed, right) = (removed - gone as usize, oracle.sweep(now));
                assert!(removed == right || !whole && removed < right);
            }
            15..=26 => agree(cache.lookup(&key(n), hash, now), oracle.get(n, now)),
            27..=39 => {
                // So often that the front has the key afterwards.
                for _ in 0..5 {
                    agree(reader.lookup(&key(n), hash, now), oracle.get(n, now));
                }
            }
            // The front of a new reader does not rest.
            40 => reader = cache.reader(),
            kind => {
                let fails = kind < 50;
                let mut called = false;
                let resolver = |_: &Key| {
                    called = true;
                    if fails { Err(step) } else { Ok(value) }
                };
                let answer = match kind % 2 {
                    0 => cache.get_or_resolve(&key(n), hash, now, resolver),
                    _ => reader.get_or_resolve(&key(n), hash, now, resolver),
                };
                let found = match answer {
                    _ if called => Lookup::Absent,
                    Ok(known) => Lookup::Value(known),
                    Err(_) => Lookup::Negative,
                };
                agree(found, oracle.get(n, now));
                if called {
                    let time = now + oracle.aged;
                    oracle.entries.insert(n, (time, (!fails).then_some(value)));
                    let new = match fails {
                        true => Err(Unresolved::Error(step)),
                        false => Ok(value),
                    };
                    assert_eq!(answer, new);
                }
                if let Ok([of, resolved, ..]) = answer {
                    assert_eq!(of, n);
                    assert!(real - resolved < FRESH, "the entry outlived its lifetime");
                }
            }
        }
        if step % every == 0 {
            cache.verify().unwrap();
        }
    }
    cache.verify().unwrap();
    let stats = cache.stats();
    assert!(stats.occupancy <= capacity);
    assert!(!whole || stats.evict == 0);
    stats
}

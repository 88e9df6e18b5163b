//! The hooks of a cache: every event is told once, as the counters have it, and every value that
//! the cache was given leaves once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use sapwood::route::{CacheHooks, Lookup, RouteCache, Unresolved};

use crate::support::route_cache::{FRESH, KEEP, MS};

/// What the hooks heard.
#[derive(Default)]
struct Heard {
    hit: Cell<u64>,
    miss: Cell<u64>,
    insert: Cell<u64>,
    refresh: Cell<u64>,
    evict: Cell<u64>,
    full: Cell<u64>,
    removed: Cell<u64>,
    /// Values that were given and have not left, with their keys.
    inside: RefCell<BTreeMap<u64, u64>>,
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl CacheHooks<u64, u64> for &Heard {
    fn hit(&self, _: &u64, _: u64) {
        one_more(&self.hit);
    }

    fn miss(&self, _: &u64, _: u64) {
        one_more(&self.miss);
    }

    fn insert(&self, key: &u64, value: Option<&u64>) {
        one_more(&self.insert);
        let inside = self.inside.borrow();
        assert!(value.is_none_or(|value| inside[value] == *key));
    }

    fn refresh(&self, key: &u64, value: Option<&u64>) {
        one_more(&self.refresh);
        let inside = self.inside.borrow();
        assert!(value.is_none_or(|value| inside[value] == *key));
    }

    fn evict(&self, _: &u64, full: bool) {
        one_more(&self.evict);
        self.full.set(self.full.get() + u64::from(full));
    }

    fn remove(&self, _: &u64) {
        one_more(&self.removed);
    }

    fn left(&self, key: &u64, value: u64) {
        let of = self.inside.borrow_mut().remove(&value);
        assert_eq!(
            of,
            Some(*key),
            "value {value} left twice, or from another key"
        );
    }
}

type Heeded<'h> = RouteCache<u64, u64, &'h Heard>;

/// Random operations on few keys; `capacity` decides whether entries are evicted.
fn run(seed: u64, capacity: usize) {
    let heard = Heard::default();
    let cache: Heeded<'_> = RouteCache::builder()
        .capacity(capacity)
        .seed(seed)
        .negative_ttl(Duration::from_millis(5))
        .hooks(&heard)
        .build();
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut now, mut next) = (MS, 0);
    let give = |key| {
        next += 1;
        heard.inside.borrow_mut().insert(next, key);
        next
    };
    let give = RefCell::new(give);
    let give = |key| (give.borrow_mut())(key);
    let operations = if cfg!(miri) { 200 } else { 20_000 };
    for _ in 0..operations {
        let key = rng.u64(0..40);
        let hash = cache.hash(&key);
        now += rng.u64(0..FRESH / 8);
        match rng.u8(0..12) {
            0..=4 => {
                let answer = cache.get_or_resolve(&key, hash, now, |key| match rng.u8(0..8) {
                    0 => Err(()),
                    // While the resolver runs, its answer becomes old.
                    1 => {
                        cache.invalidate(key);
                        Ok(give(*key))
                    }
                    2 => {
                        cache.insert(key, hash, now, give(*key));
                        Ok(give(*key))
                    }
                    _ => Ok(give(*key)),
                });
                if let Ok(value) = answer {
                    // An answer that was not stored has left, and is still the caller's to copy.
                    assert!(
                        heard
                            .inside
                            .borrow()
                            .get(&value)
                            .is_none_or(|of| *of == key)
                    );
                } else {
                    assert!(matches!(
                        answer,
                        Err(Unresolved::Error(()) | Unresolved::Negative)
                    ));
                }
            }
            5..=6 => {
                if let Lookup::Value(value) = cache.lookup(&key, hash, now) {
                    assert_eq!(heard.inside.borrow()[&value], key);
                }
            }
            7 => {
                // The front of a reader tells as the cache does.
                #[cfg(not(miri))]
                let mut reader = cache.reader();
                #[cfg(not(miri))]
                for _ in 0..9 {
                    let _ = reader.get(&key, now);
                }
            }
            8 => cache.insert(&key, hash, now, give(key)),
            9 => drop(cache.invalidate(&key)),
            10 => drop(cache.sweep(now + KEEP * rng.u64(0..2), 8)),
            _ if rng.u8(0..20) == 0 => cache.invalidate_all(),
            _ => now += KEEP / 4,
        }
        let stats = cache.stats();
        let told = [&heard.hit, &heard.miss, &heard.insert, &heard.refresh].map(Cell::get);
        assert_eq!(told, [stats.hit, stats.miss, stats.insert, stats.refresh]);
        let told = [&heard.evict, &heard.full, &heard.removed].map(Cell::get);
        let removed = stats.swept + stats.invalidated;
        assert_eq!(told, [stats.evict, stats.full, removed]);
        // All that is inside has a slot, but for entries that say that there is no answer.
        assert!(heard.inside.borrow().len() <= stats.occupancy);
    }
    let stats = cache.stats();
    if capacity > 0 {
        let all = [
            stats.hit,
            stats.miss,
            stats.insert,
            stats.refresh,
            stats.overtaken,
        ];
        assert!(cfg!(miri) || all.iter().all(|n| *n > 20), "{stats:?}");
        assert!(cfg!(miri) || capacity > 40 || stats.evict > 20, "{stats:?}");
    }
    cache.verify().unwrap();
    drop(cache);
    assert!(
        heard.inside.borrow().is_empty(),
        "the cache's end is the end of all values"
    );
}

#[test]
fn hooks_hear_of_every_event_and_every_value_leaves_once() {
    for (seed, capacity) in [(1, 100), (2, 16), (3, 5), (4, 0), (5, 33)] {
        run(seed, capacity);
    }
}

/// A hook that panics: the panic goes on, and the cache is as usable as before.
#[test]
fn a_hook_that_panics_leaves_the_cache_usable() {
    struct Panics(Cell<bool>);
    impl CacheHooks<u64, u64> for Panics {
        fn insert(&self, _: &u64, _: Option<&u64>) {
            assert!(!self.0.get(), "as it was told");
        }
    }
    let cache = RouteCache::<u64, u64>::builder()
        .capacity(16)
        .hooks(Panics(Cell::new(true)))
        .build();
    let insert = || cache.insert(&1, cache.hash(&1), 0, 7);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(insert));
    assert!(panic.is_err());
    assert_eq!(cache.get(&1, 1), Some(7));
    cache.hooks().0.set(false);
    cache.insert(&2, cache.hash(&2), 0, 8);
    assert_eq!((cache.get(&2, 1), cache.occupancy()), (Some(8), 2));
    cache.verify().unwrap();
}

#[test]
fn inclusive_limits_belong_to_what_they_limit() {
    for inclusive in [false, true] {
        let cache = RouteCache::<u64, u64>::builder()
            .capacity(16)
            .negative_ttl(Duration::from_millis(5))
            .inclusive(inclusive)
            .build();
        let more = u64::from(inclusive);
        cache.insert(&1, cache.hash(&1), 0, 7);
        assert_eq!(cache.get(&1, FRESH - 1), Some(7));
        assert_eq!(cache.get(&1, FRESH), inclusive.then_some(7));
        assert_eq!(cache.get(&1, FRESH + 1), None);
        assert_eq!(cache.sweep(KEEP - 1 + more, 16), 0);
        assert_eq!(cache.sweep(KEEP + more, 16), 1);
        let hash = cache.hash(&2);
        let failed = cache.get_or_resolve(&2, hash, KEEP, |_| Err(()));
        assert_eq!(failed, Err(Unresolved::Error(())));
        let last = KEEP + 5 * MS - 1 + more;
        assert_eq!(cache.lookup(&2, hash, last), Lookup::Negative);
        assert_eq!(cache.lookup(&2, hash, last + 1), Lookup::Absent);
    }
}

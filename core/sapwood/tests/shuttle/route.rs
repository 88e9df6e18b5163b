//! The route cache with threads whose interleaving shuttle chooses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sapwood::route::{Lookup, RouteCache};

use crate::{check_pct, check_random, runs};

type Cache = RouteCache<u64, [u64; 3]>;

fn value(key: u64, version: u64) -> [u64; 3] {
    [key, version, !(key ^ version << 8)]
}

fn whole(found: [u64; 3], key: u64) -> bool {
    found == value(key, found[1])
}

fn spawn(work: impl FnOnce() + Send + 'static) -> shuttle::thread::JoinHandle<()> {
    shuttle::thread::spawn(work)
}

/// Looks a key up. All keys have one hash, so that they collide in every way.
fn ask(cache: &Cache, key: u64, now: u64, version: impl FnOnce() -> u64) -> [u64; 3] {
    let answer = cache.get_or_resolve(&key, 7, now, |_| {
        let found = value(key, version());
        shuttle::thread::yield_now();
        Ok::<_, ()>(found)
    });
    let found = answer.unwrap();
    assert!(whole(found, key), "{key}: {found:?}");
    found
}

/// Three keys compete for one slot: no reader sees a mixture, and the counters agree.
fn one_slot(single_flight: bool) {
    let cache = Cache::builder()
        .capacity(1)
        .seed(1)
        .single_flight(single_flight);
    let cache = Arc::new(cache.build());
    let threads: Vec<_> = (0..3)
        .map(|key| {
            let cache = Arc::clone(&cache);
            spawn(move || {
                for step in 0..2 {
                    ask(&cache, key, 5, || 10 * key + step);
                    if let Some(found) = cache.get_hashed(&((key + 1) % 3), 7, 5) {
                        assert!(whole(found, (key + 1) % 3), "{found:?}");
                    }
                    cache.insert(&key, 7, 5, value(key, 50 + step));
                    cache.invalidate_hashed(&((key + 2) % 3), 7);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    cache.verify().unwrap();
    let stats = cache.stats();
    assert_eq!(stats.hit + stats.miss, 12, "{stats:?}");
}

/// A lookup that begins after an invalidation never returns an answer from before it.
fn truth(everything: bool, single_flight: bool) {
    let cache = Cache::builder()
        .capacity(2)
        .seed(1)
        .single_flight(single_flight);
    let cache = Arc::new(cache.build());
    let truth = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (cache, truth) = (Arc::clone(&cache), Arc::clone(&truth));
            spawn(move || {
                for _ in 0..2 {
                    let least = truth[1].load(SeqCst);
                    let found = ask(&cache, 1, 5, || truth[0].load(SeqCst));
                    assert!(found[1] >= least, "{found:?}, {least}");
                }
            })
        })
        .collect();
    for version in 1..3 {
        truth[0].store(version, SeqCst);
        if everything {
            cache.invalidate_all();
        } else {
            cache.invalidate_hashed(&1, 7);
        }
        truth[1].store(version, SeqCst);
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    cache.verify().unwrap();
}

/// A lookup that the front of a reader may answer never returns an entry older than a removal or an
/// insertion that came before it.
fn fronts(everything: bool) {
    let cache = Cache::builder().capacity(2).threads(256).seed(1);
    let cache = Arc::new(cache.build());
    let truth = Arc::new(AtomicU64::new(0));
    cache.insert(&1, 7, 5, value(1, 0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (cache, truth) = (Arc::clone(&cache), Arc::clone(&truth));
            spawn(move || {
                let mut reader = cache.reader();
                for _ in 0..4 {
                    let least = truth.load(SeqCst);
                    if let Lookup::Value(found) = reader.lookup(&1, 7, 5) {
                        assert!(whole(found, 1) && found[1] >= least, "{found:?}, {least}");
                    }
                }
            })
        })
        .collect();
    for version in 1..3 {
        if everything {
            cache.invalidate_all();
        } else {
            cache.invalidate_hashed(&1, 7);
        }
        truth.store(version, SeqCst);
        cache.insert(&1, 7, 5, value(1, version));
        truth.store(version, SeqCst);
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    cache.verify().unwrap();
    let stats = cache.stats();
    assert_eq!(stats.hit + stats.miss, 8, "{stats:?}");
}

#[test]
fn fronts_beside_a_writer() {
    for everything in [false, true] {
        check_random(move || fronts(everything), runs(1500));
        check_pct(move || fronts(everything), runs(1500), 3);
    }
}

#[test]
fn keys_that_share_a_slot() {
    for single_flight in [false, true] {
        check_random(move || one_slot(single_flight), runs(1500));
        check_pct(move || one_slot(single_flight), runs(1500), 3);
    }
}

#[test]
fn invalidation_beside_resolvers() {
    for everything in [false, true] {
        for single_flight in [false, true] {
            check_random(move || truth(everything, single_flight), runs(1500));
            check_pct(move || truth(everything, single_flight), runs(1500), 3);
        }
    }
}

//! Maps for many writers, used by many threads at once. Each suitable test runs on every kind of
//! map.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Key, PointMap, QpShared, SweepPlace};

use crate::support::shared::{Kind, Oracle, agree, both, builder, each_kind, key, small, steps};

#[test]
fn threads_with_keys_of_their_own_do_not_disturb_each_other() {
    each_kind!(new => {
        let map = new()
            .options(small(ArenaOptions::default()))
            .build()
            .unwrap();
        let threads = 4;
        let oracles: Vec<BTreeMap<Vec<u8>, u64>> = std::thread::scope(|scope| {
            let work = |thread: u8| {
                let map = &map;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                    let mut oracle = BTreeMap::new();
                    for _ in 0..steps(30_000) {
                        // The last byte makes the key this thread's own. Threads share branches.
                        let mut k = key(&mut rng, 4, 4);
                        k.push(thread);
                        let v = rng.u64(..);
                        if rng.u8(..) < 140 {
                            let new = oracle.insert(k.clone(), v).is_none();
                            assert_eq!(map.insert(&k, v), Ok(new));
                        } else {
                            assert_eq!(map.remove(&k), Ok(oracle.remove(&k).is_some()));
                        }
                        let k = key(&mut rng, 4, 4);
                        let k = [&k[..], &[thread]].concat();
                        assert_eq!(map.get(&k), oracle.get(&k).copied());
                    }
                    oracle
                })
            };
            let threads: Vec<_> = (0..threads).map(work).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let all: BTreeMap<_, _> = oracles.into_iter().flatten().collect();
        agree(&map, &all);
    });
}

#[test]
fn a_walk_skips_nothing_that_is_there_throughout_and_repeats_nothing() {
    both(|index| {
        let map = builder(index)
            .options(small(ArenaOptions::default().debug(DebugMode::Poison)))
            .build()
            .unwrap();
        let mut rng = fastrand::Rng::with_seed(9);
        let mut fixed: Vec<Vec<u8>> = (0..200).map(|_| key(&mut rng, 6, 4)).collect();
        fixed.sort();
        fixed.dedup();
        for k in &fixed {
            map.insert(k, 0).unwrap();
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let (map, fixed, done) = (&map, &fixed, &done);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(100 + seed);
                    while !done.load(Ordering::Relaxed) {
                        let k = key(&mut rng, 6, 5);
                        if fixed.binary_search(&k).is_ok() {
                            map.insert(&k, rng.u64(..)).unwrap();
                        } else if rng.bool() {
                            map.insert(&k, 1).unwrap();
                        } else {
                            map.remove(&k).unwrap();
                        }
                    }
                });
            }
            for round in 0..steps(600) {
                let mut seen: Vec<Vec<u8>> = Vec::new();
                match round % 3 {
                    0 => seen.extend(map.pin().view().iter().map(|e| e.0.to_vec())),
                    1 => {
                        seen.extend(map.pin().view().iter().rev().map(|e| e.0.to_vec()));
                        seen.reverse();
                    }
                    _ => {
                        // The walk holds no guard between its steps, so its current entry may be
                        // removed.
                        let first = map.pin().view().first_key_value().map(|e| e.0.to_vec());
                        let mut at = first;
                        while let Some(k) = at {
                            at = map.successor(&k).map(|e| e.0);
                            seen.push(k);
                        }
                    }
                }
                assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
                for k in &fixed {
                    assert!(seen.binary_search(k).is_ok(), "{k:?} was skipped");
                }
                // No key that stays is nearer than the neighbours and prefixes that are found.
                for _ in 0..20 {
                    let asked = key(&mut rng, 6, 6);
                    let place = fixed.partition_point(|k| *k < asked);
                    let pin = map.pin();
                    let view = pin.view();
                    let before = view.predecessor(&asked).map(|e| e.0.to_vec());
                    assert!(before.as_ref() >= place.checked_sub(1).map(|i| &fixed[i]));
                    assert!(before.is_none_or(|k| k < asked));
                    let from = view.range(&asked[..]..).next().map(|e| e.0.to_vec());
                    assert!(from.as_ref().is_none_or(|k| *k >= asked));
                    let stays = fixed.get(place);
                    assert!(stays.is_none_or(|k| from.is_some_and(|from| from <= *k)));
                    let longest = fixed.iter().filter(|k| asked.starts_with(k));
                    let found = view.longest_prefix(&asked).map(|e| e.0.len());
                    assert!(found >= longest.map(Vec::len).max());
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        map.verify().unwrap();
    });
}

/// Tables grow and shrink while readers look up permanent keys, whose values show whether they are
/// whole, and while walks run.
#[test]
fn readers_and_walks_beside_tables_that_move() {
    each_kind!(new => {
        let options = small(ArenaOptions::default().debug(DebugMode::Poison));
        let map = new().options(options).build().unwrap();
        let value = |key: &[u8], version: u64| {
            let sum: u64 = key.iter().map(|byte| u64::from(*byte) + 1).sum();
            [version, version ^ sum << 32]
        };
        let fixed: Vec<Vec<u8>> = (0..200)
            .map(|i| format!("fixed {i}").into_bytes())
            .collect();
        for k in &fixed {
            map.insert(k, value(k, 0)).unwrap();
        }
        let n = steps(6_000);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..2u64 {
                let (map, fixed, done) = (&map, &fixed, &done);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(writer);
                    for round in 1..=4 {
                        for i in 0..n {
                            let k = format!("coming {writer} {i}");
                            map.insert(&k, value(k.as_bytes(), round)).unwrap();
                            let k = &fixed[rng.usize(..fixed.len())];
                            map.insert(k, value(k, round)).unwrap();
                        }
                        for i in 0..n {
                            assert_eq!(map.remove(format!("coming {writer} {i}")), Ok(true));
                        }
                    }
                    done.fetch_add(1, Ordering::Release);
                });
            }
            let done = &done;
            scope.spawn(|| {
                let mut reader = map.reader("looks").unwrap();
                let mut rng = fastrand::Rng::with_seed(77);
                while done.load(Ordering::Acquire) < 2 {
                    for _ in 0..100 {
                        let view = reader.view();
                        let k = &fixed[rng.usize(..fixed.len())];
                        let found = view.get(k).expect("the key is permanent");
                        assert_eq!(*found, value(k, found[0]));
                        let k = format!("coming {} {}", rng.u8(..2), rng.usize(..n));
                        if let Some(found) = view.get(&k) {
                            assert_eq!(*found, value(k.as_bytes(), found[0]));
                        }
                        assert_eq!(view.get("never"), None);
                    }
                    reader.quiescent();
                }
            });
            let mut walks = 0;
            while done.load(Ordering::Acquire) < 2 || walks == 0 {
                let pin = map.pin();
                let mut seen = Vec::new();
                for (k, found) in pin.view() {
                    assert_eq!(*found, value(&k, found[0]));
                    seen.push(k);
                }
                seen.sort_unstable();
                assert!(seen.windows(2).all(|two| two[0] < two[1]), "a key was repeated");
                for k in &fixed {
                    assert!(seen.binary_search(&Key::from(k)).is_ok(), "{k:?} was skipped");
                }
                walks += 1;
            }
        });
        map.verify().unwrap();
        assert_eq!(map.len(), fixed.len());
    });
}

#[test]
fn exact_queries_see_one_moment() {
    // Two keys that are never present together, and never both absent for longer than a writer's
    // step.
    let map = QpShared::new().unwrap();
    map.insert("a", 0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u64;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                // The values are equal, except between the two insertions.
                map.insert("a", n).unwrap();
                map.insert("ab", n).unwrap();
            }
        });
        let mut last = 0;
        for _ in 0..steps(20_000) {
            let pin = map.pin();
            let (a, ab) = pin.view().exact(|view| (view.get("a"), view.get("ab")));
            let (a, ab) = (*a.unwrap(), ab.copied().unwrap_or(0));
            assert!(a == ab || a == ab + 1, "{a} beside {ab}");
            assert!(a >= last);
            last = a;
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_most_entries_are_never_passed() {
    each_kind!(new => {
        let map = new().max_entries(50).build().unwrap();
        let refused = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (map, refused) = (&map, &refused);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                    for step in 0..steps(10_000) {
                        let k = [rng.u8(0..30), thread];
                        if rng.bool() {
                            match map.insert(k, 1) {
                                Ok(_) => {}
                                Err(no) => {
                                    assert_eq!(no.error, Error::Full { max_entries: 50 });
                                    refused.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        } else {
                            map.remove(k).unwrap();
                        }
                        // A plain walk may visit entries that were never present together.
                        assert!(map.pin().view().iter().count() <= 4 * 30);
                        if step % 16 == 0 {
                            if let Some(count) = Kind::exact_count(map) {
                                assert!(count <= 50);
                            }
                        }
                    }
                });
            }
        });
        assert!(cfg!(miri) || refused.load(Ordering::Relaxed) > 0);
        map.verify().unwrap();
        let there = map.len();
        assert!(there <= 50);
        // Exactly the missing number of entries fits.
        let fitting = (0..100u8).filter(|i| map.insert([9, 9, *i], 1).is_ok());
        assert_eq!(fitting.count(), 50 - there);
        let first = map.pin().view().iter().next().unwrap().0.to_vec();
        assert_eq!(map.insert(first, 2), Ok(false));
    });
}

#[test]
fn a_request_that_fails_changes_nothing_beside_other_writers() {
    each_kind!(new => {
        let options = ArenaOptions::default().fail_every(2);
        let map = new().options(small(options)).build().unwrap();
        let oracles: Vec<_> = std::thread::scope(|scope| {
            let work = |thread: u8| {
                let map = &map;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                    let (mut oracle, mut failed) = (BTreeMap::new(), 0);
                    for _ in 0..steps(10_000) {
                        let mut k = key(&mut rng, 4, 4);
                        k.push(thread);
                        let v = rng.u64(..);
                        if rng.u8(..) < 140 {
                            match map.insert(&k, v) {
                                Ok(new) => assert_eq!(new, oracle.insert(k, v).is_none()),
                                Err(no) => {
                                    assert!(matches!(no.error, Error::ArenaFull(_)));
                                    assert_eq!(no.value, v);
                                    assert_eq!(map.get(&k), oracle.get(&k).copied());
                                    failed += 1;
                                }
                            }
                        } else {
                            match map.remove(&k) {
                                Ok(was) => assert_eq!(was, oracle.remove(&k).is_some()),
                                Err(_) => {
                                    assert_eq!(map.get(&k), oracle.get(&k).copied());
                                    failed += 1;
                                }
                            }
                        }
                    }
                    assert!(cfg!(miri) || failed > 10, "{failed}");
                    oracle
                })
            };
            let threads: Vec<_> = (0..4).map(work).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        agree(&map, &oracles.into_iter().flatten().collect());
    });
}

#[test]
fn a_full_arena_beside_other_writers() {
    each_kind!(new => {
        let options = ArenaOptions::default().backing(Backing::HeapFixed(1 << 14));
        let map = new().options(options).build().unwrap();
        let failed = AtomicUsize::new(0);
        let oracles: Vec<Oracle> = std::thread::scope(|scope| {
            let work = |thread: u8| {
                let (map, failed) = (&map, &failed);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                    let mut oracle = Oracle::new();
                    for step in 0..steps(20_000) {
                        let mut k = key(&mut rng, 16, 3);
                        k.push(thread);
                        let v = rng.u64(..);
                        if rng.u8(0..4) > step as u8 / 64 % 4 {
                            match map.insert(&k, v) {
                                Ok(new) => assert_eq!(new, oracle.insert(k, v).is_none()),
                                Err(no) => {
                                    assert!(matches!(no.error, Error::ArenaFull(_)));
                                    assert_eq!(no.value, v);
                                    assert_eq!(map.get(&k), oracle.get(&k).copied());
                                    failed.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        } else {
                            match map.remove(&k) {
                                Ok(was) => assert_eq!(was, oracle.remove(&k).is_some()),
                                Err(error) => {
                                    // Removing a child from a branch needs memory.
                                    assert!(matches!(error, Error::ArenaFull(_)));
                                    assert_eq!(map.get(&k), oracle.get(&k).copied());
                                }
                            }
                        }
                    }
                    oracle
                })
            };
            let threads: Vec<_> = (0..4).map(work).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(cfg!(miri) || failed.load(Ordering::Relaxed) > 10);
        agree(&map, &oracles.into_iter().flatten().collect());
    });
}

#[test]
fn an_emptied_map_returns_its_memory() {
    each_kind!(new => {
        let map = new().build().unwrap();
        let n = steps(100_000) as u32;
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let map = &map;
                scope.spawn(move || {
                    for i in 0..n / 4 {
                        map.insert((i * 4 + thread).to_be_bytes(), [0u64; 3])
                            .unwrap();
                    }
                });
            }
        });
        map.verify().unwrap();
        let full = map.memory();
        assert!(full.arena.live > n as usize * 32);
        let removed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (map, removed) = (&map, &removed);
                scope.spawn(move || {
                    for i in 0..n {
                        if map.remove((i ^ thread).to_be_bytes()).unwrap() {
                            removed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(removed.load(Ordering::Relaxed), (n / 4 * 4) as usize);
        map.reclaim(usize::MAX);
        let empty = map.memory();
        map.verify().unwrap();
        assert_eq!(empty.arena.live, 0, "{empty:?}");
        assert!(empty.arena.committed <= 2 << 20, "{empty:?}");
    });
}

#[test]
fn values_are_dropped_once() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted(#[allow(dead_code)] Box<u32>);
    impl Counted {
        fn new(i: u32) -> Self {
            MADE.fetch_add(1, Ordering::Relaxed);
            Counted(Box::new(i))
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    each_kind!(new => {
        let map = new().max_entries(60).build().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let map = &map;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread);
                    for i in 0..steps(5_000) as u32 {
                        let k = key(&mut rng, 4, 3);
                        match rng.u8(0..5) {
                            0 => drop(map.insert_new(&k, Counted::new(i))),
                            1 => drop(map.replace(&k, Counted::new(i))),
                            2 | 3 => drop(map.insert(&k, Counted::new(i))),
                            _ => drop(map.remove(&k)),
                        }
                    }
                });
            }
        });
        assert!(DROPPED.load(Ordering::Relaxed) < MADE.load(Ordering::Relaxed));
        drop(map);
        assert_eq!(
            DROPPED.load(Ordering::Relaxed),
            MADE.load(Ordering::Relaxed)
        );
    });
}

#[test]
fn compaction_beside_writers_loses_nothing_and_gives_memory_back() {
    both(|index| {
        for debug in [DebugMode::Off, DebugMode::Poison] {
            let options = small(ArenaOptions::default().debug(debug));
            let map = builder(index).options(options).build().unwrap();
            let done = AtomicBool::new(false);
            let oracles: Vec<BTreeMap<Vec<u8>, u64>> = std::thread::scope(|scope| {
                let work = |thread: u8| {
                    let map = &map;
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                        let mut oracle = BTreeMap::new();
                        for i in 0..steps(30_000) {
                            let mut k = key(&mut rng, 6, 5);
                            k.push(thread);
                            // The map grows, then shrinks.
                            if rng.usize(0..steps(30_000)) > i {
                                oracle.insert(k.clone(), i as u64);
                                map.insert(&k, i as u64).unwrap();
                            } else {
                                oracle.remove(&k);
                                map.remove(&k).unwrap();
                            }
                        }
                        oracle
                    })
                };
                let threads: Vec<_> = (0..2).map(work).collect();
                let compactor = scope.spawn(|| {
                    let mut stepped = 0;
                    // The loop runs at least once, however late this thread begins.
                    while !done.load(Ordering::Relaxed) || stepped == 0 {
                        map.compact_step(50).unwrap();
                        stepped += 1;
                    }
                    stepped
                });
                let oracles = threads.into_iter().map(|t| t.join().unwrap()).collect();
                done.store(true, Ordering::Relaxed);
                assert!(compactor.join().unwrap() > 0);
                oracles
            });
            while map.compact_step(1000).unwrap() {}
            agree(&map, &oracles.into_iter().flatten().collect());
        }
    });
}

#[test]
fn a_view_of_another_domain_is_refused() {
    let (a, b) = (
        PointMap::<u8>::new().unwrap(),
        PointMap::<u8>::new().unwrap(),
    );
    let reader = a.domain().register("of a").unwrap();
    assert!(a.view(reader.guard()).is_empty());
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        b.view(reader.guard()).is_empty()
    }));
    assert!(refused.is_err());
    let other = b.clone();
    std::thread::spawn(move || other.insert("x", 1).unwrap())
        .join()
        .unwrap();
    assert_eq!(b.get("x"), Some(1));
}

/// Threads that change values by closures lose no change, whatever memory and tables do meanwhile.
#[test]
fn updates_by_closures_lose_nothing() {
    each_kind!(new => {
        let map = new().options(small(ArenaOptions::default())).build().unwrap();
        let (threads, rounds, keys) = (4u64, steps(8_000) as u64, 5u64);
        for key in 0..keys {
            map.insert(key.to_be_bytes(), 0u64).unwrap();
        }
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let map = &map;
                scope.spawn(move || {
                    for i in 0..rounds {
                        let key = (i % keys).to_be_bytes();
                        if (i + thread) % 2 == 0 {
                            assert_eq!(map.update(key, |n| n + 1), Ok(true));
                        } else {
                            let pin = map.pin();
                            let mut last = 0;
                            let new = |n: &u64| {
                                last = *n;
                                n + 1
                            };
                            let old = pin.view().update(key, new).unwrap();
                            assert_eq!(old, Some(&last), "the stored value was computed from the old one");
                        }
                        // Other keys come and go, so that leaves move.
                        let other = (i % 97 + 1000 * (thread + 1)).to_be_bytes();
                        map.insert(other, i).unwrap();
                        map.remove(other).unwrap();
                    }
                });
            }
        });
        let sum: u64 = (0..keys).filter_map(|key| map.get(key.to_be_bytes())).sum();
        assert_eq!(sum, threads * rounds);
        map.verify().unwrap();
    });
}

#[test]
fn retaining_beside_writers_judges_what_is_there_throughout() {
    each_kind!(new => {
        let map = new().options(small(ArenaOptions::default())).build().unwrap();
        let n = steps(4_000) as u64;
        for i in 0..n {
            map.insert(i.to_be_bytes(), 0u64).unwrap();
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Values only grow: an even number stays even, and an odd one odd.
            scope.spawn(|| {
                let mut i = 0;
                while !done.load(Ordering::Relaxed) {
                    map.update((i % n).to_be_bytes(), |value| value + 2).unwrap();
                    let other = (n + i % 1000).to_be_bytes();
                    map.insert(other, 1).unwrap();
                    map.remove(other).unwrap();
                    i += 1;
                }
            });
            let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
            for modulus in [7, 5, 3] {
                map.retain(|key, value| {
                    assert!(*value % 2 == 0 || number(key) >= n);
                    number(key) % modulus == 0
                })
                .unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        map.retain(|key, _| u64::from_be_bytes(key.try_into().unwrap()) < n).unwrap();
        assert_eq!(map.len() as u64, n.div_ceil(105));
        map.verify().unwrap();
    });
}

#[test]
fn a_sweep_in_steps_skips_nothing_that_is_there_throughout() {
    let options = small(ArenaOptions::default().debug(DebugMode::Poison));
    let map = PointMap::builder().options(options).build().unwrap();
    let fixed = steps(2_000) as u64;
    for i in 0..fixed {
        map.insert(i.to_be_bytes(), 1u64).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Meanwhile tables grow and shrink.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for i in fixed..4 * fixed {
                    map.insert(i.to_be_bytes(), 2).unwrap();
                }
                for i in fixed..4 * fixed {
                    map.remove(i.to_be_bytes()).unwrap();
                }
            }
        });
        for least in 1..steps(60) {
            let (mut met, mut next) = (BTreeMap::new(), Some(SweepPlace::default()));
            while let Some(place) = next {
                let each = |key: &[u8], value: &u64| {
                    assert_eq!(
                        met.insert(key.to_vec(), *value),
                        None,
                        "{key:?} was repeated"
                    );
                };
                next = map.pin().view().sweep(place, least, each);
            }
            let throughout = met.values().filter(|value| **value == 1).count();
            assert_eq!(throughout as u64, fixed);
        }
        done.store(true, Ordering::Relaxed);
    });
    map.verify().unwrap();
}

#[test]
fn each_entry_is_popped_once() {
    let map = QpShared::<u64>::new().unwrap();
    let threads = 4u64;
    let each = steps(10_000) as u64;
    let begins = std::sync::Barrier::new(threads as usize);
    let popped: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (map, begins) = (&map, &begins);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut mine = Vec::new();
                let mut pop = |last: bool| {
                    let popped = match last {
                        true => map.pop_last().unwrap(),
                        false => map.pop_first().unwrap(),
                    };
                    let (key, value) = popped?;
                    assert_eq!(
                        key[2..],
                        value.to_be_bytes(),
                        "the value belongs to the key"
                    );
                    mine.push(value);
                    Some(key)
                };
                for i in 0..each {
                    let value = thread * each + i;
                    // Keys lie in any order, so threads insert before entries that others pop.
                    let key = [&[rng.u8(..4), rng.u8(..)][..], &value.to_be_bytes()].concat();
                    map.insert(key, value).unwrap();
                    if rng.u8(..4) > 0 {
                        pop(rng.bool());
                    }
                }
                begins.wait();
                // Nobody inserts now, so the first entries come in order.
                let mut before = None;
                while let Some(key) = pop(false) {
                    assert!(before.is_none_or(|before| before < key));
                    before = Some(key);
                }
                mine
            })
        };
        let threads: Vec<_> = (0..threads).map(work).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut all: Vec<u64> = popped.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..threads * each));
    assert!(map.is_empty());
    map.verify().unwrap();
}

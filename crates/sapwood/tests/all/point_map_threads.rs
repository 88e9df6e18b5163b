//! `PointMap` used by many threads at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{Exchange, PointMap};
use sapwood_model::shared_ops::{Absent, Present, SharedMap, drive, hot_keys};
use sapwood_model::soak::{Length, soak};

use crate::support::point_map::{Oracle, agree, key, small, steps};

#[test]
fn threads_with_keys_of_their_own_do_not_disturb_each_other() {
    let builder = PointMap::builder().options(small(ArenaOptions::default()));
    let map = builder.build().unwrap();
    let threads = 4;
    let oracles: Vec<Oracle> = std::thread::scope(|scope| {
        let work = |thread: u8| {
            let map = &map;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                let mut oracle = Oracle::new();
                for _ in 0..steps(30_000) {
                    // The last byte makes it ours.
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
    agree(&map, &oracles.into_iter().flatten().collect());
}

/// Tables grow and shrink while readers look keys up that are always there, with values that say whether they are whole, and
/// while walks go on.
#[test]
fn readers_and_walks_beside_tables_that_move() {
    let options = small(ArenaOptions::default().debug(DebugMode::Poison));
    let map = PointMap::builder().options(options).build().unwrap();
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
                    let found = view.get(k).expect("it is always there");
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
            let mut seen: Vec<&[u8]> = Vec::new();
            for (k, found) in pin.view() {
                assert_eq!(*found, value(k, found[0]));
                seen.push(k);
            }
            seen.sort_unstable();
            assert!(seen.windows(2).all(|two| two[0] < two[1]), "a key twice");
            for k in &fixed {
                assert!(seen.binary_search(&&k[..]).is_ok(), "{k:?} was skipped");
            }
            walks += 1;
        }
    });
    map.verify().unwrap();
    assert_eq!(map.len(), fixed.len());
}

#[test]
fn the_most_entries_are_never_passed() {
    let map = PointMap::builder().max_entries(50).build().unwrap();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (map, refused) = (&map, &refused);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                for _ in 0..steps(10_000) {
                    let k = [rng.u8(0..30), thread];
                    if rng.bool() {
                        if let Err(no) = map.insert(k, 1) {
                            assert_eq!(no.error, Error::Full { max_entries: 50 });
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    } else {
                        map.remove(k).unwrap();
                    }
                }
            });
        }
    });
    assert!(cfg!(miri) || refused.load(Ordering::Relaxed) > 0);
    map.verify().unwrap();
    let there = map.len();
    assert!(there <= 50);
    // As many as are missing fit, and not one more.
    let fitting = (0..100u8).filter(|i| map.insert([9, 9, *i], 1).is_ok());
    assert_eq!(fitting.count(), 50 - there);
}

#[test]
fn a_full_arena_beside_other_writers() {
    let options = ArenaOptions::default().backing(Backing::HeapFixed(1 << 14));
    let map = PointMap::builder().options(options).build().unwrap();
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
                        assert_eq!(map.remove(&k), Ok(oracle.remove(&k).is_some()));
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
}

#[test]
fn an_emptied_map_returns_its_memory() {
    let map = PointMap::new().unwrap();
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
    assert!(map.memory().arena.live > n as usize * 32);
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
    let map = PointMap::builder().max_entries(60).build().unwrap();
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
}

struct Points(PointMap<u64>);

impl SharedMap for Points {
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
        self.0.pin().view().insert(key, value).unwrap().copied()
    }

    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
        self.0.insert_new(key, value).map_err(|no| {
            assert_eq!(no.error, Error::Exists);
            Present
        })
    }

    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
        let pin = self.0.pin();
        pin.view().replace(key, value).copied().map_err(|no| {
            assert_eq!(no.error, Error::Absent);
            Absent
        })
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        self.0.pin().view().remove(key).unwrap().copied()
    }

    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
        let pin = self.0.pin();
        match pin.view().compare_exchange(key, &expected, new).unwrap() {
            Exchange::Done(_) => Ok(()),
            Exchange::Refused { found, .. } => Err(found.copied()),
        }
    }

    fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
        self.0.get_or_insert_with(key, || value).unwrap()
    }

    fn pause(&self) {
        self.0.reclaim(100);
    }
}

/// Runs `test` on maps with memory of both kinds.
fn both_kinds(test: impl Fn(Points, u64)) {
    let mut seed = fastrand::u64(..);
    for debug in [DebugMode::Off, DebugMode::Poison] {
        seed += 1;
        println!("{debug:?}, seed {seed}");
        let options = ArenaOptions::default()
            .backing(Backing::Mmap { reserve: 1 << 30 })
            .debug(debug);
        let builder = PointMap::builder().options(options);
        test(Points(builder.build().unwrap()), seed);
    }
}

#[test]
fn histories_are_linearizable() {
    both_kinds(|map, seed| {
        for round in 0..steps(1600).div_ceil(80) as u64 {
            let keys = hot_keys(6);
            for key in &keys {
                map.0.remove(key).unwrap();
            }
            let ops = if cfg!(miri) { 20 } else { 300 };
            let history = drive(&map, 4, ops, &keys, seed.wrapping_add(round));
            if let Err(error) = history.check() {
                panic!("{error}");
            }
        }
        map.0.verify().unwrap();
    });
}

#[test]
fn a_long_run_leaves_what_it_must() {
    both_kinds(|map, seed| {
        let length = Length::Operations(steps(20_000) as u64);
        let expected = soak(&map, 4, length, seed);
        map.0.verify().unwrap();
        let pin = map.0.pin();
        let mut entries: Vec<_> = pin
            .view()
            .iter()
            .map(|(key, value)| (key, *value))
            .collect();
        entries.sort_unstable();
        assert_eq!(expected.check(entries.into_iter()), Ok(map.0.len()));
        assert!(map.0.contention().operations > 0);
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

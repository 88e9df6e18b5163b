//! `QpShared`: one thread against an oracle, then many against each other.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{QpShared, QpSharedBuilder};
use sapwood::qsbr::Domain;

/// Keys that share prefixes and are prefixes of each other.
fn key(rng: &mut fastrand::Rng, alphabet: u8, longest: usize) -> Vec<u8> {
    let len = rng.usize(0..=longest);
    (0..len)
        .map(|_| match rng.u8(0..alphabet) {
            0 => 0,
            1 => 255,
            n => b'a' + n,
        })
        .collect()
}

fn small(options: ArenaOptions) -> ArenaOptions {
    options.backing(Backing::Mmap { reserve: 1 << 26 })
}

/// A builder with or without a point index.
fn builder<V: Send + Sync + 'static>(index: bool) -> QpSharedBuilder<V> {
    let builder = QpShared::builder();
    if index { builder.with_index() } else { builder }
}

/// Runs a test on maps without and with a point index.
fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

fn agree(map: &QpShared<u64>, oracle: &BTreeMap<Vec<u8>, u64>) {
    map.verify().unwrap();
    assert_eq!(map.len(), oracle.len());
    let pin = map.pin();
    let entries = pin.view().iter().map(|(k, v)| (k.to_vec(), *v));
    assert!(entries.eq(oracle.iter().map(|(k, v)| (k.clone(), *v))));
    let back = pin.view().iter().rev().map(|(k, _)| k);
    assert!(back.eq(oracle.keys().rev().map(Vec::as_slice)));
}

fn one_thread(
    index: bool,
    options: ArenaOptions,
    seed: u64,
    steps: usize,
    alphabet: u8,
    longest: usize,
) {
    let map = builder(index).options(small(options)).build().unwrap();
    let mut oracle = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    for step in 0..steps {
        let k = key(&mut rng, alphabet, longest);
        let v = rng.u64(..);
        let there = oracle.get(&k).copied();
        match rng.u8(0..12) {
            0..4 => {
                assert_eq!(map.insert(&k, v), Ok(there.is_none()), "{seed}");
                oracle.insert(k, v);
            }
            4..7 => {
                assert_eq!(map.remove(&k), Ok(there.is_some()), "{seed}");
                oracle.remove(&k);
            }
            7 => {
                let done = map.insert_new(&k, v);
                match there {
                    None => {
                        done.unwrap();
                        oracle.insert(k, v);
                    }
                    Some(_) => assert_eq!(done.unwrap_err().error, Error::Exists),
                }
            }
            8 => {
                let done = map.replace(&k, v);
                match there {
                    Some(_) => {
                        done.unwrap();
                        oracle.insert(k, v);
                    }
                    None => assert_eq!(done.unwrap_err().error, Error::Absent),
                }
            }
            9 => {
                let expected = there.unwrap_or(7) + u64::from(rng.bool());
                let done = map.compare_exchange(&k, &expected, v);
                match there {
                    Some(now) if now == expected => {
                        done.unwrap();
                        oracle.insert(k, v);
                    }
                    Some(_) => assert_eq!(done.unwrap_err().error, Error::Differs),
                    None => assert_eq!(done.unwrap_err().error, Error::Absent),
                }
            }
            10 => {
                assert_eq!(
                    map.get_or_insert_with(&k, || v).unwrap(),
                    *oracle.entry(k).or_insert(v)
                );
            }
            _ => queries(&map, &oracle, &k),
        }
        if step % (steps / 40).max(1) == 0 {
            agree(&map, &oracle);
        }
    }
    agree(&map, &oracle);
    assert_eq!(map.clear().unwrap(), oracle.len());
    agree(&map, &BTreeMap::new());
}

fn queries(map: &QpShared<u64>, oracle: &BTreeMap<Vec<u8>, u64>, k: &[u8]) {
    let pin = map.pin();
    let view = pin.view();
    assert_eq!(view.get(k), oracle.get(k));
    assert_eq!(map.get(k), oracle.get(k).copied());
    let after = oracle
        .range::<[u8], _>((Bound::Excluded(k), Bound::Unbounded))
        .next();
    assert_eq!(view.next_after(k).map(|e| e.0), after.map(|e| &e.0[..]));
    let before = oracle.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(k)));
    assert_eq!(
        view.predecessor(k).map(|e| e.0),
        before.last().map(|e| &e.0[..])
    );
    let range: Vec<_> = view.range(k..).map(|e| e.0).take(5).collect();
    let expected: Vec<_> = oracle
        .range::<[u8], _>((Bound::Included(k), Bound::Unbounded))
        .map(|e| &e.0[..])
        .take(5)
        .collect();
    assert_eq!(range, expected);
    let prefix: Vec<_> = view.prefix(k).map(|e| e.0).collect();
    let expected: Vec<_> = oracle.keys().filter(|o| o.starts_with(k)).collect();
    assert_eq!(prefix, expected);
    let ancestors: Vec<_> = view.ancestors(k).iter().map(|e| e.0).collect();
    let expected: Vec<_> = oracle.keys().filter(|o| k.starts_with(o)).collect();
    assert_eq!(ancestors, expected);
    let exact = view.exact(|view| view.longest_prefix(k));
    assert_eq!(exact.map(|e| e.0), expected.last().map(|k| &k[..]));
    // From both ends at once, they meet.
    let mut both = view.iter();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    while let Some(entry) = both.next() {
        first.push(entry.0);
        last.extend(both.next_back().map(|e| e.0));
    }
    first.extend(last.iter().rev());
    assert!(first.into_iter().eq(oracle.keys().map(Vec::as_slice)));
}

/// Fewer steps where each takes long: in the interpreter, and where `SAPWOOD_OPS` asks for few, as under sanitizers.
fn steps(n: usize) -> usize {
    let few =
        std::env::var("SAPWOOD_OPS").is_ok_and(|ops| ops.parse().is_ok_and(|n: u64| n < 100_000));
    match (cfg!(miri), few) {
        (true, _) => n / 100,
        (false, true) => n / 8,
        (false, false) => n,
    }
}

#[test]
fn one_thread_agrees_with_a_btreemap() {
    both(|index| {
        one_thread(index, ArenaOptions::default(), 1, steps(40_000), 5, 6);
        one_thread(index, ArenaOptions::default(), 2, steps(40_000), 20, 2);
        one_thread(index, ArenaOptions::default(), 3, steps(4_000), 3, 60);
    });
}

#[test]
fn one_thread_uses_nothing_that_was_freed() {
    both(|index| {
        let poison = ArenaOptions::default().debug(DebugMode::Poison);
        one_thread(index, poison, 4, steps(10_000), 5, 6);
        if !cfg!(miri) {
            let protect = ArenaOptions::default().debug(DebugMode::Protect);
            one_thread(index, protect, 5, steps(10_000), 5, 4);
        }
    });
}

#[test]
fn big_branches_grow_and_shrink() {
    both(|index| {
        let map = builder(index).build().unwrap();
        for end in [false, true] {
            for label in 0..=255u8 {
                map.insert([b'x', label], u64::from(label)).unwrap();
            }
            if end {
                map.insert("x", 1000).unwrap();
            }
            map.verify().unwrap();
            assert_eq!(map.len(), 256 + usize::from(end));
            for label in (0..=255u8).rev() {
                assert_eq!(map.remove([b'x', label]), Ok(true));
                assert_eq!(map.get([b'x', label]), None);
                if label % 16 == 0 {
                    map.verify().unwrap();
                }
            }
            assert_eq!(map.remove("x"), Ok(end));
        }
        assert!(map.is_empty());
    });
}

#[test]
fn threads_with_keys_of_their_own_do_not_disturb_each_other() {
    both(|index| {
        let map = builder(index)
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
                        // The last byte makes it ours: branches are shared with the others.
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
                        // Without a guard between the steps, so that what was stood on may be gone.
                        let first = map.pin().view().first_key_value().map(|e| e.0.to_vec());
                        let mut at = first;
                        while let Some(k) = at {
                            at = map.next_after(&k).map(|e| e.0);
                            seen.push(k);
                        }
                    }
                }
                assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
                for k in &fixed {
                    assert!(seen.binary_search(k).is_ok(), "{k:?} was skipped");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        map.verify().unwrap();
    });
}

#[test]
fn exact_queries_see_one_moment() {
    // Two keys that are never there together, and never both absent for longer than a writer's step.
    let map = QpShared::new().unwrap();
    map.insert("a", 0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u64;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                // Equal values in both, but for the moment between the two.
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
    both(|index| {
        let map = builder(index).max_entries(50).build().unwrap();
        let refused = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (map, refused) = (&map, &refused);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                    for _ in 0..steps(10_000) {
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
                        assert!(map.pin().view().iter().count() <= 60);
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
        let first = map.pin().view().first_key_value().unwrap().0.to_vec();
        assert_eq!(map.insert(first, 2), Ok(false));
    });
}

#[test]
fn a_request_that_fails_changes_nothing_beside_other_writers() {
    both(|index| {
        let options = ArenaOptions::default().fail_every(2);
        let map = builder(index).options(small(options)).build().unwrap();
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
fn an_emptied_map_returns_its_memory() {
    both(|index| {
        let map = builder(index).build().unwrap();
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
    let map = builder(true).max_entries(60).build().unwrap();
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

#[test]
fn a_panic_in_a_closure_leaves_the_map_usable() {
    let map = QpShared::new().unwrap();
    map.insert("a", 1u64).unwrap();
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.get_or_insert_with("ab", || panic!("by the user"))
    }));
    assert!(made.is_err());
    let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.pin()
            .view()
            .remove_if("a", |_| panic!("by the user"))
            .map(drop)
    }));
    assert!(tested.is_err());
    let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.for_each(|_, _| -> ControlFlow<()> { panic!("by the user") })
    }));
    assert!(walked.is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| map.insert("ab", 2).unwrap());
    });
    assert_eq!(map.insert("a", 3), Ok(false));
    assert_eq!(map.len(), 2);
    map.verify().unwrap();
}

#[test]
fn a_comparison_may_change_the_map_and_may_panic() {
    use std::cell::Cell;
    use std::sync::OnceLock;

    static MAP: OnceLock<QpShared<Meddler>> = OnceLock::new();
    thread_local! {
        static COMPARED: Cell<u32> = const { Cell::new(0) };
    }
    /// Equal at first, while it replaces what it is compared with; then it panics.
    struct Meddler(u32);
    impl PartialEq for Meddler {
        fn eq(&self, other: &Self) -> bool {
            match COMPARED.replace(COMPARED.get() + 1) {
                0 => {
                    let map = MAP.get().unwrap();
                    assert!(!map.insert("key", Meddler(9)).unwrap());
                    self.0 == other.0
                }
                _ => panic!("by the user"),
            }
        }
    }
    let map = MAP.get_or_init(|| builder(true).build().unwrap());
    map.insert("key", Meddler(1)).unwrap();
    let exchanged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.compare_exchange("key", &Meddler(1), Meddler(2))
    }));
    assert!(exchanged.is_err());
    assert_eq!(COMPARED.get(), 2, "begun anew after the change");
    // Nothing of the value that was to be stored is left.
    map.verify().unwrap();
    assert_eq!(map.pin().view().get("key").unwrap().0, 9);
}

#[test]
fn a_walk_stops_early() {
    let map = QpShared::new().unwrap();
    for i in 0..100u8 {
        map.insert([i], u64::from(i)).unwrap();
    }
    let mut visited = 0;
    let found = map.for_each(|key, value| {
        visited += 1;
        if *value == 17 {
            ControlFlow::Break(key.to_vec())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(found, ControlFlow::Break(vec![17]));
    assert_eq!(visited, 18);
}

#[test]
fn garbage_is_limited_and_comes_back() {
    both(|index| {
        let domain = Domain::builder().hard_limit(100_000).build();
        let map = builder(index).domain(&domain).build().unwrap();
        let mut reader = map.reader("stalled").unwrap();
        let mut refused = 0;
        for i in 0..if cfg!(miri) { 200 } else { 20_000u64 } {
            match map.insert((i % 100).to_be_bytes(), i) {
                Ok(_) => {}
                Err(no) => {
                    assert!(matches!(no.error, Error::GarbageLimit(_)));
                    assert_eq!(no.value, i);
                    refused += 1;
                }
            }
            assert!(domain.garbage() <= 100_000);
        }
        assert!(cfg!(miri) || refused > 0);
        reader.quiescent();
        map.insert("again", 1).unwrap();
        map.reclaim(usize::MAX);
        reader.quiescent();
        map.reclaim(usize::MAX);
        assert_eq!(domain.garbage(), 0);
        map.verify().unwrap();
    });
}

#[test]
fn a_map_is_made_of_sorted_entries_and_goes_on() {
    let owned = sapwood::qp::QpMap::from_sorted_iter((0..5000u32).map(|i| (i.to_be_bytes(), i)));
    let map = QpShared::from_map(owned.unwrap()).unwrap();
    map.verify().unwrap();
    assert_eq!(map.len(), 5000);
    for i in (0..5000u32).step_by(2) {
        assert_eq!(map.remove(i.to_be_bytes()), Ok(true));
    }
    map.insert("more", 1).unwrap();
    map.verify().unwrap();
    assert_eq!(map.len(), 2501);
    assert_eq!(map.get(7u32.to_be_bytes()), Some(7));
    let too_many = QpShared::builder()
        .max_entries(1)
        .build_sorted([("a", 1), ("b", 2)]);
    assert!(matches!(too_many, Err(Error::Full { max_entries: 1 })));
}

#[test]
fn keys_over_the_limit_are_refused() {
    let map = QpShared::new().unwrap();
    let long = vec![7; 65_536];
    let no = map.insert(&long, 5).unwrap_err();
    assert_eq!((no.value, no.error), (5, Error::KeyTooLong { len: 65_536 }));
    assert_eq!(map.remove(&long), Ok(false));
    assert_eq!(map.insert(&long[1..], 6), Ok(true));
    assert_eq!(map.get(&long), None);
    assert_eq!(map.get(&long[1..]), Some(6));
    map.verify().unwrap();
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
                            // It grows, then shrinks.
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
                    while !done.load(Ordering::Relaxed) {
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
fn compaction_makes_the_branches_dense() {
    let map = QpShared::new().unwrap();
    let n = if cfg!(miri) { 600 } else { 60_000u32 };
    for i in 0..n {
        map.insert(i.wrapping_mul(0x9e37_79b9).to_be_bytes(), i)
            .unwrap();
    }
    for i in (0..n).filter(|i| i % 8 != 0) {
        map.remove(i.wrapping_mul(0x9e37_79b9).to_be_bytes())
            .unwrap();
    }
    map.reclaim(usize::MAX);
    let before = map.memory();
    let mut steps = 0;
    while map.compact_step(500).unwrap() {
        steps += 1;
        map.reclaim(usize::MAX);
    }
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    let after = map.memory();
    assert_eq!(after.small_branches, before.small_branches);
    if !cfg!(miri) {
        assert!(steps > 5, "{steps}");
        assert!(
            after.total() < before.total() * 9 / 10,
            "{before:#?}\n{after:#?}"
        );
    }
}

#[test]
fn batches_are_single_operations_in_order() {
    both(|index| {
        // Large enough for interleaved descents.
        let n = steps(300_000) as u32;
        let map = builder(index).build().unwrap();
        let entry = |i: u32| (i.wrapping_mul(0x9e37_79b9).to_be_bytes(), i);
        assert_eq!(map.insert_many((0..n).map(entry)), Ok(n as usize));
        assert_eq!(map.insert_many((0..n).rev().step_by(3).map(entry)), Ok(0));
        let keys: Vec<_> = (0..n + 40).step_by(2).map(|i| entry(i).0).collect();
        let mut found = vec![None; keys.len()];
        let pin = map.pin();
        pin.view().get_many(&keys, &mut found);
        for (i, found) in found.iter().enumerate() {
            let i = 2 * i as u32;
            assert_eq!(found.copied(), (i < n).then_some(i));
        }
        drop(pin);
        assert_eq!(map.remove_many(&keys), Ok(n.div_ceil(2) as usize));
        assert_eq!(map.len(), (n / 2) as usize);
        map.verify().unwrap();
    });
}

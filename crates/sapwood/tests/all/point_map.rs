//! `PointMap` used by one thread: against an oracle, and where something goes wrong.

use std::ops::ControlFlow;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::PointMap;
use sapwood::qsbr::Domain;

use crate::support::point_map::{Oracle, agree, key, small, steps};

fn one_thread(options: ArenaOptions, seed: u64, steps: usize, alphabet: u8, longest: usize) {
    let builder = PointMap::builder().options(small(options));
    let map = builder.build().unwrap();
    let mut oracle = Oracle::new();
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
            4..6 => {
                assert_eq!(map.remove(&k), Ok(there.is_some()), "{seed}");
                oracle.remove(&k);
            }
            6 => {
                let pin = map.pin();
                let removed = pin.view().remove_if(&k, |value| value % 2 == 0).unwrap();
                assert_eq!(removed, there.filter(|v| v % 2 == 0).as_ref());
                if removed.is_some() {
                    oracle.remove(&k);
                }
            }
            7 => {
                let done = map.insert_new(&k, v);
                match there {
                    None => {
                        done.unwrap();
                        oracle.insert(k, v);
                    }
                    Some(_) => {
                        let no = done.unwrap_err();
                        assert_eq!((no.error, no.value), (Error::Exists, v));
                    }
                }
            }
            8 => {
                let done = map.replace(&k, v);
                match there {
                    Some(_) => {
                        done.unwrap();
                        oracle.insert(k, v);
                    }
                    None => {
                        let no = done.unwrap_err();
                        assert_eq!((no.error, no.value), (Error::Absent, v));
                    }
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
            _ => {
                let pin = map.pin();
                let view = pin.view();
                assert_eq!(view.get(&k), oracle.get(&k));
                assert_eq!(map.get(&k), oracle.get(&k).copied());
                assert_eq!(view.contains_key(&k), there.is_some());
                let entry = view.get_key_value(&k);
                assert_eq!(entry, there.as_ref().map(|v| (&k[..], v)));
            }
        }
        if step % (steps / 40).max(1) == 0 {
            agree(&map, &oracle);
        }
    }
    agree(&map, &oracle);
    assert_eq!(map.clear().unwrap(), oracle.len());
    agree(&map, &Oracle::new());
    map.reclaim(usize::MAX);
    assert_eq!(map.memory().arena.live, 0, "an emptied map keeps nothing");
}

#[test]
fn one_thread_agrees_with_a_hash_map() {
    one_thread(ArenaOptions::default(), 1, steps(40_000), 5, 6);
    // So few keys that the smallest tables come and go.
    one_thread(ArenaOptions::default(), 2, steps(40_000), 3, 3);
    one_thread(ArenaOptions::default(), 3, steps(10_000), 3, 300);
    one_thread(ArenaOptions::default(), 4, steps(60_000), 26, 8);
}

#[test]
fn one_thread_uses_nothing_that_was_freed() {
    let poison = ArenaOptions::default().debug(DebugMode::Poison);
    one_thread(poison, 5, steps(10_000), 5, 6);
    if !cfg!(miri) {
        let protect = ArenaOptions::default().debug(DebugMode::Protect);
        one_thread(protect, 6, steps(10_000), 5, 4);
    }
}

#[test]
fn it_grows_and_shrinks_and_keeps_all() {
    let map = PointMap::new().unwrap();
    let n = steps(40_000) as u64;
    let name = |i: u64| format!("entry number {i}");
    for round in 0..2 {
        for i in 0..n {
            assert_eq!(map.insert(name(i), i), Ok(true));
            if i % (n / 6).max(1) == 0 {
                map.verify().unwrap();
                for j in 0..=i {
                    assert_eq!(map.get(name(j)), Some(j));
                }
            }
        }
        assert_eq!(map.len(), n as usize);
        for i in (0..n).rev() {
            assert_eq!(map.remove(name(i)), Ok(true));
            if i % (n / 6).max(1) == 0 {
                map.verify().unwrap();
                assert_eq!(map.pin().view().iter().count(), i as usize);
                for j in 0..n {
                    assert_eq!(map.contains_key(name(j)), j < i);
                }
            }
        }
        map.reclaim(usize::MAX);
        assert_eq!(map.memory().arena.live, 0, "round {round}");
    }
}

#[test]
fn many_keys_are_looked_up_at_once() {
    let n = steps(300_000) as u32;
    let map = PointMap::new().unwrap();
    let entry = |i: u32| (i.wrapping_mul(0x9e37_79b9).to_be_bytes(), i);
    for i in 0..n {
        let (key, value) = entry(i);
        map.insert(key, value).unwrap();
    }
    let keys: Vec<_> = (0..n + 40).step_by(2).map(|i| entry(i).0).collect();
    let mut found = vec![None; keys.len()];
    let pin = map.pin();
    pin.view().get_many(&keys, &mut found);
    for (i, found) in found.iter().enumerate() {
        let i = 2 * i as u32;
        assert_eq!(found.copied(), (i < n).then_some(i));
    }
}

/// Changes by one thread, of which some fail for want of memory; how many.
fn with_too_little_memory(options: ArenaOptions, seed: u64, longest: usize) -> usize {
    let map = PointMap::builder().options(options).build().unwrap();
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut failed = 0;
    for step in 0..steps(20_000) {
        let k = key(&mut rng, 20, longest);
        let growing = step / 2000 % 2 == 0;
        if rng.u8(0..4) > 2 * u8::from(growing) {
            assert_eq!(map.remove(&k), Ok(oracle.remove(&k).is_some()));
            continue;
        }
        let v = rng.u64(..);
        match map.insert(&k, v) {
            Ok(new) => assert_eq!(new, oracle.insert(k, v).is_none()),
            Err(no) => {
                assert!(matches!(no.error, Error::ArenaFull(_)));
                assert_eq!(no.value, v);
                assert_eq!(map.get(&k), oracle.get(&k).copied());
                failed += 1;
            }
        }
        if step % 500 == 0 {
            agree(&map, &oracle);
        }
    }
    agree(&map, &oracle);
    assert_eq!(map.clear(), Ok(oracle.len()));
    agree(&map, &Oracle::new());
    failed
}

#[test]
fn requests_for_memory_that_fail_change_nothing() {
    // Leaves and tables alike: tables stay half moved, run over, and go on later.
    let mut failed = 0;
    for fail_every in [2, 3, 5, 11] {
        let options = small(ArenaOptions::default().fail_every(fail_every));
        failed += with_too_little_memory(options, fail_every, 3);
    }
    assert!(cfg!(miri) || failed > 100, "{failed}");
}

#[test]
fn changes_in_an_arena_that_is_full_most_of_the_time() {
    let mut failed = 0;
    for seed in 0..8 {
        let backing = Backing::HeapFixed((4 << 10) << (seed % 4));
        let options = ArenaOptions::default().backing(backing);
        failed += with_too_little_memory(options, seed, 3);
    }
    assert!(cfg!(miri) || failed > 1000, "{failed}");
}

#[test]
fn a_full_arena_keeps_what_is_there_and_can_be_emptied() {
    let options = ArenaOptions::default().backing(Backing::HeapFixed(1 << 18));
    let map = PointMap::builder().options(options).build().unwrap();
    let name = |i: u64| format!("key {i}");
    let fill = |from: u64| {
        for i in from.. {
            if let Err(no) = map.insert(name(i), i) {
                assert!(matches!(no.error, Error::ArenaFull(_)));
                assert_eq!(no.value, i);
                return i;
            }
        }
        unreachable!("the arena is small")
    };
    let n = fill(0);
    assert!(n > 4000, "{n}");
    map.verify().unwrap();
    for i in 0..n {
        assert_eq!(map.get(name(i)), Some(i));
    }
    assert_eq!(map.len(), n as usize);
    // Removal needs no memory, and makes room.
    for i in 0..n / 2 {
        assert_eq!(map.remove(name(i)), Ok(true));
    }
    map.verify().unwrap();
    let more = fill(n);
    assert!(more > n + n / 4, "{n} {more}");
    map.verify().unwrap();
    for i in 0..more {
        assert_eq!(map.contains_key(name(i)), i >= n / 2);
    }
    for i in n / 2..more {
        assert_eq!(map.remove(name(i)), Ok(true));
    }
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(map.memory().arena.live, 0);
    let again = fill(0);
    assert!(again >= n - n / 8, "{n} {again}");
}

#[test]
fn a_panic_in_a_closure_leaves_the_map_usable() {
    let map = PointMap::new().unwrap();
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
fn a_test_may_change_the_map() {
    let map = PointMap::new().unwrap();
    map.insert("key", 1u64).unwrap();
    let mut asked = Vec::new();
    let pin = map.pin();
    let removed = pin.view().remove_if("key", |value| {
        asked.push(*value);
        if asked.len() == 1 {
            // The value that was asked about is replaced: the next one is asked about.
            map.insert("key", 2).unwrap();
            map.insert("another", 3).unwrap();
        }
        true
    });
    assert_eq!(removed, Ok(Some(&2)));
    assert_eq!(asked, [1, 2]);
    // Removed by the test itself, as the last one.
    let removed = pin
        .view()
        .remove_if("another", |_| map.remove("another").unwrap());
    assert_eq!(removed, Ok(None));
    assert!(map.is_empty());
    drop(pin);
    map.verify().unwrap();
}

#[test]
fn a_walk_stops_early() {
    let map = PointMap::new().unwrap();
    for i in 0..100u8 {
        map.insert([i], u64::from(i)).unwrap();
    }
    let mut visited = 0;
    let found = map.for_each(|key, value| {
        visited += 1;
        match visited {
            17 => ControlFlow::Break((key[0], *value)),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(visited, 17);
    assert!(matches!(found, ControlFlow::Break((key, value)) if u64::from(key) == value));
}

#[test]
fn garbage_is_limited_and_comes_back() {
    let domain = Domain::builder().hard_limit(100_000).build();
    let map = PointMap::builder().domain(&domain).build().unwrap();
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
}

#[test]
fn keys_over_the_limit_are_refused() {
    let map = PointMap::new().unwrap();
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
fn values_with_a_large_alignment() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Wide(u8);
    let map = PointMap::new().unwrap();
    for i in 0..100u8 {
        map.insert([i], Wide(i)).unwrap();
        map.insert([i], Wide(i ^ 1)).unwrap();
    }
    for i in 0..50u8 {
        assert_eq!(map.remove([i]), Ok(true));
    }
    let pin = map.pin();
    assert!((50..100).all(|i| pin.view().get([i]) == Some(&Wide(i ^ 1))));
    map.verify().unwrap();
}

#[test]
fn the_accounts_say_what_an_entry_takes() {
    let map = PointMap::new().unwrap();
    let n = steps(100_000);
    for i in 0..n as u64 {
        map.insert(i.to_be_bytes(), i).unwrap();
    }
    let memory = map.memory();
    assert_eq!(memory.entries, n);
    // Value, length, key; rounded up.
    assert_eq!(memory.leaves, (n, n * 24));
    assert_eq!(memory.small_branches, (0, 0));
    let each = memory.index as f64 / n as f64;
    assert!(cfg!(miri) || (5.0..9.0).contains(&each), "{each} bytes");
    assert!(memory.to_string().contains("point index"));
    // Shown as a map.
    let small = PointMap::new().unwrap();
    small.insert("k", 1).unwrap();
    assert_eq!(format!("{small:?}"), "{\"k\": 1}");
}

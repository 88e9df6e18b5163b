//! Maps for many writers, used by one thread: compared with an oracle, and in failures. Each
//! suitable test runs on every kind of map.

use std::ops::ControlFlow;

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Key, Ordered, PointMap, QpMap, QpShared, SharedMap};
use sapwood::qsbr::Domain;

use crate::support::shared::{Kind, Oracle, agree, both, builder, each_kind, key, small, steps};

fn one_thread<O: Kind>(
    builder: Builder<SharedMap<O, u64>>,
    options: ArenaOptions,
    seed: u64,
    steps: usize,
    alphabet: u8,
    longest: usize,
) {
    let map = builder.options(small(options)).build().unwrap();
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
                assert_eq!(entry, there.as_ref().map(|v| (Key::from(&k), v)));
                O::neighbours(&map, &oracle, &k);
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
    assert_eq!(map.memory().arena.live, 0, "an emptied map holds no memory");
}

#[test]
fn one_thread_agrees_with_a_btreemap() {
    each_kind!(new => {
        one_thread(new(), ArenaOptions::default(), 1, steps(40_000), 5, 6);
        one_thread(new(), ArenaOptions::default(), 2, steps(40_000), 20, 2);
        one_thread(new(), ArenaOptions::default(), 3, steps(10_000), 3, 300);
        // The keys are so few that the smallest tables are created and dropped.
        one_thread(new(), ArenaOptions::default(), 4, steps(40_000), 3, 3);
    });
    one_thread(
        PointMap::builder(),
        ArenaOptions::default(),
        5,
        steps(60_000),
        26,
        8,
    );
}

#[test]
fn one_thread_uses_nothing_that_was_freed() {
    each_kind!(new => {
        let poison = ArenaOptions::default().debug(DebugMode::Poison);
        one_thread(new(), poison, 5, steps(10_000), 5, 6);
        if !cfg!(miri) {
            let protect = ArenaOptions::default().debug(DebugMode::Protect);
            one_thread(new(), protect, 6, steps(10_000), 5, 4);
        }
    });
}

#[test]
fn clusters_grow_and_shrink() {
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

/// Keys that are prefixes of each other, and neighbours far and near.
const AROUND: [&str; 9] = ["", "a", "ab", "abc", "abd", "b", "b.a", "b.b", "c.*."];

#[test]
fn queries_pass_over_removed_keys_and_keys_come_back() {
    both(|index| {
        let step = if cfg!(miri) { 97 } else { 1 };
        for removed in (0..1u32 << AROUND.len()).step_by(step) {
            let map = builder(index).build().unwrap();
            let mut oracle = Oracle::new();
            for (value, key) in (0..).zip(AROUND) {
                map.insert(key, value).unwrap();
                oracle.insert(key.into(), value);
            }
            let gone = (0..).zip(AROUND).filter(|(i, _)| removed >> i & 1 == 1);
            for (_, key) in gone.clone() {
                assert_eq!(map.remove(key), Ok(true));
                oracle.remove(key.as_bytes());
            }
            agree(&map, &oracle);
            let mut own = QpMap::new();
            own.extend(oracle.iter().map(|(key, value)| (key, *value)));
            for key in AROUND {
                for end in ["", "a", ".", ".a", "bz", "~"] {
                    let asked = [key, end].concat();
                    Ordered::neighbours(&map, &oracle, asked.as_bytes());
                    let pin = map.pin();
                    let found = pin.view().closest(&asked, b'.', |_, value| value % 3 == 0);
                    let wanted = own.closest(&asked, b'.', |_, value| value % 3 == 0);
                    assert_eq!(format!("{found:?}"), format!("{wanted:?}"), "{asked}");
                }
            }
            for (value, key) in gone {
                assert_eq!(map.insert(key, value), Ok(true));
                oracle.insert(key.into(), value);
                Ordered::neighbours(&map, &oracle, key.as_bytes());
            }
            agree(&map, &oracle);
        }
    });
}

#[test]
fn rounds_of_insertions_and_removals_leave_no_memory_behind() {
    both(|index| {
        let map = builder(index).build().unwrap();
        let mut names: Vec<_> = (0..steps(3000)).map(|i| format!("{}.org", i * i)).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut names);
        let mut first = [None; 2];
        for _ in 0..if cfg!(miri) { 2 } else { 100 } {
            // Full; full again, after three of four keys were removed; then empty.
            for (kept, first) in [1, 4].into_iter().zip(&mut first) {
                for name in &names {
                    map.insert(name, 1).unwrap();
                }
                map.reclaim(usize::MAX);
                let live = map.memory().arena.live;
                let before = *first.get_or_insert(live);
                assert!(live.abs_diff(before) * 50 <= before, "{live} {before}");
                for (i, name) in names.iter().enumerate() {
                    if i % 4 >= kept {
                        map.remove(name).unwrap();
                    }
                }
            }
            map.clear().unwrap();
            map.reclaim(usize::MAX);
            assert_eq!(map.memory().arena.live, 0);
        }
    });
}

#[test]
fn most_removals_from_clusters_need_no_memory() {
    both(|index| {
        let options = ArenaOptions::default().backing(Backing::HeapFixed(1 << 16));
        let map = builder(index).options(options).build().unwrap();
        let names = (0..).map(|i| format!("key {i}"));
        let there: Vec<_> = names
            .take_while(|name| map.insert(name, 1).is_ok())
            .collect();
        // No memory is freed under this guard.
        let pin = map.pin();
        let mut left = Vec::new();
        for name in &there {
            match pin.view().remove(name) {
                Ok(value) => assert_eq!(value, Some(&1)),
                Err(error) => {
                    assert!(matches!(error, Error::ArenaFull(_)));
                    left.push(name);
                }
            }
            assert_eq!(map.contains_key(name), left.last() == Some(&name));
        }
        drop(pin);
        assert!(
            left.len() < there.len() / 4,
            "{} of {}",
            left.len(),
            there.len()
        );
        map.verify().unwrap();
        for name in left {
            assert_eq!(map.remove(name), Ok(true));
        }
        assert!(map.is_empty());
        map.verify().unwrap();
    });
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

/// Runs changes by one thread, of which some fail for lack of memory; returns the number of
/// failures.
fn with_too_little_memory<O: Kind>(
    builder: Builder<SharedMap<O, u64>>,
    options: ArenaOptions,
    seed: u64,
    longest: usize,
) -> usize {
    let map = builder.options(options).build().unwrap();
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut failed = 0;
    for step in 0..steps(20_000) {
        let k = key(&mut rng, 20, longest);
        let growing = step / 2000 % 2 == 0;
        if rng.u8(0..4) > 2 * u8::from(growing) {
            match map.remove(&k) {
                Ok(was) => assert_eq!(was, oracle.remove(&k).is_some()),
                Err(error) => {
                    assert!(O::REMOVAL_MAY_FAIL && matches!(error, Error::ArenaFull(_)));
                    assert_eq!(map.get(&k), oracle.get(&k).copied());
                    failed += 1;
                }
            }
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
    match map.clear() {
        Ok(removed) => {
            assert_eq!(removed, oracle.len());
            agree(&map, &Oracle::new());
        }
        Err(_) => {
            assert!(O::REMOVAL_MAY_FAIL);
            map.verify().unwrap();
        }
    }
    failed
}

#[test]
fn requests_for_memory_that_fail_change_nothing() {
    each_kind!(new => {
        // Allocations of leaves and of tables fail: tables stay half moved, overflow, and continue
        // later.
        let mut failed = 0;
        for fail_every in [2, 3, 5, 11] {
            let options = small(ArenaOptions::default().fail_every(fail_every));
            failed += with_too_little_memory(new(), options, fail_every, 3);
        }
        assert!(cfg!(miri) || failed > 100, "{failed}");
    });
}

#[test]
fn changes_in_an_arena_that_is_full_most_of_the_time() {
    each_kind!(new => {
        let mut failed = 0;
        for seed in 0..8 {
            let backing = Backing::HeapFixed((4 << 10) << (seed % 4));
            let options = ArenaOptions::default().backing(backing);
            failed += with_too_little_memory(new(), options, seed, 3);
        }
        assert!(cfg!(miri) || failed > 1000, "{failed}");
    });
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
    // A removal needs no memory, and makes room.
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
    each_kind!(new => {
        let map = new().build().unwrap();
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
    });
}

#[test]
fn a_comparison_may_change_the_map_and_may_panic() {
    use std::cell::Cell;
    use std::sync::OnceLock;

    static MAP: OnceLock<QpShared<Meddler>> = OnceLock::new();
    thread_local! {
        static COMPARED: Cell<u32> = const { Cell::new(0) };
    }
    /// A value that is equal at first, while its comparison replaces the stored value; later its
    /// comparison panics.
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
    assert_eq!(
        COMPARED.get(),
        2,
        "the comparison runs again after the change"
    );
    // No part of the rejected value is left.
    map.verify().unwrap();
    assert_eq!(map.pin().view().get("key").unwrap().0, 9);
}

#[test]
fn a_test_may_change_the_map() {
    each_kind!(new => {
        let map = new().build().unwrap();
        map.insert("key", 1u64).unwrap();
        let mut asked = Vec::new();
        let pin = map.pin();
        let removed = pin.view().remove_if("key", |value| {
            asked.push(*value);
            if asked.len() == 1 {
                // The tested value is replaced: the test runs again on the next one.
                map.insert("key", 2).unwrap();
                map.insert("another", 3).unwrap();
            }
            true
        });
        assert_eq!(removed, Ok(Some(&2)));
        assert_eq!(asked, [1, 2]);
        // The test itself removes the last value.
        let removed = pin
            .view()
            .remove_if("another", |_| map.remove("another").unwrap());
        assert_eq!(removed, Ok(None));
        assert!(map.is_empty());
        drop(pin);
        map.verify().unwrap();
    });
}

#[test]
fn a_walk_stops_early() {
    each_kind!(new => {
        let map = new().build().unwrap();
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
    });
}

#[test]
fn garbage_is_limited_and_comes_back() {
    each_kind!(new => {
        let domain = Domain::builder().hard_limit(100_000).build();
        let map = new().domain(&domain).build().unwrap();
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
    each_kind!(new => {
        let map = new().build().unwrap();
        let long = vec![7; 65_536];
        let no = map.insert(&long, 5).unwrap_err();
        assert_eq!((no.value, no.error), (5, Error::KeyTooLong { len: 65_536 }));
        assert_eq!(map.remove(&long), Ok(false));
        assert_eq!(map.insert(&long[1..], 6), Ok(true));
        assert_eq!(map.get(&long), None);
        assert_eq!(map.get(&long[1..]), Some(6));
        map.verify().unwrap();
    });
}

#[test]
fn values_with_a_large_alignment() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Wide(u8);
    each_kind!(new => {
        let map = new().build().unwrap();
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
    });
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
    // Value, length and key, rounded up.
    assert_eq!(memory.leaves, (n, n * 24));
    assert_eq!(memory.branches, (0, 0));
    let each = memory.index as f64 / n as f64;
    // The largest just after a step of growth, as the documentation of `PointMap` says.
    assert!(cfg!(miri) || (5.0..10.0).contains(&each), "{each} bytes");
    assert!(memory.to_string().contains("point index"));
    // A map is shown like the standard library's.
    let small = PointMap::new().unwrap();
    small.insert("k", 1).unwrap();
    assert_eq!(format!("{small:?}"), "{\"k\": 1}");
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
    assert_eq!(after.branches, before.branches);
    if !cfg!(miri) {
        assert!(steps > 5, "{steps}");
        assert!(
            after.total() < before.total() * 9 / 10,
            "{before:#?}\n{after:#?}"
        );
    }
}

/// The memory of a map that is compacted completely again and again stops growing: first the
/// branches move above all others, then into the room that they left.
#[test]
fn compactions_come_to_an_end_of_the_memory() {
    let map = QpShared::builder().with_index().build().unwrap();
    let n = if cfg!(miri) { 200 } else { 20_000u32 };
    let key = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes();
    for i in 0..n {
        map.insert(key(i), i).unwrap();
    }
    let mut frontiers = Vec::new();
    for round in 0..if cfg!(miri) { 3 } else { 12u32 } {
        // Some rounds in one step, some in many, with changes between the steps.
        let budget = if round % 2 == 0 { usize::MAX } else { 700 };
        let mut next = 0;
        while map.compact_step(budget).unwrap() {
            for _ in 0..10 {
                next = (next + 7919) % n;
                assert_eq!(map.remove(key(next)), Ok(true));
                assert_eq!(map.insert(key(next), next), Ok(true));
            }
        }
        map.domain().synchronize();
        map.reclaim(usize::MAX);
        map.verify().unwrap();
        frontiers.push(map.memory().arena.frontier);
    }
    for i in 0..n {
        assert_eq!(map.get(key(i)), Some(i));
    }
    if !cfg!(miri) {
        let (early, late) = frontiers.split_at(4);
        let highest = |all: &[usize]| all.iter().copied().max().unwrap_or(0);
        assert!(highest(late) <= highest(early) * 21 / 20, "{frontiers:?}");
    }
}

/// Without room, a compaction says so, and the map stays usable.
#[test]
fn a_compaction_without_room_leaves_the_map_usable() {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 20 });
    let map = QpShared::builder().options(options).build().unwrap();
    let key = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let mut n = 0;
    // Fill all but a little of the memory.
    while map.memory().arena.frontier < 1 << 20 && map.insert(key(n), n).is_ok() {
        n += 1;
    }
    for i in (0..n).step_by(16) {
        map.remove(key(i)).unwrap();
    }
    map.domain().synchronize();
    map.reclaim(usize::MAX);
    let mut full = 0;
    for _ in 0..8 {
        loop {
            match map.compact_step(64) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Error::ArenaFull(_)) => full += 1,
                Err(other) => panic!("{other}"),
            }
            assert!(full < 1000, "the compaction never ends");
        }
        map.domain().synchronize();
        map.reclaim(usize::MAX);
        map.verify().unwrap();
    }
    assert!(full > 0, "the memory never ran out");
    for i in (0..n).step_by(16).take(n as usize / 64) {
        assert_eq!(map.insert(key(i), i), Ok(true), "{i} of {n}");
    }
    map.verify().unwrap();
}

#[test]
fn batches_are_single_operations_in_order() {
    both(|index| {
        // The map is large enough for interleaved descents.
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

/// The pages of a map that the system has to back.
fn committed<O: Kind>(map: &SharedMap<O, u64>) -> usize {
    map.memory().arena.committed
}

#[test]
#[cfg_attr(miri, ignore = "no pages are given back")]
fn an_emptied_map_keeps_a_few_pages() {
    each_kind!(new => {
        let map = new().build().unwrap();
        for round in 0..2 {
            let n = steps(130_000) as u64;
            for i in 0..n {
                map.insert((i * 7919 % n).to_be_bytes(), i).unwrap();
            }
            assert!(committed(&map) > n as usize * 16);
            for i in 0..n {
                assert_eq!(map.remove(i.to_be_bytes()), Ok(true));
            }
            map.reclaim(usize::MAX);
            let left = committed(&map);
            assert!(left <= 16 << 10, "{left} bytes stay in round {round}");
            assert_eq!(map.memory().arena.live, 0);
            map.verify().unwrap();
        }
        // Garbage of several threads is freed, too.
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let map = &map;
                scope.spawn(move || {
                    for i in 0..steps(20_000) as u64 {
                        let key = (i << 8 | thread).to_be_bytes();
                        map.insert(key, i).unwrap();
                    }
                    for i in 0..steps(20_000) as u64 {
                        map.remove((i << 8 | thread).to_be_bytes()).unwrap();
                    }
                });
            }
        });
        map.reclaim(usize::MAX);
        map.reclaim(usize::MAX);
        let left = committed(&map);
        assert!(left <= 16 << 10, "{left} bytes stay after threads");
    });
}

/// A change is refused for lack of memory only where there is none: a second call would fail, too.
/// A change once failed because its own guard held memory back.
#[test]
fn what_is_refused_for_want_of_memory_is_refused_again() {
    each_kind!(new => {
        for limit in [64 << 10, 300_000] {
            let map = new().memory_limit(limit).build().unwrap();
            let mut rng = fastrand::Rng::with_seed(limit as u64);
            let mut full = 0;
            for i in 0..steps(limit / 6) as u64 {
                let most = limit as u64 / if i / 4096 % 2 == 0 { 8 } else { 32 };
                let key = rng.u64(..most).to_be_bytes();
                let filling = i / 2048 % 4 < 3;
                let once = || match filling {
                    true => map.insert(key, i).map(drop).map_err(|no| no.error),
                    false => map.remove(key).map(drop),
                };
                if let Err(error) = once() {
                    assert!(matches!(error, Error::ArenaFull(_)), "{error}");
                    full += 1;
                    let entries = map.len();
                    assert_eq!(once(), Err(error), "{entries} entries, limit {limit}, step {i}");
                }
            }
            assert!(full > 0 || steps(8) < 8, "limit {limit}");
            map.verify().unwrap();
        }
    });
}

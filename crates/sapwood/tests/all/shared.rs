//! `QpShared` used by one thread: against an oracle, and where something goes wrong.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::QpShared;
use sapwood::qsbr::Domain;

use crate::support::shared::{agree, both, builder, key, small, steps};

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

/// A map that is compacted again and again, all of it each time, must come to an end of the memory that it takes: first the
/// branches move above all others, then into what that left.
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

/// Without room, a compaction says so, and what it left behind can be used.
#[test]
fn a_compaction_without_room_leaves_the_map_usable() {
    let options = ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 20 });
    let map = QpShared::builder().options(options).build().unwrap();
    let key = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let mut n = 0;
    // All but a little of the memory.
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
            assert!(full < 1000, "it never ends");
        }
        map.domain().synchronize();
        map.reclaim(usize::MAX);
        map.verify().unwrap();
    }
    assert!(full > 0, "there was room");
    for i in (0..n).step_by(16).take(n as usize / 64) {
        assert_eq!(map.insert(key(i), i), Ok(true), "{i} of {n}");
    }
    map.verify().unwrap();
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

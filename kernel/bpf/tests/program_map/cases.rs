//! Limits, errors, and operations without memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Error, KernelGrace, ProgramMap, UserMap};

use crate::asks::{
    ANY, E2BIG, EBUSY, EEXIST, EINVAL, ENODATA, ENOENT, ENOMEM, ENOSPC, EXIST, Kernel, NOEXIST,
    Side, User, What,
};
use crate::kernel::Poke;
use crate::{PARTS, against_the_oracle, can, with};
use sapwood_bpf::layout::program_map as k;

/// The C code in the kernel, and in user space if there is a compiler.
fn sides(arena: &BpfArena) -> Vec<Box<dyn Side>> {
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Kernel::new(arena))];
    if let Some(user) = User::new(arena, "gcc") {
        sides.push(Box::new(user));
    }
    sides
}

#[test]
fn memory_runs_out_and_comes_back() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let grace = KernelGrace::new().unwrap();
    let mut number = 0;
    for mut side in sides(&arena) {
        for parts in PARTS {
            // Small rings, failing requests.
            for (ring, fail) in [(1, 1), (2, 1), (2, 3), (64, 2)] {
                number += 1;
                let map = with(
                    ProgramMap::<[u64; 3]>::builder(&arena, &format!("m{number}")),
                    parts,
                )
                .max_entries(60)
                .bytes(1 << 20)
                .ring(ring)
                .grow(true)
                .fail_every(fail)
                .grace(&grace)
                .build()
                .unwrap();
                let failed = against_the_oracle(
                    &map,
                    &mut *side,
                    parts,
                    60,
                    &mut fastrand::Rng::with_seed(number),
                    300,
                    64,
                );
                assert!(failed > 0 || fail > 1, "ring {ring}, fail {fail}");
                drop(map);
            }
        }
        number += 1;
        // A window that is so small that the map fills it.
        let map = ProgramMap::<[u64; 3]>::builder(&arena, &format!("m{number}"))
            .max_entries(10_000)
            .bytes(360 << 10)
            .grow(true)
            .ring(16)
            .build()
            .unwrap();
        let window = map.window().number;
        let (mut starved, mut entries, mut in_vain) = (false, 0, 0);
        for i in 0..10_000u32 {
            let key = format!("{i:08}");
            let (result, _) = side.ask(What::InsertValue, window, ANY, key.as_bytes(), &[1, 2, 3]);
            starved |= map.service().unwrap().starved;
            match result {
                0 => (entries, in_vain) = (entries + 1, 0),
                ENOMEM if in_vain == 100 => break,
                ENOMEM => {
                    // Retired blocks come back after a grace period.
                    std::thread::sleep(Duration::from_millis(1));
                    in_vain += 1;
                }
                other => panic!("{other}"),
            }
        }
        assert!(starved && entries > 500, "{entries}");
        assert_eq!(map.verify().unwrap().entries, entries);
        for i in 0..10_000u32 {
            let key = format!("{i:08}");
            let until = Instant::now() + Duration::from_secs(5);
            while side.ask(What::Remove, window, 0, key.as_bytes(), &[]).0 == ENOMEM {
                map.service().unwrap();
                assert!(Instant::now() < until);
            }
            if i % 16 == 0 {
                map.service().unwrap();
            }
        }
        assert_eq!(map.verify().unwrap().entries, 0);
    }
}

#[test]
fn keys_of_all_lengths_and_all_labels() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    for (i, mut side) in sides(&arena).into_iter().enumerate() {
        for (j, parts) in PARTS.into_iter().enumerate() {
            let map = with(
                ProgramMap::<u64>::builder(&arena, &format!("k{i}{j}")),
                parts,
            )
            .max_entries(2000)
            .bytes(4 << 20)
            .ring(2048)
            .prefill(1, 600)
            .build()
            .unwrap();
            let window = map.window().number;
            let mut oracle = BTreeMap::new();
            // All bytes at an offset, its end, and all lengths with a long common prefix.
            let mut keys: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![b'k', byte]).collect();
            keys.push(b"k".to_vec());
            keys.extend((0..=254).map(|len| vec![b'z'; len]));
            keys.extend((0..=253).map(|len| [vec![b'z'; len], vec![b'y']].concat()));
            fastrand::Rng::with_seed(7).shuffle(&mut keys);
            for (n, key) in keys.iter().enumerate() {
                map.service().unwrap();
                let (result, _) = side.ask(What::Insert, window, NOEXIST, key, &[n as u64]);
                assert_eq!(result, 0, "{key:?}");
                oracle.insert(key.clone(), n as u64);
            }
            assert_eq!(map.verify().unwrap().entries, oracle.len());
            for (key, value) in &oracle {
                let (result, words) = side.ask(What::Lookup, window, 0, key, &[]);
                assert!(result > 0 && words[0] == *value, "{key:?}: {result}");
                assert_eq!(map.get(key).unwrap(), Some(*value));
                let (result, _) = side.ask(What::Insert, window, NOEXIST, key, &[0]);
                assert_eq!(result, EEXIST);
            }
            if parts.1 {
                let read: Vec<(Vec<u8>, u64)> = map
                    .reader()
                    .unwrap()
                    .iter()
                    .map(|entry| entry.unwrap())
                    .collect();
                assert!(read.into_iter().eq(oracle.clone()), "in order");
            } else {
                assert!(matches!(map.reader(), Err(Error::Setting { .. })));
            }
            let mut all = BTreeMap::new();
            map.for_each(|key, value| assert_eq!(all.insert(key.to_vec(), value), None))
                .unwrap();
            assert_eq!(all, oracle);
            fastrand::Rng::with_seed(8).shuffle(&mut keys);
            for (n, key) in keys.iter().enumerate() {
                map.service().unwrap();
                assert_eq!(side.ask(What::Remove, window, 0, key, &[]).0, 0, "{key:?}");
                assert_eq!(side.ask(What::Remove, window, 0, key, &[]).0, ENOENT);
                if n % 50 == 0 {
                    assert_eq!(map.verify().unwrap().entries, keys.len() - n - 1);
                }
            }
            let shape = map.verify().unwrap();
            assert_eq!((shape.branches, shape.clusters), (0, 0));
        }
    }
}

#[test]
fn an_index_that_runs_over() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(32 << 20).unwrap();
    for (i, mut side) in sides(&arena).into_iter().enumerate() {
        // Two buckets and two behind them: 48 slots for 300 keys.
        let both = ProgramMap::<u64>::builder(&arena, &format!("both{i}"))
            .max_entries(300)
            .index_buckets(2)
            .bytes(4 << 20)
            .build()
            .unwrap();
        against_the_oracle(
            &both,
            &mut *side,
            (true, true),
            300,
            &mut fastrand::Rng::with_seed(5),
            2500,
            64,
        );
        let window = both.window().number;
        for n in 0..300u64 {
            both.service().unwrap();
            let key = n.to_le_bytes();
            assert_eq!(side.ask(What::Insert, window, ANY, &key, &[n]).0, 0);
        }
        let shape = both.verify().unwrap();
        assert!(shape.spilled >= 252, "{shape:?}");
        for n in 0..300u64 {
            let (result, words) = side.ask(What::Lookup, window, 0, &n.to_le_bytes(), &[]);
            assert!(result > 0 && words[0] == n);
            assert_eq!(both.get(n.to_le_bytes()).unwrap(), Some(n));
        }
        let alone = ProgramMap::<u64>::builder(&arena, &format!("alone{i}"))
            .max_entries(300)
            .with_index()
            .index_buckets(2)
            .bytes(4 << 20)
            .build()
            .unwrap();
        let window = alone.window().number;
        let mut entries = 0;
        let mut refused = 0;
        for n in 0..300u64 {
            alone.service().unwrap();
            match side
                .ask(What::Insert, window, ANY, &n.to_le_bytes(), &[n])
                .0
            {
                0 => entries += 1,
                ENOSPC => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert!(refused > 0 && (24..=48).contains(&entries), "{entries}");
        assert_eq!(alone.verify().unwrap().entries, entries);
    }
}

#[test]
fn errors() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(32 << 20).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .build()
        .unwrap();
    names.insert("a", 1).unwrap();
    let map = ProgramMap::<u64>::builder(&arena, "map")
        .max_entries(3)
        .bytes(4 << 20)
        .build()
        .unwrap();
    let poke = Poke::new(&arena);
    for mut side in sides(&arena) {
        let window = map.window().number;
        for wrong in [names.window().number, 31, 9] {
            assert_eq!(side.ask(What::Insert, wrong, ANY, b"a", &[1]).0, EINVAL);
            assert_eq!(side.ask(What::Remove, wrong, ANY, b"a", &[1]).0, EINVAL);
        }
        assert_eq!(names.get("a"), Some(1));
        let long = [1; 255];
        assert_eq!(side.ask(What::Insert, window, ANY, &long, &[1]).0, EINVAL);
        assert_eq!(side.ask(What::Remove, window, ANY, &long, &[1]).0, EINVAL);
        assert_eq!(side.ask(What::Lookup, window, ANY, &long, &[]).0, ENOENT);
        assert_eq!(side.ask(What::Insert, window, 3, b"a", &[1]).0, EINVAL);
        assert_eq!(side.ask(What::Insert, window, EXIST, b"a", &[1]).0, ENOENT);
        for key in ["a", "", "ab"] {
            assert_eq!(
                side.ask(What::Insert, window, ANY, key.as_bytes(), &[1]).0,
                0
            );
        }
        assert_eq!(side.ask(What::Insert, window, ANY, b"b", &[1]).0, E2BIG);
        assert_eq!(side.ask(What::Insert, window, NOEXIST, b"b", &[1]).0, E2BIG);
        assert_eq!(side.ask(What::Insert, window, ANY, b"a", &[2]).0, 0);
        assert_eq!(
            side.ask(What::Insert, window, NOEXIST, b"a", &[3]).0,
            EEXIST
        );
        assert_eq!(map.get("a").unwrap(), Some(2));
        assert_eq!(map.get(long).unwrap(), None);
        // The root's lock is taken, and nobody releases it.
        let lock = (map.window().at + k::ROOT_LOCK) as u64;
        poke.words(lock, &[1 << 26]);
        let begin = Instant::now();
        assert_eq!(side.ask(What::Remove, window, ANY, b"a", &[]).0, EBUSY);
        // A value of one word is replaced without a lock.
        assert_eq!(side.ask(What::Insert, window, ANY, b"a", &[4]).0, 0);
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{:?}",
            begin.elapsed()
        );
        assert!(
            side.ask(What::Lookup, window, ANY, b"a", &[]).0 > 0,
            "readers take no lock"
        );
        assert!(matches!(map.verify(), Err(Error::Damaged(_))));
        map.service().unwrap();
        poke.words(lock, &[0]);
        for key in ["a", "", "ab"] {
            assert_eq!(
                side.ask(What::Remove, window, ANY, key.as_bytes(), &[]).0,
                0
            );
        }
        assert_eq!(
            side.ask(What::Index, names.window().number, 0, b"a", &[]).0,
            ENODATA
        );
    }
    let window = map.window().number;
    drop(map);
    for mut side in sides(&arena) {
        for what in [What::Insert, What::Remove, What::Lookup] {
            assert_eq!(side.ask(what, window, ANY, b"a", &[1]).0, EINVAL, "closed");
        }
    }
    let refused = |built: Result<ProgramMap<u64>, Error>| match built {
        Err(Error::Setting { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let builder = || ProgramMap::<u64>::builder(&arena, "other");
    assert_eq!(refused(builder().max_entries(0).build()), "max_entries");
    assert_eq!(refused(builder().prefill(255, 1).build()), "prefill");
    assert_eq!(refused(builder().ring(0).build()), "ring");
    let small = builder().max_entries(1 << 20).bytes(1 << 20).build();
    assert!(matches!(small, Err(Error::NoRoom { .. })), "{small:?}");
}

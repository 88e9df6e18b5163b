//! Single changes: flags, full maps, keys that are not there, keys of all sizes, values that a
//! program holds.

use libbpf_rs::{MapCore, MapHandle, MapType, libbpf_sys};
use sapwood::qp;
use sapwood_bpf::{BpfArena, Error, ProgramMap, UserMap, UserPointMap};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kernel::{Room, skipped};
use crate::{
    ANY, Asking, E2BIG, EEXIST, EINVAL, ENOENT, ENOMEM, EXIST, NOEXIST, Of, What, ours, window,
    zeros,
};

#[test]
fn flags() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 16);
    let maps = ours(&arena, 16);
    let lru = ProgramMap::<u64>::builder(&arena, "lru").with_index();
    let lru = lru
        .max_entries(16)
        .lru(true)
        .bytes(8 << 20)
        .build()
        .unwrap();
    let windows = maps.iter().map(window).chain([window(&lru)]);
    for of in [Of::Hash, Of::Lru].into_iter().chain(windows) {
        let insert = |flags, value| asking.insert(of, 7, flags, value);
        assert_eq!(asking.lookup(of, 7), Err(ENOENT), "{of:?}");
        assert_eq!(asking.remove(of, 7), ENOENT, "{of:?}");
        assert_eq!(insert(EXIST, 1), ENOENT, "{of:?}");
        assert_eq!(insert(NOEXIST, 2), 0, "{of:?}");
        assert_eq!(insert(NOEXIST, 3), EEXIST, "{of:?}");
        assert_eq!(asking.lookup(of, 7), Ok(2), "{of:?}");
        assert_eq!(insert(EXIST, 4), 0, "{of:?}");
        assert_eq!(insert(ANY, 5), 0, "{of:?}");
        // Both flags at once, the flag for values with a spin lock, and those that nobody knows.
        for flags in [3, 4, 5, 6, 8, 1 << 32, 1 << 32 | EXIST, u64::MAX] {
            assert_eq!(insert(flags, 6), EINVAL, "{of:?}, {flags:#x}");
            assert_eq!(asking.insert(of, 8, flags, 6), EINVAL, "{of:?}, {flags:#x}");
        }
        assert_eq!(asking.lookup(of, 7), Ok(5), "{of:?}");
        assert_eq!(asking.lookup(of, 8), Err(ENOENT), "{of:?}");
        assert_eq!(asking.remove(of, 7), 0, "{of:?}");
        assert_eq!(asking.remove(of, 7), ENOENT, "{of:?}");
        assert_eq!(insert(ANY, 9), 0, "{of:?}");
        assert_eq!(asking.lookup(of, 7), Ok(9), "{of:?}");
    }
}

/// The methods of the maps that a process writes say the same, each in an error of its own.
#[test]
fn methods() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    macro_rules! same {
        ($map:ident, $name:literal) => {
            let map = $map::<u64>::builder(&arena, $name).max_entries(2);
            let map = map.bytes(8 << 20).build().unwrap();
            let key = |i: u64| i.to_ne_bytes();
            assert_eq!(map.remove(key(1)), Ok(false));
            assert_eq!(map.replace(key(1), 1).unwrap_err().error, qp::Error::Absent);
            map.insert_new(key(1), 2).unwrap();
            let there = map.insert_new(key(1), 3).unwrap_err();
            assert_eq!((there.error, there.value), (qp::Error::Exists, 3));
            map.replace(key(1), 4).unwrap();
            assert!(!map.insert(key(1), 5).unwrap());
            assert!(map.insert(key(2), 6).unwrap());
            let full = map.insert(key(3), 7).unwrap_err().error;
            assert_eq!(full, qp::Error::Full { max_entries: 2 });
            assert!(!map.insert(key(1), 8).unwrap());
            assert_eq!((map.get(key(1)), map.get(key(3))), (Some(8), None));
            assert_eq!(map.remove(key(2)), Ok(true));
            assert!(map.insert(key(3), 9).unwrap());
        };
    }
    same!(UserMap, "map");
    same!(UserPointMap, "points");
}

#[test]
fn full_maps() {
    if skipped() {
        return;
    }
    for entries in [1, 2, 33, 300] {
        let arena = BpfArena::create(64 << 20).unwrap();
        let asking = Asking::new(&arena, entries as u32);
        let maps = ours(&arena, entries);
        for of in [Of::Hash].into_iter().chain(maps.iter().map(window)) {
            let n = entries as u64;
            for i in 0..n {
                assert_eq!(asking.insert(of, i, ANY, i), 0, "{of:?}, {i} of {n}");
            }
            assert_eq!(asking.insert(of, n, ANY, 0), E2BIG, "{of:?}");
            assert_eq!(asking.insert(of, n, NOEXIST, 0), E2BIG, "{of:?}");
            // What is there, or is not, is known before.
            assert_eq!(asking.insert(of, n, EXIST, 0), ENOENT, "{of:?}");
            assert_eq!(asking.insert(of, n - 1, NOEXIST, 0), EEXIST, "{of:?}");
            assert_eq!(asking.lookup(of, n), Err(ENOENT), "{of:?}");
            // A full map replaces as often as one likes.
            for i in 0..1000 {
                assert_eq!(asking.insert(of, i % n, ANY, i + 7), 0, "{of:?}");
                assert_eq!(asking.insert(of, i % n, EXIST, i + 8), 0, "{of:?}");
                assert_eq!(asking.lookup(of, i % n), Ok(i + 8), "{of:?}");
            }
            // One that leaves makes room for one.
            assert_eq!(asking.remove(of, 0), 0, "{of:?}");
            assert_eq!(asking.insert(of, n, NOEXIST, 9), 0, "{of:?}");
            assert_eq!(asking.insert(of, n + 1, NOEXIST, 9), E2BIG, "{of:?}");
            assert_eq!(asking.lookup(of, n), Ok(9), "{of:?}");
        }
        assert_eq!(asking.kernels_keys(1000).len(), entries);
        for map in &maps {
            assert_eq!(map.verify().unwrap().entries, entries);
        }
    }
}

/// An LRU_HASH that is full evicts, and so does ours: no insertion is refused, and what is used
/// stays, for the most part.
#[test]
fn full_maps_that_evict() {
    if skipped() {
        return;
    }
    let entries = 1000;
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, entries as u32);
    let map = ProgramMap::<u64>::builder(&arena, "lru").with_index();
    let map = map.max_entries(entries).lru(true).mean_key(8);
    let map = map.bytes(24 << 20).build().unwrap();
    let hot = 50;
    for of in [Of::Lru, window(&map)] {
        let mut kept = hot;
        for i in 0..hot {
            assert_eq!(asking.insert(of, i, NOEXIST, i), 0, "{of:?}");
        }
        for round in 1..20 {
            for i in 0..150 {
                assert_eq!(asking.insert(of, round << 32 | i, NOEXIST, i), 0, "{of:?}");
            }
            // A lookup by a program marks an entry of LRU_HASH, as an insertion does. Ours is
            // marked by an insertion and by `sw_qp_use`.
            let used = |i: &u64| match of {
                Of::Lru => asking.lookup(of, *i).is_ok(),
                _ => asking.insert(of, *i, EXIST, *i) == 0,
            };
            kept = kept.min((0..hot).filter(used).count() as u64);
            std::thread::sleep(std::time::Duration::from_millis(2));
            map.service().unwrap();
        }
        println!("{of:?} kept {kept} of {hot}");
        assert!(kept >= hot * 7 / 10, "{of:?} kept {kept} of {hot}");
        // Flags mean what they mean elsewhere.
        assert_eq!(asking.insert(of, u64::MAX, EXIST, 0), ENOENT, "{of:?}");
        assert_eq!(asking.remove(of, u64::MAX), ENOENT, "{of:?}");
    }
    let there = asking
        .0
        .map("lru")
        .unwrap()
        .keys()
        .take(2 * entries)
        .count();
    assert!(there <= entries, "{there}");
    assert!(map.verify().unwrap().entries <= entries);
}

/// A system call takes an entry of a HASH: the value and the removal in one. Ours is taken by
/// programs, and HASH is not.
#[test]
fn lookup_and_delete() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 16);
    let kernels = asking.0.map("hash").unwrap();
    let key = 5u64.to_ne_bytes();
    assert_eq!(kernels.lookup_and_delete(&key).unwrap(), None);
    assert_eq!(asking.insert(Of::Hash, 5, NOEXIST, 17), 0);
    let taken = kernels.lookup_and_delete(&key).unwrap();
    assert_eq!(taken, Some(17u64.to_ne_bytes().to_vec()));
    assert_eq!(asking.lookup(Of::Hash, 5), Err(ENOENT));
    assert_eq!(kernels.lookup_and_delete(&key).unwrap(), None);
    for map in ours(&arena, 16) {
        let of = window(&map);
        assert_eq!(asking.ask(of, What::Take, 5, 0, 0).0, ENOENT);
        assert_eq!(asking.insert(of, 5, NOEXIST, 17), 0);
        assert_eq!(asking.ask(of, What::Take, 5, 0, 0), (1, 17));
        assert_eq!(asking.lookup(of, 5), Err(ENOENT));
        assert_eq!(asking.ask(of, What::Take, 5, 0, 0).0, ENOENT);
        assert_eq!(map.verify().unwrap().entries, 0);
    }
}

/// The error of the kernel for a HASH of these sizes.
fn made(key: u32, value: u32, entries: u32) -> Result<(), String> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    MapHandle::create(MapType::Hash, Some("made"), key, value, entries, &options)
        .map(drop)
        .map_err(|error| format!("{error:?}"))
}

#[test]
fn sizes() {
    if skipped() {
        return;
    }
    // Keys and values of all sizes, up to some megabytes.
    for (key, value) in [(1, 1), (3, 7), (512, 65_536), (4_097, 8), (1 << 20, 8)] {
        assert_eq!(made(key, value, 2), Ok(()), "{key} {value}");
    }
    let refused = |sizes: (u32, u32, u32)| made(sizes.0, sizes.1, sizes.2).unwrap_err();
    // No bytes, no entries; more than the kernel allocates at once.
    for sizes in [(0, 8, 2), (8, 0, 2), (8, 8, 0)] {
        assert!(refused(sizes).contains("os error 22"), "{sizes:?}");
    }
    assert!(refused((8 << 20, 8, 2)).contains("os error 7"));
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 4);
    // Keys of each length, the empty one, too, in one map.
    let map = ProgramMap::<u64>::builder(&arena, "all").max_entries(300);
    let map = map.mean_key(128).bytes(8 << 20).build().unwrap();
    let of = window(&map);
    for (what, wanted) in [(What::Insert, 0), (What::Lookup, 1), (What::Remove, 0)] {
        for len in 0..=254usize {
            let key = crate::kernel::short(&vec![9; len]);
            let answer = asking.ask_key(of, what, 0, key, NOEXIST, len as u64);
            assert_eq!((answer.result, answer.value), (wanted, len as u64), "{len}");
        }
    }
    assert_eq!(map.verify().unwrap().entries, 0);
    // No entries, values of no bytes or too many.
    let none = ProgramMap::<u64>::builder(&arena, "none").max_entries(0);
    assert!(matches!(none.build(), Err(Error::Setting { .. })));
    for bytes in [0, 12, 4_104] {
        let odd = ProgramMap::<sapwood_bpf::Bytes>::builder(&arena, "odd").value_bytes(bytes);
        assert!(matches!(odd.build(), Err(Error::Setting { .. })), "{bytes}");
    }
}

/// Keys of 4,096 bytes, the longest that ours has. Those of a HASH may be longer, and all keys of
/// it are equally long.
#[test]
fn large_keys() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 3);
    let room = Room::new(&arena, "room");
    let map = ProgramMap::<u64>::builder(&arena, "large").longest_key(4096);
    let map = map.max_entries(3).mean_key(4096).bytes(8 << 20);
    let map = map.build().unwrap();
    // They differ in the last byte, in the first one, in the middle.
    let keys: Vec<Vec<u8>> = [4095, 0, 2000, 4094]
        .map(|at| {
            let mut key = vec![0xa5; 4096];
            key[at] = 1;
            key
        })
        .into();
    let ask = |of: Of, what, key: &[u8], flags, value| {
        let image = match of {
            Of::Ours(_) => room.image(key),
            _ => {
                asking
                    .0
                    .update("large_key", &0u32.to_ne_bytes(), key)
                    .unwrap();
                [0; 256]
            }
        };
        let answer = asking.ask_key(of, what, 0, image, flags, value);
        (answer.result, answer.value)
    };
    for of in [Of::Large, window(&map)] {
        for (i, key) in keys[..3].iter().enumerate() {
            let i = i as u64;
            assert_eq!(ask(of, What::Lookup, key, 0, 0).0, ENOENT, "{of:?}");
            assert_eq!(ask(of, What::Insert, key, NOEXIST, i).0, 0, "{of:?}");
            assert_eq!(ask(of, What::Insert, key, NOEXIST, i).0, EEXIST, "{of:?}");
            assert_eq!(ask(of, What::Insert, key, EXIST, 10 + i).0, 0, "{of:?}");
        }
        assert_eq!(ask(of, What::Insert, &keys[3], ANY, 0).0, E2BIG, "{of:?}");
        for (i, key) in keys[..3].iter().enumerate() {
            assert_eq!(
                ask(of, What::Lookup, key, 0, 0),
                (1, 10 + i as u64),
                "{of:?}"
            );
            assert_eq!(ask(of, What::Remove, key, 0, 0).0, 0, "{of:?}");
            assert_eq!(ask(of, What::Remove, key, 0, 0).0, ENOENT, "{of:?}");
        }
    }
    assert_eq!(asking.0.map("large").unwrap().keys().take(4).count(), 0);
    assert_eq!(map.verify().unwrap().entries, 0);
    let longer = vec![1; 4097];
    let image = sapwood_bpf::layout::key_image(&longer, room.at());
    let refused = asking.ask_key(window(&map), What::Insert, 0, image, ANY, 0);
    assert_eq!(refused.result, EINVAL);
}

/// `struct held` of the program.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Held {
    window: u32,
    unused: u32,
    kernels: [u64; 4],
    ours: [u64; 4],
    key: [u8; 256],
}

impl Asking {
    /// What a program sees at the value of entry 1 of both maps while it changes them.
    fn held(&self, program: &str, of: Of) -> ([u64; 4], [u64; 4]) {
        let mut held = Held {
            window: of.numbers()[1],
            ..zeros()
        };
        self.run(program, &mut held);
        (held.kernels, held.ours)
    }
}

/// A program holds the value of an entry that is removed. The memory of a HASH is used again at
/// once, so the program sees the value of another entry. Ours stays.
#[test]
fn removed_values_that_a_program_holds() {
    if skipped() {
        return;
    }
    for part in 0..3 {
        let arena = BpfArena::create(64 << 20).unwrap();
        let asking = Asking::new(&arena, 16);
        let maps = ours(&arena, 16);
        let of = window(&maps[part]);
        assert_eq!(asking.insert(Of::Hash, 1, ANY, 100), 0);
        assert_eq!(asking.insert(of, 1, ANY, 100), 0);
        let (kernels, ours) = asking.held("sw_held_removed", of);
        assert_eq!(kernels, [100, 100, 102, 102]);
        assert_eq!(ours, [100; 4]);
        for of in [Of::Hash, of] {
            let all = [1, 2, 3].map(|i| asking.lookup(of, i));
            assert_eq!(all, [Err(ENOENT), Ok(102), Ok(103)], "{of:?}");
        }
    }
}

/// A program holds a value that is replaced. A HASH puts the new value elsewhere, and uses the old
/// place for the replacement after that. Ours replaces a value of one word where it lies, and
/// leaves a longer one as it is for the program's run.
#[test]
fn replaced_values_that_a_program_holds() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 16);
    let [index, trie, both] = ours(&arena, 16);
    for map in [index, trie, both] {
        assert_eq!(asking.insert(Of::Hash, 1, ANY, 100), 0);
        assert_eq!(asking.insert(window(&map), 1, ANY, 100), 0);
        let (kernels, ours) = asking.held("sw_held_replaced", window(&map));
        assert_eq!(kernels, [100, 100, 102, 102]);
        assert_eq!(ours, [100, 101, 102, 103]);
        assert_eq!(asking.lookup(window(&map), 1), Ok(103));
    }
    let long = ProgramMap::<[u64; 4]>::builder(&arena, "long").max_entries(16);
    let long = long.bytes(8 << 20).build().unwrap();
    let of = Of::Ours(long.window().number);
    assert_eq!(asking.insert(of, 1, ANY, 100), 0);
    assert_eq!(asking.held("sw_held_replaced", of).1, [100; 4]);
    assert_eq!(asking.lookup(of, 1), Ok(103));
    assert_eq!(asking.lookup(Of::Hash, 1), Ok(103));
}

/// A full HASH replaces for ever. So does ours where values have one word. A longer value takes
/// memory that comes back after a grace period: without service, there is an end, and nothing is
/// lost.
#[test]
fn replacements_without_service() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let asking = Asking::new(&arena, 4);
    let map = ProgramMap::<[u64; 4]>::builder(&arena, "long").with_index();
    let map = map
        .max_entries(4)
        .mean_key(8)
        .bytes(1 << 20)
        .build()
        .unwrap();
    let of = Of::Ours(map.window().number);
    for i in 0..4 {
        assert_eq!(asking.insert(of, i, ANY, 1), 0);
        assert_eq!(asking.insert(Of::Hash, i, ANY, 1), 0);
    }
    let mut last = 1;
    let end = (2..100_000).find_map(|value| {
        assert_eq!(asking.insert(Of::Hash, 0, EXIST, value), 0);
        let result = asking.insert(of, 0, EXIST, value);
        if result == 0 {
            last = value;
        }
        (result != 0).then_some(result)
    });
    println!("{last} replacements without service");
    assert_eq!(end, Some(ENOMEM));
    assert_eq!(asking.lookup(of, 0), Ok(last));
    assert_eq!(asking.lookup(of, 3), Ok(1));
    // Service gives the memory back.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while asking.insert(of, 0, EXIST, 7) == ENOMEM {
        assert!(std::time::Instant::now() < until);
        map.service().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(asking.lookup(of, 0), Ok(7));
    map.verify().unwrap();
}

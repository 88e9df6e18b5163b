//! Maps that programs write: the C code in the kernel and in user space, compared with a
//! `BTreeMap`.
#![cfg(feature = "kernel")]

mod asks;
mod budget;
mod burst;
mod cases;
mod corrupt;
mod counts;
mod first;
mod heirs;
#[path = "../kernel/mod.rs"]
mod kernel;
mod lru;
mod pair;
mod side;
mod storm;
mod supply;
mod threads;
mod values;
mod writes;

use asks::{Kernel, User, WithRoom};
use pair::{PARTS, against_the_oracle, key, with};
use sapwood_bpf::{BpfArena, Error, KernelGrace, ProgramMap};
use side::{ANY, EINVAL, Side, What};

/// Whether the kernel supports the tests. Prints the reason if not.
fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// Maps of each combination of parts, with values of one word and of four.
fn all_parts(arena: &BpfArena, side: &mut impl Side, steps: usize, seed: u64) {
    let grace = KernelGrace::new().unwrap();
    for (i, parts) in PARTS.into_iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(seed + i as u64);
        let map = with(
            ProgramMap::<u64>::builder(arena, &format!("word{i}")),
            parts,
        )
        .max_entries(1000)
        .bytes(8 << 20)
        .grace(&grace)
        .build()
        .unwrap();
        against_the_oracle(&map, side, parts, 1000, &mut rng, steps, 64);
        let map = with(
            ProgramMap::<[u64; 4]>::builder(arena, &format!("words{i}")),
            parts,
        )
        .max_entries(100)
        .bytes(8 << 20)
        .grace(&grace)
        .build()
        .unwrap();
        against_the_oracle(&map, side, parts, 100, &mut rng, steps / 2, 64);
    }
}

#[test]
fn in_user_space() {
    if !can() {
        return;
    }
    for compiler in ["gcc", "clang-19"] {
        let arena = BpfArena::create(64 << 20).unwrap();
        match User::new(&arena, compiler) {
            Some(mut side) => all_parts(&arena, &mut side, 600, 1),
            None => println!("skipped: no {compiler}"),
        }
    }
}

/// Maps of keys of up to 4,096 bytes, of all parts.
fn long_keys(arena: &BpfArena, side: impl Side, steps: usize) {
    let mut side = WithRoom {
        side,
        room: kernel::Room::new(arena, "room"),
        longest: kernel::KEY_MAX,
    };
    for (i, parts) in PARTS.into_iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(41 + i as u64);
        let map = with(
            ProgramMap::<u64>::builder(arena, &format!("long{i}")),
            parts,
        );
        let map = map
            .max_entries(1000)
            .longest_key(side.longest)
            .mean_key(1000);
        let map = map.bytes(48 << 20).build().unwrap();
        against_the_oracle(&map, &mut side, parts, 1000, &mut rng, steps, 64);
        // Each is in another; more branches lie above the longest than a path holds.
        let window = map.window().number;
        let name = |len: usize| [vec![7; len], vec![8]].concat();
        let mut lengths: Vec<_> = (0..700).collect();
        rng.shuffle(&mut lengths);
        for &len in &lengths {
            let (done, _) = side.ask(What::Insert, window, ANY, &name(len), &[len as u64]);
            assert_eq!(done, 0, "{len} bytes");
            map.service().unwrap();
        }
        assert_eq!(map.verify().unwrap().entries, 700);
        for len in 0..700 {
            let (found, value) = side.ask(What::Lookup, window, 0, &name(len), &[]);
            assert!(found > 0 && value[0] == len as u64, "{len}: {found}");
        }
        for &len in lengths.iter().rev() {
            let (done, _) = side.ask(What::Remove, window, 0, &name(len), &[]);
            assert_eq!(done, 0, "{len} bytes");
            map.service().unwrap();
        }
        assert_eq!(map.verify().unwrap().entries, 0);
        // A key that is longer than the map's longest.
        let (refused, _) = side.ask(What::Insert, window, ANY, &vec![1; 4097], &[1]);
        assert_eq!(refused, EINVAL);
    }
    let short = ProgramMap::<u64>::builder(arena, "short")
        .bytes(4 << 20)
        .grow(true);
    let short = short.longest_key(100).build().unwrap();
    for (len, wanted) in [(100, 0), (101, EINVAL), (300, EINVAL)] {
        let window = short.window().number;
        let (done, _) = side.ask(What::Insert, window, ANY, &vec![1; len], &[1]);
        assert_eq!(done, wanted, "{len} bytes");
    }
    let refused = ProgramMap::<u64>::builder(arena, "none").longest_key(4097);
    assert!(matches!(
        refused.build(),
        Err(Error::Setting {
            what: "longest_key",
            ..
        })
    ));
}

#[test]
fn long_keys_in_the_kernel() {
    if can() {
        let arena = BpfArena::create(256 << 20).unwrap();
        long_keys(&arena, Kernel::new(&arena), 3000);
    }
}

#[test]
fn long_keys_in_user_space() {
    if can() {
        let arena = BpfArena::create(256 << 20).unwrap();
        match User::new(&arena, "gcc") {
            Some(side) => long_keys(&arena, side, 1000),
            None => println!("skipped: no gcc"),
        }
    }
}

#[test]
fn in_the_kernel() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let mut side = Kernel::new(&arena);
    for program in libbpf_rs::query::ProgInfoIter::default() {
        if program.name.to_string_lossy() == "sw_ask_kqp" {
            // The kernel's limit is a million, and the programs of users add their own
            // instructions.
            assert!(
                program.verified_insns < 120_000,
                "{}",
                program.verified_insns
            );
        }
    }
    all_parts(&arena, &mut side, 4000, 100);
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    heirs::child();
}

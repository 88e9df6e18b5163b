//! Maps that programs write: the C code in the kernel and in user space, compared with a
//! `BTreeMap`.
#![cfg(feature = "kernel")]

mod asks;
mod cases;
mod corrupt;
mod heirs;
#[path = "../kernel/mod.rs"]
mod kernel;
mod pair;
mod side;
mod storm;
mod supply;

use asks::{Kernel, User};
use pair::{PARTS, against_the_oracle, key, with};
use sapwood_bpf::{BpfArena, KernelGrace, ProgramMap};
use side::Side;

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
                program.verified_insns < 100_000,
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

//! Lookups by a BPF program in maps that this process writes.
#![cfg(feature = "kernel")]

use std::collections::BTreeMap;

use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, NameMap, Programs};

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));

fn ask(programs: &Programs, what: u32, window: u32, key: &[u8]) -> Result<u64, i64> {
    let mut data = vec![0u8; 24 + 256];
    data[0..4].copy_from_slice(&what.to_ne_bytes());
    data[4..8].copy_from_slice(&window.to_ne_bytes());
    data[24] = key.len() as u8;
    data[25..25 + key.len()].copy_from_slice(key);
    let mut out = vec![0u8; data.len()];
    let program = programs.program("sw_ask").unwrap();
    let result = program
        .test_run(ProgramInput {
            data_in: Some(&data),
            data_out: Some(&mut out),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(result.return_value, 2);
    let code = i64::from_ne_bytes(out[8..16].try_into().unwrap());
    match code > 0 {
        true => Ok(u64::from_ne_bytes(out[16..24].try_into().unwrap())),
        false => Err(code),
    }
}

#[test]
fn as_the_oracle() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .with_index()
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let window = names.window().number;
    let mut oracle = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(1);
    for round in 0..3000u64 {
        let len = rng.usize(0..if round % 3 == 0 { 255 } else { 6 });
        let key: Vec<u8> = (0..len)
            .map(|_| rng.u8(b'a'..b'd' + (round % 7) as u8 * 20))
            .collect();
        if rng.u8(0..4) == 0 {
            assert_eq!(names.remove(&key).unwrap(), oracle.remove(&key).is_some());
        } else {
            names.insert(&key, round + 1).unwrap();
            oracle.insert(key.clone(), round + 1);
        }
        for what in 0..3 {
            let want = oracle.get(&key).copied().ok_or(-2);
            assert_eq!(
                ask(&programs, what, window, &key),
                want,
                "{what} {round} {key:?}"
            );
        }
    }
    for (key, value) in &oracle {
        for what in 0..3 {
            assert_eq!(ask(&programs, what, window, key), Ok(*value));
        }
    }
    assert_eq!(ask(&programs, 2, 17, b""), Err(-22));
}

/// A map that has shrunk gives its pages back to the kernel, and programs find what is left.
#[test]
fn pages_that_nobody_needs_go_back() {
    if let Err(why) = sapwood_bpf::check() {
        println!("skipped: {why}");
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .with_index()
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let window = names.window().clone();
    let key = |i: u64| format!("{:016x}.example", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Of what the map has taken so far.
    let zeros = || {
        let image = arena.image();
        let end = window.at + names.memory().arena.frontier;
        let pages = image[window.at..end].chunks_exact(4096);
        pages
            .filter(|page| page.iter().all(|byte| *byte == 0))
            .count()
    };
    let settle = || {
        while names.compact_step(4096).unwrap() {}
        names.domain().synchronize();
        names.reclaim(usize::MAX);
        names.verify().unwrap();
    };
    for round in 0..3 {
        for i in 0..40_000u64 {
            names.insert(key(i), i + round + 1).unwrap();
        }
        if round == 0 {
            assert!(zeros() < 64, "{} pages are not used", zeros());
        }
        for i in (0..40_000u64).filter(|i| i % 1000 != 0) {
            assert_eq!(names.remove(key(i)), Ok(true));
        }
        settle();
        settle();
        let memory = names.memory().arena;
        let after = zeros();
        // Nearly all is free, and most of that is whole pages.
        assert!(memory.released * 5 > memory.frontier * 2, "{memory:?}");
        assert!(
            after * 4096 >= memory.released,
            "{after} pages of zeros, {memory:?}"
        );
        for i in (0..40_000u64).step_by(500) {
            let wanted = match i % 1000 {
                0 => Ok(i + round + 1),
                _ => Err(-2),
            };
            for what in 0..3 {
                assert_eq!(
                    ask(&programs, what, window.number, key(i).as_bytes()),
                    wanted,
                    "{round} {i} {what}"
                );
            }
        }
    }
}

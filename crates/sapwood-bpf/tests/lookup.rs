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

//! A writer in user space and programs on all processors, for two seconds or `SAPWOOD_SOAK` of them: each value proves that it belongs to
//! its key. And what programs do with maps that are damaged.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel::{Poke, skipped};
use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, Loader, NameMap, Programs, Words, layout};

const LOOKUP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));
const WALK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));

/// The program's result and value.
fn run(programs: &Programs, mut data: Vec<u8>, result: usize, value: usize) -> (i64, u64) {
    let input = data.clone();
    let program = programs.program("sw_ask").unwrap();
    let run = program
        .test_run(ProgramInput {
            data_in: Some(&input),
            data_out: Some(&mut data),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(run.return_value, 2);
    let word = |at: usize| u64::from_ne_bytes(data[at..at + 8].try_into().unwrap());
    (word(result) as i64, word(value))
}

fn lookup(programs: &Programs, what: u32, window: u32, key: &[u8]) -> (i64, u64) {
    let mut data = vec![0u8; 24 + 256];
    data[0..4].copy_from_slice(&what.to_ne_bytes());
    data[4..8].copy_from_slice(&window.to_ne_bytes());
    data[24] = key.len() as u8;
    data[25..25 + key.len()].copy_from_slice(key);
    run(programs, data, 8, 16)
}

fn walk(programs: &Programs, what: u32, window: u32, cursor: u64, key: &[u8]) -> (i64, u64) {
    let mut data = vec![0u8; 32 + 256];
    data[0..4].copy_from_slice(&what.to_ne_bytes());
    data[4..8].copy_from_slice(&window.to_ne_bytes());
    data[8..16].copy_from_slice(&cursor.to_ne_bytes());
    data[32] = key.len() as u8;
    data[33..33 + key.len()].copy_from_slice(key);
    run(programs, data, 16, 24)
}

const KEYS: u64 = 3000;
/// Keys below this are always there.
const STAYING: u64 = 1000;

fn key(i: u64) -> Vec<u8> {
    let tail = "x".repeat((i % 40) as usize);
    format!("{:x}/{i}{tail}", (i * i) % 97).into_bytes()
}

/// A value of a key: its version, and what proves the key.
fn value(i: u64, version: u64) -> u64 {
    version << 32 | i << 1 | 1
}

#[test]
fn every_value_belongs_to_its_key() {
    if skipped() {
        return;
    }
    let seconds = std::env::var("SAPWOOD_SOAK")
        .ok()
        .and_then(|s| s.parse().ok());
    let long = Duration::from_secs(seconds.unwrap_or(2));
    let arena = BpfArena::create(64 << 20).unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    let cursors = Words::create(&arena, "cursors", processors * layout::CURSOR_BYTES / 8).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .with_index()
        .build()
        .unwrap();
    for i in 0..STAYING {
        names.insert(key(i), value(i, 0)).unwrap();
    }
    let window = names.window().number;
    let (stop, lookups, walks) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(1);
            let mut version = 0;
            while !stop.load(Ordering::Relaxed) {
                version += 1;
                let i = rng.u64(..KEYS);
                if i >= STAYING && rng.bool() {
                    names.remove(key(i)).unwrap();
                } else {
                    names
                        .insert(key(i), value(i, version & 0xffff_ffff))
                        .unwrap();
                }
                if version % 64 == 0 {
                    names.compact_step(8).unwrap();
                    names.reclaim(1000);
                }
            }
        });
        let readers: Vec<_> = (0..processors)
            .map(|n| {
                let cursor = (cursors.window().at + n * layout::CURSOR_BYTES) as u64;
                let (stop, lookups, walks, arena) = (&stop, &lookups, &walks, &arena);
                scope.spawn(move || {
                    let looks = Loader::open(arena, LOOKUP).unwrap().load().unwrap();
                    let walker = Loader::open(arena, WALK).unwrap().load().unwrap();
                    let mut rng = fastrand::Rng::with_seed(n as u64);
                    let mut newest = vec![0u64; KEYS as usize];
                    let began = Instant::now();
                    // An error, not a panic: the others would not end.
                    while began.elapsed() < long && !stop.load(Ordering::Relaxed) {
                        for _ in 0..200 {
                            let i = rng.u64(..KEYS);
                            let (found, there) = lookup(&looks, rng.u32(..3), window, &key(i));
                            let said = || Err(format!("key {i}: {found}, {there:#x}"));
                            match found {
                                -2 if i >= STAYING => continue,
                                found if found <= 0 => return said(),
                                _ => {}
                            }
                            let old = &mut newest[i as usize];
                            if there & 0xffff_ffff != i << 1 | 1 || there >> 32 < *old {
                                return said();
                            }
                            *old = there >> 32;
                        }
                        lookups.fetch_add(200, Ordering::Relaxed);
                        // All that stays is met, in order.
                        let (count, _) = walk(&walker, 9, window, cursor, b"");
                        if count <= 0 || (count as u64 >> 32) < STAYING {
                            return Err(format!("a walk: {count:#x}"));
                        }
                        walks.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let ends: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for end in ends {
            assert_eq!(end.unwrap(), Ok(()));
        }
    });
    names.verify().unwrap();
    println!("{lookups:?} lookups, {walks:?} walks by programs");
    assert!(lookups.into_inner() > 0 && walks.into_inner() > 0);
}

#[test]
fn damaged_maps() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(16 << 20).unwrap();
    let cursors = Words::create(&arena, "cursors", layout::CURSOR_BYTES / 8).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .with_index()
        .build()
        .unwrap();
    for i in 0..KEYS {
        names.insert(key(i), value(i, 0)).unwrap();
    }
    let looks = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
    let walker = Loader::open(&arena, WALK).unwrap().load().unwrap();
    let poke = Poke::new(&arena);
    let info = names.window().clone();
    let (window, cursor) = (info.number, cursors.window().at as u64);
    let image = arena.image();
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let whole: Vec<u64> = image[info.at..info.at + info.len]
        .chunks_exact(8)
        .map(word)
        .collect();
    let last = whole.iter().rposition(|&word| word != 0).unwrap();
    let put_back = |from: usize, len: usize| {
        poke.words((info.at + from * 8) as u64, &whole[from..from + len]);
    };
    let mut rng = fastrand::Rng::with_seed(77);
    let mut strange = 0;
    // Each loop of a program ends after a quarter of a second at the latest, and there are a few of them in a call.
    let soon = Duration::from_secs(10);
    let mut ask_all = |rng: &mut fastrand::Rng| {
        for what in 0..3 {
            let i = rng.u64(..KEYS);
            let began = Instant::now();
            let (found, there) = lookup(&looks, what, window, &key(i));
            assert!(
                began.elapsed() < soon,
                "a lookup took {:?}",
                began.elapsed()
            );
            strange += u64::from(found <= 0 || there != value(i, 0));
        }
        for what in [0, 1, 2, 3, 4, 8, 5, 7, 6, 7, 7] {
            let began = Instant::now();
            walk(&walker, what, window, cursor, &key(rng.u64(..KEYS)));
            assert!(began.elapsed() < soon, "{what} took {:?}", began.elapsed());
        }
    };
    let began = Instant::now();
    for round in 0..60 {
        // Many words at once, so that lookups meet them: changed a little, taken from elsewhere, or anything.
        let mut spots = Vec::new();
        for _ in 0..60 {
            let at = rng.usize(512..last - 64);
            let len = rng.usize(1..32);
            let words: Vec<u64> = (0..len)
                .map(|i| match round % 3 {
                    0 => whole[at + i] ^ 1 << rng.u32(..64),
                    1 => whole[rng.usize(512..last)],
                    _ => rng.u64(..),
                })
                .collect();
            poke.words((info.at + at * 8) as u64, &words);
            spots.push((at, len));
        }
        ask_all(&mut rng);
        if round % 10 == 0 {
            poke.words((info.at + 64) as u64, &[rng.u64(..), rng.u64(..)]);
            ask_all(&mut rng);
            put_back(8, 2);
        }
        for (at, len) in spots {
            put_back(at, len);
        }
        if began.elapsed() > Duration::from_secs(20) {
            break;
        }
    }
    // Nothing but random bytes.
    let noise: Vec<u64> = (0..whole.len()).map(|_| rng.u64(..)).collect();
    poke.words((info.at + 4096) as u64, &noise[512..]);
    for _ in 0..10 {
        ask_all(&mut rng);
    }
    println!("{strange} strange answers");
    assert!(strange > 10, "{strange}");
    put_back(512, whole.len() - 512);
    for i in 0..KEYS {
        for what in 0..3 {
            assert_eq!(lookup(&looks, what, window, &key(i)).1, value(i, 0));
        }
    }
    names.verify().unwrap();
}

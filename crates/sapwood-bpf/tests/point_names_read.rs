//! Maps that have only an index, or both: read from outside while they change, and damaged ones.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Poke, skipped};
use libbpf_rs::ProgramInput;
use sapwood_bpf::{BpfArena, CheckedReader, Error, Loader, NameMap, PointNameMap, Programs};

const LOOKUP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));

fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let (len, letters) = match rng.u8(0..8) {
        0 => (rng.usize(0..255), 3),
        1 => (rng.usize(0..4), 255),
        2 => (rng.usize(250..255), 2),
        _ => (rng.usize(0..8), 4),
    };
    (0..len).map(|_| rng.u8(0..letters)).collect()
}

/// Runs a test's program on what it is asked.
fn run(programs: &Programs, name: &str, words: [u32; 2], key: &[u8]) -> (i64, u64) {
    let mut data = vec![0u8; 24 + 256 + 64];
    data[0..4].copy_from_slice(&words[0].to_ne_bytes());
    data[4..8].copy_from_slice(&words[1].to_ne_bytes());
    data[24] = key.len() as u8;
    data[25..25 + key.len()].copy_from_slice(key);
    let mut out = vec![0u8; data.len()];
    let program = programs.program(name).unwrap();
    let result = program
        .test_run(ProgramInput {
            data_in: Some(&data),
            data_out: Some(&mut out),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(result.return_value, 2);
    let word = |at: usize| out[at..at + 8].try_into().unwrap();
    (i64::from_ne_bytes(word(8)), u64::from_ne_bytes(word(16)))
}

/// A lookup by the index (1), or by whatever there is (2).
fn ask(programs: &Programs, what: u32, window: u32, key: &[u8]) -> Result<u64, i64> {
    match run(programs, "sw_ask", [what, window], key) {
        (code, value) if code > 0 => Ok(value),
        (code, _) => Err(code),
    }
}

const STAYING: u64 = 1000;

/// A key that stays, and the values that it may have: a version, and its number.
fn staying(i: u64, version: u64) -> (Vec<u8>, u64) {
    let key = format!("stays/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) >> 20);
    (key.into_bytes(), version << 32 | i)
}

/// Lets a thread end that looks at this.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The value of a key that comes and goes.
fn value_of(key: &[u8]) -> u64 {
    let sum = key.iter().fold(5u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    sum >> 32
}

#[test]
fn read_from_outside_while_it_changes() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = PointNameMap::<u64>::builder(&arena, "points")
        .build()
        .unwrap();
    for i in 0..STAYING {
        let (key, _) = staying(i, 0);
        map.insert(&key, value_of(&key)).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(8);
            while !stop.load(Ordering::Relaxed) {
                let grows = rng.bool();
                for _ in 0..4000 {
                    let key = format!("goes/{:x}", rng.u32(..5000));
                    match rng.u8(..4) > u8::from(grows) * 2 {
                        true => drop(map.remove(&key).unwrap()),
                        false => drop(map.insert(&key, value_of(key.as_bytes())).unwrap()),
                    }
                }
            }
        });
        let _ends = Ends(&stop);
        let reader = arena.reader::<u64>("points").unwrap();
        let until = Instant::now() + Duration::from_secs(1);
        let (mut gets, mut walks, mut busy) = (0, 0, 0);
        let mut rng = fastrand::Rng::with_seed(3);
        while Instant::now() < until || walks < 2 {
            for _ in 0..100 {
                let key = staying(rng.u64(..STAYING), 0).0;
                match reader.get(&key) {
                    Ok(found) => assert_eq!(found, Some(value_of(&key))),
                    Err(Error::Busy(_)) => busy += 1,
                    Err(error) => panic!("{error}"),
                }
                gets += 1;
            }
            let mut seen = BTreeSet::new();
            let mut ended = true;
            for entry in reader.unordered() {
                match entry {
                    Ok((key, value)) => {
                        assert_eq!(value, value_of(&key));
                        assert!(seen.insert(key), "a key twice");
                    }
                    Err(Error::Busy(_)) => ended = false,
                    Err(error) => panic!("{error}"),
                }
            }
            if ended {
                assert!((0..STAYING).all(|i| seen.contains(&staying(i, 0).0)));
                walks += 1;
            }
        }
        println!("{gets} lookups, {walks} walks beside a writer, {busy} given up");
        assert!(busy <= gets / 100);
    });
    let reader = arena.reader::<u64>("points").unwrap();
    assert_eq!(reader.verify().unwrap(), map.len());
}

/// Asks everything that can be asked. Any answer will do, and none may take long.
fn ask_all(map: &CheckedReader<u64>, rng: &mut fastrand::Rng, most: usize) -> usize {
    let mut errors = 0;
    for _ in 0..20 {
        errors += usize::from(map.get(key(rng)).is_err());
    }
    let walked = map.unordered();
    let walked = walked.inspect(|entry| errors += usize::from(entry.is_err()));
    assert!(
        walked.count() <= most,
        "more entries than there is room for"
    );
    errors + usize::from(map.verify().is_err())
}

#[test]
fn damaged_maps() {
    if skipped() {
        return;
    }
    for both in [false, true] {
        let arena = BpfArena::create(8 << 20).unwrap();
        let mut rng = fastrand::Rng::with_seed(8);
        let (points, names);
        let info = if both {
            names = NameMap::<u64>::builder(&arena, "names")
                .bytes(1 << 20)
                .with_index()
                .build()
                .unwrap();
            for i in 0..1500 {
                names.insert(key(&mut rng), i).unwrap();
            }
            names.window().clone()
        } else {
            points = PointNameMap::<u64>::builder(&arena, "names")
                .bytes(1 << 20)
                .build()
                .unwrap();
            for i in 0..1500 {
                points.insert(key(&mut rng), i).unwrap();
            }
            points.window().clone()
        };
        let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
        let poke = Poke::new(&arena);
        let reader = arena.reader::<u64>("names").unwrap();
        let entries = reader.verify().unwrap();
        let most = info.len / 8 + 2;
        let image = arena.image();
        let end = (info.at + info.len).min(image.len());
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let whole: Vec<u64> = image[info.at..end].chunks_exact(8).map(word).collect();
        let put_back = |from: usize, len: usize| {
            poke.words((info.at + from * 8) as u64, &whole[from..from + len]);
        };
        let last = whole.iter().rposition(|&word| word != 0).unwrap();
        let table = whole[9] as usize;
        let mut caught = 0;
        for round in 0..400 {
            // Words of leaves and buckets, and of the table's header and directory.
            let at = match round % 4 {
                0 => table + rng.usize(0..12),
                _ => rng.usize(512..last),
            };
            let len = [1, 1, 1, 8, 64][rng.usize(0..5)].min(last - at);
            let kind = rng.u8(0..4);
            let from = rng.usize(512..last - 64);
            let words: Vec<u64> = (0..len)
                .map(|i| match kind {
                    0 => whole[at + i] ^ 1 << rng.u32(0..64),
                    1 => whole[at + i] ^ u64::from(rng.u8(1..)) << (8 * rng.u32(0..8)),
                    2 => whole[from + i],
                    _ => rng.u64(..),
                })
                .collect();
            poke.words((info.at + at * 8) as u64, &words);
            if round % 8 == 0 {
                // Another table, and other secrets.
                poke.words((info.at + 72) as u64, &[rng.u64(..last as u64)]);
                poke.words((info.at + 1024) as u64, &[rng.u64(..)]);
            }
            caught += usize::from(ask_all(&reader, &mut rng, most) > 0);
            // Programs answer something, and go on.
            let code = ask(&programs, 2, info.number, &key(&mut rng));
            assert!(code.is_ok() || code.is_err_and(|code| (-95..0).contains(&code)));
            put_back(at, len);
            put_back(9, 1);
            put_back(128, 1);
        }
        assert!(caught > 100, "{caught} of 400");
        assert_eq!(reader.verify().unwrap(), entries);
        for _ in 0..5 {
            let noise: Vec<u64> = (0..whole.len()).map(|_| rng.u64(..)).collect();
            poke.words((info.at + 4096) as u64, &noise[512..]);
            ask_all(&reader, &mut rng, most);
            poke.words((info.at + 16) as u64, &noise[..100]);
            assert!(reader.get("a").is_err());
            put_back(0, whole.len());
        }
        assert_eq!(reader.verify().unwrap(), entries);
        // A header that says something else of what there is.
        for says in [3, 0, u64::MAX] {
            poke.words((info.at + 56) as u64, &[says]);
            let answer = reader.verify();
            let plain = both && says == 0;
            assert!(plain || says == 0 || answer.is_err(), "{says} {answer:?}");
        }
        put_back(7, 1);
        // A key in a slot where it does not belong.
        let (total, shift) = (whole[table] >> 32, whole[table + 1] as u32);
        let place = |b: u64| {
            let chunk = (b >> shift) as usize;
            let entry = (whole[table + 2 + chunk / 2] >> (chunk % 2 * 32)) as u32;
            let inside = (b as usize & ((1 << shift) - 1)) * 8;
            (entry != 0).then_some((entry & !7) as usize + inside)
        };
        // Nothing is looked at in a bucket that was moved.
        let is_used = |at: &usize| whole[*at] as u8 & 0xa5 != 0 && whole[at + 1] >> 33 & 1 == 0;
        let bucket = (0..total).filter_map(place).find(is_used).unwrap();
        poke.words((info.at + bucket * 8) as u64, &[whole[bucket] ^ 0x5a]);
        let answer = reader.verify();
        assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
        put_back(bucket, 1);
        assert_eq!(reader.verify().unwrap(), entries);
    }
}

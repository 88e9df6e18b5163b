//! Maps read from outside their owner's process, whole and damaged ones.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernel::{Beside, Pins, Poke, skipped};
use sapwood_bpf::{BpfArena, Bytes, CheckedReader, Error, NameMap};

type Oracle = BTreeMap<Vec<u8>, u64>;

fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
    // Short ones of few letters, long ones, and some of any bytes: branches of all sizes.
    let (len, letters) = match rng.u8(0..8) {
        0 => (rng.usize(0..600), 3),
        1 => (rng.usize(0..4), 255),
        2 => (rng.usize(250..260), 2),
        _ => (rng.usize(0..8), 4),
    };
    (0..len).map(|_| rng.u8(0..letters)).collect()
}

fn all(map: &CheckedReader<u64>) -> Vec<(Vec<u8>, u64)> {
    map.iter().map(|entry| entry.unwrap()).collect()
}

#[test]
fn as_the_oracle() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names").build().unwrap();
    let reader = arena.reader::<u64>("names").unwrap();
    assert!(reader.is_empty().unwrap());
    assert_eq!(reader.get("").unwrap(), None);
    assert_eq!(reader.verify().unwrap(), 0);
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(5);
    for round in 0..4000u64 {
        let name = key(&mut rng);
        if rng.u8(0..5) == 0 {
            let old = oracle
                .keys()
                .nth(rng.usize(0..oracle.len().max(1)))
                .cloned();
            let old = old.unwrap_or_default();
            assert_eq!(names.remove(&old).unwrap(), oracle.remove(&old).is_some());
        } else {
            names.insert(&name, round).unwrap();
            oracle.insert(name.clone(), round);
        }
        let asked = key(&mut rng);
        assert_eq!(reader.get(&asked).unwrap(), oracle.get(&asked).copied());
        assert_eq!(reader.get(&name).unwrap(), oracle.get(&name).copied());
        let there = reader.from_key(&asked).next().map(|entry| entry.unwrap());
        let want = oracle.range(asked.clone()..).next();
        assert_eq!(there, want.map(|(key, value)| (key.clone(), *value)));
        let prefix = &asked[..asked.len().min(2)];
        if round % 16 == 0 {
            let there: Vec<_> = reader.prefix(prefix).map(|entry| entry.unwrap()).collect();
            let want = oracle
                .range(prefix.to_vec()..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, value)| (key.clone(), *value));
            assert_eq!(there, want.collect::<Vec<_>>());
        }
        if round % 256 == 0 {
            assert!(all(&reader).into_iter().eq(oracle.clone()));
            assert_eq!(reader.verify().unwrap(), oracle.len());
        }
    }
    assert_eq!(reader.len().unwrap(), oracle.len());
    while names.compact_step(1000).unwrap() {}
    assert!(all(&reader).into_iter().eq(oracle.clone()));
    assert_eq!(reader.verify().unwrap(), oracle.len());
    // Without knowing what values are.
    let bytes = arena.reader::<Bytes>("names").unwrap();
    assert_eq!(bytes.value_bytes().unwrap(), 8);
    let (first, value) = bytes.iter().next().unwrap().unwrap();
    assert_eq!(value.0, oracle[&first].to_ne_bytes());
    // Refusals.
    let wrong = arena.reader::<[u64; 2]>("names");
    assert!(matches!(wrong, Err(Error::Value { .. })), "{wrong:?}");
    let wrong = arena.reader::<[u8; 8]>("names");
    assert!(matches!(wrong, Err(Error::Value { .. })), "{wrong:?}");
    assert!(matches!(
        arena.reader::<u64>("others"),
        Err(Error::NoWindow { .. })
    ));
    drop(names);
    assert!(matches!(reader.get("a"), Err(Error::NoWindow { .. })));
    assert!(matches!(
        reader.iter().next(),
        Some(Err(Error::NoWindow { .. }))
    ));
}

/// A key that stays, and its value.
fn staying(i: u32) -> (String, u64) {
    let key = format!("stays/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) >> 20);
    (key, u64::from(i) << 32 | 7)
}

/// The value of a key that comes and goes.
fn value_of(key: &[u8]) -> u64 {
    let sum = key.iter().fold(5u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    sum >> 32
}

const STAYING: u32 = 2000;

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((what, path)) = Beside::order() else {
        return;
    };
    assert_eq!(what, "churns");
    let arena = BpfArena::open(path).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names").build().unwrap();
    for i in 0..STAYING {
        let (key, value) = staying(i);
        names.insert(&key, value).unwrap();
    }
    println!("ready");
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0u64.. {
        let key = format!(
            "{}/{:x}",
            ["goes", "stays", "x"][rng.usize(0..3)],
            rng.u32(0..5000)
        );
        match rng.bool() {
            true => drop(names.insert(&key, value_of(key.as_bytes())).unwrap()),
            false => drop(names.remove(&key).unwrap()),
        }
        if round % 64 == 0 {
            names.compact_step(16).unwrap();
        }
        // All threads' garbage is freed as soon as it may be.
        drop(names.pin());
    }
}

#[test]
fn a_map_that_another_process_writes_until_it_is_killed() {
    if skipped() {
        return;
    }
    let pins = Pins::new("checked");
    let arena = BpfArena::create(64 << 20).unwrap();
    arena.pin(pins.path("arena")).unwrap();
    let mut child = Beside::start("churns", &pins.path("arena"));
    child.wait_for("ready");
    let reader = arena.reader::<u64>("names").unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    let (mut gets, mut walks, mut busy, mut rng) = (0, 0, 0, fastrand::Rng::with_seed(3));
    while Instant::now() < until || walks < 3 {
        for _ in 0..200 {
            let (key, value) = staying(rng.u32(0..STAYING));
            match reader.get(&key) {
                Ok(found) => assert_eq!(found, Some(value), "{key}"),
                Err(Error::Busy(_)) => busy += 1,
                Err(error) => panic!("{key}: {error}"),
            }
            gets += 1;
        }
        let (mut stay, mut before) = (0, Vec::new());
        let mut ended = true;
        for entry in reader.iter() {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(Error::Busy(_)) => {
                    ended = false;
                    break;
                }
                Err(error) => panic!("{error}"),
            };
            assert!(before < key, "{before:?} before {key:?}");
            match value == value_of(&key) {
                true => {}
                false => {
                    assert_eq!(value & 0xffff_ffff, 7, "{key:?} {value}");
                    let (name, _) = staying((value >> 32) as u32);
                    assert_eq!(name.as_bytes(), key);
                    stay += 1;
                }
            }
            before = key;
        }
        if ended {
            assert_eq!(stay, STAYING);
            walks += 1;
        }
    }
    child.kill();
    println!("{gets} lookups, {walks} walks beside a writer, {busy} given up");
    assert!(busy <= gets / 100);
    // What it left is whole, whatever it was doing.
    let there = reader.verify().unwrap();
    assert_eq!(there, reader.len().unwrap());
    assert_eq!(
        reader
            .prefix("stays/")
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|(_, value)| value & 0xffff_ffff == 7)
            })
            .count(),
        STAYING as usize
    );
}

/// Asks everything that can be asked. Any answer will do, and none may take long.
fn ask_all(map: &CheckedReader<u64>, rng: &mut fastrand::Rng, most: usize) -> usize {
    let mut errors = 0;
    for _ in 0..20 {
        errors += usize::from(map.get(key(rng)).is_err());
    }
    let walked = map
        .iter()
        .inspect(|entry| errors += usize::from(entry.is_err()));
    assert!(
        walked.count() <= most,
        "more entries than there is room for"
    );
    let mut before: Option<Vec<u8>> = None;
    for (key, _) in map.from_key(key(rng)).map_while(Result::ok) {
        assert!(before.is_none_or(|before| before < key));
        before = Some(key);
    }
    errors + usize::from(map.verify().is_err())
}

#[test]
fn damaged_maps() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(8 << 20).unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .build()
        .unwrap();
    let mut rng = fastrand::Rng::with_seed(8);
    for i in 0..1500 {
        names.insert(key(&mut rng), i).unwrap();
    }
    let poke = Poke::new(&arena);
    let info = names.window().clone();
    let reader = arena.reader::<u64>("names").unwrap();
    let most = info.len / 8 + 2;
    // All of it, as it is: to be put back.
    let image = arena.image();
    let end = info.at + info.len.min(names.memory().arena.reserved);
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let whole: Vec<u64> = image[info.at..end].chunks_exact(8).map(word).collect();
    let put_back = |from: usize, len: usize| {
        poke.words((info.at + from * 8) as u64, &whole[from..from + len]);
    };
    // What is in use ends long before the window does.
    let last = whole.iter().rposition(|&word| word != 0).unwrap();
    let nodes = 512..last;
    let mut caught = 0;
    for round in 0..400 {
        // Some words changed: a bit, a byte, all; or many words overwritten by others of the map.
        let at = rng.usize(nodes.clone());
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
            // And another root.
            let root = match rng.bool() {
                true => rng.u64(..),
                false => (rng.usize(nodes.clone()) * 2) as u64 | rng.u64(0..2),
            };
            poke.words((info.at + 64) as u64, &[root]);
        }
        caught += usize::from(ask_all(&reader, &mut rng, most) > 0);
        put_back(at, len);
        put_back(8, 1);
    }
    assert!(caught > 100, "{caught} of 400");
    assert_eq!(reader.verify().unwrap(), names.len());
    // Nothing but random bytes, the header page included.
    for _ in 0..10 {
        let noise: Vec<u64> = (0..whole.len()).map(|_| rng.u64(..)).collect();
        poke.words((info.at + 4096) as u64, &noise[512..]);
        ask_all(&reader, &mut rng, most);
        poke.words((info.at + 16) as u64, &noise[..100]);
        assert!(reader.get("a").is_err());
        put_back(0, 512);
    }
    // Branches that name each other, and a comb as deep as offsets go.
    let mut comb = vec![0u64; whole.len()];
    for (i, pair) in comb[512..].chunks_exact_mut(2).enumerate() {
        let header = (i as u64).min(0xffff) | 1 << 16 | 2 << 27;
        let next = ((512 + 2 * (i + 1)) * 2) as u64;
        pair[0] = header & 0xffff_ffff | 0x0201 << 32 | 0x0202 << 48;
        pair[1] = next | next << 32;
    }
    poke.words((info.at + 4096) as u64, &comb[512..]);
    poke.words((info.at + 64) as u64, &[1024]);
    let began = Instant::now();
    for answer in [reader.len(), reader.verify()] {
        assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    // A branch that is its own child.
    comb[513] = 1024 | 1024 << 32;
    poke.words((info.at + 4096) as u64, &comb[512..520]);
    let answer = reader.verify();
    assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
    put_back(512, whole.len() - 512);
    put_back(8, 1);
    assert_eq!(reader.verify().unwrap(), names.len());
}

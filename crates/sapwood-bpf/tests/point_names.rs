//! Maps that have only an index: looked up by programs, read from outside their owner, taken over.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Beside, Pins, skipped};
use libbpf_rs::ProgramInput;
use sapwood_bpf::{
    BpfArena, Bytes, CheckedReader, Error, KernelMap, Loader, NameMap, Pinned, PointNameMap,
    Programs,
};

const LOOKUP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));
const WALK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.bpf.o"));
const PREFIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prefix.bpf.o"));

/// What programs say of a map that has no order: -EOPNOTSUPP.
const NO_ORDER: i64 = -95;

type Oracle = BTreeMap<Vec<u8>, u64>;

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

fn all(map: &CheckedReader<u64>) -> Vec<(Vec<u8>, u64)> {
    let mut all: Vec<_> = map.unordered().map(|entry| entry.unwrap()).collect();
    all.sort_unstable();
    all
}

#[test]
fn as_the_oracle() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = PointNameMap::<u64>::builder(&arena, "points")
        .build()
        .unwrap();
    let reader = arena.reader::<u64>("points").unwrap();
    let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
    let window = map.window().number;
    assert_eq!(ask(&programs, 2, window, b""), Err(-2), "it is empty");
    assert!(reader.is_empty().unwrap());
    assert_eq!(
        (reader.get("").unwrap(), reader.verify().unwrap()),
        (None, 0)
    );
    let mut oracle = Oracle::new();
    let mut rng = fastrand::Rng::with_seed(1);
    for round in 0..6000u64 {
        let name = key(&mut rng);
        // It grows, and shrinks to nothing at the end.
        if rng.u64(0..6000) < round {
            let old = oracle.keys().nth(rng.usize(0..oracle.len().max(1)));
            let old = old.cloned().unwrap_or_default();
            assert_eq!(map.remove(&old).unwrap(), oracle.remove(&old).is_some());
        } else {
            map.insert(&name, round + 1).unwrap();
            oracle.insert(name.clone(), round + 1);
        }
        let other = key(&mut rng);
        for name in [&name, &other] {
            let want = oracle.get(name).copied();
            let found = ask(&programs, 2, window, name);
            assert_eq!(found, want.ok_or(-2), "{round} {name:?}");
            assert_eq!(reader.get(name).unwrap(), want);
        }
        if round % 500 == 0 {
            map.verify().unwrap();
            assert_eq!(reader.verify().unwrap(), oracle.len());
            assert!(all(&reader).into_iter().eq(oracle.clone()));
            assert_eq!(reader.len().unwrap(), oracle.len());
        }
    }
    for (key, value) in &oracle {
        assert_eq!(ask(&programs, 1, window, key), Ok(*value));
        assert_eq!(ask(&programs, 2, window, key), Ok(*value));
        assert_eq!(ask(&programs, 0, window, key), Err(NO_ORDER));
    }
    // Longer ones than programs know, by the reader.
    let long = vec![5; 3000];
    map.insert(&long, 77).unwrap();
    assert_eq!(reader.get(&long).unwrap(), Some(77));
    assert_eq!(map.clear().unwrap(), oracle.len() + 1);
    assert_eq!(ask(&programs, 2, window, b"a"), Err(-2));
    assert!(reader.is_empty().unwrap());
    // Values of any kind.
    map.insert("one", 1).unwrap();
    let bytes = arena.reader::<Bytes>("points").unwrap();
    let (name, value) = bytes.unordered().next().unwrap().unwrap();
    assert_eq!(
        (&name[..], &value.0[..]),
        (&b"one"[..], &1u64.to_ne_bytes()[..])
    );
    drop(map);
    assert!(matches!(reader.get("one"), Err(Error::NoWindow { .. })));
    let mut entries = reader.unordered();
    assert!(matches!(entries.next(), Some(Err(Error::NoWindow { .. }))));
    assert!(entries.next().is_none());
}

#[test]
fn order_is_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let points = PointNameMap::<u64>::builder(&arena, "points")
        .bytes(1 << 20)
        .build()
        .unwrap();
    let kernel = KernelMap::<u64>::builder(&arena, "kernel")
        .bytes(8 << 20)
        .max_entries(1000)
        .with_index()
        .build()
        .unwrap();
    let names = NameMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .with_index()
        .build()
        .unwrap();
    let cursors = sapwood_bpf::Words::create(&arena, "cursors", 4096).unwrap();
    let walk = Loader::open(&arena, WALK).unwrap().load().unwrap();
    let prefix = Loader::open(&arena, PREFIX).unwrap().load().unwrap();
    let cursor = cursors.window().at as u64;
    let ordered = |window: u32| -> BTreeSet<i64> {
        let mut said = BTreeSet::new();
        for what in 0..7 {
            said.insert(walk_says(&walk, what, window, cursor));
        }
        said.insert(run(&prefix, "sw_ask_prefix", [window, 0], b"key").0);
        said
    };
    // Empty or not.
    for round in 0..2u64 {
        assert_eq!(ordered(points.window().number), BTreeSet::from([NO_ORDER]));
        assert_eq!(ordered(kernel.window().number), BTreeSet::from([NO_ORDER]));
        let said = ordered(names.window().number);
        assert!(!said.contains(&NO_ORDER), "{said:?}");
        points.insert("key", round).unwrap();
        names.insert("key", round).unwrap();
    }
    for name in ["points", "kernel"] {
        let reader = arena.reader::<u64>(name).unwrap();
        assert!(!reader.has_order().unwrap());
        for mut entries in [reader.iter(), reader.from_key("a"), reader.prefix("k")] {
            let entry = entries.next();
            assert!(
                matches!(entry, Some(Err(Error::Setting { .. }))),
                "{entry:?}"
            );
            assert!(entries.next().is_none());
        }
    }
    let reader = arena.reader::<u64>("points").unwrap();
    assert_eq!(all(&reader), [(b"key".to_vec(), 1)]);
    assert!(arena.reader::<u64>("names").unwrap().has_order().unwrap());
}

/// What a program says that asks for order.
fn walk_says(programs: &Programs, what: u32, window: u32, cursor: u64) -> i64 {
    let mut data = vec![0u8; 32 + 256 + 64];
    data[0..4].copy_from_slice(&what.to_ne_bytes());
    data[4..8].copy_from_slice(&window.to_ne_bytes());
    data[8..16].copy_from_slice(&cursor.to_ne_bytes());
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
    i64::from_ne_bytes(out[16..24].try_into().unwrap())
}

/// A key that stays, and the values that it may have: a version, and its number.
fn staying(i: u64, version: u64) -> (Vec<u8>, u64) {
    let key = format!("stays/{:x}/{i}", i.wrapping_mul(0x9e37_79b9) >> 20);
    (key.into_bytes(), version << 32 | i)
}

#[test]
fn changes_while_programs_look_up() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = PointNameMap::<u64>::builder(&arena, "points")
        .build()
        .unwrap();
    let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
    let window = map.window().number;
    let stays = 300;
    for i in 0..stays {
        let (key, value) = staying(i, 1);
        map.insert(key, value).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(2);
            let mut version = 1;
            while !stop.load(Ordering::Relaxed) {
                version += 1;
                // Tables grow and shrink all the time.
                for i in 0..3000u64 {
                    map.insert(format!("goes/{i}"), 7 << 40 | i).unwrap();
                    let (key, value) = staying(rng.u64(..stays), version);
                    map.replace(key, value).unwrap();
                }
                for i in 0..3000u64 {
                    assert!(map.remove(format!("goes/{i}")).unwrap());
                }
            }
            version
        });
        let mut rng = fastrand::Rng::with_seed(3);
        let mut newest = vec![0; stays as usize];
        let mut asked = 0;
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            let i = rng.u64(..stays);
            let found = ask(&programs, rng.u32(1..3), window, &staying(i, 0).0).unwrap();
            assert_eq!(found & 0xffff_ffff, i);
            let version = found >> 32;
            assert!(version >= newest[i as usize], "an older value came back");
            newest[i as usize] = version;
            let i = rng.u64(..3000);
            match ask(&programs, 2, window, format!("goes/{i}").as_bytes()) {
                Ok(value) => assert_eq!(value, 7 << 40 | i),
                Err(code) => assert_eq!(code, -2),
            }
            asked += 2;
        }
        stop.store(true, Ordering::Relaxed);
        let versions = writer.join().unwrap();
        println!("{asked} lookups beside {versions} rounds of changes");
        assert!(asked > 100 && versions > 2);
    });
    map.verify().unwrap();
    assert_eq!(map.len() as u64, stays);
}

const STAYING: u64 = 1000;

/// The keys that owners insert one after the other, and never remove.
fn written(i: u64) -> (Vec<u8>, u64) {
    let key = format!("w/{:x}", i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff);
    (key.into_bytes(), 1 << 41 | i)
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((what, folder)) = Beside::order() else {
        return;
    };
    let pinned = Pinned::open(folder).unwrap();
    let arena = pinned.arena().unwrap();
    let builder = PointNameMap::<u64>::builder(&arena, "points");
    let map = match what.as_str() {
        "owns" => {
            let map = builder.build().unwrap();
            for i in 0..STAYING {
                let (key, value) = staying(i, 1);
                map.insert(key, value).unwrap();
            }
            map
        }
        "takes-over" => builder.take_over().unwrap(),
        other => panic!("{other}"),
    };
    let next = (0..).find(|&i| !map.contains_key(written(i).0)).unwrap();
    println!("ready");
    // Three threads, so that several changes are under way when the process ends.
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let map = &map;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                loop {
                    let grows = rng.bool();
                    for _ in 0..5000 {
                        let other = format!("goes/{:x}", rng.u32(..6000));
                        match rng.u8(..4) > u8::from(grows) * 2 {
                            true => drop(map.remove(&other).unwrap()),
                            false => drop(map.insert(&other, 7).unwrap()),
                        }
                    }
                }
            });
        }
        for i in next.. {
            let (key, value) = written(i);
            map.insert(key, value).unwrap();
            if i % 8 == 0 {
                println!("at {i}.");
            }
        }
    });
}

/// Kills a child, and gives the number of the last key that it was heard to say was in.
fn kill(mut child: Beside) -> u64 {
    use std::io::Read;
    for _ in 0..3 {
        child.wait_for(".");
    }
    child.kill();
    let mut said = String::new();
    let out = child.0.stdout.as_mut().unwrap();
    out.read_to_string(&mut said).unwrap();
    let last = said.lines().rev().find_map(|line| {
        let number = line.strip_prefix("at ")?.strip_suffix('.')?;
        number.parse().ok()
    });
    last.unwrap_or(0)
}

/// Lets a thread end that looks at this.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn owners_killed_while_they_write() {
    if skipped() {
        return;
    }
    let pins = Pins::new("points");
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(32 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
    let mut child = Beside::start("owns", &pins.0);
    child.wait_for("ready");
    let first = arena.reader::<u64>("points").unwrap().window().clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(4);
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                let (key, value) = staying(rng.u64(..STAYING), 1);
                assert_eq!(ask(&programs, 2, first.number, &key), Ok(value));
                asked += 1;
            }
            asked
        });
        let _ends = Ends(&stop);
        let check = |last: u64| {
            let reader = arena.reader::<u64>("points").unwrap();
            for (key, value) in (0..=last).map(written) {
                assert_eq!(reader.get(&key).unwrap(), Some(value), "{key:?} of {last}");
            }
            for i in 0..STAYING {
                let (key, value) = staying(i, 1);
                assert_eq!(reader.get(&key).unwrap(), Some(value), "{key:?}");
            }
        };
        let refused = PointNameMap::<u64>::builder(&arena, "points").take_over();
        assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
        let mut last = kill(child);
        for _ in 0..6 {
            assert_eq!(arena.owner().unwrap(), None);
            check(last);
            // What it left is whole, whatever it was doing.
            let reader = arena.reader::<u64>("points").unwrap();
            let there = all(&reader);
            assert_eq!(reader.verify().unwrap(), there.len());
            assert!(there.windows(2).all(|two| two[0].0 < two[1].0));
            let mut child = Beside::start("takes-over", &pins.0);
            child.wait_for("ready");
            let info = arena.reader::<u64>("points").unwrap().window().clone();
            assert_eq!(info.number, first.number);
            last = last.max(kill(child));
        }
        check(last);
        // And this process, also as a map of the other kind, and back.
        let there: Oracle = all(&arena.reader::<u64>("points").unwrap())
            .into_iter()
            .collect();
        let map = PointNameMap::<u64>::builder(&arena, "points")
            .take_over()
            .unwrap();
        map.verify().unwrap();
        assert_eq!(map.len(), there.len());
        assert!(
            map.pin()
                .view()
                .iter()
                .all(|(key, value)| there[key] == *value)
        );
        map.insert("new", 99).unwrap();
        assert_eq!(ask(&programs, 2, first.number, b"new"), Ok(99));
        stop.store(true, Ordering::Relaxed);
        println!("{} lookups by programs", asks.join().unwrap());
    });
    drop(programs);
    drop(arena);
    pinned.remove().unwrap();
}

#[test]
fn a_map_of_one_kind_is_taken_over_as_the_other() {
    if skipped() {
        return;
    }
    let pins = Pins::new("kinds");
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(32 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
    let mut child = Beside::start("owns", &pins.0);
    child.wait_for("ready");
    kill(child);
    let there = all(&arena.reader::<u64>("points").unwrap());
    let names = NameMap::<u64>::builder(&arena, "points").with_index();
    let names = names.take_over().unwrap();
    names.verify().unwrap();
    let pin = names.pin();
    let now = pin.view().iter().map(|(key, value)| (key.to_vec(), *value));
    assert!(now.eq(there.clone()));
    drop(pin);
    let window = names.window().number;
    for (key, value) in there.iter().step_by(7) {
        for what in 0..3 {
            assert_eq!(ask(&programs, what, window, key), Ok(*value));
        }
    }
    let reader = arena.reader::<u64>("points").unwrap();
    assert_eq!(reader.verify().unwrap(), there.len());
    assert!(reader.has_order().unwrap());
    assert!(reader.unordered().map(|entry| entry.unwrap()).eq(there));
}

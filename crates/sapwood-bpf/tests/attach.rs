//! Owners die, and others take over what they left, while programs go on reading it.
#![cfg(feature = "kernel")]

mod kernel;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel::{Beside, Pins, Poke, skipped};
use sapwood_bpf::{BpfArena, Error, Loader, NameMap, Pinned, PinnedProgram, Words};

const LOOKUP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lookup.bpf.o"));

/// Keys that are there before the first owner says that it is ready, and always after.
const STAYING: u64 = 500;

fn staying(i: u64) -> (Vec<u8>, u64) {
    (format!("stays/{:x}", i * i).into_bytes(), 1 << 40 | i)
}

/// The keys that owners insert one after the other, and never remove.
fn written(i: u64) -> (Vec<u8>, u64) {
    (
        format!("w/{:x}", i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff).into_bytes(),
        1 << 41 | i,
    )
}

/// What a pinned program says of a key.
fn ask(program: &PinnedProgram, what: u32, window: u32, key: &[u8]) -> Result<u64, i64> {
    let mut data = vec![0u8; 24 + 256];
    data[0..4].copy_from_slice(&what.to_ne_bytes());
    data[4..8].copy_from_slice(&window.to_ne_bytes());
    data[24] = key.len() as u8;
    data[25..25 + key.len()].copy_from_slice(key);
    let mut out = vec![0u8; data.len()];
    assert_eq!(program.run(&data, &mut out).unwrap(), 2);
    let code = i64::from_ne_bytes(out[8..16].try_into().unwrap());
    match code > 0 {
        true => Ok(u64::from_ne_bytes(out[16..24].try_into().unwrap())),
        false => Err(code),
    }
}

/// Inserts and removes until it is killed, and says how far it has come.
fn write(names: &NameMap<u64>, from: u64) {
    let mut rng = fastrand::Rng::with_seed(from);
    for i in from.. {
        let (key, value) = written(i);
        names.insert(&key, value).unwrap();
        // Others come and go; and branches move.
        let other = format!(
            "{}/{:x}",
            ["stays", "w", "g"][rng.usize(0..3)],
            rng.u32(..4000)
        );
        if !other.starts_with("g/") && !other.ends_with('g') {
            let other = format!("{other}g");
            match rng.bool() {
                true => drop(names.insert(&other, 7).unwrap()),
                false => drop(names.remove(&other).unwrap()),
            }
        }
        if i % 8 == 0 {
            names.compact_step(8).unwrap();
            println!("at {i}.");
        }
    }
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((what, folder)) = Beside::order() else {
        return;
    };
    match what.as_str() {
        "owns" => {
            let pinned = Pinned::open(folder).unwrap();
            let arena = pinned.arena().unwrap();
            let programs = Loader::open(&arena, LOOKUP).unwrap().load().unwrap();
            pinned.pin_programs(&programs).unwrap();
            let names = NameMap::<u64>::builder(&arena, "names");
            let names = names.with_index().build().unwrap();
            for i in 0..STAYING {
                let (key, value) = staying(i);
                names.insert(&key, value).unwrap();
            }
            println!("ready");
            write(&names, 0);
        }
        "takes-over" => {
            let arena = Pinned::open(folder).unwrap().arena().unwrap();
            let names = NameMap::<u64>::builder(&arena, "names");
            let names = names.with_index().take_over().unwrap();
            let next = (0..).find(|&i| names.get(written(i).0).is_none()).unwrap();
            println!("ready");
            write(&names, next);
        }
        "wants" => {
            let arena = Pinned::open(folder).unwrap().arena().unwrap();
            let reader = arena.reader::<u64>("names").unwrap();
            assert_eq!(reader.get("a").unwrap(), Some(1));
            let more = NameMap::<u64>::builder(&arena, "more")
                .bytes(1 << 20)
                .build();
            assert!(matches!(more, Err(Error::Owned { .. })), "{more:?}");
            let names = NameMap::<u64>::builder(&arena, "names").take_over();
            assert!(matches!(names, Err(Error::Owned { .. })), "{names:?}");
            let Err(Error::Owned { pid }) = arena.reclaim() else {
                panic!("not refused");
            };
            println!("refused for {pid}.");
        }
        other => panic!("{other}"),
    }
}

/// Kills a child, and gives the number of the last key that it was heard to say was in.
fn kill(mut child: Beside) -> u64 {
    // It has written some, however busy the machine is.
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
    let pins = Pins::new("attach");
    // Made here, so that its address is free here.
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(32 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let mut child = Beside::start("owns", &pins.0);
    child.wait_for("ready");
    assert_eq!(pinned.names().unwrap(), ["arena", "prog-sw_ask"]);
    let first = arena.reader::<u64>("names").unwrap().window().clone();
    let generation = arena.generation();
    assert_eq!(arena.owner().unwrap(), Some(child.0.id()));
    // A program asks all the time, whoever owns the map.
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let program = pinned.program("sw_ask").unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(4);
            while !stop.load(Ordering::Relaxed) {
                let (key, value) = staying(rng.u64(..STAYING));
                let what = rng.u32(..3);
                let answer = ask(&program, what, first.number, &key);
                if answer != Ok(value) {
                    stop.store(true, Ordering::Relaxed);
                    return Some((what, key, answer));
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
            None
        });
        let wait_for_asks = || {
            let until = asked.load(Ordering::Relaxed) + 300;
            while asked.load(Ordering::Relaxed) < until && !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        // Also when something fails here.
        let _ends = Ends(&stop);
        let check = |last: u64, rests: bool| {
            let reader = arena.reader::<u64>("names").unwrap();
            if rests {
                assert_eq!(reader.verify().unwrap(), reader.len().unwrap());
            }
            for (key, value) in (0..=last).map(written).chain((0..STAYING).map(staying)) {
                assert_eq!(reader.get(&key).unwrap(), Some(value), "{key:?} of {last}");
            }
        };
        wait_for_asks();
        let refused = NameMap::<u64>::builder(&arena, "names").take_over();
        assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
        let mut last = kill(child);
        let mut places = vec![first.at];
        for round in 0..3 {
            assert_eq!(arena.owner().unwrap(), None);
            wait_for_asks();
            check(last, true);
            let mut child = Beside::start("takes-over", &pins.0);
            child.wait_for("ready");
            check(last, false);
            assert_eq!(arena.generation(), generation + round + 1);
            wait_for_asks();
            last = last.max(kill(child));
            let info = arena.reader::<u64>("names").unwrap().window().clone();
            assert_eq!(info.number, first.number);
            places.push(info.at);
        }
        assert!(
            places.windows(2).all(|pair| pair[0] != pair[1]),
            "{places:?}"
        );
        check(last, true);
        // And this process.
        let before: BTreeMap<_, _> = arena
            .reader::<u64>("names")
            .unwrap()
            .iter()
            .map(|entry| entry.unwrap())
            .collect();
        let names = NameMap::<u64>::builder(&arena, "names")
            .with_index()
            .take_over();
        let names = names.unwrap();
        names.verify().unwrap();
        assert_eq!(names.len(), before.len());
        assert!(
            names
                .pin()
                .view()
                .iter()
                .all(|(key, value)| before[key] == *value)
        );
        names.insert("new", 99).unwrap();
        assert_eq!(ask(&program, 2, first.number, b"new"), Ok(99));
        let twice = NameMap::<u64>::builder(&arena, "names").take_over();
        assert!(matches!(twice, Err(Error::Name { .. })), "{twice:?}");
        wait_for_asks();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(asks.join().unwrap(), None);
    });
    println!("{} lookups by the program", asked.load(Ordering::Relaxed));
    drop((program, arena));
    pinned.remove().unwrap();
    assert!(!pins.0.exists());
}

#[test]
fn a_living_owner_is_left_alone() {
    if skipped() {
        return;
    }
    let pins = Pins::new("owned");
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(4 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (None, 0));
    let names = NameMap::<u64>::builder(&arena, "names")
        .bytes(1 << 20)
        .build()
        .unwrap();
    names.insert("a", 1).unwrap();
    let me = std::process::id();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (Some(me), 1));
    let mut child = Beside::start("wants", &pins.0);
    child.wait_for(&format!("refused for {me}."));
    assert!(child.0.wait().unwrap().success());
    // The last handle gone, others may.
    drop((names, arena));
    let arena = pinned.arena().unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (None, 1));
    let names = NameMap::<u64>::builder(&arena, "names").build().unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (Some(me), 2));
    drop(names);
    // Pins: not in other file systems, not over others.
    let other = Pinned::create(std::env::temp_dir().join("sapwood-pins"));
    assert!(matches!(other, Err(Error::NoBpffs(_))), "{other:?}");
    let other = Pinned::open(std::env::temp_dir());
    assert!(matches!(other, Err(Error::NoBpffs(_))), "{other:?}");
    assert!(Pinned::create(&pins.0).is_err(), "it holds pins");
    assert!(pinned.pin_arena(&arena).is_err(), "it is pinned");
    assert!(pinned.program("none").is_err());
    assert!(pinned.link("none").is_err());
    assert!(BpfArena::open(pins.path("none")).is_err());
}

#[test]
fn memory_of_windows_that_are_no_more() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let mut rng = fastrand::Rng::with_seed(3);
    let all = arena.bytes_left();
    assert_eq!(all, (4 << 20) - 4096);
    for round in 0..12u64 {
        let one = NameMap::<u64>::builder(&arena, "one")
            .bytes(1 << 20)
            .build()
            .unwrap();
        let two = NameMap::<u64>::builder(&arena, "two")
            .bytes(2 << 20)
            .build()
            .unwrap();
        assert_ne!(one.window().number, two.window().number);
        for i in 0..3000 {
            one.insert(rng.u64(..).to_ne_bytes(), i).unwrap();
            two.insert(rng.u64(..).to_be_bytes(), i).unwrap();
        }
        let wrong = NameMap::<u64>::builder(&arena, "three")
            .bytes(2 << 20)
            .build();
        assert!(matches!(wrong, Err(Error::NoRoom { .. })), "{wrong:?}");
        drop(one);
        if round % 2 == 0 {
            // The first one's place is used while the second one lives on.
            let scratch = Words::create(&arena, "scratch", 1 << 17).unwrap();
            let info = scratch.window();
            let image = arena.image();
            assert!(
                image[info.at..info.at + info.len]
                    .iter()
                    .all(|&byte| byte == 0)
            );
        }
        two.verify().unwrap();
        drop(two);
        if round % 3 == 0 {
            assert!(arena.reclaim().unwrap() >= 2 << 20);
            assert_eq!(arena.reclaim().unwrap(), 0);
        }
        assert!(arena.windows().unwrap().is_empty());
        assert_eq!(arena.bytes_left(), all);
    }
    // A map that cannot be built takes nothing.
    let entries = (0..40_000u64).map(|i| (i.to_be_bytes(), i));
    let full = NameMap::<u64>::builder(&arena, "full")
        .bytes(64 << 10)
        .build_sorted(entries);
    assert!(matches!(full, Err(Error::Map(_))), "{full:?}");
    assert_eq!(arena.bytes_left(), all);
}

#[test]
fn a_damaged_map_is_not_taken_over() {
    if skipped() {
        return;
    }
    let pins = Pins::new("damaged");
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(32 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let mut child = Beside::start("owns", &pins.0);
    child.wait_for("ready");
    let refused = arena.remove_window("names");
    assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
    child.kill();
    let info = arena.reader::<u64>("names").unwrap().window().clone();
    let poke = Poke::new(&arena);
    poke.words((info.at + 64) as u64, &[u64::from(u32::MAX)]);
    let left = arena.bytes_left();
    let damaged = NameMap::<u64>::builder(&arena, "names").take_over();
    assert!(matches!(damaged, Err(Error::Damaged(_))), "{damaged:?}");
    assert!(arena.bytes_left() >= left);
    let taken = NameMap::<u64>::builder(&arena, "names").build();
    assert!(matches!(taken, Err(Error::Name { .. })), "{taken:?}");
    let none = NameMap::<u64>::builder(&arena, "others").take_over();
    assert!(matches!(none, Err(Error::NoWindow { .. })), "{none:?}");
    // Then it is made anew, in the memory of the damaged one.
    arena.remove_window("names").unwrap();
    let names = NameMap::<u64>::builder(&arena, "names").build().unwrap();
    names.insert("a", 1).unwrap();
    names.verify().unwrap();
    assert_eq!(arena.reader::<u64>("names").unwrap().len().unwrap(), 1);
    let own = arena.remove_window("names");
    assert!(matches!(own, Err(Error::Name { .. })), "{own:?}");
}

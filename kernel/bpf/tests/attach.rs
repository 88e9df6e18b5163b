//! Owners die, and others take over what they left, while programs go on reading it.
//! `SAPWOOD_ROUNDS` sets how often a map is made whose owners are killed one after the other.
#![cfg(feature = "kernel")]

mod kernel;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ipnet::Ipv4Net;
use kernel::maps::{
    Both, Kind, Names, Number, Points, Stores, TextPoints, TextStores, TextsBoth, Trie, all,
};
use kernel::{Beside, Ends, LOOKUP, Pins, Poke, load, lookup, skipped};
use sapwood_bpf::{BpfArena, Error, Ipv4Map, Pinned, UserMap, Words};

tests_of_maps! {
    trie: Trie {
        a_living_owner_is_left_alone
        memory_of_windows_that_are_no_more
        a_damaged_map_is_not_taken_over
    }
    both: Both {
        owners_killed_while_they_write
        a_living_owner_is_left_alone
        memory_of_windows_that_are_no_more
        a_damaged_map_is_not_taken_over
        a_map_of_another_kind_is_taken_over
    }
    store: Stores {
        owners_killed_while_they_write
        a_living_owner_is_left_alone
        a_damaged_map_is_not_taken_over
        a_map_of_another_kind_is_taken_over
    }
    points: Points {
        owners_killed_while_they_write
        a_living_owner_is_left_alone
        memory_of_windows_that_are_no_more
        a_damaged_map_is_not_taken_over
        a_map_of_another_kind_is_taken_over
    }
    texts_both: TextsBoth { owners_killed_while_they_write a_damaged_map_is_not_taken_over }
    text_points: TextPoints { owners_killed_while_they_write }
    text_stores: TextStores { owners_killed_while_they_write }
}

/// Keys that are there before the first owner reports that it is ready, and at all later times.
const STAYING: u64 = 500;

/// The most keys that an owner inserts and never removes.
const NEW_KEYS: u64 = 2000;

fn staying(i: u64) -> (Vec<u8>, u64) {
    (format!("stays/{:x}", i * i).into_bytes(), 1 << 40 | i)
}

/// The keys that owners insert in order, and never remove.
fn written(i: u64) -> (Vec<u8>, u64) {
    let key = format!("w/{:x}", i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff);
    (key.into_bytes(), 1 << 41 | i)
}

/// Inserts and removes until the process is killed, and prints its progress. Three threads do so,
/// so that the death interrupts several changes.
fn write(map: &impl Names) {
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                loop {
                    let grows = rng.bool();
                    for _ in 0..5000 {
                        // Other keys come and go, between the keys that stay.
                        let place = ["stays", "w", "goes"][rng.usize(0..3)];
                        let other = format!("{place}/{:x}g", rng.u32(..4000));
                        if rng.u8(..4) > u8::from(grows) * 2 {
                            map.take(other.as_bytes());
                        } else {
                            map.put(other.as_bytes(), 7);
                        }
                    }
                }
            });
        }
        let next = (0..).find(|&i| map.value(&written(i).0).is_none()).unwrap();
        println!("ready");
        // On a slow machine it is killed late. So that its window does not fill up, it goes on with
        // the same keys.
        let keys = (next..next + NEW_KEYS).chain((next..next + NEW_KEYS).cycle());
        for i in keys {
            let (key, value) = written(i);
            map.put(&key, value);
            if i % 8 == 0 {
                map.tidy(8);
                println!("at {i}.");
            }
        }
    });
}

/// Starts this program as another process, which does `what` with a map of this kind.
fn beside<K: Kind>(what: &str, pins: &Pins) -> Beside {
    Beside::start(&format!("{what} {}", K::NAME), &pins.0)
}

#[test]
#[ignore = "a part of other tests, in a process of its own"]
fn child_process() {
    let Some((order, folder)) = Beside::order() else {
        return;
    };
    let pinned = Pinned::open(folder).unwrap();
    let arena = pinned.arena().unwrap();
    match order.split_once(' ').unwrap() {
        (what, Trie::NAME) => child::<Trie>(what, &pinned, &arena),
        (what, Both::NAME) => child::<Both>(what, &pinned, &arena),
        (what, Stores::NAME) => child::<Stores>(what, &pinned, &arena),
        (what, Points::NAME) => child::<Points>(what, &pinned, &arena),
        (what, TextsBoth::NAME) => child::<TextsBoth>(what, &pinned, &arena),
        (what, TextPoints::NAME) => child::<TextPoints>(what, &pinned, &arena),
        (what, TextStores::NAME) => child::<TextStores>(what, &pinned, &arena),
        _ => panic!("{order}"),
    }
}

fn child<K: Kind>(what: &str, pinned: &Pinned, arena: &BpfArena) {
    let builder = K::builder(arena, "names");
    match what {
        "owns" => {
            pinned.pin_programs(&load(arena, LOOKUP)).unwrap();
            let map = builder.build().unwrap();
            for (key, value) in (0..STAYING).map(staying) {
                map.put(&key, value);
            }
            write(&*map);
        }
        "takes-over" => write(&*builder.take_over().unwrap()),
        "wants" => {
            let reader = arena.reader::<Number>("names").unwrap();
            assert_eq!(reader.get("a").unwrap(), Some(Number(1)));
            let more = K::builder(arena, "more").bytes(1 << 20).build();
            assert!(matches!(more, Err(Error::Owned { .. })), "{more:?}");
            let names = builder.take_over();
            assert!(matches!(names, Err(Error::Owned { .. })), "{names:?}");
            let Err(Error::Owned { pid }) = arena.reclaim() else {
                panic!("not refused");
            };
            println!("refused for {pid}.");
        }
        other => panic!("{other}"),
    }
}

/// A pinned arena with a map that another process writes.
fn owned_elsewhere<K: Kind>(name: &str) -> (Pins, Pinned, BpfArena, Beside) {
    let pins = Pins::new(name);
    // The other process makes the arena, so that its address is free in this process.
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(32 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    let mut child = beside::<K>("owns", &pins);
    child.wait_for("ready");
    (pins, pinned, arena, child)
}

/// Repeats a read until it succeeds, because the owner writes without a pause.
fn undisturbed<T>(ask: impl Fn() -> Result<T, Error>) -> T {
    for _ in 0..1_000 {
        match ask() {
            Err(Error::Busy(_)) => std::thread::yield_now(),
            answer => return answer.unwrap(),
        }
    }
    panic!("disturbed a thousand times");
}

fn owners_killed_while_they_write<K: Kind>() {
    let rounds = std::env::var("SAPWOOD_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let [killed, asked] = (0..rounds)
        .map(|_| owners_killed::<K>())
        .fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    println!(
        "{}: {killed} owners killed, {asked} lookups by programs",
        K::NAME
    );
}

/// How many owners of one map were killed while they wrote, and how often a program looked up what
/// stays, and found it.
fn owners_killed<K: Kind>() -> [u64; 2] {
    let (pins, pinned, arena, child) = owned_elsewhere::<K>("attach");
    assert_eq!(
        pinned.names().unwrap(),
        ["arena", "prog-sw_ask", "prog-sw_ask_value"]
    );
    let first = arena
        .reader::<Number>("names")
        .unwrap()
        .source()
        .window()
        .clone();
    let generation = arena.generation();
    assert_eq!(arena.owner().unwrap(), Some(child.0.id()));
    // A program looks keys up all the time, whoever owns the map.
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let program = pinned.program("sw_ask").unwrap();
    let killed = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(4);
            while !stop.load(Ordering::Relaxed) {
                let (key, value) = staying(rng.u64(..STAYING));
                let what = K::WHATS[rng.usize(..K::WHATS.len())];
                let answer = lookup(&program, what, first.number, &key);
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
        let _ends = Ends(&stop);
        let check = |last: u64, rests: bool| {
            let reader = arena.reader::<Number>("names").unwrap();
            if rests {
                // The dead owner's map is intact, whatever the owner was doing.
                let there = all(&reader);
                assert_eq!(reader.verify().unwrap(), there.len());
                assert_eq!(reader.len().unwrap(), there.len());
                assert!(there.windows(2).all(|two| two[0].0 < two[1].0));
            }
            for (key, value) in (0..=last).map(written).chain((0..STAYING).map(staying)) {
                assert_eq!(
                    undisturbed(|| reader.get(&key)),
                    Some(Number(value)),
                    "{key:?} of {last}"
                );
            }
        };
        wait_for_asks();
        let refused = K::builder(&arena, "names").take_over();
        assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
        let mut last = child.kill_at();
        let mut killed = 1;
        let mut places = vec![first.at];
        // The death of an owner can interrupt more kinds of changes of an index.
        for round in 0..if K::HAS_TRIE { 3 } else { 6 } {
            assert_eq!(arena.owner().unwrap(), None);
            wait_for_asks();
            check(last, true);
            let mut child = beside::<K>("takes-over", &pins);
            child.wait_for("ready");
            check(last, false);
            assert_eq!(arena.generation(), generation + round + 1);
            wait_for_asks();
            last = last.max(child.kill_at());
            killed += 1;
            let info = arena
                .reader::<Number>("names")
                .unwrap()
                .source()
                .window()
                .clone();
            assert_eq!(info.number, first.number);
            places.push(info.at);
        }
        let moved = places.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(moved, "{places:?}");
        check(last, true);
        // This process is the last owner.
        let before = all(&arena.reader::<Number>("names").unwrap());
        let names = K::builder(&arena, "names").take_over().unwrap();
        names.check();
        assert_eq!(names.count(), before.len());
        assert_eq!(names.entries(), before);
        names.put(b"new", 99);
        assert_eq!(lookup(&program, 2, first.number, b"new"), Ok(99));
        let twice = K::builder(&arena, "names").take_over();
        assert!(matches!(twice, Err(Error::Name { .. })), "{twice:?}");
        wait_for_asks();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(asks.join().unwrap(), None);
        killed
    });
    drop((program, arena));
    pinned.remove().unwrap();
    assert!(!pins.0.exists());
    [killed, asked.into_inner()]
}

fn a_map_of_another_kind_is_taken_over<K: Kind>() {
    match K::HAS_TRIE {
        true => taken_over::<K, Points>(),
        false => taken_over::<K, Both>(),
    }
}

fn taken_over<From: Kind, To: Kind>() {
    let (_pins, pinned, arena, child) = owned_elsewhere::<From>("kinds");
    child.kill_at();
    let there = all(&arena.reader::<Number>("names").unwrap());
    let names = To::builder(&arena, "names").take_over().unwrap();
    names.check();
    assert_eq!(names.entries(), there);
    let program = pinned.program("sw_ask").unwrap();
    for (key, value) in there.iter().step_by(7) {
        for &what in To::WHATS {
            let found = lookup(&program, what, names.window().number, key);
            assert_eq!(found, Ok(*value));
        }
    }
    let reader = arena.reader::<Number>("names").unwrap();
    assert_eq!(reader.verify().unwrap(), there.len());
    assert_eq!(reader.has_order().unwrap(), To::HAS_TRIE);
    assert_eq!(all(&reader), there);
}

#[test]
fn byte_strings_are_taken_over_as_byte_strings() {
    if skipped() {
        return;
    }
    taken_over::<TextStores, TextPoints>();
    taken_over::<TextPoints, TextsBoth>();
    // Programs would read the values as another type.
    let refused = |taken: Result<(), Error>, says: &str| {
        let error = taken.unwrap_err();
        assert!(
            matches!(&error, Error::Value { why, .. } if why.contains(says)),
            "{error}"
        );
    };
    let (_pins, _pinned, arena, child) = owned_elsewhere::<TextStores>("texts");
    child.kill_at();
    let numbers = Points::builder(&arena, "names").take_over();
    refused(numbers.map(drop), "byte strings");
    drop(TextStores::builder(&arena, "names").take_over().unwrap());
    let (_pins, _pinned, arena, child) = owned_elsewhere::<Stores>("texts");
    child.kill_at();
    let texts = TextPoints::builder(&arena, "names").take_over();
    refused(texts.map(drop), "8 bytes");
    drop(Stores::builder(&arena, "names").take_over().unwrap());
}

fn a_living_owner_is_left_alone<K: Kind>() {
    let pins = Pins::new("owned");
    let pinned = Pinned::create(&pins.0).unwrap();
    let arena = BpfArena::create(4 << 20).unwrap();
    pinned.pin_arena(&arena).unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (None, 0));
    let names = K::builder(&arena, "names").bytes(1 << 20).build().unwrap();
    names.put(b"a", 1);
    let me = std::process::id();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (Some(me), 1));
    let mut child = beside::<K>("wants", &pins);
    child.wait_for(&format!("refused for {me}."));
    assert!(child.0.wait().unwrap().success());
    // After the drop of the last handle, others may own the arena.
    drop((names, arena));
    let arena = pinned.arena().unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (None, 1));
    let names = K::builder(&arena, "names").build().unwrap();
    assert_eq!((arena.owner().unwrap(), arena.generation()), (Some(me), 2));
    drop(names);
    // Pins are refused in other file systems and over other pins.
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

fn memory_of_windows_that_are_no_more<K: Kind>() {
    let arena = BpfArena::create(4 << 20).unwrap();
    let mut rng = fastrand::Rng::with_seed(3);
    let all = arena.bytes_left();
    assert_eq!(all, (4 << 20) - 4096);
    for round in 0..12u64 {
        let one = K::builder(&arena, "one").bytes(1 << 20).build().unwrap();
        let two = K::builder(&arena, "two").bytes(2 << 20).build().unwrap();
        assert_ne!(one.window().number, two.window().number);
        for i in 0..3000 {
            one.put(&rng.u64(..).to_ne_bytes(), i);
            two.put(&rng.u64(..).to_be_bytes(), i);
        }
        let wrong = K::builder(&arena, "three").bytes(2 << 20).build();
        assert!(matches!(wrong, Err(Error::NoRoom { .. })), "{wrong:?}");
        drop(one);
        if round % 2 == 0 {
            // The place of the first arena is reused while the second one lives on.
            let scratch = Words::create(&arena, "scratch", 1 << 17).unwrap();
            let info = scratch.window();
            let image = arena.image();
            assert!(
                image[info.at..info.at + info.len]
                    .iter()
                    .all(|&byte| byte == 0)
            );
        }
        two.check();
        drop(two);
        if round % 3 == 0 {
            assert!(arena.reclaim().unwrap() >= 2 << 20);
            assert_eq!(arena.reclaim().unwrap(), 0);
        }
        assert!(arena.windows().unwrap().is_empty());
        assert_eq!(arena.bytes_left(), all);
    }
}

#[test]
fn a_map_that_cannot_be_built_takes_nothing() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let all = arena.bytes_left();
    let entries = (0..40_000u64).map(|i| (i.to_be_bytes(), i));
    let full = UserMap::<u64>::builder(&arena, "full").bytes(64 << 10);
    let full = full.build_sorted(entries);
    assert!(matches!(full, Err(Error::Map(_))), "{full:?}");
    assert_eq!(arena.bytes_left(), all);
    let prefixes = (0..40_000u32).map(|i| (Ipv4Net::from(Ipv4Addr::from(i << 12)), i));
    let full = Ipv4Map::<u32>::builder(&arena, "full").bytes(64 << 10);
    let full = full.root_bits(6).build_from(prefixes);
    assert!(matches!(full, Err(Error::Map(_))), "{full:?}");
    assert_eq!(arena.bytes_left(), all);
}

fn a_damaged_map_is_not_taken_over<K: Kind>() {
    let (_pins, _pinned, arena, mut child) = owned_elsewhere::<K>("damaged");
    let refused = arena.remove_window("names");
    assert!(matches!(refused, Err(Error::Owned { .. })), "{refused:?}");
    child.kill();
    let info = arena
        .reader::<Number>("names")
        .unwrap()
        .source()
        .window()
        .clone();
    let poke = Poke::new(&arena);
    // The words with the places of the trie and the index.
    poke.words((info.at + 64) as u64, &[u64::from(u32::MAX); 2]);
    let left = arena.bytes_left();
    let damaged = K::builder(&arena, "names").take_over();
    assert!(matches!(damaged, Err(Error::Damaged(_))), "{damaged:?}");
    assert!(arena.bytes_left() >= left);
    let taken = K::builder(&arena, "names").build();
    assert!(matches!(taken, Err(Error::Name { .. })), "{taken:?}");
    let none = K::builder(&arena, "others").take_over();
    assert!(matches!(none, Err(Error::NoWindow { .. })), "{none:?}");
    // Then the map is made anew, in the memory of the damaged one.
    arena.remove_window("names").unwrap();
    let names = K::builder(&arena, "names").build().unwrap();
    names.put(b"a", 1);
    names.check();
    assert_eq!(arena.reader::<Number>("names").unwrap().len().unwrap(), 1);
    let own = arena.remove_window("names");
    assert!(matches!(own, Err(Error::Name { .. })), "{own:?}");
}

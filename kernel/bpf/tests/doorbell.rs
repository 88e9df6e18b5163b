//! A service that rests until a program rings: it wakes up seldom at rest, and in time when
//! programs write.
#![cfg(feature = "kernel")]

mod kernel;

use std::time::{Duration, Instant};

use kernel::{Answers, LOOKUP, load, pin, skipped};
use sapwood_bpf::{BpfArena, Doorbell, Error, ProgramMap, Programs};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/doorbell.bpf.o"));

/// `struct ask` of the program.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Ask {
    window: u32,
    count: u32,
    first: u64,
    rings: u32,
    done: u32,
    short_of: u32,
    other: u32,
    low: u32,
    unused: u32,
    key: [u8; 256],
}

/// A program makes changes for some time, a hundred each millisecond, and goes on until it has rung
/// or found no memory. Returns how many it made, how many found no memory, and how often it rang.
fn changes(
    programs: &Programs,
    map: &ProgramMap<u64>,
    rings: bool,
    time: Duration,
) -> (u64, u64, u64) {
    let began = Instant::now();
    let mut sums = (0, 0, 0);
    let mut first = 0;
    while began.elapsed() < time || (sums.1 + sums.2 == 0 && began.elapsed() < 20 * time) {
        let mut ask = Ask {
            window: map.window().number,
            count: 100,
            first,
            rings: rings.into(),
            ..Ask::new_zeroed()
        };
        programs.answer("sw_change", ask.as_mut_bytes());
        assert_eq!(ask.other, 0, "{ask:?}");
        sums.0 += u64::from(ask.done);
        sums.1 += u64::from(ask.short_of);
        sums.2 += u64::from(ask.rings);
        first += 100;
        std::thread::sleep(Duration::from_millis(1));
    }
    sums
}

/// How often the threads of this process that serve maps went to sleep so far.
fn sleeps() -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() == "sapwood-service" {
            let status = std::fs::read_to_string(path.join("status")).unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += line.unwrap().trim().parse::<u64>().unwrap();
        }
    }
    sum
}

/// How often the service of a map goes to sleep in a second without changes.
fn at_rest() -> u64 {
    // Until it rests.
    std::thread::sleep(Duration::from_millis(500));
    let before = sleeps();
    std::thread::sleep(Duration::from_secs(1));
    sleeps() - before
}

#[test]
fn a_service_rests_until_a_program_rings() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(128 << 20).unwrap();
    let programs = load(&arena, OBJECT);
    let build = |name: &str| {
        let map = ProgramMap::<u64>::builder(&arena, name).with_trie();
        let map = map.max_entries(15_000).mean_key(8).bytes(16 << 20);
        map.build().unwrap()
    };
    let every = Duration::from_millis(1);
    let long = Duration::from_secs(3);
    let map = build("polled");
    let service = map.spawn_service(every).unwrap();
    let polled = at_rest();
    service.stop().unwrap();
    drop(map);

    let map = build("rings");
    let bell = Doorbell::of(&programs).unwrap();
    let rest = Duration::from_secs(60);
    let service = map.spawn_service_at(bell, every, rest).unwrap();
    let rung = at_rest();
    println!("at rest: {polled} times a second without a doorbell, {rung} with one");
    assert!(rung <= 4 && polled > 20, "{rung} {polled}");
    pin(1);
    let (done, short_of, rings) = changes(&programs, &map, true, long);
    println!("{done} changes with a doorbell, {short_of} found no memory, {rings} rings");
    assert!(
        done > 1000 && rings > 0 && short_of == 0,
        "{done} {short_of} {rings}"
    );
    // It does not ring for ever.
    assert!(at_rest() <= 4);
    // Its end does not wait for the rest.
    let began = Instant::now();
    service.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(map.verify().unwrap().refused, 0);

    // The same without rings shows that the service was needed.
    let bell = Doorbell::of(&programs).unwrap();
    let service = map.spawn_service_at(bell, every, rest).unwrap();
    at_rest();
    let (done, short_of, rings) = changes(&programs, &map, false, long);
    println!("{done} changes without rings, {short_of} found no memory");
    assert!(short_of > 0 && rings == 0);
    service.stop().unwrap();
}

#[test]
fn what_is_low_and_who_rings() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    // An object without a doorbell.
    let none = Doorbell::of(&load(&arena, LOOKUP));
    assert!(
        matches!(none, Err(Error::Missing { what: "map", .. })),
        "{none:?}"
    );
    let programs = load(&arena, OBJECT);
    let map = ProgramMap::<u64>::builder(&arena, "low").with_trie();
    let map = map.max_entries(2000).mean_key(8).bytes(8 << 20);
    let map = map.build().unwrap();
    let one = |first, rings: u32| {
        let mut ask = Ask {
            window: map.window().number,
            count: 1,
            first,
            rings,
            ..Ask::new_zeroed()
        };
        programs.answer("sw_change", ask.as_mut_bytes());
        ask
    };
    assert_eq!(
        (one(0, 1).low, one(1, 1).rings),
        (0, 0),
        "a new map has all its memory"
    );
    // It becomes low before it has no memory, and the first program that sees it rings, once.
    let mut rang = Vec::new();
    let mut low = None;
    let end = (2..100_000u64).find(|first| {
        let ask = one(*first, 1);
        if ask.low == 1 {
            low.get_or_insert(*first);
        }
        if ask.rings > 0 {
            rang.push(*first);
        }
        ask.short_of > 0
    });
    let (low, end) = (low.unwrap(), end.unwrap());
    println!("low after {low} changes, no memory after {end}");
    assert_eq!(rang.len(), 1);
    assert!(rang[0] >= low && rang[0] <= low + 1);
    let left = end - low;
    assert!(
        left * 12 > end && left * 2 < end,
        "{left} of {end} were left"
    );
    // Service gives it back.
    let until = Instant::now() + Duration::from_secs(20);
    while one(0, 0).low == 1 {
        assert!(Instant::now() < until);
        map.service().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    // There is no such map.
    let mut ask = Ask {
        window: 30,
        count: 0,
        ..Ask::new_zeroed()
    };
    programs.answer("sw_change", ask.as_mut_bytes());
    assert_eq!(ask.low, 0);
}

//! Programs that interrupt another program during its change, on the same processor. Their changes
//! are refused at once, and map and cache stay right.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::{Timers, skipped};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use sapwood_bpf::{BpfArena, Loader, ProgramMap, ProgramRouteCache, Programs};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/interrupt.bpf.o"));

/// As in the program.
const CPUS: usize = 64;
const KEYS: usize = 256;
/// The number of changes of one run of the loop, and of timers that expire meanwhile.
const COUNT: u32 = 1000;
const TIMERS: usize = 40;
/// The least number of changes in interrupts that must meet a lock of the interrupted program.
const ENOUGH: u64 = 200;

/// `struct side` of the program.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Side {
    window: u32,
    letter: u32,
    random: u64,
    done: u64,
    no_entry: u64,
    no_memory: u64,
    busy: u64,
    mine: u64,
    mine_busy: u64,
    mine_time: u64,
    wrong: u64,
    error: i64,
    key: [[u64; 16]; 2],
}

/// `struct storm` of the program.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Storm {
    window: u32,
    keys: u32,
    random: u64,
    rounds: u64,
    least: u64,
    hits: u64,
    misses: u64,
    failures: u64,
    stored: u64,
    overtaken: u64,
    refused: u64,
    wrong: u64,
    old: u64,
    longest: u64,
}

fn put(programs: &Programs, map: &str, index: usize, value: &[u8]) {
    let map = programs.map(map).unwrap();
    let key = (index as u32).to_ne_bytes();
    map.update(&key, value, MapFlags::ANY).unwrap();
}

fn get<T: FromBytes>(programs: &Programs, map: &str, index: usize) -> T {
    let map = programs.map(map).unwrap();
    let key = (index as u32).to_ne_bytes();
    let bytes = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    T::read_from_bytes(&bytes).unwrap()
}

/// One run of the loop on this thread's processor, with timers that expire on it meanwhile.
fn run(programs: &Programs, timers: &Timers, step: u64) {
    timers.set(step);
    let mut packet = [0u8; 64];
    packet[..4].copy_from_slice(&COUNT.to_ne_bytes());
    let program = programs.program("sw_loop").unwrap();
    let done = program.test_run(ProgramInput {
        data_in: Some(&packet),
        ..Default::default()
    });
    assert_eq!(done.unwrap().return_value, 2);
}

/// The key of a number, as the program makes it.
fn key(index: usize, number: usize) -> [u8; 4] {
    let letter = if index < CPUS { b'l' } else { b'i' };
    [letter, index as u8, number as u8 & 15, (number >> 4) as u8]
}

#[test]
fn interrupts_write_unless_the_lock_is_taken() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(64 << 20).unwrap();
    let map = ProgramMap::<u64>::builder(&arena, "map")
        .max_entries(2 * CPUS * KEYS)
        .ring(8192)
        .bytes(32 << 20)
        .build()
        .unwrap();
    // The cache has few sets, so that interrupts meet the set that is being written.
    let cache = ProgramRouteCache::builder(&arena, "cache")
        .capacity(32)
        .fresh(Duration::from_millis(1))
        .negative_ttl(Duration::from_micros(20))
        .build()
        .unwrap();
    let programs = Loader::open(&arena, OBJECT).unwrap().load().unwrap();
    put(&programs, "truth", 0, &1u64.to_ne_bytes());
    for index in 0..2 * CPUS {
        let side = Side {
            window: map.window().number,
            letter: key(index, 0)[0].into(),
            random: index as u64,
            ..Side::new_zeroed()
        };
        put(&programs, "sides", index, side.as_bytes());
        let storm = Storm {
            window: cache.window().number,
            keys: 48,
            random: index as u64 + 1000,
            ..Storm::default()
        };
        put(&programs, "storms", index, storm.as_bytes());
    }
    let service = map.spawn_service(Duration::from_micros(300)).unwrap();
    let link = programs.program("sw_interrupt").unwrap().attach().unwrap();
    let sums = || {
        let all = |from: usize| (from..from + CPUS).map(|i| get::<Side>(&programs, "sides", i));
        let sum = |from, of: fn(&Side) -> u64| all(from).map(|side| of(&side)).sum::<u64>();
        (sum(CPUS, |side| side.mine), sum(0, |side| side.done))
    };
    let ends = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for cpu in 0..cpus.min(CPUS) {
            let (ends, programs) = (&ends, &programs);
            scope.spawn(move || {
                let mut set = rustix::thread::CpuSet::new();
                set.set(cpu);
                // Where the first processors are not available, threads run on any.
                let _ = rustix::thread::sched_setaffinity(None, &set);
                let timers = Timers::new(TIMERS);
                let mut rng = fastrand::Rng::with_seed(cpu as u64);
                while !ends.load(Ordering::Relaxed) {
                    run(programs, &timers, rng.u64(2_000..20_000));
                }
            });
        }
        let (least, late) = (Duration::from_secs(2), Duration::from_secs(60));
        let begin = Instant::now();
        while begin.elapsed() < least || (sums().0 < ENOUGH && begin.elapsed() < late) {
            std::thread::sleep(Duration::from_millis(100));
        }
        ends.store(true, Ordering::Relaxed);
    });
    drop(link);
    service.stop().unwrap();
    let all = |from: usize| (from..from + CPUS).map(|i| get::<Side>(&programs, "sides", i));
    let (loops, interrupts): (Vec<_>, Vec<_>) = (all(0).collect(), all(CPUS).collect());
    for side in loops.iter().chain(&interrupts).filter(|side| side.done > 0) {
        println!("{side:?}");
    }
    for side in loops.iter().chain(&interrupts) {
        assert_eq!((side.wrong, side.error), (0, 0), "{side:?}");
    }
    let sum = |sides: &[Side], of: fn(&Side) -> u64| sides.iter().map(of).sum::<u64>();
    let mine = sum(&interrupts, |side| side.mine);
    assert!(mine >= ENOUGH, "{mine} interrupted a writer");
    assert_eq!(
        sum(&loops, |side| side.mine),
        0,
        "nobody is at work for ever"
    );
    let busy = sum(&interrupts, |side| side.mine_busy);
    assert!(busy < mine / 2, "{busy} of {mine} met a lock");
    let drops: u64 = map.drops().iter().map(|drops| drops.busy).sum();
    let all = sum(&interrupts, |side| side.busy) + sum(&loops, |side| side.busy);
    assert_eq!(drops, all, "every drop is counted");
    assert!(sum(&interrupts, |side| side.done) > 0 && sum(&loops, |side| side.done) > 1000);
    let each = sum(&interrupts, |side| side.mine_time) / mine;
    println!("{mine} interrupted a writer and took {each} ns each; {busy} met its locks");
    assert!(each < 30_000, "at once: {each} ns");
    // The map's contents agree with the changes that the programs report.
    let mut entries = 0;
    for index in 0..2 * CPUS {
        for number in 0..KEYS {
            let value = get::<u64>(&programs, "values", index * KEYS + number);
            let found = map.get(key(index, number)).unwrap();
            assert_eq!(found.unwrap_or(0), value, "{index} {number}");
            entries += usize::from(value != 0);
        }
    }
    let shape = map.verify().unwrap();
    assert_eq!(
        (shape.entries, shape.refused, map.len()),
        (entries, 0, entries)
    );
    // So do the cache's, with exact counts.
    let storms: Vec<_> = (0..2 * CPUS)
        .map(|i| get::<Storm>(&programs, "storms", i))
        .collect();
    let count = |of: fn(&Storm) -> u64| storms.iter().map(of).sum::<u64>();
    cache.verify().unwrap();
    let stats = cache.stats();
    println!("{stats:?}");
    assert_eq!((count(|s| s.wrong), count(|s| s.old)), (0, 0));
    assert_eq!(stats.hit, count(|s| s.hits) + count(|s| s.failures));
    assert_eq!(stats.miss, count(|s| s.misses));
    assert_eq!(stats.negative, count(|s| s.failures));
    assert_eq!(stats.hit + stats.miss, count(|s| s.rounds));
    assert_eq!(stats.refresh + stats.insert, count(|s| s.stored));
    assert_eq!(stats.overtaken, count(|s| s.overtaken));
    assert_eq!(stats.busy, count(|s| s.refused));
    let refused: u64 = storms[CPUS..].iter().map(|storm| storm.refused).sum();
    assert!(refused > 0, "no interrupt met a set that was being written");
}

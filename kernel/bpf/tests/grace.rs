//! Memory that a program found is not reused before the program ends, however long it runs.
#![cfg(feature = "kernel")]

mod kernel;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel::{Answers, load, question, skipped, word};
use sapwood_bpf::{BpfArena, Error, KernelGrace, Loader, Programs, UserMap, Way};
use sapwood_qsbr::Domain;

const DWELL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dwell.bpf.o"));

/// The answer of one run of the program: the result of its lookup, and how often the found leaf had
/// changed.
fn dwell(programs: &Programs, window: u32, rounds: u32, key: &[u8]) -> (i64, u64) {
    let mut data = question([window, rounds], 24, key);
    programs.answer("sw_dwell", &mut data);
    (word(&data, 8) as i64, word(&data, 16))
}

/// The writer removes, frees and reuses memory as fast as it can. It ends when `enough` holds for
/// the successful lookups and the removals, when a program meets a change, or when the time is
/// over. Returns the number of programs that found the key, the number of those that met a change,
/// and the number of removals.
fn race(domain: &Domain, enough: impl Fn(u64, u64) -> bool, long: Duration) -> (u64, u64, u64) {
    let arena = BpfArena::create(16 << 20).unwrap();
    let names = UserMap::<u64>::builder(&arena, "names")
        .domain(domain)
        .build()
        .unwrap();
    let programs = load(&arena, DWELL);
    let window = names.window().number;
    // The program runs for about 20 ms on any machine. The kernel ends loops after 250 ms.
    let key = b"key".as_slice();
    names.insert(key, 1).unwrap();
    let began = Instant::now();
    assert!(dwell(&programs, window, 200_000, key).0 > 0);
    let once = began.elapsed().as_secs_f64();
    let rounds = ((200_000.0 * 0.02 / once) as u32).clamp(1000, 20_000_000);
    let (stop, removals) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut i = 1;
            while !stop.load(Ordering::Relaxed) {
                i += 1;
                names.remove(key).unwrap();
                // Other leaves of the same size soon reuse the old leaf's memory.
                for other in [b"kez".as_slice(), b"kex", b"kew"] {
                    names.insert(other, i << 8).unwrap();
                    names.remove(other).unwrap();
                }
                names.insert(key, i << 8 | 1).unwrap();
                names.reclaim(1000);
                removals.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut found, mut met) = (0, 0);
        let began = Instant::now();
        let enough = |found| enough(found, removals.load(Ordering::Relaxed));
        while began.elapsed() < long && met == 0 && !enough(found) {
            let (result, changes) = dwell(&programs, window, rounds, key);
            match result {
                // The key was removed at that moment, or the kernel ended the loop.
                -2 | -40 => {}
                place => {
                    assert!(place > 0, "{place}");
                    found += 1;
                    met += u64::from(changes > 0);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        (found, met, removals.load(Ordering::Relaxed))
    })
}

fn with_the_kernel(way: Way) {
    if skipped() {
        return;
    }
    let grace = KernelGrace::by(way).unwrap();
    let domain = Domain::builder().source(grace.clone()).build();
    // On a busy machine the writer and the kernel may be slow.
    let enough = |found, removals| found >= 25 && removals > 10 && grace.periods() > 2;
    let (found, met, removals) = race(&domain, enough, Duration::from_secs(30));
    println!(
        "{way:?}: {found} programs dwelt, {removals} removals, {} periods",
        grace.periods()
    );
    assert_eq!(met, 0, "of {found} programs that dwelt on what they found");
    assert!(found > 0 && removals > 10 && grace.periods() > 2);
}

#[test]
fn map_in_map_waits_for_programs() {
    with_the_kernel(Way::MapInMap);
}

#[test]
fn membarrier_waits_for_programs() {
    with_the_kernel(Way::Membarrier);
}

#[test]
fn without_the_kernel_programs_meet_other_entries() {
    // This shows that the tests above can fail.
    if skipped() {
        return;
    }
    let (found, met, removals) = race(&Domain::new(), |_, _| false, Duration::from_secs(30));
    println!("without: {met} of {found} programs met a change, {removals} removals");
    assert!(met > 0);
}

/// The object with the library's program that frees pages, which may sleep.
const FREE_PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/free-pages.bpf.o"));

#[test]
fn programs_that_may_sleep_are_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let refused = Loader::open(&arena, FREE_PAGES).unwrap().load();
    assert!(matches!(refused, Err(Error::Sleepable(name)) if name == "sw_free_pages"));
    // An exception for another program does not apply.
    let loader = Loader::open(&arena, FREE_PAGES).unwrap();
    let refused = loader.allow_sleepable("sw_free").load();
    assert!(matches!(refused, Err(Error::Sleepable(_))));
    let loader = Loader::open(&arena, FREE_PAGES).unwrap();
    loader.allow_sleepable("sw_free_pages").load().unwrap();
}

#[test]
fn programs_of_other_headers_are_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let old = include_bytes!(concat!(env!("OUT_DIR"), "/old.bpf.o"));
    let refused = Loader::open(&arena, old).map(drop);
    assert!(
        matches!(refused, Err(Error::Version { expected: 1, .. })),
        "{refused:?}"
    );
}

/// libbpf would place such variables over the arena's first page, or into somebody's window.
#[test]
fn variables_in_the_arena_are_refused() {
    if skipped() {
        return;
    }
    let arena = BpfArena::create(1 << 20).unwrap();
    let few = include_bytes!(concat!(env!("OUT_DIR"), "/variables.bpf.o")).as_slice();
    let many = include_bytes!(concat!(env!("OUT_DIR"), "/many-variables.bpf.o")).as_slice();
    for (object, words) in [(few, 3), (many, 8192)] {
        let before = arena.image();
        let refused = Loader::open(&arena, object).map(drop);
        match &refused {
            Err(Error::ArenaVariables { bytes }) => assert_eq!(*bytes, 8 * words),
            other => panic!("{other:?}"),
        }
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(".addr_space.1"), "{message}");
        assert_eq!(arena.image(), before);
    }
}

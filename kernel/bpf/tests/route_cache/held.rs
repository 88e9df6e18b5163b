//! Sets that another writer holds throughout, and counts to which all processors add.

use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::ProgramInput;
use sapwood_bpf::layout::route as at;
use sapwood_bpf::{BpfArena, Loader, ProgramRouteCache, Programs};
use zerocopy::IntoBytes;

use crate::ask::*;
use crate::model::ENOENT;

const EBUSY: i64 = -16;

/// A word of the cache's window.
fn word(bytes: &Bytes, cache: &ProgramRouteCache, at: usize) -> u64 {
    let read = bytes.read(cache.window().at + at, 8);
    u64::from_le_bytes(read.try_into().unwrap())
}

#[test]
fn a_set_that_stays_locked() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = ProgramRouteCache::builder(&arena, "flows")
        .capacity(16)
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let bytes = Bytes::of(&programs);
    let ask = |what, n, ticket| {
        let ask = Ask {
            what,
            window: cache.window().number,
            // A sweep would remove the entry for its age.
            now: if what == SWEEP {
                50_000 * MS
            } else {
                5000 * MS
            },
            budget: 16,
            key: key(n),
            ticket,
            ..Ask::default()
        };
        run(&programs, "sw_ask", ask)
    };
    let nothing = ask(GET, 1, [0; 4]);
    assert_eq!(nothing.result, ENOENT);
    assert_eq!(ask(PUT, 1, nothing.ticket).result, 0);
    let other = ask(GET, 2, [0; 4]).ticket;
    assert_eq!(ask(GET, 1, [0; 4]).result, 0);
    let set = word(&bytes, &cache, at::SETS_AT) as usize;
    let (from, len) = (cache.window().at + set, cache.window().len - set);
    let sequence = word(&bytes, &cache, set + at::SEQUENCE);
    assert_eq!(sequence % 2, 0);
    let lock = |sequence: u64| bytes.write(from + at::SEQUENCE, &sequence.to_le_bytes());
    lock(sequence + 1001);
    let (before, stats) = (bytes.read(from, len), cache.stats());
    // Lookups of a stored key and of a missing key.
    assert_eq!(ask(GET, 1, [0; 4]).result, EBUSY);
    assert_eq!(ask(GET, 2, [0; 4]).result, ENOENT);
    // No operation writes to the set.
    assert_eq!(ask(PUT, 2, other).result, EBUSY);
    assert_eq!(ask(PUT, 1, nothing.ticket).result, EBUSY);
    assert_eq!(ask(SWEEP, 0, [0; 4]).result, 0);
    assert!(bytes.read(from, len) == before, "the set was changed");
    let now = cache.stats();
    assert_eq!((now.miss, now.busy), (stats.miss + 2, stats.busy + 2));
    assert_eq!((now.hit, now.insert), (stats.hit, stats.insert));
    // An invalidation must not fail, so it invalidates all entries.
    let generation = word(&bytes, &cache, at::GENERATION);
    assert_eq!(ask(INVALIDATE, 1, [0; 4]).result, 1);
    assert_eq!(word(&bytes, &cache, at::GENERATION), generation + 1);
    assert!(bytes.read(from, len) == before, "the set was changed");
    lock(sequence + 1002);
    assert_eq!(ask(GET, 1, [0; 4]).result, ENOENT);
    cache.verify().unwrap();
}

/// Every processor runs the program `times` times with this question, all at the same time. Returns
/// the number of processors.
fn everywhere(programs: &Programs, ask: Ask, times: u32) -> u64 {
    let processors = std::thread::available_parallelism().unwrap().get();
    let ready = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for processor in 0..processors {
            let ready = &ready;
            scope.spawn(move || {
                pin_to(processor);
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) < processors as u32 {
                    std::hint::spin_loop();
                }
                let program = programs.program("sw_ask").unwrap();
                let done = program.test_run(ProgramInput {
                    data_in: Some(ask.as_bytes()),
                    repeat: times,
                    ..ProgramInput::default()
                });
                assert_eq!(done.unwrap().return_value, 2);
            });
        }
    });
    processors as u64
}

#[test]
fn no_addition_is_lost() {
    if !can() {
        return;
    }
    const TIMES: u32 = 1_000_000;
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = ProgramRouteCache::builder(&arena, "flows")
        .capacity(64)
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let bytes = Bytes::of(&programs);
    let ask = Ask {
        window: cache.window().number,
        budget: 16,
        now: MS,
        ..Ask::default()
    };
    let all = Ask {
        what: INVALIDATE_ALL,
        ..ask
    };
    let processors = everywhere(&programs, all, TIMES);
    let added = processors * u64::from(TIMES);
    assert_eq!(word(&bytes, &cache, at::GENERATION), added);
    // A sweep of one set moves the place at which the next sweep begins.
    let sweep = Ask { what: SWEEP, ..ask };
    everywhere(&programs, sweep, TIMES);
    assert_eq!(word(&bytes, &cache, at::CURSOR), added);
    // An invalidation of a key counts a disturbance under the set's lock. Without the lock, it
    // invalidates all entries.
    let one = Ask {
        what: INVALIDATE,
        key: key(1),
        ..ask
    };
    everywhere(&programs, one, TIMES);
    let sets = word(&bytes, &cache, at::SETS_AT) as usize;
    let stride = word(&bytes, &cache, at::STRIDE) as usize;
    let count = word(&bytes, &cache, at::SETS) as usize;
    let sum = |at: usize| -> u64 {
        (0..count)
            .map(|set| word(&bytes, &cache, sets + set * stride + at))
            .sum()
    };
    let disturbed = sum(at::DISTURBANCES);
    let gave_up = word(&bytes, &cache, at::GENERATION) - added;
    assert_eq!(disturbed + gave_up, added);
    assert_eq!(sum(at::SEQUENCE), 2 * disturbed, "locked as often");
    cache.verify().unwrap();
    // The lock is held, so each of them invalidates all entries.
    let generation = word(&bytes, &cache, at::GENERATION);
    for set in 0..count {
        let sequence = cache.window().at + sets + set * stride + at::SEQUENCE;
        bytes.write(sequence, &1u64.to_le_bytes());
    }
    everywhere(&programs, one, TIMES);
    let all = word(&bytes, &cache, at::GENERATION);
    assert_eq!(all - generation, added);
}

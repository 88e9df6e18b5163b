//! Readers of a map of ranges beside its writer: each answer is that of the old map or of the new
//! one. `SAPWOOD_SOAK` sets the seconds that each test runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood::Builder;
use sapwood::maple::Error;
use sapwood::maple::{MapleMap, Window};
use sapwood::qsbr::Domain;

use crate::support::progress::Progress;
use crate::support::ranges::{MAX, steps, tiny};
use crate::support::ranges_script::{Payload, Script, Units};

/// Units at the lower end, pages, and units up to the last index.
const SMALL: Units = Units { count: 96, size: 5 };
const PAGES: Units = Units {
    count: 96,
    size: 4096,
};
const WIDE: Units = Units {
    count: 128,
    size: 1 << 57,
};

fn beside<V: Payload>(build: fn() -> Builder<MapleMap<V>>, seed: u64, units: Units, gap: bool) {
    let soak = std::env::var("SAPWOOD_SOAK")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = soak.map(|seconds: u64| Instant::now() + Duration::from_secs(seconds));
    for round in 0.. {
        let seed = seed + 1000 * round;
        let script = Script::random(seed, units, gap, steps(4_000));
        let map = build().build();
        script.prepare(&map);
        let progress = Progress::default();
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (map, script, progress) = (&map, &script, &progress);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed + reader);
                    let mut handle = map.reader("test").unwrap();
                    let mut asked = 0;
                    while progress.done() < script.steps.len() || asked < 10 {
                        let view = handle.view();
                        for _ in 0..8 {
                            script.ask(map, view, progress, &mut rng);
                            asked += 1;
                        }
                        handle.quiescent();
                    }
                });
            }
            for i in 0..script.steps.len() {
                progress.step(i, || script.make(&map, i));
                if i % 256 == 0 {
                    script.check(&map, i + 1);
                }
            }
        });
        script.check(&map, script.steps.len());
        map.reclaim(usize::MAX);
        assert_eq!(map.memory().waiting.0, 0);
        map.verify().unwrap();
        if end.is_none_or(|end| Instant::now() > end) {
            break;
        }
    }
}

#[test]
fn values_in_slots_beside_a_writer() {
    beside::<u64>(tiny, 1, SMALL, false);
}

#[test]
fn strings_beside_a_writer() {
    beside::<String>(tiny, 2, PAGES, false);
}

#[test]
fn shared_values_up_to_the_last_index_beside_a_writer() {
    beside::<Arc<[u32; 6]>>(tiny, 3, WIDE, false);
}

#[test]
fn a_gap_that_is_always_there_is_always_found() {
    beside::<u64>(tiny, 4, SMALL, true);
    beside::<u64>(tiny, 5, WIDE, true);
}

#[test]
fn nodes_of_the_usual_size_beside_a_writer() {
    let units = Units {
        count: 400,
        size: 4096,
    };
    beside::<u64>(MapleMap::builder, 6, units, true);
}

/// One of two entries is present at all times: every reader must find one. A spanning store over
/// many nodes removes all entries that it covers and stores its own in one step.
#[test]
fn a_wide_entry_and_many_small_ones_in_turn() {
    let map: MapleMap<u64> = tiny().build();
    let n = 40_u64;
    let fill = |map: &MapleMap<u64>, version: u64| {
        for i in 0..n {
            map.store(10 * i..=10 * i + 9, version).unwrap();
        }
    };
    fill(&map, 1);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (map, over) = (&map, &over);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut handle = map.reader("test").unwrap();
                    let mut asked = 0_u64;
                    while !over.load(Ordering::Relaxed) || asked == 0 {
                        let view = handle.view();
                        for _ in 0..16 {
                            let i = rng.u64(0..10 * n);
                            let (range, v) = view.get_entry(i).expect("always covered");
                            assert!(range.contains(&i), "{range:?} does not hold {i}");
                            // An odd version belongs to small entries, an even one to a wide entry
                            // or a rest of it.
                            if v % 2 == 1 {
                                assert_eq!(range, 10 * (i / 10)..=10 * (i / 10) + 9);
                            }
                            assert_eq!(view.locate(i).1.is_some(), view.contains(i));
                            assert_eq!(view.find_gap(1, 0..=10 * n - 1), None);
                            let gap = view.find_gap(1, 0..=MAX);
                            assert_eq!(gap, Some(10 * n..=10 * n));
                            asked += 1;
                        }
                        // There is no hole between one entry and the next.
                        let mut next = 0;
                        for (range, _) in view.iter() {
                            assert!(*range.start() <= next, "{range:?} after {next}");
                            next = range.end() + 1;
                        }
                        assert_eq!(next, 10 * n);
                        handle.quiescent();
                    }
                    asked
                })
            })
            .collect();
        for version in 1..steps(160).max(2) as u64 {
            map.store(0..=10 * n - 1, 2 * version).unwrap();
            fill(&map, 2 * version + 1);
        }
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    map.verify().unwrap();
}

/// Writers with their own handles allocate ranges and free them: no two get the same range.
#[test]
fn allocations_of_many_threads_do_not_overlap() {
    let map: MapleMap<u64> = tiny().build();
    let rounds = steps(1_000);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let map = map.clone();
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut mine = Vec::new();
                let mut next = 0;
                for round in 0..rounds as u64 {
                    let value = thread << 32 | round;
                    let size = rng.u64(1..9);
                    let range = match rng.u8(0..3) {
                        0 => map.alloc_range(size, 0..=9_999, value),
                        1 => map.alloc_range(size, Window::new(0..=9_999).from_end(), value),
                        _ => map.alloc_range(size, Window::new(0..=9_999).starting_at(next), value),
                    };
                    let range = range.unwrap();
                    next = range.end() + 1;
                    assert_eq!(range.end() - range.start() + 1, size);
                    mine.push((range, value));
                    if mine.len() > 60 || rng.u8(0..3) == 0 {
                        let (range, value) = mine.swap_remove(rng.usize(0..mine.len()));
                        let i = range.start() + rng.u64(0..=range.end() - range.start());
                        assert_eq!(map.get_entry(i), Some((range.clone(), value)));
                        assert_eq!(map.remove(i).unwrap(), Some((range, value)));
                    }
                }
                for (range, value) in mine {
                    assert_eq!(map.remove(*range.end()).unwrap(), Some((range, value)));
                }
            });
        }
    });
    assert!(map.is_empty());
    map.verify().unwrap();
}

/// Copies are made beside a writer: each is the map of some moment.
#[test]
fn copies_beside_a_writer() {
    let map: MapleMap<u64> = tiny().build();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            let mut last = 0;
            let mut copies = 0;
            while !over.load(Ordering::Relaxed) || copies == 0 {
                let copy = map.dup().unwrap();
                copy.verify().unwrap();
                // The writer stores ascending versions at ascending places.
                let newest = copy.read(|view| view.iter().map(|(_, v)| *v).max());
                let newest = newest.unwrap_or(0);
                assert!(newest >= last);
                assert_eq!(copy.len() as u64, newest.min(50));
                last = newest;
                copies += 1;
            }
        });
        for version in 1..=steps(1_500) as u64 {
            let at = version % 50;
            map.store(10 * at..=10 * at + 7, version).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        copier.join().unwrap();
    });
    map.verify().unwrap();
}

/// A stalled reader holds memory back. A hard limit turns that into an error; the end of the reader
/// makes room again. A store that was reserved before succeeds nevertheless.
#[test]
fn a_stalled_reader_makes_an_error_and_no_harm() {
    let domain = Domain::builder().hard_limit(1 << 16).build();
    let map: MapleMap<u64> = tiny().domain(&domain).build();
    let mut stalled = map.reader("stalled").unwrap();
    let range = |v: u64| 10 * (v % 50)..=10 * (v % 50) + 7;
    let mut reserved = map.reserve_unknown(1).unwrap();
    let (last, no) = (0..100_000)
        .find_map(|v| Some((v, map.store(range(v), v).err()?)))
        .expect("the limit is reached");
    assert_eq!(no.value, last);
    assert!(matches!(no.error, Error::GarbageLimit(_)), "{no}");
    assert_eq!(
        map.get_entry(10 * (last % 50)),
        Some((range(last), last - 50))
    );
    assert!(map.memory().waiting.1 <= 1 << 16);
    map.verify().unwrap();
    for error in [
        map.remove(0).unwrap_err(),
        map.clear_range(0..=99).unwrap_err(),
        map.clear().unwrap_err(),
        map.insert_new(8..=8, 1).unwrap_err().error,
        map.alloc_range(1, 0..=999, 1).unwrap_err().error,
    ] {
        assert!(matches!(error, Error::GarbageLimit(_)), "{error}");
    }
    let plan = map.plan_store(0..=99, &1).unwrap();
    assert!(map.reserve(plan).is_err());
    assert_eq!((map.len(), map.memory().reserved.0 > 0), (50, true));
    reserved.store(0..=99, 7).unwrap();
    assert_eq!(map.get_entry(50), Some((0..=99, 7)));
    drop(reserved);
    map.verify().unwrap();
    stalled.quiescent();
    map.store(range(last), last).unwrap();
    drop(stalled);
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(
        (map.memory().waiting, map.memory().reserved),
        ((0, 0), (0, 0))
    );
}

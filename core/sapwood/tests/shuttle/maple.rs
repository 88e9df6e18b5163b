//! Maps of ranges with threads whose interleaving shuttle chooses: each answer is that of the old
//! map or of the new one.

use std::sync::Arc;

use sapwood::maple::{MapleMap, MapleSnapshot};

use crate::support::progress;
use crate::support::ranges::{MAX, Range, tiny};
use crate::support::ranges_script::{Payload, Script, Step, Units};
use crate::{check_random, runs};

/// Runs a writer with a few steps and two readers, under random schedules.
fn beside<V: Payload>(script: Script, seed: u64) {
    let script = Arc::new(script);
    check_random(
        move || {
            let map: MapleMap<V> = tiny().build();
            script.prepare(&map);
            let asked = Arc::clone(&script);
            let write = |number: usize| script.make(&map, number);
            progress::beside(
                &map,
                script.steps.len(),
                write,
                move |map, progress, number| {
                    let mut rng = fastrand::Rng::with_seed(seed + number);
                    let mut handle = map.reader("test").unwrap();
                    for _ in 0..3 {
                        asked.ask(map, handle.view(), progress, &mut rng);
                        asked.ask(map, handle.view(), progress, &mut rng);
                        handle.quiescent();
                    }
                },
            );
            script.check(&map, script.steps.len());
        },
        runs(100),
    );
}

const UNITS: Units = Units {
    count: 40,
    size: 10,
};

/// Single units, each followed by a gap, from the first up to `n`.
fn comb(n: u64) -> Vec<Range> {
    (0..n).map(|i| 10 * i..=10 * i + 6).collect()
}

/// Runs the same changes with different queries.
fn all(name: &str, before: u64, steps: &[Step]) {
    for seed in 0..6 {
        let script = Script::of(UNITS, comb(before), steps.to_vec(), None);
        assert!(script.maps.len() > 1, "{name}");
        match seed % 2 {
            0 => beside::<u64>(script, seed),
            _ => beside::<String>(script, seed),
        }
    }
}

#[test]
fn splices() {
    let steps = [
        Step::Store(22..=24),
        Step::Store(20..=29),
        Step::Store(17..=21),
        Step::Clear(12..=33),
        Step::Store(10..=10),
    ];
    all("in one leaf", 5, &steps);
    all("in one of many", 30, &steps);
}

#[test]
fn splits() {
    // With one of these numbers of entries, a leaf is full, and one more entry splits it.
    for before in [6, 10, 14] {
        let steps: Vec<Step> = (0..5)
            .map(|i| Step::Store(10 * i + 8..=10 * i + 8))
            .collect();
        all("splits", before, &steps);
    }
}

#[test]
fn merges() {
    for first in [0, 7, 14] {
        let steps: Vec<Step> = (first..first + 6).map(|i| Step::Erase(10 * i)).collect();
        all("merges", 24, &steps);
    }
}

#[test]
fn spanning_stores() {
    for (a, b) in [(15, 84), (3, 205), (100, 266), (0, MAX), (51, 242)] {
        let steps = [Step::Store(a..=b), Step::Clear(a + 2..=b - 1)];
        all("spans", 27, &steps);
    }
}

#[test]
fn roots_grow_and_collapse() {
    let grow = |i: u64| Step::Store(10 * i..=10 * i + 6);
    for before in [8, 9] {
        all("grows", before, &[grow(9), grow(10), grow(11)]);
    }
    all(
        "begins",
        0,
        &[grow(3), Step::Erase(33), grow(4), Step::ClearAll],
    );
    let collapse = [Step::Clear(25..=MAX), Step::ClearAll, grow(1)];
    all("collapses", 14, &collapse);
}

#[test]
fn a_leafs_last_entry_goes() {
    // Each entry is removed alone, the last of each leaf among them, and a store after it follows.
    for i in 8..16 {
        let steps = [
            Step::Erase(10 * i),
            Step::Store(10 * i + 4..=10 * i + 8),
            Step::Clear(10 * i + 1..=10 * i + 8),
        ];
        for seed in 0..2 {
            let script = Script::of(UNITS, comb(22), steps.to_vec(), None);
            beside::<u64>(script, seed + 10 * i);
        }
    }
}

/// Snapshots are made, cloned, read and dropped beside a writer and other readers. Each snapshot
/// stays equal to one of the maps between the beginning and the end of its creation.
#[test]
fn snapshots_stay() {
    for seed in 0..12 {
        let script = Arc::new(Script::random(seed, UNITS, false, 8));
        check_random(
            move || {
                let map: MapleMap<String> = tiny().build();
                script.prepare(&map);
                let asked = Arc::clone(&script);
                let write = |number: usize| {
                    script.make(&map, number);
                    map.reclaim(usize::MAX);
                };
                progress::beside(&map, script.steps.len(), write, move |map, progress, _| {
                    for _ in 0..2 {
                        let done = progress.done();
                        let snapshot = map.snapshot();
                        let begun = progress.begun();
                        let seen = owned(&snapshot);
                        let possible = &asked.maps[done..=begun];
                        assert!(possible.iter().any(|map| map.to_vec() == seen), "{seen:?}");
                        let copy = snapshot.clone();
                        drop(snapshot);
                        shuttle::thread::yield_now();
                        assert_eq!(owned(&copy), seen);
                    }
                });
                assert_eq!(map.snapshots(), 0);
                script.check(&map, script.steps.len());
                map.reclaim(usize::MAX);
                assert_eq!(map.memory().waiting, (0, 0));
            },
            runs(100),
        );
    }
}

/// The entries of a snapshot, with the numbers of their values.
fn owned(snapshot: &MapleSnapshot<String>) -> Vec<(Range, u32)> {
    let entries = snapshot.view().iter();
    entries
        .map(|(range, value)| (range, value.version().expect("a whole value")))
        .collect()
}

#[test]
fn a_gap_that_is_always_there_is_always_found() {
    for seed in 0..16 {
        let mut script = Script::random(seed, UNITS, true, 40);
        // The map after many changes; then a few changes beside readers.
        let before = script.steps.split_off(34);
        let map = script.maps[34].iter().map(|e| e.0).collect();
        beside::<u64>(Script::of(UNITS, map, before, script.gap), seed);
    }
}

#[test]
fn random_changes() {
    for seed in 0..16 {
        let mut script = Script::random(seed, UNITS, false, 60);
        let steps = script.steps.split_off(54);
        let map = script.maps[54].iter().map(|e| e.0).collect();
        let script = Script::of(UNITS, map, steps, None);
        match seed % 2 {
            0 => beside::<u64>(script, seed),
            _ => beside::<Arc<[u32; 6]>>(script, seed),
        }
    }
}

/// One of two entries covers an index at all times: every reader must find one.
#[test]
fn a_wide_entry_comes_and_small_ones_come_back() {
    for n in [4_u64, 12, 24] {
        check_random(
            move || {
                let map: MapleMap<u64> = tiny().build();
                let fill = |map: &MapleMap<u64>, v: u64| {
                    for i in 0..n {
                        map.store(10 * i..=10 * i + 9, v).unwrap();
                    }
                };
                fill(&map, 1);
                let reader = {
                    let map = map.clone();
                    shuttle::thread::spawn(move || {
                        let mut handle = map.reader("test").unwrap();
                        for i in 0..4 {
                            let view = handle.view();
                            let at = (7 * i + 3) % (10 * n);
                            assert!(view.get(at).is_some());
                            assert!(view.get_entry(at).unwrap().0.contains(&at));
                            assert_eq!(view.find_gap(1, 0..=10 * n - 1), None);
                            assert_eq!(view.find_gap(1, 0..=MAX), Some(10 * n..=10 * n));
                            handle.quiescent();
                        }
                    })
                };
                map.store(0..=10 * n - 1, 2).unwrap();
                fill(&map, 3);
                reader.join().unwrap();
                map.verify().unwrap();
            },
            2 * runs(100),
        );
    }
}

/// One store, while a reader searches the entry next to an index, which may take the reader two
/// steps.
#[test]
fn a_step_to_the_next_entry_beside_a_store() {
    check_random(
        || {
            let map: MapleMap<u64> = tiny().build();
            map.store(0..=9, 1).unwrap();
            map.store(20..=29, 2).unwrap();
            let reader = {
                let map = map.clone();
                shuttle::thread::spawn(move || {
                    let next = map.next_after(4);
                    assert!(
                        [Some((20..=29, 2)), Some((25..=29, 2))].contains(&next),
                        "{next:?}"
                    );
                    let prev = map.prev_before(25);
                    assert!(
                        [Some((0..=9, 1)), Some((3..=24, 3))].contains(&prev),
                        "{prev:?}"
                    );
                })
            };
            map.store(3..=24, 3).unwrap();
            reader.join().unwrap();
        },
        10 * runs(100),
    );
}

/// A reader sees a transaction whole or not at all, and a dropped one not at all.
#[test]
fn transactions() {
    for before in [2, 9, 30] {
        check_random(
            move || {
                let map: MapleMap<u64> = tiny().build();
                for (i, range) in (0..).zip(comb(before)) {
                    map.store(range, i).unwrap();
                }
                let map = Arc::new(map);
                let readers: Vec<_> = (0..2)
                    .map(|_| {
                        let map = Arc::clone(&map);
                        shuttle::thread::spawn(move || {
                            let mut handle = map.reader("test").unwrap();
                            for _ in 0..3 {
                                let now = handle.view().freeze();
                                let view = now.view();
                                let at = [3, 10 * before + 3].map(|i| view.get(i) == Some(&0));
                                assert!(at[0] != at[1], "{at:?}");
                                let whole: Vec<u64> = view.iter().map(|(_, v)| *v).collect();
                                let mut sorted = whole.clone();
                                sorted.sort_unstable();
                                assert!(sorted.into_iter().eq(0..before), "{whole:?}");
                                handle.quiescent();
                            }
                        })
                    })
                    .collect();
                let there = 10 * before..=10 * before + 6;
                map.move_range(0..=6, *there.start()).unwrap();
                let mut txn = map.begin();
                txn.clear_range(0..=MAX).unwrap();
                drop(txn);
                map.move_range(there, 0).unwrap();
                for reader in readers {
                    reader.join().unwrap();
                }
                map.verify().unwrap();
            },
            runs(100),
        );
    }
}

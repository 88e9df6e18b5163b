//! Iteration by iterators and by cursors, with changes between the steps.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::support::ranges::{Checked, MAX, Range, copied, each, listed, steps, tiny};

fn comb(map: sapwood::maple::MapleMap<u64>, n: u64) -> Checked<u64> {
    let mut map = Checked::new(map);
    for i in 0..n {
        map.quick_store(100 * i + 10..=100 * i + 19, i);
    }
    map.agree();
    map
}

#[test]
fn a_cursor_goes_over_all_entries_both_ways() {
    each(|map| {
        let map = comb(map, 80);
        let mut writer = map.map.write();
        let mut cursor = writer.cursor();
        for _ in 0..2 {
            for i in 0..80 {
                let wanted = Some((100 * i + 10..=100 * i + 19, i));
                assert_eq!(copied(cursor.next(MAX)), wanted);
            }
            assert_eq!(cursor.next(MAX), None);
            for i in (0..80).rev() {
                let wanted = Some((100 * i + 10..=100 * i + 19, i));
                assert_eq!(copied(cursor.prev(0)), wanted);
            }
            assert_eq!(cursor.prev(0), None);
        }
        cursor.set(0);
        let mut at = Some(0);
        while let Some((range, v)) = cursor.next_range(MAX) {
            assert_eq!(Some(*range.start()), at);
            let (wanted, value) = map.oracle.locate(*range.start());
            assert_eq!((&range, v), (&wanted, value));
            at = range.end().checked_add(1);
        }
        assert_eq!(at, None, "every index was passed");
        let mut at = Some(MAX);
        while let Some((range, v)) = cursor.prev_range(0) {
            assert_eq!(Some(*range.end()), at);
            assert_eq!(v.is_some(), map.oracle.get(*range.start()).is_some());
            at = range.start().checked_sub(1);
        }
        assert_eq!(at, None, "every index was passed");
    });
}

#[test]
fn iteration_with_store_in_the_middle() {
    each(|map| {
        let mut map = comb(map, 80);
        {
            let mut writer = map.map.write();
            let mut cursor = writer.cursor();
            let mut seen = 0;
            while let Some((range, v)) = copied(cursor.next(MAX)) {
                assert_eq!(
                    (range.clone(), v),
                    (100 * seen + 10..=100 * seen + 19, seen)
                );
                cursor.store(1_000 + v).unwrap();
                assert_eq!(cursor.value(), Some(&(1_000 + v)));
                assert_eq!(cursor.range(), Some(range.clone()));
                map.oracle.store(range, 1_000 + v);
                seen += 1;
            }
            assert_eq!(seen, 80);
        }
        map.agree();
    });
}

#[test]
fn iteration_with_stores_into_gaps() {
    each(|map| {
        let mut map = comb(map, 40);
        {
            let mut writer = map.map.write();
            let mut cursor = writer.cursor();
            let mut ranges = 0;
            while let Some((range, v)) = cursor.next_range(MAX) {
                if v.is_none() {
                    cursor.store(999).unwrap();
                    map.oracle.store(range, 999);
                }
                ranges += 1;
            }
            assert_eq!(ranges, 81);
        }
        map.agree();
        assert_eq!(map.map.find_gap(1, 0..=MAX), None);
    });
}

#[test]
fn iteration_with_erase_in_the_middle() {
    for keep in [0, 2, 3, 7] {
        each(|map| {
            let mut map = comb(map, 80);
            for forward in [true, false] {
                let mut seen = Vec::new();
                {
                    let mut writer = map.map.write();
                    let mut cursor = writer.cursor();
                    cursor.set(if forward { 0 } else { MAX });
                    loop {
                        let found = match forward {
                            true => cursor.next(MAX),
                            false => cursor.prev(0),
                        };
                        let Some((range, v)) = copied(found) else {
                            break;
                        };
                        seen.push((range.clone(), v));
                        if keep == 0 || v % keep != 0 {
                            let erased = cursor.remove().unwrap();
                            assert_eq!(erased, Some((range.clone(), v)));
                            assert_eq!(map.oracle.remove(*range.start()), erased);
                            // The cursor is on the whole gap.
                            let gap = map.oracle.locate(*range.start()).0;
                            assert_eq!((cursor.range(), cursor.value()), (Some(gap), None));
                        }
                    }
                }
                if !forward {
                    seen.reverse();
                }
                assert!(seen.windows(2).all(|w| w[0].1 < w[1].1));
                if forward {
                    assert_eq!(seen.len(), 80);
                } else {
                    assert_eq!(seen, map.oracle.to_vec(), "all that was kept");
                }
                map.agree();
            }
        });
    }
}

#[test]
fn iteration_with_pause_in_the_middle() {
    each(|map| {
        let mut map = comb(map, 80);
        let mut seen = Vec::new();
        let mut paused = None;
        loop {
            // The lock is released in between.
            {
                let mut writer = map.map.write();
                let mut cursor = match paused.take() {
                    Some(paused) => writer.resume(paused),
                    None => writer.cursor(),
                };
                let Some((_, v)) = cursor.next(MAX) else {
                    break;
                };
                seen.push(*v);
                paused = Some(cursor.pause());
            }
            let v = *seen.last().unwrap();
            // Changes behind the cursor, at it, and before it.
            match (v < 80, v % 4) {
                (false, _) => {}
                (_, 0) => drop(map.store(100 * v + 10..=100 * v + 12, 1_000)),
                (_, 1) => drop(map.remove(100 * v + 15)),
                (_, 2) => drop(map.clear_range(0..=100 * v)),
                _ => drop(map.store(100 * v + 20..=100 * v + 109, 2_000 + v)),
            }
        }
        // Each entry of the comb, and each value stored where the cursor had not been yet.
        let wanted = (0..80).flat_map(|v| [Some(v), (v % 4 == 3).then_some(2_000 + v)]);
        assert!(seen.into_iter().eq(wanted.flatten()));
        map.agree();
    });
}

#[test]
fn iterators_and_their_ranges() {
    each(|map| {
        let map = comb(map, 60);
        map.map.read(|view| {
            for (start, end) in [
                (0, MAX),
                (0, 9),
                (0, 10),
                (19, 19),
                (15, 115),
                (20, 109),
                (1_000, 2_999),
                (1_015, 3_015),
                (5_919, MAX),
                (5_920, MAX),
                (MAX, MAX),
            ] {
                let wanted = map.oracle.range(start..=end);
                let wanted: Vec<_> = wanted.map(|(r, v)| (r, *v)).collect();
                let found = view.range(start..=end).map(|(r, v)| (r, *v));
                assert_eq!(found.collect::<Vec<_>>(), wanted);
                let back = view.range(start..=end).rev().map(|(r, v)| (r, *v));
                assert!(back.eq(wanted.iter().rev().cloned()));
                let gaps: Vec<_> = view.gaps(start..=end).collect();
                assert_eq!(gaps, map.oracle.gaps(start..=end));
                let mut back: Vec<_> = view.gaps(start..=end).rev().collect();
                back.reverse();
                assert_eq!(back, gaps);
                let (mut front, mut rear) = (vec![], vec![]);
                let mut ends = view.gaps(start..=end);
                while let Some(gap) = ends.next() {
                    front.push(gap);
                    rear.extend(ends.next_back());
                }
                front.extend(rear.into_iter().rev());
                assert_eq!(front, gaps, "from both ends in turn");
            }
            assert!(view.into_iter().eq(view.iter()));
        });
    });
}

/// From both ends at once: the iterator returns each entry once, whichever end reaches it.
#[test]
fn iterators_meet_in_the_middle() {
    for n in [0, 1, 2, 7, 60] {
        let map = comb(tiny().build(), n);
        for seed in 0..12 {
            let mut rng = fastrand::Rng::with_seed(seed);
            map.map.read(|view| {
                let mut iter = view.iter();
                let (mut front, mut back) = (Vec::new(), Vec::new());
                loop {
                    let forward = rng.bool();
                    let found = match forward {
                        true => iter.next(),
                        false => iter.next_back(),
                    };
                    match (found, forward) {
                        (Some((r, v)), true) => front.push((r, *v)),
                        (Some((r, v)), false) => back.push((r, *v)),
                        (None, _) => break,
                    }
                }
                assert!(iter.next().is_none() && iter.next_back().is_none());
                front.extend(back.into_iter().rev());
                assert_eq!(front, map.oracle.to_vec());
                // The gaps of a window that cuts some gaps, in the same way.
                let within = rng.u64(0..3_000)..=rng.u64(3_000..7_000);
                let mut gaps = view.gaps(within.clone());
                let (mut front, mut back) = (Vec::new(), Vec::new());
                loop {
                    let (found, end) = match rng.bool() {
                        true => (gaps.next(), &mut front),
                        false => (gaps.next_back(), &mut back),
                    };
                    match found {
                        Some(gap) => end.push(gap),
                        None => break,
                    }
                }
                assert!(gaps.next().is_none() && gaps.next_back().is_none());
                front.extend(back.into_iter().rev());
                assert_eq!(front, map.oracle.gaps(within));
            });
        }
    }
}

/// An iterator is used while the writer works: it returns the unchanged entries, in order, and no
/// entry that never existed.
#[test]
fn iteration_over_live_data() {
    each(|map| {
        let mut map = comb(map, 60);
        let before: BTreeMap<u64, Range> =
            listed(&map.map).into_iter().map(|e| (e.1, e.0)).collect();
        let handle = map.map.clone();
        handle.read(|view| {
            let mut last = None;
            let mut seen = 0;
            for (range, v) in view.iter() {
                assert!(last < Some(*range.start()), "in order");
                last = Some(*range.end());
                if *v < 1_000 {
                    assert_eq!(before.get(v), Some(&range));
                    seen += 1;
                }
                // Splits and merges around the iterator's position.
                let at = range.start() - range.start() % 100;
                if *v < 1_000 && at > 200 {
                    map.store(at - 60..=at - 60, 1_000 + v);
                    map.remove(at - 190);
                }
            }
            assert_eq!(seen, 60);
        });
        map.agree();
    });
}

/// Changes at any place between the steps of a walk. Each step finds the nearest entry with an
/// index that was not yet passed, in the map of that moment.
#[test]
fn each_step_of_a_walk_sees_the_map_as_it_is() {
    for seed in 0..steps(24).max(2) as u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut map = comb(tiny().build(), 60);
        let handle = map.map.clone();
        handle.read(|view| {
            let mut entries = view.iter();
            let mut left = Some(0..=MAX);
            while let Some(window) = left {
                for v in 0..rng.u64(0..3) {
                    let start = rng.u64(0..6_000);
                    match rng.u8(0..8) {
                        0..3 => drop(map.quick_store(start..=start + rng.u64(0..200), 1_000 + v)),
                        3 => drop(map.quick_store(start..=start + rng.u64(0..3_000), 2_000 + v)),
                        _ => drop(map.quick_remove(start)),
                    }
                    map.whole();
                }
                // Mostly in one direction, so that a walk stays in its leaf.
                if (rng.u8(0..10) > 0) == (seed % 2 == 0) {
                    let found = entries.next();
                    assert_eq!(found, map.oracle.range(window.clone()).next());
                    let behind = found.and_then(|e| e.0.end().checked_add(1));
                    left = behind.map(|i| i..=*window.end());
                } else {
                    let found = entries.next_back();
                    assert_eq!(found, map.oracle.range(window.clone()).next_back());
                    let before = found.and_then(|e| e.0.start().checked_sub(1));
                    left = before.map(|i| *window.start()..=i);
                }
                left = left.filter(|window| !window.is_empty());
            }
        });
        map.agree();
    }
}

/// `for_each` goes forward and returns entries that the map has had since the walk began, and all
/// that it has had all the time, while the map changes: before the walk, behind it, and at its
/// position.
#[test]
fn iteration_by_fold_passes_what_stays() {
    each(|map| {
        let map = comb(map, 200).map;
        let mut rng = fastrand::Rng::with_seed(11);
        for round in 0..if cfg!(miri) { 2 } else { 40 } {
            let (from, to) = (rng.u64(..9_000), rng.u64(9_000..21_000));
            let taken = rng.usize(..3);
            let entries_now = || map.iter().map(key).collect::<BTreeSet<_>>();
            let mut stayed = entries_now();
            let mut ever = stayed.clone();
            let mut seen = Vec::new();
            map.read(|view| {
                let mut step = |(range, value): (Range, &u64)| {
                    let entry = (range.clone(), *value);
                    assert!(
                        ever.contains(&key(entry.clone())),
                        "{entry:?} in round {round}"
                    );
                    seen.push(entry);
                    for _ in 0..2 {
                        // Near the walk, or at any place.
                        let start = match rng.u8(..3) {
                            0 => rng.u64(..20_000),
                            1 => range.end() + rng.u64(..90),
                            _ => range.start().saturating_sub(rng.u64(..90)),
                        };
                        let len = rng.u64(..60);
                        match rng.bool() {
                            true => map.store(start..=start + len, len).unwrap(),
                            false => map.clear_range(start..=start + len).unwrap(),
                        }
                    }
                    let now = entries_now();
                    stayed.retain(|entry| now.contains(entry));
                    ever.extend(now);
                };
                let mut entries = view.range(from..=to);
                entries.by_ref().take(taken).for_each(&mut step);
                entries.for_each(&mut step);
            });
            let ends: Vec<u64> = seen.iter().map(|(range, _)| *range.end()).collect();
            assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
            let seen: BTreeSet<_> = seen.into_iter().map(key).collect();
            let stayed = stayed
                .iter()
                .filter(|(start, end, _)| *start <= to && *end >= from);
            for entry in stayed {
                assert!(seen.contains(entry), "{entry:?} in round {round}");
            }
            map.verify().unwrap();
        }
    });
}

/// An entry as a key of a set.
fn key((range, value): (Range, u64)) -> (u64, u64, u64) {
    (*range.start(), *range.end(), value)
}

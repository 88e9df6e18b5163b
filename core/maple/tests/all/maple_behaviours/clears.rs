//! Clearing and erasing, and the gaps that result.

use sapwood::maple::Window;

use crate::support::ranges::{Checked, MAX, Range, each, steps, tiny};

#[test]
fn clearing_over_nothing_over_one_and_over_all() {
    each(|map| {
        let mut map = Checked::new(map);
        // An empty map.
        assert_eq!(map.clear_range(0..=MAX), 0);
        assert_eq!(map.clear_range(5..=5), 0);
        map.map.clear().unwrap();
        map.agree();
        // A single entry.
        map.store(10..=19, 1);
        assert_eq!(map.clear_range(20..=MAX), 0, "nothing to change");
        assert_eq!(map.clear_range(0..=9), 0, "nothing to change");
        map.clear_range(10..=19);
        assert!(map.map.is_empty());
        map.store(10..=19, 1);
        map.clear_range(0..=MAX);
        assert!(map.map.is_empty());
        // The full range.
        map.store(0..=MAX, 2);
        map.clear_range(100..=199);
        assert_eq!(map.map.len(), 2);
        assert_eq!(map.map.get_entry(0), Some((0..=99, 2)));
        assert_eq!(map.map.get_entry(MAX), Some((200..=MAX, 2)));
        map.clear_range(0..=0);
        map.clear_range(MAX..=MAX);
        assert_eq!(map.map.first(), Some((1..=99, 2)));
        assert_eq!(map.map.last(), Some((200..=MAX - 1, 2)));
        map.clear_range(0..=MAX);
        assert_eq!((map.map.len(), map.map.first()), (0, None));
        // Many entries.
        for i in 0..200 {
            map.quick_store(10 * i..=10 * i + 4, i);
        }
        map.agree();
        map.map.clear().unwrap();
        map.oracle.clear();
        map.agree();
        assert_eq!(map.map.memory().entries, 0);
    });
}

#[test]
fn clearing_cuts_what_it_overlaps() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(10..=19, 1);
        map.store(20..=29, 2);
        map.store(40..=49, 3);
        map.clear_range(15..=44);
        assert_eq!(map.map.get_entry(12), Some((10..=14, 1)));
        assert_eq!(map.map.get_entry(45), Some((45..=49, 3)));
        assert_eq!(map.map.len(), 2);
        map.clear_range(11..=12);
        assert_eq!(map.map.get_entry(10), Some((10..=10, 1)));
        assert_eq!(map.map.get_entry(14), Some((13..=14, 1)));
    });
}

#[test]
fn clearing_absorbs_neighbouring_gaps() {
    each(|map| {
        for n in [3, 10, 60] {
            let mut map = Checked::new(map.dup().unwrap());
            for i in 0..n {
                map.quick_store(100 * i + 40..=100 * i + 59, i);
            }
            map.agree();
            let all = |i: u64| {
                let left = if i == 0 { 0 } else { 100 * i - 40 };
                let right = if i + 1 == n { MAX } else { 100 * i + 139 };
                left..=right
            };
            let whole: fn(u64) -> Range = |i| 100 * i + 40..=100 * i + 59;
            let wider: fn(u64) -> Range = |i| 100 * i + 35..=100 * i + 64;
            for i in [0, 1, n / 2, n - 1] {
                for cleared in [whole(i), wider(i)] {
                    let mut one = Checked::new(map.map.dup().unwrap());
                    one.clear_range(cleared);
                    let at = 100 * i + 50;
                    one.map
                        .read(|view| assert_eq!(view.locate(at), (all(i), None)));
                    // The gap index holds the sum of the merged gaps.
                    let (start, end) = all(i).into_inner();
                    let size = end - start + 1;
                    assert_eq!(one.map.find_gap(size, all(i)), Some(all(i)));
                    if i + 1 < n {
                        assert_eq!(one.map.find_gap(size, 0..=100 * n), Some(all(i)));
                    }
                }
            }
        }
    });
}

#[test]
fn erase_takes_the_whole_entry_from_any_index_inside() {
    each(|map| {
        let mut map = Checked::new(map);
        for n in [0, 1, 12, 50] {
            for i in 0..n {
                map.quick_store(100 * i..=100 * i + 49, i);
            }
            map.agree();
            let at = 100 * (n / 2) + 60;
            for inside in 0..10 {
                map.store(at..=at + 9, 999);
                assert_eq!(map.remove(at + inside).1, Some((at..=at + 9, 999)));
                assert_eq!(map.remove(at + inside), (0, None));
            }
        }
        map.map.clear().unwrap();
        map.oracle.clear();
        for inside in [0, 1, 1 << 63, MAX] {
            map.store(0..=MAX, 5);
            assert_eq!(map.remove(inside).1, Some((0..=MAX, 5)));
        }
        assert_eq!(map.remove(MAX), (0, None));
    });
}

/// Each entry of every leaf is erased alone once, including the last entry of the leaf.
#[test]
fn each_entry_of_a_leaf_can_go_alone() {
    let mut map = Checked::new(tiny().build());
    for i in 0..120 {
        map.quick_store(100 * i..=100 * i + 49, i);
    }
    map.agree();
    for i in 0..120 {
        let mut one = Checked::new(map.map.dup().unwrap());
        one.remove(100 * i + 20);
        one.store(100 * i + 49..=100 * i + 70, i);
        one.clear_range(100 * i + 30..=100 * i + 150);
        one.store(100 * i..=100 * i, 999);
    }
}

#[test]
fn erased_in_every_order() {
    let n = steps(240).max(40) as u64;
    for seed in 0..4 {
        let mut map = Checked::new(tiny().build());
        for i in 0..n {
            map.quick_store(8 * i..=8 * i + i % 8, i);
        }
        map.agree();
        let mut order: Vec<u64> = (0..n).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        for i in order {
            assert!(map.remove(8 * i).1.is_some());
        }
        assert!(map.map.is_empty());
        assert!(map.map.memory().leaves.0 <= 1);
    }
}

#[test]
fn adjacent_gaps_merge_in_the_gap_index() {
    let mut map = Checked::new(tiny().build());
    // 256 entries of 16, without gaps.
    for i in 0..256 {
        map.quick_store(16 * i..=16 * i + 15, i);
    }
    map.agree();
    assert!(map.map.memory().height >= 3);
    let all = 0..=16 * 256 - 1;
    assert_eq!(map.map.find_gap(1, all.clone()), None);
    // A hole that grows to the left and to the right alternately, through leaves and their parents.
    let (mut low, mut high) = (128, 128);
    map.remove(16 * 128);
    loop {
        let hole = 16 * low..=16 * high + 15;
        let size = 16 * (high - low + 1);
        assert_eq!(map.map.find_gap(size, all.clone()), Some(hole.clone()));
        assert_eq!(
            map.map.find_gap(size, Window::new(all.clone()).from_end()),
            Some(hole.clone())
        );
        assert_eq!(map.map.find_gap(size + 1, all.clone()), None);
        if low == 0 {
            break;
        }
        if high - 128 < 128 - low && high < 255 {
            high += 1;
            map.quick_remove(16 * high);
        } else {
            low -= 1;
            map.quick_remove(16 * low + 7);
        }
        map.whole();
    }
    map.agree();
}

//! Stores over many nodes: all nodes between vanish, and each edge is merged with its siblings and
//! cousins. `verify` checks that no node is underfull.

use crate::support::ranges::{Checked, MAX, Range, steps, tiny};

/// Ranges of 10 with gaps of 10 between, in a tree of several levels.
fn comb(n: u64) -> Checked<u64> {
    let mut map = Checked::new(tiny().build());
    for i in 0..n {
        map.quick_store(20 * i..=20 * i + 9, i);
    }
    map.agree();
    map
}

fn copy(map: &Checked<u64>) -> Checked<u64> {
    Checked::new(map.map.dup().unwrap())
}

/// Pairs of entries: all of them where there is time, otherwise a regular sample.
fn pairs(n: u64) -> Vec<(u64, u64)> {
    let all: Vec<_> = (0..n).flat_map(|a| (a..n).map(move |b| (a, b))).collect();
    let step = (n * n / 2).div_ceil(steps(1_600).max(1) as u64) as usize;
    all.into_iter().step_by(step.max(1)).collect()
}

#[test]
fn spanning_stores_with_left_and_right_siblings_and_cousins() {
    let n = 70;
    let map = comb(n);
    assert!(map.map.memory().height >= 2, "{:?}", map.map.memory());
    for (a, b) in pairs(n) {
        // Edges on entries, inside them, and in gaps.
        let (left, right) = [(0, 9), (3, 5), (9, 0), (12, 12)][(a + 3 * b) as usize % 4];
        let range = 20 * a + left..=20 * b + right.max(if a == b { left } else { 0 });
        let mut one = copy(&map);
        one.store(range, 999);
    }
}

#[test]
fn spanning_clears_with_left_and_right_siblings_and_cousins() {
    let n = 70;
    let map = comb(n);
    for (a, b) in pairs(n) {
        let (left, right) = [(0, 9), (3, 5), (9, 0), (12, 12)][(3 * a + b) as usize % 4];
        let range = 20 * a + left..=20 * b + right.max(if a == b { left } else { 0 });
        let mut one = copy(&map);
        one.clear_range(range);
    }
}

#[test]
fn spanning_stores_up_to_the_full_range() {
    let map = comb(150);
    for (start, end) in [
        (0, MAX),
        (0, 20 * 149 + 9),
        (0, 20 * 75 + 4),
        (5, MAX),
        (20 * 75, MAX),
        (20 * 149, MAX),
        (20 * 149 + 9, MAX),
        (20 * 149 + 10, MAX),
        (1, MAX - 1),
        (15, 20 * 149 + 15),
    ] {
        let mut stored = copy(&map);
        stored.store(start..=end, 7);
        assert_eq!(stored.map.get_entry(end), Some((start..=end, 7)));
        // The remaining map takes entries again.
        for i in 0..30 {
            stored.store(70 * i + 3..=70 * i + 5, i);
        }
        let mut cleared = copy(&map);
        cleared.clear_range(start..=end);
        for i in 0..30 {
            cleared.store(70 * i + 3..=70 * i + 5, i);
        }
    }
}

/// A shrinking tree: each store spans a larger part of the rest.
#[test]
fn spanning_stores_one_after_the_other() {
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..steps(24).max(2) {
        let mut map = comb(90);
        let end = 20 * 90;
        for v in 0..12 {
            let (a, b) = (rng.u64(0..end), rng.u64(0..end));
            let range: Range = a.min(b)..=a.max(b);
            if rng.u8(0..3) == 0 {
                map.clear_range(range);
            } else {
                map.store(range, 1_000 + v);
            }
            for _ in 0..rng.u8(0..8) {
                let i = rng.u64(0..end);
                map.store(i..=i + rng.u64(0..6), v);
            }
        }
    }
}

/// The kernel's tree once was wrong where a store ended on the last pivot of a node's rightmost
/// sibling.
#[test]
fn overwriting_up_to_the_last_pivot_of_the_rightmost_sibling() {
    for n in [12, 30, 70] {
        let map = comb(n);
        // From every place up to the last entry's end, to one index before and after it, and to the
        // last index.
        for a in 0..n {
            let end = 20 * (n - 1) + 9;
            for end in [end, end - 1, end + 1, MAX] {
                let mut one = copy(&map);
                one.quick_store(20 * a + 4..=end, 999);
                one.agree();
                one.quick_remove(end);
                one.agree();
            }
        }
    }
    // The same below a node that is not the last: up to the end of each entry in turn.
    let map = comb(64);
    for b in (1..64_u64).step_by(if steps(8) == 8 { 1 } else { 9 }) {
        for a in [b.saturating_sub(12), b.saturating_sub(5), b - 1] {
            let mut one = copy(&map);
            one.quick_store(20 * a + 10..=20 * b + 9, 999);
            one.agree();
        }
    }
}

#[test]
fn overwrite_across_nodes() {
    let mut map = comb(100);
    // A store that covers the border of each pair of neighbours, then one that covers each whole
    // entry.
    for i in 0..99 {
        map.store(20 * i + 5..=20 * i + 24, 1_000 + i);
    }
    for i in 0..100 {
        map.store(20 * i..=20 * i + 19, 2_000 + i);
    }
    assert_eq!(map.map.len(), 100);
    for i in (0..96).step_by(4) {
        map.store(20 * i + 1..=20 * i + 78, 3_000 + i);
    }
    assert_eq!(map.map.len(), 24 * 3 + 4);
}

/// Splits and spanning stores alternate, with offsets of two, four and eight bytes in one tree.
#[test]
fn no_underfull_node_after_splits_and_spanning_stores() {
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut map = Checked::new(tiny().build());
        let shift = [0, 12, 30, 48][seed as usize];
        for v in 0..steps(600) as u64 {
            let start = rng.u64(0..600) << shift;
            let length = match rng.u8(0..20) {
                0 => rng.u64(0..400) << shift,
                1..4 => rng.u64(0..60) << shift,
                4..8 => 0,
                _ => rng.u64(0..3) << shift,
            };
            // Some starts are unaligned, so that offsets do not become short.
            let start = start + rng.u64(0..2) * (seed % 2);
            let range = start..=start + length;
            match rng.u8(0..10) {
                0..6 => drop(map.quick_store(range, v)),
                6..9 => drop(map.quick_remove(start)),
                _ => drop(map.clear_range(range)),
            }
            map.whole();
            if v % 8 == 0 {
                map.agree();
            }
        }
        map.agree();
    }
}

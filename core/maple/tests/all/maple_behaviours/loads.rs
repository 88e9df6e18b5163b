//! Lookups: of points, ranges and holes; of the nearest entry on either side; up to the last index.

use sapwood::maple::MapleMap;

use crate::support::ranges::{Checked, MAX, copied, each, tiny};

/// Points, ranges and holes, at both ends and between.
fn sample(map: MapleMap<u64>) -> Checked<u64> {
    let mut map = Checked::new(map);
    for (range, v) in [
        (0..=0, 1),
        (5..=5, 2),
        (6..=6, 3),
        (10..=19, 4),
        (20..=29, 4),
        (100..=1 << 40, 5),
        ((1 << 40) + 2..=(1 << 40) + 2, 6),
        (MAX - 9..=MAX - 1, 7),
    ] {
        map.store(range, v);
    }
    map
}

/// Indices at the edges of the sample, and beside them.
fn probes(map: &Checked<u64>) -> Vec<u64> {
    let edges = map.oracle.iter();
    let mut at: Vec<u64> = edges
        .flat_map(|(r, _)| [*r.start(), *r.end(), r.start() + (r.end() - r.start()) / 2])
        .flat_map(|i| [i.saturating_sub(1), i, i.saturating_add(1)])
        .chain([0, MAX])
        .collect();
    at.sort();
    at.dedup();
    at
}

#[test]
fn point_loads() {
    each(|map| {
        let map = sample(map);
        for i in probes(&map) {
            assert_eq!(map.map.get(i), map.oracle.get(i).copied(), "{i}");
            assert_eq!(map.map.contains(i), map.oracle.get(i).is_some());
            map.map.read(|view| {
                assert_eq!(view.get(i), map.oracle.get(i));
                assert_eq!(view.contains(i), map.oracle.get(i).is_some());
            });
        }
    });
}

#[test]
fn range_loads() {
    each(|map| {
        let map = sample(map);
        for i in probes(&map) {
            let wanted = copied(map.oracle.get_entry(i));
            assert_eq!(map.map.get_entry(i), wanted, "{i}");
            let (range, v) = map.map.read(|view| {
                let (range, v) = view.locate(i);
                (range, v.copied())
            });
            assert!(range.contains(&i));
            if let Some((wanted, value)) = wanted {
                assert_eq!((range, v), (wanted, Some(value)));
            }
        }
    });
}

#[test]
fn hole_loads() {
    each(|map| {
        let map = sample(map);
        for i in probes(&map) {
            let wanted = map.oracle.locate(i);
            map.map
                .read(|view| assert_eq!(view.locate(i), wanted, "{i}"));
        }
        map.map.read(|view| {
            assert_eq!(view.locate(3), (1..=4, None));
            assert_eq!(view.locate(31), (30..=99, None));
            assert_eq!(view.locate(MAX), (MAX..=MAX, None));
            assert_eq!(
                view.locate((1 << 40) + 1),
                ((1 << 40) + 1..=(1 << 40) + 1, None)
            );
        });
    });
}

#[test]
fn loads_in_high_trees() {
    let mut map = Checked::new(tiny().build());
    for i in 0..300 {
        map.quick_store(10 * i..=10 * i + i % 9, i);
    }
    map.agree();
    assert!(map.map.memory().height >= 3, "{:?}", map.map.memory());
    for i in 0..3_010 {
        assert_eq!(map.map.get_entry(i), copied(map.oracle.get_entry(i)), "{i}");
        let wanted = map.oracle.locate(i);
        map.map.read(|view| assert_eq!(view.locate(i), wanted));
    }
}

#[test]
fn find_at_and_after() {
    each(|map| {
        let map = sample(map);
        for i in probes(&map) {
            let oracle = &map.oracle;
            map.map.read(|view| {
                let at = oracle.iter().find(|(r, _)| *r.end() >= i);
                assert_eq!(view.range(i..=MAX).next(), at, "at or after {i}");
                assert_eq!(view.next_after(i), oracle.next_after(i), "after {i}");
            });
            assert_eq!(map.map.next_after(i), copied(oracle.next_after(i)));
        }
    });
}

#[test]
fn find_at_and_before() {
    each(|map| {
        let map = sample(map);
        for i in probes(&map) {
            let oracle = &map.oracle;
            map.map.read(|view| {
                let at = oracle.iter().rfind(|(r, _)| *r.start() <= i);
                let found = view.range(0..=i).next_back();
                assert_eq!(found, at, "at or before {i}");
                assert_eq!(view.prev_before(i), oracle.prev_before(i), "before {i}");
            });
            assert_eq!(map.map.prev_before(i), copied(oracle.prev_before(i)));
        }
    });
}

#[test]
fn the_last_index_does_not_wrap() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(0..=4, 1);
        assert_eq!(map.map.next_after(MAX), None);
        map.store(MAX..=MAX, 2);
        for i in [5, 1 << 63, MAX - 1] {
            assert_eq!(map.map.next_after(i), Some((MAX..=MAX, 2)));
        }
        assert_eq!(map.map.next_after(MAX), None);
        assert_eq!(map.map.prev_before(MAX), Some((0..=4, 1)));
        assert_eq!(map.map.prev_before(0), None);
        assert_eq!(map.map.prev_before(4), None);
        assert_eq!(map.map.last(), Some((MAX..=MAX, 2)));
        map.map.read(|view| {
            assert_eq!(view.range(MAX..=MAX).count(), 1);
            assert_eq!(view.range(5..=MAX - 1).count(), 0);
            assert_eq!(view.iter().count(), 2);
            assert_eq!(view.gaps(0..=MAX).collect::<Vec<_>>(), [5..=MAX - 1]);
            assert_eq!(view.gaps(MAX..=MAX).count(), 0);
        });
        let mut writer = map.map.write();
        let mut cursor = writer.cursor();
        assert_eq!(cursor.seek(MAX), Some(&2));
        assert_eq!(cursor.next(MAX), None);
        assert_eq!(cursor.next_range(MAX), None);
        assert_eq!(cursor.prev(0), Some((MAX..=MAX, &2)));
        assert_eq!(cursor.prev(0), Some((0..=4, &1)));
        assert_eq!(cursor.prev(0), None);
        assert_eq!(cursor.prev_range(0), None);
    });
}

#[test]
fn next_and_prev_stop_at_limits() {
    each(|map| {
        let mut map = Checked::new(map);
        for i in 0..40 {
            map.quick_store(100 * i + 10..=100 * i + 19, i);
        }
        map.agree();
        let entry = |i: u64| (100 * i + 10..=100 * i + 19, i);
        let mut writer = map.map.write();
        let mut cursor = writer.cursor();
        for i in 1..39 {
            let (next, prev) = (entry(i + 1), entry(i - 1));
            // A limit at the edge of the next entry includes it; a limit of one index less does
            // not.
            for (limit, wanted) in [
                (*next.0.start(), Some(next.clone())),
                (next.0.start() - 1, None),
                (*next.0.end(), Some(next.clone())),
                (MAX, Some(next.clone())),
                (100 * i + 15, None),
            ] {
                cursor.seek(100 * i + 15);
                assert_eq!(copied(cursor.next(limit)), wanted, "{i}, limit {limit}");
            }
            for (limit, wanted) in [
                (*prev.0.end(), Some(prev.clone())),
                (prev.0.end() + 1, None),
                (*prev.0.start(), Some(prev.clone())),
                (0, Some(prev.clone())),
                (100 * i + 15, None),
            ] {
                cursor.seek(100 * i + 15);
                assert_eq!(copied(cursor.prev(limit)), wanted, "{i}, limit {limit}");
            }
        }
        // All entries up to a limit.
        cursor.set(0);
        let mut seen = 0;
        while let Some((range, v)) = cursor.next(1_999) {
            assert_eq!((range, *v), entry(seen));
            seen += 1;
        }
        assert_eq!(seen, 20);
        cursor.set(MAX);
        while let Some((range, v)) = cursor.prev(2_000) {
            assert!(*range.end() >= 2_000 && (20..40).contains(v));
            seen += 1;
        }
        assert_eq!(seen, 40);
    });
}

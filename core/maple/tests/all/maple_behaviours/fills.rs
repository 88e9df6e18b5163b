//! Insertion, fills in every order, and splits.

use sapwood::maple::Error;
use sapwood::maple::MapleMap;

use crate::support::ranges::{Checked, MAX, Range, each, steps, tiny};

#[test]
fn insert_over_existing_is_refused_and_changes_nothing() {
    each(|map| {
        let mut map = Checked::new(map);
        for i in 0..30 {
            assert!(map.insert_new(100 * i + 10..=100 * i + 19, i));
        }
        let at = 1_500;
        // The same range; inside, at each edge, around, overlapping to the left, to the right, by
        // one index, over several entries, over everything.
        for range in [
            at + 10..=at + 19,
            at + 12..=at + 15,
            at + 10..=at + 12,
            at + 17..=at + 19,
            at + 5..=at + 25,
            at + 5..=at + 15,
            at + 15..=at + 25,
            at + 9..=at + 10,
            at + 19..=at + 20,
            at + 10..=at + 30,
            at..=at + 19,
            at + 19..=at + 110,
            at - 50..=at + 250,
            0..=MAX,
            0..=10,
            2_919..=MAX,
        ] {
            assert!(!map.insert_new(range.clone(), 999), "{range:?}");
        }
        // Ranges that only touch the entries are free.
        assert!(map.insert_new(at + 20..=at + 109, 1_000));
        assert!(map.insert_new(at..=at + 9, 1_001));
        assert!(map.insert_new(2_920..=MAX, 1_002));
        assert!(map.insert_new(0..=9, 1_003));
    });
}

#[test]
fn insert_meets_every_overlap_of_a_small_map() {
    let mut map = Checked::new(tiny().build());
    let mut rng = fastrand::Rng::with_seed(7);
    let mut done = 0;
    for i in 0..steps(3_000) as u64 {
        let start = rng.u64(0..200);
        done += usize::from(map.insert_new(start..=start + rng.u64(0..8), i));
        if rng.u8(0..4) == 0 {
            map.remove(rng.u64(0..200));
        }
    }
    assert!(done > steps(3_000) / 10, "{done}");
}

#[test]
fn bad_ranges_are_refused() {
    each(|map| {
        #[allow(clippy::reversed_empty_ranges)]
        let empty = 9..=8;
        let wanted = Error::EmptyRange { start: 9, end: 8 };
        assert_eq!(map.store(empty.clone(), 5).unwrap_err().error, wanted);
        assert_eq!(map.insert_new(empty.clone(), 5).unwrap_err().value, 5);
        assert_eq!(
            map.store_coalescing(empty.clone(), 5).unwrap_err().error,
            wanted
        );
        assert_eq!(map.clear_range(empty.clone()).unwrap_err(), wanted);
        assert_eq!(map.plan_store(empty.clone(), &5).unwrap_err(), wanted);
        assert_eq!(map.plan_clear(empty).unwrap_err(), wanted);
        map.verify().unwrap();
        assert!(map.is_empty());
    });
}

/// The `i`th range of a fill: with gaps, without gaps, of pages, and so wide that offsets take
/// eight bytes.
const FILLS: [fn(u64) -> Range; 4] = [
    |i| 10 * i..=10 * i + i % 10,
    |i| 7 * i..=7 * i + 6,
    |i| (i << 12)..=(i << 12) + 4095,
    |i| (i << 52)..=(i << 52) + (i << 40),
];

fn fill(map: &MapleMap<u64>, order: impl Iterator<Item = u64> + Clone) {
    for range in FILLS {
        let mut map = Checked::new(map.dup().unwrap());
        for (n, i) in order.clone().enumerate() {
            map.quick_store(range(i), i);
            map.whole();
            if n % 16 == 0 {
                map.agree();
            }
        }
        map.agree();
    }
}

#[test]
fn ascending_fill() {
    each(|map| fill(&map, 0..steps(300) as u64));
}

#[test]
fn descending_fill() {
    each(|map| fill(&map, (0..steps(300) as u64).rev()));
}

#[test]
fn random_fill() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut order: Vec<u64> = (0..steps(300) as u64).collect();
    rng.shuffle(&mut order);
    each(|map| fill(&map, order.iter().copied()));
}

/// An entry replaces a part of another one; the rest stays, with its value.
#[test]
fn a_store_cuts_an_entry_at_its_lower_bound_its_upper_bound_and_in_the_middle() {
    each(|map| {
        for padding in [0, 3, 40] {
            let mut map = Checked::new(map.dup().unwrap());
            for i in 0..padding {
                map.quick_store(1_000 + 10 * i..=1_004 + 10 * i, i);
            }
            map.store(100..=199, 7);
            let with = map.map.len();
            map.store(100..=109, 8);
            assert_eq!(map.map.len(), with + 1);
            assert_eq!(map.map.get_entry(150), Some((110..=199, 7)));
            map.store(190..=199, 9);
            assert_eq!(map.map.get_entry(150), Some((110..=189, 7)));
            map.store(150..=150, 10);
            assert_eq!(map.map.len(), with + 4);
            assert_eq!(map.map.get_entry(149), Some((110..=149, 7)));
            assert_eq!(map.map.get_entry(151), Some((151..=189, 7)));
            // Over the border of two entries, and over all.
            map.store(145..=150, 11);
            assert_eq!(map.map.get_entry(147), Some((145..=150, 11)));
            map.store(100..=199, 12);
            assert_eq!(map.map.len(), with);
        }
    });
}

/// A full leaf with one more entry before it, after it or in its middle becomes two.
#[test]
fn full_leaves_split_at_the_lower_bound_the_upper_bound_and_in_the_middle() {
    each(|map| {
        // The number of entries that fit into one leaf.
        let probe = Checked::new(map.dup().unwrap());
        let mut full = 0;
        while probe.map.memory().leaves.0 <= 1 {
            full += 1;
            probe.map.store(100 * full..=100 * full + 9, full).unwrap();
        }
        let full = full - 1;
        assert!(full >= 4, "{full}");
        for at in [50, 100 * full + 50, 100 * (full / 2) + 50] {
            let mut map = Checked::new(map.dup().unwrap());
            for i in 1..=full {
                map.store(100 * i..=100 * i + 9, i);
            }
            assert_eq!(map.map.memory().leaves.0, 1);
            let height = map.map.memory().height;
            assert_eq!(map.store(at..=at + 9, 999), 3, "two leaves and a root");
            let memory = map.map.memory();
            assert_eq!((memory.leaves.0, memory.height), (2, height + 1));
            assert_eq!(map.map.get_entry(at + 5), Some((at..=at + 9, 999)));
        }
    });
}

//! Borders at the limits of two, four and eight bytes, in every unit: leaves store them as
//! distances.

use crate::support::ranges::{Checked, MAX, copied, each};

/// Distances from which more bytes are needed.
const EDGES: [u64; 2] = [1 << 16, 1 << 32];

#[test]
fn distances_at_the_edges_of_their_widths() {
    each(|map| {
        for edge in EDGES {
            for shift in [0, 1, 12, 31, 44] {
                for base in [0, 1 << shift, 7 << 33, MAX - (MAX >> 4)] {
                    for less in [0, 1, 2] {
                        let Some(end) = (edge - less)
                            .checked_mul(1 << shift)
                            .and_then(|distance| distance.checked_add(base))
                        else {
                            continue;
                        };
                        let mut map = Checked::new(map.dup().unwrap());
                        map.store(base..=base + ((1 << shift) - 1), 1);
                        map.store(end - ((1 << shift) - 1)..=end, 2);
                        map.store(end - (4 << shift)..=end - (3 << shift), 3);
                        for i in [base, end, end - 1, end + 1, base + (1 << shift), MAX, 0] {
                            assert_eq!(map.map.get_entry(i), copied(map.oracle.get_entry(i)));
                            let wanted = map.oracle.locate(i);
                            map.map.read(|view| assert_eq!(view.locate(i), wanted));
                        }
                        // One index that is no multiple of the unit makes all distances longer.
                        map.store(base + (2 << shift)..=base + (2 << shift), 4);
                        map.remove(base + (2 << shift));
                        map.store(base..=end, 5);
                    }
                }
            }
        }
    });
}

#[test]
fn both_ends_of_the_indices_in_one_leaf() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(0..=0, 1);
        map.store(MAX..=MAX, 2);
        map.store(1 << 63..=1 << 63, 3);
        for i in [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, MAX - 1, MAX] {
            assert_eq!(map.map.get_entry(i), copied(map.oracle.get_entry(i)), "{i}");
        }
        map.store(0..=(1 << 63) - 1, 4);
        map.store(1 << 63..=MAX, 5);
        assert_eq!(map.map.len(), 2);
        assert_eq!(map.map.get((1 << 63) - 1), Some(4));
        assert_eq!(map.map.get(1 << 63), Some(5));
        map.store(0..=MAX, 6);
        assert_eq!(map.map.get(MAX), Some(6));
        map.store(MAX..=MAX, 7);
        map.store(0..=0, 8);
        assert_eq!(map.map.get_entry(5), Some((1..=MAX - 1, 6)));
    });
}

/// Units of every size: each power of two as the length and the place of entries.
#[test]
fn units_of_every_size() {
    each(|map| {
        for shift in 0..60 {
            let mut map = Checked::new(map.dup().unwrap());
            for i in 0..12 {
                map.quick_store(
                    (i + 1) << shift..=((i + 1) << shift) + ((1 << shift) - 1),
                    i,
                );
            }
            map.agree();
            for i in 0..12 {
                let at = (i + 1) << shift;
                assert_eq!(map.map.get(at), Some(i));
                assert_eq!(map.map.get(at + ((1 << shift) - 1)), Some(i));
            }
            assert_eq!(map.map.get((1 << shift) - 1), None);
            assert_eq!(map.map.get(13 << shift), None);
            map.remove(5 << shift);
            let gap = map.map.find_gap(1 << shift, 1 << shift..=MAX);
            assert_eq!(gap, Some(5 << shift..=(5 << shift) + ((1 << shift) - 1)));
        }
    });
}

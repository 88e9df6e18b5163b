//! Two maps side by side, compared with arrays of indices.

use sapwood::maple::{MapleMap, RangeMap};

use crate::support::steps::steps;

const LAST: u64 = 200;

/// The values at all indices, and the first index of each one's entry.
fn array(map: &RangeMap<u8>) -> Vec<Option<(u64, u8)>> {
    let at = |index| {
        map.get_entry(index)
            .map(|(range, value)| (*range.start(), *value))
    };
    (0..=LAST).map(at).collect()
}

fn random(rng: &mut fastrand::Rng) -> RangeMap<u8> {
    let mut map = RangeMap::new();
    for _ in 0..rng.u8(..40) {
        let start = rng.u64(..=LAST);
        let end = (start + rng.u64(..9)).min(LAST);
        map.store(start..=end, rng.u8(..3)).unwrap();
    }
    map
}

#[test]
fn parts_are_what_both_maps_have() {
    let mut rng = fastrand::Rng::with_seed(8);
    for _ in 0..steps(400) {
        let (left, right) = (random(&mut rng), random(&mut rng));
        let arrays = [array(&left), array(&right)];
        let (left, right) = (left.view(), right.view());
        let mut next = 0;
        let free = |from: u64, to: u64| {
            for i in from..to {
                assert_eq!((arrays[0][i as usize], arrays[1][i as usize]), (None, None));
            }
        };
        for (range, a, b) in left.overlay(&right) {
            free(next, *range.start());
            next = range.end() + 1;
            let first = [0, 1].map(|map| arrays[map][*range.start() as usize]);
            assert_eq!(
                (a.copied(), b.copied()),
                (first[0].map(|f| f.1), first[1].map(|f| f.1))
            );
            assert!(a.is_some() || b.is_some());
            // The part is in one entry of each map, and ends where an entry of one does.
            for i in range.clone() {
                assert_eq!(
                    [0, 1].map(|map| arrays[map][i as usize]),
                    first,
                    "{range:?}"
                );
            }
            let behind = [0, 1].map(|map| arrays[map].get(next as usize).copied().flatten());
            assert_ne!(behind, first, "{range:?}");
        }
        free(next, LAST + 1);
        let covered = arrays[0].iter().flatten().count() as u128;
        assert_eq!(left.covered(), covered);
        let changes = left.diff(&right).collect::<Vec<_>>();
        for i in 0..=LAST {
            let values = [0, 1].map(|map| arrays[map][i as usize].map(|(_, value)| value));
            let change = changes.iter().find(|(range, ..)| range.contains(&i));
            let change = change.map(|(_, old, new)| [old.copied(), new.copied()]);
            assert_eq!(
                change,
                (values[0] != values[1]).then_some(values),
                "index {i}"
            );
        }
        assert_eq!(left == right, left.iter().eq(right.iter()));
        assert!(left == left && left.diff(&left).next().is_none());
    }
}

#[test]
fn the_highest_index_and_other_values() {
    const MAX: u64 = u64::MAX;
    let all = RangeMap::from_iter([(0..=MAX, 'a')]);
    assert_eq!(all.view().covered(), 1 << 64);
    let some = MapleMap::from_iter([(5..=9, 1), (MAX - 1..=MAX, 2)]);
    let snapshot = some.snapshot();
    let parts: Vec<_> = all.view().overlay(&snapshot.view()).collect();
    assert_eq!(
        parts,
        [
            (0..=4, Some(&'a'), None),
            (5..=9, Some(&'a'), Some(&1)),
            (10..=MAX - 2, Some(&'a'), None),
            (MAX - 1..=MAX, Some(&'a'), Some(&2)),
        ]
    );
    let none = RangeMap::<u8>::new();
    assert_eq!(none.view().overlay(&none.view()).next(), None);
    assert_eq!(none.view().covered(), 0);
}

//! The smallest trees, and how the height grows and shrinks.

use sapwood::maple::{MapleMap, Window};

use crate::support::ranges::{Checked, MAX, Range, each, listed, tiny};

#[test]
fn an_empty_map() {
    each(|map| {
        map.verify().unwrap();
        assert!(map.is_empty());
        assert_eq!((map.first(), map.last()), (None, None));
        for i in [0, 1, 1 << 40, MAX] {
            assert_eq!((map.get(i), map.get_entry(i)), (None, None));
            assert_eq!((map.next_after(i), map.prev_before(i)), (None, None));
            assert_eq!(map.remove(i).unwrap(), None);
            map.read(|view| assert_eq!(view.locate(i), (0..=MAX, None)));
        }
        map.read(|view| {
            assert_eq!(view.iter().count(), 0);
            assert_eq!(view.gaps(0..=MAX).collect::<Vec<_>>(), [0..=MAX]);
            assert_eq!(view.gaps(3..=5).collect::<Vec<_>>(), [3..=5]);
        });
        assert_eq!(map.find_gap(MAX, 0..=MAX), Some(0..=MAX - 1));
        assert_eq!(
            map.find_gap(MAX, Window::new(0..=MAX).from_end()),
            Some(1..=MAX)
        );
        map.verify().unwrap();
        assert_eq!(format!("{map:?}"), "{}");
    });
}

fn one(range: Range) {
    each(|map| {
        let mut map = Checked::new(map);
        let (start, end) = range.clone().into_inner();
        map.store(range.clone(), 5);
        assert_eq!(map.map.first(), Some((range.clone(), 5)));
        assert_eq!(map.map.last(), map.map.first());
        assert_eq!(map.map.memory().leaves.0, 1);
        for (i, there) in [
            (start, true),
            (end, true),
            (start.wrapping_sub(1), range == (0..=MAX)),
            (end.wrapping_add(1), range == (0..=MAX)),
        ] {
            assert_eq!(map.map.contains(i), there, "{i} of {range:?}");
        }
        // The entry is replaced, cut at both ends and in the middle, and removed.
        map.store(range.clone(), 6);
        assert_eq!(map.map.len(), 1);
        map.store(start..=start, 7);
        map.store(end..=end, 8);
        map.store(start + (end - start) / 2..=end, 9);
        map.clear_range(range.clone());
        assert!(map.map.is_empty());
        map.store(range.clone(), 5);
        assert_eq!(map.remove(end).1, Some((range.clone(), 5)));
        assert_eq!(listed(&map.map), []);
    });
}

#[test]
fn one_entry_at_0() {
    one(0..=0);
    one(0..=9);
}

#[test]
fn one_entry_elsewhere() {
    one(1..=1);
    one(1_000..=1_999);
    one(1 << 40..=1 << 50);
    one(MAX..=MAX);
    one(MAX - 9..=MAX);
}

#[test]
fn one_entry_over_the_full_range() {
    one(0..=MAX);
    each(|map| {
        map.store(0..=MAX, 1).unwrap();
        map.verify().unwrap();
        assert_eq!(map.find_gap(1, 0..=MAX), None);
        map.read(|view| assert_eq!(view.gaps(0..=MAX).count(), 0));
        assert_eq!((map.next_after(0), map.prev_before(MAX)), (None, None));
    });
}

/// A map with just enough entries for this many levels above its leaves, found by filling it.
fn of_height(height: usize) -> Checked<u64> {
    let mut map = Checked::new(tiny().build());
    for i in 0.. {
        if map.map.memory().height >= height {
            break;
        }
        map.quick_store(10 * i..=10 * i + 5, i);
        map.whole();
        assert!(i < 5_000);
    }
    map.agree();
    map
}

#[test]
fn height_grows_by_one_and_falls_when_it_should() {
    let mut map = of_height(4);
    let mut heights = vec![map.map.memory().height];
    while let Some((range, _)) = map.map.first() {
        let (_, erased) = map.remove(*range.end());
        assert!(erased.is_some());
        let memory = map.map.memory();
        if memory.height != *heights.last().unwrap() {
            heights.push(memory.height);
        }
        // A tree of this height should have shrunk with fewer entries: two entries fit one leaf.
        assert!(memory.entries > 2 || memory.leaves.0 <= 1);
    }
    assert!(heights.windows(2).all(|w| w[1] + 1 == w[0]), "{heights:?}");
    assert!(*heights.last().unwrap() <= 1, "{heights:?}");
}

#[test]
fn height_falls_at_once_when_all_is_overwritten() {
    let map = of_height(4);
    for range in [0..=MAX, 0..=1 << 40, 3..=MAX - 1] {
        let mut map = Checked::new(map.map.dup().unwrap());
        map.store(range, 1);
        let memory = map.map.memory();
        assert!(memory.leaves.0 == 1 && memory.inner.0 == 0, "{memory:?}");
    }
    let mut map = Checked::new(map.map.dup().unwrap());
    map.clear_range(0..=MAX);
    let memory = map.map.memory();
    assert!(memory.leaves.0 <= 1 && memory.inner.0 == 0, "{memory:?}");
}

/// Drains a tree of six levels entry by entry, from either end.
fn drain(next: impl Fn(&MapleMap<u64>) -> Option<(Range, u64)>) {
    let mut map = of_height(if cfg!(miri) { 2 } else { 5 });
    let mut n = map.map.len();
    while let Some((range, v)) = next(&map.map) {
        let (_, erased) = map.quick_remove(*range.start());
        assert_eq!(erased, Some((range, v)));
        map.whole();
        n -= 1;
        assert_eq!(map.map.len(), n);
        if n % 32 == 0 || n < 20 {
            map.agree();
        }
    }
    assert_eq!(n, 0);
    assert!(map.map.memory().inner.0 == 0);
}

#[test]
fn draining_a_tree_of_height_6_from_the_right() {
    drain(MapleMap::last);
}

#[test]
fn draining_a_tree_of_height_6_from_the_left() {
    drain(MapleMap::first);
}

#[test]
fn an_empty_map_allocates_nothing() {
    let map: MapleMap<u64> = MapleMap::new();
    let memory = map.memory();
    assert_eq!((memory.entries, memory.nodes_made), (0, 0));
    assert_eq!((memory.leaves, memory.inner), ((0, 0), (0, 0)));
    assert_eq!(memory.arena.committed, 0);
    assert_eq!(size_of::<MapleMap<u64>>(), size_of::<usize>());
    assert_eq!(size_of::<Option<MapleMap<u64>>>(), size_of::<usize>());
}

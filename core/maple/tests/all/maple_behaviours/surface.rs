//! The rest of the API: the methods that it shares with the standard library's collections,
//! handles, locks and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use sapwood::maple::{MapleMap, MapleView};
use sapwood::qsbr::Domain;
use sapwood_model::oracle::RangeMap;

use crate::support::ranges::{Checked, MAX, Range, each, listed, loud, tiny};

/// Ranges of a small map that often overlap; some are at the ends.
fn range() -> impl Strategy<Value = Range> {
    let near = (0..120_u64, 0..12_u64).prop_map(|(start, len)| start..=start + len);
    let wide = (0..120_u64, 0..100_u64).prop_map(|(start, len)| start..=start + len);
    let top = (0..40_u64, 0..40_u64).prop_map(|(a, b)| MAX - a.max(b)..=MAX - a.min(b));
    prop_oneof![8 => near, 1 => wide, 1 => top]
}

fn entries() -> impl Strategy<Value = Vec<(Range, u64)>> {
    prop::collection::vec((range(), 0..4_u64), 0..60)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 48 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn from_iterator_stores_one_after_the_other(list in entries()) {
        let map: MapleMap<u64> = list.iter().cloned().collect();
        let mut oracle = RangeMap::new();
        for (range, v) in &list {
            oracle.store(range.clone(), *v);
        }
        map.verify().unwrap();
        prop_assert_eq!(listed(&map), oracle.to_vec());
    }

    #[test]
    fn extend_stores_over_what_is_there(first in entries(), second in entries()) {
        let mut map: MapleMap<u64> = tiny().build();
        map.extend(first.iter().cloned());
        map.verify().unwrap();
        map.extend(second.iter().cloned());
        map.verify().unwrap();
        let mut oracle = RangeMap::new();
        for (range, v) in first.iter().chain(&second) {
            oracle.store(range.clone(), *v);
        }
        prop_assert_eq!(listed(&map), oracle.to_vec());
    }

    #[test]
    fn debug_is_that_of_a_map(list in entries()) {
        let map: MapleMap<u64> = list.into_iter().collect();
        // Disjoint ranges, which the standard library orders by their starts.
        let wanted: BTreeMap<u64, (Range, u64)> =
            listed(&map).into_iter().map(|e| (*e.0.start(), e)).collect();
        let text: Vec<String> =
            wanted.values().map(|(r, v)| format!("{}..={}: {v}", r.start(), r.end())).collect();
        prop_assert_eq!(format!("{map:?}"), format!("{{{}}}", text.join(", ")));
    }

    #[test]
    fn coalescing_stores_leave_no_equal_neighbours(list in entries()) {
        let map: MapleMap<u64> = tiny().build();
        let mut oracle = RangeMap::new();
        for (range, v) in list {
            let wanted = oracle.store_coalescing(range.clone(), v);
            let stored = map.store_coalescing(range, v).unwrap();
            map.verify().unwrap();
            prop_assert_eq!(stored, wanted);
        }
        let found = listed(&map);
        let equal = |w: &[(Range, u64)]| w[0].1 == w[1].1 && w[0].0.end() + 1 == *w[1].0.start();
        prop_assert!(!found.windows(2).any(equal), "{:?}", found);
        prop_assert_eq!(found, oracle.to_vec());
    }

    #[test]
    fn ranges_and_gaps_tile_every_window(list in entries(), window in range()) {
        let map: MapleMap<u64> = tiny().build();
        for (range, v) in list {
            map.store(range, v).unwrap();
        }
        map.verify().unwrap();
        let mut parts: Vec<Range> = map.read(|view| {
            let entries = view.range(window.clone()).map(|(r, _)| r);
            entries.chain(view.gaps(window.clone())).collect()
        });
        parts.sort_by_key(|r| *r.start());
        for pair in parts.windows(2) {
            prop_assert_eq!(pair[0].end() + 1, *pair[1].start());
        }
        prop_assert!(parts[0].start() <= window.start());
        prop_assert!(parts.last().unwrap().end() >= window.end());
    }

    #[test]
    fn copies_equal_their_originals(list in entries()) {
        let map: MapleMap<u64> = tiny().build();
        for (range, v) in list {
            map.store(range, v).unwrap();
        }
        let copy = map.dup().unwrap();
        copy.verify().unwrap();
        prop_assert_eq!(listed(&copy), listed(&map));
        prop_assert_eq!(copy.memory().leaves, map.memory().leaves);
    }
}

#[test]
fn equal_neighbours_stay_apart_unless_asked() {
    each(|map| {
        let mut map = Checked::new(map);
        map.store(10..=19, 1);
        map.store(20..=29, 1);
        map.store(40..=49, 1);
        assert_eq!(map.map.len(), 3);
        assert_eq!(map.map.store_coalescing(30..=35, 1).unwrap(), 20..=35);
        map.map.verify().unwrap();
        assert_eq!(map.map.store_coalescing(36..=39, 2).unwrap(), 36..=39);
        assert_eq!(map.map.store_coalescing(36..=39, 1).unwrap(), 20..=49);
        map.map.verify().unwrap();
        assert_eq!(map.map.len(), 2, "the left entry was not coalesced");
        assert_eq!(map.map.store_coalescing(12..=14, 1).unwrap(), 10..=19);
        assert_eq!(map.map.store_coalescing(0..=MAX, 1).unwrap(), 0..=MAX);
        map.map.verify().unwrap();
        assert_eq!(map.map.store_coalescing(0..=0, 1).unwrap(), 0..=MAX);
        assert_eq!(map.map.store_coalescing(MAX..=MAX, 1).unwrap(), 0..=MAX);
        assert_eq!(listed(&map.map), [(0..=MAX, 1)]);
        map.map.verify().unwrap();
    });
}

#[test]
fn maps_and_handles_cross_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let map: MapleMap<String> = MapleMap::default();
    shared(&map);
    let writers: Vec<_> = (0..3_u64)
        .map(|writer| {
            let map = map.clone();
            thread::spawn(move || {
                for i in 0..40 {
                    let start = 1_000 * writer + 10 * i;
                    map.store(start..=start + 5, format!("{writer}/{i}"))
                        .unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|w| w.join().unwrap());
    map.verify().unwrap();
    assert_eq!(map.len(), 120);
    assert_eq!(map.get(2_013).as_deref(), Some("2/1"));
    let mut reader = map.reader("test").unwrap();
    assert_eq!(reader.view().get(13).map(String::as_str), Some("0/1"));
    reader.quiescent();
    let pin = map.domain().pin();
    assert_eq!(map.view(pin.guard()).len(), 120);
    drop(pin);
    // The same map, whichever handle is dropped first.
    let other = map.clone();
    drop(map);
    other.verify().unwrap();
    assert_eq!(
        other.remove(2_013).unwrap().map(|e| e.0),
        Some(2_010..=2_015)
    );
}

#[test]
fn one_writer_at_a_time() {
    let map: MapleMap<u64> = tiny().build();
    let mut writer = map.try_write().expect("no writer holds the lock");
    assert!(map.try_write().is_none());
    // A reader is not blocked.
    assert_eq!(map.get(5), None);
    writer.store(0..=9, 1).unwrap();
    assert_eq!(map.get(5), Some(1));
    assert_eq!(writer.view().get_entry(5), Some((0..=9, &1)));
    assert_eq!(writer.alloc_range(10, 0..=99, 2).unwrap(), 10..=19);
    assert_eq!(writer.remove(5).unwrap(), Some((0..=9, 1)));
    let copy = map.clone();
    let other = thread::spawn(move || copy.store(30..=39, 3));
    drop(writer);
    other.join().unwrap().unwrap();
    map.verify().unwrap();
    assert_eq!(listed(&map), [(10..=19, 2), (30..=39, 3)]);
    assert!(map.try_write().is_some());
}

#[test]
fn maps_of_one_domain() {
    let domain = Domain::new();
    let one: MapleMap<u64> = tiny().domain(&domain).build();
    let other: MapleMap<Arc<str>> = tiny().domain(&domain).build();
    one.store(0..=9, 1).unwrap();
    other.store(5..=5, "five".into()).unwrap();
    let mut reader = domain.register("both").unwrap();
    {
        let guard = reader.guard();
        assert_eq!(one.view(guard).get(3), Some(&1));
        assert_eq!(other.view(guard).get(5).map(|s| &**s), Some("five"));
    }
    one.remove(3).unwrap();
    other.store(0..=MAX, "all".into()).unwrap();
    reader.quiescent();
    drop(reader);
    one.reclaim(usize::MAX);
    other.reclaim(usize::MAX);
    assert_eq!(one.memory().waiting.0 + other.memory().waiting.0, 0);
    one.verify().unwrap();
    other.verify().unwrap();
}

#[test]
fn extend_panics_when_the_map_is_full() {
    let options = loud().limit(8 << 10);
    let mut map: MapleMap<u64> = MapleMap::builder().nodes(128, 4).options(options).build();
    let extended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.extend((0..10_000).map(|i| (10 * i..=10 * i + 5, i)));
    }));
    assert!(extended.is_err());
    map.verify().unwrap();
    let found = listed(&map);
    assert!(found.len() > 20);
    assert!(found.into_iter().enumerate().all(|(i, e)| e.1 == i as u64));
}

#[test]
#[should_panic(expected = "9")]
fn extend_panics_for_an_empty_range() {
    let mut map: MapleMap<u64> = MapleMap::new();
    #[allow(clippy::reversed_empty_ranges)]
    map.extend([(0..=4, 1), (9..=8, 2)]);
}

/// A view outlives the handle that it came from, as long as its borrow allows; a reader's view
/// continues while the map changes.
#[test]
fn a_view_sees_changes() {
    let map: MapleMap<u64> = tiny().build();
    let sum = |view: MapleView<'_, u64>| view.iter().map(|(_, v)| *v).sum::<u64>();
    let mut reader = map.reader("test").unwrap();
    let view = reader.view();
    assert_eq!((view.len(), sum(view)), (0, 0));
    map.store(0..=9, 1).unwrap();
    map.store(20..=29, 2).unwrap();
    assert_eq!((view.len(), sum(view)), (2, 3));
    let one = view.get(5).unwrap();
    map.store(0..=9, 7).unwrap();
    // The old value stays alive until the reader is quiescent.
    assert_eq!((*one, view.get(5)), (1, Some(&7)));
    reader.quiescent();
    drop(reader.offline());
    map.reclaim(usize::MAX);
    map.verify().unwrap();
    assert_eq!(reader.view().get(5), Some(&7));
}

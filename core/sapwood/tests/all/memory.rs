//! The memory that maps take from the system, and the reports about it.

use sapwood::arena::{Area, Arena, ArenaOptions, Kind};
use sapwood::lpm::{BitFib, Ipv4Fib};
use sapwood::maple::MapleMap;
use sapwood::qp::{PointMap, QpFile, QpMap, QpShared, QpStore};
use sapwood::route::RouteCache;

#[test]
fn an_empty_map_is_small_and_takes_no_memory() {
    const EMPTY: QpMap<[u64; 100]> = QpMap::new();
    assert!(size_of_val(&EMPTY) <= 64);
    let mut map = EMPTY;
    assert_eq!(map.memory().total(), 0);
    // Reading, removing and moving take no memory.
    assert_eq!((map.len(), map.is_empty(), map.get("a")), (0, true, None));
    assert_eq!(map.remove("a"), None);
    assert!(map.iter().next().is_none() && map.range("a"..).next().is_none());
    assert!(
        map.iter_mut().next().is_none() && map.pop_first().is_none() && map.last_entry().is_none()
    );
    assert!(map.range_mut("a"..).next().is_none() && map.longest_prefix("a").is_none());
    map.retain(|_, _| true);
    map.clear();
    map.compact().unwrap();
    map.append(&mut QpMap::new()).unwrap();
    assert!(map.split_off("a").unwrap().is_empty());
    assert_eq!(map.remove_prefix(""), 0);
    assert_eq!(map.memory().total(), 0);
    map.verify().unwrap();
}

#[test]
fn a_map_of_three_takes_little() {
    let map = QpMap::from([("ash", 1u64), ("beech", 2), ("elm", 3)]);
    let memory = map.memory();
    assert!(memory.total() < 8 << 10, "{memory}");
    assert_eq!(
        (memory.entries, memory.leaves.0, memory.clusters.0),
        (3, 0, 1)
    );
}

#[test]
fn the_parts_of_the_memory_add_up() {
    let mut map = QpMap::new();
    let n = if cfg!(miri) { 200 } else { 20_000u32 };
    for i in 0..n {
        map.insert((i.wrapping_mul(2_654_435_761)).to_be_bytes(), i)
            .unwrap();
        if i % 3 == 0 {
            map.remove((i / 2).wrapping_mul(2_654_435_761).to_be_bytes());
        }
        if i % (n / 20) == 0 || i + 1 == n {
            let m = map.memory();
            assert_eq!(m.entries, map.len());
            assert_eq!(m.branches.1 + m.clusters.1 + m.leaves.1, m.arena.live);
            let arena = &m.arena;
            assert_eq!(
                arena.live + arena.retired + arena.free + arena.header,
                arena.frontier
            );
            assert_eq!(m.total(), arena.committed + arena.overhead + m.outside);
            assert!(arena.committed >= arena.live && arena.retired == 0);
            // Value 4, length and tail 4, tag, place and border 4; a third of the slots are free.
            assert!(m.arena.live < map.len() * 21 + 512, "{m}");
        }
    }
    let shown = map.memory().to_string();
    assert!(
        ["entries", "branches", "clusters", "leaves", "total"]
            .iter()
            .all(|w| shown.contains(w))
    );
    map.clear();
    assert_eq!(map.memory().arena.live, 0);
}

/// Checks the lines of a report: a name, then numbers in their own columns.
#[track_caller]
fn reports(report: impl std::fmt::Display, names: &[(&str, &str)]) {
    let report = report.to_string();
    assert!(
        report.ends_with('\n') && !report.contains("\n\n"),
        "{report}"
    );
    for (name, number) in names {
        let line = report.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no line for {name}:\n{report}"));
        let found = line[name.len()..].split_whitespace().next();
        assert_eq!(found, Some(*number), "{line}");
    }
}

#[test]
fn every_report_can_be_shown() {
    let map = QpMap::from([("ash", 1u64), ("beech", 2), ("elm", 3)]);
    reports(map.memory(), &[("entries", "3"), ("clusters", "1")]);
    let folder = crate::support::folder::Folder::new("reports");
    map.save(folder.file("map")).unwrap();
    let file = QpFile::<u64>::open(folder.file("map")).unwrap();
    let shape = [("entries", "3"), ("clusters", "1"), ("mean fill", "3.00")];
    reports(file.shape().unwrap(), &shape);

    let store = QpStore::from_map(map).unwrap();
    let kept = store.snapshot();
    let mut txn = store.begin();
    txn.remove("elm").unwrap();
    txn.commit();
    let names = [("waiting", "2"), ("snapshots", "1"), ("entries", "2")];
    reports(store.memory(), &names);
    let bits = BitFib::<u64>::new().unwrap();
    reports(bits.memory(), &[("snapshots", "0"), ("entries", "0")]);
    drop(kept);

    let shared = QpShared::new().unwrap();
    shared.insert("ash", 1).unwrap();
    reports(shared.memory(), &[("entries", "1"), ("leaves", "1")]);
    reports(
        shared.contention(),
        &[("operations", "1"), ("met a lock", "0")],
    );
    reports(
        PointMap::<u64>::new().unwrap().memory(),
        &[("entries", "0")],
    );

    let fib = Ipv4Fib::<u32>::builder().root_bits(6).build().unwrap();
    reports(fib.memory(), &[("prefixes", "0")]);
    let ranges = MapleMap::from_iter([(0..=9, 'a')]);
    reports(ranges.memory(), &[("entries", "1"), ("leaves", "1")]);
    let cache = RouteCache::<u32, u32>::new(100);
    cache.insert(&1, cache.hash(&1), 0, 2);
    reports(cache.stats(), &[("insert", "1"), ("occupancy", "1")]);

    let mut arena = Arena::new(ArenaOptions::default());
    arena.alloc(20, Kind(3), Area::Nodes).unwrap();
    reports(arena.memory(), &[("live", "24"), ("kind 3", "1")]);
}

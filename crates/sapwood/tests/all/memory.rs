//! What maps take of the system's memory, and where they say it is.

use sapwood::qp::QpMap;

#[test]
fn an_empty_map_is_small_and_takes_no_memory() {
    const EMPTY: QpMap<[u64; 100]> = QpMap::new();
    assert!(size_of_val(&EMPTY) <= 64);
    let mut map = EMPTY;
    assert_eq!(map.memory().total(), 0);
    // Nothing that reads, removes or moves takes memory.
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
        (3, 3, 1)
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
            assert_eq!(m.leaves.0, map.len());
            assert_eq!(m.branches.1 + m.clusters.1 + m.leaves.1, m.arena.live);
            let arena = &m.arena;
            assert_eq!(
                arena.live + arena.retired + arena.free + arena.header,
                arena.frontier
            );
            assert_eq!(m.total(), arena.committed + arena.overhead + m.outside);
            assert!(arena.committed >= arena.live && arena.retired == 0);
            // Value, length and key: 4 + 2 + 4, in units of 8.
            assert_eq!(m.leaves.1, map.len() * 16);
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

//! Reservation: the number of nodes of each kind of write, the plan that states it, and the return
//! of unused nodes.

use sapwood::arena::ArenaOptions;
use sapwood::maple::Error;
use sapwood::maple::{MapleMap, MapleMemory};

use crate::support::ranges::{Checked, MAX, Range, listed, loud, steps, tiny};

fn comb(n: u64) -> Checked<u64> {
    let mut map = Checked::new(tiny().build());
    for i in 0..n {
        map.quick_store(100 * i..=100 * i + 49, i);
    }
    map.agree();
    map
}

/// The number of entries that fill a leaf, so that one more makes a second leaf.
fn room() -> u64 {
    let mut map = Checked::new(tiny().build());
    let mut n = 0;
    while map.map.memory().leaves.0 < 2 {
        map.quick_store(100 * n..=100 * n + 49, n);
        n += 1;
    }
    n - 1
}

/// The memory of a map, without pooled nodes.
fn held(memory: &MapleMemory) -> [(usize, usize); 5] {
    [
        memory.leaves,
        memory.inner,
        memory.values,
        memory.reserved,
        memory.waiting,
    ]
}

#[test]
fn the_first_store_takes_a_leaf() {
    let mut map = comb(0);
    assert_eq!(map.store(10..=19, 1), 1);
    let mut map = comb(0);
    assert_eq!(map.store(0..=MAX, 1), 1);
}

#[test]
fn an_exact_fit_takes_a_leaf() {
    for n in [1, 5, 60] {
        let mut map = comb(n);
        for i in 0..n {
            assert_eq!(map.store(100 * i..=100 * i + 49, 1_000), 1, "{i} of {n}");
        }
    }
}

#[test]
fn an_append_to_a_leaf_with_room_takes_a_leaf() {
    let room = room();
    let mut map = comb(1);
    for i in 1..room {
        assert_eq!(map.store(100 * i..=100 * i + 49, i), 1);
    }
}

#[test]
fn a_store_into_a_leaf_with_room_takes_a_leaf() {
    let mut map = comb(2);
    assert_eq!(map.store(60..=69, 1), 1, "into a gap");
    assert_eq!(map.store(10..=19, 1), 1, "into an entry");
    assert_eq!(map.store(40..=64, 1), 1, "over parts of two");
    assert_eq!(map.store(0..=149, 1), 1, "over everything");
}

#[test]
fn a_split_of_the_only_leaf_takes_two_and_a_root() {
    let room = room();
    for at in 0..=room {
        let mut map = Checked::new(tiny().build());
        for i in (0..=room).filter(|i| *i != at) {
            map.quick_store(100 * i..=100 * i + 49, i);
        }
        assert_eq!(map.map.memory().height, 0);
        assert_eq!(map.store(100 * at..=100 * at + 49, at), 3);
        assert_eq!(map.map.memory().height, 1);
    }
}

/// A split takes two leaves for one, and a new parent if the parent has room, at any height.
#[test]
fn a_split_takes_two_leaves_and_the_parents_up_to_the_first_with_room() {
    let mut map = comb(1);
    let mut seen = [0; 12];
    for i in 1..steps(1_200) as u64 {
        let before = map.map.memory();
        let made = map.quick_store(100 * i..=100 * i + 49, i);
        map.whole();
        let memory = map.map.memory();
        if memory.leaves.0 == before.leaves.0 {
            assert_eq!(made, 1, "an append");
            continue;
        }
        // A level that splits has two new nodes, the level above it one; a new root is one.
        let grown = (memory.leaves.0 + memory.inner.0) - (before.leaves.0 + before.inner.0);
        let root = memory.height - before.height;
        let split = grown - root;
        let parent = usize::from(root == 0);
        assert_eq!(made, 2 * split + root + parent, "{split} levels split");
        seen[split] += 1;
    }
    assert!(seen[1] > 0 && seen[2] > 0, "{seen:?}");
}

#[test]
fn an_erase_in_a_leaf_takes_one_and_nothing_takes_none() {
    let mut map = comb(3);
    assert_eq!(map.remove(60), (0, None));
    assert_eq!(map.clear_range(60..=69), 0);
    assert_eq!(map.remove(110).0, 1);
    assert_eq!(map.clear_range(10..=19), 1);
    assert_eq!(map.clear_range(0..=249), 0, "an emptied map has no node");
    assert!(map.map.is_empty());
    let memory = map.map.memory();
    assert_eq!(memory.leaves.0 + memory.inner.0, 0);
}

/// Two levels. Rebuilding a leaf alone takes one node. A leaf that merges with a neighbour becomes
/// one leaf or two, and their parent is rebuilt.
#[test]
fn a_rebalance_takes_the_leaves_and_their_parent() {
    let base = comb(3 * room());
    assert_eq!(base.map.memory().height, 1);
    let mut seen = [0; 4];
    // The second leaf gets more and more entries, until the rest of the first no longer fits into
    // it.
    for more in 0..4 {
        let mut map = Checked::new(base.map.dup().unwrap());
        let second = room() + room() / 2;
        for i in 0..more {
            map.store(100 * second + 60 + 2 * i..=100 * second + 60 + 2 * i, 1_000);
        }
        while let Some((range, _)) = map.map.first() {
            let before = map.map.memory();
            let (made, _) = map.remove(*range.start());
            let memory = map.map.memory();
            let wanted = match (memory.leaves.0, memory.height) {
                (0, _) => 0,
                (_, 0) => 1,
                (leaves, _) if leaves < before.leaves.0 => 2,
                _ if made == 3 => 3,
                _ => 1,
            };
            assert_eq!(made, wanted, "{before:?}, {memory:?}");
            seen[made] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}

/// A leaf whose last entry is removed has another upper bound, which its parent stores.
#[test]
fn the_end_of_a_leafs_last_entry_takes_a_parent_too() {
    let n = 3 * room();
    let map = comb(n);
    let leaves = map.map.memory().leaves.0;
    let mut counts = [0; 4];
    for i in 0..n {
        let mut one = Checked::new(map.map.dup().unwrap());
        let made = one.clear_range(100 * i + 40..=100 * i + 49);
        counts[made] += 1;
    }
    // All but the last leaf, which always reaches the last index.
    assert_eq!(counts, [0, n as usize - (leaves - 1), leaves - 1, 0]);
}

/// Erases until leaves merge, down to the last entry: each erase takes few nodes, and each plan is
/// exact.
#[test]
fn merges_take_the_merged_leaf_and_its_parents() {
    let mut map = comb(steps(400).max(60) as u64);
    let mut most = 0;
    let mut merges = 0;
    while let Some((range, _)) = map.map.first() {
        let before = map.map.memory();
        let (made, _) = map.quick_remove(*range.end());
        map.whole();
        let memory = map.map.memory();
        if memory.leaves.0 < before.leaves.0 {
            merges += 1;
        }
        most = most.max(made);
        assert!(made <= 3 * (before.height + 1) + 1, "{made}");
    }
    assert!(merges > 4 && most >= 2, "{merges} merges, at most {most}");
}

#[test]
fn a_spanning_store_over_all_takes_one_leaf() {
    for n in [30, 200] {
        let mut map = comb(n);
        assert_eq!(map.store(0..=MAX, 1), 1);
        let mut map = comb(n);
        assert_eq!(
            map.store(20..=100 * n - 80, 1),
            1,
            "both ends fit beside the new entry"
        );
        let mut map = comb(n);
        assert_eq!(map.clear_range(0..=MAX), 0);
    }
}

/// Every pair of edges: the plan is exact (`Checked` compares), and within the bound of the design.
#[test]
fn spanning_stores_stay_below_the_bound() {
    let n = 60;
    let map = comb(n);
    let height = map.map.memory().height;
    let (mut most, mut sum, mut count) = (0, 0, 0);
    for a in 0..n {
        for b in (a + 1..n).step_by(if steps(8) == 8 { 1 } else { 9 }) {
            let mut one = Checked::new(map.map.dup().unwrap());
            let made = one.quick_store(100 * a + 30..=100 * b + 20, 1);
            one.whole();
            most = most.max(made);
            sum += made;
            count += 1;
        }
    }
    assert!(most <= 3 * (height + 1) + 1, "{most} nodes at {height}");
    assert!(sum < 5 * count, "{sum} for {count}");
}

#[test]
fn boxed_values_are_counted_too() {
    let map: MapleMap<String> = tiny().build();
    for i in 0..60_u64 {
        let value = format!("{i}");
        let plan = map.plan_store(100 * i..=100 * i + 49, &value).unwrap();
        let before = map.memory();
        let reservation = map.reserve(plan.clone()).unwrap();
        assert_eq!(reservation.nodes(), plan.nodes());
        assert!(reservation.bytes() >= plan.bytes());
        reservation.store(value);
        map.verify().unwrap();
        let memory = map.memory();
        assert_eq!(memory.nodes_made - before.nodes_made, plan.nodes() as u64);
        assert_eq!(memory.values.0, before.values.0 + 1);
        assert_eq!(memory.reserved, (0, 0));
    }
}

#[test]
fn a_dropped_reservation_gives_all_back() {
    for n in [0, 1, 9, 60, 200] {
        let map = comb(n);
        map.map.reclaim(usize::MAX);
        let before = map.map.memory();
        for _ in 0..20 {
            for range in [3..=4, 0..=MAX, 20..=100 * n + 30, 51..=51] {
                let plan = map.map.plan_store(range, &5).unwrap();
                assert!(plan.nodes() > 0 && plan.bytes() >= 64);
                let reservation = map.map.reserve(plan).unwrap();
                assert!(reservation.nodes() > 0);
                drop(reservation);
                let plan = map.map.plan_clear(10..=100 * n + 10).unwrap();
                drop(map.map.reserve_erase(plan).unwrap());
            }
            let unknown = map.map.reserve_unknown(3).unwrap();
            assert_eq!(unknown.remaining(), 3);
            assert!(map.map.memory().reserved.0 > 0);
            drop(unknown);
            let memory = map.map.memory();
            assert_eq!(held(&memory), held(&before));
        }
        map.agree();
        let memory = map.map.memory();
        assert_eq!(memory.nodes_made, before.nodes_made, "no node was made");
    }
}

#[test]
fn a_stale_plan_is_made_again() {
    let mut map = comb(60);
    let mut rng = fastrand::Rng::with_seed(2);
    for v in 0..steps(300) as u64 {
        let start = rng.u64(0..6_000);
        let range: Range = start..=start + rng.u64(0..400);
        let plan = map.map.plan_store(range.clone(), &v).unwrap();
        assert_eq!(plan.range(), range);
        // Other writers change the map in between: at the same place, or far away.
        for _ in 0..rng.u8(0..4) {
            let other = rng.u64(0..6_000);
            if rng.bool() {
                map.quick_store(other..=other + rng.u64(0..90), v);
            } else {
                map.quick_remove(other);
            }
        }
        let before = map.map.memory().nodes_made;
        let reservation = map.map.reserve(plan).unwrap();
        assert_eq!(reservation.range(), range);
        let nodes = reservation.nodes() as u64;
        reservation.store(v);
        map.oracle.store(range, v);
        assert_eq!(map.map.memory().nodes_made - before, nodes);
        assert_eq!(map.map.memory().reserved, (0, 0));
        map.agree();
    }
}

#[test]
fn a_reserved_erase_takes_what_was_planned() {
    let mut map = comb(120);
    let mut rng = fastrand::Rng::with_seed(3);
    while map.map.len() > 3 {
        let i = rng.u64(0..12_000);
        let before = map.map.memory().nodes_made;
        let one = rng.bool();
        let plan = if one {
            map.map.plan_remove(i)
        } else {
            map.map.plan_clear(i..=i + 150).unwrap()
        };
        let nodes = plan.nodes();
        let reservation = map.map.reserve_erase(plan).unwrap();
        assert_eq!(reservation.nodes(), nodes);
        reservation.erase();
        if one {
            map.oracle.remove(i);
        } else {
            map.oracle.clear_range(i..=i + 150);
        }
        assert_eq!(map.map.memory().nodes_made - before, nodes as u64);
        map.agree();
    }
}

/// A plan is plain data. It may be reserved twice, or in another map, whose own plans have the same
/// numbers.
#[test]
fn a_plan_of_a_change_that_was_made_is_stale() {
    let mut map = comb(20);
    let plan = map.map.plan_store(120..=610, &7).unwrap();
    map.map.reserve(plan.clone()).unwrap().store(7);
    map.oracle.store(120..=610, 7);
    map.agree();
    let again = map.map.reserve(plan.clone()).unwrap();
    assert_eq!((again.nodes(), again.range()), (1, 120..=610));
    again.store(8);
    map.oracle.store(120..=610, 8);
    map.agree();
    let erase = map.map.plan_clear(0..=300).unwrap();
    map.map.reserve_erase(erase.clone()).unwrap().erase();
    map.oracle.clear_range(0..=300);
    map.agree();
    let again = map.map.reserve_erase(erase).unwrap();
    assert_eq!(again.nodes(), 0, "the range is already clear");
    again.erase();
    map.agree();
}

#[test]
fn a_plan_of_another_map_is_made_anew() {
    let (one, mut other) = (comb(20), comb(20));
    // The same number of plans in each map, for different changes.
    let plan = one.map.plan_store(120..=610, &7).unwrap();
    other.map.plan_store(1_000..=1_900, &7).unwrap();
    let before = other.map.memory().nodes_made;
    let reservation = other.map.reserve(plan).unwrap();
    assert_eq!(reservation.range(), 120..=610);
    let nodes = reservation.nodes() as u64;
    reservation.store(8);
    other.oracle.store(120..=610, 8);
    other.agree();
    assert_eq!(other.map.memory().nodes_made - before, nodes);
    let plan = one.map.plan_clear(120..=610).unwrap();
    other.map.plan_store(1_000..=1_900, &7).unwrap();
    other.map.reserve_erase(plan).unwrap().erase();
    other.oracle.clear_range(120..=610);
    other.agree();
    one.agree();
}

#[test]
fn a_reserved_erase_of_nothing_does_nothing() {
    let map = comb(3);
    let plan = map.map.plan_remove(60);
    assert_eq!((plan.nodes(), plan.range()), (0, None));
    let reservation = map.map.reserve_erase(plan).unwrap();
    assert_eq!(reservation.nodes(), 0);
    reservation.erase();
    map.agree();
}

#[test]
fn a_planned_allocation_is_where_it_was_planned() {
    let mut map = comb(60);
    for v in 0..40 {
        let plan = map.map.plan_alloc(10, 500..=5_999, &v).unwrap();
        let range = plan.range();
        assert_eq!(Some(range.clone()), map.oracle.find_gap(10, 1, 500..=5_999));
        // The place is taken before the reservation is made: the reservation finds another.
        if v % 3 == 0 {
            map.store(range.clone(), 1_000);
        }
        let wanted = map.oracle.find_gap(10, 1, 500..=5_999).unwrap();
        let reservation = map.map.reserve(plan).unwrap();
        assert_eq!(reservation.range(), wanted);
        reservation.store(v);
        map.oracle.store(wanted, v);
        map.agree();
    }
}

#[test]
fn a_reservation_for_stores_that_are_not_known_yet() {
    let mut map = comb(80);
    let mut rng = fastrand::Rng::with_seed(4);
    for k in [1, 2, 8, 20] {
        let mut unknown = map.map.reserve_unknown(k).unwrap();
        for v in 0..k as u64 {
            assert_eq!(unknown.remaining(), k - v as usize);
            // Other writers work meanwhile: the lock is free.
            let other = rng.u64(0..8_000);
            map.map.store(other..=other + 30, 5).unwrap();
            map.oracle.store(other..=other + 30, 5);
            let start = rng.u64(0..8_000);
            let range = start..=start + rng.u64(0..1_000);
            if v % 5 == 4 {
                unknown.clear_range(range.clone()).unwrap();
                map.oracle.clear_range(range);
            } else {
                unknown.store(range.clone(), v).unwrap();
                map.oracle.store(range, v);
            }
            map.agree();
        }
        assert_eq!(unknown.remaining(), 0);
        let rejected = unknown.store(0..=9, 77).unwrap_err();
        assert_eq!(rejected.value, 77);
        assert!(matches!(rejected.error, Error::ReservationUsedUp));
        map.agree();
        drop(unknown);
        assert_eq!(map.map.memory().reserved, (0, 0));
    }
}

/// Reserved stores succeed in an arena that has no room for anything else.
#[test]
fn reserved_stores_succeed_in_a_full_arena() {
    let options = |limit| loud().limit(limit);
    let build = |options: ArenaOptions| MapleMap::builder().nodes(128, 4).options(options).build();
    for limit in [32 << 10, 48 << 10] {
        let map: MapleMap<u64> = build(options(limit));
        // A stalled reader keeps garbage from being reused.
        let mut reader = map.reader("stalled").unwrap();
        for i in 0..40 {
            map.store(100 * i..=100 * i + 49, i).unwrap();
        }
        reader.quiescent();
        map.reclaim(usize::MAX);
        let plans = [10..=20, 60..=2_000, 0..=MAX].map(|range: Range| {
            let unknown = map.reserve_unknown(1).unwrap();
            (range, unknown)
        });
        let mut i = 0;
        while map.store(100 * i + 60..=100 * i + 70, 500).is_ok() {
            i += 1;
        }
        let mut oracle = Checked::new(map.clone());
        for (v, (range, mut unknown)) in plans.into_iter().enumerate() {
            let full = map.store(60..=61, 501).is_err();
            if !full {
                oracle.oracle.store(60..=61, 501);
            }
            unknown.store(range.clone(), v as u64).unwrap();
            oracle.oracle.store(range, v as u64);
            oracle.agree();
        }
        assert_eq!(listed(&map), [(0..=MAX, 2)]);
        reader.quiescent();
    }
}

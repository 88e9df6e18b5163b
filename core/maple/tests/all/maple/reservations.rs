//! Plans and reservations, used and unused.

use sapwood::maple::Error;
use sapwood::maple::MapleMap;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

use crate::support::maple::{Pair, Way, run, small, tiny_nodes, usual_nodes};
use crate::support::steps::steps;

/// A map filled by some operations.
fn filled(tiny: bool, seed: u64) -> Pair<u64, impl Fn(u64) -> u64> {
    let map = if tiny {
        tiny_nodes(small())
    } else {
        usual_nodes(small())
    };
    let mut pair = Pair::new(map, |n: u64| n);
    let n = steps(400).max(40);
    let stores = RangeOps::new(Domain::Bytes, seed).filter(|op| matches!(op, RangeOp::Store(..)));
    run(&mut pair, stores.take(n), n);
    pair
}

/// Bytes of the arena in use, without garbage and kept free blocks.
fn held(map: &MapleMap<u64>) -> usize {
    map.reclaim(usize::MAX);
    let memory = map.memory();
    assert_eq!(memory.waiting, (0, 0));
    memory.arena.live - memory.pooled
}

#[test]
fn every_store_by_an_exact_reservation() {
    for tiny in [true, false] {
        let mut pair = filled(tiny, 1);
        for (i, op) in RangeOps::new(Domain::Bytes, 2)
            .take(steps(1_500))
            .enumerate()
        {
            pair.try_step_by(Way::Reserved, &op).unwrap();
            if i % 16 == 0 {
                pair.agree();
            }
        }
        pair.agree();
    }
}

#[test]
fn every_store_by_a_reservation_of_unknown_ranges() {
    for tiny in [true, false] {
        let mut pair = filled(tiny, 3);
        for (i, op) in RangeOps::new(Domain::Bytes, 4).take(steps(800)).enumerate() {
            pair.try_step_by(Way::Unknown, &op).unwrap();
            if i % 16 == 0 {
                pair.agree();
            }
        }
        pair.agree();
        assert_eq!(pair.map.memory().reserved, (0, 0));
    }
}

#[test]
fn a_stale_plan_is_made_again() {
    for tiny in [true, false] {
        let mut pair = filled(tiny, 5);
        let mut others = RangeOps::new(Domain::Bytes, 6).filter(RangeOp::writes);
        let mut changed = 0;
        let stores = RangeOps::new(Domain::Bytes, 7);
        let stores = stores.filter(|op| matches!(op, RangeOp::Store(..)) && !op.is_bad());
        for op in stores.take(steps(300).max(10)) {
            let RangeOp::Store(range, value) = op else {
                unreachable!("filtered")
            };
            let plan = pair.map.plan_store(range.clone(), &value).unwrap();
            let erase = pair.map.plan_remove(*range.end());
            let clear = pair.map.plan_clear(range.clone()).unwrap();
            let planned = plan.nodes();
            for other in others.by_ref().take(3) {
                pair.step(&other);
            }
            let fresh = pair.map.plan_store(range.clone(), &value).unwrap().nodes();
            changed += usize::from(fresh != planned);
            let before = pair.made();
            let reservation = pair.map.reserve(plan).unwrap();
            assert_eq!(reservation.nodes(), fresh);
            reservation.store(value);
            assert_eq!(pair.made() - before, fresh as u64);
            pair.model.store(range.clone(), value);
            pair.agree();

            // The plan is stale since the store, which now covers the index: the plan erases that
            // entry.
            let before = pair.made();
            let index = *range.end();
            let fresh = pair.map.plan_remove(index).nodes() as u64;
            pair.map.reserve_erase(erase).unwrap().erase();
            assert_eq!(pair.made() - before, fresh);
            assert_eq!(pair.model.remove(index), Some((range.clone(), value)));
            pair.agree();

            let before = pair.made();
            let fresh = pair.map.plan_clear(range.clone()).unwrap().nodes() as u64;
            pair.map.reserve_erase(clear).unwrap().erase();
            assert_eq!(pair.made() - before, fresh);
            pair.model.clear_range(range);
            pair.agree();
        }
        assert!(changed > 0 || steps(300) < 300, "plans change with the map");
    }
}

#[test]
fn a_reservation_to_erase_nothing_erases_nothing() {
    let map: MapleMap<u64> = tiny_nodes(small());
    map.store(0..=9, 1).unwrap();
    let plan = map.plan_remove(50);
    assert_eq!((plan.nodes(), plan.bytes(), plan.range()), (0, 0, None));
    let reservation = map.reserve_erase(plan).unwrap();
    assert_eq!((reservation.nodes(), reservation.bytes()), (0, 0));
    reservation.erase();
    assert_eq!(map.get_entry(0), Some((0..=9, 1)));
    let plan = map.plan_clear(50..=60).unwrap();
    assert_eq!((plan.nodes(), plan.bytes()), (0, 0));
    map.reserve_erase(plan).unwrap().erase();
    map.verify().unwrap();
    assert_eq!(map.len(), 1);
}

#[test]
fn a_plan_serves_more_than_once() {
    for tiny in [true, false] {
        let mut pair = filled(tiny, 12);
        let plan = pair.map.plan_store(100..=2_000, &1).unwrap();
        drop(pair.map.reserve(plan.clone()).unwrap());
        for value in [1, 2, 3] {
            let fresh = pair.map.plan_store(100..=2_000, &1).unwrap().nodes();
            let before = pair.made();
            let reservation = pair.map.reserve(plan.clone()).unwrap();
            assert_eq!(reservation.nodes(), fresh);
            reservation.store(value);
            assert_eq!(pair.made() - before, fresh as u64);
            pair.model.store(100..=2_000, value);
            pair.agree();
        }
        let clear = pair.map.plan_clear(1_000..=2_500).unwrap();
        for _ in 0..2 {
            let reservation = pair.map.reserve_erase(clear.clone()).unwrap();
            reservation.erase();
            pair.model.clear_range(1_000..=2_500);
            pair.agree();
        }
    }
}

#[test]
fn a_plan_for_another_map_is_made_again() {
    let (from, to) = (filled(true, 13), filled(true, 14));
    let [from, mut to] = [from, to];
    // Both maps have drafted the same number of plans.
    let copies = [from.map.dup().unwrap(), to.map.dup().unwrap()];
    let plans = copies
        .each_ref()
        .map(|map| map.plan_store(50..=3_000, &1).unwrap());
    assert_ne!(plans[0].nodes(), 0);
    let reservation = copies[1].reserve(plans[0].clone()).unwrap();
    assert_eq!(reservation.nodes(), plans[1].nodes());
    let made = copies[0].memory().nodes_made;
    reservation.store(1);
    assert_eq!(copies[0].memory().nodes_made, made);
    copies[1].verify().unwrap();
    to.model.store(50..=3_000, 1);
    assert!(
        copies[1].read(|view| view
            .iter()
            .map(|(range, value)| (range, *value))
            .collect::<Vec<_>>())
            == to.model.to_vec()
    );
    from.agree();
}

#[test]
fn a_plan_of_a_place_that_was_taken_finds_another() {
    let map: MapleMap<u64> = tiny_nodes(small());
    map.store(10..=19, 0).unwrap();
    let plan = map.plan_alloc(8, 0..=99, &1).unwrap();
    assert_eq!(plan.range(), 0..=7);
    map.store(4..=25, 1).unwrap();
    let reservation = map.reserve(plan.clone()).unwrap();
    assert_eq!(reservation.range(), 26..=33);
    reservation.store(1);
    assert_eq!(map.get_entry(30), Some((26..=33, 1)));
    map.store(0..=99, 2).unwrap();
    let refused = map.reserve(plan).map(|_| ()).unwrap_err();
    assert_eq!(refused, Error::NoGap { size: 8 });
    assert_eq!(map.len(), 1);
    map.verify().unwrap();
}

#[test]
fn a_reservation_that_is_kept_serves_among_other_changes() {
    for tiny in [true, false] {
        let mut pair = filled(tiny, 15);
        let mut kept = pair.map.reserve_unknown(0).unwrap();
        for (i, op) in RangeOps::new(Domain::Clusters, 16)
            .take(steps(1_200))
            .enumerate()
        {
            if kept.remaining() == 0 {
                kept = pair.map.reserve_unknown(1 + i % 12).unwrap();
            }
            match &op {
                RangeOp::Store(range, value) if i % 3 == 0 && !op.is_bad() => {
                    kept.store(range.clone(), *value).unwrap();
                    pair.model.store(range.clone(), *value);
                }
                RangeOp::ClearRange(range) if !op.is_bad() => {
                    kept.clear_range(range.clone()).unwrap();
                    pair.model.clear_range(range.clone());
                }
                _ => pair.step(&op),
            }
            if i % 8 == 0 {
                pair.agree();
            }
        }
        drop(kept);
        pair.agree();
        assert_eq!(pair.map.memory().reserved, (0, 0));
    }
}

#[test]
fn what_is_not_used_goes_back() {
    for tiny in [true, false] {
        let pair = filled(tiny, 8);
        let map = &pair.map;
        let before = held(map);
        for range in [0..=u64::MAX, 100..=4000, 17..=17, u64::MAX..=u64::MAX] {
            let plan = map.plan_store(range.clone(), &1).unwrap();
            let reservation = map.reserve(plan).unwrap();
            assert!(reservation.nodes() > 0);
            drop(reservation);
            let memory = map.memory();
            assert_eq!(memory.reserved, (0, 0), "{range:?}");
            let clear = map.plan_clear(range).unwrap();
            drop(map.reserve_erase(clear).unwrap());
            drop(map.reserve_erase(map.plan_remove(17)).unwrap());
        }
        for k in [0, 1, 50] {
            let reservation = map.reserve_unknown(k).unwrap();
            assert_eq!(reservation.remaining(), k);
            let (nodes, bytes) = map.memory().reserved;
            assert!(
                nodes >= k && bytes >= 64 * nodes,
                "{nodes} nodes, {bytes} bytes for {k}"
            );
            drop(reservation);
            assert_eq!(map.memory().reserved, (0, 0));
        }
        assert_eq!(held(map), before);
        pair.agree();
    }
}

#[test]
fn a_reservation_of_unknown_ranges_keeps_up_with_a_tree_that_grows() {
    for tiny in [true, false] {
        let map = if tiny {
            tiny_nodes(small())
        } else {
            usual_nodes(small())
        };
        let mut pair = Pair::new(map, |n: u64| n);
        let k = steps(30).max(6);
        let mut reservation = pair.map.reserve_unknown(k).unwrap();
        let flat = pair.map.memory().height;
        // After each store of the reservation, other stores raise the tree.
        let mut rng = fastrand::Rng::with_seed(9);
        for i in 0..k as u64 {
            let wide = if i % 5 == 4 { 1 << 38 } else { 500 };
            let start = rng.u64(..1 << 40);
            let range = start..=start + rng.u64(..wide);
            reservation.store(range.clone(), i).unwrap();
            pair.model.store(range, i);
            for _ in 0..steps(40).max(4) {
                let start = rng.u64(..1 << 40);
                pair.step(&RangeOp::Store(start..=start + rng.u64(..500), i));
            }
            pair.agree();
        }
        assert!(pair.map.memory().height >= flat + 2 || steps(40) < 40);
        assert_eq!(reservation.remaining(), 0);
        let error = reservation.clear_range(0..=1).unwrap_err();
        assert_eq!(error, Error::ReservationUsedUp);
        drop(reservation);
        assert_eq!(pair.map.memory().reserved, (0, 0));
    }
}

#[test]
fn two_reservations_of_unknown_ranges_do_not_share() {
    let mut pair = filled(true, 10);
    let mut first = pair.map.reserve_unknown(5).unwrap();
    let (one, _) = pair.map.memory().reserved;
    let mut second = pair.map.reserve_unknown(5).unwrap();
    // The worst case of ten stores may be more than twice that of five: the tree may be higher by
    // then.
    assert!(pair.map.memory().reserved.0 >= 2 * one);
    for i in 0..5 {
        for (reservation, at) in [(&mut first, 40), (&mut second, 4_000)] {
            reservation.store(at + i * 3..=at + i * 3, i).unwrap();
            pair.model.store(at + i * 3..=at + i * 3, i);
        }
    }
    pair.agree();
    assert!(first.store(0..=0, 0).is_err() && second.store(0..=0, 0).is_err());
    drop((first, second));
    assert_eq!(pair.map.memory().reserved, (0, 0));
}

#[test]
fn plans_of_bad_arguments_are_refused() {
    let pair = filled(true, 11);
    let backwards = std::ops::RangeInclusive::new(9, 3);
    let refused = Error::EmptyRange { start: 9, end: 3 };
    let map = &pair.map;
    assert_eq!(
        map.plan_store(backwards.clone(), &0).err(),
        Some(refused.clone())
    );
    assert_eq!(
        map.plan_clear(backwards.clone()).err(),
        Some(refused.clone())
    );
    let mut unknown = map.reserve_unknown(1).unwrap();
    assert_eq!(unknown.store(backwards, 0).unwrap_err().error, refused);
    assert_eq!(unknown.remaining(), 1, "no node was used");
    assert_eq!(map.plan_alloc(0, 0..=9, &0).err(), Some(Error::ZeroSize));
    let window = Error::WindowTooSmall {
        size: 10,
        start: 5,
        end: 9,
    };
    assert_eq!(map.plan_alloc(10, 5..=9, &0).err(), Some(window));
    assert_eq!(map.plan_remove(1 << 50).nodes(), 0, "the index is free");
}

/// A plan for a free range is refused when an entry has come between, and only then.
#[test]
fn plans_for_free_ranges() {
    let map = tiny_nodes::<u64>(small());
    let mut rng = fastrand::Rng::with_seed(2);
    for turn in 0..steps(1_000) as u64 {
        let start = rng.u64(..400);
        let range = start..=start + rng.u64(..9);
        let there = map.range(range.clone()).next().map(|(entry, _)| entry);
        let occupied = |entry: std::ops::RangeInclusive<u64>| Error::Occupied {
            start: *entry.start(),
            end: *entry.end(),
        };
        let plan = match (map.plan_insert_new(range.clone(), &turn), there) {
            (Ok(plan), None) => plan,
            (planned, Some(entry)) => {
                assert_eq!(planned.err(), Some(occupied(entry)));
                let _ = map.remove(rng.u64(..400));
                continue;
            }
            (planned, None) => panic!("{planned:?}"),
        };
        if turn % 2 == 0 {
            let other = rng.u64(..400);
            map.store(other..=other, turn).unwrap();
        }
        let between = map.range(range.clone()).next().map(|(entry, _)| entry);
        match (map.reserve(plan), between) {
            (Ok(reserved), None) => reserved.store(turn),
            (Err(error), Some(entry)) => assert_eq!(error, occupied(entry)),
            (reserved, between) => panic!("{reserved:?}, {between:?}"),
        }
        map.verify().unwrap();
    }
    // An allocation keeps its place, or says that somebody has taken it.
    let map = tiny_nodes::<u64>(small());
    let plan = map.plan_alloc(10, 0..=99, &1).unwrap().if_free();
    map.store(50..=50, 2).unwrap();
    let reserved = map.reserve(plan).unwrap();
    assert_eq!(reserved.range(), 0..=9);
    reserved.store(1);
    let plan = map.plan_alloc(10, 0..=99, &3).unwrap();
    map.store(10..=10, 4).unwrap();
    assert_eq!(map.reserve(plan).unwrap().range(), 11..=20);
}

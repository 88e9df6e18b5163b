//! Memory that runs out: a change completes or changes nothing, and reserved memory is available.

use sapwood::arena::ArenaOptions;
use sapwood::maple::Error;
use sapwood::maple::MapleMap;
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

use crate::support::ledger::Ledger;
use crate::support::maple::{Pair, Range, is_memory, loud, small, tiny_nodes, usual_nodes};
use crate::support::steps::steps;

/// Makes copies and reservations, some of which fail; the map does not change.
fn copies_and_reservations(pair: &mut Pair<u64, impl Fn(u64) -> u64>, range: &Range) -> usize {
    let mut failures = 0;
    match pair.map.dup() {
        Ok(copy) => {
            copy.verify().unwrap();
            assert_eq!(copy.len(), pair.map.len());
            let contents = |map: &MapleMap<u64>| -> Vec<_> {
                map.read(|view| view.iter().map(|(range, value)| (range, *value)).collect())
            };
            assert_eq!(contents(&copy), contents(&pair.map));
        }
        Err(error) => {
            is_memory(error);
            failures += 1;
        }
    }
    let plan = pair.map.plan_store(range.clone(), &7).unwrap();
    match pair.map.reserve(plan) {
        Ok(reservation) => {
            reservation.store(7);
            pair.model.store(range.clone(), 7);
        }
        Err(error) => {
            is_memory(error);
            failures += 1;
        }
    }
    pair.agree();
    match pair.map.reserve_unknown(2) {
        Ok(mut reservation) => {
            // Failing allocations do not affect a kept reservation.
            for value in [8, 9] {
                reservation.store(range.clone(), value).unwrap();
                pair.model.store(range.clone(), value);
            }
        }
        Err(error) => {
            is_memory(error);
            failures += 1;
        }
    }
    pair.agree();
    assert_eq!(pair.map.memory().reserved, (0, 0));
    failures
}

#[test]
fn every_nth_request_fails() {
    for n in (1..24).step_by(if cfg!(miri) { 11 } else { 1 }) {
        let options = || loud().fail_every(n);
        let map = if n % 2 == 0 {
            tiny_nodes(options())
        } else {
            usual_nodes(options())
        };
        let mut pair = Pair::new(map, |n: u64| n);
        let mut failures = 0;
        let domain = [Domain::Bytes, Domain::Tiny, Domain::Clusters][n as usize % 3];
        for (i, op) in RangeOps::new(domain, n).take(steps(240)).enumerate() {
            if let Err(error) = pair.try_step(&op) {
                is_memory(error);
                failures += 1;
            }
            pair.agree();
            if let (RangeOp::Store(range, _), 0, false) = (&op, i % 8, op.is_bad()) {
                failures += copies_and_reservations(&mut pair, range);
            }
        }
        assert!(failures > 0 || cfg!(miri), "n = {n}");
    }
}

#[test]
fn every_nth_request_fails_and_no_value_is_lost() {
    static LEDGER: Ledger = Ledger::new();
    for n in 2..8 {
        let map = tiny_nodes(loud().fail_every(n));
        let mut pair = Pair::new(map, |n: u64| LEDGER.value(n as u32));
        for op in RangeOps::new(Domain::Bytes, n).take(steps(240)) {
            if let Err(error) = pair.try_step(&op) {
                is_memory(error);
            }
            pair.agree();
        }
        drop(pair);
        assert_eq!(LEDGER.alive(), 0, "n = {n}");
    }
}

/// Stores at new places until the arena is full, also after all garbage was reclaimed.
fn fill(map: &MapleMap<u64>, model: &mut RangeMap<u64>, rng: &mut fastrand::Rng) {
    let mut refused = 0;
    while refused < 8 {
        let start = rng.u64(..1 << 40);
        let range = start..=start + rng.u64(..1000);
        match map.store(range.clone(), 1) {
            Ok(()) => model.store(range, 1),
            Err(rejected) => {
                is_memory(rejected);
                map.reclaim(usize::MAX);
                refused += 1;
            }
        }
    }
}

fn limited(tiny: bool, limit: usize) -> MapleMap<u64> {
    let options = small().limit(limit);
    match tiny {
        true => tiny_nodes(options),
        false => usual_nodes(options),
    }
}

fn same(map: &MapleMap<u64>, model: &RangeMap<u64>) {
    map.verify().unwrap();
    let expected = model.to_vec();
    map.read(|view| {
        let found = view.iter().map(|(range, value)| (range, *value));
        assert!(found.eq(expected.iter().cloned()));
    });
}

#[test]
fn stores_reserved_before_the_arena_was_full_succeed() {
    for (tiny, limit, k) in [
        (true, 64 << 10, 12),
        (false, 96 << 10, 6),
        (true, 12 << 10, 3),
    ] {
        for seed in 0..steps(4).max(1) as u64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let map = limited(tiny, limit);
            let mut model = RangeMap::new();
            for i in 0..20 {
                map.store(i << 20..=(i << 20) + 99, 0).unwrap();
                model.store(i << 20..=(i << 20) + 99, 0);
            }
            // The worst cases may need more memory than there is.
            let Ok(mut reservation) = map.reserve_unknown(k) else {
                assert!(limit < 20 << 10, "{k} reserved in {limit}");
                continue;
            };
            fill(&map, &mut model, &mut rng);
            same(&map, &model);
            for left in (0..k).rev() {
                let start = rng.u64(..1 << 40);
                let wide = if left % 7 == 3 { 1 << 36 } else { 2000 };
                let range = start..=start + rng.u64(..wide);
                if left % 5 == 4 {
                    reservation.clear_range(range.clone()).unwrap();
                    model.clear_range(range);
                } else {
                    reservation.store(range.clone(), 2).unwrap();
                    model.store(range, 2);
                }
                assert_eq!(reservation.remaining(), left);
                same(&map, &model);
            }
            let rejected = reservation.store(0..=9, 3).unwrap_err();
            assert_eq!(
                (rejected.value, rejected.error),
                (3, Error::ReservationUsedUp)
            );
            drop(reservation);
            assert_eq!(map.memory().reserved, (0, 0));
            same(&map, &model);
        }
    }
}

#[test]
fn an_exact_reservation_is_there_or_refused_at_the_edge_of_a_full_arena() {
    for tiny in [true, false] {
        let mut rng = fastrand::Rng::with_seed(11);
        let map = limited(tiny, 32 << 10);
        let mut model = RangeMap::new();
        fill(&map, &mut model, &mut rng);
        let (mut made, mut refused) = (0, 0);
        for turn in 0..steps(600).max(20) as u64 {
            let start = rng.u64(..1 << 40);
            let widest = 1 << rng.u32(0..36);
            let range = start..=start + rng.u64(..widest);
            let plan = map.plan_store(range.clone(), &turn).unwrap();
            match map.reserve(plan) {
                Ok(reservation) => {
                    reservation.store(turn);
                    model.store(range, turn);
                    made += 1;
                }
                Err(error) => {
                    is_memory(error);
                    refused += 1;
                }
            }
            same(&map, &model);
            if turn % 3 == 0 {
                map.reclaim(usize::MAX);
            }
        }
        let few = steps(600) < 600;
        assert!(
            made > 0 && (refused > 0 || few),
            "{made} made, {refused} refused"
        );
    }
}

#[test]
fn a_full_map_is_emptied_and_filled_again() {
    let mut rng = fastrand::Rng::with_seed(12);
    let map = limited(true, 24 << 10);
    let mut model = RangeMap::new();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        fill(&map, &mut model, &mut rng);
        same(&map, &model);
        lengths.push(map.len());
        map.clear().unwrap();
        model.clear();
        map.reclaim(usize::MAX);
        same(&map, &model);
        assert_eq!(map.memory().entries, 0);
    }
    assert!(lengths.iter().all(|n| *n > 50), "{lengths:?}");
}

#[test]
fn an_arena_too_small_for_anything() {
    for bytes in [0, 64, 128] {
        let map: MapleMap<u64> = usual_nodes(ArenaOptions::limit(small(), bytes));
        is_memory(map.store(1..=2, 3).unwrap_err());
        is_memory(map.insert_new(1..=2, 3).unwrap_err());
        is_memory(map.reserve_unknown(1).map(|_| ()).unwrap_err());
        let plan = map.plan_store(1..=2, &3).unwrap();
        is_memory(map.reserve(plan).map(|_| ()).unwrap_err());
        map.clear_range(0..=9).unwrap();
        assert_eq!(map.remove(1).unwrap(), None);
        assert!(map.is_empty());
        map.verify().unwrap();
    }
}

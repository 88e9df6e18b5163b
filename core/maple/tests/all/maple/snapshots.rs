//! Snapshots compared with copies of the model: each stays equal to the map at the time of the
//! snapshot, whatever happens to the map.

use std::time::Duration;

use sapwood::maple::Error;
use sapwood::maple::{MapleMap, MapleSnapshot};
use sapwood::qsbr::{Domain, StallKind};
use sapwood_model::oracle::RangeMap;
use sapwood_model::range_ops::{Domain as Indices, RangeOps};

use super::first_seed;
use crate::support::ledger::Ledger;
use crate::support::maple::{Number, Pair, is_memory, loud, tiny_nodes, usual_nodes};
use crate::support::ranges::Checked;
use crate::support::steps::steps;

/// A snapshot, with the model at the time of the snapshot.
struct Kept<V: Number> {
    snapshot: MapleSnapshot<V>,
    model: RangeMap<u64>,
}

impl<V: Number> Kept<V> {
    fn new<M: Fn(u64) -> V>(pair: &Pair<V, M>) -> Self {
        Kept {
            snapshot: pair.map.snapshot(),
            model: pair.model.clone(),
        }
    }

    fn agree(&self, rng: &mut fastrand::Rng) {
        let (view, model) = (self.snapshot.view(), &self.model);
        assert_eq!(view.len(), model.len());
        let expected = model.to_vec();
        let owned = |(range, value): (_, &V)| (range, value.number());
        assert!(view.iter().map(owned).eq(expected.iter().cloned()));
        let folded = view.iter().fold(0, |count, _| count + 1);
        assert_eq!(folded, expected.len());
        let back = view.iter().rev().map(owned);
        assert!(back.eq(expected.iter().rev().cloned()));
        let gaps = model.gaps(0..=u64::MAX);
        assert!(view.gaps(0..=u64::MAX).eq(gaps.iter().cloned()));
        for gap in gaps.iter().take(4) {
            // The largest size that fits there, and the next larger one, which does not.
            for size in [
                gap.end() - gap.start(),
                (gap.end() - gap.start()).saturating_add(1),
            ] {
                let size = size.max(1);
                let found = model.find_gap(size, 1, 0..=u64::MAX);
                assert_eq!(view.find_gap(size, 0..=u64::MAX), found);
            }
        }
        for (range, _) in expected.iter().take(8) {
            let index = range.start().saturating_add(rng.u64(0..4));
            assert_eq!(view.get(index).map(V::number), model.get(index).copied());
            let (place, value) = view.locate(index);
            let (there, number) = model.locate(index);
            assert_eq!((place, value.map(V::number)), (there, number.copied()));
            let next = model
                .next_after(index)
                .map(|(range, value)| (range, *value));
            assert_eq!(view.next_after(index).map(owned), next);
        }
    }
}

/// Runs operations while some snapshots are made and dropped.
fn beside_snapshots<V: Number>(
    map: MapleMap<V>,
    make: impl Fn(u64) -> V,
    domain: Indices,
    ops: usize,
) {
    let mut rng = fastrand::Rng::with_seed(first_seed());
    let mut pair = Pair::new(map, make);
    let mut kept: Vec<Kept<V>> = Vec::new();
    for op in RangeOps::new(domain, first_seed()).take(ops) {
        if rng.u8(0..8) == 0 && kept.len() < 4 {
            kept.push(Kept::new(&pair));
        }
        if rng.u8(0..16) == 0 && !kept.is_empty() {
            kept.swap_remove(rng.usize(0..kept.len()));
        }
        pair.step(&op);
        if rng.u8(0..4) == 0 {
            pair.map.reclaim(usize::MAX);
        }
        pair.agree();
        assert_eq!(pair.map.snapshots(), kept.len());
        kept.iter().for_each(|kept| kept.agree(&mut rng));
    }
    // The snapshots are still readable after the map is dropped.
    let Pair { map, .. } = pair;
    drop(map);
    kept.iter().for_each(|kept| kept.agree(&mut rng));
}

#[test]
fn versions_stay() {
    for domain in Indices::ALL {
        beside_snapshots(tiny_nodes(loud()), |n| n, domain, steps(700));
        beside_snapshots(usual_nodes(loud()), |n| n, domain, steps(400));
    }
}

#[test]
fn values_stay_and_are_dropped_once() {
    static LEDGER: Ledger = Ledger::new();
    for domain in [Indices::Tiny, Indices::Bytes, Indices::Dense] {
        let make = |n| LEDGER.value(n as u32);
        beside_snapshots(tiny_nodes(loud()), make, domain, steps(500));
        assert_eq!(LEDGER.alive(), 0);
    }
}

/// Plans count the copies that snapshots require, and reservations have blocks for them.
#[test]
fn plans_stay_exact() {
    let mut checked = Checked::new(tiny_nodes::<u64>(loud()));
    let mut rng = fastrand::Rng::with_seed(7);
    let mut copied = 0;
    for i in 0..steps(400) as u64 {
        let start = rng.u64(0..3_000);
        let range = start..=start + rng.u64(0..30);
        let plain = checked.map.plan_store(range.clone(), &i).unwrap();
        let snapshot = (i % 3 > 0).then(|| checked.map.snapshot());
        let plan = checked.map.plan_store(range.clone(), &i).unwrap();
        assert!(plan.nodes() >= plain.nodes());
        copied += plan.nodes() - plain.nodes();
        // A plan older than the snapshot is made anew.
        let reservation = checked.map.reserve(plain).unwrap();
        assert_eq!(reservation.nodes(), plan.nodes());
        drop(reservation);
        let made = checked.store(range, i);
        assert_eq!(made, plan.nodes());
        drop(snapshot);
    }
    assert!(copied > 0, "snapshots make changes copy");
}

/// Changes reserved before the snapshot have room for the copies that it requires.
#[test]
fn a_snapshot_comes_between() {
    for seed in 0..20 {
        let mut pair = Pair::new(tiny_nodes(loud()), |n: u64| n);
        for op in RangeOps::new(Indices::Bytes, seed).take(steps(150)) {
            pair.step(&op);
        }
        let mut reserved = pair.map.reserve_unknown(40).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut kept = Vec::new();
        for i in 0..40 {
            if i % 10 == 5 {
                kept.push(Kept::new(&pair));
            }
            let start = rng.u64(0..4_000);
            let range = start..=start + rng.u64(0..200);
            let before = pair.map.memory().arena;
            reserved.store(range.clone(), i).unwrap();
            let after = pair.map.memory().arena;
            assert!(after.frontier <= before.frontier && after.live <= before.live);
            pair.model.store(range, i);
            pair.agree();
            kept.iter().for_each(|kept| kept.agree(&mut rng));
        }
    }
}

#[test]
fn requests_fail_beside_snapshots() {
    for n in (1..16).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let mut pair = Pair::new(tiny_nodes(loud().fail_every(n)), |n: u64| n);
        let mut kept: Vec<Kept<u64>> = Vec::new();
        let mut rng = fastrand::Rng::with_seed(n);
        let mut failures = 0;
        for (i, op) in RangeOps::new(Indices::Bytes, n)
            .take(steps(240))
            .enumerate()
        {
            if i % 16 == 0 {
                kept.truncate(2);
                kept.insert(0, Kept::new(&pair));
            }
            if let Err(error) = pair.try_step(&op) {
                is_memory(error);
                failures += 1;
            }
            pair.agree();
            kept.iter().for_each(|kept| kept.agree(&mut rng));
        }
        assert!(failures > 0 || steps(240) < 240);
    }
}

/// The memory that a snapshot holds back is counted, reported, and freed when the snapshot is
/// dropped.
#[test]
fn snapshots_count_as_garbage() {
    let domain = Domain::builder()
        .hard_limit(64 << 10)
        .stall_after(Duration::ZERO)
        .build();
    let map: MapleMap<u64> = MapleMap::builder().domain(&domain).build();
    for i in 0..200 {
        map.store(i * 10..=i * 10 + 4, i).unwrap();
    }
    map.reclaim(usize::MAX);
    let first = map.snapshot();
    let second = first.clone();
    let mut stored = 0;
    let refused = loop {
        match map.store(stored % 200 * 10..=stored % 200 * 10 + 4, stored) {
            Ok(()) => stored += 1,
            Err(rejected) => break rejected,
        }
        assert!(stored < 10_000, "the limit holds");
    };
    assert!(matches!(refused.error, Error::GarbageLimit(_)), "{refused}");
    assert!(domain.garbage() <= 64 << 10);
    assert!(stored > 10);
    let oldest = map.oldest_snapshot().unwrap();
    assert_eq!(oldest.bytes, map.memory().waiting.1);
    let stalls = domain.stalls();
    let stall = stalls
        .iter()
        .find(|stall| stall.kind == StallKind::Snapshot);
    let stall = stall.expect("the stall is reported");
    assert_eq!((stall.generations, stall.bytes), (stored, oldest.bytes));
    assert_eq!(map.snapshots(), 2);
    drop(first);
    assert_eq!(second.view().len(), 200);
    assert!(map.store(0..=4, 0).is_err());
    drop(second);
    assert_eq!((map.snapshots(), map.oldest_snapshot()), (0, None));
    map.store(0..=4, 0).unwrap();
    map.reclaim(usize::MAX);
    assert_eq!(map.memory().waiting, (0, 0));
    map.verify().unwrap();
    // No copy is needed any more: the store replaces one leaf.
    assert_eq!(map.plan_store(0..=4, &1).unwrap().nodes(), 1);
}

/// This test is small enough for Miri: snapshots of boxed values, read after their entries are
/// gone.
#[test]
fn a_small_map_stays() {
    let map: MapleMap<(Box<u64>, u64)> = tiny_nodes(loud());
    let value = |n| (Box::new(n), n);
    for i in 0..30 {
        map.store(i * 4..=i * 4 + 1, value(i)).unwrap();
    }
    let before = map.snapshot();
    for i in 0..30 {
        map.store(i * 4 + 1..=i * 4 + 2, value(100 + i)).unwrap();
    }
    let between = map.write().snapshot();
    map.clear().unwrap();
    map.reclaim(usize::MAX);
    let first: Vec<_> = before
        .view()
        .iter()
        .map(|(range, v)| (range, v.1))
        .collect();
    assert!(
        first
            .into_iter()
            .eq((0..30).map(|i| (i * 4..=i * 4 + 1, i)))
    );
    assert_eq!(between.view().len(), 60);
    assert_eq!(between.view().get(2).map(|v| *v.0), Some(100));
    let elsewhere = std::thread::spawn(move || before.view().len());
    assert_eq!(elsewhere.join().unwrap(), 30);
    drop(between);
    map.reclaim(usize::MAX);
    assert_eq!(map.memory().waiting, (0, 0));
}

//! Transactions compared with the oracle: what they see, what readers see meanwhile, commits, and
//! what is left when they are dropped.

use crate::support::ledger::Ledger;
use crate::support::maple::{
    Number, Pair, Range, is_memory, loud, small, tiny_nodes, transaction, usual_nodes,
};
use crate::support::steps::steps;
use sapwood::maple::{Error, MapleMap};
use sapwood_model::oracle;
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

type Model = oracle::RangeMap<u64>;

/// Runs groups of operations in transactions, of which two of three are committed.
fn transactions<V: Number>(
    map: &dyn Fn() -> MapleMap<V>,
    make: impl Fn(u64) -> V + Copy,
    ops: usize,
) {
    for (seed, domain) in (1..).zip(Domain::ALL) {
        let mut pair = Pair::new(map(), make);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut ops = RangeOps::new(domain, seed).take(steps(ops)).peekable();
        let mut snapshots = Vec::new();
        while ops.peek().is_some() {
            let most = rng.usize(1..20);
            let group: Vec<RangeOp> = ops.by_ref().take(most).collect();
            if rng.u8(..8) == 0 {
                snapshots.push((pair.map.snapshot(), pair.model.to_vec()));
            }
            transaction(&mut pair, &group, rng.u8(..3) > 0);
            pair.agree();
            if rng.u8(..8) == 0 {
                if let Some((snapshot, entries)) = snapshots.pop() {
                    let seen = snapshot.view().iter().map(|(range, v)| (range, v.number()));
                    assert!(seen.eq(entries));
                }
            }
        }
        drop(snapshots);
        pair.map.reclaim(usize::MAX);
        pair.agree();
        assert_eq!(pair.map.memory().waiting, (0, 0));
    }
}

#[test]
fn numbers_in_tiny_nodes() {
    transactions(&|| tiny_nodes(loud()), |n| n, 3_000);
}

#[test]
fn numbers_in_usual_nodes() {
    transactions(&|| usual_nodes(small()), |n| n, 3_000);
}

#[test]
fn each_value_is_dropped_once() {
    static LEDGER: Ledger = Ledger::new();
    transactions(&|| tiny_nodes(loud()), |n| LEDGER.value(n as u32), 2_000);
    assert_eq!(LEDGER.alive(), 0);
}

/// Every nth request of memory fails: the change that fails is not made, the others are.
#[test]
fn every_nth_request_fails() {
    for n in 1..40 {
        let map = tiny_nodes::<(Box<u64>, u64)>(small().fail_every(n));
        let mut pair = Pair::new(map, |n| (Box::new(n), n));
        let mut ops = RangeOps::new(Domain::Pages, n).take(steps(300)).peekable();
        let mut failed = 0;
        while ops.peek().is_some() {
            let mut model = pair.model.clone();
            let mut txn = pair.map.begin();
            for op in ops.by_ref().filter(RangeOp::writes).take(7) {
                let mut after = model.clone();
                let expected = op.apply(&mut after);
                match pair.change_in(&mut txn, &op) {
                    Ok(outcome) => {
                        assert_eq!(outcome, expected, "{op:?}");
                        model = after;
                    }
                    Err(error) => {
                        is_memory(error);
                        failed += 1;
                    }
                }
                txn.verify().unwrap();
            }
            txn.commit();
            pair.model = model;
            pair.agree();
        }
        assert!(failed > 0 || n > 10, "{n}");
    }
}

/// The model of a change of values, and of a move.
fn modified(model: &Model, range: &Range, by: u64) -> Model {
    let mut changed = model.clone();
    for (entry, value) in model.range(range.clone()) {
        let part = *entry.start().max(range.start())..=*entry.end().min(range.end());
        changed.store_coalescing(part, value / by);
    }
    changed
}

fn moved(model: &Model, range: &Range, to: u64) -> Model {
    let mut changed = model.clone();
    changed.clear_range(range.clone());
    changed.clear_range(to..=to + (range.end() - range.start()));
    for (entry, value) in model.range(range.clone()) {
        let from = entry.start().max(range.start()) - range.start() + to;
        let until = entry.end().min(range.end()) - range.start() + to;
        changed.store(from..=until, *value);
    }
    changed
}

#[test]
fn ranges_are_modified_and_moved_whole() {
    let mut rng = fastrand::Rng::with_seed(9);
    let mut pair = Pair::new(tiny_nodes(loud()), |n: u64| n);
    for turn in 0..steps(1_500) {
        let from = rng.u64(..400);
        let range = from..=from + rng.u64(..60);
        match turn % 5 {
            0 => {
                let by = rng.u64(1..4);
                pair.map
                    .modify_range(range.clone(), |_, value| value / by)
                    .unwrap();
                pair.model = modified(&pair.model, &range, by);
            }
            1 => {
                let to = rng.u64(..400);
                pair.map.move_range(range.clone(), to).unwrap();
                pair.model = moved(&pair.model, &range, to);
            }
            _ => {
                let value = rng.u64(..6);
                pair.map.store(range.clone(), value).unwrap();
                pair.model.store(range, value);
            }
        }
        pair.agree();
    }
    let refused = pair.map.move_range(0..=9, u64::MAX - 5);
    assert!(
        matches!(refused, Err(Error::WindowTooSmall { size: 10, .. })),
        "{refused:?}"
    );
    pair.agree();
}

/// A change of a value that panics leaves the map as it was.
#[test]
fn a_function_that_panics_changes_nothing() {
    let map = MapleMap::from_iter((0..100).map(|i| (10 * i..=10 * i + 5, i)));
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.modify_range(0..=500, |range, value| {
            assert!(*range.start() < 300, "enough");
            value + 1_000
        })
    }));
    assert!(changed.is_err());
    map.verify().unwrap();
    assert!(map.iter().eq((0..100).map(|i| (10 * i..=10 * i + 5, i))));
}

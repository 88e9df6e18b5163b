//! The range map compared with its naive oracle: answers, contents, invariants, and exact plans,
//! after every step.
//!
//! Each test is a short run; `SAPWOOD_OPS` shortens it, `SAPWOOD_SEED` sets the first seed.

mod drops;
mod faults;
mod files;
mod kills;
mod lists;
mod published;
mod reservations;
mod snapshots;
mod splits;
mod txns;

use crate::support::ledger::{Counted, Ledger};
use crate::support::maple::{Number, Pair, loud, run, small, tiny_nodes, usual_nodes};
use crate::support::steps::steps;
use sapwood::maple::MapleMap;
use sapwood_model::data::ranges::{
    Change, Pages, dense_256, pages, pages_1m_30erase, sparse_256, traces, vma,
};
use sapwood_model::range_ops::{Domain, RangeOp, RangeOps};

impl Number for Counted {
    fn number(&self) -> u64 {
        u64::from(self.tag)
    }
}

fn first_seed() -> u64 {
    let seed = std::env::var("SAPWOOD_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("SAPWOOD_SEED is a number"))
}

/// Runs over every domain; returns the greatest height of a tree.
fn every_domain<V: Number>(
    map: impl Fn() -> MapleMap<V>,
    make: impl Fn(u64) -> V + Copy,
    ops: usize,
    every: usize,
) -> usize {
    let heights = Domain::ALL.into_iter().map(|domain| {
        let mut pair = Pair::new(map(), make);
        let ops = RangeOps::new(domain, first_seed()).take(steps(ops));
        run(&mut pair, ops, every).1
    });
    heights.max().unwrap_or(0)
}

#[test]
fn numbers_in_tiny_nodes() {
    let height = every_domain(|| tiny_nodes(loud()), |n| n, 2_000, 1);
    assert!(height >= 4 || steps(2_000) < 2_000, "height {height}");
}

#[test]
fn numbers_in_usual_nodes() {
    let height = every_domain(|| usual_nodes(small()), |n| n, 2_000, 1);
    assert!(height >= 1 || steps(2_000) < 2_000, "height {height}");
}

#[test]
fn values_in_tiny_nodes() {
    static LEDGER: Ledger = Ledger::new();
    every_domain(|| tiny_nodes(loud()), |n| LEDGER.value(n as u32), 1_000, 1);
    assert_eq!(LEDGER.alive(), 0);
}

#[test]
fn values_in_usual_nodes() {
    static LEDGER: Ledger = Ledger::new();
    every_domain(
        || usual_nodes(small()),
        |n| LEDGER.value(n as u32),
        1_000,
        4,
    );
    assert_eq!(LEDGER.alive(), 0);
}

/// The model's operation for a change of a workload.
fn op_of(change: &Change, value: u64) -> RangeOp {
    match change {
        Change::Store(range) => RangeOp::Store(range.clone(), value),
        Change::Insert(range) => RangeOp::Insert(range.clone(), value),
        Change::Alloc { size, within, .. } => RangeOp::Alloc {
            size: *size,
            align: 1,
            within: within.clone(),
            highest: false,
            value,
        },
        Change::Erase(range) => RangeOp::Erase(*range.start()),
        Change::Clear(range) => RangeOp::ClearRange(range.clone()),
    }
}

fn follow(
    map: MapleMap<u64>,
    initial: &[std::ops::RangeInclusive<u64>],
    changes: impl Iterator<Item = Change>,
    every: usize,
) -> Pair<u64, fn(u64) -> u64> {
    let mut pair = Pair::new(map, (|n| n) as fn(u64) -> u64);
    for (i, range) in initial.iter().enumerate() {
        pair.step(&RangeOp::Insert(range.clone(), i as u64));
    }
    pair.agree();
    let first = initial.len() as u64;
    let ops = changes.zip(first..).map(|(change, i)| op_of(&change, i));
    run(&mut pair, ops, every);
    pair
}

#[test]
fn traces_of_address_spaces() {
    for trace in traces() {
        for map in [tiny_nodes(loud()), usual_nodes(small())] {
            let changes = trace.changes.iter().take(steps(1000).max(60));
            let pair = follow(map, &[], changes.cloned(), 1);
            assert!(pair.map.len() > 5, "{}", trace.name);
        }
    }
}

#[test]
fn workloads() {
    let n = steps(600).max(20);
    for map in [|| tiny_nodes(loud()), || usual_nodes(small())] {
        let Pages { shuffled, .. } = pages(n, 1);
        follow(map(), &shuffled, std::iter::empty(), 1);
        let space = vma(n, 1);
        follow(map(), &space.initial, space.changes.take(n), 16);
        let wide = pages_1m_30erase(2 * n, 1);
        follow(map(), &[], wide.into_iter(), 16);
        for (initial, changes) in [
            (
                sparse_256(1).initial,
                sparse_256(1).changes.take(n).collect(),
            ),
            (
                dense_256(1).initial,
                dense_256(1).changes.take(n).collect::<Vec<_>>(),
            ),
        ] {
            follow(map(), &initial, changes.into_iter(), 16);
        }
    }
}

/// The map is large enough for two levels above leaves of the usual size.
#[test]
fn a_large_map() {
    let n = steps(4_000).max(60);
    let mut pair = Pair::new(usual_nodes(small()), |n: u64| n);
    for (i, range) in pages(n, 2).shuffled.into_iter().enumerate() {
        pair.map.insert_new(range.clone(), i as u64).unwrap();
        pair.model.store(range, i as u64);
    }
    pair.agree();
    assert!(pair.map.memory().height >= 2 || n < 4_000);
    let ops = RangeOps::new(Domain::Pages, 3).take(steps(400));
    run(&mut pair, ops, 40);
    pair.step(&RangeOp::ClearRange(0..=u64::MAX));
    pair.agree();
}

/// Leaves with every number of entries and every width of offsets: a lookup finds each entry and
/// each gap.
fn found_while_a_leaf_fills<V: Number>(make: impl Fn(u64) -> V) {
    for stride in [3, 4096, 1 << 20, 1 << 45] {
        let map = usual_nodes(small());
        for n in 0..if cfg!(miri) { 10 } else { 100 } {
            map.store(n * stride + 1..=n * stride + 2, make(n)).unwrap();
            for i in 0..=n {
                let at = i * stride;
                assert_eq!(
                    map.get(at + 1).map(|v| v.number()),
                    Some(i),
                    "{n} of {stride}"
                );
                assert_eq!(
                    map.get(at + 2).map(|v| v.number()),
                    Some(i),
                    "{n} of {stride}"
                );
                assert!(!map.contains(at), "{n} of {stride}");
            }
        }
        map.verify().unwrap();
    }
}

#[test]
fn leaves_of_all_lengths() {
    found_while_a_leaf_fills(|n| n);
    found_while_a_leaf_fills(|n| (Box::new(n), n));
}

//! Operations on a range map with poisoned memory. The naive oracle checks every answer. Every step
//! is followed by a check of all invariants, and each plan is compared with the nodes made. The
//! first byte chooses the kind of map, the size of nodes and whether values own memory, or makes
//! the operations in transactions; the second the indices.
#![no_main]

#[path = "../../../core/sapwood/tests/support"]
mod support {
    pub mod maple;
    pub mod owned;
    pub mod spaces;
}

use libfuzzer_sys::fuzz_target;
use sapwood::maple::RangeMap;
use sapwood_model::range_ops::{RangeOp, RangeOps};
use support::maple::{Number, Pair, loud, loud_heap, run, tiny_nodes, transaction, usual_nodes};
use support::owned::{OwnedPair, tiny_owned};

fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first() else {
        return;
    };
    let ops = RangeOps::from_bytes(rest).take(400);
    let value = |n: u64| (Box::new(n), n);
    match how % 16 {
        0..3 => drop(run(&mut Pair::new(tiny_nodes(loud()), |n: u64| n), ops, 1)),
        3..6 => drop(run(&mut Pair::new(usual_nodes(loud()), |n: u64| n), ops, 1)),
        6 => drop(run(&mut Pair::new(tiny_nodes(loud()), value), ops, 1)),
        7 => drop(run(&mut Pair::new(usual_nodes(loud()), value), ops, 1)),
        8..10 => owned(OwnedPair::new(tiny_owned(loud_heap()), |n: u64| n), ops),
        10 => owned(OwnedPair::new(RangeMap::new(), |n: u64| n), ops),
        11 => owned(OwnedPair::new(tiny_owned(loud_heap()), value), ops),
        12..14 => transactions(Pair::new(tiny_nodes(loud()), |n: u64| n), ops),
        14 => transactions(Pair::new(usual_nodes(loud()), |n: u64| n), ops),
        _ => transactions(Pair::new(tiny_nodes(loud()), value), ops),
    };
});

fn owned<V: Number, M: Fn(u64) -> V>(
    mut pair: OwnedPair<V, M>,
    ops: impl Iterator<Item = RangeOp>,
) {
    for (turn, op) in ops.enumerate() {
        pair.step(turn, &op);
        pair.agree();
    }
}

fn transactions<V: Number, M: Fn(u64) -> V>(
    mut pair: Pair<V, M>,
    ops: impl Iterator<Item = RangeOp>,
) {
    let ops: Vec<RangeOp> = ops.collect();
    for (turn, group) in ops.chunks(7).enumerate() {
        transaction(&mut pair, group, turn % 3 > 0);
        pair.agree();
    }
}

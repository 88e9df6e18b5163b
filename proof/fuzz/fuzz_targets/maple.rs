//! Operations on a range map with poisoned memory. The naive oracle checks every answer. Every step
//! is followed by a check of all invariants, and each plan is compared with the nodes made. The
//! first byte chooses the size of nodes and whether values own memory, the second the indices.
#![no_main]

#[path = "../../../core/sapwood/tests/support/maple.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use sapwood_model::range_ops::RangeOps;
use support::{Pair, loud, run, tiny_nodes, usual_nodes};

fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first() else {
        return;
    };
    let ops = RangeOps::from_bytes(rest).take(400);
    let value = |n: u64| (Box::new(n), n);
    match how % 8 {
        0..3 => run(&mut Pair::new(tiny_nodes(loud()), |n: u64| n), ops, 1),
        3..6 => run(&mut Pair::new(usual_nodes(loud()), |n: u64| n), ops, 1),
        6 => run(&mut Pair::new(tiny_nodes(loud()), value), ops, 1),
        _ => run(&mut Pair::new(usual_nodes(loud()), value), ops, 1),
    };
});

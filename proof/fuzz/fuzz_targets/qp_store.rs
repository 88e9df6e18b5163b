//! Transactions, rollbacks, snapshots, differences, steps of compaction and reclamation, in an
//! order that the input chooses; the versions are compared with the naive oracle's.
#![no_main]

#[path = "../../../core/sapwood/tests/support/mod.rs"]
mod support;
#[path = "../../../core/sapwood/tests/support/values.rs"]
mod values;

use libfuzzer_sys::fuzz_target;
use sapwood::arena::{Backing, DebugMode};
use sapwood::qp::QpStore;
use sapwood_fuzz::Input;

fn run<V: ?Sized + support::Value>(input: &Input<'_>) {
    // Forbidding freed pages is the strictest check, and the slowest.
    let debug = match input.below(8) {
        0 => DebugMode::Protect,
        _ => DebugMode::Poison,
    };
    let options = support::loud()
        .debug(debug)
        .backing(Backing::Mmap { reserve: 1 << 30 });
    let store = QpStore::<V>::builder().options(options).build().unwrap();
    support::run_store(
        &store,
        input.ops(300, 100_000),
        |n| input.below(n),
        usize::MAX,
    );
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match bytes.len() % 2 {
        0 => run::<u64>(&input),
        _ => run::<[u8]>(&input),
    }
});

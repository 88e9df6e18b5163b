//! Operations on an owned map with poisoned memory, with or without a point index. The naive oracle
//! checks every answer, and every step is followed by a check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/mod.rs"]
mod support;
#[path = "../../../core/sapwood/tests/support/values.rs"]
mod values;

use libfuzzer_sys::fuzz_target;
use sapwood::qp::QpMap;
use sapwood_fuzz::Input;

fn run<V: ?Sized + support::Value>(input: &Input<'_>, index: bool) {
    let mut map = QpMap::<V>::with_options(support::loud()).unwrap();
    if index {
        map.add_index();
    }
    support::run_map(&mut map, input.ops(400, 200_000), usize::MAX);
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    let index = bytes.len() % 2 == 1;
    match bytes.len() / 2 % 2 {
        0 => run::<u64>(&input, index),
        _ => run::<[u8]>(&input, index),
    }
});

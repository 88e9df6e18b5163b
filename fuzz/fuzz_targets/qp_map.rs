//! Operations on an owned map with poisoned memory, with or without a point index, every answer
//! compared with the naive oracle's, every invariant checked after every step.
#![no_main]

#[path = "../../crates/sapwood/tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use sapwood::qp::QpMap;
use sapwood_fuzz::Input;

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    let mut map = QpMap::with_options(support::loud()).unwrap();
    if bytes.len() % 2 == 1 {
        map.add_index();
    }
    support::run_map(&mut map, input.ops(400, 200_000), usize::MAX);
});

//! Operations on a table of routes with groups of next hops, while a reader holds its findings.
//! Answers are the naive oracle's; every step is followed by a check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/route_table.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use model::run_table;
use sapwood_fuzz::Input;

fuzz_target!(|bytes: &[u8]| {
    run_table(&mut Input::new(bytes), 200, 1);
});

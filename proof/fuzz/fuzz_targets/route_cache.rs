//! Operations on a route cache, with a clock that advances, jumps ahead and steps back. Answers are
//! the naive oracle's; with more keys than slots, a lookup may also miss. Every step is followed by
//! a check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/route_cache.rs"]
mod rules;

use libfuzzer_sys::fuzz_target;
use rules::{builder, run_cache};
use sapwood_fuzz::Input;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let capacity = [0, 1, 7, 16, 20, 33, 8, 8][input.below(8)];
    let keys = [40, 8][input.below(2)];
    let flight = input.below(2) == 0;
    let cache = builder(capacity).threads(2).single_flight(flight);
    run_cache(cache, capacity, keys, &mut input, 400, 1);
});

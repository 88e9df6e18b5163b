//! Operations on a point map by every equivalent method, with readers and pins that hold entries,
//! and allocations that fail. The naive oracle checks the answers, and every step is followed by a
//! check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/values.rs"]
mod values;
#[path = "../../../core/sapwood/tests/support/writers.rs"]
mod writers;

use libfuzzer_sys::fuzz_target;
use sapwood::qp::PointMap;
use sapwood_fuzz::Input;
use writers::{Value, run_writers};

fn run<V: ?Sized + Value>(input: &Input<'_>) {
    let ((options, small), (domain, limited)) = (input.arena(), input.domain());
    let mut builder = PointMap::<V>::builder().options(options).domain(&domain);
    if input.below(4) == 0 {
        builder = builder.max_entries(1 + input.below(40));
    }
    let scarce = small || limited;
    let Ok(map) = builder.build() else {
        return assert!(scarce);
    };
    let ops = input.ops(400, 100_000);
    run_writers(&map, ops, |n| input.below(n), usize::MAX, scarce);
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match input.below(3) {
        0 => run::<Box<u64>>(&input),
        1 => run::<[u8]>(&input),
        _ => run::<u64>(&input),
    }
});

//! Operations on a table of IPv4 or IPv6 prefixes, with transactions, snapshots, readers that hold
//! their findings, and allocations that fail. The naive oracle checks the answers, and every step
//! is followed by a check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/steps.rs"]
mod steps;
#[path = "../../../core/sapwood/tests/support/lpm.rs"]
mod table;

use libfuzzer_sys::fuzz_target;
use sapwood::lpm::{Fib, V4, V6};
use sapwood_fuzz::Input;
use table::{Kind, run_fib};

fn run<F: Kind>(mut input: Input<'_>) {
    let ((options, small), (domain, limited)) = (input.arena(), input.domain());
    let bits = [12, 6, 6, 6][input.below(4)];
    let builder = Fib::<F, u32>::builder()
        .root_bits(bits)
        .options(options)
        .domain(&domain);
    run_fib(builder, &mut input, 300, 1, small || limited);
}

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match input.below(2) {
        0 => run::<V4>(input),
        _ => run::<V6>(input),
    }
});

//! Transactions on a table of bit strings, with snapshots, a reader that holds its findings, and
//! allocations that fail. The naive oracle checks the answers, and every transaction is followed by
//! a check of all invariants.
#![no_main]

#[path = "../../../core/sapwood/tests/support/bits.rs"]
mod bits;

use bits::run_bits;
use libfuzzer_sys::fuzz_target;
use sapwood::lpm::BitFib;
use sapwood_fuzz::Input;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let ((options, small), (domain, limited)) = (input.arena(), input.domain());
    let scarce = small || limited;
    let choice = input.below(8);
    let lens = [2030..=2048, 0..=2048, 0..=9, 0..=40][choice % 4].clone();
    if choice < 4 {
        let builder = BitFib::<Box<usize>>::builder().options(options);
        let built = builder.domain(&domain).build();
        run_bits(built, &mut input, 150, 1, lens, 40, scarce);
    } else {
        let builder = BitFib::<usize>::builder().options(options);
        let built = builder.domain(&domain).build_inline();
        run_bits(built, &mut input, 150, 1, lens, 40, scarce);
    }
});

//! Lists of operations that proptest generates, and shrinks when one fails.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sapwood_model::range_ops::RangeOp;

use crate::support::maple::{Pair, loud, run, small, tiny_nodes, usual_nodes};

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: crate::support::steps::steps(100) as u32,
        failure_persistence: (!cfg!(miri))
            .then(|| Box::new(FileFailurePersistence::WithSource("regressions")) as Box<_>),
        ..ProptestConfig::default()
    }
}

/// Few indices, at both ends and in the middle, so that ranges overlap.
fn any_index() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..60_u64,
        1 => (u64::MAX - 20)..=u64::MAX,
        1 => (0..40_u64).prop_map(|i| (1 << 32) + i * 1000),
    ]
}

fn any_range() -> impl Strategy<Value = RangeInclusive<u64>> {
    let short = (any_index(), 0..6_u64).prop_map(|(i, n)| i..=i.saturating_add(n));
    let wide = (any_index(), any_index()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    prop_oneof![8 => short, 1 => wide]
}

fn any_op() -> impl Strategy<Value = RangeOp> {
    let value = 0..3_u64;
    let align = (0..5_u32).prop_map(|bit| 1 << bit);
    let place = (1..9_u64, align, any_range(), any::<bool>()).boxed();
    let alloc =
        (place.clone(), value.clone()).prop_map(|((size, align, within, highest), value)| {
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            }
        });
    let find = place.prop_map(|(size, align, within, highest)| RangeOp::FindGap {
        size,
        align,
        within,
        highest,
    });
    let cyclic = (1..9_u64, any_range(), any_index(), value.clone()).prop_map(
        |(size, within, next, value)| RangeOp::AllocCyclic {
            size,
            within,
            next,
            value,
        },
    );
    let stored = || (any_range(), 0..3_u64);
    prop_oneof![
        12 => stored().prop_map(|(range, value)| RangeOp::Store(range, value)),
        3 => stored().prop_map(|(range, value)| RangeOp::StoreCoalescing(range, value)),
        4 => stored().prop_map(|(range, value)| RangeOp::Insert(range, value)),
        4 => any_index().prop_map(RangeOp::Erase),
        3 => any_range().prop_map(RangeOp::ClearRange),
        1 => Just(RangeOp::Clear),
        3 => alloc,
        1 => cyclic,
        1 => any_index().prop_map(RangeOp::Locate),
        1 => any_index().prop_map(RangeOp::NextAfter),
        1 => any_index().prop_map(RangeOp::PrevBefore),
        1 => any_range().prop_map(RangeOp::Range),
        1 => any_range().prop_map(RangeOp::Gaps),
        1 => find,
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_operations(ops in prop::collection::vec(any_op(), 0..100), tiny: bool) {
        let map = if tiny { tiny_nodes(loud()) } else { usual_nodes(small()) };
        let mut pair = Pair::new(map, |n: u64| n);
        let n = ops.len();
        prop_assert_eq!(run(&mut pair, ops, 1).0, n);
    }
}

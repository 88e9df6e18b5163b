//! Aggregated tables: every answer is that of the whole table, and no smaller table has the same.

use std::collections::HashMap;

use sapwood::lpm::ipnet::IpNet;
use sapwood::lpm::{Fib, IpFib, V4, V6, aggregate};
use sapwood_model::oracle::{Lpm, Prefix};

use crate::support::lpm::{Kind, address, builder, entries, prefix, steps};

/// The fewest prefixes below a place, for each value that it may inherit; `values` has those of its
/// addresses. Found by trying all.
fn fewest(
    values: &[Option<u32>],
    inherited: Option<u32>,
    known: &mut HashMap<(usize, usize, Option<u32>), usize>,
) -> usize {
    let place = (values.as_ptr() as usize, values.len(), inherited);
    if let Some(count) = known.get(&place) {
        return *count;
    }
    // Without a prefix here, or with one for each value.
    let mut best = usize::MAX;
    let ways = [(inherited, 0)]
        .into_iter()
        .chain((0..4).map(|value| (Some(value), 1)));
    for (has, cost) in ways {
        let below = match values {
            [value] if *value == has => 0,
            [_] => continue,
            _ => {
                let (low, high) = values.split_at(values.len() / 2);
                let (low, high) = (fewest(low, has, known), fewest(high, has, known));
                if low == usize::MAX || high == usize::MAX {
                    continue;
                }
                low + high
            }
        };
        best = best.min(cost + below);
    }
    known.insert(place, best);
    best
}

/// Tables of a space of `bits` bits behind `skip` zeros.
fn small<F: Kind>(skip: u8, bits: u8, rounds: usize, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let mut oracle = Lpm::new(F::WIDTH);
        for _ in 0..1 + round % 14 {
            let len = rng.u8(0..=bits);
            let at = Prefix::truncated(rng.u128(..) >> skip, skip + len);
            oracle.insert(at, rng.u32(0..4));
        }
        let all = oracle.iter().map(|(p, v)| (F::net(p), *v));
        let fib: Fib<F, u32> = builder(6).build_from(all).unwrap();
        let snapshot = fib.snapshot();
        let found = snapshot.aggregated();
        assert!(found.is_sorted());
        let mut small = Lpm::new(F::WIDTH);
        for (net, value) in &found {
            assert_eq!(small.insert(F::prefix(*net), **value), None);
        }
        let values: Vec<Option<u32>> = (0..1_u128 << bits)
            .map(|low| {
                let address = low << (128 - skip - bits);
                let value = oracle.lookup(address).map(|found| *found.1);
                assert_eq!(small.lookup(address).map(|found| *found.1), value);
                value
            })
            .collect();
        let least = fewest(&values, None, &mut HashMap::new());
        assert_eq!(found.len(), least, "{:?}\n{found:?}", entries(&snapshot));
    }
}

#[test]
fn no_table_is_smaller() {
    small::<V4>(0, 4, steps(400), 1);
    small::<V4>(28, 4, steps(200), 2);
    small::<V6>(61, 6, steps(200), 3);
    small::<V6>(122, 6, steps(200), 4);
}

fn answers<F: Kind>(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..steps(40) {
        let mut oracle = Lpm::new(F::WIDTH);
        for _ in 0..1 + round * 3 {
            oracle.insert(prefix::<F>(&mut rng), rng.u32(0..3));
        }
        let all = oracle.iter().map(|(p, v)| (F::net(p), *v));
        let fib: Fib<F, u32> = builder(12).build_from(all).unwrap();
        let snapshot = fib.snapshot();
        let found = snapshot.aggregated();
        assert!(found.len() <= oracle.len());
        let mut small = Lpm::new(F::WIDTH);
        for (net, value) in &found {
            small.insert(F::prefix(*net), **value);
        }
        let same = |address: u128| {
            let value = oracle.lookup(address).map(|found| *found.1);
            assert_eq!(small.lookup(address).map(|found| *found.1), value);
        };
        for _ in 0..200 {
            same(address(&mut rng));
        }
        // The ends of all prefixes, and what is right outside.
        let step = 1_u128 << (128 - u32::from(F::WIDTH));
        for (p, _) in oracle.iter() {
            let last = p.bits | u128::MAX.checked_shr(p.len.into()).unwrap_or(0);
            for at in [
                p.bits,
                p.bits.wrapping_sub(step),
                last,
                last.wrapping_add(step),
            ] {
                same(at & !(step - 1));
            }
        }
        // What is aggregated stays as it is.
        let again = found.iter().map(|(net, value)| (*net, **value));
        let again: Fib<F, u32> = builder(6).build_from(again).unwrap();
        assert_eq!(again.snapshot().aggregated().len(), found.len());
    }
}

#[test]
fn every_answer_is_that_of_the_whole_table() {
    answers::<V4>(5);
    answers::<V6>(6);
}

#[test]
fn both_families_and_equal_prefixes() {
    let net = |text: &str| -> IpNet { text.parse().unwrap() };
    let routes = [
        (net("2001:db8::/33"), "a"),
        (net("10.0.0.1/8"), "b"),
        (net("2001:db8:8000::/33"), "a"),
        (net("10.0.0.0/8"), "c"),
        (net("11.0.0.0/8"), "c"),
        (net("::/0"), "a"),
    ];
    let expected = [(net("10.0.0.0/7"), "c"), (net("::/0"), "a")];
    assert_eq!(aggregate(routes), expected);
    let fib = IpFib::from_iter(routes.map(|(net, value)| (net.trunc(), value)));
    let expected = expected.each_ref().map(|(net, value)| (*net, value));
    assert_eq!(fib.snapshot().aggregated(), expected);
    assert!(aggregate::<u32>([]).is_empty());
    let all: Vec<_> = (0..=255_u8)
        .map(|i| (IpNet::new([10, 0, 0, i].into(), 32).unwrap(), 7))
        .collect();
    assert_eq!(aggregate(all), [(net("10.0.0.0/24"), 7)]);
}

//! Compares every installed engine with the oracle.

use fastrand::Rng;
use sapwood_model::oracle::RangeMap;

use super::*;

/// The number of indices.
const WIDTH: u64 = 200;

/// Applies a change to the oracle; returns its answers.
fn apply(oracle: &mut RangeMap<u64>, op: Op) -> Tally {
    let mut tally = Tally::default();
    match op {
        Op::Store { start, end, value } => oracle.store(start..=end, value),
        Op::Clear { start, end } => oracle.clear_range(start..=end),
        Op::Erase { index } => tally.add(oracle.remove(index).map(|(_, value)| value)),
        Op::Alloc { within, value } => {
            let place = gap(oracle, within);
            if let Some(start) = place {
                oracle.store(start..=start + within.size - 1, value);
            }
            tally.add(place);
        }
    }
    tally
}

fn gap(oracle: &RangeMap<u64>, Query { size, from, to }: Query) -> Option<u64> {
    let found = oracle.find_gap(size, 1, from..=to);
    found.map(|range| *range.start())
}

fn random_query(rng: &mut Rng) -> Query {
    let (a, b) = (rng.u64(..WIDTH), rng.u64(..WIDTH));
    // Some engines search from index 0 with other code.
    let from = if rng.bool() { 0 } else { a.min(b) };
    let to = a.max(b);
    let size = rng.u64(1..12).min(to - from + 1);
    Query { size, from, to }
}

fn random_op(rng: &mut Rng, value: u64, erases: bool) -> Op {
    let start = rng.u64(..WIDTH);
    let end = (start + rng.u64(..24)).min(WIDTH - 1);
    match rng.u8(..5) {
        0 if erases => Op::Erase { index: start },
        1 if erases => Op::Clear { start, end },
        2 => Op::Alloc {
            within: random_query(rng),
            value,
        },
        _ => Op::Store { start, end, value },
    }
}

#[test]
fn every_engine_does_as_the_oracle() {
    let indices: Vec<_> = (0..WIDTH).collect();
    let mut there = 0;
    for lane in lanes() {
        let name = lane.name;
        let mut built = match (lane.empty)() {
            Ok(built) => built,
            Err(reason) => {
                assert!(reason.ends_with(" is not installed"), "{name}: {reason}");
                continue;
            }
        };
        there += 1;
        let mut rng = Rng::with_seed(1);
        let mut oracle = RangeMap::new();
        for value in 0..500 {
            let op = random_op(&mut rng, value, lane.no_erase.is_none());
            let expected = apply(&mut oracle, op);
            assert_eq!(built.apply(&[op]), expected, "{name}: {op:?}");
            let entries = oracle
                .iter()
                .map(|(range, v)| (*range.start(), *range.end(), *v));
            assert_eq!(built.entries(), EntrySum::of(entries), "{name}: {op:?}");
            for _ in 0..5 {
                let query = random_query(&mut rng);
                let mut expected = Tally::default();
                expected.add(gap(&oracle, query));
                assert_eq!(built.gaps(&[query]), expected, "{name}: {query:?}");
            }
            if value % 10 == 0 {
                let answers = indices.iter().map(|index| oracle.get(*index).copied());
                assert!(answers.eq(built.answers(&indices)), "{name}");
                let expected = Tally::of(&indices, |index| oracle.get(index).copied());
                assert_eq!(built.loads(&indices), expected, "{name}");
                assert_eq!(built.loads_dependent(&indices), expected, "{name}");
            }
        }
    }
    assert!(there >= 5, "{there} engines");
}

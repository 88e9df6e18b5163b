//! Every engine that is here, against an array.

use fastrand::Rng;

use super::*;

/// How many indices there are.
const WIDTH: usize = 200;

/// An array with the value at each index.
struct Array {
    cells: [Option<u64>; WIDTH],
}

impl Array {
    fn apply(&mut self, op: Op, tally: &mut Tally) {
        let cells = &mut self.cells;
        match op {
            Op::Store { start, end, value } => {
                cells[start as usize..=end as usize].fill(Some(value));
            }
            Op::Clear { start, end } => cells[start as usize..=end as usize].fill(None),
            Op::Erase { index } => {
                let at = index as usize;
                tally.add(cells[at]);
                let Some(value) = cells[at] else { return };
                // Values are stored once: all that has it and is connected is one entry.
                let same = |cell: &&mut Option<u64>| **cell == Some(value);
                let (before, after) = cells.split_at_mut(at);
                let left: Vec<_> = before.iter_mut().rev().take_while(same).collect();
                left.into_iter().for_each(|cell| *cell = None);
                let right: Vec<_> = after.iter_mut().take_while(same).collect();
                right.into_iter().for_each(|cell| *cell = None);
            }
        }
    }

    fn entries(&self) -> Vec<(u64, u64, u64)> {
        let mut entries: Vec<(u64, u64, u64)> = Vec::new();
        for (at, cell) in self.cells.iter().enumerate() {
            let Some(value) = *cell else { continue };
            let at = at as u64;
            match entries.last_mut() {
                Some(last) if last.1 + 1 == at && last.2 == value => last.1 = at,
                _ => entries.push((at, at, value)),
            }
        }
        entries
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let fits = |start: &u64| {
            let end = start + size - 1;
            end <= to && (*start..=end).all(|at| self.cells[at as usize].is_none())
        };
        (from..=to).find(fits)
    }
}

/// A change of a few indices.
fn random_op(rng: &mut Rng, value: u64) -> Op {
    let start = rng.u64(..WIDTH as u64);
    let end = (start + rng.u64(..24)).min(WIDTH as u64 - 1);
    match rng.u8(..4) {
        0 => Op::Erase { index: start },
        1 => Op::Clear { start, end },
        _ => Op::Store { start, end, value },
    }
}

#[test]
fn every_engine_does_as_an_array() {
    let mut rng = Rng::with_seed(1);
    let indices: Vec<_> = (0..WIDTH as u64).collect();
    let queries: Vec<_> = (0..60)
        .map(|_| {
            let (a, b) = (rng.u64(..WIDTH as u64), rng.u64(..WIDTH as u64));
            // From the start is looked for in another way by some.
            let from = if rng.bool() { 0 } else { a.min(b) };
            Query { size: rng.u64(1..12), from, to: a.max(b) }
        })
        .collect();
    let mut there = 0;
    for lane in lanes() {
        let name = lane.name();
        let Ok(mut built) = lane.empty() else {
            assert_eq!(name, "absl-btree");
            continue;
        };
        there += 1;
        let mut array = Array { cells: [None; WIDTH] };
        for value in 0..600 {
            let mut op = random_op(&mut rng, value);
            if lane.no_erase().is_some() && !matches!(op, Op::Store { .. }) {
                op = Op::Store { start: value % 190, end: value % 190 + value % 3, value };
            }
            let mut tally = Tally::default();
            array.apply(op, &mut tally);
            assert_eq!(built.apply(&[op]), tally, "{name}: {op:?}");
            let expected = EntrySum::of(array.entries().into_iter());
            assert_eq!(built.entries(), expected, "{name}: {op:?}");
            if value % 7 == 0 {
                assert_eq!(built.answers(&indices), array.cells, "{name}");
                let of_array = Tally::of(&indices, |index| array.cells[index as usize]);
                assert_eq!(built.loads(&indices), of_array, "{name}");
                assert_eq!(built.loads_dependent(&indices), of_array, "{name}");
                for query in &queries {
                    let mut expected = Tally::default();
                    expected.add(array.gap(*query));
                    assert_eq!(built.gaps(&[*query]), expected, "{name}: {query:?}");
                }
            }
        }
    }
    assert!(there >= 5, "{there} engines");
}

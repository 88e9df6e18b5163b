//! Recorded address spaces: the mappings and unmappings that programs requested from the kernel, as
//! changes.

use std::ops::RangeInclusive;

use sapwood_model::data::ranges::PAGE;

use crate::ranges::{Op, Reference};

/// A recording of a compiler and the programs that it starts; each has an address space of its own.
pub(super) const CC: &str = include_str!("replay/cc.txt");
/// A recording of an interpreter.
pub(super) const PYTHON: &str = include_str!("replay/python.txt");

/// The last index of an address space: 47 bits.
const LAST: u64 = (1 << 47) - 1;

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    /// A program starts with an empty address space.
    Begin,
    /// A range is mapped, whatever it contained.
    Map(RangeInclusive<u64>),
    /// A range is unmapped, wherever entries begin and end.
    Unmap(RangeInclusive<u64>),
}

/// Reads a recording.
fn parse(text: &str) -> Result<Vec<Call>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| call(line).ok_or_else(|| format!("not a line of a recording: {line}")))
        .collect()
}

fn call(line: &str) -> Option<Call> {
    let mut words = line.split(' ');
    let op = words.next()?;
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    match (op, &numbers[..]) {
        ("x", []) => Some(Call::Begin),
        (op, [start, pages]) if *pages > 0 => {
            let range = start * PAGE..=(start + pages) * PAGE - 1;
            match op {
                "m" | "b" => Some(Call::Map(range)),
                "u" => Some(Call::Unmap(range)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The changes of a recording, repeated until there are at least `count`. The last pass ends where
/// the most entries are mapped; that state is read afterwards.
pub(super) fn changes(text: &str, count: usize) -> Vec<Op> {
    let calls = parse(text).expect("the recordings are in the repository");
    let peak = peak(&calls);
    let passes = count.saturating_sub(peak).div_ceil(calls.len());
    let all = (0..passes).flat_map(|_| &calls).chain(&calls[..peak]);
    ops(all)
}

/// The number of calls up to the largest number of entries.
fn peak(calls: &[Call]) -> usize {
    let mut map = Reference::default();
    let lengths = ops(calls).into_iter().map(|op| {
        crate::ranges::Built::apply(&mut map, &[op]);
        map.len()
    });
    let most = lengths.enumerate().max_by_key(|(_, length)| *length);
    most.map_or(0, |(at, _)| at + 1)
}

fn ops<'c>(calls: impl IntoIterator<Item = &'c Call>) -> Vec<Op> {
    let values = 1 << 32..;
    let ops = calls
        .into_iter()
        .zip(values)
        .map(|(call, value)| match call {
            Call::Begin => Op::Clear {
                start: 0,
                end: LAST,
            },
            Call::Map(range) => Op::Store {
                start: *range.start(),
                end: *range.end(),
                value,
            },
            Call::Unmap(range) => Op::Clear {
                start: *range.start(),
                end: *range.end(),
            },
        });
    ops.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Built;

    #[test]
    fn lines_are_calls() {
        let text = "# a comment\nx\nm 3 2\nb 16 1\nu 4 1\n";
        let page = |first: u64, last: u64| first * PAGE..=(last + 1) * PAGE - 1;
        let expected = [
            Call::Begin,
            Call::Map(page(3, 4)),
            Call::Map(page(16, 16)),
            Call::Unmap(page(4, 4)),
        ];
        assert_eq!(parse(text).unwrap(), expected);
        for wrong in ["x 1", "m 1", "m 1 0", "u 1 2 3", "q 1 2", "m one 2", ""] {
            assert!(parse(&format!("x\n{wrong}\n")).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn recordings_end_where_the_most_is_mapped() {
        for text in [CC, PYTHON] {
            let calls = parse(text).unwrap();
            assert!(calls.len() > 200 && calls[0] == Call::Begin);
            let changes = changes(text, 1_000);
            assert!((1_000..1_000 + calls.len()).contains(&changes.len()));
            let mut map = Reference::default();
            let mut most = 0;
            for change in &changes {
                map.apply(&[*change]);
                most = most.max(map.len());
            }
            assert!(map.len() == most && most >= 40, "{} of {most}", map.len());
            let (_, last, _) = *map.list().last().unwrap();
            assert!(last <= LAST);
        }
    }
}

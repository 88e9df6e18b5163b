//! The work of each case, and the expected answers.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use sapwood_model::data::ranges::{self as model, Change};

use super::{Options, replay};
use crate::ranges::{self, Built, EntrySum, Op, Query, Reference, Tally};

/// The cases.
pub(super) const CASES: [&str; 10] = [
    "1k",
    "100k",
    "1m",
    "bytes-1m",
    "vma",
    "pages-1m-30erase",
    "sparse-256",
    "dense-256",
    "replay-cc",
    "replay-python",
];

/// The work of one case.
pub(super) struct Work {
    /// The case.
    pub(super) name: &'static str,
    /// A description of the case, in a line for a report.
    pub(super) how: String,
    /// The initial contents of the map.
    pub(super) base: Vec<Op>,
    /// The changes that are timed.
    pub(super) changes: Vec<Op>,
    /// Whether the changes build the map that is read; otherwise it is read before them.
    pub(super) stream: bool,
    /// The indices to look up.
    pub(super) probes: Vec<u64>,
    /// Searches for a gap of a common size; empty for a map without gaps.
    pub(super) common: Vec<Query>,
    /// The same search, many times, for a gap that exists once.
    pub(super) rare: Vec<Query>,
    /// The time limit for that search.
    pub(super) patience: Duration,
    /// The answers of the reference.
    pub(super) expected: Expected,
}

/// The reference's answers.
pub(super) struct Expected {
    /// The answer to each probe.
    pub(super) answers: Vec<Option<u64>>,
    /// The checksum of all probes.
    pub(super) loads: Tally,
    /// The entries that are read.
    pub(super) entries: EntrySum,
    /// The checksum of the searches for common gaps.
    pub(super) common: Tally,
    /// The checksum of one search for the rare gap.
    pub(super) rare: Tally,
    /// The checksum of the erased values and of the gaps that the changes found.
    pub(super) changed: Tally,
    /// The entries after the changes.
    pub(super) left: EntrySum,
}

/// The initial contents and the changes of a case.
struct Plan {
    how: String,
    base: Vec<RangeInclusive<u64>>,
    changes: Vec<Op>,
    stream: bool,
}

impl Work {
    pub(super) fn new(name: &'static str, options: &Options) -> Self {
        let plan = plan(name, options);
        let base = stored(&plan.base);
        let mut built = Reference::default();
        built.apply(&base);
        let mut changed = Tally::default();
        if plan.stream {
            changed = built.apply(&plan.changes);
        }
        let entries = built.list();
        let (gaps, all) = gaps(&entries);
        let probes = probes(&entries, options.size(1_000_000, 20_000));
        let mut work = Self {
            name,
            how: plan.how,
            stream: plan.stream,
            common: common(&gaps, all, options.size(50_000, 2_000)),
            rare: rare(&gaps, all, options.size(1 << 16, 1 << 10)),
            patience: Duration::from_millis(options.size(50, 1) as u64),
            expected: Expected {
                answers: built.answers(&probes),
                loads: built.loads(&probes),
                entries: built.entries(),
                common: Tally::default(),
                rare: Tally::default(),
                changed,
                left: built.entries(),
            },
            base,
            changes: plan.changes,
            probes,
        };
        work.expected.common = built.gaps(&work.common);
        work.expected.rare = built.gaps(work.one_rare());
        if !plan.stream {
            work.expected.changed = built.apply(&work.changes);
            work.expected.left = built.entries();
        }
        work
    }

    /// One search for the rare gap, or none.
    pub(super) fn one_rare(&self) -> &[Query] {
        &self.rare[..self.rare.len().min(1)]
    }
}

fn plan(name: &str, options: &Options) -> Plan {
    let (base, changes, how);
    let stream = !matches!(name, "1k" | "100k" | "1m" | "bytes-1m");
    match name {
        "1k" | "100k" | "1m" => {
            let n = match name {
                "1k" => options.size(1_000, 1_000),
                "100k" => options.size(100_000, 10_000),
                _ => options.size(1_000_000, 30_000),
            };
            // One hundredth of the ranges lie behind the one wide gap.
            base = model::pages_with_rare_gaps(n, n - n / 100, 1).shuffled;
            changes = churn(&base, model::PAGE, count(options));
            how = format!(
                "{n} ranges of 1 to 16 pages, seven of ten behind a gap of the same kind, in random order"
            );
        }
        "bytes-1m" => {
            let n = options.size(1_000_000, 30_000);
            base = bytes(n);
            changes = churn(&base, 1, count(options));
            how = format!(
                "{n} ranges of 1 to 65536 bytes, seven of ten behind a gap of the same kind, in random order"
            );
        }
        "vma" => {
            let space = model::vma(options.size(1_000, 300), 1);
            changes = converted(space.changes.take(count(options)));
            how = format!(
                "an address space of {} ranges: exact erasures, inserts into gaps, lowest fits",
                space.initial.len()
            );
            base = space.initial;
        }
        "pages-1m-30erase" => {
            base = Vec::new();
            changes = converted(model::pages_1m_30erase(count(options), 1));
            how = "1 to 1M pages at random places of 47 bits, stored (70 %) or cleared, starting with an empty map".into();
        }
        "sparse-256" => {
            let small = model::sparse_256(1);
            base = small.initial;
            changes = converted(small.changes.take(count(options)));
            how = "256 ranges of 1 to 16 pages, 2^56 indices apart; 1 to 16 pages stored within 16 pages of one".into();
        }
        "replay-cc" => {
            base = Vec::new();
            changes = replay::changes(replay::CC, count(options));
            how =
                "recorded mappings of a C compiler, its assembler and its linker, repeated".into();
        }
        "replay-python" => {
            base = Vec::new();
            changes = replay::changes(replay::PYTHON, count(options));
            how = "recorded mappings of a Python interpreter, repeated".into();
        }
        _ => {
            let small = model::dense_256(1);
            base = small.initial;
            changes = converted(small.changes.take(count(options)));
            how = "256 ranges of 1 to 16 pages without gaps; 1 to 16 pages stored over them".into();
        }
    }
    let how = format!("{how}; {} changes", changes.len());
    Plan {
        how,
        base,
        changes,
        stream,
    }
}

/// The number of changes.
fn count(options: &Options) -> usize {
    options.size(500_000, 10_000)
}

fn store(range: &RangeInclusive<u64>, value: u64) -> Op {
    let (start, end) = (*range.start(), *range.end());
    Op::Store { start, end, value }
}

/// Ranges like those of pages, but with any number of bytes.
fn bytes(n: usize) -> Vec<RangeInclusive<u64>> {
    let mut rng = Rng::with_seed(1);
    let mut end = 0;
    let wide = n - n / 100;
    let mut ranges: Vec<_> = (1..=n)
        .map(|i| {
            let gap = match rng.u8(..10) {
                _ if i == wide => 64 * model::PAGE,
                0..7 => rng.u64(1..=16 * model::PAGE),
                _ => 0,
            };
            let start = end + gap;
            end = start + rng.u64(1..=16 * model::PAGE);
            start..=end - 1
        })
        .collect();
    rng.shuffle(&mut ranges);
    ranges
}

/// Random overwriting and erasing. A change stores a range of 1 to 16 pages, in multiples of
/// `unit`, at a random place, or erases the entry that contains a random index. The number of
/// entries stays between three and five quarters of the initial one.
fn churn(base: &[RangeInclusive<u64>], unit: u64, count: usize) -> Vec<Op> {
    let last = base.iter().map(|range| *range.end()).max();
    let units = (last.expect("there are ranges") + 1) / unit;
    let most = 16 * model::PAGE / unit;
    let mut rng = Rng::with_seed(2);
    // A copy of the map follows the changes, so that each erasure finds an entry and many of them
    // keep the number of entries constant.
    let mut map = Reference::default();
    map.apply(&stored(base));
    // These values are greater than those of the base.
    let values = base.len() as u64..;
    let ops = values.take(count).map(|value| {
        let store = match map.len() {
            few if few * 4 < base.len() * 3 => true,
            many if many * 4 > base.len() * 5 => false,
            _ => rng.bool(),
        };
        let op = if store {
            let (start, length) = (rng.u64(..units) * unit, rng.u64(1..=most) * unit);
            let end = start + length - 1;
            Op::Store { start, end, value }
        } else {
            let mut indices = std::iter::repeat_with(|| rng.u64(..units) * unit);
            let index = indices.find(|index| ranges::Engine::get(&map, *index).is_some());
            let index = index.expect("an endless iterator");
            Op::Erase { index }
        };
        map.apply(&[op]);
        op
    });
    ops.collect()
}

/// The stores of these ranges.
fn stored(base: &[RangeInclusive<u64>]) -> Vec<Op> {
    let base = base.iter().zip(0..);
    base.map(|(range, value)| store(range, value)).collect()
}

fn converted(changes: impl IntoIterator<Item = Change>) -> Vec<Op> {
    // The base has smaller values.
    let values = 1 << 32..;
    let ops = changes
        .into_iter()
        .zip(values)
        .map(|(change, value)| match change {
            Change::Store(range) | Change::Insert(range) => store(&range, value),
            Change::Alloc { size, within, .. } => {
                let (from, to) = within.into_inner();
                Op::Alloc {
                    within: Query { size, from, to },
                    value,
                }
            }
            Change::Erase(range) => Op::Erase {
                index: *range.start(),
            },
            Change::Clear(range) => {
                let (start, end) = range.into_inner();
                Op::Clear { start, end }
            }
        });
    ops.collect()
}

/// The lengths of the gaps between entries, in ascending order, and the end of the last entry.
fn gaps(entries: &[(u64, u64, u64)]) -> (Vec<u64>, u64) {
    let between = entries.windows(2).map(|pair| pair[1].0 - pair[0].1 - 1);
    let mut gaps: Vec<_> = between.filter(|gap| *gap > 0).collect();
    gaps.sort_unstable();
    let (_, last, _) = entries.last().expect("there are entries");
    (gaps, *last)
}

/// The indices of random entries, and of the gaps before them.
pub(super) fn probes(entries: &[(u64, u64, u64)], count: usize) -> Vec<u64> {
    let mut rng = Rng::with_seed(3);
    let probes = (0..count).map(|_| {
        let at = rng.usize(..entries.len());
        let (start, end, _) = entries[at];
        let free = at.checked_sub(1).map_or(0, |before| entries[before].1 + 1);
        match rng.u8(..10) {
            0..4 if free < start => rng.u64(free..start),
            _ => rng.u64(start..=end),
        }
    });
    probes.collect()
}

/// Searches for a gap of the median size within random windows.
fn common(gaps: &[u64], last: u64, count: usize) -> Vec<Query> {
    let mut rng = Rng::with_seed(4);
    let Some(size) = gaps.get(gaps.len() / 2).copied() else {
        return Vec::new();
    };
    let queries = std::iter::repeat_with(|| {
        let (a, b) = (rng.u64(..=last), rng.u64(..=last));
        Query {
            size,
            from: a.min(b),
            to: a.max(b),
        }
    });
    // Such a window would be an error of the suite if it were too small.
    queries
        .filter(|query| query.to - query.from >= size - 1)
        .take(count)
        .collect()
}

/// Searches from the start for the largest gap.
fn rare(gaps: &[u64], last: u64, count: usize) -> Vec<Query> {
    let largest = gaps.last().map(|size| Query {
        size: *size,
        from: 0,
        to: last,
    });
    largest.into_iter().cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn churn_keeps_the_size_and_erases_what_is_there() {
        let base = model::pages(100, 1).shuffled;
        let mut map = Reference::default();
        map.apply(&stored(&base));
        let mut erased = 0;
        for op in churn(&base, model::PAGE, 5_000) {
            if let Op::Erase { index } = op {
                assert!(ranges::Engine::get(&map, index).is_some());
                erased += 1;
            }
            map.apply(&[op]);
            assert!((70..130).contains(&map.len()), "{}", map.len());
        }
        assert!((2_000..3_000).contains(&erased), "{erased}");
    }

    #[test]
    fn bytes_leave_one_wide_gap() {
        let ranges = bytes(1_000);
        let mut map = Reference::default();
        map.apply(&stored(&ranges));
        let (gaps, last) = gaps(&map.list());
        assert!(map.len() == 1_000 && (650..750).contains(&gaps.len()));
        let widest = gaps.last_chunk().expect("there are gaps");
        assert!(matches!(widest, [second, 262_144] if *second <= 65_536));
        assert_eq!(rare(&gaps, last, 3)[2].size, 262_144);
        assert!(common(&gaps, last, 10).iter().all(|query| query.to <= last));
    }
}

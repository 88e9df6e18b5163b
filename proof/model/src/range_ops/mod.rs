//! Operations on a map from ranges of `u64` to values, and the oracle's answer to each.
//!
//! One generator draws them over one of several [`Domain`]s. Its choices come from a random number
//! generator or from a fuzzer's bytes.

use std::ops::RangeInclusive;

use fastrand::Rng;

use crate::oracle::RangeMap;

/// One operation on a map from ranges to `u64`. Its ranges, sizes and alignments may be invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the arguments of the method that the variant is named after.
pub enum RangeOp {
    /// Store a range, and replace what it overlaps.
    Store(RangeInclusive<u64>, u64),
    /// Store a range, and join it with equal neighbours.
    StoreCoalescing(RangeInclusive<u64>, u64),
    /// Store a range if it overlaps no entry.
    Insert(RangeInclusive<u64>, u64),
    /// Remove the whole entry that has an index.
    Erase(u64),
    /// Clear a range.
    ClearRange(RangeInclusive<u64>),
    /// Clear the map.
    Clear,
    /// Store at the lowest free place, or at the highest one.
    Alloc {
        size: u64,
        align: u64,
        within: RangeInclusive<u64>,
        highest: bool,
        value: u64,
    },
    /// Store at the lowest free place from `next` on.
    AllocCyclic {
        size: u64,
        within: RangeInclusive<u64>,
        next: u64,
        value: u64,
    },
    /// Ask for the entry or the gap that has an index.
    Locate(u64),
    /// Ask for the first entry that starts after an index.
    NextAfter(u64),
    /// Ask for the last entry that ends before an index.
    PrevBefore(u64),
    /// Ask for the first entry, or for the last one.
    End { last: bool },
    /// List the entries that overlap a range.
    Range(RangeInclusive<u64>),
    /// List the gaps in a range.
    Gaps(RangeInclusive<u64>),
    /// Ask for the lowest free place, or for the highest one.
    FindGap {
        size: u64,
        align: u64,
        within: RangeInclusive<u64>,
        highest: bool,
    },
}

/// The answer to a [`RangeOp`], in a form that a map under test can build, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// `Store`, `Insert`, `ClearRange`, `Clear` were done.
    Done,
    /// `Insert` overlaps this entry first, and changed nothing.
    Occupied(RangeInclusive<u64>),
    /// `Alloc`, `AllocCyclic` found no free place.
    NoGap,
    /// A writing operation was refused for an invalid argument: a range that ends before it starts,
    /// a window smaller than the size, a size of 0, or an alignment that is no power of two.
    BadArgument,
    /// `Erase`, `NextAfter`, `PrevBefore`, `End`.
    Entry(Option<(RangeInclusive<u64>, u64)>),
    /// `Locate`: the entry with its value, or the gap.
    Place(RangeInclusive<u64>, Option<u64>),
    /// `Range`, in order.
    Entries(Vec<(RangeInclusive<u64>, u64)>),
    /// `Gaps`, in order.
    Gaps(Vec<RangeInclusive<u64>>),
    /// `FindGap`, `Alloc`, `StoreCoalescing`: the range.
    At(Option<RangeInclusive<u64>>),
    /// `AllocCyclic`: the range, and the index from which the next one goes on.
    Cyclic(RangeInclusive<u64>, u64),
}

impl RangeOp {
    /// Whether the operation may change the map.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            RangeOp::Locate(_)
                | RangeOp::NextAfter(_)
                | RangeOp::PrevBefore(_)
                | RangeOp::End { .. }
                | RangeOp::Range(_)
                | RangeOp::Gaps(_)
                | RangeOp::FindGap { .. }
        )
    }

    /// Whether an argument is invalid: every map refuses such a writing operation, and has no
    /// answer to such a question.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        let small = |size: u64, within: &RangeInclusive<u64>| {
            size == 0 || within.is_empty() || size - 1 > within.end() - within.start()
        };
        match self {
            RangeOp::Store(range, _)
            | RangeOp::StoreCoalescing(range, _)
            | RangeOp::Insert(range, _)
            | RangeOp::ClearRange(range)
            | RangeOp::Range(range)
            | RangeOp::Gaps(range) => range.is_empty(),
            RangeOp::Alloc {
                size,
                align,
                within,
                ..
            }
            | RangeOp::FindGap {
                size,
                align,
                within,
                ..
            } => small(*size, within) || !align.is_power_of_two(),
            RangeOp::AllocCyclic { size, within, .. } => small(*size, within),
            _ => false,
        }
    }

    /// Applies the operation to the oracle; returns the answer that every map must give.
    pub fn apply(&self, map: &mut RangeMap<u64>) -> RangeOutcome {
        use RangeOutcome as Out;
        let owned = |(range, value): (RangeInclusive<u64>, &u64)| (range, *value);
        if self.is_bad() {
            return match self {
                RangeOp::Range(_) => Out::Entries(Vec::new()),
                RangeOp::Gaps(_) => Out::Gaps(Vec::new()),
                RangeOp::FindGap { .. } => Out::At(None),
                _ => Out::BadArgument,
            };
        }
        match self {
            RangeOp::Store(range, value) => {
                map.store(range.clone(), *value);
                Out::Done
            }
            RangeOp::StoreCoalescing(range, value) => {
                Out::At(Some(map.store_coalescing(range.clone(), *value)))
            }
            RangeOp::Insert(range, value) => match map.insert_new(range.clone(), *value) {
                Ok(()) => Out::Done,
                Err(there) => Out::Occupied(there),
            },
            RangeOp::Erase(index) => Out::Entry(map.remove(*index)),
            RangeOp::ClearRange(range) => {
                map.clear_range(range.clone());
                Out::Done
            }
            RangeOp::Clear => {
                map.clear();
                Out::Done
            }
            RangeOp::Alloc {
                size,
                align,
                within,
                highest,
                value,
            } => match find(map, *size, *align, within, *highest) {
                Some(place) => {
                    map.store(place.clone(), *value);
                    Out::At(Some(place))
                }
                None => Out::NoGap,
            },
            RangeOp::AllocCyclic {
                size,
                within,
                next,
                value,
            } => {
                let mut next = *next;
                match map.alloc_cyclic(*size, within.clone(), &mut next, *value) {
                    Some(place) => Out::Cyclic(place, next),
                    None => Out::NoGap,
                }
            }
            RangeOp::Locate(index) => {
                let (range, value) = map.locate(*index);
                Out::Place(range, value.copied())
            }
            RangeOp::NextAfter(index) => Out::Entry(map.next_after(*index).map(owned)),
            RangeOp::PrevBefore(index) => Out::Entry(map.prev_before(*index).map(owned)),
            RangeOp::End { last: false } => Out::Entry(map.first().map(owned)),
            RangeOp::End { last: true } => Out::Entry(map.last().map(owned)),
            RangeOp::Range(range) => Out::Entries(map.range(range.clone()).map(owned).collect()),
            RangeOp::Gaps(range) => Out::Gaps(map.gaps(range.clone())),
            RangeOp::FindGap {
                size,
                align,
                within,
                highest,
            } => Out::At(find(map, *size, *align, within, *highest)),
        }
    }
}

fn find(
    map: &RangeMap<u64>,
    size: u64,
    align: u64,
    within: &RangeInclusive<u64>,
    highest: bool,
) -> Option<RangeInclusive<u64>> {
    match highest {
        false => map.find_gap(size, align, within.clone()),
        true => map.find_gap_rev(size, align, within.clone()),
    }
}

/// The indices that operations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Indices 0 to 39, so that operations hit every border of every range.
    Tiny,
    /// The last 40 indices below 2^64.
    Top,
    /// Ranges of 1 to 16 pages of 4096 in the first 4096 pages.
    Pages,
    /// Ranges of 1 to 24 among the first 6000 indices, at any of them.
    Bytes,
    /// Ranges at any index, mostly far from each other, with up to 2^56 indices.
    Scattered,
    /// Short ranges in eight neighbourhoods that are far from each other, the first at 0, the last
    /// at the end.
    Clusters,
    /// Ranges that touch: blocks of 4 among the first 2000 indices, seldom a gap.
    Dense,
}

impl Domain {
    /// All domains.
    pub const ALL: [Self; 7] = [
        Self::Tiny,
        Self::Top,
        Self::Pages,
        Self::Bytes,
        Self::Scattered,
        Self::Clusters,
        Self::Dense,
    ];

    /// The window that has most of the ranges.
    #[must_use]
    pub fn window(self) -> RangeInclusive<u64> {
        match self {
            Domain::Tiny => 0..=39,
            Domain::Top => u64::MAX - 39..=u64::MAX,
            Domain::Pages => 0..=(4096 << 12) - 1,
            Domain::Bytes => 0..=5999,
            Domain::Scattered | Domain::Clusters => 0..=u64::MAX,
            Domain::Dense => 0..=1999,
        }
    }

    /// The unit of sizes and places.
    fn unit(self) -> u64 {
        match self {
            Domain::Pages => 4096,
            _ => 1,
        }
    }

    fn start(self, choices: &mut impl Choices) -> u64 {
        match self {
            Domain::Tiny => choices.below(40),
            Domain::Top => u64::MAX - choices.below(40),
            Domain::Pages => choices.below(4096) << 12,
            Domain::Bytes => choices.below(6000),
            Domain::Scattered => choices.any(),
            Domain::Clusters => {
                // One neighbourhood is at index 0, and one at the last index. Some ranges are apart
                // from the rest of their neighbourhood.
                let (neighbourhood, place) = (choices.below(8), choices.below(600));
                match (neighbourhood, choices.one_in(64)) {
                    (7, _) => u64::MAX - place,
                    (_, false) => (neighbourhood << 61) + place,
                    (_, true) => (neighbourhood << 61) + (place << 20),
                }
            }
            Domain::Dense => choices.below(500) * 4,
        }
    }

    /// The number of indices of a range, less one.
    fn length(self, choices: &mut impl Choices) -> u64 {
        match self {
            // A product, so that most ranges are short and some are long.
            Domain::Tiny | Domain::Top => choices.below(7) * choices.below(7),
            Domain::Pages => (choices.below(16) << 12) + 4095,
            Domain::Bytes => choices.below(24),
            Domain::Scattered => {
                let shift = 8 + choices.below(56);
                choices.any() >> shift
            }
            Domain::Clusters => choices.below(9),
            Domain::Dense => choices.below(3) * 4 + 3,
        }
    }

    /// A range; rarely one that ends before it starts.
    fn range(self, choices: &mut impl Choices) -> RangeInclusive<u64> {
        let start = self.start(choices);
        if choices.one_in(200) && start > 0 {
            return RangeInclusive::new(start, start - 1);
        }
        start..=start.saturating_add(self.length(choices))
    }

    /// A range that overlaps many others, sometimes all of them.
    fn wide(self, choices: &mut impl Choices) -> RangeInclusive<u64> {
        if choices.one_in(12) {
            return 0..=u64::MAX;
        }
        let (a, b) = (self.start(choices), self.start(choices));
        a.min(b)..=a.max(b).saturating_add(self.unit() - 1)
    }

    fn size(self, choices: &mut impl Choices) -> u64 {
        if choices.one_in(100) {
            return [0, 1, u64::MAX, 1 << 63][choices.below(4) as usize];
        }
        self.length(choices).saturating_add(1)
    }

    fn align(self, choices: &mut impl Choices) -> u64 {
        if choices.one_in(60) {
            return [0, 3, 1 << 63, 1 << 40][choices.below(4) as usize];
        }
        self.unit() << (choices.below(8) * choices.below(2))
    }

    fn places(self, choices: &mut impl Choices) -> RangeInclusive<u64> {
        match choices.below(8) {
            0..=2 => 0..=u64::MAX,
            3..=5 => self.window(),
            6 => self.wide(choices),
            _ => self.range(choices),
        }
    }

    /// An operation over this domain. If `growing`, most operations grow the map; otherwise most
    /// shrink it.
    pub fn op(self, choices: &mut impl Choices, growing: bool) -> RangeOp {
        // Few values, so that neighbours are often equal.
        let value = choices.below(4);
        let kind = choices.below(100);
        // While the map shrinks, most stores become erasures, some of them of many entries.
        if !growing && kind < 45 && !choices.one_in(4) {
            return match choices.below(8) {
                0..=4 => RangeOp::Erase(self.start(choices)),
                5 | 6 => RangeOp::ClearRange(self.range(choices)),
                _ if choices.one_in(12) => RangeOp::ClearRange(self.wide(choices)),
                _ => RangeOp::Erase(self.range(choices).end().saturating_sub(self.unit())),
            };
        }
        match kind {
            0..=32 => RangeOp::Store(self.range(choices), value),
            33..=44 => RangeOp::Insert(self.range(choices), value),
            45 => match choices.below(12) {
                0 => RangeOp::Clear,
                1..=3 => RangeOp::Store(self.wide(choices), value),
                4 => RangeOp::ClearRange(self.wide(choices)),
                _ => RangeOp::ClearRange(self.range(choices)),
            },
            46..=50 => RangeOp::StoreCoalescing(self.range(choices), value),
            51..=56 => RangeOp::Erase(self.start(choices)),
            57..=62 => RangeOp::ClearRange(self.range(choices)),
            63..=69 => RangeOp::Alloc {
                size: self.size(choices),
                align: self.align(choices),
                within: self.places(choices),
                highest: choices.one_in(2),
                value,
            },
            70..=72 => RangeOp::AllocCyclic {
                size: self.size(choices),
                within: self.places(choices),
                next: self.start(choices),
                value,
            },
            73..=79 => RangeOp::Locate(self.start(choices)),
            80..=83 => RangeOp::NextAfter(self.start(choices)),
            84..=87 => RangeOp::PrevBefore(self.start(choices)),
            88 => RangeOp::End {
                last: choices.one_in(2),
            },
            89..=91 => RangeOp::Range(self.wide(choices)),
            92..=94 => RangeOp::Gaps(self.wide(choices)),
            _ => RangeOp::FindGap {
                size: self.size(choices),
                align: self.align(choices),
                within: self.places(choices),
                highest: choices.one_in(2),
            },
        }
    }
}

/// A source of choices.
pub trait Choices {
    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64;

    /// Any number of 64 bits.
    fn any(&mut self) -> u64;

    /// True once in `n` times.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    /// Whether the source has ended.
    fn ended(&self) -> bool {
        false
    }
}

impl Choices for Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.u64(..n)
    }

    fn any(&mut self) -> u64 {
        self.u64(..)
    }
}

/// Choices from a fuzzer's bytes. A number takes as many bytes as its bound has. After the end of
/// the bytes all choices are zero.
impl Choices for &[u8] {
    fn below(&mut self, n: u64) -> u64 {
        let bytes = (64 - (n - 1).leading_zeros()).div_ceil(8) as usize;
        take(self, bytes) % n
    }

    fn any(&mut self) -> u64 {
        take(self, 8)
    }

    fn ended(&self) -> bool {
        self.is_empty()
    }
}

fn take(from: &mut &[u8], bytes: usize) -> u64 {
    let (taken, rest) = from.split_at(bytes.min(from.len()));
    *from = rest;
    taken
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A source of operations over one domain, in which the map grows and shrinks by turns.
///
/// ```
/// use sapwood_model::oracle::RangeMap;
/// use sapwood_model::range_ops::{Domain, RangeOps};
///
/// let mut oracle = RangeMap::new();
/// for op in RangeOps::new(Domain::Bytes, 7).take(1000) {
///     let expected = op.apply(&mut oracle);
///     // apply `op` to the map under test, and compare its answer with `expected`
///     drop(expected);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RangeOps<C> {
    domain: Domain,
    choices: C,
    growing: bool,
}

impl RangeOps<Rng> {
    /// An endless source of operations drawn from a seed.
    #[must_use]
    pub fn new(domain: Domain, seed: u64) -> Self {
        Self::with(domain, Rng::with_seed(seed))
    }
}

impl<'a> RangeOps<&'a [u8]> {
    /// A source of operations from a fuzzer's bytes. The first byte chooses the domain. The source
    /// ends with the bytes.
    #[must_use]
    pub fn from_bytes(mut bytes: &'a [u8]) -> Self {
        let domain = bytes.below(Domain::ALL.len() as u64);
        Self::with(Domain::ALL[domain as usize], bytes)
    }
}

impl<C: Choices> RangeOps<C> {
    /// A source of operations drawn by `choices`.
    pub fn with(domain: Domain, choices: C) -> Self {
        Self {
            domain,
            choices,
            growing: true,
        }
    }

    /// The domain of the operations.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.domain
    }
}

impl<C: Choices> Iterator for RangeOps<C> {
    type Item = RangeOp;

    fn next(&mut self) -> Option<RangeOp> {
        if self.choices.ended() {
            return None;
        }
        if self.choices.one_in(250) {
            self.growing = !self.growing;
        }
        Some(self.domain.op(&mut self.choices, self.growing))
    }
}

#[cfg(test)]
mod tests;

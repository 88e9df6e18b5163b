//! Workloads of maps from ranges to values: which ranges are there at first, and what then happens
//! to them.
//!
//! Values are up to the user; the number of a change is a good one. Ranges are whole pages of
//! [`PAGE`] bytes.

mod traces;
mod vma;

use std::ops::RangeInclusive;

use fastrand::Rng;

pub use traces::{Trace, traces};
pub use vma::vma;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The last index that a program of 47 bits of address space can use.
pub const LAST: u64 = (1 << 47) - 1;

/// One change of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store over whatever is there.
    Store(RangeInclusive<u64>),
    /// Store where nothing is.
    Insert(RangeInclusive<u64>),
    /// Store at the lowest place of this many indices.
    Alloc {
        /// How many.
        size: u64,
        /// Where to look.
        within: RangeInclusive<u64>,
        /// The place that there is, for maps that cannot look for it.
        place: RangeInclusive<u64>,
    },
    /// Take the entry with exactly this range.
    Erase(RangeInclusive<u64>),
    /// Leave nothing in a range.
    Clear(RangeInclusive<u64>),
}

impl Change {
    /// The range that it stores at or empties.
    #[must_use]
    pub fn range(&self) -> &RangeInclusive<u64> {
        match self {
            Change::Store(range)
            | Change::Insert(range)
            | Change::Alloc { place: range, .. }
            | Change::Erase(range)
            | Change::Clear(range) => range,
        }
    }

    /// Whether something is at its range afterwards.
    #[must_use]
    pub fn stores(&self) -> bool {
        !matches!(self, Change::Erase(_) | Change::Clear(_))
    }
}

/// What is there at first, and an endless stream of changes.
#[derive(Clone, Debug)]
pub struct Workload<I> {
    /// Ranges that do not overlap, in order.
    pub initial: Vec<RangeInclusive<u64>>,
    /// The changes, each of which counts on those before it.
    pub changes: I,
}

/// Ranges for a map that is only filled, from [`pages`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// In ascending order.
    pub ascending: Vec<RangeInclusive<u64>>,
    /// The same ones in random order.
    pub shuffled: Vec<RangeInclusive<u64>>,
}

/// `n` ranges of 1 to 16 pages. Seven of ten follow a gap of 1 to 16 pages, the others touch the
/// one before them.
#[must_use]
pub fn pages(n: usize, seed: u64) -> Pages {
    pages_with_rare_gaps(n, usize::MAX, seed)
}

/// As [`pages`], but each `every`th range follows a gap of 64 pages: four times what the other gaps
/// have at most.
///
/// # Panics
///
/// If `every` is 0.
#[must_use]
pub fn pages_with_rare_gaps(n: usize, every: usize, seed: u64) -> Pages {
    let mut rng = Rng::with_seed(seed);
    let mut end = 0;
    let ascending: Vec<_> = (1..=n)
        .map(|i| {
            let gap = match (i % every, rng.u8(..10)) {
                (0, _) => 64,
                (_, 0..7) => rng.u64(1..=16),
                _ => 0,
            };
            let range = span(end / PAGE + gap, rng.u64(1..=16));
            end = range.end() + 1;
            range
        })
        .collect();
    let mut shuffled = ascending.clone();
    rng.shuffle(&mut shuffled);
    Pages {
        ascending,
        shuffled,
    }
}

/// `n` changes at random places of 47 bits of address space, each of 1 to 1,000,000 pages: seven of
/// ten store, three of ten clear.
///
/// After some 100,000 of them everything was covered once; from then on there are about 96,000
/// entries.
#[must_use]
pub fn pages_1m_30erase(n: usize, seed: u64) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed);
    let all = (LAST + 1) / PAGE;
    let changes = (0..n).map(|_| {
        let pages = rng.u64(1..=1_000_000);
        let range = span(rng.u64(..=all - pages), pages);
        match rng.u8(..10) {
            0..7 => Change::Store(range),
            _ => Change::Clear(range),
        }
    });
    changes.collect()
}

/// 256 ranges of 1 to 16 pages that are 2^56 indices apart, and stores of as many pages within 16
/// pages of them.
#[must_use]
pub fn sparse_256(seed: u64) -> Workload<impl Iterator<Item = Change> + Clone> {
    let mut rng = Rng::with_seed(seed);
    let middle = |i: u64| (i << 44) + (1 << 43);
    let initial = (0..256).map(|i| span(middle(i), rng.u64(1..=16))).collect();
    let changes = std::iter::repeat_with(move || {
        let page = middle(rng.u64(..256)) + rng.u64(..32) - 16;
        Change::Store(span(page, rng.u64(1..=16)))
    });
    Workload { initial, changes }
}

/// 256 ranges of 1 to 16 pages, each of which touches the one before it, and stores of as many
/// pages over them.
#[must_use]
pub fn dense_256(seed: u64) -> Workload<impl Iterator<Item = Change> + Clone> {
    let mut rng = Rng::with_seed(seed);
    let mut all = 0;
    let initial = (0..256)
        .map(|_| {
            let pages = rng.u64(1..=16);
            all += pages;
            span(all - pages, pages)
        })
        .collect();
    let changes = std::iter::repeat_with(move || {
        let pages = rng.u64(1..=16);
        Change::Store(span(rng.u64(..=all - pages), pages))
    });
    Workload { initial, changes }
}

/// The indices of this many pages from a page on.
fn span(page: u64, pages: u64) -> RangeInclusive<u64> {
    page * PAGE..=page * PAGE + (pages * PAGE - 1)
}

#[cfg(test)]
mod tests;

//! Workloads of maps from ranges to values: the ranges of the map at first, and changes of it.
//!
//! The caller chooses the values, for example the numbers of the changes. Ranges are whole pages of
//! [`PAGE`] bytes.

mod mappings;
mod traces;
mod vma;

use std::ops::RangeInclusive;

use fastrand::Rng;

pub use mappings::{Mapping, mappings};
pub use traces::{Trace, traces};
pub use vma::vma;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The last address of a program with an address space of 47 bits.
pub const LAST: u64 = (1 << 47) - 1;

/// One change of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store a range, and replace what it overlaps.
    Store(RangeInclusive<u64>),
    /// Store a range that overlaps no entry.
    Insert(RangeInclusive<u64>),
    /// Store at the lowest free place of a size.
    Alloc {
        /// How many indices.
        size: u64,
        /// The window of the search.
        within: RangeInclusive<u64>,
        /// The lowest free place, for maps that cannot search for it.
        place: RangeInclusive<u64>,
    },
    /// Remove the entry with exactly this range.
    Erase(RangeInclusive<u64>),
    /// Clear a range.
    Clear(RangeInclusive<u64>),
}

impl Change {
    /// The range that the change stores or clears.
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

    /// Whether the change stores an entry.
    #[must_use]
    pub fn stores(&self) -> bool {
        !matches!(self, Change::Erase(_) | Change::Clear(_))
    }
}

/// The ranges of a map at first, and an endless stream of changes.
#[derive(Clone, Debug)]
pub struct Workload<I> {
    /// The ranges at first, which do not overlap, in order.
    pub initial: Vec<RangeInclusive<u64>>,
    /// The changes. Each is valid only after those before it.
    pub changes: I,
}

/// Ranges from [`pages`], for a map that is only filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The ranges in ascending order.
    pub ascending: Vec<RangeInclusive<u64>>,
    /// The same ranges in random order.
    pub shuffled: Vec<RangeInclusive<u64>>,
}

/// Generates `n` ranges of 1 to 16 pages. Seven of ten come after a gap of 1 to 16 pages; the
/// others touch the range before them.
#[must_use]
pub fn pages(n: usize, seed: u64) -> Pages {
    pages_with_rare_gaps(n, usize::MAX, seed)
}

/// As [`pages`], but each `every`th range comes after a gap of 64 pages. That is four times the
/// largest of the other gaps.
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

/// Generates `n` changes at random places of 47 bits of address space, each of 1 to 1,000,000
/// pages. Seven of ten store, three of ten clear.
///
/// After some 100,000 changes each page was covered once; from then on there are about 96,000
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

/// A workload of 256 ranges of 1 to 16 pages that are 2^56 indices apart, and of stores of 1 to 16
/// pages within 16 pages of them.
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

/// A workload of 256 ranges of 1 to 16 pages, each of which touches the range before it, and of
/// stores of 1 to 16 pages over them.
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

/// The indices of `pages` pages from `page` on.
fn span(page: u64, pages: u64) -> RangeInclusive<u64> {
    page * PAGE..=page * PAGE + (pages * PAGE - 1)
}

#[cfg(test)]
mod tests;

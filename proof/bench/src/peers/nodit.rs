//! `nodit`: a B-tree of intervals.

use nodit::interval::ii;
use nodit::{Interval, NoditMap};

use crate::ranges::{Engine, EntrySum, Query};

/// `NoditMap`.
pub struct Nodit(NoditMap<u64, Interval<u64>, u64>);

impl Engine for Nodit {
    const NAME: &'static str = "nodit";

    fn empty() -> Result<Self, String> {
        Ok(Self(NoditMap::new()))
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        let _ = self.0.insert_overwrite(ii(start, end), value);
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        let mut erased = self.0.remove_overlapping(&ii(index, index));
        erased.next().map(|(_, value)| value)
    }

    fn clear(&mut self, start: u64, end: u64) {
        let _ = self.0.cut(&ii(start, end));
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        self.0.get_at_point(&index).copied()
    }

    fn entries(&self) -> EntrySum {
        let entries = self.0.iter();
        EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let mut gaps = self.0.gaps_trimmed(&ii(from, to));
        let fits = gaps.find(|gap| gap.end() - gap.start() >= size - 1);
        fits.map(|gap| *gap.start())
    }
}

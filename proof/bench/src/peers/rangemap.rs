//! `rangemap`: a B-tree of ranges. It merges neighbours of equal value; the benchmark has none.

use rangemap::RangeInclusiveMap;

use crate::ranges::{Engine, EntrySum, Query};

/// `RangeInclusiveMap`.
pub struct RangeMap(RangeInclusiveMap<u64, u64>);

impl Engine for RangeMap {
    const NAME: &'static str = "rangemap";

    fn empty() -> Result<Self, String> {
        Ok(Self(RangeInclusiveMap::new()))
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.insert(start..=end, value);
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        let (range, value) = self.0.get_key_value(&index)?;
        let (range, value) = (range.clone(), *value);
        self.0.remove(range);
        Some(value)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.0.remove(start..=end);
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(&index).copied()
    }

    fn entries(&self) -> EntrySum {
        let entries = self.0.iter();
        EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let window = from..=to;
        let fits = self
            .0
            .gaps(&window)
            .find(|gap| gap.end() - gap.start() >= size - 1);
        fits.map(|gap| *gap.start())
    }
}

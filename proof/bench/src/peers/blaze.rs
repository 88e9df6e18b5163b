//! `range-set-blaze`: a `BTreeMap` from starts to ends and values. It merges neighbours of equal
//! value; the benchmark has none.

use range_set_blaze::RangeMapBlaze;

use crate::ranges::{Engine, EntrySum, Query};

/// `RangeMapBlaze`.
pub struct Blaze(RangeMapBlaze<u64, u64>);

impl Engine for Blaze {
    const NAME: &'static str = "range-set-blaze";
    const NO_ERASE: Option<&'static str> =
        Some("it removes single indices, or makes another map without the range");

    fn empty() -> Result<Self, String> {
        Ok(Self(RangeMapBlaze::new()))
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.ranges_insert(start..=end, value);
    }

    fn erase(&mut self, _: u64) -> Option<u64> {
        unreachable!("it says so")
    }

    fn clear(&mut self, _: u64, _: u64) {
        unreachable!("it says so")
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(index).copied()
    }

    fn entries(&self) -> EntrySum {
        let entries = self.0.range_values();
        EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let mut at = from;
        if from == 0 {
            // The map has an iterator from its start, but none that begins at another index.
            for range in self.0.range_values().map(|(range, _)| range) {
                if *range.start() > to || range.start() - at >= size {
                    break;
                }
                at = range.end().checked_add(1)?;
            }
        }
        while at <= to {
            let (range, value) = self.0.range_or_gap_at(at);
            if value.is_none() {
                let last = to.min(*range.end());
                if last - at >= size - 1 {
                    return Some(at);
                }
            }
            at = range.end().checked_add(1)?;
        }
        None
    }
}

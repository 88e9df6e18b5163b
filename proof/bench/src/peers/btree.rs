//! `std::collections::BTreeMap` from the start of a range to its end and value, as programs do
//! without a range map. A store cuts the entries that it overlaps, and a scan finds gaps.

use std::collections::BTreeMap;

use crate::ranges::{Engine, EntrySum, Query};

/// A map from starts to ends and values.
#[derive(Default)]
pub struct BTree(BTreeMap<u64, (u64, u64)>);

impl BTree {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All entries in order: start, end and value.
    pub fn list(&self) -> Vec<(u64, u64, u64)> {
        let entries = self.0.iter();
        entries
            .map(|(start, (end, value))| (*start, *end, *value))
            .collect()
    }

    /// Removes the entries within a range and cuts those that extend across its ends. With `leave`,
    /// an entry with the same start may stay for the caller to overwrite.
    fn cut(&mut self, start: u64, end: u64, leave: bool) {
        while let Some((first, entry)) = self.0.range_mut(..=end).next_back() {
            let (first, (last, value)) = (*first, *entry);
            if last < start {
                break;
            }
            if first < start {
                entry.0 = start - 1;
            } else if !(leave && first == start) {
                self.0.remove(&first);
            }
            if last > end {
                self.0.insert(end + 1, (last, value));
            }
            if first <= start {
                break;
            }
        }
    }
}

impl Engine for BTree {
    const NAME: &'static str = "std-btreemap";

    fn empty() -> Result<Self, String> {
        Ok(Self::default())
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.cut(start, end, true);
        self.0.insert(start, (end, value));
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        let (first, (last, value)) = self.0.range(..=index).next_back()?;
        let (first, value) = (*first, *value);
        if *last < index {
            return None;
        }
        self.0.remove(&first);
        Some(value)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.cut(start, end, false);
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        let (_, (last, value)) = self.0.range(..=index).next_back()?;
        (*last >= index).then_some(*value)
    }

    fn entries(&self) -> EntrySum {
        EntrySum::of(
            self.0
                .iter()
                .map(|(start, (end, value))| (*start, *end, *value)),
        )
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let mut at = from;
        if let Some((_, (last, _))) = self.0.range(..=from).next_back()
            && *last >= from
        {
            at = last.checked_add(1)?;
        }
        for (first, (last, _)) in self.0.range(at..) {
            if *first > to || first - at >= size {
                break;
            }
            at = last.checked_add(1)?;
        }
        (at <= to && to - at >= size - 1).then_some(at)
    }
}

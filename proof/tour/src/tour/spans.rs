//! Ranges in a `BTreeMap`: the rival of `MapleMap` in the chapter on ranges.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Ranges that do not overlap, in a `BTreeMap` from their starts.
#[derive(Default)]
pub struct Spans(BTreeMap<u64, (u64, u32)>);

impl Spans {
    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value at an index.
    #[inline]
    pub fn get(&self, index: u64) -> Option<u32> {
        let (_, (end, value)) = self.0.range(..=index).next_back()?;
        (*end >= index).then_some(*value)
    }

    /// All ranges and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u32)> {
        let entries = self.0.iter();
        entries.map(|(start, (end, value))| (*start..=*end, *value))
    }

    /// Stores a range, and replaces what it overlaps.
    pub fn store(&mut self, range: RangeInclusive<u64>, value: u32) {
        self.clear(&range);
        self.0.insert(*range.start(), (*range.end(), value));
    }

    /// Clears a range.
    pub fn clear(&mut self, range: &RangeInclusive<u64>) {
        let (start, end) = (*range.start(), *range.end());
        let mut behind = None;
        if let Some((_, entry)) = self.0.range_mut(..start).next_back()
            && entry.0 >= start
        {
            behind = Some(*entry);
            entry.0 = start - 1;
        }
        while let Some((first, entry)) = self.0.range(start..=end).next() {
            behind = Some(*entry);
            let first = *first;
            self.0.remove(&first);
        }
        // Of the ranges that were cut, only the last one can reach beyond `end`.
        if let Some((last, value)) = behind.filter(|(last, _)| *last > end) {
            self.0.insert(end + 1, (last, value));
        }
    }

    /// The lowest gap of `size` indices in a window.
    pub fn find_gap(&self, size: u64, within: RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let mut at = *within.start();
        if let Some((_, (end, _))) = self.0.range(..=at).next_back()
            && *end >= at
        {
            at = end.checked_add(1).filter(|at| at <= within.end())?;
        }
        for (start, (end, _)) in self.0.range(at..=*within.end()) {
            if start - at >= size {
                return Some(at..=at + (size - 1));
            }
            at = end.checked_add(1)?;
        }
        let last = at.checked_add(size - 1)?;
        (last <= *within.end()).then_some(at..=last)
    }
}

#[cfg(test)]
mod tests {
    use sapwood_model::oracle::RangeMap;

    use super::*;

    #[test]
    fn answers_equal_those_of_the_oracle() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut spans, mut oracle) = (Spans::default(), RangeMap::new());
        for value in 0..2000 {
            let start = rng.u64(..60);
            let range = start..=start + rng.u64(..12);
            if rng.u8(..3) == 0 {
                spans.clear(&range);
                oracle.clear_range(range);
            } else {
                spans.store(range.clone(), value);
                oracle.store(range, value);
            }
            assert!(
                spans
                    .iter()
                    .eq(oracle.iter().map(|(range, value)| (range, *value)))
            );
            assert_eq!(spans.len(), oracle.len());
            let (size, from) = (rng.u64(1..10), rng.u64(..70));
            for to in [from + size + rng.u64(..20), u64::MAX] {
                let gap = spans.find_gap(size, from..=to);
                assert_eq!(gap, oracle.find_gap(size, 1, from..=to));
            }
            assert_eq!(spans.get(from), oracle.get(from).copied());
        }
    }
}

//! [`RangeMap`]: a naive map from ranges of numbers to values.

use std::ops::RangeInclusive;

/// A naive map from ranges of `u64` that do not overlap to values.
///
/// A vector has the entries in their order, and each query looks at all of them. Entries that touch
/// are not joined, also with equal values, except by [`store_coalescing`](Self::store_coalescing).
/// All sums have 128 bits, so that none overflows. A range whose start is above its end panics.
///
/// ```
/// use sapwood_model::oracle::RangeMap;
///
/// let mut map = RangeMap::new();
/// map.store(10..=19, 'a');
/// map.store(13..=15, 'b');
/// assert_eq!(map.to_vec(), [(10..=12, 'a'), (13..=15, 'b'), (16..=19, 'a')]);
/// assert_eq!(map.find_gap(5, 1, 8..=100), Some(20..=24));
/// assert_eq!(map.locate(20), (20..=u64::MAX, None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeMap<V> {
    /// Start, end and value, in order.
    entries: Vec<(u64, u64, V)>,
}

impl<V> RangeMap<V> {
    /// The empty map.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The map of these entries, which lie in order and do not overlap.
    ///
    /// # Panics
    /// When they do not.
    #[must_use]
    pub fn from_sorted(entries: Vec<(u64, u64, V)>) -> Self {
        assert!(entries.iter().all(|(start, end, _)| start <= end));
        assert!(entries.windows(2).all(|pair| pair[0].1 < pair[1].0));
        Self { entries }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in order, from either end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (RangeInclusive<u64>, &V)> {
        self.entries
            .iter()
            .map(|(start, end, value)| (*start..=*end, value))
    }

    /// The value of the entry that has `index`.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<&V> {
        self.get_entry(index).map(|(_, value)| value)
    }

    /// The entry that has `index`.
    #[must_use]
    pub fn get_entry(&self, index: u64) -> Option<(RangeInclusive<u64>, &V)> {
        self.iter().find(|(range, _)| range.contains(&index))
    }

    /// The entry that has `index`, or the whole gap around it.
    #[must_use]
    pub fn locate(&self, index: u64) -> (RangeInclusive<u64>, Option<&V>) {
        match self.get_entry(index) {
            Some((range, value)) => (range, Some(value)),
            None => {
                let gaps = self.gaps(0..=u64::MAX);
                let gap = gaps.into_iter().find(|gap| gap.contains(&index));
                (gap.expect("a gap has each index that no entry has"), None)
            }
        }
    }

    /// The first entry.
    #[must_use]
    pub fn first(&self) -> Option<(RangeInclusive<u64>, &V)> {
        self.iter().next()
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<(RangeInclusive<u64>, &V)> {
        self.iter().next_back()
    }

    /// The first entry that starts after `index`.
    #[must_use]
    pub fn next_after(&self, index: u64) -> Option<(RangeInclusive<u64>, &V)> {
        self.iter().find(|(range, _)| *range.start() > index)
    }

    /// The last entry that ends before `index`.
    #[must_use]
    pub fn prev_before(&self, index: u64) -> Option<(RangeInclusive<u64>, &V)> {
        self.iter().rfind(|(range, _)| *range.end() < index)
    }

    /// The entries that overlap `within`, in order, from either end.
    pub fn range(
        &self,
        within: RangeInclusive<u64>,
    ) -> impl DoubleEndedIterator<Item = (RangeInclusive<u64>, &V)> {
        self.iter()
            .filter(move |(range, _)| overlap(range, &within))
    }

    /// The gaps in `within`, cut to it, in order.
    #[must_use]
    pub fn gaps(&self, within: RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let mut gaps = Vec::new();
        let mut from = u128::from(*within.start());
        for (range, _) in self.range(within.clone()) {
            if u128::from(*range.start()) > from {
                gaps.push(from as u64..=range.start() - 1);
            }
            from = u128::from(*range.end()) + 1;
        }
        if from <= u128::from(*within.end()) {
            gaps.push(from as u64..=*within.end());
        }
        gaps
    }

    /// The lowest `size` indices of `within` that no entry has and whose first one is a multiple of
    /// `align`.
    ///
    /// `None` also if `size` is 0, `align` is no power of two, or `within` ends before it starts.
    #[must_use]
    pub fn find_gap(
        &self,
        size: u64,
        align: u64,
        within: RangeInclusive<u64>,
    ) -> Option<RangeInclusive<u64>> {
        if bad_request(size, align, &within) {
            return None;
        }
        self.gaps(within).into_iter().find_map(|gap| {
            let start = u128::from(*gap.start()).next_multiple_of(u128::from(align));
            let end = start + u128::from(size) - 1;
            (end <= u128::from(*gap.end())).then_some(start as u64..=end as u64)
        })
    }

    /// As [`find_gap`](Self::find_gap), with the highest such indices.
    #[must_use]
    pub fn find_gap_rev(
        &self,
        size: u64,
        align: u64,
        within: RangeInclusive<u64>,
    ) -> Option<RangeInclusive<u64>> {
        if bad_request(size, align, &within) {
            return None;
        }
        self.gaps(within).into_iter().rev().find_map(|gap| {
            let behind = u128::from(*gap.end()) + 1;
            let start = behind.checked_sub(u128::from(size))?;
            let start = start / u128::from(align) * u128::from(align);
            let end = start + u128::from(size) - 1;
            (start >= u128::from(*gap.start())).then_some(start as u64..=end as u64)
        })
    }

    /// Removes the whole entry that has `index`.
    pub fn remove(&mut self, index: u64) -> Option<(RangeInclusive<u64>, V)> {
        let mut entries = self.entries.iter();
        let at = entries.position(|(start, end, _)| (*start..=*end).contains(&index))?;
        let (start, end, value) = self.entries.remove(at);
        Some((start..=end, value))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Stores `value` at `range` if it overlaps no entry.
    ///
    /// # Errors
    ///
    /// The first entry that it overlaps; then nothing has changed.
    pub fn insert_new(
        &mut self,
        range: RangeInclusive<u64>,
        value: V,
    ) -> Result<(), RangeInclusive<u64>> {
        if let Some((there, _)) = self.range(range.clone()).next() {
            return Err(there);
        }
        self.put(range, value);
        Ok(())
    }

    fn put(&mut self, range: RangeInclusive<u64>, value: V) {
        check(&range);
        self.entries.push((*range.start(), *range.end(), value));
        self.entries.sort_by_key(|(start, _, _)| *start);
    }
}

impl<V: Clone> RangeMap<V> {
    /// Copies of all entries in order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(RangeInclusive<u64>, V)> {
        self.iter()
            .map(|(range, value)| (range, value.clone()))
            .collect()
    }

    /// Clears `range`. An entry that is partly inside is cut, and one that reaches over both ends
    /// becomes two.
    pub fn clear_range(&mut self, range: RangeInclusive<u64>) {
        check(&range);
        let (from, to) = (*range.start(), *range.end());
        let mut left = Vec::new();
        for (start, end, value) in self.entries.drain(..) {
            if !overlap(&(start..=end), &range) {
                left.push((start, end, value));
                continue;
            }
            if start < from {
                left.push((start, from - 1, value.clone()));
            }
            if end > to {
                left.push((to + 1, end, value));
            }
        }
        self.entries = left;
    }

    /// Stores `value` at `range`, and replaces what it overlaps.
    pub fn store(&mut self, range: RangeInclusive<u64>, value: V) {
        self.clear_range(range.clone());
        self.put(range, value);
    }

    /// Stores as [`store`](Self::store) does, and joins the new entry with neighbours that touch it
    /// and have an equal value. Returns the range of the joined entry.
    pub fn store_coalescing(&mut self, range: RangeInclusive<u64>, value: V) -> RangeInclusive<u64>
    where
        V: PartialEq,
    {
        self.clear_range(range.clone());
        let (mut start, mut end) = (*range.start(), *range.end());
        let before = start.checked_sub(1).and_then(|i| self.get_entry(i));
        if let Some((left, _)) = before.filter(|(_, v)| **v == value) {
            start = *left.start();
        }
        let behind = end.checked_add(1).and_then(|i| self.get_entry(i));
        if let Some((right, _)) = behind.filter(|(_, v)| **v == value) {
            end = *right.end();
        }
        self.store(start..=end, value);
        start..=end
    }

    /// Stores `value` at the lowest `size` free indices of `within` that start at `*next` or after
    /// it, or if there are none, at the lowest free ones of `within`. Sets `*next` to the index
    /// after them, or to the start of `within` if they end at the last index of all. Returns `None`
    /// if there is no free place.
    pub fn alloc_cyclic(
        &mut self,
        size: u64,
        within: RangeInclusive<u64>,
        next: &mut u64,
        value: V,
    ) -> Option<RangeInclusive<u64>> {
        let upper = (*next).max(*within.start())..=*within.end();
        let found = self.find_gap(size, 1, upper);
        let found = found.or_else(|| self.find_gap(size, 1, within.clone()))?;
        *next = found.end().checked_add(1).unwrap_or(*within.start());
        self.store(found.clone(), value);
        Some(found)
    }
}

fn overlap(a: &RangeInclusive<u64>, b: &RangeInclusive<u64>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

fn check(range: &RangeInclusive<u64>) {
    assert!(range.start() <= range.end(), "{range:?}: an empty range");
}

fn bad_request(size: u64, align: u64, within: &RangeInclusive<u64>) -> bool {
    size == 0 || !align.is_power_of_two() || within.start() > within.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = u64::MAX;

    fn map(ranges: &[(u64, u64)]) -> RangeMap<usize> {
        let mut map = RangeMap::new();
        for (i, (start, end)) in ranges.iter().enumerate() {
            map.store(*start..=*end, i);
        }
        map
    }

    fn ranges<'a>(
        entries: impl Iterator<Item = (RangeInclusive<u64>, &'a usize)>,
    ) -> Vec<(u64, u64)> {
        entries
            .map(|(range, _)| (*range.start(), *range.end()))
            .collect()
    }

    #[test]
    fn a_map_of_sorted_entries_is_that_of_stores() {
        let sorted = RangeMap::from_sorted(vec![(0, 9, 0), (10, 29, 1), (40, MAX, 2)]);
        assert_eq!(sorted, map(&[(0, 9), (10, 29), (40, MAX)]));
    }

    #[test]
    #[should_panic]
    fn entries_that_overlap_are_not_sorted() {
        let _ = RangeMap::from_sorted(vec![(0, 9, 0), (9, 29, 1)]);
    }

    #[test]
    fn a_store_cuts_what_it_overlaps() {
        let mut map = map(&[(0, 9), (20, 29), (40, MAX)]);
        map.store(5..=24, 7);
        assert_eq!(
            map.to_vec(),
            [(0..=4, 0), (5..=24, 7), (25..=29, 1), (40..=MAX, 2)]
        );
        map.store(10..=12, 8);
        assert_eq!(
            ranges(map.iter()),
            [(0, 4), (5, 9), (10, 12), (13, 24), (25, 29), (40, MAX)]
        );
        map.store(0..=MAX, 9);
        assert_eq!(map.to_vec(), [(0..=MAX, 9)]);
    }

    #[test]
    fn clearing_cuts_and_erasing_does_not() {
        let mut map = map(&[(0, 9), (10, 19)]);
        map.clear_range(3..=11);
        assert_eq!(ranges(map.iter()), [(0, 2), (12, 19)]);
        map.clear_range(14..=15);
        assert_eq!(ranges(map.iter()), [(0, 2), (12, 13), (16, 19)]);
        assert_eq!(map.remove(18), Some((16..=19, 1)));
        assert_eq!(map.remove(18), None);
        map.clear_range(0..=MAX);
        assert!(map.is_empty());
    }

    #[test]
    fn insert_names_the_first_in_the_way() {
        let mut map = map(&[(10, 19), (30, 39)]);
        assert_eq!(map.insert_new(15..=50, 9), Err(10..=19));
        assert_eq!(map.insert_new(20..=30, 9), Err(30..=39));
        assert_eq!(map.len(), 2);
        assert_eq!(map.insert_new(20..=29, 9), Ok(()));
        assert_eq!(ranges(map.iter()), [(10, 19), (20, 29), (30, 39)]);
    }

    #[test]
    fn coalescing_joins_equal_neighbours_only() {
        let mut map = RangeMap::new();
        map.store(0..=4, 'a');
        map.store(10..=MAX, 'a');
        assert_eq!(map.store_coalescing(5..=8, 'a'), 0..=8);
        assert_eq!(map.store_coalescing(9..=9, 'b'), 9..=9);
        assert_eq!(map.store_coalescing(9..=20, 'a'), 0..=MAX);
        assert_eq!(map.store_coalescing(7..=7, 'a'), 0..=MAX);
        assert_eq!(map.to_vec(), [(0..=MAX, 'a')]);
    }

    #[test]
    fn neighbours_and_places() {
        let map = map(&[(0, 0), (10, 19), (MAX, MAX)]);
        let start = |entry: Option<(RangeInclusive<u64>, &usize)>| entry.map(|e| *e.0.start());
        assert_eq!(start(map.next_after(0)), Some(10));
        assert_eq!(start(map.next_after(10)), Some(MAX));
        assert_eq!(start(map.next_after(MAX)), None);
        assert_eq!(start(map.prev_before(MAX)), Some(10));
        assert_eq!(start(map.prev_before(19)), Some(0));
        assert_eq!(start(map.prev_before(0)), None);
        assert_eq!(
            (start(map.first()), start(map.last())),
            (Some(0), Some(MAX))
        );
        assert_eq!(map.locate(5), (1..=9, None));
        assert_eq!(map.locate(12), (10..=19, Some(&1)));
        assert_eq!(map.locate(20), (20..=MAX - 1, None));
        assert_eq!((map.get(19), map.get(20)), (Some(&1), None));
    }

    #[test]
    fn what_overlaps_and_what_is_free() {
        let full = map(&[(0, MAX)]);
        assert!(full.gaps(0..=MAX).is_empty());
        assert_eq!(full.locate(MAX), (0..=MAX, Some(&0)));
        assert_eq!(RangeMap::<u8>::new().gaps(0..=MAX), [0..=MAX]);
        let map = map(&[(5, 9), (10, 14), (20, 24)]);
        assert_eq!(ranges(map.range(9..=20)), [(5, 9), (10, 14), (20, 24)]);
        assert_eq!(ranges(map.range(15..=19).rev()), []);
        assert_eq!(map.gaps(0..=MAX), [0..=4, 15..=19, 25..=MAX]);
        assert_eq!(map.gaps(7..=16), [15..=16]);
        assert_eq!(map.gaps(2..=30), [2..=4, 15..=19, 25..=30]);
    }

    #[test]
    fn gaps_are_found_from_either_end() {
        let map = map(&[(5, 9), (20, 24), (MAX - 4, MAX)]);
        assert_eq!(map.find_gap(5, 1, 0..=MAX), Some(0..=4));
        assert_eq!(map.find_gap(6, 1, 0..=MAX), Some(10..=15));
        assert_eq!(map.find_gap(8, 8, 0..=MAX), Some(32..=39));
        assert_eq!(map.find_gap(4, 8, 0..=19), Some(0..=3));
        assert_eq!(map.find_gap(4, 8, 1..=19), Some(16..=19));
        assert_eq!(map.find_gap(5, 8, 1..=19), None);
        assert_eq!(map.find_gap_rev(5, 1, 0..=23), Some(15..=19));
        assert_eq!(map.find_gap_rev(10, 1, 0..=23), Some(10..=19));
        assert_eq!(map.find_gap_rev(4, 8, 0..=18), Some(0..=3));
        assert_eq!(map.find_gap_rev(5, 1, 0..=MAX), Some(MAX - 9..=MAX - 5));
        assert_eq!(map.find_gap_rev(11, 1, 0..=23), None);
        assert_eq!(map.find_gap(MAX, 1, 0..=MAX), None);
        let empty = RangeMap::<u8>::new();
        assert_eq!(empty.find_gap(MAX, 1, 0..=MAX), Some(0..=MAX - 1));
        assert_eq!(empty.find_gap_rev(MAX, 1, 0..=MAX), Some(1..=MAX));
        assert_eq!(
            empty.find_gap_rev(1 << 63, 1 << 63, 0..=MAX),
            Some(1 << 63..=MAX)
        );
        assert_eq!(empty.find_gap(2, 1 << 63, 1..=1 << 63), None);
    }

    #[test]
    fn bad_requests_find_nothing() {
        let map = RangeMap::<u8>::new();
        let backwards = RangeInclusive::new(9, 1);
        for (size, align, within) in [
            (0, 1, 0..=9),
            (1, 3, 0..=9),
            (1, 0, 0..=9),
            (1, 1, backwards),
        ] {
            assert_eq!(map.find_gap(size, align, within.clone()), None);
            assert_eq!(map.find_gap_rev(size, align, within), None);
        }
    }

    #[test]
    fn cyclic_places_go_round() {
        let mut map = RangeMap::new();
        let mut next = 0;
        let mut alloc = |next: &mut u64| map.alloc_cyclic(3, 10..=19, next, ());
        assert_eq!(alloc(&mut next), Some(10..=12));
        assert_eq!(next, 13);
        next = 16;
        assert_eq!(alloc(&mut next), Some(16..=18));
        assert_eq!(alloc(&mut next), Some(13..=15));
        assert_eq!((alloc(&mut next), next), (None, 16));
        let mut next = MAX;
        assert_eq!(map.alloc_cyclic(1, 5..=MAX, &mut next, ()), Some(MAX..=MAX));
        assert_eq!(next, 5);
    }

    #[test]
    #[should_panic(expected = "an empty range")]
    fn an_empty_range_cannot_be_stored() {
        RangeMap::new().store(RangeInclusive::new(2, 1), ());
    }
}

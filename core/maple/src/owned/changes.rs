//! Changes of an owned map.

use super::{RangeMap, rejected};
use crate::error::put_joined;
use crate::index::{bounds, span};
use crate::raw::finger::Entry;
use crate::raw::owned::{Ranged, Refused};
use crate::window::Window;
use crate::{Error, Index, IndexRange, Range, Rejected, Word, Words};
use alloc::vec::Vec;

/// What a change took out of a map: the parts of entries that were in its range, in order.
pub type Removed<V, K = u64> = Vec<(Range<K>, V)>;

impl<V, K: Index> RangeMap<V, K> {
    fn put(&mut self, range: Words<K>, value: V) -> Result<(), Rejected<V, K>> {
        self.owned.store(range, Some(value)).map_err(rejected)
    }

    /// Makes a range one entry with this value. Entries that it overlaps keep the indices outside
    /// the range; an entry that reaches out on both sides becomes two, and its value is split.
    ///
    /// O(log entries + entries that it overlaps).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::new();
    /// map.store(0..=99, 'a')?;
    /// map.store(40..=59, 'b')?;
    /// assert_eq!(format!("{map:?}"), "{0..=39: 'a', 40..=59: 'b', 60..=99: 'a'}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::Split`], with the value given back.
    pub fn store(&mut self, range: impl IndexRange<K>, value: V) -> Result<(), Rejected<V, K>> {
        match bounds(range) {
            Ok(range) => self.put(range, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`store`](Self::store), and returns what was there before.
    ///
    /// # Errors
    /// As [`store`](Self::store). What is there is split in two more places: with
    /// [`Split::never`](crate::Split::never), no entry may reach out of the range.
    pub fn replace(
        &mut self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Removed<V, K>, Rejected<V, K>> {
        match bounds(range) {
            Ok(range) => {
                let removed = self.owned.exchange(range, Some(value));
                removed.map(ranges).map_err(rejected)
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`store`](Self::store), and joins the entry with neighbours that touch it and have an
    /// equal value; with [`Split::at`](crate::Split::at), with those that it continues, and that
    /// continue it. Returns the range of the entry.
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::from_iter([(0..=9, 'a'), (20..=29, 'a'), (30..=39, 'b')]);
    /// assert_eq!(map.store_coalescing(10..=19, 'a')?, 0..=29);
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn store_coalescing(
        &mut self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>>
    where
        V: PartialEq,
    {
        let split = self.owned.split();
        let (whole, left) = match bounds(range) {
            Ok(range) => {
                let (whole, left) = self.view().joined(range, &value, split);
                // With values that shift, the left neighbour's is another one.
                let left = left.filter(|_| split.shifts());
                (
                    whole,
                    left.and_then(|left| split.at_offset(left, K::Word::ZERO)),
                )
            }
            Err(error) => return Err(Rejected { value, error }),
        };
        put_joined(left, value, |value| self.put(whole, value))?;
        Ok(span::<K>(whole))
    }

    /// As [`store`](Self::store), if no entry has an index of the range.
    ///
    /// The cost of [`store`](Self::store).
    ///
    /// # Errors
    /// [`Error::Occupied`] with the first entry in the way, and those of [`store`](Self::store),
    /// with the value given back.
    pub fn insert_new(
        &mut self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<(), Rejected<V, K>> {
        let free = bounds(range).and_then(|range| self.view().free(range).map(|()| range));
        match free {
            Ok(range) => self.put(range, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Stores at the lowest `size` indices of a window that no entry has, or at the place that the
    /// [`Window`] chooses. Returns the range.
    ///
    /// The search of [`find_gap`](Self::find_gap), and a store.
    ///
    /// # Errors
    /// [`Error::NoGap`]; [`Error::EmptyRange`], [`Error::ZeroSize`], [`Error::WindowTooSmall`],
    /// [`Error::Alignment`]; those of [`store`](Self::store); with the value given back.
    pub fn alloc_range(
        &mut self,
        size: K::Word,
        within: impl Into<Window<K>>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>> {
        match self.view().room(size, &within.into()) {
            Ok(range) => {
                self.put((range.start().to_word(), range.end().to_word()), value)?;
                Ok(range)
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Removes and returns the whole entry that holds an index.
    ///
    /// O(log entries).
    ///
    /// # Errors
    /// [`Error::ArenaFull`]: neighbours of an entry may move into a new node.
    pub fn remove(&mut self, index: K) -> Result<Option<(Range<K>, V)>, Error<K>> {
        let removed = self.owned.remove(index.to_word())?;
        Ok(removed.map(|(start, end, value)| (span::<K>((start, end)), value)))
    }

    /// Makes a range a gap. Entries that it overlaps keep the indices outside the range.
    ///
    /// O(log entries + entries that it overlaps).
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::Split`].
    pub fn clear_range(&mut self, range: impl IndexRange<K>) -> Result<(), Error<K>> {
        let cleared = self.owned.store(bounds(range)?, None);
        cleared.map_err(|(_, refused)| refused.into())
    }

    /// As [`clear_range`](Self::clear_range), and returns what was there: the entries, and the
    /// parts of those that the range cuts.
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
    /// assert_eq!(map.take_range(5..=24)?, [(5..=9, 'a'), (20..=24, 'b')]);
    /// assert_eq!(format!("{map:?}"), "{0..=4: 'a', 25..=29: 'b'}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn take_range(&mut self, range: impl IndexRange<K>) -> Result<Removed<V, K>, Error<K>> {
        let removed = self.owned.exchange(bounds(range)?, None);
        removed.map(ranges).map_err(|(_, refused)| refused.into())
    }

    /// Removes all entries.
    ///
    /// O(entries).
    pub fn clear(&mut self) {
        drop(self.owned.drain());
    }

    /// Changes the values in a range, in place, and joins neighbours that touch and are then equal;
    /// with [`Split::at`](crate::Split::at), those of which one continues the other. Entries that
    /// the range cuts are cut first, so that only the range is changed. The function
    /// gets each entry in the range, in order.
    ///
    /// This is what `mprotect` does to an address space.
    ///
    /// O(log entries + entries in the range).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::from_iter([(0..=99, 1), (100..=199, 3)]);
    /// map.modify_range(50..=149, |_, value| *value = 2)?;
    /// assert_eq!(format!("{map:?}"), "{0..=49: 1, 50..=149: 2, 150..=199: 3}");
    /// map.modify_range(50..=149, |_, value| *value = 1)?;
    /// assert_eq!(format!("{map:?}"), "{0..=149: 1, 150..=199: 3}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::Split`]. If there is no memory for a
    /// cut, no value has changed. If there is none for a join, all values have, and some equal
    /// neighbours are not joined.
    pub fn modify_range(
        &mut self,
        range: impl IndexRange<K>,
        change: impl FnMut(Range<K>, &mut V),
    ) -> Result<(), Error<K>>
    where
        V: PartialEq,
    {
        let split = *self.owned.split();
        self.modify_range_by(range, change, |left, len, right| {
            let whole = len.checked_add(K::Word::ONE);
            whole.is_some_and(|len| split.continues(left, len, right))
        })
    }

    /// As [`modify_range`](Self::modify_range), but joins neighbours that touch where the function
    /// says so: it gets the left value, the number of indices of its entry less one, and the right
    /// value. The joined entry has the left one's value.
    ///
    /// ```
    /// use sapwood::maple::{RangeMap, Split};
    /// // Values are offsets, which grow with the index.
    /// let mut map = RangeMap::with_split(Split::at(|offset: &u64, by| offset + by));
    /// map.store(100..=149, 0)?;
    /// map.store(150..=199, 50)?;
    /// map.modify_range_by(120..=129, |_, _| {}, |left, len, right| left + len + 1 == *right)?;
    /// assert_eq!(format!("{map:?}"), "{100..=149: 0, 150..=199: 50}");
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`modify_range`](Self::modify_range).
    pub fn modify_range_by(
        &mut self,
        range: impl IndexRange<K>,
        mut change: impl FnMut(Range<K>, &mut V),
        mut join: impl FnMut(&V, K::Word, &V) -> bool,
    ) -> Result<(), Error<K>> {
        let (start, end) = bounds(range)?;
        self.cut_at(start)?;
        if let Some(behind) = end.checked_add(K::Word::ONE) {
            self.cut_at(behind)?;
        }
        self.range_mut(span::<K>((start, end)))
            .for_each(|(entry, value)| change(entry, value));
        // From the entry before the range to the one behind it.
        let mut at = start.checked_sub(K::Word::ONE).unwrap_or(start);
        loop {
            let entries = self.owned.view();
            let mut walk = entries.finger();
            let Some(left) = walk.forward(at) else {
                return Ok(());
            };
            let Some(right) = left
                .end
                .checked_add(K::Word::ONE)
                .and_then(|next| walk.forward(next))
            else {
                return Ok(());
            };
            if left.end > end {
                return Ok(());
            }
            let touch = left.end.above() == right.start;
            let (value, other) = (entries.value(left.slot), entries.value(right.slot));
            if touch && join(value, left.end - left.start, other) {
                // The joined entry may be joined with the next one.
                at = left.start;
                self.owned.join(left, right)?;
            } else {
                at = right.start;
            }
        }
    }

    /// Makes an index the first of its entry, if it is in one.
    fn cut_at(&mut self, index: K::Word) -> Result<(), Error<K>> {
        let Some(Entry { start, end, slot }) = self.owned.view().entry(index) else {
            return Ok(());
        };
        if start == index {
            return Ok(());
        }
        let value = self.owned.view().value(slot);
        let right = self.owned.split().at_offset(value, index - start);
        let right = right.ok_or_else(|| Error::from(Refused::Split(start, end)))?;
        let cut = self.owned.store((index, end), Some(right));
        cut.map_err(|(_, refused)| refused.into())
    }
}

/// Entries with their ranges.
fn ranges<V, K: Index>(entries: Vec<Ranged<V, K::Word>>) -> Removed<V, K> {
    let entries = entries.into_iter();
    entries
        .map(|(start, end, value)| (span::<K>((start, end)), value))
        .collect()
}

//! Two range maps side by side: what each has where, and what has changed.

use core::fmt;
use core::iter::{FusedIterator, Peekable};

use super::iter::Iter;
use super::view::MapleView;
use crate::index::span;
use crate::{Index, Range, Word};

/// A part of two maps: its indices, and the values there.
pub type Piece<'a, A, B, K = u64> = (Range<K>, Option<&'a A>, Option<&'a B>);

impl<'g, V, K: Index> MapleView<'g, V, K> {
    /// The number of indices that entries have. It may be as much as 2^64; where indices have 128
    /// bits, 2^128 is told as one less.
    ///
    /// O(entries).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let map = RangeMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
    /// assert_eq!(map.view().covered(), 20);
    /// ```
    pub fn covered(&self) -> u128 {
        let length = |(range, _): (Range<K>, _)| {
            let below = range.end().to_word() - range.start().to_word();
            below.to_u128().saturating_add(1)
        };
        self.iter().map(length).fold(0, u128::saturating_add)
    }

    /// This map and another one side by side: the parts of the indices where one or both have an
    /// entry, in order, each with both values. A part lies in one entry of each map, or in a gap.
    ///
    /// Union, intersection and difference are what is left of it: all parts, those with two values,
    /// those with the first value only. The complement of a map is its
    /// [`gaps`](Self::gaps).
    ///
    /// O(entries of both).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let allowed = RangeMap::from_iter([(0..=99, "lan"), (200..=299, "vpn")]);
    /// let blocked = RangeMap::from_iter([(50..=219, "scanner")]);
    /// let (allowed, blocked) = (allowed.view(), blocked.view());
    /// let left: Vec<_> = allowed
    ///     .overlay(&blocked)
    ///     .filter_map(|(range, allowed, blocked)| allowed.filter(|_| blocked.is_none()).zip(Some(range)))
    ///     .collect();
    /// assert_eq!(left, [(&"lan", 0..=49), (&"vpn", 220..=299)]);
    /// ```
    pub fn overlay<'a, W>(&self, other: &MapleView<'a, W, K>) -> Overlay<'g, 'a, V, W, K> {
        Overlay {
            left: self.iter().peekable(),
            right: other.iter().peekable(),
            from: Some(K::Word::ZERO),
        }
    }

    /// What is different in a newer map: the parts of the indices whose values differ, in order,
    /// each with the old value and the new one. Values are compared as they are, so an entry that
    /// [`Split::at`](crate::Split::at) has cut differs from the whole one.
    ///
    /// O(entries of both).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=99, 'a')]);
    /// let before = map.snapshot();
    /// map.store(40..=49, 'b')?;
    /// map.clear_range(90..=99)?;
    /// let now = map.snapshot();
    /// let changes: Vec<_> = before.view().diff(&now.view()).collect();
    /// assert_eq!(changes, [
    ///     (40..=49, Some(&'a'), Some(&'b')),
    ///     (90..=99, Some(&'a'), None),
    /// ]);
    /// # Ok::<(), sapwood::Error>(())
    /// ```
    pub fn diff<'a>(
        &self,
        newer: &MapleView<'a, V, K>,
    ) -> impl Iterator<Item = Piece<'a, V, V, K>> + use<'a, V, K>
    where
        V: PartialEq,
        'g: 'a,
    {
        let parts: Overlay<'a, 'a, V, V, K> = self.overlay(newer);
        parts.filter(|(_, old, new)| old != new)
    }
}

/// Two maps side by side, from [`MapleView::overlay`].
pub struct Overlay<'a, 'b, A, B, K: Index = u64> {
    left: Peekable<Iter<'a, A, K>>,
    right: Peekable<Iter<'b, B, K>>,
    /// The first index that has not been passed.
    from: Option<K::Word>,
}

/// The entry that ends at or after an index: where it begins from there on, where it ends, and its
/// value.
fn ahead<'a, V, K: Index>(
    entries: &mut Peekable<Iter<'a, V, K>>,
    from: K::Word,
) -> Option<(K::Word, K::Word, &'a V)> {
    while let Some((range, value)) = entries.peek() {
        let (start, end) = (range.start().to_word(), range.end().to_word());
        if end >= from {
            return Some((from.max(start), end, value));
        }
        entries.next();
    }
    None
}

/// The value of an entry that has an index, and where what is there ends.
fn at<V, W: Word>(entry: Option<(W, W, &V)>, start: W) -> (W, Option<&V>) {
    match entry {
        Some((from, end, value)) if from <= start => (end, Some(value)),
        Some((from, ..)) => (from.below(), None),
        None => (W::MAX, None),
    }
}

impl<'a, 'b, A, B, K: Index> Iterator for Overlay<'a, 'b, A, B, K> {
    type Item = (Range<K>, Option<&'a A>, Option<&'b B>);

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.from?;
        let left = ahead(&mut self.left, from);
        let right = ahead(&mut self.right, from);
        let starts = [left.map(|entry| entry.0), right.map(|entry| entry.0)];
        let Some(start) = starts.into_iter().flatten().min() else {
            self.from = None;
            return None;
        };
        let ((left_end, left), (right_end, right)) = (at(left, start), at(right, start));
        let end = left_end.min(right_end);
        self.from = end.checked_add(K::Word::ONE);
        Some((span::<K>((start, end)), left, right))
    }
}

impl<A, B, K: Index> FusedIterator for Overlay<'_, '_, A, B, K> {}

impl<A, B, K: Index> fmt::Debug for Overlay<'_, '_, A, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// Equal entries in order.
impl<V: PartialEq, K: Index> PartialEq<MapleView<'_, V, K>> for MapleView<'_, V, K> {
    fn eq(&self, other: &MapleView<'_, V, K>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: Eq, K: Index> Eq for MapleView<'_, V, K> {}

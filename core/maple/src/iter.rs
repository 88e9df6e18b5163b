//! Walks over entries and gaps of a view.

use core::fmt;
use core::iter::FusedIterator;

use super::raw::finger::Finger;
use super::view::MapleView;
use crate::index::span;
use crate::{Index, Range, Word, Words};

/// Entries in order, from both ends.
///
/// Each step sees the map as it is then: it returns the whole nearest entry that has an index which
/// the walk has not passed. So an entry that was stored across the walk's place meanwhile reaches
/// back over indices that the walk has passed.
///
/// `for_each`, `fold` and what is made of them (`sum`, `collect` into a map) look at the map once
/// for each of its nodes, some dozens of entries, and see the node as it is then. They take less
/// time (`docs/maple.md`).
pub struct Iter<'g, V, K: Index = u64> {
    view: MapleView<'g, V, K>,
    front: Finger<'g, K::Word>,
    back: Finger<'g, K::Word>,
    /// The indices that have not been passed, if `open`.
    from: K::Word,
    to: K::Word,
    open: bool,
}

impl<'g, V, K: Index> Iter<'g, V, K> {
    pub(super) fn new(view: MapleView<'g, V, K>, range: Option<Words<K>>) -> Self {
        let finger = view.view.finger();
        let (from, to) = range.unwrap_or_default();
        Iter {
            view,
            front: finger,
            back: finger,
            from,
            to,
            open: range.is_some(),
        }
    }
}

impl<'g, V, K: Index> Iterator for Iter<'g, V, K> {
    type Item = (Range<K>, &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if !self.open {
            return None;
        }
        let entry = self.front.forward(self.from);
        let Some(entry) = entry.filter(|entry| entry.start <= self.to) else {
            self.open = false;
            return None;
        };
        self.open = entry.end < self.to;
        self.from = entry.end.above();
        Some(self.view.entry(entry))
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, result: B, mut each: F) -> B {
        if !self.open {
            return result;
        }
        let left = (self.from, self.to);
        let view = self.view.view;
        view.fold(
            &mut self.front,
            left,
            result,
            |result, start, end, value| each(result, (span::<K>((start, end)), value)),
        )
    }
}

impl<V, K: Index> DoubleEndedIterator for Iter<'_, V, K> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if !self.open {
            return None;
        }
        let entry = self.back.backward(self.to);
        let Some(entry) = entry.filter(|entry| entry.end >= self.from) else {
            self.open = false;
            return None;
        };
        self.open = entry.start > self.from;
        self.to = entry.start.below();
        Some(self.view.entry(entry))
    }
}

impl<V, K: Index> FusedIterator for Iter<'_, V, K> {}

impl<V, K: Index> Clone for Iter<'_, V, K> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

impl<V: fmt::Debug, K: Index> fmt::Debug for Iter<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// Gaps in order, from both ends.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::from_iter([(5..=9, 'a'), (10..=19, 'b'), (30..=39, 'c')]);
/// map.read(|view| {
///     let mut gaps = view.gaps(0..=99);
///     assert_eq!(gaps.next(), Some(0..=4));
///     assert_eq!(gaps.next_back(), Some(40..=99));
///     assert_eq!(gaps.next_back(), Some(20..=29));
///     assert_eq!(gaps.next(), None);
/// });
/// ```
pub struct Gaps<'g, V, K: Index = u64> {
    entries: Iter<'g, V, K>,
    /// The indices that have not been passed.
    left: Option<Words<K>>,
}

impl<'g, V, K: Index> Gaps<'g, V, K> {
    pub(super) fn new(view: MapleView<'g, V, K>, within: Option<Words<K>>) -> Self {
        Gaps {
            left: within,
            entries: Iter::new(view, within),
        }
    }
}

impl<V, K: Index> Iterator for Gaps<'_, V, K> {
    type Item = Range<K>;

    fn next(&mut self) -> Option<Range<K>> {
        while let Some((from, to)) = self.left.take() {
            let Some((entry, _)) = self.entries.next() else {
                return Some(span::<K>((from, to)));
            };
            let (start, end) = (entry.start().to_word(), entry.end().to_word());
            self.left = (end < to).then(|| (end.above(), to));
            if start > from {
                return Some(span::<K>((from, start.below())));
            }
        }
        None
    }
}

impl<V, K: Index> DoubleEndedIterator for Gaps<'_, V, K> {
    fn next_back(&mut self) -> Option<Range<K>> {
        while let Some((from, to)) = self.left.take() {
            let Some((entry, _)) = self.entries.next_back() else {
                return Some(span::<K>((from, to)));
            };
            let (start, end) = (entry.start().to_word(), entry.end().to_word());
            self.left = (start > from).then(|| (from, start.below()));
            if end < to {
                return Some(span::<K>((end.above(), to)));
            }
        }
        None
    }
}

impl<V, K: Index> FusedIterator for Gaps<'_, V, K> {}

impl<V, K: Index> Clone for Gaps<'_, V, K> {
    fn clone(&self) -> Self {
        Gaps {
            entries: self.entries.clone(),
            left: self.left,
        }
    }
}

impl<V, K: Index> fmt::Debug for Gaps<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

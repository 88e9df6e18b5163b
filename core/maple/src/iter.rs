//! Walks over entries and gaps: of a view, and of a map by itself.

use core::fmt;
use core::iter::FusedIterator;

use super::Range;
use super::map::{MapleMap, cloned};
use super::raw::finger::Finger;
use super::view::MapleView;

/// Entries in order, from both ends.
///
/// Each step sees the map as it is then: it returns the whole nearest entry that has an index which
/// the walk has not passed. So an entry that was stored across the walk's place meanwhile reaches
/// back over indices that the walk has passed.
pub struct Iter<'g, V> {
    view: MapleView<'g, V>,
    front: Finger<'g>,
    back: Finger<'g>,
    /// The indices that have not been passed, if `open`.
    from: u64,
    to: u64,
    open: bool,
}

impl<'g, V> Iter<'g, V> {
    pub(super) fn new(view: MapleView<'g, V>, range: Range) -> Self {
        let finger = view.view.finger();
        Iter {
            view,
            front: finger,
            back: finger,
            from: *range.start(),
            to: *range.end(),
            open: !range.is_empty(),
        }
    }
}

impl<'g, V> Iterator for Iter<'g, V> {
    type Item = (Range, &'g V);

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
        self.from = entry.end.wrapping_add(1);
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
            |result, start, end, value| each(result, (start..=end, value)),
        )
    }
}

impl<V> DoubleEndedIterator for Iter<'_, V> {
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
        self.to = entry.start.wrapping_sub(1);
        Some(self.view.entry(entry))
    }
}

impl<V> FusedIterator for Iter<'_, V> {}

impl<V> Clone for Iter<'_, V> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

impl<V: fmt::Debug> fmt::Debug for Iter<'_, V> {
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
pub struct Gaps<'g, V> {
    entries: Iter<'g, V>,
    /// The indices that have not been passed.
    left: Option<(u64, u64)>,
}

impl<'g, V> Gaps<'g, V> {
    pub(super) fn new(view: MapleView<'g, V>, within: Range) -> Self {
        Gaps {
            left: (!within.is_empty()).then_some((*within.start(), *within.end())),
            entries: view.range(within),
        }
    }
}

impl<V> Iterator for Gaps<'_, V> {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        while let Some((from, to)) = self.left.take() {
            let Some((entry, _)) = self.entries.next() else {
                return Some(from..=to);
            };
            self.left = match entry.end().checked_add(1) {
                Some(next) if next <= to => Some((next, to)),
                _ => None,
            };
            if *entry.start() > from {
                return Some(from..=*entry.start() - 1);
            }
        }
        None
    }
}

impl<V> DoubleEndedIterator for Gaps<'_, V> {
    fn next_back(&mut self) -> Option<Range> {
        while let Some((from, to)) = self.left.take() {
            let Some((entry, _)) = self.entries.next_back() else {
                return Some(from..=to);
            };
            self.left = match entry.start().checked_sub(1) {
                Some(next) if next >= from => Some((from, next)),
                _ => None,
            };
            if *entry.end() < to {
                return Some(*entry.end() + 1..=to);
            }
        }
        None
    }
}

impl<V> FusedIterator for Gaps<'_, V> {}

impl<V> Clone for Gaps<'_, V> {
    fn clone(&self) -> Self {
        Gaps {
            entries: self.entries.clone(),
            left: self.left,
        }
    }
}

impl<V> fmt::Debug for Gaps<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// The indices of a range, if it has any.
fn open(range: &Range) -> Option<(u64, u64)> {
    (!range.is_empty()).then_some((*range.start(), *range.end()))
}

/// Entries of a [`MapleMap`] in order, from both ends, with copies of their values.
///
/// Each step looks the next entry up in logarithmic time, and sees the map as it is then. The walk
/// holds nothing back between steps, and may be sent to other threads.
pub struct MapIter<'m, V> {
    map: &'m MapleMap<V>,
    /// The indices that have not been passed.
    left: Option<(u64, u64)>,
}

impl<'m, V> MapIter<'m, V> {
    pub(super) fn new(map: &'m MapleMap<V>, range: &Range) -> Self {
        let left = open(range);
        MapIter { map, left }
    }
}

impl<V: Clone + Send + Sync + 'static> Iterator for MapIter<'_, V> {
    type Item = (Range, V);

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        let entry = self.map.read(|view| cloned(view.range(from..=to).next()))?;
        let next = entry.0.end().checked_add(1).filter(|&next| next <= to);
        self.left = next.map(|next| (next, to));
        Some(entry)
    }
}

impl<V: Clone + Send + Sync + 'static> DoubleEndedIterator for MapIter<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        let entry = self
            .map
            .read(|view| cloned(view.range(from..=to).next_back()))?;
        let next = entry.0.start().checked_sub(1).filter(|&next| next >= from);
        self.left = next.map(|next| (from, next));
        Some(entry)
    }
}

impl<V: Clone + Send + Sync + 'static> FusedIterator for MapIter<'_, V> {}

impl<V> Clone for MapIter<'_, V> {
    fn clone(&self) -> Self {
        MapIter { ..*self }
    }
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static> fmt::Debug for MapIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// Gaps of a [`MapleMap`] in order, from both ends. Its steps are like those of [`MapIter`].
pub struct MapGaps<'m, V> {
    map: &'m MapleMap<V>,
    /// The indices that have not been passed.
    left: Option<(u64, u64)>,
}

impl<'m, V> MapGaps<'m, V> {
    pub(super) fn new(map: &'m MapleMap<V>, within: &Range) -> Self {
        let left = open(within);
        MapGaps { map, left }
    }
}

impl<V: Clone + Send + Sync + 'static> Iterator for MapGaps<'_, V> {
    type Item = Range;

    fn next(&mut self) -> Option<Range> {
        let (from, to) = self.left.take()?;
        let gap = self.map.read(|view| view.gaps(from..=to).next())?;
        let next = gap.end().checked_add(1).filter(|&next| next <= to);
        self.left = next.map(|next| (next, to));
        Some(gap)
    }
}

impl<V: Clone + Send + Sync + 'static> DoubleEndedIterator for MapGaps<'_, V> {
    fn next_back(&mut self) -> Option<Range> {
        let (from, to) = self.left.take()?;
        let gap = self.map.read(|view| view.gaps(from..=to).next_back())?;
        let next = gap.start().checked_sub(1).filter(|&next| next >= from);
        self.left = next.map(|next| (from, next));
        Some(gap)
    }
}

impl<V: Clone + Send + Sync + 'static> FusedIterator for MapGaps<'_, V> {}

impl<V> Clone for MapGaps<'_, V> {
    fn clone(&self) -> Self {
        MapGaps { ..*self }
    }
}

impl<V: Clone + Send + Sync + 'static> fmt::Debug for MapGaps<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

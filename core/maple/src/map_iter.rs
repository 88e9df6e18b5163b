//! Walks over entries and gaps of a map by itself.

use core::fmt;
use core::iter::FusedIterator;

use super::iter::{Gaps, Iter};
use super::map::{MapleMap, cloned};
use super::view::MapleView;
use crate::{Index, Range, Word, Words};

/// Entries of a [`MapleMap`] in order, from both ends, with copies of their values.
///
/// Each step looks the next entry up in logarithmic time, and sees the map as it is then. The walk
/// holds nothing back between steps, and may be sent to other threads.
pub struct MapIter<'m, V, K: Index = u64> {
    map: &'m MapleMap<V, K>,
    /// The indices that have not been passed.
    left: Option<Words<K>>,
}

impl<'m, V, K: Index> MapIter<'m, V, K> {
    pub(super) fn new(map: &'m MapleMap<V, K>, left: Option<Words<K>>) -> Self {
        MapIter { map, left }
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Iterator for MapIter<'_, V, K> {
    type Item = (Range<K>, V);

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        let walk = |view: MapleView<'_, V, K>| cloned(Iter::new(view, Some((from, to))).next());
        let entry = self.map.read(walk)?;
        let end = entry.0.end().to_word();
        let next = (end < to).then(|| end.above());
        self.left = next.map(|next| (next, to));
        Some(entry)
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> DoubleEndedIterator for MapIter<'_, V, K> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        let walk =
            |view: MapleView<'_, V, K>| cloned(Iter::new(view, Some((from, to))).next_back());
        let entry = self.map.read(walk)?;
        let start = entry.0.start().to_word();
        let next = (start > from).then(|| start.below());
        self.left = next.map(|next| (from, next));
        Some(entry)
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> FusedIterator for MapIter<'_, V, K> {}

impl<V, K: Index> Clone for MapIter<'_, V, K> {
    fn clone(&self) -> Self {
        MapIter { ..*self }
    }
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static, K: Index> fmt::Debug for MapIter<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// Gaps of a [`MapleMap`] in order, from both ends. Its steps are like those of [`MapIter`].
pub struct MapGaps<'m, V, K: Index = u64> {
    map: &'m MapleMap<V, K>,
    /// The indices that have not been passed.
    left: Option<Words<K>>,
}

impl<'m, V, K: Index> MapGaps<'m, V, K> {
    pub(super) fn new(map: &'m MapleMap<V, K>, left: Option<Words<K>>) -> Self {
        MapGaps { map, left }
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Iterator for MapGaps<'_, V, K> {
    type Item = Range<K>;

    fn next(&mut self) -> Option<Range<K>> {
        let (from, to) = self.left.take()?;
        let left = Some((from, to));
        let gap = self.map.read(|view| Gaps::new(view, left).next())?;
        let end = gap.end().to_word();
        let next = (end < to).then(|| end.above());
        self.left = next.map(|next| (next, to));
        Some(gap)
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> DoubleEndedIterator for MapGaps<'_, V, K> {
    fn next_back(&mut self) -> Option<Range<K>> {
        let (from, to) = self.left.take()?;
        let left = Some((from, to));
        let gap = self.map.read(|view| Gaps::new(view, left).next_back())?;
        let start = gap.start().to_word();
        let next = (start > from).then(|| start.below());
        self.left = next.map(|next| (from, next));
        Some(gap)
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> FusedIterator for MapGaps<'_, V, K> {}

impl<V, K: Index> Clone for MapGaps<'_, V, K> {
    fn clone(&self) -> Self {
        MapGaps { ..*self }
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> fmt::Debug for MapGaps<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

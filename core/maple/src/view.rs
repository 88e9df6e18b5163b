//! Views of a map.

use core::fmt;

use sapwood_qsbr::StaysOnItsThread;

use super::gap::Fit;
use super::iter::{Gaps, Iter};
use super::raw::finger::Entry;
use super::raw::view::{Frozen, View};
use super::window::Window;
use crate::index::{open, span};
use crate::{Error, Index, IndexRange, Range, Split, Word, Words};

/// A [`MapleMap`](super::MapleMap), read under a guard, or while its writer makes no change. It
/// stays on its thread.
///
/// Each call sees the newest map: as it is before a change or after it.
pub struct MapleView<'g, V, K: Index = u64> {
    pub(super) view: View<'g, V, K::Word>,
    _local: StaysOnItsThread,
}

impl<V, K: Index> Clone for MapleView<'_, V, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, K: Index> Copy for MapleView<'_, V, K> {}

impl<'g, V, K: Index> MapleView<'g, V, K> {
    #[inline]
    pub(super) fn new(view: View<'g, V, K::Word>) -> Self {
        MapleView {
            view,
            _local: StaysOnItsThread::default(),
        }
    }

    /// The map as it is now, for many questions: transactions ([`MapleMap::begin`]) that end
    /// meanwhile do not show. So it is one version of a map that is changed by transactions only.
    /// Other changes may show, each whole.
    ///
    /// It takes no lock, and holds nothing back but what the view's guard does; a
    /// [snapshot](super::MapleSnapshot) can outlive the guard.
    ///
    /// O(1).
    ///
    /// [`MapleMap::begin`]: super::MapleMap::begin
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a')]);
    /// map.read(|view| {
    ///     let now = view.freeze();
    ///     map.move_range(0..=9, 100).unwrap();
    ///     assert_eq!((now.view().get(5), now.view().get(105)), (Some(&'a'), None));
    ///     assert_eq!((view.get(5), view.get(105)), (None, Some(&'a')));
    /// });
    /// ```
    pub fn freeze(&self) -> MapleFrozen<'g, V, K> {
        MapleFrozen {
            tree: self.view.freeze(),
            _local: StaysOnItsThread::default(),
        }
    }

    /// The value at an index. Logarithmic time.
    #[inline]
    pub fn get(&self, index: K) -> Option<&'g V> {
        self.view.get(index.to_word())
    }

    /// The entry that holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn get_entry(&self, index: K) -> Option<(Range<K>, &'g V)> {
        let entry = self.view.entry(index.to_word())?;
        Some(self.entry(entry))
    }

    /// Whether an entry holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn contains(&self, index: K) -> bool {
        self.view.entry(index.to_word()).is_some()
    }

    #[inline(always)]
    pub(super) fn entry(&self, entry: Entry<K::Word>) -> (Range<K>, &'g V) {
        (
            span::<K>((entry.start, entry.end)),
            self.view.value(entry.slot),
        )
    }

    /// The entry that holds an index, or the whole gap that does.
    ///
    /// O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(5..=9, 'a'), (20..=29, 'b')]);
    /// map.read(|view| {
    ///     assert_eq!(view.locate(7), (5..=9, Some(&'a')));
    ///     assert_eq!(view.locate(12), (10..=19, None));
    /// });
    /// ```
    pub fn locate(&self, index: K) -> (Range<K>, Option<&'g V>) {
        let (words, value) = self.locate_words(index.to_word());
        (span::<K>(words), value)
    }

    /// As [`locate`](Self::locate), in words.
    pub(super) fn locate_words(&self, index: K::Word) -> (Words<K>, Option<&'g V>) {
        let all = (K::MIN.to_word(), K::MAX.to_word());
        let Some(found) = self.view.find(index) else {
            return (all, None);
        };
        let leaf = found.leaf;
        let k = leaf.rank::<false>(index);
        if k < leaf.len() && leaf.start(k) <= index {
            let entry = self.view.entry_of(&leaf, k);
            return ((entry.start, entry.end), Some(self.view.value(entry.slot)));
        }
        let from = match k {
            0 => found.lower.max(all.0),
            k => leaf.end(k - 1).above(),
        };
        let to = if k < leaf.len() {
            leaf.start(k).below()
        } else {
            found.upper.min(all.1)
        };
        ((from, to), None)
    }

    /// Number of entries.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there are no entries.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first entry that ends at or after an index.
    pub(super) fn at_or_after(&self, index: K::Word) -> Option<(Range<K>, &'g V)> {
        let found = self.view.finger().forward(index);
        found.map(|entry| self.entry(entry))
    }

    /// The last entry that starts at or before an index.
    pub(super) fn at_or_before(&self, index: K::Word) -> Option<(Range<K>, &'g V)> {
        let found = self.view.finger().backward(index);
        found.map(|entry| self.entry(entry))
    }

    /// The first entry.
    ///
    /// O(log entries).
    pub fn first(&self) -> Option<(Range<K>, &'g V)> {
        self.at_or_after(K::Word::ZERO)
    }

    /// The last entry.
    ///
    /// O(log entries).
    pub fn last(&self) -> Option<(Range<K>, &'g V)> {
        self.at_or_before(K::Word::MAX)
    }

    /// The first entry that starts after an index. When an entry is stored across that index
    /// meanwhile, this looks again behind that entry, so the answer is not of one moment.
    ///
    /// O(log entries).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(5..=9, 'a'), (20..=29, 'b')]);
    /// map.read(|view| {
    ///     assert_eq!(view.next_after(4), Some((5..=9, &'a')));
    ///     assert_eq!(view.next_after(5), Some((20..=29, &'b')));
    ///     assert_eq!(view.prev_before(29), Some((5..=9, &'a')));
    /// });
    /// ```
    pub fn next_after(&self, index: K) -> Option<(Range<K>, &'g V)> {
        let mut finger = self.view.finger();
        let index = index.to_word();
        let mut entry = finger.forward(index.checked_add(K::Word::ONE)?)?;
        // The first turn passes an entry across the index. There is a second one only when another
        // entry is stored meanwhile.
        while entry.start <= index {
            entry = finger.forward(entry.end.checked_add(K::Word::ONE)?)?;
        }
        Some(self.entry(entry))
    }

    /// The last entry that ends before an index.
    ///
    /// O(log entries).
    pub fn prev_before(&self, index: K) -> Option<(Range<K>, &'g V)> {
        let mut finger = self.view.finger();
        let index = index.to_word();
        let mut entry = finger.backward(index.checked_sub(K::Word::ONE)?)?;
        while entry.end >= index {
            entry = finger.backward(entry.start.checked_sub(K::Word::ONE)?)?;
        }
        Some(self.entry(entry))
    }

    /// All entries in order, from both ends.
    ///
    /// Each step is a search: O(log entries).
    pub fn iter(&self) -> Iter<'g, V, K> {
        self.range(..)
    }

    /// The entries that have an index in a range, in order, from both ends. Each is whole, also
    /// where the range cuts it. An empty range has none.
    ///
    /// As [`iter`](Self::iter).
    pub fn range(&self, range: impl IndexRange<K>) -> Iter<'g, V, K> {
        Iter::new(*self, open(range))
    }

    /// The gaps in a range, in order, from both ends, clipped to the range. An empty range has
    /// none.
    ///
    /// As [`iter`](Self::iter).
    pub fn gaps(&self, within: impl IndexRange<K>) -> Gaps<'g, V, K> {
        Gaps::new(*self, open(within))
    }

    /// The lowest `size` indices within a window that no entry has, or the place that the
    /// [`Window`] chooses.
    ///
    /// `None` if there is no such place, and for a size of 0, a window with fewer indices, or an
    /// alignment that is no power of two. A writer may fill the place that a reader has found
    /// before the reader can use it; `alloc_range` finds and stores in one step.
    ///
    /// The search passes over subtrees whose gaps are too small, so it takes logarithmic time, also
    /// when nearly all gaps are too small. It may look at many leaves when most gaps are too small
    /// by less than a thousandth, or have room but not at the alignment (`sparse-256` in
    /// `docs/maple.md`).
    ///
    /// ```
    /// use sapwood::maple::MapleMap;
    /// let map = MapleMap::from_iter([(0..=9, 'a'), (15..=99, 'b')]);
    /// map.read(|view| {
    ///     assert_eq!(view.find_gap(5, 0..=u64::MAX), Some(10..=14));
    ///     assert_eq!(view.find_gap(6, 0..=u64::MAX), Some(100..=105));
    /// });
    /// ```
    #[inline]
    pub fn find_gap(&self, size: K::Word, within: impl Into<Window<K>>) -> Option<Range<K>> {
        self.place(&within.into().fit(size).ok()?)
    }

    /// The place that a store of this size takes.
    pub(super) fn room(&self, size: K::Word, within: &Window<K>) -> Result<Range<K>, Error<K>> {
        let found = self.place(&within.fit(size)?);
        found.ok_or(Error::NoGap { size })
    }

    /// Fails with the first entry that has an index of the range.
    pub(super) fn free(&self, (start, end): Words<K>) -> Result<(), Error<K>> {
        let there = self.at_or_after(start).map(|(entry, _)| entry);
        match there.filter(|entry| entry.start().to_word() <= end) {
            Some(entry) => {
                let (start, end) = entry.into_inner();
                Err(Error::Occupied { start, end })
            }
            None => Ok(()),
        }
    }

    /// The range with those of the neighbours that touch it and go on in it, if it has this value;
    /// and the value of the left one, if that is one of them.
    pub(super) fn joined(
        &self,
        (start, end): Words<K>,
        value: &V,
        split: &Split<V, K::Word>,
    ) -> (Words<K>, Option<&'g V>)
    where
        V: PartialEq,
    {
        let one = K::Word::ONE;
        let entry_at = |at| {
            self.view
                .entry(at)
                .map(|entry| (entry, self.view.value(entry.slot)))
        };
        // The rest of an entry that the range cuts is a neighbour, too.
        let before = start.checked_sub(one).and_then(entry_at);
        let before =
            before.filter(|(entry, left)| split.continues(left, start - entry.start, value));
        let behind = end.checked_add(one).and_then(entry_at);
        let behind = behind.filter(|(entry, right)| {
            // What lies behind the range of an entry that begins before it.
            let inside = (end + one).checked_sub(entry.start);
            let inside = inside.filter(|by| *by > K::Word::ZERO);
            let rest = inside.and_then(|by| split.at_offset(right, by));
            let right = rest.as_ref().unwrap_or(right);
            split.continues(value, end - start + one, right)
        });
        let first = before.map_or(start, |(entry, _)| entry.start);
        let last = behind.map_or(end, |(entry, _)| entry.end);
        ((first, last), before.map(|(_, left)| left))
    }

    pub(super) fn place(&self, fit: &Fit<K::Word>) -> Option<Range<K>> {
        let start = self.view.place(fit)?;
        Some(span::<K>((start, start + (fit.size - K::Word::ONE))))
    }
}

/// A [`MapleMap`](super::MapleMap) as it was when [`MapleView::freeze`] was called.
pub struct MapleFrozen<'g, V, K: Index = u64> {
    tree: Frozen<'g, V, K::Word>,
    _local: StaysOnItsThread,
}

impl<V, K: Index> MapleFrozen<'_, V, K> {
    /// The map, for reading. Its [`len`](MapleView::len) may be that of the version before or
    /// behind.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V, K> {
        MapleView::new(self.tree.view())
    }
}

impl<V: fmt::Debug, K: Index> fmt::Debug for MapleFrozen<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl<V: fmt::Debug, K: Index> fmt::Debug for MapleView<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'g, V, K: Index> IntoIterator for MapleView<'g, V, K> {
    type Item = (Range<K>, &'g V);
    type IntoIter = Iter<'g, V, K>;

    fn into_iter(self) -> Iter<'g, V, K> {
        self.iter()
    }
}

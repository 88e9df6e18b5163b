//! Views of a map.

use core::fmt;

use sapwood_qsbr::StaysOnItsThread;

use super::Range;
use super::gap::Fit;
use super::iter::{Gaps, Iter};
use super::raw::finger::Entry;
use super::raw::view::{Frozen, View};
use super::window::Window;
use crate::{Error, Split};

/// A [`MapleMap`](super::MapleMap), read under a guard, or while its writer makes no change. It
/// stays on its thread.
///
/// Each call sees the newest map: as it is before a change or after it.
pub struct MapleView<'g, V> {
    pub(super) view: View<'g, V>,
    _local: StaysOnItsThread,
}

impl<V> Clone for MapleView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for MapleView<'_, V> {}

impl<'g, V> MapleView<'g, V> {
    #[inline]
    pub(super) fn new(view: View<'g, V>) -> Self {
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
    pub fn freeze(&self) -> MapleFrozen<'g, V> {
        MapleFrozen {
            tree: self.view.freeze(),
            _local: StaysOnItsThread::default(),
        }
    }

    /// The value at an index. Logarithmic time.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&'g V> {
        self.view.get(index)
    }

    /// The entry that holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn get_entry(&self, index: u64) -> Option<(Range, &'g V)> {
        self.view.entry(index).map(|entry| self.entry(entry))
    }

    /// Whether an entry holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn contains(&self, index: u64) -> bool {
        self.view.entry(index).is_some()
    }

    #[inline(always)]
    pub(super) fn entry(&self, entry: Entry) -> (Range, &'g V) {
        (entry.start..=entry.end, self.view.value(entry.slot))
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
    pub fn locate(&self, index: u64) -> (Range, Option<&'g V>) {
        let Some(found) = self.view.find(index) else {
            return (0..=u64::MAX, None);
        };
        let leaf = found.leaf;
        let k = leaf.rank::<false>(index);
        if k < leaf.len() && leaf.start(k) <= index {
            let entry = self.view.entry_of(&leaf, k);
            let (range, value) = self.entry(entry);
            return (range, Some(value));
        }
        let from = match k {
            0 => found.lower,
            k => leaf.end(k - 1) + 1,
        };
        let to = if k < leaf.len() {
            leaf.start(k) - 1
        } else {
            found.upper
        };
        (from..=to, None)
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
    pub(super) fn at_or_after(&self, index: u64) -> Option<(Range, &'g V)> {
        let found = self.view.finger().forward(index);
        found.map(|entry| self.entry(entry))
    }

    /// The last entry that starts at or before an index.
    pub(super) fn at_or_before(&self, index: u64) -> Option<(Range, &'g V)> {
        let found = self.view.finger().backward(index);
        found.map(|entry| self.entry(entry))
    }

    /// The first entry.
    ///
    /// O(log entries).
    pub fn first(&self) -> Option<(Range, &'g V)> {
        self.at_or_after(0)
    }

    /// The last entry.
    ///
    /// O(log entries).
    pub fn last(&self) -> Option<(Range, &'g V)> {
        self.at_or_before(u64::MAX)
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
    pub fn next_after(&self, index: u64) -> Option<(Range, &'g V)> {
        let mut finger = self.view.finger();
        let mut entry = finger.forward(index.checked_add(1)?)?;
        // The first turn passes an entry across the index. There is a second one only when another
        // entry is stored meanwhile.
        while entry.start <= index {
            entry = finger.forward(entry.end.checked_add(1)?)?;
        }
        Some(self.entry(entry))
    }

    /// The last entry that ends before an index.
    ///
    /// O(log entries).
    pub fn prev_before(&self, index: u64) -> Option<(Range, &'g V)> {
        let mut finger = self.view.finger();
        let mut entry = finger.backward(index.checked_sub(1)?)?;
        while entry.end >= index {
            entry = finger.backward(entry.start.checked_sub(1)?)?;
        }
        Some(self.entry(entry))
    }

    /// All entries in order, from both ends.
    ///
    /// Each step is a search: O(log entries).
    pub fn iter(&self) -> Iter<'g, V> {
        self.range(0..=u64::MAX)
    }

    /// The entries that have an index in a range, in order, from both ends. Each is whole, also
    /// where the range cuts it. An empty range has none.
    ///
    /// As [`iter`](Self::iter).
    pub fn range(&self, range: Range) -> Iter<'g, V> {
        Iter::new(*self, range)
    }

    /// The gaps in a range, in order, from both ends, clipped to the range. An empty range has
    /// none.
    ///
    /// As [`iter`](Self::iter).
    pub fn gaps(&self, within: Range) -> Gaps<'g, V> {
        Gaps::new(*self, within)
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
    pub fn find_gap(&self, size: u64, within: impl Into<Window>) -> Option<Range> {
        self.place(&within.into().fit(size).ok()?)
    }

    /// The place that a store of this size takes.
    pub(super) fn room(&self, size: u64, within: &Window) -> Result<Range, Error> {
        let found = self.place(&within.fit(size)?);
        found.ok_or(Error::NoGap { size })
    }

    /// Fails with the first entry that has an index of the range.
    pub(super) fn free(&self, (start, end): (u64, u64)) -> Result<(), Error> {
        let there = self.at_or_after(start).map(|(entry, _)| entry);
        match there.filter(|entry| *entry.start() <= end) {
            Some(entry) => Err(Error::Occupied {
                start: *entry.start(),
                end: *entry.end(),
            }),
            None => Ok(()),
        }
    }

    /// The range with those of the neighbours that touch it and go on in it, if it has this value;
    /// and the value of the left one, if that is one of them.
    pub(super) fn joined(
        &self,
        (start, end): (u64, u64),
        value: &V,
        split: &Split<V>,
    ) -> ((u64, u64), Option<&'g V>)
    where
        V: PartialEq,
    {
        // The rest of an entry that the range cuts is a neighbour, too.
        let before = start.checked_sub(1).and_then(|at| self.get_entry(at));
        let before = before.filter(|(entry, left)| {
            let by = start - entry.start();
            split.continues(left, by, value)
        });
        let behind = end.checked_add(1).and_then(|at| self.get_entry(at));
        let behind = behind.filter(|(entry, right)| {
            // What lies behind the range of an entry that begins before it.
            let inside = (end + 1).checked_sub(*entry.start()).filter(|by| *by > 0);
            let rest = inside.and_then(|by| split.at_offset(right, by));
            let right = rest.as_ref().unwrap_or(right);
            split.continues(value, end - start + 1, right)
        });
        let first = before.as_ref().map_or(start, |(entry, _)| *entry.start());
        let last = behind.map_or(end, |(entry, _)| *entry.end());
        ((first, last), before.map(|(_, left)| left))
    }

    pub(super) fn place(&self, fit: &Fit) -> Option<Range> {
        let start = self.view.place(fit)?;
        Some(start..=start + (fit.size - 1))
    }
}

/// A [`MapleMap`](super::MapleMap) as it was when [`MapleView::freeze`] was called.
pub struct MapleFrozen<'g, V> {
    tree: Frozen<'g, V>,
    _local: StaysOnItsThread,
}

impl<V> MapleFrozen<'_, V> {
    /// The map, for reading. Its [`len`](MapleView::len) may be that of the version before or
    /// behind.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V> {
        MapleView::new(self.tree.view())
    }
}

impl<V: fmt::Debug> fmt::Debug for MapleFrozen<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl<V: fmt::Debug> fmt::Debug for MapleView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'g, V> IntoIterator for MapleView<'g, V> {
    type Item = (Range, &'g V);
    type IntoIter = Iter<'g, V>;

    fn into_iter(self) -> Iter<'g, V> {
        self.iter()
    }
}

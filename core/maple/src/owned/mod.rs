//! The owned map: one user, who changes it in place.

mod changes;
mod iter;

use alloc::string::String;
use core::fmt;

use sapwood_arena::ArenaOptions;

use super::iter::{Gaps, Iter};
use super::memory::MapleMemory;
use super::raw::owned::{Owned, Refused};
use super::view::MapleView;
use super::window::Window;
use crate::index::open;
use crate::{Error, Index, IndexRange, Range, Rejected, Split};

pub use self::changes::Removed;
pub use self::iter::{IntoIter, IterMut};

/// A map from ranges of indices to values, changed through `&mut`.
///
/// Indices are `u64`, or another type of integers or addresses ([`Index`]). Entries do not overlap;
/// each is an inclusive range, up to `0..=u64::MAX`. A gap is a maximal run of indices that no
/// entry has. Neighbours with equal values stay two entries, unless
/// [`store_coalescing`](Self::store_coalescing) or [`modify_range`](Self::modify_range) joins them.
///
/// It has the nodes of a [`MapleMap`](super::MapleMap), but no readers on other threads, no plans
/// and no snapshots. So a change of one leaf moves a few entries in place, and values of any type
/// lie beside their ranges, also those that are not `Clone` ([`Split`]).
///
/// ```
/// use sapwood::maple::{Error, RangeMap};
///
/// let mut map = RangeMap::new();
/// map.store(0x1000..=0x3FFF, "heap")?;
/// map.store(0x2000..=0x2FFF, "guard")?;
/// assert_eq!(map.get(0x3000), Some(&"heap"));
/// assert_eq!(map.alloc_range(0x1000, 0..=0xFFFF, "stack")?, 0..=0xFFF);
/// assert_eq!(map.remove(0x2500)?, Some((0x2000..=0x2FFF, "guard")));
/// assert_eq!(map.find_gap(0x1000, 0..=0xFFFF), Some(0x2000..=0x2FFF));
/// assert_eq!(map.len(), 3);
/// # Ok::<(), Error>(())
/// ```
///
/// # Cost
///
/// Reads and changes take logarithmic time. A change of one leaf moves what lies behind it in the
/// leaf, 512 bytes at most with integers as values. A leaf that is full, or has too few entries, is
/// written anew with its neighbours. Values of up to 64 bytes lie in the leaves, larger ones in
/// boxes. An empty map takes no memory but its own.
pub struct RangeMap<V, K: Index = u64> {
    owned: Owned<V, K::Word>,
}

impl<V: Clone, K: Index> Default for RangeMap<V, K> {
    fn default() -> Self {
        Self::keyed(ArenaOptions::default(), Split::by_clone())
    }
}

impl<V> RangeMap<V> {
    /// An empty map. Where an entry is cut in two, its value is cloned.
    ///
    /// O(1), and takes no memory.
    pub fn new() -> Self
    where
        V: Clone,
    {
        RangeMap::with_split(Split::by_clone())
    }

    /// An empty map whose values are split in this way.
    ///
    /// O(1), and takes no memory.
    ///
    /// ```
    /// use sapwood::maple::{Error, RangeMap, Split};
    /// let mut map = RangeMap::with_split(Split::never());
    /// map.store(0..=99, Box::new(1))?;
    /// map.clear_range(90..=99)?;
    /// let refused = map.clear_range(40..=59).unwrap_err();
    /// assert_eq!(refused, Error::Split { start: 0, end: 89 });
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_split(split: Split<V>) -> Self {
        RangeMap::with_options(ArenaOptions::default(), split)
    }

    /// An empty map in an arena with these options, which may move when it grows.
    ///
    /// O(1), and takes no memory.
    ///
    /// ```
    /// use sapwood::arena::ArenaOptions;
    /// use sapwood::maple::{Error, RangeMap, Split};
    /// let options = ArenaOptions::default().limit(64 << 10);
    /// let mut map = RangeMap::with_options(options, Split::by_clone());
    /// let mut stored = 0..;
    /// let full = stored.find_map(|i| map.store(2 * i..=2 * i, i).err()).unwrap();
    /// assert!(matches!(full.error, Error::ArenaFull(_)));
    /// assert_eq!(map.len() as u64, full.value);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_options(options: ArenaOptions, split: Split<V>) -> Self {
        RangeMap {
            owned: Owned::new(options, split),
        }
    }

    /// As [`with_options`](Self::with_options), with the most bytes of a leaf and the most children
    /// of an inner node. Tests choose small ones.
    ///
    /// # Panics
    /// When a leaf is too small for a few entries, or there are fewer than 4 children.
    #[doc(hidden)]
    pub fn with_nodes(options: ArenaOptions, split: Split<V>, nodes: (usize, usize)) -> Self {
        RangeMap {
            owned: Owned::with_nodes(options, split, nodes),
        }
    }
}

impl<V, K: Index> RangeMap<V, K> {
    /// An empty map with these indices, in an arena with these options: what
    /// [`with_options`](RangeMap::with_options) is for `u64`. `RangeMap::default()` is one that
    /// clones its values.
    ///
    /// O(1), and takes no memory.
    ///
    /// ```
    /// use sapwood::arena::ArenaOptions;
    /// use sapwood::maple::{RangeMap, Split};
    /// let mut map = RangeMap::<_, i32>::keyed(ArenaOptions::default(), Split::never());
    /// map.store(-40..-10, Box::new("cold"))?;
    /// assert_eq!(map.locate(-5), (-10..=i32::MAX, None));
    /// # Ok::<(), sapwood::maple::Error<i32>>(())
    /// ```
    pub fn keyed(options: ArenaOptions, split: Split<V, K::Word>) -> Self {
        RangeMap {
            owned: Owned::new(options, split),
        }
    }

    /// The map, for reading: all reading methods, as of a [`MapleMap`](super::MapleMap).
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V, K> {
        MapleView::new(self.owned.view())
    }

    /// The value at an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn get(&self, index: K) -> Option<&V> {
        self.view().get(index)
    }

    /// The value at an index, to be changed.
    ///
    /// O(log entries).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::from_iter([(0..=9, 1)]);
    /// *map.get_mut(5).unwrap() += 1;
    /// assert_eq!(map.get(0), Some(&2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, index: K) -> Option<&mut V> {
        self.owned.get_mut(index.to_word())
    }

    /// The entry that holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn get_entry(&self, index: K) -> Option<(Range<K>, &V)> {
        self.view().get_entry(index)
    }

    /// Whether an entry holds an index.
    ///
    /// O(log entries).
    #[inline]
    pub fn contains(&self, index: K) -> bool {
        self.view().contains(index)
    }

    /// The entry that holds an index, or the whole gap that does.
    ///
    /// O(log entries).
    pub fn locate(&self, index: K) -> (Range<K>, Option<&V>) {
        self.view().locate(index)
    }

    /// The first entry.
    ///
    /// O(log entries).
    pub fn first(&self) -> Option<(Range<K>, &V)> {
        self.view().first()
    }

    /// The last entry.
    ///
    /// O(log entries).
    pub fn last(&self) -> Option<(Range<K>, &V)> {
        self.view().last()
    }

    /// The first entry that starts after an index.
    ///
    /// O(log entries).
    pub fn next_after(&self, index: K) -> Option<(Range<K>, &V)> {
        self.view().next_after(index)
    }

    /// The last entry that ends before an index.
    ///
    /// O(log entries).
    pub fn prev_before(&self, index: K) -> Option<(Range<K>, &V)> {
        self.view().prev_before(index)
    }

    /// All entries in order, from both ends.
    ///
    /// A step takes constant time, but O(log entries) where a leaf ends. `for_each` and `fold` take
    /// least.
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let map = RangeMap::from_iter([(20..=29, 'b'), (5..=9, 'a')]);
    /// assert!(map.iter().eq([(5..=9, &'a'), (20..=29, &'b')]));
    /// ```
    #[inline]
    pub fn iter(&self) -> Iter<'_, V, K> {
        self.view().iter()
    }

    /// The entries that have an index in a range, in order, from both ends. Each is whole, also
    /// where the range cuts it. An empty range has none.
    ///
    /// As [`iter`](Self::iter).
    pub fn range(&self, range: impl IndexRange<K>) -> Iter<'_, V, K> {
        self.view().range(range)
    }

    /// All entries in order, with values that may be changed.
    ///
    /// As [`iter`](Self::iter).
    ///
    /// ```
    /// use sapwood::maple::RangeMap;
    /// let mut map = RangeMap::from_iter([(5..=9, 1), (20..=29, 2)]);
    /// map.iter_mut().for_each(|(range, value)| *value += range.start());
    /// assert!(map.iter().eq([(5..=9, &6), (20..=29, &22)]));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, V, K> {
        self.range_mut(..)
    }

    /// As [`range`](Self::range), with values that may be changed. An entry that the range cuts is
    /// whole: see [`modify_range`](Self::modify_range) for one that changes only the range.
    ///
    /// As [`iter`](Self::iter).
    pub fn range_mut(&mut self, range: impl IndexRange<K>) -> IterMut<'_, V, K> {
        IterMut::new(&mut self.owned, open(range))
    }

    /// The gaps in a range, in order, from both ends, clipped to the range. An empty range has
    /// none.
    ///
    /// As [`iter`](Self::iter).
    pub fn gaps(&self, within: impl IndexRange<K>) -> Gaps<'_, V, K> {
        self.view().gaps(within)
    }

    /// As [`MapleView::find_gap`].
    #[inline]
    pub fn find_gap(&self, size: K::Word, within: impl Into<Window<K>>) -> Option<Range<K>> {
        self.view().find_gap(size, within)
    }

    /// Number of entries.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.owned.len()
    }

    /// Whether there are no entries.
    ///
    /// O(1).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the map uses. Boxes of large values are not counted.
    ///
    /// O(1).
    pub fn memory(&self) -> MapleMemory {
        MapleMemory::owned(&self.owned)
    }

    /// Checks every invariant: order, bounds, gap words, fill, accounts. Linear time.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.owned.verify()
    }
}

impl<K: Index> From<Refused<K::Word>> for Error<K> {
    fn from(refused: Refused<K::Word>) -> Self {
        match refused {
            Refused::Full(full) => full.into(),
            Refused::Split(start, end) => Error::Split {
                start: K::from_word(start),
                end: K::from_word(end),
            },
        }
    }
}

/// The error of a store.
fn rejected<V, K: Index>((value, refused): (Option<V>, Refused<K::Word>)) -> Rejected<V, K> {
    match value {
        Some(value) => Rejected {
            value,
            error: refused.into(),
        },
        None => unreachable!("a store that fails gives the value back"),
    }
}

impl<V: fmt::Debug, K: Index> fmt::Debug for RangeMap<V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// Equal entries in order, whatever the nodes.
impl<V: PartialEq, K: Index> PartialEq for RangeMap<V, K> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.view() == other.view()
    }
}

impl<V: Eq, K: Index> Eq for RangeMap<V, K> {}

/// # Panics
/// When the copy's memory cannot be had.
impl<V: Clone, K: Index> Clone for RangeMap<V, K> {
    fn clone(&self) -> Self {
        let options = self.owned.arena().options().clone();
        let mut copy = RangeMap::keyed(options, *self.owned.split());
        copy.extend(self.iter().map(|(range, value)| (range, value.clone())));
        copy
    }
}

/// Stores the entries one after the other.
///
/// # Panics
/// For an empty range, and when the arena is full.
impl<V, K: Index> Extend<(Range<K>, V)> for RangeMap<V, K> {
    fn extend<I: IntoIterator<Item = (Range<K>, V)>>(&mut self, entries: I) {
        for (range, value) in entries {
            if let Err(refused) = self.store(range, value) {
                panic!("{}", refused.error);
            }
        }
    }
}

/// Stores the entries one after the other.
///
/// # Panics
/// For an empty range, and when the arena is full.
impl<V: Clone> FromIterator<(Range, V)> for RangeMap<V> {
    fn from_iter<I: IntoIterator<Item = (Range, V)>>(entries: I) -> Self {
        let mut map = RangeMap::new();
        map.extend(entries);
        map
    }
}

impl<'m, V, K: Index> IntoIterator for &'m RangeMap<V, K> {
    type Item = (Range<K>, &'m V);
    type IntoIter = Iter<'m, V, K>;

    fn into_iter(self) -> Iter<'m, V, K> {
        self.iter()
    }
}

impl<'m, V, K: Index> IntoIterator for &'m mut RangeMap<V, K> {
    type Item = (Range<K>, &'m mut V);
    type IntoIter = IterMut<'m, V, K>;

    fn into_iter(self) -> IterMut<'m, V, K> {
        self.iter_mut()
    }
}

impl<V, K: Index> IntoIterator for RangeMap<V, K> {
    type Item = (Range<K>, V);
    type IntoIter = IntoIter<V, K>;

    fn into_iter(mut self) -> IntoIter<V, K> {
        IntoIter::new(self.owned.drain())
    }
}

//! The checked reader of a published range map, `sapwood::maple::MapleMap`.

mod nodes;
mod tree;

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::{fmt, vec};

pub use sapwood_format::maple::gap::Fit;

use self::tree::Tree;
use crate::source::attempts;
use crate::{CheckedValue, Source, Trouble};

/// An entry, copied.
type Entry<V> = (RangeInclusive<u64>, V);

/// A reader of a range map that a process publishes (`build_in` of `sapwood::maple::MapleMap`). The
/// process may change the map meanwhile, or be dead. The reader copies each node, checks the copy,
/// and returns copies of the entries.
///
/// # What is promised
///
/// - Whatever bytes the window holds, and whatever is written meanwhile, the reader reads nothing
///   outside the window, and every operation ends, with a result or an error.
/// - A change becomes visible by one store, so an operation answers as the map was before the
///   change or as it is after it, also when the writer was killed in the middle of the change.
/// - Where the writer's grace periods do not wait for the reader, the writer may reuse the memory
///   that is read. The reader therefore reads the cells on its path again, and begins anew if one
///   has changed. This detects nearly all such cases, but not all.
/// - Values and borders have no checksums: a bit that is wrong there may go unseen.
///
/// ```
/// use sapwood::arena::{Arena, ArenaOptions, Backing, HeaderMode};
/// use sapwood::maple::{MapleMap, Window};
/// use sapwood_checked::Fixed;
/// use sapwood_checked::maple::CheckedMaple;
///
/// # let path = std::env::temp_dir().join(format!("sapwood-ranges-{}", std::process::id()));
/// let options = ArenaOptions::default()
///     .backing(Backing::File(path.clone()))
///     .header(HeaderMode::Page)
///     .layout_hash(MapleMap::<u64>::layout_hash());
/// let map = MapleMap::builder().build_in(Arena::create(options)?)?;
/// map.store(5..=9, 1_u64)?;
///
/// let bytes = std::fs::read(&path)?;
/// # std::fs::remove_file(&path)?;
/// let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
/// let words: Vec<u64> = words.collect();
/// let reader = CheckedMaple::<_, u64>::new(Fixed(&words[..]))?;
/// assert_eq!(reader.get(7)?, Some((5..=9, 1)));
/// assert_eq!(reader.find_gap(10, 0..=99)?, Some(10..=19));
/// assert_eq!(reader.find_gap(10, Window::new(0..=99).from_end())?, Some(90..=99));
/// assert_eq!(reader.verify()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedMaple<S, V> {
    source: S,
    values: PhantomData<fn() -> V>,
}

impl<S: Source, V: CheckedValue> CheckedMaple<S, V> {
    /// A reader of the map of this source.
    ///
    /// O(1).
    ///
    /// # Errors
    /// Those of the source; [`Trouble::Values`] when the values have another size, or the map was
    /// made with another type; [`Trouble::Damaged`].
    pub fn new(source: S) -> Result<Self, S::Error> {
        let reader = CheckedMaple {
            source,
            values: PhantomData,
        };
        reader.with(|_| Ok(()))?;
        Ok(reader)
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Repeats `read` until no change disturbs it.
    fn with<R>(
        &self,
        mut read: impl FnMut(&Tree<S::Window>) -> Result<R, Trouble>,
    ) -> Result<R, S::Error> {
        attempts(&self.source, || {
            let (window, _) = self.source.open()?;
            Ok(Tree::new::<V>(window).and_then(|tree| read(&tree)))
        })
    }

    /// The entry that holds an index.
    ///
    /// O(log entries): each node on the path is copied and checked.
    ///
    /// # Errors
    /// [`Trouble::Damaged`]; [`Trouble::Changed`] when changes disturbed every attempt; those of
    /// the source.
    pub fn get(&self, index: u64) -> Result<Option<(RangeInclusive<u64>, V)>, S::Error> {
        let found = self.at_or_after(index)?;
        Ok(found.filter(|(range, _)| range.contains(&index)))
    }

    /// The first entry that ends at or after an index.
    ///
    /// O(log entries), as [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn at_or_after(&self, index: u64) -> Result<Option<(RangeInclusive<u64>, V)>, S::Error> {
        Ok(self.with(|tree| tree.entries(index, 1))?.pop())
    }

    /// The lowest `size` indices within a range that no entry has, or the place that a `Window` of
    /// `sapwood::maple` chooses. `None` also where no place can be: for a size of 0, and for a
    /// range that is too small.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn find_gap(
        &self,
        size: u64,
        within: impl Within,
    ) -> Result<Option<RangeInclusive<u64>>, S::Error> {
        let Some(fit) = within.fit(size) else {
            return Ok(None);
        };
        let found = self.with(|tree| fit.search(|fit| tree.place(fit)))?;
        Ok(found.map(|start| start..=start + (fit.size - 1)))
    }

    /// All entries in order.
    ///
    /// O(1); each step is O(1) on average, and each leaf takes O(log entries).
    pub fn iter(&self) -> CheckedIter<'_, S, V> {
        self.range(0..=u64::MAX)
    }

    /// The entries that have an index in a range, in order, each whole.
    ///
    /// O(1); each step costs as that of [`iter`](Self::iter).
    pub fn range(&self, range: RangeInclusive<u64>) -> CheckedIter<'_, S, V> {
        CheckedIter {
            reader: self,
            entries: Vec::new().into_iter(),
            left: (!range.is_empty()).then_some(range.into_inner()),
        }
    }

    /// Checks the whole map; returns the number of entries. Beside what every read checks, no gap
    /// word may understate a gap: a gap word may say too much, also for long after a writer was
    /// killed in the middle of a change.
    ///
    /// O(entries).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn verify(&self) -> Result<usize, S::Error> {
        self.source.refresh();
        self.with(Tree::verify::<V>)
    }
}

/// Where a search looks for a gap, and which gap it takes: a range, in which it takes the lowest,
/// or a `Window` of `sapwood::maple`.
pub trait Within {
    /// The search for `size` indices; `None` when there can be no place.
    fn fit(&self, size: u64) -> Option<Fit>;
}

impl Within for RangeInclusive<u64> {
    fn fit(&self, size: u64) -> Option<Fit> {
        let (from, to) = (*self.start(), *self.end());
        let fits = from <= to && size > 0 && to - from >= size - 1;
        fits.then_some(Fit::lowest_in(size, (from, to)))
    }
}

impl<S: fmt::Debug, V> fmt::Debug for CheckedMaple<S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedMaple")
            .field("source", &self.source)
            .finish()
    }
}

/// The entries of a [`CheckedMaple`] in order. The iterator ends after an error.
///
/// Entries of one leaf are of one moment. Beside a writer, each entry was there at some time, and
/// ends behind the one before it. An entry that was stored across the walk's place meanwhile
/// reaches back over indices that the walk has passed.
pub struct CheckedIter<'a, S, V> {
    reader: &'a CheckedMaple<S, V>,
    /// Entries of the leaf under way.
    entries: vec::IntoIter<Entry<V>>,
    /// The indices that have not been passed.
    left: Option<(u64, u64)>,
}

impl<S: Source, V: CheckedValue> Iterator for CheckedIter<'_, S, V> {
    type Item = Result<(RangeInclusive<u64>, V), S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (from, to) = self.left.take()?;
        if self.entries.len() == 0 {
            match self.reader.with(|tree| tree.entries(from, usize::MAX)) {
                Ok(entries) => self.entries = entries.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        let (range, value) = self
            .entries
            .next()
            .filter(|(range, _)| *range.start() <= to)?;
        let next = range.end().checked_add(1).filter(|&next| next <= to);
        self.left = next.map(|next| (next, to));
        Some(Ok((range, value)))
    }
}

impl<S: Source, V: CheckedValue> FusedIterator for CheckedIter<'_, S, V> {}

impl<S, V> fmt::Debug for CheckedIter<'_, S, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedIter")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

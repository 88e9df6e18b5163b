//! Writers: the map's lock, held for any number of changes.

use core::fmt;

use super::cursor::{Cursor, PausedCursor};
use super::map::MapleMap;
use super::owned::Removed;
use super::raw::table::{MapleShared, Writer};
use super::snapshot::MapleSnapshot;
use super::view::MapleView;
use super::window::Window;
use crate::error::put_joined;
use crate::index::{bounds, span};
use crate::sync::WriterGuard;
use crate::{Error, Index, IndexRange, Range, Rejected, Words};

/// The writing side of a [`MapleMap`]. It holds the map's lock, so nobody else can change the map
/// meanwhile. Readers do not wait.
///
/// Each change is visible when it returns. Values that it replaces are dropped when no reader can
/// hold them any more, at the earliest when the writer is dropped.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::new();
/// let mut writer = map.write();
/// for page in 0..100_u64 {
///     writer.store(page * 16..=page * 16 + 7, page)?;
/// }
/// assert_eq!(writer.view().len(), 100);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct MapleWriter<'m, V: Clone + Send + Sync + 'static, K: Index = u64> {
    pub(super) map: &'m MapleMap<V, K>,
    // The guard is dropped before the values: their `drop` may use the map.
    pub(super) writer: WriterGuard<'m, Writer<V, K::Word>>,
    pub(super) dropped: Vec<V>,
}

impl<'m, V: Clone + Send + Sync + 'static, K: Index> MapleWriter<'m, V, K> {
    pub(super) fn new(
        map: &'m MapleMap<V, K>,
        writer: WriterGuard<'m, Writer<V, K::Word>>,
    ) -> Self {
        MapleWriter {
            map,
            writer,
            dropped: Vec::new(),
        }
    }

    pub(super) fn shared(&self) -> &'m MapleShared<V, K::Word> {
        self.map.shared()
    }

    /// The map, until its next change.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V, K> {
        MapleView::new(self.shared().still(&self.writer))
    }

    /// Makes a range one entry, or a gap.
    fn change(&mut self, range: Words<K>, value: Option<V>) -> Result<(), (Option<V>, Error<K>)> {
        self.shared()
            .change(&mut self.writer, range, value, &mut self.dropped)
    }

    pub(super) fn put(&mut self, range: Words<K>, value: V) -> Result<(), Rejected<V, K>> {
        self.change(range, Some(value)).map_err(rejected)
    }

    /// As [`MapleMap::store`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn store(&mut self, range: impl IndexRange<K>, value: V) -> Result<(), Rejected<V, K>> {
        match bounds(range) {
            Ok(range) => self.put(range, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`MapleMap::store_coalescing`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn store_coalescing(
        &mut self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Range<K>, Rejected<V, K>>
    where
        V: PartialEq,
    {
        let (whole, left) = match bounds(range) {
            Ok(range) => {
                let (whole, left) = self.view().joined(range, &value, &self.shared().split);
                (whole, left.cloned())
            }
            Err(error) => return Err(Rejected { value, error }),
        };
        put_joined(left, value, |value| self.put(whole, value))?;
        Ok(span::<K>(whole))
    }

    /// As [`MapleMap::insert_new`].
    ///
    /// # Errors
    /// As [`MapleMap::insert_new`].
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

    /// As [`MapleMap::remove`].
    ///
    /// # Errors
    /// As [`MapleMap::remove`].
    pub fn remove(&mut self, index: K) -> Result<Option<(Range<K>, V)>, Error<K>> {
        let Some((range, value)) = self.view().get_entry(index) else {
            return Ok(None);
        };
        let value = value.clone();
        self.clear_range(range.clone())?;
        Ok(Some((range, value)))
    }

    /// The parts of entries in a range, with clones of their values, split where the range cuts.
    pub(super) fn parts(&self, (from, to): Words<K>) -> Removed<V, K> {
        let split = &self.shared().split;
        let part = |(range, value): (Range<K>, &V)| {
            let (start, end) = (range.start().to_word(), range.end().to_word());
            let part = match start < from {
                true => split.at_offset(value, from - start),
                false => None,
            };
            let part = part.unwrap_or_else(|| value.clone());
            (span::<K>((start.max(from), end.min(to))), part)
        };
        self.view().range(span::<K>((from, to))).map(part).collect()
    }

    /// As [`MapleMap::replace`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn replace(
        &mut self,
        range: impl IndexRange<K>,
        value: V,
    ) -> Result<Removed<V, K>, Rejected<V, K>> {
        match bounds(range) {
            Ok(bounds) => {
                let removed = self.parts(bounds);
                self.put(bounds, value)?;
                Ok(removed)
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`MapleMap::take_range`].
    ///
    /// # Errors
    /// As [`MapleMap::clear_range`].
    pub fn take_range(&mut self, range: impl IndexRange<K>) -> Result<Removed<V, K>, Error<K>> {
        let range = bounds(range)?;
        let removed = self.parts(range);
        self.clear_words(range)?;
        Ok(removed)
    }

    /// As [`MapleMap::clear_range`].
    ///
    /// # Errors
    /// As [`MapleMap::clear_range`].
    pub fn clear_range(&mut self, range: impl IndexRange<K>) -> Result<(), Error<K>> {
        self.clear_words(bounds(range)?)
    }

    pub(super) fn clear_words(&mut self, range: Words<K>) -> Result<(), Error<K>> {
        self.change(range, None).map_err(|(_, error)| error)
    }

    /// As [`MapleMap::alloc_range`].
    ///
    /// # Errors
    /// As [`MapleMap::alloc_range`].
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

    /// A snapshot of the map, as [`MapleMap::snapshot`] makes.
    pub fn snapshot(&mut self) -> MapleSnapshot<V, K> {
        let shared = self.map.shared();
        MapleSnapshot::new(shared.keep(&mut self.writer, &mut self.dropped))
    }

    /// A cursor, before the first entry.
    ///
    /// O(1).
    pub fn cursor(&mut self) -> Cursor<'_, 'm, V, K> {
        Cursor::new(self)
    }

    /// A cursor at the place where another one was paused.
    ///
    /// O(1).
    pub fn resume(&mut self, paused: PausedCursor<K>) -> Cursor<'_, 'm, V, K> {
        Cursor::resumed(self, paused)
    }
}

/// The error of a store.
pub(super) fn rejected<V, K: Index>((value, error): (Option<V>, Error<K>)) -> Rejected<V, K> {
    match value {
        Some(value) => Rejected { value, error },
        None => unreachable!("a store that fails gives the value back"),
    }
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static, K: Index> fmt::Debug for MapleWriter<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

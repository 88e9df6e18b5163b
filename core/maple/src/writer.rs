//! Writers: the map's lock, held for any number of changes.

use core::fmt;

use super::cursor::{Cursor, PausedCursor};
use super::map::MapleMap;
use super::owned::Removed;
use super::raw::table::{MapleShared, Writer};
use super::snapshot::MapleSnapshot;
use super::view::MapleView;
use super::window::Window;
use super::{Range, bounds};
use crate::error::put_joined;
use crate::sync::WriterGuard;
use crate::{Error, Rejected};

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
pub struct MapleWriter<'m, V: Clone + Send + Sync + 'static> {
    pub(super) map: &'m MapleMap<V>,
    // The guard is dropped before the values: their `drop` may use the map.
    pub(super) writer: WriterGuard<'m, Writer<V>>,
    pub(super) dropped: Vec<V>,
}

impl<'m, V: Clone + Send + Sync + 'static> MapleWriter<'m, V> {
    pub(super) fn new(map: &'m MapleMap<V>, writer: WriterGuard<'m, Writer<V>>) -> Self {
        MapleWriter {
            map,
            writer,
            dropped: Vec::new(),
        }
    }

    pub(super) fn shared(&self) -> &'m MapleShared<V> {
        self.map.shared()
    }

    /// The map, until its next change.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V> {
        MapleView::new(self.shared().still(&self.writer))
    }

    /// Makes a range one entry, or a gap.
    fn change(&mut self, range: (u64, u64), value: Option<V>) -> Result<(), (Option<V>, Error)> {
        self.shared()
            .change(&mut self.writer, range, value, &mut self.dropped)
    }

    fn put(&mut self, range: (u64, u64), value: V) -> Result<(), Rejected<V>> {
        self.change(range, Some(value)).map_err(rejected)
    }

    /// As [`MapleMap::store`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn store(&mut self, range: Range, value: V) -> Result<(), Rejected<V>> {
        match bounds(&range) {
            Ok(range) => self.put(range, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`MapleMap::store_coalescing`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn store_coalescing(&mut self, range: Range, value: V) -> Result<Range, Rejected<V>>
    where
        V: PartialEq,
    {
        let (whole, left) = match bounds(&range) {
            Ok(range) => {
                let (whole, left) = self.view().joined(range, &value, &self.shared().split);
                (whole, left.cloned())
            }
            Err(error) => return Err(Rejected { value, error }),
        };
        put_joined(left, value, |value| self.put(whole, value))?;
        Ok(whole.0..=whole.1)
    }

    /// As [`MapleMap::insert_new`].
    ///
    /// # Errors
    /// As [`MapleMap::insert_new`].
    pub fn insert_new(&mut self, range: Range, value: V) -> Result<(), Rejected<V>> {
        let free = bounds(&range).and_then(|range| self.view().free(range).map(|()| range));
        match free {
            Ok(range) => self.put(range, value),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// As [`MapleMap::remove`].
    ///
    /// # Errors
    /// As [`MapleMap::remove`].
    pub fn remove(&mut self, index: u64) -> Result<Option<(Range, V)>, Error> {
        let Some((range, value)) = self.view().get_entry(index) else {
            return Ok(None);
        };
        let value = value.clone();
        self.clear_range(range.clone())?;
        Ok(Some((range, value)))
    }

    /// The parts of entries in a range, with clones of their values, split where the range cuts.
    pub(super) fn parts(&self, (from, to): (u64, u64)) -> Removed<V> {
        let split = &self.shared().split;
        let part = |(range, value): (Range, &V)| {
            let (start, end) = (*range.start(), *range.end());
            let part = match start < from {
                true => split.at_offset(value, from - start),
                false => None,
            };
            let part = part.unwrap_or_else(|| value.clone());
            (start.max(from)..=end.min(to), part)
        };
        self.view().range(from..=to).map(part).collect()
    }

    /// As [`MapleMap::replace`].
    ///
    /// # Errors
    /// As [`MapleMap::store`].
    pub fn replace(&mut self, range: Range, value: V) -> Result<Removed<V>, Rejected<V>> {
        match bounds(&range) {
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
    pub fn take_range(&mut self, range: Range) -> Result<Removed<V>, Error> {
        let removed = self.parts(bounds(&range)?);
        self.clear_range(range)?;
        Ok(removed)
    }

    /// As [`MapleMap::clear_range`].
    ///
    /// # Errors
    /// As [`MapleMap::clear_range`].
    pub fn clear_range(&mut self, range: Range) -> Result<(), Error> {
        let range = bounds(&range)?;
        self.change(range, None).map_err(|(_, error)| error)
    }

    /// As [`MapleMap::alloc_range`].
    ///
    /// # Errors
    /// As [`MapleMap::alloc_range`].
    pub fn alloc_range(
        &mut self,
        size: u64,
        within: impl Into<Window>,
        value: V,
    ) -> Result<Range, Rejected<V>> {
        match self.view().room(size, &within.into()) {
            Ok(range) => {
                self.put((*range.start(), *range.end()), value)?;
                Ok(range)
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// A snapshot of the map, as [`MapleMap::snapshot`] makes.
    pub fn snapshot(&mut self) -> MapleSnapshot<V> {
        let shared = self.map.shared();
        MapleSnapshot::new(shared.keep(&mut self.writer, &mut self.dropped))
    }

    /// A cursor, before the first entry.
    ///
    /// O(1).
    pub fn cursor(&mut self) -> Cursor<'_, 'm, V> {
        Cursor::new(self)
    }

    /// A cursor at the place where another one was paused.
    ///
    /// O(1).
    pub fn resume(&mut self, paused: PausedCursor) -> Cursor<'_, 'm, V> {
        Cursor::resumed(self, paused)
    }
}

/// The error of a store.
pub(super) fn rejected<V>((value, error): (Option<V>, Error)) -> Rejected<V> {
    match value {
        Some(value) => Rejected { value, error },
        None => unreachable!("a store that fails gives the value back"),
    }
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static> fmt::Debug for MapleWriter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

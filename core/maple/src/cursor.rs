//! Cursors: a place in the map, on an entry or a gap, that moves, stores and removes.

use core::fmt;

use super::writer::MapleWriter;
use crate::index::{bounds, span};
use crate::{Error, Index, IndexRange, Range, Rejected, Word, Words};

/// The kind of place that a [`Cursor`] is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Just before an index, on no entry and no gap.
    Start,
    /// On an entry.
    OnEntry,
    /// On a gap.
    OnGap,
    /// Before the limit of a step back, or before what the cursor has passed already.
    BeforeFirst,
    /// Behind the limit of a step forward, or behind what the cursor has passed already.
    AfterLast,
}

/// The place of a paused [`Cursor`]: plain data that holds no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedCursor<K: Index = u64> {
    place: Place<K::Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<W> {
    position: Position,
    /// The entry or gap that it is on, or the range that was given to it.
    range: Option<(W, W)>,
    /// The lowest index that is ahead.
    ahead: Option<W>,
    /// The highest index that is behind.
    behind: Option<W>,
}

impl<W: Word> Place<W> {
    fn before(index: W) -> Self {
        Place {
            position: Position::Start,
            range: None,
            ahead: Some(index),
            behind: index.checked_sub(W::ONE),
        }
    }

    fn on(position: Position, (start, end): (W, W)) -> Self {
        Place {
            position,
            range: Some((start, end)),
            ahead: end.checked_add(W::ONE),
            behind: start.checked_sub(W::ONE),
        }
    }
}

/// A place in a map under its [`MapleWriter`].
///
/// | the cursor is | after | `next` finds | `prev` finds |
/// |---|---|---|---|
/// | `Start` | its creation, [`set`](Self::set) | the first entry that ends at or after the index | the last entry that starts before it |
/// | `OnEntry`, `OnGap` | a step that found something, [`seek`](Self::seek), a store | the first entry behind it | the last entry before it |
/// | `AfterLast` | a step forward that met its limit | the first entry behind the limit | the last entry that starts at or before the limit |
/// | `BeforeFirst` | a step back that met its limit | the first entry that ends at or after the limit | the last entry before the limit |
///
/// A step never moves the cursor back over what it has passed. So a limit that a step forward has
/// passed already counts as the last index of what it has passed, and in a step back as the first:
/// in the map below, `next(12)` finds `'a'`, `next(12)` finds nothing, and `next(u64::MAX)` then
/// finds `'b'`. The kernel's `mas_find` and `mas_next` do the same.
///
/// ```
/// use sapwood::maple::{MapleMap, Position};
/// let map = MapleMap::from_iter([(10..=19, 'a'), (30..=39, 'b'), (50..=59, 'c')]);
/// let mut writer = map.write();
/// let mut cursor = writer.cursor();
/// assert_eq!(cursor.next(u64::MAX), Some((10..=19, &'a')));
/// assert_eq!(cursor.next_range(u64::MAX), Some((20..=29, None)));
/// cursor.store('x')?;
/// assert_eq!(cursor.next(u64::MAX), Some((30..=39, &'b')));
/// cursor.remove()?;
/// assert_eq!((cursor.position(), cursor.range()), (Position::OnGap, Some(30..=49)));
/// assert_eq!(cursor.next(55), Some((50..=59, &'c')));
/// assert_eq!(cursor.next(55), None);
/// assert_eq!(cursor.position(), Position::AfterLast);
/// # Ok::<(), sapwood::Error>(())
/// ```
pub struct Cursor<'w, 'm, V: Clone + Send + Sync + 'static, K: Index = u64> {
    writer: &'w mut MapleWriter<'m, V, K>,
    place: Place<K::Word>,
}

impl<'w, 'm, V: Clone + Send + Sync + 'static, K: Index> Cursor<'w, 'm, V, K> {
    pub(super) fn new(writer: &'w mut MapleWriter<'m, V, K>) -> Self {
        Cursor {
            writer,
            place: Place::before(K::MIN.to_word()),
        }
    }

    pub(super) fn resumed(writer: &'w mut MapleWriter<'m, V, K>, paused: PausedCursor<K>) -> Self {
        Cursor {
            writer,
            place: paused.place,
        }
    }

    /// The kind of place that the cursor is at.
    ///
    /// O(1).
    pub fn position(&self) -> Position {
        self.place.position
    }

    /// The entry or gap that it is on, or the range that was given to it.
    ///
    /// O(1).
    pub fn range(&self) -> Option<Range<K>> {
        self.place.range.map(span::<K>)
    }

    /// The value of the entry that it is on.
    ///
    /// O(log entries).
    pub fn value(&self) -> Option<&V> {
        match (self.place.position, self.place.range) {
            (Position::OnEntry, Some((start, _))) => self.writer.view().view.get(start),
            _ => None,
        }
    }

    /// Goes just before an index.
    ///
    /// O(1).
    pub fn set(&mut self, index: K) {
        self.place = Place::before(index.to_word());
    }

    /// Goes just before the first index of a range, over which [`store`](Self::store) then stores.
    ///
    /// O(1).
    ///
    /// # Errors
    /// [`Error::EmptyRange`].
    pub fn set_range(&mut self, range: impl IndexRange<K>) -> Result<(), Error<K>> {
        let (start, end) = bounds(range)?;
        self.place = Place {
            range: Some((start, end)),
            ..Place::before(start)
        };
        Ok(())
    }

    /// Goes to the entry or the gap that holds an index; returns the entry's value.
    ///
    /// O(log entries).
    pub fn seek(&mut self, index: K) -> Option<&V> {
        self.stand(index.to_word());
        self.value()
    }

    fn stand(&mut self, index: K::Word) {
        let (range, value) = self.writer.view().locate_words(index);
        let position = match value {
            Some(_) => Position::OnEntry,
            None => Position::OnGap,
        };
        self.place = Place::on(position, range);
    }

    /// Goes behind a limit, but never back over what it has passed.
    fn end(&mut self, limit: K::Word) {
        let passed = match self.place.ahead {
            Some(ahead) => ahead.checked_sub(K::Word::ONE),
            None => Some(K::Word::MAX),
        };
        let last = passed.map_or(limit, |passed| passed.max(limit));
        self.place = Place {
            position: Position::AfterLast,
            range: None,
            ahead: last.checked_add(K::Word::ONE),
            behind: Some(last),
        };
    }

    /// Goes before a limit, but never on over what it has passed.
    fn start(&mut self, limit: K::Word) {
        let passed = match self.place.behind {
            Some(behind) => behind.checked_add(K::Word::ONE),
            None => Some(K::Word::ZERO),
        };
        let first = passed.map_or(limit, |passed| passed.min(limit));
        self.place = Place {
            position: Position::BeforeFirst,
            range: None,
            ahead: Some(first),
            behind: first.checked_sub(K::Word::ONE),
        };
    }

    /// Goes to the next entry, if it starts at or before `limit`. `None` also when the limit is
    /// behind the cursor, which then goes behind what it has passed.
    ///
    /// O(log entries).
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, limit: K) -> Option<(Range<K>, &V)> {
        let limit = limit.to_word();
        let from = self.place.ahead.filter(|&from| from <= limit);
        let view = self.writer.view().view;
        let found = from.and_then(|from| view.finger().forward(from));
        let range = found.map(|entry| (entry.start, entry.end));
        self.arrive(range.filter(|&(start, _)| start <= limit), limit, Self::end)
    }

    /// Goes to the entry before, if it ends at or after `limit`. `None` also when the limit is
    /// ahead of the cursor, which then goes before what it has passed.
    ///
    /// O(log entries).
    pub fn prev(&mut self, limit: K) -> Option<(Range<K>, &V)> {
        let limit = limit.to_word();
        let from = self.place.behind.filter(|&from| from >= limit);
        let view = self.writer.view().view;
        let found = from.and_then(|from| view.finger().backward(from));
        let range = found.map(|entry| (entry.start, entry.end));
        self.arrive(range.filter(|&(_, end)| end >= limit), limit, Self::start)
    }

    fn arrive(
        &mut self,
        range: Option<Words<K>>,
        limit: K::Word,
        beyond: impl FnOnce(&mut Self, K::Word),
    ) -> Option<(Range<K>, &V)> {
        let Some(range) = range else {
            beyond(self, limit);
            return None;
        };
        self.place = Place::on(Position::OnEntry, range);
        self.writer.view().get_entry(K::from_word(range.0))
    }

    /// Goes to the next entry or gap, if it starts at or before `limit`.
    ///
    /// O(log entries).
    pub fn next_range(&mut self, limit: K) -> Option<(Range<K>, Option<&V>)> {
        let limit = limit.to_word();
        match self.place.ahead.filter(|&from| from <= limit) {
            Some(from) => self.stand_on(from),
            None => {
                self.end(limit);
                None
            }
        }
    }

    /// Goes to the entry or gap before, if it ends at or after `limit`.
    ///
    /// O(log entries).
    pub fn prev_range(&mut self, limit: K) -> Option<(Range<K>, Option<&V>)> {
        let limit = limit.to_word();
        match self.place.behind.filter(|&from| from >= limit) {
            Some(from) => self.stand_on(from),
            None => {
                self.start(limit);
                None
            }
        }
    }

    fn stand_on(&mut self, index: K::Word) -> Option<(Range<K>, Option<&V>)> {
        self.stand(index);
        let (range, value) = self.writer.view().locate_words(index);
        Some((span::<K>(range), value))
    }

    /// Stores over the entry or gap that the cursor is on, or over the range that was given to it.
    /// The cursor is on the new entry then.
    ///
    /// As [`MapleMap::store`](super::MapleMap::store).
    ///
    /// # Errors
    /// As [`MapleMap::store`](super::MapleMap::store); [`Error::Absent`] when the cursor is on no
    /// entry and no gap.
    pub fn store(&mut self, value: V) -> Result<(), Rejected<V, K>> {
        let Some(range) = self.place.range else {
            let error = Error::Absent;
            return Err(Rejected { value, error });
        };
        self.writer.put(range, value)?;
        self.place = Place::on(Position::OnEntry, range);
        Ok(())
    }

    /// Removes and returns the entry that the cursor is on, if it is on one. The cursor is on the
    /// whole gap then.
    ///
    /// O(log entries).
    ///
    /// # Errors
    /// As [`MapleMap::remove`](super::MapleMap::remove).
    pub fn remove(&mut self) -> Result<Option<(Range<K>, V)>, Error<K>> {
        let (Position::OnEntry, Some((start, _))) = (self.place.position, self.place.range) else {
            return Ok(None);
        };
        let erased = self.writer.remove(K::from_word(start))?;
        self.stand(start);
        Ok(erased)
    }

    /// Notes the place, so that [`MapleWriter::resume`] can continue there after others have used
    /// the map. Then `next` finds the first entry behind the range, `prev` the last one before it.
    ///
    /// O(1).
    pub fn pause(self) -> PausedCursor<K> {
        PausedCursor { place: self.place }
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> fmt::Debug for Cursor<'_, '_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("position", &self.position())
            .field("range", &self.range())
            .finish_non_exhaustive()
    }
}

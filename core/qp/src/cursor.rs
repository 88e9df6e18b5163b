//! A cursor, which lends the entries that it comes to.

use core::fmt;

use super::iter::Shown;
use super::raw::cursor::Cursor as Place;
use super::raw::keys::Joiner;
use super::raw::mem::{Mem, Trusted};
use super::raw::view::View;
use crate::Value;

/// A place in a map, that moves in the order of keys: on an entry, before the first one, or behind
/// the last one.
///
/// Each move lends the key until the next one. It is quicker than a step of an iterator where the
/// map has the bytes that neighbouring keys share only once: a cursor copies them once for all
/// neighbours, and makes no [`Key`](crate::Key).
///
/// ```
/// use sapwood::qp::QpMap;
/// let map = QpMap::from([("ash", 1), ("elder", 2), ("elm", 3), ("oak", 4)]);
/// let mut cursor = map.cursor();
/// assert_eq!(cursor.next(), Some((&b"ash"[..], &1)));
/// assert_eq!(cursor.seek("elf"), Some((&b"elm"[..], &3)));
/// assert_eq!(cursor.prev(), Some((&b"elder"[..], &2)));
/// while let Some((key, _)) = cursor.next() {
///     assert!(key > &b"elder"[..]);
/// }
/// assert_eq!(cursor.prev(), Some((&b"oak"[..], &4)));
/// ```
pub struct Cursor<'a, V: ?Sized + Value, M = Trusted> {
    view: View<'a, V, M>,
    /// On an entry, or on none before the first one or behind the last one.
    place: Place,
    behind: bool,
    keys: Joiner,
}

impl<'a, V: ?Sized + Value, M: Mem> Cursor<'a, V, M> {
    /// A cursor before the first entry.
    pub(crate) fn new(view: View<'a, V, M>) -> Self {
        Cursor {
            view,
            place: Place::new(),
            behind: false,
            keys: Joiner::new(),
        }
    }

    /// Moves to the first entry with a key `>= key`; behind the last entry if there is none.
    ///
    /// O(length of `key` and of the key that is found).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Option<(&[u8], &'a V)> {
        self.place.seek_ge(&self.view, key.as_ref(), false);
        self.behind = true;
        self.entry()
    }

    /// Moves to the last entry with a key `<= key`; before the first entry if there is none.
    ///
    /// O(length of `key` and of the key that is found).
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Option<(&[u8], &'a V)> {
        self.place.seek_le(&self.view, key.as_ref(), false);
        self.behind = false;
        self.entry()
    }

    /// Moves to the next entry, or behind the last one.
    ///
    /// O(1) on average.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Option<(&[u8], &'a V)> {
        match self.place.entry.is_some() {
            true => self.place.next(&self.view),
            false if !self.behind => self.place.first(&self.view),
            false => {}
        }
        self.behind = true;
        self.entry()
    }

    /// Moves to the previous entry, or before the first one.
    ///
    /// O(1) on average.
    #[inline]
    pub fn prev(&mut self) -> Option<(&[u8], &'a V)> {
        match self.place.entry.is_some() {
            true => self.place.prev(&self.view),
            false if self.behind => self.place.last(&self.view),
            false => {}
        }
        self.behind = false;
        self.entry()
    }

    /// The entry that the cursor is on.
    ///
    /// O(1).
    #[inline]
    pub fn entry(&mut self) -> Option<(&[u8], &'a V)> {
        self.keys.entry(&self.view, self.place.entry.some()?)
    }
}

impl<V: ?Sized + Value, M: Mem> Clone for Cursor<'_, V, M> {
    fn clone(&self) -> Self {
        Cursor {
            view: self.view,
            place: self.place.clone(),
            behind: self.behind,
            keys: Joiner::new(),
        }
    }
}

impl<V: ?Sized + Value + fmt::Debug, M: Mem> fmt::Debug for Cursor<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self
            .place
            .entry
            .some()
            .and_then(|entry| self.view.entry(entry));
        f.debug_tuple("Cursor")
            .field(&entry.map(Shown::entry))
            .finish()
    }
}

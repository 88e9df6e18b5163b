//! Runs of leaves, read from both ends.

use super::cursor::Cursor;
use super::inline::EntryRef;
use super::mem::{Mem, Trusted};
use super::order::Along;
use super::view::{Subtree, View};
use crate::raw::leaf::Value;

/// Runs of leaves, read from both ends.
pub(crate) struct Span<'a, V: ?Sized + Value, M = Trusted> {
    pub(crate) view: View<'a, V, M>,
    /// The front's cursor: on the leaf that it returned last, or on the first leaf.
    front: Cursor,
    /// The front may move to places before this one of its cluster without further checks.
    limit: u32,
    /// The walk of the front along leaves that lie in order in memory, if they do.
    along: Option<Along<'a>>,
    /// The back's cursor, on the last leaf that is left. `None` if that is the last leaf of the
    /// trie, and nobody asked for it yet.
    back: Option<Cursor>,
    /// Whether the front has returned a leaf.
    begun: bool,
    /// Whether leaves are left.
    open: bool,
}

impl<V: ?Sized + Value, M: Copy> Clone for Span<'_, V, M> {
    fn clone(&self) -> Self {
        Span {
            view: self.view,
            front: self.front.clone(),
            limit: self.limit,
            along: self.along,
            back: self.back.clone(),
            begun: self.begun,
            open: self.open,
        }
    }
}

impl<'a, V: ?Sized + Value, M: Mem> Span<'a, V, M> {
    /// The leaves from `front` to `back`, both included, or to the last leaf without `back`. The
    /// span is empty if a cursor is on no leaf, or if they have crossed.
    #[inline]
    pub(crate) fn between(view: View<'a, V, M>, front: Cursor, back: Option<Cursor>) -> Self {
        let start = front.entry;
        let crossed = back.as_ref().is_some_and(|back| {
            let behind = || match (view.key(start), view.key(back.entry)) {
                (Some(front), Some(back)) => front.cmp(back).is_ge(),
                _ => true,
            };
            !back.entry.is_some() || (start.is_some() && back.entry != start && behind())
        });
        Span {
            view,
            front,
            limit: 0,
            along: None,
            back,
            begun: false,
            open: start.is_some() && !crossed,
        }
    }

    /// All leaves.
    pub(crate) fn all(view: View<'a, V, M>) -> Self {
        let mut front = Cursor::new();
        front.first(&view);
        let mut span = Span::between(view, front, None);
        span.along = (!view.order.is_empty()).then(|| Along::new(view.order));
        span
    }

    /// All leaves of a subtree.
    pub(crate) fn below(view: View<'a, V, M>, subtree: Option<Subtree>) -> Self {
        let Some(subtree) = subtree else {
            return Span::between(view, Cursor::new(), None);
        };
        let front = Cursor::first_of(&view, subtree);
        let back = Cursor::last_of(&view, subtree);
        Span::between(view, front, Some(back))
    }

    /// The next entry from the front.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<EntryRef> {
        if self.front.next_before(&self.view, self.limit) {
            return Some(self.front.entry);
        }
        self.next_anywhere()
    }

    /// The next entry when the front leaves its cluster or comes to the end.
    #[inline(never)]
    fn next_anywhere(&mut self) -> Option<EntryRef> {
        if !self.open {
            return None;
        }
        if let Some(along) = &mut self.along {
            // The cursor has only the leaf, and no place.
            self.front.entry = EntryRef::leaf(along.next(&self.view).unwrap_or(0));
        } else if self.begun {
            self.front.next(&self.view);
        }
        self.begun = true;
        let entry = self.front.entry;
        // Without a back, the front runs out at the end. With one, it runs out only in a damaged
        // file.
        self.open = entry.is_some() && self.back.as_ref().is_none_or(|back| back.entry != entry);
        self.set_limit();
        entry.some()
    }

    /// Sets how far the front may move in its cluster: to the end, or up to the back.
    fn set_limit(&mut self) {
        self.limit = match &self.back {
            _ if !self.open || !self.begun || self.along.is_some() => 0,
            Some(back) => self.front.limit_before(back),
            None => self.front.limit(),
        };
    }

    /// The next entry from the back.
    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<EntryRef> {
        if !self.open {
            return None;
        }
        let back = self.back.get_or_insert_with(|| {
            let mut last = Cursor::new();
            last.last(&self.view);
            last
        });
        let entry = back.entry;
        let front = self.front.entry;
        // The front may have returned the last entry already, before anybody asked for the back.
        if !entry.is_some() || (self.begun && entry == front) {
            self.open = false;
            self.limit = 0;
            return None;
        }
        back.prev(&self.view);
        // Only a damaged file runs out before it meets the front.
        self.open = back.entry.is_some()
            && match self.begun {
                true => back.entry != front,
                false => entry != front,
            };
        self.set_limit();
        Some(entry)
    }
}

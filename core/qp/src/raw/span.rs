//! Runs of leaves, read from both ends.

use core::ops::ControlFlow;

use super::cursor::Cursor;
use super::inline::{EntryRef, Held, Inline};
use super::keys::Joiner;
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

    /// Calls `each` with the entries that are left until it breaks. The keys of an inline cluster
    /// are lent from one place.
    pub(crate) fn for_each<B>(
        mut self,
        mut each: impl FnMut(&[u8], &'a V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut keys = Joiner::new();
        while let Some(entry) = self.next() {
            let went = match M::INLINE && entry.is_held() {
                true => self.each_of_run(entry, &mut keys, &mut each)?,
                false => self.each_leaf(entry.cell(), &mut each)?,
            };
            // Only a damaged file has an entry that is not whole.
            if went.is_none() {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Calls `each` with the entry of a leaf, if it is whole.
    #[inline(always)]
    fn each_leaf<B>(
        &self,
        leaf: u32,
        each: &mut impl FnMut(&[u8], &'a V) -> ControlFlow<B>,
    ) -> ControlFlow<B, Option<()>> {
        match self.view.leaf_entry(leaf) {
            Some((key, value)) => each(key, value).map_continue(Some),
            None => ControlFlow::Continue(None),
        }
    }

    /// Calls `each` with an entry and those that follow it in its inline cluster, as long as they
    /// are whole.
    #[inline(always)]
    fn each_of_run<B>(
        &mut self,
        entry: EntryRef,
        keys: &mut Joiner,
        each: &mut impl FnMut(&[u8], &'a V) -> ControlFlow<B>,
    ) -> ControlFlow<B, Option<()>> {
        let Some(c) = self.view.cluster(entry.cell()) else {
            return ControlFlow::Continue(None);
        };
        // SAFETY: a cluster that `mem` returned is whole, lives for 'a, and has these entries.
        unsafe {
            let block = Inline::of(c);
            keys.enter(entry.cell(), block);
            for i in self.run() {
                match self.view.held(block, i) {
                    None => return ControlFlow::Continue(None),
                    Some(Held::Leaf(leaf)) => {
                        if self.each_leaf(leaf, each)?.is_none() {
                            return ControlFlow::Continue(None);
                        }
                    }
                    Some(Held::Here { tail, len }) => {
                        let value = V::slot_value(Inline::slot::<V>(tail, len));
                        each(keys.join(block, tail, len), &*value)?;
                    }
                }
            }
        }
        ControlFlow::Continue(Some(()))
    }

    /// The numbers of the entry that `next` returned last, and of those that follow it in its
    /// inline cluster; the front moves to the last of them.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> core::ops::Range<usize> {
        let from = self.front.entry.index();
        let limit = (self.limit as usize).max(from + 1);
        self.front.skip_to(limit - 1);
        from..limit
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

//! A run of leaves, read from both ends.

use super::cursor::Cursor;
use super::forward::Forward;
use super::mem::{Mem, Trusted};
use super::order::Along;
use super::view::View;

/// Where the front finds leaves.
#[derive(Clone)]
enum Front<'a> {
    /// In memory, one after the other.
    Along(Along<'a>),
    /// In the trie.
    Down(Forward),
}

/// A run of leaves, read from both ends.
pub(crate) struct Span<'a, V, M = Trusted> {
    pub(crate) view: View<'a, V, M>,
    front: Front<'a>,
    /// Stands on the last leaf that is left.
    back: Cursor,
    /// The first leaf of all.
    start: u32,
    /// The leaf that the front gave out last, or 0.
    given: u32,
    /// Leaves are left.
    open: bool,
}

impl<V, M: Copy> Clone for Span<'_, V, M> {
    fn clone(&self) -> Self {
        Span {
            view: self.view,
            front: self.front.clone(),
            back: self.back.clone(),
            start: self.start,
            given: self.given,
            open: self.open,
        }
    }
}

impl<'a, V, M: Mem> Span<'a, V, M> {
    fn new(view: View<'a, V, M>, front: Cursor, back: Cursor, open: bool) -> Self {
        Span {
            view,
            front: Front::Down(if open {
                Forward::from_cursor(&view, &front)
            } else {
                Forward::nothing()
            }),
            back,
            start: front.leaf,
            given: 0,
            open,
        }
    }

    /// The leaves from where `front` stands to where `back` stands, both included; empty when either
    /// stands nowhere or they have crossed.
    pub(crate) fn between(view: View<'a, V, M>, front: Cursor, back: Cursor) -> Self {
        let open = front.leaf != 0
            && back.leaf != 0
            && (front.leaf == back.leaf || view.key(front.leaf) < view.key(back.leaf));
        Span::new(view, front, back, open)
    }

    /// All leaves.
    pub(crate) fn all(view: View<'a, V, M>) -> Self {
        if view.order.is_empty() {
            return Span::below(view, (view.root != 0).then_some((view.root, 0)));
        }
        let (mut front, mut back) = (Cursor::new(), Cursor::new());
        front.first(&view);
        back.last(&view);
        Span {
            view,
            front: Front::Along(Along::new(view.order)),
            open: back.leaf != 0,
            back,
            start: front.leaf,
            given: 0,
        }
    }

    /// All leaves below a subtree's top.
    pub(crate) fn below(view: View<'a, V, M>, top: Option<(u32, usize)>) -> Self {
        let (mut front, mut back) = (Cursor::new(), Cursor::new());
        if let Some((cell, min)) = top {
            front.down_first(&view, cell, min);
            back.down_last(&view, cell, min);
        }
        let open = front.leaf != 0 && back.leaf != 0;
        Span::new(view, front, back, open)
    }

    /// The next leaf cell from the front.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<u32> {
        if !self.open {
            return None;
        }
        // Only a damaged file runs out before it meets the back.
        let leaf = match &mut self.front {
            Front::Along(along) => along.next(&self.view),
            Front::Down(forward) => forward.next(&self.view),
        };
        self.given = leaf.unwrap_or(0);
        self.open = leaf.is_some() && self.given != self.back.leaf;
        leaf
    }

    /// The next leaf cell from the back.
    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<u32> {
        if !self.open {
            return None;
        }
        let leaf = self.back.leaf;
        self.back.prev(&self.view);
        // Only a damaged file runs out before it meets the front.
        self.open = self.back.leaf != 0
            && if self.given == 0 {
                leaf != self.start
            } else {
                self.back.leaf != self.given
            };
        Some(leaf)
    }
}

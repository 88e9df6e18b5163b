//! Searches for the lowest and the highest gap that has room.

use sapwood_format::maple::word::Word;

use super::entries::leaf_gap;
use super::node::{Inner, Leaf};
use super::path::Root;
use super::read::Tree;
use crate::gap::{Fit, Search, code};

impl<W: Word> Tree<W> {
    /// The first index of the place.
    ///
    /// # Safety
    /// What the root reaches is not freed meanwhile.
    pub(crate) unsafe fn place(self, fit: &Fit<W>) -> Option<W> {
        let Root { node, height } = self.root;
        let mut search = Search::new(fit);
        let (top, bounds, wanted) = ((node, height), (W::ZERO, W::MAX), code(fit.size));
        // SAFETY: the caller's promise.
        let found = unsafe {
            match fit.highest {
                _ if node == 0 => search.look(W::ZERO, W::MAX),
                false => self.place_below::<false>(top, bounds, &mut search, wanted),
                true => self.place_below::<true>(top, bounds, &mut search, wanted),
            }
        };
        search.end(found)
    }

    /// Lowers the word of a child in which a search has looked in vain, if it says too much. The
    /// child's bounds are `lower..=upper`.
    ///
    /// # Safety
    /// As for [`place_below`](Self::place_below); the parent is at this level.
    #[cold]
    unsafe fn settle(self, parent: Inner<W>, i: usize, level: usize, (lower, upper): (W, W)) {
        let child = self.mem.at(parent.child(i));
        // SAFETY: the caller's promise.
        let gap = unsafe {
            match level {
                1 => leaf_gap(Leaf::<W>::at(child), lower, upper),
                _ => Inner::<W>::at(child).largest_gap(),
            }
        };
        if gap < parent.gap(i) {
            parent.set_gap(i, gap);
        }
    }

    /// The lowest place below a node, or the highest one (`REV`). The node's bounds are
    /// `lower..=upper`.
    ///
    /// # Safety
    /// The node is of this level, and is not freed meanwhile.
    #[inline(never)]
    unsafe fn place_below<const REV: bool>(
        self,
        (node, level): (u32, usize),
        (lower, upper): (W, W),
        search: &mut Search<'_, W>,
        wanted: u16,
    ) -> Option<W> {
        let fit = search.fit();
        // SAFETY: the caller's promise.
        unsafe {
            if level == 0 {
                let leaf = Leaf::<W>::at(self.mem.at(node));
                return match REV {
                    false => lowest_in(leaf, lower, upper, search),
                    true => highest_in(leaf, lower, upper, search),
                };
            }
            let inner = Inner::<W>::at(self.mem.at(node));
            let mut i = inner.find::<false>(if REV { fit.to } else { fit.from });
            loop {
                let from = match i {
                    0 => lower,
                    i => inner.pivot(i - 1).above(),
                };
                let to = if i + 1 < inner.len() {
                    inner.pivot(i)
                } else {
                    upper
                };
                if inner.gap(i) >= wanted {
                    let child = inner.child(i);
                    super::read::prefetch_node(self.mem.at(child));
                    let child = (child, level - 1);
                    let found = self.place_below::<REV>(child, (from, to), search, wanted);
                    if found.is_some() {
                        return found;
                    }
                    if self.settles && from >= fit.from && to <= fit.to {
                        self.settle(inner, i, level, (from, to));
                    }
                }
                i = match REV {
                    false if to < fit.to && i + 1 < inner.len() => i + 1,
                    true if from > fit.from && i > 0 => i - 1,
                    _ => return None,
                };
            }
        }
    }
}

/// The place with which a search for the lowest one ends in a leaf with these bounds.
#[inline(always)]
fn lowest_in<W: Word>(leaf: Leaf<W>, lower: W, upper: W, search: &mut Search<'_, W>) -> Option<W> {
    let fit = search.fit();
    let first = leaf.rank::<false>(fit.from);
    let mut next = match first {
        0 => lower,
        k => leaf.end(k - 1).above(),
    };
    for k in first..leaf.len() {
        if next > fit.to {
            return None;
        }
        let start = leaf.start(k);
        if start > next {
            let found = search.look(next, start - W::ONE);
            if found.is_some() {
                return found;
            }
        }
        next = leaf.end(k).checked_add(W::ONE)?;
    }
    // Only the last leaf of all has a gap behind its last entry.
    if next <= upper {
        search.look(next, upper)
    } else {
        None
    }
}

/// As [`lowest_in`], for the highest one.
#[inline(always)]
fn highest_in<W: Word>(leaf: Leaf<W>, lower: W, upper: W, search: &mut Search<'_, W>) -> Option<W> {
    let fit = search.fit();
    if leaf.last() < upper {
        let found = search.look(leaf.last().above(), upper);
        if found.is_some() {
            return found;
        }
    }
    let last = leaf.rank::<false>(fit.to).min(leaf.len() - 1);
    for k in (0..=last).rev() {
        let start = leaf.start(k);
        let from = match k {
            0 => lower,
            k => leaf.end(k - 1).above(),
        };
        if start > from {
            let found = search.look(from, start - W::ONE);
            if found.is_some() {
                return found;
            }
        }
        if from <= fit.from {
            break;
        }
    }
    None
}

//! Searches for the lowest and the highest gap that has room.

use super::node::{Inner, Leaf};
use super::path::Root;
use super::read::Tree;
use crate::gap::code;

/// The conditions of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Number of indices, at least 1.
    pub(crate) size: u64,
    /// A power of two that the first index is a multiple of.
    pub(crate) align: u64,
    /// The first and last index that may be used.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether the search is for the highest place, not the lowest.
    pub(crate) highest: bool,
    /// Places from this index on, in the direction of the search, come first.
    pub(crate) near: Option<u64>,
}

impl Fit {
    /// The part of the window that comes first, if there is one and it is large enough.
    pub(crate) fn nearest(self) -> Option<Fit> {
        let near = self.near?;
        let (from, to) = match self.highest {
            false => (self.from.max(near), self.to),
            true => (self.from, self.to.min(near)),
        };
        (from <= to && to - from >= self.size - 1).then_some(Fit { from, to, ..self })
    }

    /// The lowest first index in a gap.
    #[inline(always)]
    pub(crate) fn lowest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let start = start.checked_add(self.align - 1)? & !(self.align - 1);
        (start <= end && end - start >= self.size - 1).then_some(start)
    }

    /// The highest first index in a gap.
    #[inline(always)]
    pub(crate) fn highest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let last = end.checked_sub(self.size - 1)? & !(self.align - 1);
        (start <= end && last >= start).then_some(last)
    }
}

impl Tree {
    /// The first index of the place.
    ///
    /// # Safety
    /// What the root reaches is not freed meanwhile.
    pub(crate) unsafe fn place(self, fit: &Fit) -> Option<u64> {
        let Root { node, height } = self.root;
        if node == 0 {
            return match fit.highest {
                false => fit.lowest(0, u64::MAX),
                true => fit.highest(0, u64::MAX),
            };
        }
        let (top, bounds, wanted) = ((node, height), (0, u64::MAX), code(fit.size));
        // SAFETY: the caller's promise.
        unsafe {
            match fit.highest {
                false => self.place_below::<false>(top, bounds, fit, wanted),
                true => self.place_below::<true>(top, bounds, fit, wanted),
            }
        }
    }

    /// The lowest place below a node, or the highest one (`REV`). The node's bounds are
    /// `lower..=upper`.
    ///
    /// # Safety
    /// The node is of this level, and is not freed meanwhile.
    unsafe fn place_below<const REV: bool>(
        self,
        (node, level): (u32, usize),
        (lower, upper): (u64, u64),
        fit: &Fit,
        wanted: u16,
    ) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            if level == 0 {
                let leaf = Leaf::at(self.mem.at(node));
                return match REV {
                    false => lowest_in(leaf, lower, upper, fit),
                    true => highest_in(leaf, lower, upper, fit),
                };
            }
            let inner = Inner::at(self.mem.at(node));
            let mut i = inner.find::<false>(if REV { fit.to } else { fit.from });
            loop {
                let from = match i {
                    0 => lower,
                    i => inner.pivot(i - 1).wrapping_add(1),
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
                    let found = self.place_below::<REV>(child, (from, to), fit, wanted);
                    if found.is_some() {
                        return found;
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

/// The lowest place in a leaf with these bounds.
#[inline(always)]
pub(crate) fn lowest_in(leaf: Leaf, lower: u64, upper: u64, fit: &Fit) -> Option<u64> {
    let first = leaf.rank::<false>(fit.from);
    let mut next = match first {
        0 => lower,
        k => leaf.end(k - 1).wrapping_add(1),
    };
    for k in first..leaf.len() {
        if next > fit.to {
            return None;
        }
        let start = leaf.start(k);
        if start > next {
            let found = fit.lowest(next, start - 1);
            if found.is_some() {
                return found;
            }
        }
        next = leaf.end(k).checked_add(1)?;
    }
    // Only the last leaf of all has a gap behind its last entry.
    if next <= upper {
        fit.lowest(next, upper)
    } else {
        None
    }
}

/// The highest place in a leaf with these bounds.
#[inline(always)]
pub(crate) fn highest_in(leaf: Leaf, lower: u64, upper: u64, fit: &Fit) -> Option<u64> {
    if leaf.last() < upper {
        let found = fit.highest(leaf.last() + 1, upper);
        if found.is_some() {
            return found;
        }
    }
    let last = leaf.rank::<false>(fit.to).min(leaf.len() - 1);
    for k in (0..=last).rev() {
        let start = leaf.start(k);
        let from = match k {
            0 => lower,
            k => leaf.end(k - 1).wrapping_add(1),
        };
        if start > from {
            let found = fit.highest(from, start - 1);
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

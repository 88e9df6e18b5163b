//! The lowest and the highest gap that has room.

use super::node::{Inner, Leaf};
use super::path::Root;
use super::read::Tree;
use crate::maple::gap::code;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Number of indices, at least 1.
    pub(crate) size: u64,
    /// A power of two that the first index is a multiple of.
    pub(crate) align: u64,
    /// The first and last index that may be used.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Fit {
    /// The lowest first index in a gap.
    #[inline(always)]
    fn lowest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let start = start.checked_add(self.align - 1)? & !(self.align - 1);
        (start <= end && end - start >= self.size - 1).then_some(start)
    }

    /// The highest first index in a gap.
    #[inline(always)]
    fn highest(&self, start: u64, end: u64) -> Option<u64> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        let last = end.checked_sub(self.size - 1)? & !(self.align - 1);
        (start <= end && last >= start).then_some(last)
    }
}

impl Tree {
    /// The lowest place.
    ///
    /// # Safety
    /// What the root reaches is not freed meanwhile.
    pub(crate) unsafe fn lowest(self, fit: &Fit) -> Option<u64> {
        let Root { node, height } = self.root;
        if node == 0 {
            return fit.lowest(0, u64::MAX);
        }
        // SAFETY: the caller's promise.
        unsafe { self.lowest_below(node, height, 0, u64::MAX, fit, code(fit.size)) }
    }

    /// As [`lowest`](Self::lowest), the highest place.
    ///
    /// # Safety
    /// As for [`lowest`](Self::lowest).
    pub(crate) unsafe fn highest(self, fit: &Fit) -> Option<u64> {
        let Root { node, height } = self.root;
        if node == 0 {
            return fit.highest(0, u64::MAX);
        }
        // SAFETY: the caller's promise.
        unsafe { self.highest_below(node, height, 0, u64::MAX, fit, code(fit.size)) }
    }

    /// The lowest place below a node, whose bounds are `lower..=upper`.
    ///
    /// # Safety
    /// The node is of this level, and is not freed meanwhile.
    unsafe fn lowest_below(
        self,
        node: u32,
        level: usize,
        lower: u64,
        upper: u64,
        fit: &Fit,
        wanted: u16,
    ) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            if level == 0 {
                return lowest_in(Leaf::at(self.mem.at(node)), lower, upper, fit);
            }
            let inner = Inner::at(self.mem.at(node));
            let first = inner.find::<false>(fit.from);
            let mut from = match first {
                0 => lower,
                i => inner.pivot(i - 1).wrapping_add(1),
            };
            for i in first..inner.len() {
                let to = if i + 1 < inner.len() {
                    inner.pivot(i)
                } else {
                    upper
                };
                if inner.gap(i) >= wanted {
                    let child = inner.child(i);
                    super::read::prefetch_node(self.mem.at(child));
                    let found = self.lowest_below(child, level - 1, from, to, fit, wanted);
                    if found.is_some() {
                        return found;
                    }
                }
                if to >= fit.to {
                    break;
                }
                from = to + 1;
            }
            None
        }
    }

    /// As [`lowest_below`](Self::lowest_below), the highest place.
    ///
    /// # Safety
    /// As for [`lowest_below`](Self::lowest_below).
    unsafe fn highest_below(
        self,
        node: u32,
        level: usize,
        lower: u64,
        upper: u64,
        fit: &Fit,
        wanted: u16,
    ) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe {
            if level == 0 {
                return highest_in(Leaf::at(self.mem.at(node)), lower, upper, fit);
            }
            let inner = Inner::at(self.mem.at(node));
            let last = inner.find::<false>(fit.to);
            let mut to = if last + 1 < inner.len() {
                inner.pivot(last)
            } else {
                upper
            };
            for i in (0..=last).rev() {
                let from = match i {
                    0 => lower,
                    i => inner.pivot(i - 1).wrapping_add(1),
                };
                if inner.gap(i) >= wanted {
                    let child = inner.child(i);
                    super::read::prefetch_node(self.mem.at(child));
                    let found = self.highest_below(child, level - 1, from, to, fit, wanted);
                    if found.is_some() {
                        return found;
                    }
                }
                if from <= fit.from {
                    break;
                }
                to = from - 1;
            }
            None
        }
    }
}

fn lowest_in(leaf: Leaf, lower: u64, upper: u64, fit: &Fit) -> Option<u64> {
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

fn highest_in(leaf: Leaf, lower: u64, upper: u64, fit: &Fit) -> Option<u64> {
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

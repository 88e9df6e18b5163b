//! Inner nodes: upper bounds of all children but the last, children, and the code of the largest
//! gap below each.
//!
//! ```text
//! 0  n | pivots | 0 | lines | replaced (atomic) | fresh | 0 | 0
//! 8  pivots (words of 8 or 16 bytes), filled up with ones to as many as the map's nodes may have
//!    cells (32 bits each, atomic), gap words (16 bits each, atomic)
//! ```

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use sapwood_format::maple::word::Word;
use sapwood_format::maple::{INNER_HEAD, InnerHead, LINE, inner_bytes};

use super::rank;
use crate::sync;

/// Bytes of an inner node with `n` children, in a map whose nodes have up to `fanout`.
pub(crate) fn inner_size<W: Word>(n: usize, fanout: usize) -> usize {
    inner_bytes(W::BYTES, n, filled(fanout))
}

/// The number of pivots of `fanout` children, filled up to whole vectors.
fn filled(fanout: usize) -> usize {
    (fanout - 1).next_multiple_of(4)
}

/// An inner node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<W> {
    p: *const u8,
    n: usize,
    /// The number of pivots, including those that fill up vectors.
    filled: usize,
    words: PhantomData<W>,
}

impl<W: Word> Inner<W> {
    /// # Safety
    /// `p` points at an inner node, which is not freed while this is used.
    #[inline(always)]
    pub(crate) unsafe fn at(p: *const u8) -> Self {
        // SAFETY: the caller's promise; the first two bytes never change.
        let [n, filled] = unsafe { p.cast::<[u8; 2]>().read() };
        Inner {
            p,
            n: n.into(),
            filled: filled.into(),
            words: PhantomData,
        }
    }

    /// Number of children, at least two.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.n
    }

    pub(crate) fn bytes(self) -> usize {
        // SAFETY: the promise of `at`; the fourth byte never changes.
        usize::from(unsafe { self.p.add(3).read() }) * LINE
    }

    /// The upper bound of a child that is not the last.
    #[inline(always)]
    pub(crate) fn pivot(self, i: usize) -> W {
        assert!(i + 1 < self.n, "the last child has its parent's bound");
        // SAFETY: the promise of `at`; there is a pivot for all children but the last.
        unsafe { self.pivots().add(i).read_unaligned() }
    }

    #[inline(always)]
    fn pivots(&self) -> *const W {
        self.p.wrapping_add(INNER_HEAD).cast()
    }

    /// The address of the cells.
    #[inline(always)]
    fn cells(&self) -> *const u32 {
        let pivots = self.filled * W::BYTES;
        self.p.wrapping_add(INNER_HEAD + pivots).cast()
    }

    #[inline(always)]
    fn cell(&self, i: usize) -> &AtomicU32 {
        assert!(i < self.n, "a child of the node");
        // SAFETY: the promise of `at`; cells are only used as atomics.
        unsafe { AtomicU32::from_ptr(self.cells().add(i).cast_mut()) }
    }

    #[inline(always)]
    fn word(&self, i: usize) -> &AtomicU16 {
        assert!(i < self.n, "a child of the node");
        // SAFETY: as for `cell`.
        unsafe {
            let words = self.cells().add(self.n).cast::<u16>();
            AtomicU16::from_ptr(words.add(i).cast_mut())
        }
    }

    /// A child.
    #[inline(always)]
    pub(crate) fn child(self, i: usize) -> u32 {
        sync::point();
        self.cell(i).load(Ordering::Acquire)
    }

    /// Replaces a child. Readers that come later find the new one.
    pub(crate) fn set_child(self, i: usize, child: u32) {
        sync::store_point();
        self.cell(i).store(child, Ordering::Release);
    }

    /// The code of the largest gap below a child.
    #[inline(always)]
    pub(crate) fn gap(self, i: usize) -> u16 {
        sync::point();
        self.word(i).load(Ordering::Acquire)
    }

    pub(crate) fn set_gap(self, i: usize, gap: u16) {
        sync::store_point();
        self.word(i).store(gap, Ordering::Release);
    }

    /// The code of the largest gap below any child.
    pub(crate) fn largest_gap(self) -> u16 {
        (0..self.n)
            .map(|i| self.word(i).load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    }

    /// As [`largest_gap`](Self::largest_gap), without one child's.
    pub(crate) fn largest_gap_but(self, without: usize) -> u16 {
        let gap = |i| self.word(i).load(Ordering::Relaxed);
        let others = (0..self.n).filter(|i| *i != without);
        others.map(gap).max().unwrap_or(0)
    }

    /// Copies a node to another block, which is not marked as replaced.
    ///
    /// # Safety
    /// `p` points at as many bytes, aligned to 8, that nobody else uses. Nobody changes this node
    /// meanwhile.
    pub(crate) unsafe fn copy_to(self, p: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            p.copy_from_nonoverlapping(self.p, self.bytes());
            p.add(4).write(0);
            p.add(5).write(0);
        }
    }

    #[inline(always)]
    fn replaced(&self) -> &AtomicU8 {
        // SAFETY: as for `cell`.
        unsafe { AtomicU8::from_ptr(self.p.add(4).cast_mut()) }
    }

    /// Whether the node is no longer part of the map.
    #[inline(always)]
    pub(crate) fn is_replaced(self) -> bool {
        sync::point();
        self.replaced().load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_replaced(self) {
        sync::store_point();
        self.replaced().store(1, Ordering::Release);
    }

    /// Whether the node is of a transaction that has not ended. In published nodes this is 0.
    pub(crate) fn is_fresh(self) -> bool {
        // SAFETY: the promise of `at`; the byte changes only before publication.
        unsafe { self.p.add(5).read() != 0 }
    }

    /// Marks a node, or takes its mark.
    ///
    /// # Safety
    /// `p` points at an inner node that nobody else uses.
    pub(crate) unsafe fn set_fresh(p: *mut u8, fresh: bool) {
        // SAFETY: the caller's promise.
        unsafe { p.add(5).write(fresh.into()) };
    }

    /// The child whose bounds hold `x`: the number of pivots below it.
    #[inline(always)]
    pub(crate) fn find<const NATIVE: bool>(self, x: W) -> usize {
        // SAFETY: the promise of `at`; pivots are filled up with the highest number; a caller that
        // asks for NATIVE has it.
        unsafe {
            if W::BITS > 64 {
                let pivots = self.pivots().cast();
                return rank::below_wide::<NATIVE, W>(pivots, self.n - 1, self.filled, x);
            }
            rank::below_filled::<NATIVE>(self.pivots().cast(), self.n - 1, self.filled, x.low())
        }
    }

    /// Writes a node.
    ///
    /// # Safety
    /// `p` points at `inner_size(n, fanout)` bytes for the `n` children, aligned to 8, that nobody
    /// else uses.
    pub(crate) unsafe fn write(
        p: *mut u8,
        fanout: usize,
        children: impl ExactSizeIterator<Item = (u32, W, u16)>,
    ) {
        let n = children.len();
        // SAFETY: the caller's promise.
        unsafe {
            let filled = filled(fanout);
            let head = InnerHead {
                n,
                filled,
                lines: inner_size::<W>(n, fanout) / LINE,
            };
            p.cast::<u64>().write(head.word().to_le());
            let pivots = p.add(INNER_HEAD).cast::<W>();
            let cells = pivots.add(filled).cast::<u32>();
            let gaps = cells.add(n).cast::<u16>();
            for (i, (cell, pivot, gap)) in children.enumerate() {
                if i + 1 < n {
                    pivots.add(i).write_unaligned(pivot);
                }
                cells.add(i).write(cell);
                gaps.add(i).write(gap);
            }
            for i in n - 1..filled {
                pivots.add(i).write_unaligned(W::MAX);
            }
        }
    }
}

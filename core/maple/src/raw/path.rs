//! The path from the root to a leaf, as the writer walks it.

use core::marker::PhantomData;

use sapwood_format::maple::word::Word;
use sapwood_format::maple::{root_of, root_word};

use super::node::{Inner, LEVELS, Mem};

/// A tree: its root and its number of levels of inner nodes. There is no tree if `root` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) node: u32,
    pub(crate) height: usize,
}

impl Root {
    pub(crate) const EMPTY: Root = Root { node: 0, height: 0 };

    pub(crate) fn word(self) -> u64 {
        root_word(self.node, self.height)
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Root {
        let (node, height) = root_of(word);
        Root { node, height }
    }
}

/// A node at each level, and at each level above 0 the child that the path takes.
#[derive(Clone, Copy)]
pub(crate) struct Path<W> {
    mem: Mem,
    words: PhantomData<W>,
    pub(crate) height: usize,
    pub(crate) node: [u32; LEVELS],
    pub(crate) at: [u8; LEVELS],
}

impl<W: Word> Path<W> {
    /// An empty path, for drafts that need none.
    pub(crate) fn nowhere() -> Path<W> {
        Path {
            mem: Mem(core::ptr::null_mut()),
            words: PhantomData,
            height: 0,
            node: [0; LEVELS],
            at: [0; LEVELS],
        }
    }

    /// The path to the leaf whose bounds hold `x`.
    ///
    /// # Safety
    /// The tree is live, not empty, and not changed while the path is used.
    #[inline]
    pub(crate) unsafe fn to<const NATIVE: bool>(mem: Mem, root: Root, x: W) -> Path<W> {
        let mut path = Path {
            mem,
            words: PhantomData,
            height: root.height,
            node: [0; LEVELS],
            at: [0; LEVELS],
        };
        let mut node = root.node;
        for level in (1..=root.height).rev() {
            path.node[level] = node;
            let inner = path.inner(level);
            let i = inner.find::<NATIVE>(x);
            path.at[level] = i as u8;
            node = inner.child(i);
            super::read::prefetch_node(mem.at(node));
        }
        path.node[0] = node;
        path
    }

    /// The inner node at a level.
    #[inline(always)]
    pub(crate) fn inner(&self, level: usize) -> Inner<W> {
        // SAFETY: the promise of `to`: nodes above level 0 are inner ones.
        unsafe { Inner::<W>::at(self.mem.at(self.node[level])) }
    }

    #[inline(always)]
    pub(crate) fn index(&self, level: usize) -> usize {
        usize::from(self.at[level])
    }

    fn has_right(&self, level: usize) -> bool {
        self.index(level) + 1 < self.inner(level).len()
    }

    /// The lowest index that belongs to the node at a level.
    pub(crate) fn lower(&self, level: usize) -> W {
        (level + 1..=self.height)
            .find(|&above| self.at[above] > 0)
            .map_or(W::ZERO, |above| {
                self.inner(above).pivot(self.index(above) - 1).above()
            })
    }

    /// The highest index that belongs to the node at a level.
    pub(crate) fn upper(&self, level: usize) -> W {
        (level + 1..=self.height)
            .find(|&above| self.has_right(above))
            .map_or(W::MAX, |above| self.inner(above).pivot(self.index(above)))
    }

    /// Writes the code of the largest gap below the path's node at a level, and what that changes
    /// above. `gap` is the code of the child that the path takes at `level`.
    pub(crate) fn settle_gaps(&self, level: usize, mut gap: u16) {
        for above in level..=self.height {
            let (inner, i) = (self.inner(above), self.index(above));
            if inner.gap(i) == gap {
                break;
            }
            inner.set_gap(i, gap);
            if above < self.height {
                gap = inner.largest_gap();
            }
        }
    }

    /// Raises the gap words of the path's nodes from a level on to at least this code.
    pub(crate) fn raise_gaps(&self, level: usize, gap: u16) {
        for above in level..=self.height {
            let (inner, i) = (self.inner(above), self.index(above));
            if inner.gap(i) >= gap {
                break;
            }
            inner.set_gap(i, gap);
        }
    }

    /// Whether the node at a level is the first one there.
    pub(crate) fn is_first(&self, level: usize) -> bool {
        (level + 1..=self.height).all(|above| self.at[above] == 0)
    }

    /// Whether the node at a level is the last one there.
    pub(crate) fn is_last(&self, level: usize) -> bool {
        (level + 1..=self.height).all(|above| !self.has_right(above))
    }

    /// Whether the node at a level has a sibling on the left, or on the right, under the same
    /// parent.
    pub(crate) fn siblings(&self, level: usize) -> (bool, bool) {
        if level == self.height {
            return (false, false);
        }
        (self.at[level + 1] > 0, self.has_right(level + 1))
    }

    /// Moves to the next node at a level, and calls `left` with each node that the path leaves.
    /// Returns false, and does not move, when there is no next node. Below the level, the path must
    /// not be used any more.
    pub(crate) fn right(&mut self, level: usize, mut left: impl FnMut(usize, u32)) -> bool {
        let Some(turn) = (level + 1..=self.height).find(|&above| self.has_right(above)) else {
            return false;
        };
        self.at[turn] += 1;
        for below in (level..turn).rev() {
            left(below, self.node[below]);
            self.node[below] = self.inner(below + 1).child(self.index(below + 1));
            self.at[below] = 0;
        }
        true
    }

    /// As [`right`](Self::right), to the node before.
    pub(crate) fn left(&mut self, level: usize, mut left: impl FnMut(usize, u32)) -> bool {
        let Some(turn) = (level + 1..=self.height).find(|&above| self.at[above] > 0) else {
            return false;
        };
        self.at[turn] -= 1;
        for below in (level..turn).rev() {
            left(below, self.node[below]);
            self.node[below] = self.inner(below + 1).child(self.index(below + 1));
            if below > 0 {
                self.at[below] = (self.inner(below).len() - 1) as u8;
            }
        }
        true
    }
}

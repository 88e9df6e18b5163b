//! The way of a key from the root to where it is or would be, and what an insertion has to do
//! there. The same for all kinds of tries: they differ in how they carry it out.

use smallvec::SmallVec;

use super::mem::Mem;
use super::node::{Branch, Cluster, KIND, LEAF};
use super::slots::{Border, Slots, has_room, is_in_reach};
use super::view::{Near, View};
use crate::qp::raw::leaf::Value;
use sapwood_format::cluster::{FILL_MAX, REACH};

/// A cluster with this many leaves or less looks for a sibling to join.
pub(crate) const JOIN_AT: usize = FILL_MAX / 4;
/// The most leaves that are joined: so that neither the next insertion nor the next removal undoes
/// it.
pub(crate) const JOIN_MAX: usize = FILL_MAX * 3 / 4;

/// A branch on the way down.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) cell: u32,
    /// The child that the way goes to.
    pub(crate) index: u16,
    /// Where in the key the branch looks.
    pub(crate) offset: u16,
}

impl Frame {
    pub(crate) fn index(self) -> usize {
        usize::from(self.index)
    }

    pub(crate) fn offset(self) -> usize {
        usize::from(self.offset)
    }
}

pub(crate) type Frames = SmallVec<[Frame; 16]>;

/// The way from the root to the leaf or cluster of a key, as it was when it was walked.
pub(crate) struct Way {
    pub(crate) frames: Frames,
    pub(crate) end: u32,
    pub(crate) near: Near,
}

/// What an insertion of a key that is absent does first.
pub(crate) enum Plan {
    /// Puts it into the cluster at the end, as leaf number `at`; the border is before it or behind
    /// it. With `anew` the cluster's base changes.
    Into {
        at: usize,
        border: Border,
        behind: bool,
        anew: bool,
    },
    /// Makes a cluster of it and the leaf at the end.
    Two { border: Border },
    /// Makes a cluster more of the one at the end; then begins anew.
    Split,
    /// Gives it a child of its own in the branch with this number of the way, beside the child that
    /// the way goes to.
    Label { depth: usize, border: Border },
    /// Makes a branch of it and of what hangs below this many branches of the way.
    Pair { depth: usize, border: Border },
}

impl Way {
    /// The key sorts before what is near it.
    pub(crate) fn before(&self) -> bool {
        self.near.before
    }

    /// The cell that hangs below this many branches of the way.
    pub(crate) fn cell(&self, depth: usize) -> u32 {
        self.frames.get(depth).map_or(self.end, |frame| frame.cell)
    }

    /// The offset of the last branch.
    pub(crate) fn parent(&self) -> Option<usize> {
        self.frames.last().map(|frame| frame.offset())
    }
}

impl<V: ?Sized + Value, M: Mem> View<'_, V, M> {
    /// The way of a key; `None` when the trie is empty.
    #[inline]
    pub(crate) fn way(&self, key: &[u8]) -> Option<Way> {
        let (frames, end) = self.walk(key)?;
        let near = self.near(end, key)?;
        Some(Way { frames, end, near })
    }

    /// The way of a key that is there, else `None`: the leaf is found by its tag, as lookups do, in
    /// less time than the place of a key that may be new.
    #[inline]
    pub(crate) fn way_of_present(&self, key: &[u8]) -> Option<Way> {
        let (frames, end) = self.walk(key)?;
        let (index, leaf) = self.place_in(end, key)?;
        let near = Near {
            leaf,
            index,
            part: None,
            before: false,
        };
        Some(Way { frames, end, near })
    }

    /// Walks down by the bytes of a key to a leaf or cluster; `None` when the trie is empty.
    #[inline(always)]
    pub(crate) fn walk(&self, key: &[u8]) -> Option<(Frames, u32)> {
        let mut frames = Frames::new();
        let mut end = self.root;
        if end == 0 {
            return None;
        }
        let mut min = 0;
        while end & KIND == 0 {
            let b = self.branch(end, min)?;
            let index = self.index(b, key);
            frames.push(frame(end, b, index));
            end = self.child(b, index)?;
            min = b.offset() + 1;
        }
        Some((frames, end))
    }

    /// The branches on the way of a key to a cell that is on that way.
    pub(crate) fn frames_to(&self, key: &[u8], top: u32) -> Option<Frames> {
        let mut frames = Frames::new();
        let mut cell = self.root;
        while cell != top {
            let b = self.branch(cell, 0)?;
            let index = self.index(b, key);
            frames.push(frame(cell, b, index));
            cell = self.child(b, index)?;
            if cell != top && cell & KIND != 0 {
                return None;
            }
        }
        Some(frames)
    }

    /// What an insertion of the key does first; the way is the key's, which is absent.
    #[inline]
    pub(crate) fn plan(&self, way: &Way, key: &[u8]) -> Option<Plan> {
        let part = way.near.part?;
        let found = self.key(way.near.leaf)?;
        let border = match way.before() {
            true => Border::between(key, found, part),
            false => Border::between(found, key, part),
        };
        let parent = way.parent();
        if parent.is_some_and(|parent| part < parent) {
            let depth = way.frames.iter().position(|frame| frame.offset() >= part)?;
            return Some(match way.frames[depth].offset() == part {
                true => Plan::Label { depth, border },
                false => Plan::Pair { depth, border },
            });
        }
        if way.end & LEAF != 0 {
            return Some(Plan::Two { border });
        }
        let c = self.cluster(way.end)?;
        // SAFETY: a cluster that `cluster` returned is whole.
        let fits = is_in_reach(c, part) || unsafe { fits_anew(c, part) };
        if has_room(c) && fits {
            return Some(Plan::Into {
                // SAFETY: as above; the near leaf is in it.
                at: unsafe { c.place(way.near.index, part, way.before()) },
                border,
                behind: way.before(),
                anew: !is_in_reach(c, part),
            });
        }
        // SAFETY: as above.
        let is_least = (1..c.leaves()).all(|i| unsafe { c.border(i) } > part);
        Some(match is_least {
            false => Plan::Split,
            // It parts from all of them first.
            true if parent == Some(part) => Plan::Label {
                depth: way.frames.len() - 1,
                border,
            },
            true => Plan::Pair {
                depth: way.frames.len(),
                border,
            },
        })
    }
}

fn frame(cell: u32, b: Branch, index: usize) -> Frame {
    // An offset is at most 65,535, and a branch has at most 257 children.
    Frame {
        cell,
        index: index as u16,
        offset: b.offset() as u16,
    }
}

/// Whether a border at this offset fits a cluster when it is written with another base.
///
/// # Safety
/// The cluster is whole.
unsafe fn fits_anew(c: Cluster, at: usize) -> bool {
    // SAFETY: borders that there are.
    let borders = (1..c.leaves()).map(|i| unsafe { c.border(i) });
    let (low, high) = borders.fold((at, at), |(low, high), at| (low.min(at), high.max(at)));
    high - low <= REACH
}

/// Two children of a branch, side by side, as the leaves of one cluster; if they may be joined.
///
/// # Safety
/// The parts are those of the children: leaves, or what a cluster holds; the border is between
/// them.
pub(crate) fn joined(left: &Slots, border: Border, right: &Slots) -> Option<Slots> {
    if left.len() + right.len() > JOIN_MAX {
        return None;
    }
    let mut all = left.clone();
    all.append(border, right);
    all.fits(0, all.len()).then_some(all)
}

//! Splices, the usual changes: a few entries in one leaf change, and nothing else moves.
//!
//! The new leaf is the old one's bytes with other entries in the middle, in the old one's encoding.
//! That is possible when this encoding can write the new borders, and the leaf keeps its upper
//! bound and has neither too many entries nor too few. All other changes go through a list of
//! entries.

use sapwood_format::maple::word::Word;

use super::draft::{Child, Cut, Draft, Outcome};
use super::entries::{Limits, Part, Slot};
use super::node::{Leaf, Mem};
use super::path::Path;
use crate::gap::code;

/// An entry of the new leaf that is not one of the old leaf.
pub(crate) type Between<W> = (W, W, Slot);

/// A leaf in which other entries replace some.
#[derive(Clone, Copy)]
pub(crate) struct Splice<W> {
    pub(crate) leaf: Leaf<W>,
    /// Entries that stay: those before `from`, and from `rest` on.
    pub(crate) from: usize,
    pub(crate) rest: usize,
    between: [Between<W>; 3],
    count: usize,
    /// Entries of the old leaf that reach beyond the change: at its start, and at its end.
    cut_left: bool,
    cut_right: bool,
}

// SAFETY: the addresses are of a leaf of the map that owns the splice, and are used only while its
// lock is held.
unsafe impl<W: Word> Send for Splice<W> {}

impl<W: Word> Splice<W> {
    /// Drafts the change of `a..=b` in a leaf. Returns also the entry whose right part gets a value
    /// of its own, if any.
    #[inline(always)]
    fn new(
        leaf: Leaf<W>,
        limits: &Limits,
        (a, b): (W, W),
        put: bool,
    ) -> (Splice<W>, Option<Cut<W>>) {
        let slot = limits.slot;
        let n = leaf.len();
        let from = leaf.rank::<false>(a);
        let behind = if b == W::MAX {
            n
        } else {
            leaf.rank::<false>(b + W::ONE)
        };
        let (cut_left, cut_right) = (
            from < n && leaf.start(from) < a,
            behind < n && leaf.start(behind) <= b,
        );
        let mut splice = Splice {
            leaf,
            from,
            rest: behind + usize::from(cut_right),
            between: [(W::ZERO, W::ZERO, Slot::NEW); 3],
            count: 0,
            cut_left,
            cut_right,
        };
        if cut_left {
            let at = Slot::from_ptr(leaf.slot(from, slot));
            splice.push(leaf.start(from), a - W::ONE, at);
        }
        if put {
            splice.push(a, b, Slot::NEW);
        }
        let mut cut = None;
        if cut_right {
            let old = leaf.slot(behind, slot);
            let mut at = Slot::from_ptr(old);
            if (cut_left && behind == from) || limits.shifts {
                let start = leaf.start(behind);
                cut = Some(Cut { slot: old, start });
                at = Slot::CLONE;
            }
            splice.push(b + W::ONE, leaf.end(behind), at);
        }
        (splice, cut)
    }

    /// Whether the new leaf would be the old one.
    #[inline(always)]
    fn is_same(&self) -> bool {
        self.count == 0 && self.from == self.rest
    }

    /// The old leaf's entries that are replaced whole.
    fn dropped(&self) -> core::ops::Range<usize> {
        self.from + usize::from(self.cut_left)..self.rest - usize::from(self.cut_right)
    }

    /// The last index of the new leaf's last entry.
    #[inline(always)]
    fn last(&self) -> W {
        match (self.rest < self.leaf.len(), self.between().last()) {
            (false, Some(&(_, end, _))) => end,
            (false, None) => self.leaf.end(self.from - 1),
            (true, _) => self.leaf.last(),
        }
    }

    /// The code of the new leaf's largest gap, up to `end`. That of the old leaf, up to `old_end`,
    /// is `was`.
    #[inline(always)]
    fn gap(&self, lower: W, end: W, old_end: W, was: u16) -> u16 {
        let new = code(self.new_gap(lower, end));
        if code(self.old_gap(lower, old_end, true)) < was {
            // The largest gap is elsewhere in the leaf.
            was.max(new)
        } else {
            new.max(code(self.old_gap(lower, old_end, false)))
        }
    }

    pub(crate) fn between(&self) -> &[Between<W>] {
        &self.between[..self.count]
    }

    fn push(&mut self, start: W, end: W, slot: Slot) {
        self.between[self.count] = (start, end, slot);
        self.count += 1;
    }

    /// Entries of the new leaf.
    fn len(&self) -> usize {
        self.from + self.count + self.leaf.len() - self.rest
    }

    /// The largest gap that the new leaf has and the old one has not.
    fn new_gap(&self, lower: W, end: W) -> W {
        let mut next = match self.from {
            0 => lower,
            from => self.leaf.end(from - 1) + W::ONE,
        };
        let mut largest = W::ZERO;
        for &(start, end, _) in self.between() {
            largest = largest.max(start - next);
            // Nothing lies behind the highest index, so nothing asks for the wrapped number.
            next = end.above();
        }
        if self.rest < self.leaf.len() {
            largest.max(self.leaf.start(self.rest) - next)
        } else if next == W::ZERO {
            largest
        } else {
            largest.max(end - (next - W::ONE))
        }
    }

    /// The largest gap of the old leaf among those that the new leaf lacks (`true`), or among the
    /// others.
    fn old_gap(&self, lower: W, end: W, gone: bool) -> W {
        let leaf = self.leaf;
        let (n, from, rest) = (leaf.len(), self.from, self.rest);
        let mut largest = W::ZERO;
        let mut look = |first: usize, behind: usize| {
            let mut next = match first {
                0 => lower,
                first => leaf.end(first - 1).above(),
            };
            leaf.decode(first, behind.min(n), 0, |start, end, _| {
                largest = largest.max(start - next);
                next = end.above();
            });
            if behind > n && next != W::ZERO {
                largest = largest.max(end - (next - W::ONE));
            }
        };
        if gone {
            look(from, rest + 1);
        } else {
            look(0, from);
            if rest < n {
                look(rest + 1, n + 1);
            }
        }
        largest
    }
}

impl<W: Word> Draft<W> {
    /// Drafts the change of a range in the leaf of a path as a splice. Returns whether that was
    /// possible.
    pub(crate) fn splice(
        &mut self,
        mem: Mem,
        path: &Path<W>,
        limits: &Limits,
        range: (W, W),
        put: bool,
    ) -> bool {
        // SAFETY: the path's node at level 0 is a live leaf.
        let leaf = unsafe { Leaf::<W>::at(mem.at(path.node[0])) };
        let slot = limits.slot;
        let (splice, cut) = Splice::<W>::new(leaf, limits, range, put);
        if splice.is_same() {
            return true;
        }
        if !leaf.can_write(range.0, range.1, put, splice.cut_left, splice.cut_right) {
            return false;
        }
        let len = splice.len();
        let encoding = leaf.encoding();
        let least = if path.height == 0 { 1 } else { limits.least };
        if len < least || len > u8::MAX as usize || encoding.places(len, slot).2 > limits.leaf {
            return false;
        }
        // Only the last leaf of all may end elsewhere than before.
        let last = splice.last();
        let rightmost = path.is_last(0);
        if !rightmost && last != leaf.last() {
            return false;
        }
        let bytes = encoding.size(len, slot);
        self.leaves.push(Part {
            from: 0,
            to: len,
            encoding,
            room: len,
            bytes,
        });
        self.gone.push((path.node[0], 0));
        for k in splice.dropped() {
            self.dropped.push(leaf.slot(k, slot));
        }
        if let Some(cut) = cut.filter(|cut| cut.start >= range.0) {
            // Its value is replaced.
            self.dropped.push(cut.slot);
        }
        self.cut = cut;
        let mut node = Child {
            node: 0,
            new: true,
            upper: last,
            gap: 0,
        };
        self.outcome = if path.height == 0 {
            Outcome::Root { node, height: 0 }
        } else {
            let lower = path.lower(0);
            let end = if rightmost { W::MAX } else { last };
            let old_end = if rightmost { W::MAX } else { leaf.last() };
            let was = path.inner(1).gap(path.index(1));
            node.gap = splice.gap(lower, end, old_end, was);
            Outcome::Cell { level: 1, node }
        };
        self.spliced = Some(splice);
        true
    }
}

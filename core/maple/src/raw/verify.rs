//! The check of every invariant of a tree.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use sapwood_arena::Arena;

use super::entries::{Limits, leaf_gap};
use super::node::{INNER, Inner, LEAF, Leaf, Mem, VALUE};
use super::path::Root;
use crate::figures;
use sapwood_format::maple::word::Word;

/// A walk over a tree that checks order, bounds, gap words, fill and encodings, and its findings.
pub(super) struct Check<'a, W> {
    mem: Mem,
    limits: &'a Limits,
    /// Whether slots hold references of values' blocks.
    apart: bool,
    /// Whether nodes may be a transaction's.
    pub(super) in_txn: bool,
    pub(super) entries: usize,
    leaves: (usize, usize),
    inner: (usize, usize),
    values: Vec<u32>,
    words: PhantomData<W>,
}

impl<'a, W: Word> Check<'a, W> {
    pub(super) fn new(mem: Mem, limits: &'a Limits, apart: bool) -> Self {
        Check {
            mem,
            limits,
            apart,
            in_txn: false,
            entries: 0,
            leaves: (0, 0),
            inner: (0, 0),
            values: Vec::new(),
            words: PhantomData,
        }
    }

    /// Walks a tree.
    ///
    /// # Safety
    /// Nobody changes or frees it meanwhile.
    pub(super) unsafe fn tree(&mut self, root: Root) -> Result<(), String> {
        if root.node != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.walk((root.node, root.height), (W::ZERO, W::MAX), true)? };
        }
        Ok(())
    }

    /// Compares what the walk met with the arena's accounts.
    pub(super) fn accounts(&mut self, arena: &Arena) -> Result<(), String> {
        arena.verify()?;
        let memory = arena.memory();
        let kind = |kind| figures::kind(&memory, kind);
        for (what, met, counted) in [
            ("leaves", self.leaves, kind(LEAF)),
            ("inner nodes", self.inner, kind(INNER)),
        ] {
            if met != counted {
                return Err(format!(
                    "{} {what} of {} bytes in the tree, {} of {} bytes in the arena",
                    met.0, met.1, counted.0, counted.1
                ));
            }
        }
        self.values.sort_unstable();
        if self.values.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two entries have one value's block".into());
        }
        if self.values.len() != kind(VALUE).0 {
            return Err(format!(
                "{} values in the tree, {} in the arena",
                self.values.len(),
                kind(VALUE).0
            ));
        }
        Ok(())
    }

    /// Walks a node with these bounds; returns the code of its largest gap.
    ///
    /// # Safety
    /// As for [`tree`](Self::tree); the node is one of the tree's, at this level.
    unsafe fn walk(
        &mut self,
        (node, level): (u32, usize),
        (lower, upper): (W, W),
        is_root: bool,
    ) -> Result<u16, String> {
        let p = self.mem.at(node);
        if level == 0 {
            // SAFETY: the caller's promise; nodes at level 0 are leaves.
            let (leaf, fresh) = unsafe { (Leaf::<W>::at(p), Leaf::<W>::is_fresh(p)) };
            if fresh && !self.in_txn {
                return Err(format!("leaf {node} is marked as one of a transaction"));
            }
            return self.leaf(node, leaf, (lower, upper), is_root);
        }
        // SAFETY: as above; nodes above are inner ones.
        let inner = unsafe { Inner::<W>::at(p) };
        let n = inner.len();
        let least = if is_root { 2 } else { self.limits.fanout / 2 };
        if n < least || n > self.limits.fanout {
            return Err(format!("node {node} at level {level} has {n} children"));
        }
        if !self.in_txn && inner.is_fresh() {
            return Err(format!("node {node} is marked as one of a transaction"));
        }
        if inner.is_replaced() {
            return Err(format!("node {node} is marked as replaced"));
        }
        self.inner.0 += 1;
        self.inner.1 += inner.bytes();
        let mut largest = 0;
        let mut from = lower;
        for i in 0..n {
            let to = if i + 1 < n { inner.pivot(i) } else { upper };
            if to < from || to > upper || (i + 1 < n && to == upper) {
                return Err(format!(
                    "bound {to} of child {i} of node {node} is not in {from}..={upper}"
                ));
            }
            // SAFETY: as above.
            let gap = unsafe { self.walk((inner.child(i), level - 1), (from, to), false)? };
            // A map that is changed in place lowers words when a search has looked in vain.
            if gap != inner.gap(i) && (!self.limits.roomy || gap > inner.gap(i)) {
                return Err(format!(
                    "gap word {} of child {i} of node {node} at level {level} should be {gap}",
                    inner.gap(i)
                ));
            }
            if level > 1 {
                // SAFETY: as above; the child is an inner node.
                let below = unsafe { Inner::<W>::at(self.mem.at(inner.child(i))) };
                if below.largest_gap() > inner.gap(i) {
                    return Err(format!(
                        "a gap word below child {i} of node {node} is greater"
                    ));
                }
            }
            largest = largest.max(gap);
            from = to.above();
        }
        Ok(largest)
    }

    fn leaf(
        &mut self,
        node: u32,
        leaf: Leaf<W>,
        (lower, upper): (W, W),
        is_root: bool,
    ) -> Result<u16, String> {
        let Limits {
            slot, roomy, least, ..
        } = *self.limits;
        let (n, room) = (leaf.len(), leaf.room());
        if n < if is_root { 1 } else { least } {
            return Err(format!("leaf {node} has {n} entries"));
        }
        if room < n || (room > n && !roomy) {
            return Err(format!("leaf {node} of {n} entries has room for {room}"));
        }
        let (size, end) = (
            leaf.encoding().size(room, slot),
            leaf.encoding().places(room, slot).2,
        );
        let fits = match roomy {
            // A block may be longer than its room needs, by less than an entry.
            true => end <= leaf.bytes(),
            false => leaf.bytes() == size,
        };
        if !fits || leaf.bytes() > self.limits.largest::<W>() {
            return Err(format!(
                "leaf {node} with room for {room} entries has {} bytes, not {size}",
                leaf.bytes()
            ));
        }
        let mut next = Some(lower);
        for k in 0..n {
            let (start, end) = (leaf.start(k), leaf.end(k));
            if next.is_none_or(|next| start < next) || end < start || end > upper {
                return Err(format!(
                    "entry {start}..={end} of leaf {node} is out of order"
                ));
            }
            if leaf.rank::<false>(start) != k || leaf.rank::<false>(end) != k {
                return Err(format!("entry {start}..={end} of leaf {node} is not found"));
            }
            next = end.checked_add(W::ONE);
            if self.apart {
                // SAFETY: an entry's slot holds the reference of its value.
                self.values
                    .push(unsafe { leaf.slot(k, slot).cast::<u32>().read() });
            }
        }
        if upper != W::MAX && leaf.last() != upper {
            return Err(format!(
                "leaf {node} ends at {}, its bound is {upper}",
                leaf.last()
            ));
        }
        self.entries += n;
        self.leaves.0 += 1;
        self.leaves.1 += leaf.bytes();
        Ok(leaf_gap(leaf, lower, upper))
    }
}

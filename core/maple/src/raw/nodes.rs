//! The nodes of a draft, written into their blocks.

use sapwood_format::maple::word::Word;

use super::draft::{Child, Draft};
use super::entries::Limits;
use super::node::{Inner, Leaf, Mem};

impl<W: Word> Draft<W> {
    /// Writes the new nodes into their blocks. Returns the number of entries in new leaves.
    ///
    /// # Safety
    /// `nodes` are blocks of the draft's sizes that nobody else uses; `new` and `clone` point at
    /// slots' bytes where the draft has such.
    pub(crate) unsafe fn write(
        &self,
        mem: Mem,
        limits: &Limits,
        nodes: &[u32],
        (new, clone): (*const u8, *const u8),
    ) -> usize {
        let entries = &self.entries;
        let mut added = 0;
        if let (Some(splice), &[r, ..]) = (&self.spliced, nodes) {
            let between = splice.between().iter();
            let between = between.map(|&(start, end, slot)| (start, end, slot.bytes(new, clone)));
            // SAFETY: the caller's promise; the borders can be written in the leaf's encoding.
            unsafe {
                let rest = (splice.from, splice.rest);
                splice
                    .leaf
                    .write_spliced(mem.at(r), limits.slot, rest, between);
            }
            added = self.leaves[0].to;
            if self.used == 0 {
                return added;
            }
        }
        let made = match self.spliced {
            Some(_) => &[],
            None => &self.leaves[..],
        };
        for (part, &r) in made.iter().zip(nodes.iter()) {
            let (from, to) = (part.from, part.to);
            added += to - from;
            let slots = entries.slots[from..to].iter();
            // SAFETY: the caller's promise; the part's encoding is that of these entries, whose
            // slots are there.
            unsafe {
                Leaf::<W>::write(
                    mem.at(r),
                    part.encoding,
                    (part.room, limits.slot),
                    &entries.starts[from..to],
                    &entries.ends[from..to],
                    slots.map(|slot| slot.bytes(new, clone)),
                );
            }
        }
        // Where the nodes of the level below begin.
        let mut below = 0;
        let mut next = self.leaves.len();
        for level in self.levels() {
            let node_of = |child: &Child<W>| match child.new {
                true => nodes[below + child.node as usize],
                false => child.node,
            };
            if let (Some((inner, at)), [child]) = (level.copied, &level.children[..]) {
                // SAFETY: the caller's promise; the node is live, and the copy as long.
                unsafe {
                    inner.copy_to(mem.at(nodes[next]));
                    let copy = Inner::<W>::at(mem.at(nodes[next]));
                    copy.set_child(at, node_of(child));
                    copy.set_gap(at, child.gap);
                }
                (below, next) = (next, next + 1);
                continue;
            }
            for (i, &(from, to)) in level.parts.iter().enumerate() {
                let children = level.children[from..to].iter();
                let children = children.map(|child| (node_of(child), child.upper, child.gap));
                // SAFETY: the caller's promise.
                unsafe {
                    let filled = limits.filled(to - from);
                    Inner::<W>::write(mem.at(nodes[next + i]), filled, children);
                }
            }
            below = next;
            next += level.parts.len();
        }
        added
    }

    /// The reference of a child that the highest new level or the leaves have.
    pub(crate) fn top(&self, nodes: &[u32], child: Child<W>) -> u32 {
        if !child.new {
            return child.node;
        }
        let highest = match self.levels().last() {
            Some(level) => level.parts.len(),
            None => self.leaves.len(),
        };
        nodes[nodes.len() - highest + child.node as usize]
    }
}

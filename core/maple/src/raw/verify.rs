//! The check of every invariant of a tree.

use super::entries::leaf_gap;
use super::node::{INNER, Inner, LEAF, Leaf, RESERVED, VALUE};
use super::table::{MapleShared, Values, Writer};
use crate::figures;

/// The findings of a walk.
#[derive(Default)]
struct Met {
    entries: usize,
    leaves: (usize, usize),
    inner: (usize, usize),
    values: Vec<u32>,
}

impl<V> MapleShared<V> {
    /// Walks the tree and checks order, bounds, gap words, fill and encodings, and compares the
    /// sums with the arena's accounts.
    pub(crate) fn verify(&self, writer: &Writer<V>) -> Result<(), String> {
        let mut met = Met::default();
        let root = writer.root;
        if root.node != 0 {
            self.walk(
                writer,
                (root.node, root.height),
                (0, u64::MAX),
                true,
                &mut met,
            )?;
        }
        if met.entries != writer.len || met.entries != self.len() {
            return Err(format!(
                "{} entries, but {} are counted and {} published",
                met.entries,
                writer.len,
                self.len()
            ));
        }
        writer.space.arena.verify()?;
        let memory = writer.space.arena.memory();
        let kind = |kind| figures::kind(&memory, kind);
        for (what, met, counted) in [
            ("leaves", met.leaves, kind(LEAF)),
            ("inner nodes", met.inner, kind(INNER)),
        ] {
            if met != counted {
                return Err(format!(
                    "{} {what} of {} bytes in the tree, {} of {} bytes in the arena",
                    met.0, met.1, counted.0, counted.1
                ));
            }
        }
        met.values.sort_unstable();
        if met.values.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two entries have one value's block".into());
        }
        if met.values.len() != kind(VALUE).0 {
            return Err(format!(
                "{} values in the tree, {} in the arena",
                met.values.len(),
                kind(VALUE).0
            ));
        }
        if !writer.unknown.is_held() && writer.unknown.held() != 0 {
            return Err("blocks are held for no store".into());
        }
        if kind(RESERVED).0 < writer.unknown.held() {
            return Err("fewer blocks are reserved than held".into());
        }
        Ok(())
    }

    /// Walks a node with these bounds; returns the code of its largest gap.
    fn walk(
        &self,
        writer: &Writer<V>,
        (node, level): (u32, usize),
        (lower, upper): (u64, u64),
        is_root: bool,
        met: &mut Met,
    ) -> Result<u16, String> {
        let p = writer.mem().at(node);
        if level == 0 {
            // SAFETY: the tree is the writer's; nodes at level 0 are leaves.
            let leaf = unsafe { Leaf::at(p) };
            return self.leaf(writer, node, leaf, (lower, upper), is_root, met);
        }
        // SAFETY: as above; nodes above are inner ones.
        let inner = unsafe { Inner::at(p) };
        let n = inner.len();
        let least = if is_root { 2 } else { writer.limits.fanout / 2 };
        if n < least || n > writer.limits.fanout {
            return Err(format!("node {node} at level {level} has {n} children"));
        }
        if inner.is_replaced() {
            return Err(format!("node {node} is marked as replaced"));
        }
        met.inner.0 += 1;
        met.inner.1 += inner.bytes();
        let mut largest = 0;
        let mut from = lower;
        for i in 0..n {
            let to = if i + 1 < n { inner.pivot(i) } else { upper };
            if to < from || to > upper || (i + 1 < n && to == upper) {
                return Err(format!(
                    "bound {to} of child {i} of node {node} is not in {from}..={upper}"
                ));
            }
            let gap = self.walk(writer, (inner.child(i), level - 1), (from, to), false, met)?;
            if gap != inner.gap(i) {
                return Err(format!(
                    "gap word {} of child {i} of node {node} at level {level} should be {gap}",
                    inner.gap(i)
                ));
            }
            largest = largest.max(gap);
            from = to.wrapping_add(1);
        }
        Ok(largest)
    }

    fn leaf(
        &self,
        writer: &Writer<V>,
        node: u32,
        leaf: Leaf,
        (lower, upper): (u64, u64),
        is_root: bool,
        met: &mut Met,
    ) -> Result<u16, String> {
        let n = leaf.len();
        let least = if is_root { 1 } else { writer.limits.least };
        if n < least {
            return Err(format!("leaf {node} has {n} entries"));
        }
        let size = leaf.encoding().size(n, self.published.slot);
        if leaf.bytes() != size || size > writer.limits.largest() {
            return Err(format!(
                "leaf {node} of {n} entries has {} bytes, not {size}",
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
            next = end.checked_add(1);
            if self.published.values == Values::Apart {
                // SAFETY: an entry's slot holds the reference of its value.
                met.values
                    .push(unsafe { leaf.slot(k, self.published.slot).cast::<u32>().read() });
            }
        }
        if upper != u64::MAX && leaf.last() != upper {
            return Err(format!(
                "leaf {node} ends at {}, its bound is {upper}",
                leaf.last()
            ));
        }
        met.entries += n;
        met.leaves.0 += 1;
        met.leaves.1 += leaf.bytes();
        Ok(leaf_gap(leaf, lower, upper))
    }
}

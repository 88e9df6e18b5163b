//! Trees made at once, of entries in order.

use alloc::vec::Vec;

use sapwood_arena::ArenaFull;

use super::entries::{Entries, Part};
use super::node::{INNER, Inner, LEAF, Leaf, VALUE, inner_size, leaf_holds};
use super::path::Root;
use super::table::{MapleShared, Writer};
use super::values::{Apart, Values};
use crate::gap::code;
use sapwood_format::maple::word::Word;

/// A node of the level under way: its reference, upper bound, and the code of its largest gap.
type Made<W> = (u32, W, u16);

/// Entries that have no leaf yet, and the leaves made so far.
struct Leaves<'w, V, W: Word> {
    writer: &'w mut Writer<V, W>,
    entries: Entries<W>,
    /// The slots of the entries.
    slots: Vec<[u8; 8]>,
    made: Vec<Made<W>>,
    /// The first index behind the leaves.
    lower: W,
}

impl<V: Copy, W: Word> MapleShared<V, W> {
    /// Fills an empty map with entries, which come in order and do not overlap. On an error, the
    /// map has no entries, but blocks that nothing refers to: it is of no use any more.
    pub(crate) fn fill<E: From<ArenaFull>>(
        &self,
        writer: &mut Writer<V, W>,
        entries: impl Iterator<Item = Result<(W, W, V), E>>,
    ) -> Result<(), E> {
        assert!(writer.root == Root::EMPTY, "the map is empty");
        let most = leaf_holds::<W>(writer.limits.leaf, writer.limits.slot, 1);
        let mut leaves = Leaves {
            writer,
            entries: Entries::<W>::default(),
            slots: Vec::new(),
            made: Vec::new(),
            lower: W::ZERO,
        };
        let mut count = 0;
        for entry in entries {
            let (start, end, value) = entry?;
            leaves.push(start, end, value, self.published.values)?;
            count += 1;
            if leaves.slots.len() == 2 * most {
                leaves.full_leaf(most)?;
            }
        }
        if count == 0 {
            return Ok(());
        }
        let mut made = leaves.last_leaves()?;
        let mut height = 0;
        while made.len() > 1 {
            made = writer.level_above(&made)?;
            height += 1;
        }
        writer.root = Root {
            node: made[0].0,
            height,
        };
        writer.len = count;
        self.publish_root(writer);
        self.publish_len(writer);
        Ok(())
    }
}

impl<V: Copy, W: Word> Leaves<'_, V, W> {
    fn push(&mut self, start: W, end: W, value: V, values: Values) -> Result<(), ArenaFull> {
        let mut slot = [0; 8];
        match values {
            Values::InSlots => {
                assert!(size_of::<V>() <= slot.len(), "a value fits into a slot");
                // SAFETY: the slot has the value's bytes; a `Copy` value is nothing more.
                unsafe {
                    let value = (&raw const value).cast::<u8>();
                    value.copy_to_nonoverlapping(slot.as_mut_ptr(), size_of::<V>());
                }
            }
            _ => {
                let space = &mut self.writer.space;
                let r = space.alloc(Apart::<V>::BYTES, VALUE)?;
                // SAFETY: a new block for a value.
                unsafe { Apart::<V>::place(space.mem().at(r)).write(value) };
                slot[..4].copy_from_slice(&r.to_ne_bytes());
            }
        }
        self.entries.starts.push(start);
        self.entries.ends.push(end);
        self.slots.push(slot);
        Ok(())
    }

    /// Makes a leaf of as many of the first entries as it can have. Enough for another leaf stay.
    fn full_leaf(&mut self, most: usize) -> Result<(), ArenaFull> {
        let limits = self.writer.limits;
        // What `least` entries need, a leaf has room for in any encoding. More entries never need
        // less.
        let (mut fits, mut too_many) = (limits.least, most + 1);
        while too_many - fits > 1 {
            let n = (fits + too_many) / 2;
            match self.entries.part(0, n, &limits) {
                Some(_) => fits = n,
                None => too_many = n,
            }
        }
        let Some(part) = self.entries.part(0, fits, &limits) else {
            unreachable!("the least entries fit into a leaf")
        };
        self.leaf(&part, false)?;
        self.entries.starts.drain(..fits);
        self.entries.ends.drain(..fits);
        self.slots.drain(..fits);
        Ok(())
    }

    /// Makes leaves of all entries that are left.
    fn last_leaves(mut self) -> Result<Vec<Made<W>>, ArenaFull> {
        let mut parts = Vec::new();
        self.entries.cut(&self.writer.limits, false, &mut parts);
        for (i, part) in parts.iter().enumerate() {
            self.leaf(part, i + 1 == parts.len())?;
        }
        Ok(self.made)
    }

    fn leaf(&mut self, part: &Part<W>, is_last: bool) -> Result<(), ArenaFull> {
        let Writer { space, limits, .. } = &mut *self.writer;
        let (from, to) = (part.from, part.to);
        let r = space.alloc(part.bytes, LEAF)?;
        space.made += 1;
        // SAFETY: a new block of the part's bytes; the part's encoding is that of these entries.
        unsafe {
            Leaf::<W>::write(
                space.mem().at(r),
                part.encoding,
                (part.room, limits.slot),
                &self.entries.starts[from..to],
                &self.entries.ends[from..to],
                self.slots[from..to].iter().map(|slot| slot.as_ptr()),
            );
        }
        let upper = self.entries.ends[to - 1];
        let mut gap = self.entries.gap(from, to, self.lower);
        if is_last {
            gap = gap.max(code(W::MAX - upper));
        }
        self.made.push((r, upper, gap));
        self.lower = upper.above();
        Ok(())
    }
}

impl<V, W: Word> Writer<V, W> {
    /// Makes the nodes above those of a level, of which there are at least two.
    fn level_above(&mut self, children: &[Made<W>]) -> Result<Vec<Made<W>>, ArenaFull> {
        let Writer { space, limits, .. } = self;
        let n = children.len();
        let count = n.div_ceil(limits.fanout);
        let mut made = Vec::with_capacity(count);
        for i in 0..count {
            let part = &children[n * i / count..n * (i + 1) / count];
            let r = space.alloc(inner_size::<W>(part.len(), limits.fanout), INNER)?;
            space.made += 1;
            // SAFETY: a new block of that size.
            unsafe { Inner::<W>::write(space.mem().at(r), limits.fanout, part.iter().copied()) };
            let gap = part.iter().map(|child| child.2).max().unwrap_or(0);
            made.push((r, part[part.len() - 1].1, gap));
        }
        Ok(made)
    }
}

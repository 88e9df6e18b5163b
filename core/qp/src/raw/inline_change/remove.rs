//! Entries that go, and blocks that are tidied up and joined afterwards.

use core::ptr;

use sapwood_arena::ArenaFull;

use crate::raw::inline::{Held, Inline};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::node::{self, Cluster, is_leaf};
#[cfg(feature = "std")]
use crate::raw::path::Frames;
use crate::raw::path::{JOIN_AT, JOIN_MAX, Path};
use crate::raw::slots::{close, lost_border};
use crate::raw::tree::{CLUSTER_KIND, Link, Owned, Policy, Tree, ref_of};
use sapwood_format::inline::{self, Extent};

use super::rows::{IN_PLACE, New, Row, Rows, Shape, Source, take_out};
use crate::raw::change::Joined;

impl<V: ?Sized + Value> Tree<V> {
    /// Takes the entry at the end of a path out of its block. `take_leaf` or `take_slot` moves its
    /// value out. It needs no memory.
    ///
    /// # Safety
    /// The path is that of the key, which is there, in the trie as it is now.
    pub(crate) unsafe fn take_inline<R>(
        &mut self,
        key: &[u8],
        path: &Path,
        take_leaf: impl FnOnce(*mut u8) -> R,
        take_slot: impl FnOnce(*mut u8) -> R,
    ) -> R {
        // SAFETY: the caller's promise. The owned policy allocates nothing that it must have.
        unsafe {
            let block = Inline::of(self.cluster(path.end));
            let taken = match block.held::<V>(path.near.index) {
                Held::Leaf(leaf) => self.free_leaf(leaf, take_leaf),
                Held::Here { tail, len } => take_slot(Inline::slot::<V>(tail, len)),
            };
            let removed = self.remove_inline(&mut Owned, key, path);
            debug_assert!(removed.is_ok());
            taken
        }
    }

    /// Unlinks the entry at the end of a path from its block; a leaf of its own stays. In place it
    /// needs no memory.
    ///
    /// # Safety
    /// The path is that of the key in the trie as it is now, and ends in an inline cluster.
    pub(crate) unsafe fn remove_inline<P: Policy>(
        &mut self,
        policy: &mut P,
        key: &[u8],
        path: &Path,
    ) -> Result<(), ArenaFull> {
        // SAFETY: the caller's promise.
        unsafe {
            let left = self.cluster(path.end).leaves() - 1;
            if left == 0 {
                self.remove_child(policy, &path.frames)?;
                self.free_bits(policy, path.end);
                return Ok(());
            }
            let link = self.own_path(policy, &path.frames)?;
            let cell = self.own(policy, link, path.end)?;
            self.close_gap::<P>(self.cluster(cell), path.near.index);
            self.tidy(policy, link, cell);
            if left <= JOIN_AT {
                self.join_blocks(policy, key);
            }
        }
        Ok(())
    }

    /// Replaces the block at the end of a path by one without entries `from..to`, which are not
    /// all.
    ///
    /// # Safety
    /// As for `replace_block`.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn remove_run<P: Policy>(
        &mut self,
        policy: &mut P,
        block: (&Frames, u32),
        run: (usize, usize),
    ) -> Result<(), ArenaFull> {
        let mut rows = self.rows_of(block.1);
        take_out(&mut rows, run);
        // SAFETY: the caller's promise.
        unsafe { self.replace_block(policy, block, &mut rows, &mut New::none()) }
    }

    /// Takes entry `i`, which is not the only one, out of a block. Its bytes are dead afterwards.
    ///
    /// # Safety
    /// The block is live and may be changed.
    unsafe fn close_gap<P: Policy>(&mut self, c: Cluster, i: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let block = Inline::of(c);
            let bytes = match block.held::<V>(i) {
                Held::Leaf(_) => V::ENTRIES.outside(),
                Held::Here { tail, len } => V::ENTRIES.entry(len, V::slot_len(tail.add(len))),
            };
            let n = c.leaves();
            let (tags, places) = (
                block.p.add(inline::TAGS_AT),
                block.p.add(inline::places_at(block.capacity)),
            );
            let d = block
                .p
                .add(inline::borders_at(block.capacity, block.extent.prefix));
            let lost = lost_border(c, i);
            close(tags, tags, n, i);
            close(places, places, n, i);
            close(d, d, n, lost);
            let c_bytes = d.add(block.capacity);
            close(c_bytes, c_bytes, n, lost);
            let mut extent = block.extent;
            extent.dead += bytes;
            self.set_extent(block.p, extent);
            let h = inline::header(c.base(), n - 1, block.capacity);
            node::set_header(block.p, h | P::BITS);
        }
    }

    /// After a removal: a block of one entry becomes a leaf, if there is memory for it. A block of
    /// which a third is dead is written anew in its place. If less than half of it is live, the
    /// rest is freed; else it keeps its size, for entries that come again.
    ///
    /// # Safety
    /// The link names the block. Both may be changed.
    unsafe fn tidy<P: Policy>(&mut self, policy: &mut P, link: Link, cell: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let c = self.cluster(cell);
            let n = c.leaves();
            if n == 1 {
                let rows = self.rows_of(cell);
                if let Ok(leaf) = self.make_single(policy, &rows[0]) {
                    self.set_link(link, leaf);
                    self.free_bits(policy, cell);
                    return;
                }
            }
            let block = Inline::of(c);
            let heap = V::ENTRIES.heap_at(block.capacity, block.extent.prefix);
            let Extent {
                end, dead, block, ..
            } = block.extent;
            let half = 2 * (end - dead) < block;
            if 3 * dead > end - heap || half {
                let mut rows = self.rows_of(cell);
                self.write_again::<P>(cell, &mut rows, !half);
            }
        }
    }

    /// Writes a block anew in its place, with these of its entries. With `keep` it has its size and
    /// its slots afterwards, if the entries fit; else it becomes as small as they allow.
    ///
    /// # Safety
    /// The block is live, and nobody else uses it.
    pub(super) unsafe fn write_again<P: Policy>(
        &mut self,
        cell: u32,
        rows: &mut [Row],
        keep: bool,
    ) {
        for row in rows.iter_mut() {
            // Without memory for more, leaves stay outside.
            if let Source::Leaf(leaf) = row.source {
                row.source = Source::Outside(leaf);
            }
        }
        let mut copy = [const { core::mem::MaybeUninit::<u64>::uninit() }; inline::BLOCK_MAX / 8];
        // SAFETY: the caller's promise. The new block is not larger.
        unsafe {
            let p = self.pointer(cell);
            let c = self.cluster(cell);
            let Extent {
                block: old, prefix, ..
            } = Inline::of(c).extent;
            ptr::copy_nonoverlapping(p, copy.as_mut_ptr().cast(), old);
            let mut none = New::none();
            // With its old prefix, the block does not get larger.
            let shapes = [
                Shape::tight(self, rows, false),
                Shape::tight(self, rows, true),
                Shape::of::<V>(rows, c.base(), prefix, 0),
            ];
            let fitting = shapes.iter().find(|shape| shape.extent.block <= old);
            let kept = Shape::in_block(self, rows, (c.capacity(), old));
            let Some(shape) = kept.filter(|_| keep).or(fitting.copied()) else {
                unreachable!("a block with fewer entries is no larger")
            };
            let copied = (cell, copy.as_mut_ptr().cast());
            self.write_block::<P>(p, shape, rows, &mut none, copied);
            if shape.extent.block < old {
                let blocks = ((old, CLUSTER_KIND), (shape.extent.block, CLUSTER_KIND));
                self.arena.shrink(ref_of(cell), blocks.0, blocks.1);
            }
        }
    }

    /// Joins the leaf or block that a key leads to with a sibling, if both have few entries
    /// together. Without memory it stays as it is.
    fn join_blocks<P: Policy>(&mut self, policy: &mut P, key: &[u8]) {
        let mut rows = Rows::new();
        let made = self.join_siblings(policy, key, |tree, policy, one, border, two| {
            rows = tree.rows_of(one);
            tree.add_rows(&mut rows, two, border);
            if rows.len() > JOIN_MAX {
                return Ok(None);
            }
            tree.settle::<P>(&mut rows);
            match tree.fits(&rows) {
                true => tree.make_part(policy, &rows, &mut New::none()).map(Some),
                false => Ok(None),
            }
        });
        match made {
            Some(Joined { old, cell, linked }) if linked => {
                // SAFETY: both are unlinked, and their entries are in the new block.
                unsafe {
                    for old in old.into_iter().filter(|old| !is_leaf(*old)) {
                        self.free_bits(policy, old);
                    }
                    self.moved(policy, &rows, cell);
                }
            }
            Some(Joined { cell, .. }) => self.unmake_part(policy, &rows, cell),
            None => {}
        }
    }

    /// Takes entries `from..to`, but not all, out of the block at the end of a path; calls `each`
    /// with what must be dropped.
    ///
    /// # Safety
    /// The block is live, and nobody else uses it.
    pub(crate) unsafe fn take_run(
        &mut self,
        cell: u32,
        (from, to): (usize, usize),
        mut each: impl FnMut(V::Held),
    ) {
        let mut rows = self.rows_of(cell);
        // SAFETY: the caller's promise: each value is moved out once.
        unsafe {
            for row in &rows[from..to] {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => each(self.take_leaf(leaf)),
                    _ => each(V::slot_take(self.source(row, IN_PLACE).1.cast_mut())),
                }
            }
            take_out(&mut rows, (from, to));
            self.write_again::<Owned>(cell, &mut rows, false);
        }
    }

    /// Calls `each` with what must be dropped of all entries of an unlinked block, and frees it.
    ///
    /// # Safety
    /// The block is live and unlinked, and nobody uses it afterwards.
    pub(crate) unsafe fn take_block(&mut self, cell: u32, mut each: impl FnMut(V::Held)) {
        // SAFETY: the caller's promise: each value is moved out once.
        unsafe {
            for row in self.rows_of(cell) {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => each(self.take_leaf(leaf)),
                    _ => each(V::slot_take(self.source(&row, IN_PLACE).1.cast_mut())),
                }
            }
            self.free_bits(&mut Owned, cell);
        }
    }

    /// Frees what the values of a block have outside; they have moved.
    ///
    /// # Safety
    /// The block is live, and nobody uses its values afterwards.
    pub(crate) unsafe fn forget_block(&mut self, cell: u32) {
        for row in self.rows_of(cell) {
            // SAFETY: the caller's promise.
            unsafe {
                match row.source {
                    Source::Outside(leaf) | Source::Leaf(leaf) => {
                        LeafOf::<V>::forget(self.pointer(leaf));
                    }
                    _ => V::slot_forget(self.source(&row, IN_PLACE).1.cast_mut()),
                }
            }
        }
    }
}

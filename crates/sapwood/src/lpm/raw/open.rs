//! The open transaction: changes in words of its own, with blocks that carry the FRESH mark until they are published.

use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::Ordering;

use super::blocks::{Block, Blocks};
use super::node::Mem;
use super::root::Over;
use super::table::Shared;
use super::update::Put;
use super::values;
use super::writer::{SEAL, Writer};
use crate::lpm::family::Key;

impl<V: Eq + Hash> Shared<V> {
    /// As [`put`](Self::put), for the open transaction alone.
    pub(crate) fn put_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: V,
        dropped: &mut Vec<V>,
    ) -> Put<V> {
        self.with_value(writer, value, dropped, |shared, writer, value, dropped| {
            shared.set_open(writer, at, value, dropped)
        })
    }

    /// As [`take`](Self::take), for the open transaction alone.
    pub(crate) fn take_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        self.set_open(writer, at, 0, dropped)
    }

    fn set_open<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: u32,
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        let mut overlay = core::mem::take(&mut writer.overlay);
        writer.blocks.marks = true;
        let mut target = Over {
            overlay: &mut overlay,
            root: self.root(),
        };
        let done = writer.apply(&mut target, self.bits, at, value, |writer, bytes| {
            self.admit(writer, bytes, dropped)
        });
        writer.blocks.marks = false;
        writer.overlay = overlay;
        done.map(|old| (old != 0).then_some(old))
    }

    /// Publishes the open transaction. Word by word: a lookup that runs meanwhile reads one word, so it answers as the
    /// old or as the new table does.
    pub(crate) fn commit(&self, writer: &mut Writer<V>) -> u64 {
        let unchanged = writer.taken.is_empty() && writer.given.is_empty();
        if unchanged && writer.retired.is_empty() {
            return self.version();
        }
        for (_, _, new) in writer.overlay.changes(self.root()) {
            // SAFETY: fresh blocks are seen by nobody but the writer.
            unsafe { unmark_node(self.mem, new.child()) };
        }
        // SAFETY: as above.
        unsafe { unmark_shelf(self.mem, writer.shelf) };
        let version = self.publish(writer, |root, overlay| {
            for (slot, _, new) in overlay.changes(root) {
                root.set(slot, new);
            }
            overlay.clear();
        });
        writer.settle(version);
        version
    }

    /// How many blocks a commit that did without `retired` should try to free: those of a stall go over several.
    pub(crate) fn reclaim_budget(&self, retired: usize) -> usize {
        if self.domain.over_soft_limit() {
            usize::MAX
        } else {
            (4 * SEAL).max(2 * retired)
        }
    }

    /// Forgets the open transaction; hands out the values that only it had.
    pub(crate) fn roll_back(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        let overlay = core::mem::take(&mut writer.overlay);
        for (_, old, new) in overlay.changes(self.root()) {
            if old.child() != new.child() {
                // SAFETY: fresh blocks are seen by nobody but the writer, and each has one parent.
                unsafe { free_fresh_node(&mut writer.blocks, new.child()) };
            }
        }
        let shelf = self.shelf.load(Ordering::Relaxed);
        if shelf != writer.shelf {
            // SAFETY: as above.
            unsafe { free_fresh_shelf(&mut writer.blocks, writer.shelf) };
        }
        writer.shelf = shelf;
        writer.len = self.len();
        writer.retired.clear();
        writer.retired_bytes = 0;
        writer.taken.clear();
        for value in core::mem::take(&mut writer.given) {
            if writer.values.release(self.mem, value) {
                // SAFETY: only the transaction's prefixes had it.
                unsafe {
                    dropped.push(values::take(self.mem, value));
                    values::free::<V>(&mut writer.blocks.arena, value, false);
                }
            }
        }
    }
}

/// Takes the mark off the blocks of a transaction, from this node down.
///
/// # Safety
/// The node is 0 or live, and nobody else reads those with a mark.
unsafe fn unmark_node(mem: Mem, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; blocks below a marked node are live.
    unsafe {
        let n = mem.node(r);
        if !n.is_fresh() {
            return;
        }
        n.unmark();
        for (_, child) in n.children() {
            unmark_node(mem, child);
        }
    }
}

/// As [`unmark_node`], for shelves.
///
/// # Safety
/// The same.
unsafe fn unmark_shelf(mem: Mem, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let s = mem.shelf(r);
        if !s.is_fresh() {
            return;
        }
        s.unmark();
        for &below in s.below() {
            unmark_shelf(mem, below);
        }
    }
}

/// Frees the blocks of a transaction, from this node down.
///
/// # Safety
/// The node is 0 or live, and nobody uses those with a mark again.
unsafe fn free_fresh_node(blocks: &mut Blocks, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; each marked block has one parent, which is marked.
    unsafe {
        let n = blocks.mem.node(r);
        if !n.is_fresh() {
            return;
        }
        for (_, child) in n.children() {
            free_fresh_node(blocks, child);
        }
        blocks.free(Block::node(r, n.cells().len(), n.count()));
    }
}

/// As [`free_fresh_node`], for shelves.
///
/// # Safety
/// The same.
unsafe fn free_fresh_shelf(blocks: &mut Blocks, r: u32) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let s = blocks.mem.shelf(r);
        if !s.is_fresh() {
            return;
        }
        for &below in s.below() {
            free_fresh_shelf(blocks, below);
        }
        blocks.free(Block::shelf(r, s.values().len() + s.below().len()));
    }
}

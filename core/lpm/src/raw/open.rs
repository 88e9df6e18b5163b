//! The open transaction: its changes are in words of its own, and its blocks carry the FRESH mark
//! until they are published.

use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::Ordering;

use super::node::Mem;
use super::table::FibShared;
use super::values;
use super::writer::Writer;
use crate::garbage::SEAL;

impl<V: Eq + Hash> FibShared<V> {
    /// Publishes the open transaction word by word. A lookup that runs meanwhile reads one word, so
    /// it answers as the old or as the new table does.
    pub(crate) fn commit(&self, writer: &mut Writer<V>) {
        let unchanged = writer.taken.is_empty() && writer.given.is_empty();
        if unchanged && writer.retired.is_empty() {
            return;
        }
        let mem = self.mem;
        for (_, _, new) in writer.overlay.changes(mem, self.root()) {
            // SAFETY: fresh blocks are seen by nobody but the writer.
            unsafe { each_fresh_node(mem, new.child(), &mut |r| mem.node(r).unmark()) };
        }
        // SAFETY: as above.
        unsafe {
            each_fresh_root_prefixes(mem, writer.root_prefixes, &mut |r| {
                mem.root_prefixes(r).unmark()
            })
        };
        self.publish(writer, None, |versions, writer| {
            self.publish_pages(versions, writer)
        });
    }

    /// How many blocks a commit of the open transaction should try to free: all, if the table
    /// becomes empty. After a stall, several commits share the work.
    pub(crate) fn reclaim_budget(&self, writer: &Writer<V>) -> usize {
        if self.domain.over_soft_limit() || writer.len == 0 {
            usize::MAX
        } else {
            (4 * SEAL).max(2 * writer.retired.len())
        }
    }

    /// Rolls the open transaction back; hands out the values that only it had.
    pub(crate) fn roll_back(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        let (mem, blocks) = (self.mem, &mut writer.blocks);
        blocks.marks = false;
        let mut overlay = core::mem::take(&mut writer.overlay);
        for (_, old, new) in overlay.changes(mem, self.root()) {
            if old.child() != new.child() {
                // SAFETY: fresh blocks are seen by nobody but the writer, and each has one parent.
                unsafe {
                    each_fresh_node(mem, new.child(), &mut |r| blocks.free(mem.node(r).block(r)));
                }
            }
        }
        for (_, page) in overlay.take() {
            // SAFETY: a block of the transaction, which nobody else knows.
            unsafe { blocks.free_page(self.root(), page) };
        }
        let root_prefixes = self.root_prefixes.load(Ordering::Relaxed);
        if root_prefixes != writer.root_prefixes {
            // SAFETY: as above.
            unsafe {
                each_fresh_root_prefixes(mem, writer.root_prefixes, &mut |r| {
                    blocks.free(mem.root_prefixes(r).block(r))
                });
            }
        }
        writer.root_prefixes = root_prefixes;
        writer.len = self.len();
        writer.retired.clear();
        writer.retired_bytes = 0;
        writer.garbage.release();
        writer.taken.clear();
        while let Some(value) = writer.given.pop() {
            if writer.values.release(self.mem, value) {
                // SAFETY: only prefixes of the transaction had the value.
                dropped.push(unsafe { values::free_new(mem, &mut writer.blocks.arena, value) });
            }
        }
    }
}

/// Calls `f` with each block that a transaction made, from this node down, children first.
///
/// # Safety
/// The node is 0 or live, and nobody else reads nodes with a mark. Each of these has one parent,
/// which has a mark too.
unsafe fn each_fresh_node(mem: Mem, r: u32, f: &mut impl FnMut(u32)) {
    // SAFETY: the caller's promise.
    if r == 0 || unsafe { !mem.node(r).is_fresh() } {
        return;
    }
    // SAFETY: as above; blocks below a live node are live.
    unsafe {
        for (_, child) in mem.node(r).children() {
            each_fresh_node(mem, child, f);
        }
    }
    f(r);
}

/// As [`each_fresh_node`], for root prefixes.
///
/// # Safety
/// The same.
unsafe fn each_fresh_root_prefixes(mem: Mem, r: u32, f: &mut impl FnMut(u32)) {
    // SAFETY: the caller's promise.
    if r == 0 || unsafe { !mem.root_prefixes(r).is_fresh() } {
        return;
    }
    // SAFETY: as above; blocks below a live block of root prefixes are live.
    unsafe {
        for &below in mem.root_prefixes(r).below() {
            each_fresh_root_prefixes(mem, below, f);
        }
    }
    f(r);
}

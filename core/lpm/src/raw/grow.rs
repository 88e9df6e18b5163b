//! Roots that grow with their tables: a table of few prefixes has a root of a few words, so that a
//! process can have many tables.
//!
//! A root that grows is made anew, with all nodes below it, beside the old one. One word, the head,
//! then says where the new root is and how many bits it resolves, and readers that begin
//! afterwards use it. Views of before still look into the old root. So all its words get a mark, a
//! block in the place of a lone prefix that no address matches ([`Lone::is_moved`]). A lookup that
//! meets the mark begins again at the newest root. Lookups that meet none pay next to nothing for
//! this: the mark is looked for only where a lone prefix did not match.
//!
//! The old root, its nodes and the mark are retired, and freed a grace period later. A snapshot
//! reads the root of its version, so a root does not grow while there is one.
//!
//! [`Lone::is_moved`]: super::node::Lone::is_moved

use alloc::vec::Vec;
use core::hash::Hash;

use sapwood_arena::{Area, ArenaFull, Ref};

use super::blocks::Blocks;
use super::build::Entry;
use super::compact::Compaction;
use super::node::{Mem, NODE, ROOT, ROOT_PREFIXES};
use super::root::Root;
use super::table::FibShared;
use super::walk::Walk;
use super::writer::Writer;
use crate::family::Key;
use crate::garbage::Block;
use crate::kept::Numbers;
use sapwood_format::lpm::{LONE_BYTES, Word};

/// Bits of a root that grows: at first, and at last.
pub(crate) const LEAST_BITS: u32 = 6;
pub(crate) const MOST_BITS: u32 = 18;

/// The number of prefixes from which on a root of these bits grows: the next larger root then takes
/// at most 128 bytes a prefix.
pub(super) fn grow_at(bits: u32) -> usize {
    match bits {
        MOST_BITS.. => usize::MAX,
        _ => 1 << (bits + 6 - 4),
    }
}

/// The bits of the root of a table with `len` prefixes.
fn bits_for(len: usize) -> u32 {
    let mut bits = LEAST_BITS;
    while len >= grow_at(bits) {
        bits += 6;
    }
    bits
}

impl Blocks {
    fn root(&mut self, bits: u32) -> Result<u32, ArenaFull> {
        let block = self.arena.alloc_zeroed(8 << bits, ROOT, Area::Nodes);
        block.map(Ref::get)
    }

    /// Frees a root that nobody reads.
    ///
    /// # Safety
    /// It came from [`root`](Self::root) with these bits, and is not used again.
    unsafe fn free_root(&mut self, root: u32, bits: u32) {
        if let Some(root) = Ref::new(root) {
            // SAFETY: the caller's promise.
            unsafe { self.arena.free(root, 8 << bits, ROOT) };
        }
    }
}

impl<V: Eq + Hash> FibShared<V> {
    /// Gives an empty table the root for `len` prefixes, if there is room for it. Nobody has a
    /// handle of the table yet.
    pub(super) fn begin_with(&self, writer: &mut Writer<V>, len: usize) {
        let (bits, old) = (bits_for(len), self.bits());
        if len < writer.grow_at || bits <= old {
            return;
        }
        let Ok(root) = writer.blocks.root(bits) else {
            writer.grow_at = len.saturating_mul(2);
            return;
        };
        let (before, _) = self.root_block();
        self.set_root(root, bits);
        // SAFETY: nobody has a handle of the table, so nobody reads the root.
        unsafe { writer.blocks.free_root(before, old) };
        writer.grow_at = grow_at(bits);
    }

    /// [`grow`](Self::grow), when the table has become so large.
    #[inline]
    pub(crate) fn grow_if_due<K: Key>(&self, writer: &mut Writer<V>) {
        if writer.len >= writer.grow_at {
            self.grow::<K>(writer);
        }
    }

    /// Gives the table the root for its number of prefixes. When there is no room for that, or for
    /// the garbage, the table stays as it is until it is twice as large. While there are snapshots
    /// it stays as it is, too.
    ///
    /// No transaction is open.
    #[cold]
    #[inline(never)]
    pub(super) fn grow<K: Key>(&self, writer: &mut Writer<V>) {
        debug_assert!(self.grows && !writer.blocks.marks);
        // Held until the new root is published: nobody makes a snapshot meanwhile.
        let versions = self.versions.lock();
        if versions.newest_kept().is_some() {
            return;
        }
        let grown = self.grow_now::<K>(writer, &versions);
        drop(versions);
        writer.garbage.release();
        writer.grow_at = match grown {
            Some(()) => grow_at(self.bits()),
            None => writer.len.saturating_mul(2),
        };
    }

    /// The table in a larger root; `None` when there is no room.
    fn grow_now<K: Key>(&self, writer: &mut Writer<V>, _: &Numbers) -> Option<()> {
        let (bits, old_bits) = (bits_for(writer.len), self.bits());
        let (old_root, old_bytes) = self.root_block();
        let kinds = writer.blocks.arena.memory().kinds;
        let bytes = [NODE, ROOT_PREFIXES].map(|kind| kinds[kind.0 as usize].bytes);
        let garbage = bytes[0] + bytes[1] + old_bytes + LONE_BYTES;
        let waiting = writer.garbage.unqueued();
        // It does not wait for room: the table can do without.
        writer.garbage.queue().reserve(garbage + waiting).ok()?;
        let mut entries: Vec<Entry<K>> = Vec::new();
        entries.try_reserve_exact(writer.len).ok()?;
        entries.extend(Walk::within(self.open(writer), K::BITS, K::ZERO, 0));
        let gone = self.all_blocks(writer);

        let root = writer.blocks.root(bits).ok()?;
        let made = writer.blocks.mark_of_a_moved_root().and_then(|mark| {
            // The mark is no part of what is undone when the rest has no room.
            let own = core::mem::take(&mut writer.blocks.made);
            let built = writer.blocks.build(&entries, bits);
            built.map(|built| (mark, built)).inspect_err(|_| {
                writer.blocks.made = own;
                writer.blocks.undo();
            })
        });
        let Ok((mark, built)) = made else {
            // SAFETY: nobody has seen it.
            unsafe { writer.blocks.free_root(root, bits) };
            return None;
        };
        writer.blocks.arena.use_zeros();
        let before = self.root();
        // SAFETY: a new block of zeros of this many words, which are used as atomics only.
        let words = unsafe { core::slice::from_raw_parts(self.mem.root(root), 1 << bits) };
        for (slot, &word) in built.words.iter().enumerate() {
            if word != Word::default() {
                Root(words).set(slot, word);
            }
        }
        // Readers of the old root find the same prefixes in the new blocks: they look only at
        // those that are not longer than their root.
        writer.root_prefixes = built.root_prefixes;
        self.publish_head(built.root_prefixes, writer.len);
        crate::sync::point();
        self.set_root(root, bits);
        for slot in 0..before.len() {
            before.set(slot, Word::default().with_child(mark));
        }
        let arena = &mut writer.blocks.arena;
        let others = [
            Block::new(old_root, ROOT, 8 << old_bits),
            Block::new(mark, NODE, LONE_BYTES),
        ];
        for block in gone.into_iter().chain(others) {
            writer.garbage.retire(arena, block, block.bytes());
        }
        // All nodes are new.
        if writer.compaction != Compaction::Idle {
            writer.compaction = Compaction::Sweeping;
        }
        Some(())
    }

    /// All nodes and blocks of root prefixes.
    fn all_blocks(&self, writer: &Writer<V>) -> Vec<Block> {
        let (mem, root) = (self.mem, self.root());
        let mut all = Vec::new();
        // SAFETY: what the words of the root reach is live, and the writer's lock is held.
        unsafe {
            for slot in 0..root.len() {
                each_node(mem, root.get(slot).child(), &mut all);
            }
            each_root_prefixes(mem, writer.root_prefixes, &mut all);
        }
        all
    }
}

/// # Safety
/// The node is 0 or live.
unsafe fn each_node(mem: Mem, r: u32, all: &mut Vec<Block>) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; blocks below a live node are live.
    unsafe {
        let node = mem.node(r);
        all.push(node.block(r));
        for (_, child) in node.children() {
            each_node(mem, child, all);
        }
    }
}

/// # Safety
/// The block is 0 or live.
unsafe fn each_root_prefixes(mem: Mem, r: u32, all: &mut Vec<Block>) {
    if r == 0 {
        return;
    }
    // SAFETY: the caller's promise; blocks below a live block of root prefixes are live.
    unsafe {
        let block = mem.root_prefixes(r);
        all.push(block.block(r));
        for &below in block.below() {
            each_root_prefixes(mem, below, all);
        }
    }
}

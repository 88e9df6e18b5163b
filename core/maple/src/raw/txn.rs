//! Transactions: many changes that become visible by one store.
//!
//! A transaction changes a tree of its own, which begins as the published one. The nodes that it
//! makes are marked as fresh, and nobody else sees them. So a change copies the inner nodes above
//! it up to the first fresh one, and changes that one in place. Fresh nodes that are unlinked are
//! freed at once. Others are noted, and retired when the transaction ends.

use core::sync::atomic::Ordering;

use sapwood_arena::ArenaFull;

use super::draft::Outcome;
use super::node::{INNER, Inner, LEAF, Leaf, Mem, VALUE};
use super::path::Root;
use super::seen::Published;
use super::space::no_heap;
use super::table::{MapleShared, Writer};
use super::values::Apart;
use crate::garbage::Block;
use sapwood_format::maple::word::Word;

/// A transaction under way.
pub(crate) struct Txn {
    /// The transaction's tree, for its own reads.
    pub(super) published: Published,
    /// The published tree, and its number of entries.
    root: Root,
    len: usize,
    /// Blocks that the transaction unlinks and that readers may see, and their bytes.
    unlinked: Vec<Block>,
    bytes: usize,
    /// Blocks of values that it made, also those that it has unlinked again.
    values: Vec<u32>,
}

impl Txn {
    /// Notes a value that the transaction made. There is room.
    pub(super) fn made(&mut self, value: u32) {
        self.values.push(value);
    }
}

impl<V, W: Word> MapleShared<V, W> {
    /// Begins a transaction. There is none under way.
    pub(crate) fn begin(&self, writer: &mut Writer<V, W>) {
        debug_assert!(writer.txn.is_none(), "one transaction at a time");
        writer.newest = None;
        writer.txn = Some(Txn {
            published: self.published.freeze(),
            root: writer.root,
            len: writer.len,
            unlinked: Vec::new(),
            bytes: 0,
            values: Vec::new(),
        });
    }

    /// Makes room in the lists for the draft, so that the end of the transaction takes nothing from
    /// the process's heap.
    pub(super) fn room_in_txn(&self, writer: &mut Writer<V, W>) -> Result<(), ArenaFull> {
        let gone = writer.gone.len();
        let Some(txn) = &mut writer.txn else {
            return Ok(());
        };
        let full = |refused| no_heap(refused, gone * size_of::<Block>());
        txn.unlinked.try_reserve(gone).map_err(full)?;
        txn.values.try_reserve(2).map_err(full)?;
        let all = txn.unlinked.len() + gone;
        writer.space.room_for_garbage(all)
    }

    /// Makes the draft's nodes part of the transaction's tree.
    ///
    /// # Safety
    /// They are written.
    pub(super) unsafe fn link(&self, writer: &mut Writer<V, W>) {
        let mem = writer.mem();
        let Writer {
            space,
            draft,
            nodes,
            gone,
            root,
            len,
            txn,
            ..
        } = writer;
        let Some(txn) = txn else {
            unreachable!("a transaction is under way")
        };
        let leaves = draft.leaves.len();
        // SAFETY: the caller's promise: the blocks are nodes of these levels, and nobody else knows
        // them. Unlinked blocks are live until they are freed or retired.
        unsafe {
            for (i, &node) in nodes.iter().enumerate() {
                set_fresh::<W>(mem, node, usize::from(i >= leaves), true);
            }
            match draft.outcome {
                Outcome::Same => {}
                Outcome::Empty => *root = Root::EMPTY,
                Outcome::Root { node, height } => {
                    let node = draft.top(nodes, node);
                    *root = Root { node, height };
                }
                Outcome::Cell { level, node } => {
                    let path = &draft.path;
                    let top = draft.top(nodes, node);
                    path.inner(level).set_child(path.index(level), top);
                    path.settle_gaps(level, node.gap);
                }
            }
            for block in gone.drain(..) {
                let (at, kind) = (block.at(), block.kind());
                if kind == LEAF {
                    *len -= Leaf::<W>::at(mem.at(at)).len();
                }
                if kind != VALUE && is_fresh::<W>(mem, at, usize::from(kind == INNER)) {
                    space.free(at, block.bytes(), kind);
                } else {
                    let bytes = space.bytes(block);
                    txn.bytes += bytes;
                    space.garbage.pledge(bytes);
                    txn.unlinked.push(block);
                }
            }
        }
        let seen = &txn.published;
        seen.base.store(mem.0, Ordering::Relaxed);
        seen.root.store(root.word(), Ordering::Relaxed);
        seen.len.store(*len, Ordering::Relaxed);
    }

    /// Ends a transaction: its tree becomes the published one.
    pub(crate) fn commit(&self, writer: &mut Writer<V, W>, dropped: &mut Vec<V>) {
        let Some(txn) = writer.txn.take() else {
            return;
        };
        let (mem, root) = (writer.mem(), writer.root);
        writer.newest = None;
        writer.space.garbage.redeem();
        if root.node != 0 {
            // SAFETY: the tree is the writer's.
            unsafe { fresh_below::<W>(mem, root.node, root.height, &mut |_, _| {}) };
        }
        if root == txn.root && txn.unlinked.is_empty() {
            return;
        }
        self.publish_root(writer);
        writer.kept = writer.kept && self.versions().snapshots() > 0;
        if writer.kept {
            let mut versions = self.versions().lock();
            versions.publish();
            versions.retire(txn.bytes);
        }
        for block in txn.unlinked {
            if block.kind() == INNER {
                // SAFETY: live until now; retired only below.
                unsafe { Inner::<W>::at(mem.at(block.at())) }.set_replaced();
            }
            writer.space.leave(block);
        }
        self.publish_len(writer);
        writer.space.garbage.release();
        self.tidy(writer, dropped);
    }

    /// Ends a transaction as if it had not begun. Hands out the values that it made.
    pub(crate) fn roll_back(&self, writer: &mut Writer<V, W>, dropped: &mut Vec<V>) {
        let Some(txn) = writer.txn.take() else {
            return;
        };
        let (mem, root) = (writer.mem(), writer.root);
        (writer.root, writer.len) = (txn.root, txn.len);
        writer.newest = None;
        let Writer { space, gone, .. } = writer;
        gone.clear();
        // SAFETY: fresh nodes, and the values that the transaction made, are known to nobody else;
        // each is freed once.
        unsafe {
            if root.node != 0 {
                fresh_below::<W>(mem, root.node, root.height, &mut |node, level| {
                    gone.push(match level {
                        0 => Block::new(node, LEAF, Leaf::<W>::at(mem.at(node)).bytes()),
                        _ => Block::new(node, INNER, Inner::<W>::at(mem.at(node)).bytes()),
                    });
                });
            }
            for block in gone.drain(..) {
                space.free(block.at(), block.bytes(), block.kind());
            }
            for &value in &txn.values {
                dropped.push(Apart::<V>::place(mem.at(value)).read());
                space.free(value, Apart::<V>::BYTES, VALUE);
            }
        }
        space.garbage.redeem();
        space.garbage.release();
    }
}

/// # Safety
/// The node is live, and of this level.
unsafe fn is_fresh<W: Word>(mem: Mem, node: u32, level: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            0 => Leaf::<W>::is_fresh(mem.at(node)),
            _ => Inner::<W>::at(mem.at(node)).is_fresh(),
        }
    }
}

/// # Safety
/// As for [`is_fresh`]; nobody else knows the node.
unsafe fn set_fresh<W: Word>(mem: Mem, node: u32, level: usize, fresh: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            0 => Leaf::<W>::set_fresh(mem.at(node), fresh),
            _ => Inner::<W>::set_fresh(mem.at(node), fresh),
        }
    }
}

/// Takes the marks from all fresh nodes below a node, itself included, and calls `each` with every
/// one, after those below it.
///
/// # Safety
/// The node is live, of this level, and only its writer changes what is below it.
unsafe fn fresh_below<W: Word>(
    mem: Mem,
    node: u32,
    level: usize,
    each: &mut impl FnMut(u32, usize),
) {
    // SAFETY: the caller's promise. Below a node that is not fresh, no node is.
    unsafe {
        if !is_fresh::<W>(mem, node, level) {
            return;
        }
        if level > 0 {
            let inner = Inner::<W>::at(mem.at(node));
            (0..inner.len()).for_each(|i| fresh_below::<W>(mem, inner.child(i), level - 1, each));
        }
        set_fresh::<W>(mem, node, level, false);
        each(node, level);
    }
}

//! The check of every invariant of a shared trie, while no writer is at work.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::trie::{Slot, Trie};
use crate::raw::leaf::Value;
use crate::raw::node::LEAF;
use crate::raw::verify::{self, Walked};
use crate::raw::writers::accounts::is_used;
use crate::raw::writers::lock;
use crate::raw::writers::shard::Counts;
use crate::raw::writers::writer_pool::WriterPool;
use crate::sync::Ordering;

impl<V: ?Sized + Value> Trie<V> {
    /// Walks the whole trie. It waits for changes under way; new writers wait meanwhile.
    pub(super) fn verify_all(&self) -> Result<(), String> {
        let shards = self.all_shards();
        // SAFETY: all shards are held, so there is no writer.
        let view = unsafe { self.view() };
        // SAFETY: as above.
        let root = unsafe { self.word(Slot::Root) };
        if !lock::is_idle(root.load(Ordering::Relaxed)) {
            return Err("the root is locked".into());
        }
        let seen = verify::walk(&view, usize::MAX)?;
        let len = self.len();
        if seen.leaves != len {
            return Err(format!("{} leaves, but len is {len}", seen.leaves));
        }
        let (counts, ..) = WriterPool::sums(&shards);
        check_counts(&seen, &counts)?;
        if let Some(index) = &self.index {
            let mut leaves = Vec::with_capacity(len);
            self.each_leaf(|leaf| leaves.push(leaf));
            // SAFETY: as above; all leaves are alive.
            unsafe { index.verify(self.depot.base(), leaves) }?;
            let taken = index.taken().bytes;
            if taken as isize != counts.index {
                return Err(format!(
                    "the index took {taken} bytes, counted are {}",
                    counts.index
                ));
            }
        }
        let free = self.check_accounts(&shards)?;
        self.check_free(&free)
    }

    /// Calls `each` with all leaves of a trie that nobody changes meanwhile, in no order.
    pub(crate) fn each_leaf(&self, mut each: impl FnMut(u32)) {
        // SAFETY: the caller ensures that nobody writes.
        let view = unsafe { self.view() };
        let mut todo: Vec<u32> = Vec::from_iter((view.root != 0).then_some(view.root));
        while let Some(cell) = todo.pop() {
            if cell & LEAF != 0 {
                each(cell);
            } else {
                view.each_child(cell, |child| todo.push(child));
            }
        }
    }

    /// Checks that no node of the trie lies in a free block.
    fn check_free(&self, free: &[(u32, usize)]) -> Result<(), String> {
        // SAFETY: the caller holds all shards.
        let view = unsafe { self.view() };
        let mut todo: Vec<u32> = Vec::from_iter((view.root != 0).then_some(view.root));
        while let Some(cell) = todo.pop() {
            is_used(free, cell)?;
            view.each_child(cell, |child| todo.push(child));
        }
        Ok(())
    }
}

fn check_counts(seen: &Walked, counts: &Counts) -> Result<(), String> {
    let found = [
        (seen.branches, seen.branch_bytes),
        (seen.clusters, seen.cluster_bytes),
        (seen.leaves, seen.leaf_bytes),
    ];
    for (kind, ((count, bytes), counted)) in found.into_iter().zip(counts.live).enumerate() {
        if (count as isize, bytes as isize) != counted {
            return Err(format!(
                "kind {kind}: the walk found {count} blocks of {bytes} bytes, the accounts say {counted:?}"
            ));
        }
    }
    if counts.waiting.0 < 0 || counts.waiting.1 < 0 {
        return Err(format!("waiting: {:?}", counts.waiting));
    }
    Ok(())
}

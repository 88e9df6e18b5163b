//! Every invariant of a shared trie, checked while no writer is at work.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::commons::Commons;
use super::lock;
use super::pool::POOLED;
use super::shard::{Counts, Held};
use super::trie::{Slot, Trie};
use crate::qp::QpSharedMemory;
use crate::qp::raw::node::LEAF;
use crate::qp::raw::verify::{self, Walked};
use crate::sync::Ordering;

impl<V> Trie<V> {
    /// Where the memory is. Waits for writers that are at work.
    pub(crate) fn memory(&self) -> QpSharedMemory {
        self.memory_beside(size_of::<Self>())
    }

    /// Walks everything; waits for writers that are at work, and holds back those that come.
    pub(crate) fn verify(&self) -> Result<(), String> {
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
        let (counts, ..) = Commons::sums(&shards);
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

    /// Calls `each` with all leaves, in no order; for a trie that nobody changes meanwhile.
    pub(crate) fn each_leaf(&self, mut each: impl FnMut(u32)) {
        // SAFETY: the caller sees to it that nobody writes.
        let view = unsafe { self.view() };
        let mut todo: Vec<u32> = Vec::from_iter((view.root != 0).then_some(view.root));
        while let Some(cell) = todo.pop() {
            if cell & LEAF != 0 {
                each(cell);
            } else if let Some(b) = view.branch(cell, 0) {
                todo.extend((0..b.children()).filter_map(|i| view.child(b, i)));
            }
        }
    }

    /// No node of the trie lies in a free block.
    fn check_free(&self, free: &[(u32, usize)]) -> Result<(), String> {
        // SAFETY: the caller holds all shards.
        let view = unsafe { self.view() };
        let mut todo: Vec<u32> = Vec::from_iter((view.root != 0).then_some(view.root));
        while let Some(cell) = todo.pop() {
            is_used(free, cell)?;
            if cell & LEAF == 0 {
                let b = view
                    .branch(cell, 0)
                    .ok_or_else(|| format!("no branch {cell:#x}"))?;
                todo.extend((0..b.children()).filter_map(|i| view.child(b, i)));
            }
        }
        Ok(())
    }
}

fn check_counts(seen: &Walked, counts: &Counts) -> Result<(), String> {
    let found = [
        (seen.small, seen.small_bytes),
        (seen.big, seen.big_bytes),
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

impl Commons {
    /// Where the memory is, with so many bytes more that are not in the arena. Waits for writers that are at work.
    pub(crate) fn memory_beside(&self, outside: usize) -> QpSharedMemory {
        let shards = self.all_shards();
        let (counts, pooled, overhead) = Self::sums(&shards);
        let sum = |(count, bytes): (isize, isize)| (count.max(0) as usize, bytes.max(0) as usize);
        QpSharedMemory {
            entries: self.len(),
            small_branches: sum(counts.live[0]),
            big_branches: sum(counts.live[1]),
            leaves: sum(counts.live[2]),
            waiting: sum(counts.waiting),
            pooled,
            index: counts.index.max(0) as usize,
            outside: outside + self.outside() + overhead,
            arena: self.arena_memory(),
        }
    }

    /// Checks the accounts of shards that are all held, and that no free block is there twice: the free blocks, in
    /// ascending order, with their units.
    pub(crate) fn check_accounts(&self, shards: &[Held<'_>]) -> Result<Vec<(u32, usize)>, String> {
        let (counts, pooled, _) = Self::sums(shards);
        self.depot.arena(|arena| arena.verify())?;
        let memory = self.arena_memory();
        let borrowed = memory.kinds[usize::from(POOLED.0)].bytes;
        let live: isize = counts.live.iter().map(|(_, bytes)| bytes).sum();
        let used = live + counts.waiting.1 + counts.index + pooled as isize;
        if used != borrowed as isize || memory.live != borrowed {
            return Err(format!(
                "{borrowed} bytes are borrowed of {} live ones, but {counts:?} and {pooled} free are {used}",
                memory.live
            ));
        }
        let mut free: Vec<(u32, usize)> = Vec::new();
        for held in shards {
            free.extend(held.inner.pool.blocks());
        }
        free.sort_unstable();
        if free
            .windows(2)
            .any(|pair| pair[0].0 as usize + pair[0].1 > pair[1].0 as usize)
        {
            return Err("two pools keep the same free block".into());
        }
        Ok(free)
    }
}

/// Whether the node of a cell lies in no free block.
pub(crate) fn is_used(free: &[(u32, usize)], cell: u32) -> Result<(), String> {
    let unit = cell >> 1;
    let before = free.partition_point(|(block, _)| *block <= unit);
    let inside = before > 0 && {
        let (block, units) = free[before - 1];
        ((unit - block) as usize) < units
    };
    match inside {
        true => Err(format!("the node {cell:#x} lies in a free block")),
        false => Ok(()),
    }
}

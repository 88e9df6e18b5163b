//! Reports of the memory of a map with many writers, and checks of its accounts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::block_pool::POOLED;
use super::shard::{Counts, Held};
use super::writer_pool::WriterPool;
use crate::QpSharedMemory;
use sapwood_format::reference_of;

impl WriterPool {
    /// The sums of counts, of pooled bytes and of the pools' own bytes over all shards, which are
    /// held.
    pub(crate) fn sums(shards: &[Held<'_>]) -> (Counts, usize, usize) {
        let mut counts = Counts::default();
        let (mut pooled, mut overhead) = (0, 0);
        for held in shards {
            counts.add(&held.inner.counts);
            pooled += held.inner.pool.bytes();
            overhead += held.inner.pool.overhead();
        }
        (counts, pooled, overhead)
    }

    /// A report of the memory, with `outside` more bytes that are not in the arena. It waits for
    /// changes under way.
    pub(crate) fn memory_beside(&self, outside: usize) -> QpSharedMemory {
        let shards = self.all_shards();
        let (counts, pooled, overhead) = Self::sums(&shards);
        let sum = |(count, bytes): (isize, isize)| (count.max(0) as usize, bytes.max(0) as usize);
        QpSharedMemory {
            entries: self.len(),
            branches: sum(counts.live[0]),
            clusters: sum(counts.live[1]),
            leaves: sum(counts.live[2]),
            waiting: sum(counts.waiting),
            pooled,
            index: counts.index.max(0) as usize,
            outside: outside + self.outside() + overhead,
            arena: self.arena_memory(),
        }
    }

    /// Checks the accounts of all shards, which are held, and that no free block is there twice.
    /// Returns the free blocks in ascending order, with their units.
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

/// Checks that the node of a cell lies in no free block.
pub(crate) fn is_used(free: &[(u32, usize)], cell: u32) -> Result<(), String> {
    let unit = reference_of(cell);
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

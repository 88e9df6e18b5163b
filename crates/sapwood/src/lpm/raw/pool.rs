//! Free blocks that the writer keeps by size: every change needs blocks of about the sizes that earlier ones left, and
//! taking one from here is a few instructions, where the arena merges and splits.

use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, Kind, Ref};

use super::node::{NODE, POOLED};

/// Blocks of more units than this are not kept: as many as the largest shelf has.
const UNITS: usize = 100;
/// Units that are kept in all.
const MOST: usize = 1 << 13;

/// The kept blocks of both areas.
pub(crate) struct Pool {
    free: [Vec<Vec<u32>>; 2],
    held: usize,
    /// Not in the modes for tests that look at each block by itself.
    on: bool,
}

/// Where blocks of a kind lie.
pub(crate) fn area(kind: Kind) -> Area {
    if kind == NODE {
        Area::Nodes
    } else {
        Area::Leaves
    }
}

impl Pool {
    pub(crate) fn new(arena: &Arena) -> Self {
        Pool {
            free: Default::default(),
            held: 0,
            on: arena.splits_runs(),
        }
    }

    /// A kept block of this size, counted as live.
    #[inline]
    pub(crate) fn take(&mut self, arena: &mut Arena, bytes: usize, kind: Kind) -> Option<u32> {
        let units = bytes.div_ceil(8);
        let block = self.free[area(kind) as usize].get_mut(units)?.pop()?;
        self.held -= units;
        arena.use_lent(bytes, POOLED, kind);
        Some(block)
    }

    /// Whether a block of this size would be kept.
    fn wants(&self, bytes: usize) -> bool {
        self.on && bytes.div_ceil(8) <= UNITS && self.held < MOST
    }

    fn keep(&mut self, r: u32, bytes: usize, kind: Kind) {
        let free = &mut self.free[area(kind) as usize];
        if free.is_empty() {
            free.resize_with(UNITS + 1, Vec::new);
        }
        free[bytes.div_ceil(8)].push(r);
        self.held += bytes.div_ceil(8);
    }

    /// Keeps a live block, or frees it.
    ///
    /// # Safety
    /// As for [`Arena::free`].
    pub(crate) unsafe fn free(&mut self, arena: &mut Arena, r: Ref, bytes: usize, kind: Kind) {
        if self.wants(bytes) {
            arena.lend_live(bytes, kind, POOLED);
            self.keep(r.get(), bytes, kind);
        } else {
            // SAFETY: the caller's promise.
            unsafe { arena.free(r, bytes, kind) };
        }
    }

    /// Keeps a retired block, or frees it.
    ///
    /// # Safety
    /// As for [`Arena::free_retired`].
    #[inline]
    pub(crate) unsafe fn free_retired(
        &mut self,
        arena: &mut Arena,
        r: Ref,
        bytes: usize,
        kind: Kind,
    ) {
        if self.wants(bytes) {
            arena.lend_retired(bytes, POOLED);
            self.keep(r.get(), bytes, kind);
        } else {
            // SAFETY: the caller's promise.
            unsafe { arena.free_retired(r, bytes, kind) };
        }
    }

    /// Gives all blocks back to the arena.
    pub(crate) fn clear(&mut self, arena: &mut Arena) {
        for (units, list) in self
            .free
            .iter_mut()
            .flat_map(|area| area.iter_mut().enumerate())
        {
            for r in list.drain(..) {
                if let Some(r) = Ref::new(r) {
                    // SAFETY: kept blocks were lent, and nobody uses them.
                    unsafe { arena.give_back(r, units * 8, POOLED) };
                }
            }
        }
        self.held = 0;
    }

    /// Bytes outside the arena.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.free.iter().flatten();
        lists
            .map(|list| size_of::<Vec<u32>>() + list.capacity() * 4)
            .sum()
    }
}

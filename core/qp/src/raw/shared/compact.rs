//! Compaction beside writers. Each step copies a bounded number of branches and clusters into other
//! memory in key order, and the memory that they leave is swept. Leaves do not move, because
//! readers may hold references to values.
//!
//! The other memory lies above all memory in use, so the memory that nodes leave becomes one piece.
//! If earlier compactions left enough free memory, nodes move there instead, so that the map does
//! not take more address space each time.

use alloc::vec::Vec;
use std::collections::HashSet;

use sapwood_arena::{Area, FEW_BLOCKS, PAGE, STEP_MOST};

use super::swap::Tried;
use super::trie::{Slot, Trie};
use crate::raw::cursor::Cursor;
use crate::raw::leaf::Value;
use crate::raw::node::{CLUSTER, LEAF};
use crate::raw::parts;
use crate::raw::tree::{block_of, branch_cell, ref_of};
use crate::raw::writers::block_pool::{ALL, Depot};
use crate::raw::writers::lock::{self, LockContention};
use crate::raw::writers::ops::Lack;
use crate::raw::writers::shard::Held;
use crate::sync;

/// The number of ends of paths that a step reads for each node that it may move. Ends whose
/// branches were moved already count only here.
const LOOKS: usize = 8;
/// Units of 8 bytes that a step sweeps for each branch that it might have moved.
const SWEEP: usize = 64;
/// The most units that a step sweeps. It may give back as much again of what removed leaves left.
const SWEEP_MOST: usize = STEP_MOST / 2 / 8;

/// The state of a compaction.
#[derive(Default)]
pub(crate) enum Compaction {
    /// No compaction is under way; the next step begins one.
    #[default]
    Idle,
    /// Branches are being moved; those on the paths of keys before this one were moved.
    Moving(Vec<u8>),
    /// All branches were moved, and the memory that they left is being freed. This number of pages
    /// is still to be swept.
    Sweeping(usize),
}

/// The nodes that are still to be moved.
enum Left {
    /// Nodes below the limit that the depot knows.
    Below,
    /// All nodes but these, which this step has made or earlier steps have passed.
    AllBut(HashSet<u32>),
}

impl Left {
    fn has(&self, depot: &Depot, cell: u32) -> bool {
        match self {
            Left::Below => depot.is_vacated(ref_of(cell)),
            Left::AllBut(moved) => !moved.contains(&cell),
        }
    }

    fn made(&mut self, cell: u32) {
        if let Left::AllBut(moved) = self {
            moved.insert(cell);
        }
    }
}

impl<V: ?Sized + Value> Trie<V> {
    /// One step: moves up to `budget` branches, or sweeps; returns whether there is more to do.
    ///
    /// # Safety
    /// This thread holds a guard of the domain.
    pub(super) unsafe fn step(
        &self,
        budget: usize,
        values: &mut Vec<V::Held>,
    ) -> Result<bool, Lack> {
        // Another thread's step may wait for this thread while it holds the state.
        self.check_not_stopped_here();
        let mut state = sync::lock(&self.compaction);
        if let Compaction::Idle = *state {
            if !self.begin_compaction() {
                return Ok(false);
            }
            *state = Compaction::Moving(Vec::new());
        }
        if let Compaction::Moving(from) = &mut *state {
            let mut held = self.shard();
            let small = |yes| self.depot.arena(|arena| arena.use_small_pages(yes));
            small(budget < FEW_BLOCKS);
            // SAFETY: the caller's promise.
            let next = unsafe { self.move_branches(&mut held, from, budget) };
            small(false);
            self.settle::<V>(&mut held.inner, LockContention::default(), values);
            match next {
                Ok(Some(next)) => {
                    *from = next;
                    return Ok(true);
                }
                Err(limit @ Lack::Garbage(_)) => return Err(limit),
                Ok(None) | Err(Lack::Memory(_)) => {}
            }
            // All branches were moved, or there is no memory to move more. The memory that they
            // left is swept next.
            let pages = self.depot.arena(|arena| arena.high().div_ceil(PAGE));
            *state = Compaction::Sweeping(pages);
            return next.map(|_| true);
        }
        let units = budget.saturating_mul(SWEEP).clamp(PAGE / 8, SWEEP_MOST);
        let (step, pages) = self.depot.arena(|arena| {
            let step = arena.evacuation_step(Area::Nodes, units as u32);
            // Leaves do not move, but removed leaves may have left whole pages.
            let pages = (units * 8).min(STEP_MOST - step.released) / PAGE;
            arena.release_free(pages);
            (step, pages)
        });
        let left = match &*state {
            Compaction::Sweeping(left) => left.saturating_sub(pages),
            _ => 0,
        };
        *state = Compaction::Sweeping(left);
        if step.done && left == 0 {
            self.depot.vacate_below(0);
            *state = Compaction::Idle;
        }
        Ok(!matches!(*state, Compaction::Idle))
    }

    /// Begins a compaction, unless the arena's mode forbids it: from now on, new branches lie above
    /// all old ones, or in long runs of free memory. Writers wait for a moment.
    fn begin_compaction(&self) -> bool {
        let mut shards = self.all_shards();
        for held in &mut shards {
            held.inner.pool.drain_nodes(&self.depot);
        }
        let limit = self.depot.arena(|arena| {
            let nodes = arena.memory().areas[Area::Nodes as usize];
            let used = nodes.owned - nodes.free;
            if nodes.free > used + used / 4 {
                return Some(ALL);
            }
            let limit = arena.frontier() / 8;
            arena.begin_evacuation(Area::Nodes).then_some(limit as u32)
        });
        if let Some(limit) = limit {
            self.depot.vacate_below(limit);
        }
        limit.is_some()
    }

    /// The nodes that a step which begins with the cursor's leaf is to move.
    fn left(&self, cursor: &Cursor, first: bool) -> Left {
        if !self.depot.is_filling() {
            return Left::Below;
        }
        // Earlier steps have passed the branches of this path that are also above an earlier leaf.
        let mut passed = HashSet::new();
        if !first {
            let last = cursor.stack.iter().rposition(|frame| frame.index > 0);
            let before = cursor.stack.iter().take(last.map_or(0, |at| at + 1));
            passed.extend(before.map(|frame| frame.cell));
        }
        Left::AllBut(passed)
    }

    /// Moves branches on the paths of the keys from `from` on; returns the key to go on from,
    /// unless the last key was reached. It stops early if garbage reaches its limit.
    ///
    /// # Safety
    /// This thread holds a guard.
    unsafe fn move_branches(
        &self,
        held: &mut Held<'_>,
        from: &[u8],
        budget: usize,
    ) -> Result<Option<Vec<u8>>, Lack> {
        let (mut moved, mut looked) = (0, 0);
        let first = from.is_empty();
        let mut from = from.to_vec();
        let mut left = None;
        'anew: loop {
            // SAFETY: the caller's promise; leaves and branches that the cursor finds are not freed
            // meanwhile.
            let view = unsafe { self.view() };
            let mut cursor = Cursor::new();
            cursor.seek_ge(&view, &from, false);
            let left = left.get_or_insert_with(|| self.left(&cursor, first));
            while let Some(entry) = cursor.entry.some() {
                let Some(key) = view.leaf_key(entry.cell()) else {
                    unreachable!("cells of a trie in trusted memory lead to leaves")
                };
                if moved >= budget || looked >= budget.saturating_mul(LOOKS) {
                    return Ok(Some(key.to_vec()));
                }
                looked += 1;
                let mut slot = Slot::Root;
                for depth in 0..=cursor.stack.len() {
                    let cell = cursor.stack.get(depth).map_or(cursor.end(), |f| f.cell);
                    if cell & LEAF == 0 && left.has(&self.depot, cell) {
                        // SAFETY: the node was found in that slot.
                        let new = match unsafe { self.relocate(held, slot, cell) } {
                            Err(Lack::Garbage(_)) if moved > 0 => return Ok(Some(key.to_vec())),
                            done => done?,
                        };
                        let Some(new) = new else {
                            // Another writer has changed this path.
                            from = key.to_vec();
                            continue 'anew;
                        };
                        moved += 1;
                        left.made(new);
                        if let Some(frame) = cursor.stack.get_mut(depth) {
                            frame.cell = new;
                        }
                    }
                    if let Some(frame) = cursor.stack.get(depth) {
                        slot = Slot::Child {
                            branch: frame.cell,
                            index: usize::from(frame.index),
                        };
                    }
                }
                cursor.leave_up(&view);
            }
            return Ok(None);
        }
    }

    /// Copies the branch or cluster `cell` of a slot to new memory, a cluster without dead slots;
    /// `None` if it is not there any more.
    ///
    /// # Safety
    /// This thread holds a guard, under which it found the node in the slot.
    unsafe fn relocate(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        cell: u32,
    ) -> Result<Option<u32>, Lack> {
        let mut contention = LockContention::default();
        // SAFETY: the node is not freed under the guard; nobody else knows the new one until it is
        // stored.
        unsafe {
            let h = lock::plain(self.branch(cell).h);
            let (size, kind) = block_of(cell, h);
            held.inner.reserve(size)?;
            if cell & CLUSTER != 0 {
                let (tried, new) = self.renew(held, (slot, cell), None, &mut contention)?;
                return Ok(matches!(tried, Tried::Done).then_some(new));
            }
            let r = held.inner.alloc(&self.depot, size, kind, Area::Nodes)?;
            let new = branch_cell(r);
            let mut moved = false;
            // The cells of a branch change under its own lock.
            let lock = self.parking.acquire(self.word_of(cell), &mut contention);
            if lock.is_some() {
                moved = self.lock_slot(slot, cell, &mut contention);
                if moved {
                    parts::copy_whole(self.pointer(cell), h, size, self.pointer(new), 0);
                    held.begin();
                    self.store(slot, new);
                    held.end();
                    self.unlock_slot(slot);
                    self.parking.abandon(self.word_of(cell));
                } else {
                    self.parking.release(self.word_of(cell));
                }
            }
            if !moved {
                held.inner.free(&self.depot, r, size, kind);
                return Ok(None);
            }
            self.retire_node(&mut held.inner, cell);
            Ok(Some(new))
        }
    }
}

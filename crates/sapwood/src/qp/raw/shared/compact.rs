//! Compaction beside writers: branches are copied into other memory in key order, in clusters, a bounded number at a time, and
//! the memory that they leave is swept. Leaves stay where they are, as readers may hold references to values.
//!
//! The other memory lies above all that is in use, and what is left becomes one piece; or, when earlier compactions left enough
//! that is free, it is that: else the map would take more address space each time.

use alloc::vec;
use alloc::vec::Vec;
use std::collections::HashSet;

use sapwood_arena::{Area, ArenaFull};

use super::trie::{Slot, Trie};
use crate::qp::raw::cursor::Cursor;
use crate::qp::raw::mem::byte_of;
use crate::qp::raw::node::{self, Branch, LEAF};
use crate::qp::raw::parts;
use crate::qp::raw::tree::{branch_cell, kind_of, ref_of};
use crate::qp::raw::writers::block_pool::{ALL, Depot};
use crate::qp::raw::writers::lock::{self, LockContention};
use crate::qp::raw::writers::shard::Held;
use crate::sync;

/// Leaves that are looked at for each branch that may be moved: most leaves hang in a branch that was moved already.
const LOOKS: usize = 8;
/// Bytes of branches that are laid side by side: two cache lines, which processors often fetch together.
const CLUSTER: usize = 128;
/// Bytes of a page, as the arena gives them back.
const PAGE: usize = 4096;
/// Units of 8 bytes that are swept for each branch that might have been moved.
const SWEEP: usize = 64;

/// How far a compaction has come.
#[derive(Default)]
pub(crate) enum Compaction {
    /// The next step begins one.
    #[default]
    Idle,
    /// Branches on the ways to keys before this one were moved.
    Moving(Vec<u8>),
    /// All were moved; what they left is given back. So many pages are still to be looked at.
    Sweeping(usize),
}

/// Which branches are to be moved yet.
enum Left {
    /// Those below the limit that the depot knows.
    Below,
    /// All but these, which a step has made or an earlier one has passed.
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

impl<V> Trie<V> {
    /// One step: moves up to `budget` branches, or sweeps. Whether there is more to do.
    ///
    /// # Safety
    /// This thread holds a guard of the domain.
    pub(super) unsafe fn step(
        &self,
        budget: usize,
        values: &mut Vec<V>,
    ) -> Result<bool, ArenaFull> {
        let mut state = sync::lock(&self.compaction);
        if let Compaction::Idle = *state {
            if !self.begin_compaction() {
                return Ok(false);
            }
            *state = Compaction::Moving(Vec::new());
        }
        if let Compaction::Moving(from) = &mut *state {
            let mut held = self.shard();
            // SAFETY: the caller's promise.
            let next = unsafe { self.move_branches(&mut held, from, budget) };
            self.settle(&mut held.inner, LockContention::default(), values);
            if let Ok(Some(next)) = next {
                *from = next;
                return Ok(true);
            }
            // Without room for more, what was moved so far has left some.
            let pages = self.depot.arena(|arena| arena.frontier() / PAGE);
            *state = Compaction::Sweeping(pages);
            return next.map(|_| true);
        }
        let units = budget.saturating_mul(SWEEP).clamp(PAGE / 8, 1 << 24);
        let step = self.depot.arena(|arena| {
            let step = arena.evacuation_step(Area::Nodes, units as u32);
            // Leaves do not move, but what many of them have left is whole pages.
            arena.release_free(units * 8 / PAGE);
            step
        });
        let left = match &*state {
            Compaction::Sweeping(left) => left.saturating_sub(units * 8 / PAGE),
            _ => 0,
        };
        *state = Compaction::Sweeping(left);
        if step.done && left == 0 {
            self.depot.vacate_below(0);
            *state = Compaction::Idle;
        }
        Ok(!matches!(*state, Compaction::Idle))
    }

    /// From now on new branches lie above all old ones, or in what is free in long runs. Writers wait for a moment.
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

    /// What is to be moved, by a step that begins with the cursor's leaf.
    fn left(&self, cursor: &Cursor, first: bool) -> Left {
        if !self.depot.is_filling() {
            return Left::Below;
        }
        // An earlier step has passed those below which there is a leaf before this one.
        let mut passed = HashSet::new();
        if !first {
            let last = cursor.stack.iter().rposition(|frame| frame.index > 0);
            let before = cursor.stack.iter().take(last.map_or(0, |at| at + 1));
            passed.extend(before.map(|frame| frame.cell));
        }
        Left::AllBut(passed)
    }

    /// Moves branches on the ways to the keys from `from` on. The key to go on from, unless that was the last.
    ///
    /// # Safety
    /// This thread holds a guard.
    unsafe fn move_branches(
        &self,
        held: &mut Held<'_>,
        from: &[u8],
        budget: usize,
    ) -> Result<Option<Vec<u8>>, ArenaFull> {
        let (mut moved, mut looked) = (0, 0);
        let first = from.is_empty();
        let mut from = from.to_vec();
        let mut left = None;
        'anew: loop {
            // SAFETY: the caller's promise; leaves and branches that the cursor meets are not freed meanwhile.
            let view = unsafe { self.view() };
            let mut cursor = Cursor::new();
            cursor.seek_ge(&view, &from, false);
            let left = left.get_or_insert_with(|| self.left(&cursor, first));
            while cursor.leaf != 0 {
                let Some(key) = view.key(cursor.leaf) else {
                    unreachable!("cells of a trie in trusted memory lead to leaves")
                };
                if moved >= budget || looked >= budget.saturating_mul(LOOKS) {
                    return Ok(Some(key.to_vec()));
                }
                looked += 1;
                let mut slot = Slot::Root;
                for depth in 0..cursor.stack.len() {
                    let cell = cursor.stack[depth].cell;
                    if left.has(&self.depot, cell) {
                        // SAFETY: the branch was met in that slot.
                        let cluster = unsafe { self.relocate_cluster(held, slot, cell, left) }?;
                        let Some(cluster) = cluster else {
                            // Somebody changed something on this way.
                            from = key.to_vec();
                            continue 'anew;
                        };
                        moved += cluster.len();
                        // Others of the cluster may be on the way, too.
                        for frame in &mut cursor.stack[depth..] {
                            let copy = cluster.iter().find(|(old, _)| *old == frame.cell);
                            frame.cell = copy.map_or(frame.cell, |(_, new)| *new);
                        }
                    }
                    let frame = &cursor.stack[depth];
                    slot = Slot::Child {
                        branch: frame.cell,
                        index: usize::from(frame.index),
                    };
                }
                cursor.next(&view);
            }
            return Ok(None);
        }
    }

    /// Copies the branch `cell` of a slot to new memory, and behind it as many of the branches below it, level by level, as fit two
    /// cache lines: a descent so meets two branches or more in each line that it reads. Returns all that were moved, old cell and
    /// new; `None` when the first is not in the slot any more. Those below that others change meanwhile stay for later.
    ///
    /// # Safety
    /// This thread holds a guard, under which it met the branch in the slot.
    unsafe fn relocate_cluster(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        cell: u32,
        left: &mut Left,
    ) -> Result<Option<Vec<(u32, u32)>>, ArenaFull> {
        // SAFETY: the caller's promise; whatever is met below is alive under the guard as well.
        unsafe {
            let size = |cell| node::block_of(lock::plain(self.branch(cell).h));
            let Some(top) = self.relocate(held, slot, cell, self.is_lowest(cell))? else {
                return Ok(None);
            };
            // Up to the end of the two lines that it lies in.
            let mut bytes = byte_of(top) % CLUSTER + size(cell);
            left.made(top);
            let mut moved = vec![(cell, top)];
            let mut at = 0;
            while let Some(&(_, branch)) = moved.get(at) {
                let b = self.branch(branch);
                for index in 0..b.children() {
                    let child = b.cell(index);
                    if child & LEAF != 0 || !left.has(&self.depot, child) {
                        continue;
                    }
                    let size = size(child);
                    let slot = Slot::Child { branch, index };
                    if bytes + size > CLUSTER {
                        continue;
                    }
                    if let Some(new) = self.relocate(held, slot, child, false)? {
                        bytes += size;
                        left.made(new);
                        moved.push((child, new));
                    }
                }
                at += 1;
            }
            Ok(Some(moved))
        }
    }

    /// Whether there is no branch below a branch.
    ///
    /// # Safety
    /// The branch is not freed meanwhile.
    unsafe fn is_lowest(&self, cell: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let b = self.branch(cell);
            (0..b.children()).all(|index| b.cell(index) & LEAF != 0)
        }
    }

    /// Copies the branch `cell` of a slot to new memory; `None` when it is not there any more.
    ///
    /// # Safety
    /// This thread holds a guard, under which it met the branch in the slot.
    unsafe fn relocate(
        &self,
        held: &mut Held<'_>,
        slot: Slot,
        cell: u32,
        fill: bool,
    ) -> Result<Option<u32>, ArenaFull> {
        let mut met = LockContention::default();
        // SAFETY: the branch is not freed under the guard; the new one is ours until it is stored.
        unsafe {
            let b = self.branch(cell);
            let b = Branch {
                p: b.p,
                h: lock::plain(b.h),
            };
            let (size, kind) = (node::block_of(b.h), kind_of(b.h));
            let r = held.inner.alloc_in_line(&self.depot, size, kind, fill)?;
            let new = branch_cell(r);
            let moved = self.parking.acquire(self.word_of(cell), &mut met).is_some() && {
                parts::copy_whole(b, self.pointer(new), 0);
                let taken = self.lock_slot(slot, cell, &mut met);
                if taken {
                    held.begin();
                    self.store(slot, new);
                    held.end();
                    self.unlock_slot(slot);
                    self.parking.abandon(self.word_of(cell));
                } else {
                    self.parking.release(self.word_of(cell));
                }
                taken
            };
            if !moved {
                held.inner.free(&self.depot, r, size, kind);
                return Ok(None);
            }
            self.retire_node(&mut held.inner, cell);
            Ok(Some(new))
        }
    }
}

//! The parts of all changes of a shared trie: blocks that nobody else knows yet, and the one store
//! that publishes them under locks.

use sapwood_arena::{Area, ArenaFull, Kind};
use smallvec::SmallVec;

use super::trie::{Slot, Trie};
use crate::raw::leaf::Value;
use crate::raw::node::{Branch, Cluster};
use crate::raw::slots::{self, Slots};
use crate::raw::tree::{BRANCH_KIND, CLUSTER_KIND, branch_cell, cluster_cell, ref_of};
use crate::raw::writers::lock::{self, LockContention};
use crate::raw::writers::shard::Held;
use crate::sync;
use sapwood_format::branch;
use sapwood_format::cluster::{self, capacity_for};

/// The result of one attempt to change the trie.
pub(super) enum Tried {
    Done,
    /// The path has changed, or there is room now: the change begins anew.
    Again,
    Full,
    NoMemory(ArenaFull),
}

/// A leaf to be linked or unlinked, and the hash of its key.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) leaf: u32,
    pub(super) hash: u64,
}

/// The effect of a change on the entries: it adds a leaf, removes one, or neither.
#[derive(Clone, Copy)]
pub(super) enum Counts {
    More(New),
    Less(New),
    Same,
}

/// Blocks that nobody else knows yet.
#[derive(Default)]
pub(super) struct Blocks(SmallVec<[(u32, usize, Kind); 3]>);

impl<V: ?Sized + Value> Trie<V> {
    /// A branch without the state of its lock.
    ///
    /// # Safety
    /// The branch is not freed.
    pub(super) unsafe fn plain_branch(&self, cell: u32) -> Branch {
        // SAFETY: the caller's promise.
        let b = unsafe { self.branch(cell) };
        Branch {
            p: b.p,
            h: lock::plain(b.h),
        }
    }

    /// The lock word of a branch.
    ///
    /// # Safety
    /// The branch is not freed.
    pub(crate) unsafe fn word_of(&self, cell: u32) -> &crate::sync::AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe {
            self.word(Slot::Child {
                branch: cell,
                index: 0,
            })
        }
    }

    /// # Safety
    /// The cluster is not freed.
    pub(super) unsafe fn cluster(&self, cell: u32) -> Cluster {
        // SAFETY: the caller's promise.
        unsafe { Cluster::at(self.pointer(cell)) }
    }

    /// Allocates a block for a branch, or for a cluster with this number of slots.
    pub(super) fn block_for(
        &self,
        held: &mut Held<'_>,
        blocks: &mut Blocks,
        bytes: usize,
        kind: Kind,
    ) -> Result<u32, ArenaFull> {
        let alloc = held.inner.alloc(&self.depot, bytes, kind, Area::Nodes);
        match alloc {
            Ok(r) => {
                let cell = match kind == CLUSTER_KIND {
                    true => cluster_cell(r),
                    false => branch_cell(r),
                };
                blocks.0.push((cell, bytes, kind));
                Ok(cell)
            }
            Err(full) => {
                self.give_up(held, blocks);
                Err(full)
            }
        }
    }

    /// Allocates a block for the cluster of this number of leaves. One leaf needs none; the cell is
    /// 0 then.
    pub(super) fn block_for_leaves(
        &self,
        held: &mut Held<'_>,
        blocks: &mut Blocks,
        leaves: usize,
    ) -> Result<u32, ArenaFull> {
        match leaves {
            1 => Ok(0),
            _ => {
                let bytes = cluster::block(capacity_for(leaves));
                self.block_for(held, blocks, bytes, CLUSTER_KIND)
            }
        }
    }

    /// Allocates a block for a branch of this number of labels.
    pub(super) fn block_for_labels(
        &self,
        held: &mut Held<'_>,
        blocks: &mut Blocks,
        labels: usize,
    ) -> Result<u32, ArenaFull> {
        let bytes = branch::block_of(branch::header(0, labels));
        self.block_for(held, blocks, bytes, BRANCH_KIND)
    }

    /// Frees blocks that were not linked.
    pub(super) fn give_up(&self, held: &mut Held<'_>, blocks: &mut Blocks) {
        for (cell, bytes, kind) in blocks.0.drain(..) {
            // SAFETY: nobody else knows the blocks.
            unsafe { held.inner.free(&self.depot, ref_of(cell), bytes, kind) };
        }
    }

    /// Writes leaves `from..to` into the block that was allocated for them; returns the cell to be
    /// linked.
    ///
    /// # Safety
    /// The block is the one of `block_for_leaves`, and nobody else knows it.
    pub(super) unsafe fn write_leaves(
        &self,
        slots: &Slots,
        (from, to): (usize, usize),
        block: u32,
    ) -> u32 {
        if to - from == 1 {
            return slots.entry(from).cell;
        }
        let h = slots.header(from, to, capacity_for(to - from));
        // SAFETY: the caller's promise.
        unsafe { slots.write(from, to, h, self.pointer(block), 0) };
        block
    }

    /// Locks the slot, if it still holds `old`, and replaces `old` by the cell that `fill` makes.
    /// `fill` returns `None` if it finds that something else has changed.
    ///
    /// # Safety
    /// The guard is held. Slots were found under it, so their branches are not freed. Nobody else
    /// knows the blocks.
    pub(super) unsafe fn swap(
        &self,
        held: &mut Held<'_>,
        (slot, old): (Slot, u32),
        counts: Counts,
        mut blocks: Blocks,
        contention: &mut LockContention,
        fill: impl FnOnce() -> Option<u32>,
    ) -> Tried {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.lock_slot(slot, old, contention) {
                self.give_up(held, &mut blocks);
                return Tried::Again;
            }
            let Some(new) = fill() else {
                self.unlock_slot(slot);
                self.give_up(held, &mut blocks);
                contention.locks += 1;
                return Tried::Again;
            };
            if matches!(counts, Counts::More(_)) && !self.reserve_entry() {
                self.unlock_slot(slot);
                self.give_up(held, &mut blocks);
                return Tried::Full;
            }
            self.make_public(held, counts, || self.store(slot, new));
            self.unlock_slot(slot);
        }
        Tried::Done
    }

    /// Locks the slot of a cluster, if it still holds the cluster, and stores a cell in the
    /// cluster, if that holds `old`. The store may be refused: `allows` gets the cluster under the
    /// lock. `None` then.
    ///
    /// # Safety
    /// As for `swap`. The cluster has this leaf, and the new cell is 0 or that of a whole leaf
    /// whose key belongs there.
    pub(super) unsafe fn set_in(
        &self,
        held: &mut Held<'_>,
        (slot, cluster): (Slot, u32),
        (index, old, new): (usize, u32, u32),
        counts: Counts,
        contention: &mut LockContention,
        allows: impl FnOnce(Cluster) -> bool,
    ) -> Option<Tried> {
        // SAFETY: the caller's promise. The cells of a cluster change under the lock of its slot.
        unsafe {
            if !self.lock_slot(slot, cluster, contention) {
                return Some(Tried::Again);
            }
            let c = self.cluster(cluster);
            let tried = if c.cell(index) != old {
                contention.locks += 1;
                Some(Tried::Again)
            } else if !allows(c) {
                None
            } else if matches!(counts, Counts::More(_)) && !self.reserve_entry() {
                Some(Tried::Full)
            } else {
                self.make_public(held, counts, || {
                    sync::point();
                    c.set_cell(index, new);
                });
                Some(Tried::Done)
            };
            self.unlock_slot(slot);
            tried
        }
    }

    /// Writes a cluster anew without dead slots, and without the leaf `gone`. Returns also the cell
    /// that replaces it: that of a leaf if only one is left.
    ///
    /// # Safety
    /// As for `swap`; the cluster has the slot of the leaf.
    pub(super) unsafe fn renew(
        &self,
        held: &mut Held<'_>,
        (slot, cluster): (Slot, u32),
        gone: Option<(usize, New)>,
        contention: &mut LockContention,
    ) -> Result<(Tried, u32), ArenaFull> {
        let mut blocks = Blocks::default();
        // SAFETY: the caller's promise.
        unsafe {
            let c = self.cluster(cluster);
            let less = usize::from(gone.is_some());
            let leaves = c.alive() - less;
            if leaves == 0 {
                // Another writer has removed leaves meanwhile.
                return Ok((Tried::Again, 0));
            }
            let block = self.block_for_leaves(held, &mut blocks, leaves)?;
            let counts = gone.map_or(Counts::Same, |(_, old)| Counts::Less(old));
            let mut cell = 0;
            let tried = self.swap(held, (slot, cluster), counts, blocks, contention, || {
                let is_there = |(index, old): (usize, New)| c.cell(index) == old.leaf;
                if c.alive() != leaves + less || !gone.is_none_or(is_there) {
                    return None;
                }
                cell = match gone {
                    Some((index, _)) if leaves > 1 && leaves + 1 == c.leaves() => {
                        let place = (self.pointer(block), capacity_for(leaves));
                        slots::remove_leaf(c, place, index, 0);
                        block
                    }
                    _ => {
                        let mut slots = Slots::alive(c);
                        if let Some((index, _)) = gone {
                            let at = c.alive_before(index);
                            slots.remove(at, at + 1);
                        }
                        self.write_leaves(&slots, (0, leaves), block)
                    }
                };
                Some(cell)
            });
            if let Tried::Done = tried {
                self.retire_node(&mut held.inner, cluster);
            }
            Ok((tried, cell))
        }
    }

    /// Locks the branch `cell` and replaces it in `slot` by the cell that `fill` makes of it. The
    /// branch is obsolete afterwards. `fill` returns `None` if it finds that a child has changed.
    ///
    /// # Safety
    /// As for `swap`.
    pub(super) unsafe fn swap_branch(
        &self,
        held: &mut Held<'_>,
        (slot, cell): (Slot, u32),
        counts: Counts,
        mut blocks: Blocks,
        contention: &mut LockContention,
        fill: impl FnOnce(Branch) -> Option<u32>,
    ) -> Tried {
        // SAFETY: the caller's promise. The cells of the branch must not change while they are
        // copied, nor afterwards.
        unsafe {
            let word = self.word_of(cell);
            let mut tried = Tried::Again;
            if self.parking.acquire(word, contention).is_some() {
                if let Some(new) = fill(self.plain_branch(cell)) {
                    if self.lock_slot(slot, cell, contention) {
                        if !matches!(counts, Counts::More(_)) || self.reserve_entry() {
                            self.make_public(held, counts, || self.store(slot, new));
                            self.unlock_slot(slot);
                            self.parking.abandon(word);
                            self.retire_node(&mut held.inner, cell);
                            return Tried::Done;
                        }
                        self.unlock_slot(slot);
                        tried = Tried::Full;
                    }
                }
                self.parking.release(word);
            }
            contention.locks += 1;
            self.give_up(held, &mut blocks);
            tried
        }
    }

    /// Makes the store that publishes a change, and updates the index.
    ///
    /// # Safety
    /// The slot is locked.
    #[inline]
    unsafe fn make_public(&self, held: &mut Held<'_>, counts: Counts, store: impl FnOnce()) {
        // SAFETY: the caller's promise.
        unsafe {
            held.begin();
            if let Counts::More(new) = counts {
                self.index_insert(held, new.hash, new.leaf);
            }
            store();
            if let Counts::Less(old) = counts {
                self.index_remove(old.hash, old.leaf);
            }
            held.end();
        }
    }
}

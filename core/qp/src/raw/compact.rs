//! Compaction beside readers, in steps of a few branches and clusters.

use alloc::vec::Vec;

use sapwood_arena::{Area, ArenaFull, PAGE, STEP_MOST};

use super::node::{KIND, is_leaf};
use super::tree::{Cow, Link, Tree};
use crate::raw::leaf::Value;

/// Units of the arena that a step sweeps for each branch that it may move. A branch over text takes
/// a fraction of this, so the sweep does not lag behind.
const SWEEP: u32 = 64;

/// Fewer free bytes than this are not worth an evacuation, for which the frontier rises.
const KEEP: usize = 256 << 10;

/// The number of nodes that a page has at least: a call that may free as many gives back a page.
const NODES_A_PAGE: usize = 32;

/// The pages that a call with this budget of nodes looks at, to give them back.
pub(crate) fn pages_for(budget: usize) -> usize {
    (budget / NODES_A_PAGE).max(STEP_MOST / PAGE)
}

/// The state of an incremental compaction.
#[derive(Clone, Default)]
pub(crate) enum Compaction {
    /// No compaction is under way.
    #[default]
    Idle,
    /// Branches are being moved; those on the paths of keys before this one were moved.
    Moving(Vec<u8>),
    /// All branches were moved; the memory that they left is being swept.
    Sweeping,
}

impl Compaction {
    /// The state after memory was prepared for the compaction.
    pub(crate) fn begun(self) -> Self {
        match self {
            Compaction::Idle => Compaction::Moving(Vec::new()),
            begun => begun,
        }
    }

    /// Moves up to `budget` branches, or sweeps as much memory as they would leave; returns whether
    /// there is more to do.
    pub(crate) fn step<V: ?Sized + Value>(
        &mut self,
        tree: &mut Tree<V>,
        cow: &mut Cow,
        budget: usize,
    ) -> Result<bool, ArenaFull> {
        let from = match self {
            Compaction::Sweeping => {
                let units = SWEEP.saturating_mul(budget.min(1 << 20) as u32);
                if tree.arena.evacuation_step(Area::Nodes, units).done {
                    *self = Compaction::Idle;
                }
                return Ok(!matches!(self, Compaction::Idle));
            }
            Compaction::Idle => {
                // Fresh memory comes from above the frontier. If the last round left enough free
                // memory, this round fills that instead, so that the frontier does not rise with
                // every round. If much free memory was not returned to the system, this round
                // empties its chunks, so that it can be returned.
                let memory = tree.arena.memory();
                let nodes = memory.areas[Area::Nodes as usize];
                let live = nodes.owned - nodes.free;
                let held = nodes.free.saturating_sub(memory.released);
                if nodes.free < live + live / 4 || held > 3 * live + KEEP {
                    tree.arena.begin_evacuation(Area::Nodes);
                }
                Vec::new()
            }
            Compaction::Moving(from) => core::mem::take(from),
        };
        // On an error the step is rolled back, and the next step begins at the same key.
        *self = Compaction::Moving(from.clone());
        *self = match tree.compact_from(cow, &from, budget)? {
            Some(next) => Compaction::Moving(next),
            None => Compaction::Sweeping,
        };
        Ok(true)
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// Copies up to `budget` branches and clusters in depth-first order into fresh memory,
    /// beginning with those on the path of the first key at or after `from`. Returns the key to go
    /// on from, or `None` at the end. Leaves stay, because readers may hold references into them.
    pub(crate) fn compact_from(
        &mut self,
        cow: &mut Cow,
        from: &[u8],
        budget: usize,
    ) -> Result<Option<Vec<u8>>, ArenaFull> {
        let mut cursor = super::cursor::Cursor::new();
        cursor.seek_ge(&self.view(), from, false);
        if !cursor.entry.is_some() {
            return Ok(None);
        }
        // The path to the place where this step goes on. The step before copied its branches, if
        // there was one. They have been published since, so a change of their cells takes copies
        // again.
        let mut link = Link::Root;
        let mut todo: Vec<(Link, u32)> = Vec::new();
        let mut copied = 0;
        for frame in &cursor.stack {
            let index = usize::from(frame.index);
            // SAFETY: the cursor's stack is the path from the root; each link was made changeable
            // before.
            unsafe {
                let branch = self.renew(cow, link, frame.cell)?;
                copied += 1;
                let b = self.branch(branch);
                let rest = (index + 1..b.children()).rev();
                todo.extend(rest.map(|index| (Link::Child { branch, index }, b.cell(index))));
                link = Link::Child { branch, index };
            }
        }
        if !is_leaf(cursor.end()) {
            // SAFETY: as above.
            unsafe { self.renew(cow, link, cursor.end()) }?;
            copied += 1;
        }
        while let Some((link, cell)) = todo.pop() {
            if is_leaf(cell) {
                continue;
            }
            if copied >= budget {
                // The next step begins at the first key below this node.
                let view = self.view();
                let first = view.first_below(cell, 0).and_then(|leaf| view.key(leaf));
                return Ok(first.map(|key| key.to_box().into_vec()));
            }
            // SAFETY: `link` names a branch that was copied, so it may be changed; it holds `cell`.
            unsafe {
                let branch = self.renew(cow, link, cell)?;
                copied += 1;
                if cell & KIND == 0 {
                    let b = self.branch(branch);
                    let all = (0..b.children()).rev();
                    todo.extend(all.map(|index| (Link::Child { branch, index }, b.cell(index))));
                }
            }
        }
        Ok(None)
    }
}

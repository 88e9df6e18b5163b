//! Compaction beside readers: each step copies the nodes below a number of root words in order into
//! fresh memory.

use core::hash::Hash;

use alloc::vec::Vec;

use sapwood_arena::{Area, FEW_BLOCKS};

use super::table::FibShared;
use super::writer::Writer;
use crate::Error;
use crate::garbage::SEAL;

/// Units of the arena that a step sweeps for each root word that it may look at.
const SWEEP: u32 = 256;
/// Root words without nodes that a step passes for each one that it may look at.
const PASSES: usize = 64;

/// The progress of an incremental compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Compaction {
    /// No compaction is under way.
    #[default]
    Idle,
    /// The nodes below the words before this one were moved.
    Moving(usize),
    /// All nodes were moved; the memory that they left is being swept.
    Sweeping,
}

impl<V: Eq + Hash> FibShared<V> {
    /// Moves the nodes below up to `budget` root words, or sweeps as much memory as that would
    /// leave. Returns whether there is more to do.
    pub(crate) fn compact_step(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> Result<bool, Error> {
        writer.blocks.arena.use_small_pages(budget < FEW_BLOCKS);
        let more = self.step(writer, budget, dropped);
        writer.blocks.arena.use_small_pages(false);
        more
    }

    fn step(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> Result<bool, Error> {
        let from = match writer.compaction {
            Compaction::Sweeping => {
                // What the moves left is freed first, so that the sweep finds it.
                let most = budget.max(4 * SEAL);
                if self.reclaim(writer, most, dropped) == most {
                    return Ok(true);
                }
                writer.blocks.clear_pool();
                let units = SWEEP.saturating_mul(budget.min(1 << 20) as u32);
                let arena = &mut writer.blocks.arena;
                if arena.evacuation_step(Area::Nodes, units).done {
                    writer.compaction = Compaction::Idle;
                }
                return Ok(writer.compaction != Compaction::Idle);
            }
            Compaction::Idle => {
                writer.blocks.clear_pool();
                // Fresh memory is taken above all other memory, unless the last round left enough
                // free memory below.
                let nodes = writer.blocks.arena.memory().areas[Area::Nodes as usize];
                if nodes.free < (nodes.owned - nodes.free) / 4 {
                    writer.blocks.arena.begin_evacuation(Area::Nodes);
                }
                0
            }
            Compaction::Moving(from) => from,
        };
        writer.compaction = Compaction::Moving(from);
        let root = self.root();
        let mut left = budget.max(1);
        for slot in from..root.len() {
            let passed = slot - from >= budget.max(1).saturating_mul(PASSES);
            if root.get(slot).child() == 0 && !passed {
                continue;
            }
            if left == 0 || passed {
                writer.compaction = Compaction::Moving(slot);
                return Ok(true);
            }
            left -= 1;
            // On an error the next step tries the same again.
            writer.compaction = Compaction::Moving(slot);
            self.move_nodes(writer, slot, dropped)?;
        }
        writer.compaction = Compaction::Sweeping;
        Ok(true)
    }
}

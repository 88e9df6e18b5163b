//! Slabs: memory that programs cut blocks off when the ring of a size is empty.
//!
//! Programs take slabs in the order of their ring. They report each cut in the ring of retired
//! blocks: a cell of the kind [`CUT`](k::CUT) has the units of the block, or 0 when they took the
//! next slab. So user space knows all blocks without reading the rest of the window.

use std::collections::VecDeque;

use sapwood_format::branch::LARGEST;
use sapwood_format::cluster::{self, FILL_MAX, capacity_for};
use sapwood_format::{KIND, reference_of};

use super::blocks::Blocks;
use super::owner::Plan;
use super::rings::{Damaged, Ring};
use crate::layout::program_map as k;

/// The most insertions that slabs alone have blocks for, whatever sizes the insertions need.
pub(super) const INSERTIONS: usize = 128;
/// The most cells that an insertion puts into the ring of retired blocks: three nodes, five blocks
/// that it cut, and a slab.
pub(super) const RETIRED_MAX: usize = 9;

/// The slabs of a map, as user space knows them.
pub(super) struct Slabs {
    pub(super) ring: Ring,
    /// The number of slabs that a step of service leaves in the ring.
    pub(super) target: u32,
    /// The slabs in the ring, as far as programs have reported: the first unit of each.
    queue: VecDeque<u32>,
    /// The rest of the slab that programs took last: first unit, units.
    open: (u32, u32),
    /// The cells of the ring of retired blocks that were read and not fetched yet.
    seen: usize,
}

/// Whether a cell in the ring of retired blocks reports a cut, and is no retired block.
pub(super) fn is_cut(cell: u32) -> bool {
    cell & KIND == k::CUT
}

/// The most units of the nodes that an insertion makes. It splits a full cluster into two clusters
/// and a branch, and then makes another cluster.
fn nodes_max() -> usize {
    let units = |bytes: usize| k::units(k::class(bytes.div_ceil(8)));
    let cluster = |leaves| units(cluster::block(capacity_for(leaves)));
    let parts = (2..FILL_MAX - 1).map(|left| cluster(left) + cluster(FILL_MAX - left));
    parts.max().unwrap_or(0) + units(LARGEST) + cluster(FILL_MAX)
}

/// The number of slabs of a map.
pub(super) fn wanted(plan: &Plan, ring: usize, window: usize) -> usize {
    let nodes = match plan.parts & k::TRIE {
        0 => 0,
        _ => nodes_max(),
    };
    let each = plan.leaf_units(plan.longest) + nodes;
    let insertions = ring.min(INSERTIONS);
    // The rest of a slab may be too small for the next insertion. One slab is for removals.
    let all = (insertions * each).div_ceil(k::SLAB_UNITS - each) + 1;
    all.min(window / 16 / (k::SLAB_UNITS * 8))
}

impl Slabs {
    pub(super) fn new(ring: Ring, target: u32) -> Slabs {
        Slabs {
            ring,
            target,
            queue: VecDeque::new(),
            open: (0, 0),
            seen: 0,
        }
    }

    /// Records the cuts that programs report. `cells` are all cells of the ring of retired blocks
    /// that were not fetched yet. Returns the number of cuts that are refused.
    pub(super) fn look(&mut self, cells: &[u32], blocks: &mut Blocks) -> u64 {
        let new = cells.get(self.seen..).unwrap_or_default();
        self.seen = cells.len();
        let cuts = new.iter().filter(|cell| is_cut(**cell));
        cuts.map(|cell| u64::from(!self.cut(*cell, blocks))).sum()
    }

    /// Skips this many cells: they report cuts that were recorded by another owner.
    pub(super) fn skip(&mut self, cells: usize) {
        self.seen = cells;
    }

    /// Records that all cells that were read have been fetched.
    pub(super) fn fetched(&mut self) {
        self.seen = 0;
    }

    fn cut(&mut self, cell: u32, blocks: &mut Blocks) -> bool {
        let (at, left) = self.open;
        let units = reference_of(cell);
        if units == 0 {
            // No program has had the rest of the slab before.
            if left > 0 && blocks.wait(at).is_some() {
                blocks.free(at);
            }
            let next = self.queue.pop_front();
            self.open = next.map_or((0, 0), |at| (at, k::SLAB_UNITS as u32));
            return next.is_some();
        }
        let fits = units <= left && k::units(k::class(units as usize)) as u32 == units;
        if !fits || (units < left && !blocks.split(at, units)) {
            return false;
        }
        self.open = (at + units, left - units);
        true
    }

    /// Records a slab that is put into the ring.
    pub(super) fn push(&mut self, at: u32) {
        self.queue.push_back(at);
    }

    /// The rest of the slab that programs cut blocks off: first unit, units.
    pub(super) fn left(&self) -> Option<(u32, u32)> {
        Some(self.open).filter(|(_, left)| *left > 0)
    }

    /// The units that programs can still cut off slabs.
    pub(super) fn units(&self) -> Result<usize, Damaged> {
        Ok(self.ring.offered()? as usize * k::SLAB_UNITS + self.open.1 as usize)
    }
}

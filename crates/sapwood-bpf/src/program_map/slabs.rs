//! Memory that programs cut blocks off by themselves, when a ring has none of the size that they
//! need.
//!
//! Programs take slabs in the order of their ring, and say by the ring of what is retired what they
//! cut: a cell of a kind of its own, with the units of a block, and 0 for the next slab. So this
//! side knows which blocks there are without looking into the window.

use std::collections::VecDeque;

use sapwood_format::branch::LARGEST;
use sapwood_format::cluster::{self, FILL_MAX, capacity_for};
use sapwood_format::{KIND, reference_of};

use super::blocks::Blocks;
use super::owner::Plan;
use super::rings::{Damaged, Ring};
use crate::layout::program_map as k;

/// The insertions that slabs alone have blocks for, whatever sizes these need.
pub(super) const INSERTIONS: usize = 128;
/// The most that an insertion puts into the ring of what is retired: three nodes, five blocks that
/// it cut, and a slab.
pub(super) const RETIRED_MAX: usize = 9;

/// What programs have to cut blocks off.
pub(super) struct Slabs {
    pub(super) ring: Ring,
    /// This many shall be there after a step.
    pub(super) target: u32,
    /// Those that are in the ring, as far as is known here, and what is left of the one that
    /// programs took last: first unit, units.
    queue: VecDeque<u32>,
    open: (u32, u32),
    /// Cells of the ring of what is retired that were looked at and not fetched.
    seen: usize,
}

/// Whether a cell in the ring of what is retired is none, but says what was cut off.
pub(super) fn is_cut(cell: u32) -> bool {
    cell & KIND == k::CUT
}

/// The most units of nodes that an insertion makes: it splits a full cluster, which gives two
/// clusters and a branch, and then makes another cluster.
fn nodes_max() -> usize {
    let units = |bytes: usize| k::units(k::class(bytes.div_ceil(8)));
    let cluster = |leaves| units(cluster::block(capacity_for(leaves)));
    let parts = (2..FILL_MAX - 1).map(|left| cluster(left) + cluster(FILL_MAX - left));
    parts.max().unwrap_or(0) + units(LARGEST) + cluster(FILL_MAX)
}

/// How many slabs a map has.
pub(super) fn wanted(plan: &Plan, ring: usize, window: usize) -> usize {
    let nodes = match plan.parts & k::TRIE {
        0 => 0,
        _ => nodes_max(),
    };
    let each = plan.leaf_units(plan.longest) + nodes;
    let insertions = ring.min(INSERTIONS);
    // What is left of a slab may be too small for the next; one is for removals.
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

    /// Takes note of what programs cut; these cells are all that were retired and not fetched. How
    /// many make no sense.
    pub(super) fn look(&mut self, cells: &[u32], blocks: &mut Blocks) -> u64 {
        let new = cells.get(self.seen..).unwrap_or_default();
        self.seen = cells.len();
        let cuts = new.iter().filter(|cell| is_cut(**cell));
        cuts.map(|cell| u64::from(!self.cut(*cell, blocks))).sum()
    }

    /// This many cells tell of what another owner knew.
    pub(super) fn skip(&mut self, cells: usize) {
        self.seen = cells;
    }

    /// All cells that were looked at have been fetched.
    pub(super) fn fetched(&mut self) {
        self.seen = 0;
    }

    fn cut(&mut self, cell: u32, blocks: &mut Blocks) -> bool {
        let (at, left) = self.open;
        let units = reference_of(cell);
        if units == 0 {
            // Nobody has had what is left.
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

    /// A slab that is put into the ring.
    pub(super) fn push(&mut self, at: u32) {
        self.queue.push_back(at);
    }

    /// What is left of the slab that programs cut off: first unit, units.
    pub(super) fn left(&self) -> Option<(u32, u32)> {
        Some(self.open).filter(|(_, left)| *left > 0)
    }

    /// Units that programs can cut off.
    pub(super) fn units(&self) -> Result<usize, Damaged> {
        Ok(self.ring.offered()? as usize * k::SLAB_UNITS + self.open.1 as usize)
    }
}

//! Slabs: memory that programs cut blocks off when the ring of a size is empty.
//!
//! Each lane has a slab, and takes the next one from their ring. It reports each cut in its ring of
//! retired blocks: a cell of the kind [`CUT`](k::CUT) has the units of the block, or 0 when the
//! lane took a slab, whose reference the next cell has. So user space knows all blocks without
//! reading the rest of the window.

use std::collections::BTreeSet;

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
/// that it cut, and two for a slab.
pub(super) const RETIRED_MAX: usize = 10;

/// The slabs of a map, as user space knows them.
pub(super) struct Slabs {
    pub(super) ring: Ring,
    /// The number of slabs that a step of service leaves in the ring.
    pub(super) target: u32,
    /// The slabs in the ring, as far as programs have reported: the first unit of each.
    there: BTreeSet<u32>,
    /// The slab of each lane.
    lanes: Vec<Open>,
}

/// The slab of a lane, as far as the lane has reported.
#[derive(Clone, Default)]
struct Open {
    /// The rest of it: first unit, units.
    rest: (u32, u32),
    /// The next cell has the reference of the next slab.
    named: bool,
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

/// The number of slabs of a map with this number of lanes.
pub(super) fn wanted(plan: &Plan, ring: usize, window: usize, lanes: usize) -> usize {
    let nodes = match plan.parts & k::TRIE {
        0 => 0,
        _ => nodes_max(),
    };
    let each = plan.leaf_units(plan.longest) + nodes;
    let insertions = ring.min(INSERTIONS);
    // The rest of a slab may be too small for the next insertion, and each lane has one. One slab
    // is for removals.
    let all = (insertions * each).div_ceil(k::SLAB_UNITS - each) + lanes;
    all.min(window / 16 / (k::SLAB_UNITS * 8))
}

impl Slabs {
    pub(super) fn new(ring: Ring, target: u32, lanes: usize) -> Slabs {
        Slabs {
            ring,
            target,
            there: BTreeSet::new(),
            lanes: vec![Open::default(); lanes],
        }
    }

    /// Records the cuts that a lane reports. `cells` are all cells of its ring of retired blocks
    /// that were not fetched yet. Returns the number of cuts that are refused.
    pub(super) fn look(&mut self, lane: usize, cells: &[u32], blocks: &mut Blocks) -> u64 {
        let new = cells.get(self.lanes[lane].seen..).unwrap_or_default();
        self.lanes[lane].seen = cells.len();
        let mut refused = 0;
        for &cell in new {
            let fine = match std::mem::take(&mut self.lanes[lane].named) {
                true => is_cut(cell) && self.open(lane, reference_of(cell)),
                false => !is_cut(cell) || self.cut(lane, reference_of(cell), blocks),
            };
            refused += u64::from(!fine);
        }
        refused
    }

    /// Skips this many cells of a lane: they report cuts that were recorded by another owner.
    pub(super) fn skip(&mut self, lane: usize, cells: usize) {
        self.lanes[lane].seen = cells;
    }

    /// Records that this many of a lane's cells have been fetched.
    pub(super) fn fetched(&mut self, lane: usize, cells: usize) {
        self.lanes[lane].seen = self.lanes[lane].seen.saturating_sub(cells);
    }

    /// Records that a lane has taken a slab.
    fn open(&mut self, lane: usize, at: u32) -> bool {
        let known = self.there.remove(&at);
        self.lanes[lane].rest = match known {
            true => (at, k::SLAB_UNITS as u32),
            false => (0, 0),
        };
        known
    }

    fn cut(&mut self, lane: usize, units: u32, blocks: &mut Blocks) -> bool {
        let (at, left) = self.lanes[lane].rest;
        if units == 0 {
            // No program has had the rest of the slab before.
            if left > 0 && blocks.wait(at).is_some() {
                blocks.free(at);
            }
            self.lanes[lane].rest = (0, 0);
            self.lanes[lane].named = true;
            return true;
        }
        let fits = units <= left && k::units(k::class(units as usize)) as u32 == units;
        if !fits || (units < left && !blocks.split(at, units)) {
            return false;
        }
        self.lanes[lane].rest = (at + units, left - units);
        true
    }

    /// Records a slab that is put into the ring.
    pub(super) fn push(&mut self, at: u32) {
        self.there.insert(at);
    }

    /// The rest of the slab that a lane cuts blocks off: first unit, units.
    pub(super) fn left(&self, lane: usize) -> Option<(u32, u32)> {
        Some(self.lanes[lane].rest).filter(|(_, left)| *left > 0)
    }

    /// The units that programs can still cut off slabs.
    pub(super) fn units(&self) -> Result<usize, Damaged> {
        let rests: usize = self.lanes.iter().map(|lane| lane.rest.1 as usize).sum();
        Ok(self.ring.offered()? as usize * k::SLAB_UNITS + rests)
    }
}

//! Slabs: memory that programs cut blocks off when the ring of a size is empty.
//!
//! Each lane has a slab, and takes the next one from their ring. What is left of the old one comes
//! back as a retired block.

use sapwood_format::branch::LARGEST;
use sapwood_format::cluster::{self, FILL_MAX, capacity_for};

use super::plan::Plan;
use super::rings::{Damaged, Ring};
use crate::layout::program_map as k;

/// The most insertions that slabs alone have blocks for in a map that grows, whatever sizes the
/// insertions need.
const INSERTIONS: usize = 128;

/// The slots of the ring that a slab takes: its reference, its units.
const EACH: u32 = 2;

/// The ring of slabs.
pub(super) struct Slabs {
    pub(super) ring: Ring,
    /// The number of slabs that a step of service leaves in the ring, even if it needs new memory.
    pub(super) target: u32,
    /// The units of a slab: the least, which have room for all blocks of any insertion, and the
    /// most.
    pub(super) units: (u32, u32),
    /// The slabs that insertions leave to removals.
    pub(super) kept: u32,
}

/// The most units of the nodes that an insertion makes. It splits a full cluster into two clusters
/// and a branch, and then makes another cluster.
fn nodes_max() -> usize {
    let units = |bytes: usize| k::units(k::class(bytes.div_ceil(8)));
    let cluster = |leaves| units(cluster::block(capacity_for(leaves)));
    let parts = (2..FILL_MAX - 1).map(|left| cluster(left) + cluster(FILL_MAX - left));
    parts.max().unwrap_or(0) + units(LARGEST) + cluster(FILL_MAX)
}

/// The most units that an insertion takes: a leaf, the nodes of a trie, and a chunk for what it
/// retires.
pub(super) fn each(plan: &Plan) -> usize {
    let nodes = match plan.parts & k::TRIE {
        0 => 0,
        _ => nodes_max(),
    };
    k::units(k::class(plan.leaf_units(plan.longest))) + nodes + k::CHUNK_UNITS
}

/// The slabs of a map that grows, with this number of lanes.
pub(super) fn wanted(plan: &Plan, ring: usize, window: usize, lanes: usize) -> usize {
    let each = each(plan);
    let insertions = ring.min(INSERTIONS);
    // The rest of a slab may be too small for the next insertion, and each lane has one. One slab
    // is for removals.
    let all = (insertions * each).div_ceil(k::SLAB_UNITS - each.min(k::SLAB_UNITS / 2)) + lanes;
    all.min(window / 16 / (k::SLAB_UNITS * 8)).max(1)
}

impl Slabs {
    /// The slabs in the ring: first unit, units.
    pub(super) fn offered(&self) -> Result<Vec<(u32, u32)>, Damaged> {
        let slots = self.ring.all_offered()?;
        Ok(slots
            .chunks_exact(2)
            .map(|slab| (slab[0], slab[1]))
            .collect())
    }

    /// The number of slabs in the ring.
    pub(super) fn there(&self) -> Result<u32, Damaged> {
        Ok(self.ring.offered()? / EACH)
    }

    /// The number of slabs that the ring has room for.
    pub(super) fn room(&self) -> Result<u32, Damaged> {
        Ok((self.ring.capacity() - self.ring.offered()?) / EACH)
    }

    pub(super) fn put(&mut self, (at, units): (u32, u32)) {
        self.ring.put(&[at, units]);
    }

    /// Tells programs how many slabs insertions leave to removals.
    pub(super) fn keep(&self) {
        self.ring.keep(self.kept * EACH);
    }
}

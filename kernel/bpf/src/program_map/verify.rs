//! The checks of every invariant of a map that programs write. No program may write meanwhile. The
//! window may hold anything.

use std::collections::{BTreeMap, BTreeSet};

use sapwood_checked::Trouble;
use sapwood_checked::parts::{Census, Index, Node, verify};
use sapwood_format::{CLUSTER, KIND, LEAF, reference_of};

use super::ProgramMapShape;
use super::owner::{Owner, lane_at};
use super::rings::Damaged;
use crate::layout::program_map as k;

/// The findings of a walk so far.
#[derive(Default)]
pub(super) struct Found {
    /// The blocks of nodes: first unit, units.
    pub(super) blocks: BTreeMap<u32, u32>,
    /// Whether the walk finds the blocks for a new owner, which knows none yet.
    pub(super) new: bool,
    pub(super) branch_units: usize,
    pub(super) cluster_units: usize,
    pub(super) leaf_units: usize,
}

impl From<Damaged> for String {
    fn from(Damaged: Damaged) -> String {
        "a ring's count is impossible".into()
    }
}

/// What is wrong, as a part of a message.
pub(super) fn text(trouble: Trouble) -> String {
    match trouble {
        Trouble::Damaged(why, at) => format!("byte {at}: {why}"),
        Trouble::Changed => "the map was changed meanwhile".into(),
        trouble => trouble.to_string(),
    }
}

impl Owner {
    /// Checks the trie, the index, the counts, the rings and the blocks.
    pub(super) fn verify(&mut self) -> Result<ProgramMapShape, String> {
        self.look()?;
        self.blocks.verify()?;
        let before = self.writers();
        if before.iter().any(|(writer, _)| *writer != 0) || self.u32(k::ROOT_LOCK) != 0 {
            return Err("a program is at work".into());
        }
        let mut found = Found::default();
        let shape = self.check_map(&mut found)?;
        self.check_blocks(found.blocks.into_keys().collect())?;
        match before == self.writers() {
            true => Ok(shape),
            false => Err("a program has changed the map meanwhile".into()),
        }
    }

    /// The writer and the sequence number of each lane.
    fn writers(&self) -> Vec<(u32, u64)> {
        let lanes = (0..self.lanes()).map(lane_at);
        lanes
            .map(|at| (self.u32(at), self.u64(at + k::LANE_SEQUENCE)))
            .collect()
    }

    /// Walks the trie and the index, and checks the counts.
    pub(super) fn check_map(&self, found: &mut Found) -> Result<ProgramMapShape, String> {
        let nodes = self.nodes();
        let trie = self.plan.parts & k::TRIE != 0;
        if !trie && nodes.root() != 0 {
            return Err("a map without trie has a root".into());
        }
        let index = (self.table).map(|_| Index::with_secrets(&nodes, self.secrets));
        if let Some(index) = &index {
            if index.tables().map_err(text)? != Vec::from_iter(self.table) {
                return Err("the index's table is not the one that was made".into());
            }
        }
        let note = |node, block| self.note(node, block, found);
        let census = verify(&nodes, trie, index, true, note).map_err(text)?;
        self.check_counts(found, &census)?;
        Ok(ProgramMapShape {
            entries: census.entries,
            branches: census.branches,
            clusters: census.clusters,
            depth: census.depth,
            displaced: census.displaced,
            spilled: census.spilled,
            refused: self.refused,
        })
    }

    /// Records the block of a node. The node must fill a block that programs have.
    fn note(
        &self,
        node: Node,
        (from, to): (usize, usize),
        found: &mut Found,
    ) -> Result<(), &'static str> {
        let (at, units) = ((from / 8) as u32, (to - from) / 8);
        let class = k::class(units);
        let wanted = k::units(class);
        match node {
            // The table lies before all blocks.
            Node::Table => return Ok(()),
            Node::Branch => found.branch_units += wanted,
            Node::Cluster => found.cluster_units += wanted,
            Node::Leaf if units > self.plan.leaf_units(self.plan.longest) => {
                return Err("the key is too long");
            }
            Node::Leaf => found.leaf_units += wanted,
        }
        if !found.new && self.blocks.given(at) != Some(wanted as u32) {
            return Err("the node does not fill a block");
        }
        match found.blocks.insert(at, wanted as u32) {
            None => Ok(()),
            Some(_) => Err("the node occurs twice"),
        }
    }

    /// Records the block of a retired node.
    pub(super) fn given_up(&self, cell: u32, found: &mut Found) -> Result<(), String> {
        let nodes = self.nodes();
        let (node, block) = match cell & KIND {
            LEAF => (Node::Leaf, nodes.leaf(cell).map_err(text)?.block()),
            CLUSTER => (Node::Cluster, nodes.cluster(cell).map_err(text)?.block()),
            _ => (Node::Branch, nodes.branch(cell, 0).map_err(text)?.block()),
        };
        Ok(self.note(node, block, found)?)
    }

    fn check_counts(&self, found: &Found, census: &Census) -> Result<(), String> {
        let (branches, clusters) = (found.branch_units, found.cluster_units);
        let lanes = |what| self.count(what) as usize;
        for (what, said, count) in [
            ("entries", self.entries() as usize, census.entries),
            ("branches", lanes(k::LANE_BRANCHES), census.branches),
            ("units of branches", lanes(k::LANE_BRANCH_UNITS), branches),
            ("clusters", lanes(k::LANE_CLUSTERS), census.clusters),
            ("units of clusters", lanes(k::LANE_CLUSTER_UNITS), clusters),
            (
                "units of leaves",
                lanes(k::LANE_LEAF_UNITS),
                found.leaf_units,
            ),
        ] {
            if said != count {
                return Err(format!("{count} {what}, programs counted {said}"));
            }
        }
        match census.entries <= self.plan.max_entries {
            true => Ok(()),
            false => Err("more than max_entries".into()),
        }
    }

    /// The blocks and slabs that the rings and stocks have for programs: first unit, units.
    pub(super) fn offered(&self) -> Result<Vec<(u32, u32)>, Damaged> {
        let rings = self.supplies.iter().enumerate();
        let rings = rings.map(|(class, supply)| (&supply.ring, k::units(class)));
        let mut all = self.stocks()?;
        for (ring, units) in rings.chain([(&self.slabs.ring, k::SLAB_UNITS)]) {
            all.extend(ring.all_offered()?.into_iter().map(|at| (at, units as u32)));
        }
        Ok(all)
    }

    /// Checks that each block that programs have is in the map, in a ring, or retired.
    fn check_blocks(&self, mut held: BTreeSet<u32>) -> Result<(), String> {
        for (at, units) in self.offered()? {
            if self.blocks.given(at) != Some(units) || !held.insert(at) {
                return Err(format!("a ring has block {at} of {units} units"));
            }
        }
        for lane in 0..self.lanes() {
            let (at, left) = self.slabs.left(lane).unwrap_or_default();
            let place = lane_at(lane) + k::LANE_SLAB;
            let said = (self.u32(place), self.u32(place + 4));
            if said.1 != left || (left > 0 && said.0 != at) {
                return Err(format!(
                    "{left} units of a slab are left at {at}, programs say {said:?}"
                ));
            }
            if left > 0 && (self.blocks.given(at) != Some(left) || !held.insert(at)) {
                return Err(format!("the rest of a slab, at {at}, is elsewhere, too"));
            }
        }
        for cell in self.waiting()? {
            let at = reference_of(cell);
            if self.blocks.given(at).is_none() || !held.insert(at) {
                return Err(format!(
                    "programs retired {cell:#x}, which is no block of theirs"
                ));
            }
        }
        let lost = self.blocks.all_given().find(|(at, _)| !held.contains(at));
        match lost {
            None => Ok(()),
            Some((at, units)) => Err(format!("block {at} of {units} units is lost")),
        }
    }
}

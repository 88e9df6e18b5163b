//! The checks of every invariant of a map that programs write. No program may write meanwhile. The
//! window may hold anything.

use sapwood_checked::Trouble;
use sapwood_checked::parts::{Census, Index, Node, verify};

use super::ProgramMapShape;
use super::blocks::Bits;
use super::owner::{Owner, lane_at};
use super::rings::Damaged;
use crate::layout::program_map as k;

/// The findings of a walk so far.
#[derive(Default)]
pub(super) struct Found {
    /// The units of nodes.
    pub(super) held: Bits,
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
        self.blocks.verify()?;
        let before = self.writers();
        if before.iter().any(|(writer, _)| *writer != 0) || self.u32(k::ROOT_LOCK) != 0 {
            return Err("a program is at work".into());
        }
        let mut found = Found::default();
        let shape = self.check_map(&mut found)?;
        self.check_blocks(found.held)?;
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
        if !found.new && !self.blocks.is_given(at, wanted as u32) {
            return Err("programs do not have the node's block");
        }
        match found.held.add(at, wanted as u32) {
            true => Ok(()),
            false => Err("the node overlaps another one"),
        }
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

    /// The blocks that rings, stocks and lanes have for programs: first unit, units.
    pub(super) fn offered(&self) -> Result<Vec<(u32, u32)>, Damaged> {
        let mut all = self.stocks()?;
        for (class, supply) in self.supplies.iter().enumerate() {
            let blocks = supply.ring.all_offered()?.into_iter();
            all.extend(blocks.map(|at| (at, k::units(class) as u32)));
        }
        all.extend(self.slabs.offered()?);
        let rests = (0..self.lanes()).map(|lane| self.rest(lane));
        all.extend(rests.filter(|(_, units)| *units > 0));
        Ok(all)
    }

    /// Checks that each unit that programs have is in the map, in a ring or a lane, or retired.
    fn check_blocks(&self, mut held: Bits) -> Result<(), String> {
        for (at, units) in self.offered()? {
            if !self.blocks.is_given(at, units) || !held.add(at, units) {
                return Err(format!("a ring has block {at} of {units} units"));
            }
        }
        for at in self.all_chunks()? {
            let units = k::CHUNK_UNITS as u32;
            if !self.blocks.is_given(at, units) || !held.add(at, units) {
                return Err(format!("the chunk at {at} is no block of programs"));
            }
        }
        for (at, units) in self.all_retired()? {
            if !self.blocks.is_given(at, units) || !held.add(at, units) {
                return Err(format!(
                    "programs retired block {at} of {units} units, which is not theirs"
                ));
            }
        }
        match held.difference(self.blocks.given()) {
            None => Ok(()),
            Some(at) => Err(format!("unit {at} is lost")),
        }
    }
}

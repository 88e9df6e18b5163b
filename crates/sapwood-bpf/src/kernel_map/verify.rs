//! Every invariant of a map that programs write, walked when none of them does. What is read may be anything.

use std::collections::{BTreeMap, BTreeSet};

use sapwood::qp::Published;

use super::KernelMapShape;
use super::owner::Owner;
use super::rings::Damaged;
use super::slabs::is_cut;
use crate::layout::kernel_map as k;
use crate::layout::root;

/// A branch as a walk reads it.
struct Branch {
    offset: usize,
    units: usize,
    /// Labels in order, `None` is END, with where their cells are.
    children: Vec<(Option<u8>, u32)>,
}

/// A branch on the way to a node, and the label that leads on; `None` is END.
#[derive(Clone, Debug)]
struct Step {
    branch: u32,
    offset: usize,
    label: Option<u8>,
}

type Path = Vec<Step>;

/// What the walk over the trie has found so far.
#[derive(Default)]
pub(super) struct Found {
    /// Blocks: first unit, units.
    pub(super) blocks: BTreeMap<u32, u32>,
    /// Blocks are not known beforehand.
    pub(super) new: bool,
    pub(super) leaves: BTreeMap<u32, Vec<u8>>,
    pub(super) branches: usize,
    pub(super) branch_units: usize,
    pub(super) leaf_units: usize,
    pub(super) depth: usize,
}

impl Owner {
    /// Walks everything.
    pub(super) fn verify(&mut self) -> Result<KernelMapShape, String> {
        self.look()
            .map_err(|Damaged| "what was retired cannot be so much")?;
        self.blocks.verify()?;
        let before = (self.u32(k::LOCK), self.u64(k::SEQUENCE));
        if before.0 != 0 {
            return Err("a program has the lock".into());
        }
        let mut found = Found::default();
        let shape = self.check_map(&mut found)?;
        self.check_blocks(found.blocks.into_keys().collect())?;
        match before == (self.u32(k::LOCK), self.u64(k::SEQUENCE)) {
            true => Ok(shape),
            false => Err("a program has changed the map meanwhile".into()),
        }
    }

    /// Walks trie and index.
    pub(super) fn check_map(&self, found: &mut Found) -> Result<KernelMapShape, String> {
        let mut shape = KernelMapShape {
            refused: self.refused,
            ..KernelMapShape::default()
        };
        let with_trie = self.plan.parts & k::TRIE != 0;
        let cell = self.u64(root(Published::ROOT) as usize);
        let cell = u32::try_from(cell).map_err(|_| format!("the root cell is {cell:#x}"))?;
        if cell != 0 {
            if !with_trie {
                return Err("a map without trie has a root".into());
            }
            self.walk(cell, found)?;
        }
        if self.plan.parts & k::INDEX != 0 {
            self.check_index(found, with_trie, &mut shape)?;
        }
        shape.entries = found.leaves.len();
        shape.branches = found.branches;
        shape.depth = found.depth;
        self.check_counts(found)?;
        Ok(shape)
    }

    /// Takes note of a node; it must lie in a block of just this size that programs have.
    fn node(&self, at: u32, units: usize, found: &mut Found) -> Result<(), String> {
        let wanted = k::units(k::class(units)) as u32;
        let given = self.blocks.given(at);
        if !found.new && given != Some(wanted) {
            return Err(format!("node {at} of {wanted} units lies in {given:?}"));
        }
        match found.blocks.insert(at, wanted) {
            None => Ok(()),
            Some(_) => Err(format!("node {at} is there twice")),
        }
    }

    /// The block of a node that programs gave up.
    pub(super) fn given_up(&self, cell: u32, found: &mut Found) -> Result<(), String> {
        let units = match cell & 1 {
            0 => self.branch(cell >> 1)?.units,
            _ => self.plan.leaf_units(self.key(cell >> 1)?.len()),
        };
        self.node(cell >> 1, units, found)
    }

    fn leaf(&self, at: u32, found: &mut Found) -> Result<Vec<u8>, String> {
        let key = self.key(at)?;
        let (len, text) = (key.len(), at as usize * 8 + self.plan.value_bytes);
        let units = self.plan.leaf_units(len);
        self.node(at, units, found)?;
        found.leaf_units += units;
        let padding = (1 + len..(1 + len).next_multiple_of(8)).find(|&i| self.byte(text + i) != 0);
        match padding {
            None => Ok(key),
            Some(_) => Err(format!("leaf {at} is not padded with zeros")),
        }
    }

    fn branch(&self, at: u32) -> Result<Branch, String> {
        let place = self.inside(at, 2)?;
        let header = self.u32(place);
        let (offset, labels) = (
            (header & 0xffff) as usize,
            (header >> 16 & 0xff) as usize + 1,
        );
        let (end, big) = ((header >> 24 & 1) as usize, labels > 32);
        let cells = if big { 40 } else { 4 + labels.div_ceil(4) * 4 };
        let wanted = (cells / 4 + end) << 27 | usize::from(big) << 25 | end << 24;
        if header as usize & !0x00ff_ffff != wanted || labels + end < 2 {
            return Err(format!("branch {at} has the header {header:#010x}"));
        }
        let units = (cells + 4 * (end + labels)).div_ceil(8);
        self.inside(at, units)?;
        let mut all: Vec<u8> = Vec::new();
        if big {
            for word in 0..4 {
                if usize::from(self.byte(place + 4 + word)) != all.len() {
                    return Err(format!("branch {at} has a wrong rank"));
                }
                let bits = self.u64(place + 8 + 8 * word);
                let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
                all.extend(set.map(|bit| (word * 64 + bit) as u8));
            }
        } else {
            all.extend((0..cells - 4).map(|i| self.byte(place + 4 + i)));
            let last = all[labels - 1];
            if all.split_off(labels).iter().any(|label| *label != last) {
                return Err(format!("branch {at} has wrong padding"));
            }
        }
        if all.len() != labels || !all.windows(2).all(|two| two[0] < two[1]) {
            return Err(format!("branch {at} has the labels {all:?}"));
        }
        let names = (0..end).map(|_| None).chain(all.into_iter().map(Some));
        let children = names
            .enumerate()
            .map(|(i, label)| (label, self.u32(place + cells + 4 * i)));
        Ok(Branch {
            offset,
            units,
            children: children.collect(),
        })
    }

    /// Walks the trie below a cell, in order.
    fn walk(&self, cell: u32, found: &mut Found) -> Result<(), String> {
        let mut stack: Vec<(u32, Path)> = vec![(cell, Path::new())];
        let mut last: Option<(Vec<u8>, Path)> = None;
        while let Some((cell, above)) = stack.pop() {
            found.depth = found.depth.max(above.len());
            if cell & 1 != 0 {
                let key = self.leaf(cell >> 1, found)?;
                let strange = above.iter().find(|step| {
                    key.len() < step.offset || key.get(step.offset).copied() != step.label
                });
                if let Some(step) = strange {
                    return Err(format!("leaf {cell:#x} is not at {step:?}"));
                }
                if let Some((before, path)) = &last {
                    let parts = before.iter().zip(&key).take_while(|(a, b)| a == b).count();
                    let both = path.iter().zip(&above);
                    let common = both.take_while(|(a, b)| a.branch == b.branch).last();
                    if *before >= key || common.is_none_or(|(step, _)| step.offset != parts) {
                        return Err(format!(
                            "leaf {cell:#x} parts from the one before at {parts}"
                        ));
                    }
                }
                found.leaves.insert(cell, key.clone());
                last = Some((key, above));
                continue;
            }
            let branch = self.branch(cell >> 1)?;
            if above
                .last()
                .is_some_and(|step| step.offset >= branch.offset)
            {
                return Err(format!("branch {cell:#x}: offset {}", branch.offset));
            }
            self.node(cell >> 1, branch.units, found)?;
            found.branches += 1;
            found.branch_units += k::units(k::class(branch.units));
            for &(label, child) in branch.children.iter().rev() {
                let mut path = above.clone();
                path.push(Step {
                    branch: cell,
                    offset: branch.offset,
                    label,
                });
                stack.push((child, path));
            }
        }
        Ok(())
    }

    /// Checks the index: with a trie, that it has just its leaves; without one, these are the map's leaves.
    fn check_index(
        &self,
        found: &mut Found,
        with_trie: bool,
        shape: &mut KernelMapShape,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut keys = BTreeSet::new();
        // Per home: keys behind it, how far, their tags, those that have no slot.
        let mut homes = vec![(0u64, 0usize, 0u64, 0u64); self.homes];
        for bucket in 0..self.buckets {
            let (low, high) = self.words(bucket);
            for slot in 0..12 {
                let word = if slot < 8 { low } else { high };
                let tag = word >> (slot % 8 * 8) & 0xff;
                if tag == 0 {
                    continue;
                }
                let cell = self.u32(self.buckets_at + bucket * 64 + 16 + 4 * slot);
                let key = match found.leaves.get(&cell) {
                    Some(key) => key.clone(),
                    None if with_trie => {
                        return Err(format!("the index has leaf {cell:#x}, the trie not"));
                    }
                    None if cell & 1 == 0 => return Err(format!("the index has branch {cell:#x}")),
                    None => self.leaf(cell >> 1, found)?,
                };
                let hash = self.hash(&key);
                let home = self.home(hash);
                let should = (hash & 0xff) + u64::from(hash & 0xff == 0);
                if tag != should || bucket < home || bucket - home > 255 {
                    return Err(format!(
                        "leaf {cell:#x} with tag {tag:#x} in bucket {bucket}, home {home}"
                    ));
                }
                if bucket > home {
                    let (out, reach, filter, _) = &mut homes[home];
                    *out += 1;
                    *reach = (*reach).max(bucket - home);
                    *filter |= 1 << (tag & 7);
                    shape.displaced += 1;
                }
                if !seen.insert(cell) || !keys.insert(key.clone()) {
                    return Err(format!("leaf {cell:#x} or its key is twice in the index"));
                }
                found.leaves.entry(cell).or_insert(key);
            }
        }
        for (cell, key) in &found.leaves {
            if !seen.contains(cell) {
                homes[self.home(self.hash(key))].3 += 1;
                shape.spilled += 1;
            }
        }
        for (home, &(out, reach, filter, spilled)) in homes.iter().enumerate() {
            let (_, high) = self.words(home);
            let counted = high >> 48 & 0xff;
            let right = high >> 34 & 0x3f == out
                && (high >> 40 & 0xff) as usize >= reach
                && high >> 56 & filter == filter
                && (counted == spilled || counted == 0xff)
                && high >> 32 & 3 == 0;
            if !right {
                return Err(format!(
                    "bucket {home}: state {high:#018x}; {out} keys are out, up to {reach}, with {filter:#x}, {spilled} spilled"
                ));
            }
        }
        Ok(())
    }

    fn check_counts(&self, found: &Found) -> Result<(), String> {
        for (what, at, count) in [
            ("entries", k::COUNT, found.leaves.len()),
            ("branches", k::BRANCHES, found.branches),
            ("units of branches", k::BRANCH_UNITS, found.branch_units),
            ("units of leaves", k::LEAF_UNITS, found.leaf_units),
        ] {
            let said = self.u32(at) as usize;
            if said != count {
                return Err(format!("{count} {what}, programs counted {said}"));
            }
        }
        match found.leaves.len() <= self.plan.max_entries {
            true => Ok(()),
            false => Err("more than max_entries".into()),
        }
    }

    /// Checks that each block that programs have is in the structure, in a ring, or given up.
    fn check_blocks(&self, mut held: BTreeSet<u32>) -> Result<(), String> {
        let damaged = |Damaged| "a ring's count cannot be".to_owned();
        for (class, supply) in self.supplies.iter().enumerate() {
            for at in supply.ring.all_offered().map_err(damaged)? {
                if self.blocks.given(at) != Some(k::units(class) as u32) || !held.insert(at) {
                    return Err(format!("the ring of class {class} has {at}"));
                }
            }
        }
        let whole = Some(k::SLAB_UNITS as u32);
        for at in self.slabs.ring.all_offered().map_err(damaged)? {
            if self.blocks.given(at) != whole || !held.insert(at) {
                return Err(format!("the ring of slabs has {at}"));
            }
        }
        let (at, left) = self.slabs.left().unwrap_or_default();
        let said = (self.u32(k::SLAB), self.u32(k::SLAB_LEFT));
        if said.1 != left || (left > 0 && said.0 != at) {
            return Err(format!(
                "{left} units of a slab are left at {at}, programs say {said:?}"
            ));
        }
        if left > 0 && (self.blocks.given(at) != Some(left) || !held.insert(at)) {
            return Err(format!("what is left of a slab at {at} is elsewhere, too"));
        }
        let retired = self.retired.waiting().map_err(damaged)?;
        for cell in retired.into_iter().filter(|cell| !is_cut(*cell)) {
            if self.blocks.given(cell >> 1).is_none() || !held.insert(cell >> 1) {
                return Err(format!("programs gave {cell:#x} up"));
            }
        }
        let lost = self.blocks.all_given().find(|(at, _)| !held.contains(at));
        match lost {
            None => Ok(()),
            Some((at, units)) => Err(format!("block {at} of {units} units is lost")),
        }
    }
}

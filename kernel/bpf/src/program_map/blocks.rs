//! The blocks of a window and the state of each: given to programs, waiting or free. These accounts
//! lie outside the window, where programs cannot write.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::program_map as k;

/// The most free blocks of a size that are kept without being merged: about those that programs
/// retire in two grace periods. Merging and cutting again costs a third of a queue's step.
const KEPT: usize = 32_768;

/// A set of units.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, unit: u32) -> bool {
        let word = self.0.get(unit as usize / 64);
        word.is_some_and(|word| word >> (unit % 64) & 1 != 0)
    }

    fn set(&mut self, unit: u32, on: bool) {
        let at = unit as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1 + at / 8, 0);
        }
        let bit = 1 << (unit % 64);
        if on {
            self.0[at] |= bit;
        } else {
            self.0[at] &= !bit;
        }
    }

    /// The first member that is at least `unit` and below `end`.
    fn next(&self, unit: u32, end: u32) -> Option<u32> {
        let mut at = unit as usize / 64;
        let mut word = self.0.get(at)? & (u64::MAX << (unit % 64));
        while word == 0 {
            at += 1;
            if at as u64 * 64 >= u64::from(end) {
                return None;
            }
            word = *self.0.get(at)?;
        }
        let found = at as u32 * 64 + word.trailing_zeros();
        (found < end).then_some(found)
    }
}

/// The blocks between the first unit and the frontier, in whole units. Each block is given to
/// programs, waits for the end of a grace period, or is free.
///
/// The name of a block is its first unit. The size of a block follows from these accounts alone.
pub(super) struct Blocks {
    first: u32,
    frontier: u32,
    limit: u32,
    /// The first units of all blocks: given, waiting and free.
    begins: Bits,
    given: Bits,
    waiting: Bits,
    free: BTreeMap<u32, u32>,
    sizes: BTreeSet<(u32, u32)>,
    /// Free blocks by their units, kept for the next request of that size: merging them with their
    /// neighbours takes ten times as long.
    kept: Vec<Vec<u32>>,
    given_units: u32,
    waiting_units: u32,
    free_units: u32,
    fail_every: u64,
    requests: u64,
}

/// The accounts of the blocks, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    pub(super) first: u32,
    pub(super) given: u32,
    pub(super) waiting: u32,
    pub(super) free: u32,
    pub(super) frontier: u32,
}

impl Blocks {
    /// Makes accounts without blocks. Blocks may lie from `first` to `limit`. Every `fail_every`th
    /// request fails; 0: none.
    pub(super) fn new(first: u32, limit: u32, fail_every: u64) -> Blocks {
        Blocks {
            first,
            frontier: first,
            limit,
            begins: Bits::default(),
            given: Bits::default(),
            waiting: Bits::default(),
            free: BTreeMap::new(),
            sizes: BTreeSet::new(),
            kept: vec![Vec::new(); k::units(k::CLASSES - 1) + 1],
            given_units: 0,
            waiting_units: 0,
            free_units: 0,
            fail_every,
            requests: 0,
        }
    }

    /// Rebuilds the accounts of a dead owner. Programs have the blocks in `given`, and the rest
    /// below the frontier is free. `None` when blocks overlap or lie outside.
    pub(super) fn rebuilt(
        first: u32,
        limit: u32,
        frontier: u32,
        given: &BTreeMap<u32, u32>,
    ) -> Option<Blocks> {
        let mut blocks = Blocks::new(first, limit, 0);
        blocks.frontier = frontier;
        let mut at = first;
        for (&begin, &units) in given {
            let end = begin.checked_add(units)?;
            if begin < at || end > frontier {
                return None;
            }
            if begin > at {
                blocks.put_free(at, begin - at);
            }
            blocks.begins.set(begin, true);
            blocks.given.set(begin, true);
            blocks.given_units += units;
            at = end;
        }
        if frontier > at {
            blocks.put_free(at, frontier - at);
        }
        Some(blocks)
    }

    pub(super) fn frontier(&self) -> u32 {
        self.frontier
    }

    pub(super) fn units(&self) -> Units {
        Units {
            first: self.first,
            given: self.given_units,
            waiting: self.waiting_units,
            free: self.free_units,
            frontier: self.frontier,
        }
    }

    /// Gives a block to programs: from the free memory that fits best, or else from the frontier.
    /// `grow` makes sure that there is memory up to the new frontier, and says whether there is.
    pub(super) fn give(&mut self, units: u32, grow: impl FnOnce(u32) -> bool) -> Option<u32> {
        self.requests += 1;
        if self.fail_every != 0 && self.requests % self.fail_every == 0 {
            return None;
        }
        let kept = self.kept.get_mut(units as usize).and_then(Vec::pop);
        let at = match kept {
            Some(at) => {
                self.free_units -= units;
                at
            }
            None => self
                .cut(units)
                .or_else(|| self.rise(units, grow))
                .or_else(|| {
                    self.merge_kept();
                    self.cut(units)
                })?,
        };
        self.begins.set(at, true);
        self.given.set(at, true);
        self.given_units += units;
        Some(at)
    }

    /// Cuts a block off the free memory that fits best.
    fn cut(&mut self, units: u32) -> Option<u32> {
        let (len, at) = self.sizes.range((units, 0)..).next().copied()?;
        self.take_free(at, len);
        if len > units {
            self.put_free(at + units, len - units);
        }
        Some(at)
    }

    /// Takes a block at the frontier, and raises the frontier.
    fn rise(&mut self, units: u32, grow: impl FnOnce(u32) -> bool) -> Option<u32> {
        let end = self.frontier.checked_add(units)?;
        if end > self.limit || !grow(end) {
            return None;
        }
        Some(std::mem::replace(&mut self.frontier, end))
    }

    /// Merges all kept blocks with their neighbours.
    fn merge_kept(&mut self) {
        for units in 0..self.kept.len() {
            for at in std::mem::take(&mut self.kept[units]) {
                self.free_units -= units as u32;
                self.merge(at, units as u32);
            }
        }
    }

    /// The units of a block that programs have; `None` when no such block begins at `at`.
    pub(super) fn given(&self, at: u32) -> Option<u32> {
        self.given.get(at).then(|| self.size(at))
    }

    /// All blocks that programs have, and their units.
    pub(super) fn all_given(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut from = self.first;
        std::iter::from_fn(move || {
            let at = self.given.next(from, self.frontier)?;
            from = at + 1;
            Some((at, self.size(at)))
        })
    }

    fn size(&self, at: u32) -> u32 {
        let next = self.begins.next(at + 1, self.frontier);
        next.unwrap_or(self.frontier) - at
    }

    /// Makes a retired block wait, because programs may still read it. Returns its units; `None`
    /// when programs did not have the block.
    pub(super) fn wait(&mut self, at: u32) -> Option<u32> {
        let units = self.given(at)?;
        self.given.set(at, false);
        self.waiting.set(at, true);
        self.given_units -= units;
        self.waiting_units += units;
        Some(units)
    }

    /// Splits a block that programs have in two: the first has this many units, and the second the
    /// rest. `false` when programs have no such block, or when it has no more units than that.
    pub(super) fn split(&mut self, at: u32, units: u32) -> bool {
        let more = units > 0 && self.given(at).is_some_and(|all| all > units);
        if more {
            self.begins.set(at + units, true);
            self.given.set(at + units, true);
        }
        more
    }

    /// Frees a waiting block after its grace period.
    pub(super) fn free(&mut self, at: u32) {
        if !self.waiting.get(at) {
            return;
        }
        let units = self.size(at);
        self.waiting.set(at, false);
        self.waiting_units -= units;
        match self.kept.get_mut(units as usize) {
            Some(kept) if kept.len() < KEPT => {
                kept.push(at);
                self.free_units += units;
            }
            _ => self.merge(at, units),
        }
    }

    /// Lists free memory, merged with the listed free memory on both sides.
    fn merge(&mut self, mut at: u32, mut units: u32) {
        if let Some(&behind) = self.free.get(&(at + units)) {
            self.take_free(at + units, behind);
            units += behind;
        }
        if let Some((&before, &len)) = self.free.range(..at).next_back() {
            if before + len == at {
                self.take_free(before, len);
                self.begins.set(at, false);
                at = before;
                units += len;
            }
        }
        self.put_free(at, units);
    }

    fn put_free(&mut self, at: u32, units: u32) {
        self.begins.set(at, true);
        self.free.insert(at, units);
        self.sizes.insert((units, at));
        self.free_units += units;
    }

    fn take_free(&mut self, at: u32, units: u32) {
        self.begins.set(at, false);
        self.free.remove(&at);
        self.sizes.remove(&(units, at));
        self.free_units -= units;
    }

    /// Checks that blocks follow each other without a gap, that no two listed free blocks are
    /// neighbours, and that the counts are right.
    pub(super) fn verify(&self) -> Result<(), String> {
        let mut at = self.first;
        let mut found = Units {
            first: self.first,
            given: 0,
            waiting: 0,
            free: 0,
            frontier: self.frontier,
        };
        let kept: BTreeMap<u32, u32> = (0..)
            .zip(&self.kept)
            .flat_map(|(units, all)| all.iter().map(move |at| (*at, units)))
            .collect();
        let mut after_free = false;
        while at < self.frontier {
            if !self.begins.get(at) {
                return Err(format!("no block begins at unit {at}"));
            }
            let units = self.size(at);
            let free = self.free.get(&at).copied();
            match (self.given.get(at), self.waiting.get(at), free) {
                (true, false, None) => found.given += units,
                (false, true, None) => found.waiting += units,
                (false, false, None) if kept.get(&at) == Some(&units) => found.free += units,
                (false, false, Some(len)) if len == units && !after_free => {
                    if !self.sizes.contains(&(units, at)) {
                        return Err(format!("free block {at} of {units} units is not listed"));
                    }
                    found.free += units;
                }
                states => return Err(format!("block {at} of {units} units: {states:?}")),
            }
            after_free = free.is_some();
            at += units;
        }
        if found != self.units() || self.sizes.len() != self.free.len() {
            return Err(format!("found {found:?}, counted {:?}", self.units()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn blocks_are_given_and_come_back() {
        let mut blocks = Blocks::new(100, 4000, 0);
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut given, mut waiting) = (Vec::new(), Vec::new());
        for step in 0..20_000 {
            match rng.u8(0..5) {
                0..3 => {
                    let units = rng.u32(2..40);
                    if let Some(at) = blocks.give(units, |_| true) {
                        assert_eq!(blocks.given(at), Some(units));
                        given.push((at, units));
                    }
                }
                3 if !given.is_empty() => {
                    let (at, units) = given.swap_remove(rng.usize(..given.len()));
                    assert_eq!(blocks.wait(at), Some(units));
                    assert_eq!(blocks.wait(at), None, "once only");
                    assert_eq!(blocks.wait(at + 1), None, "not inside");
                    waiting.push(at);
                }
                _ => {
                    for at in waiting.drain(..) {
                        blocks.free(at);
                    }
                }
            }
            if step % 64 == 0 {
                blocks.verify().unwrap();
                let mut all = given.clone();
                all.sort_unstable();
                assert!(blocks.all_given().eq(all));
            }
        }
    }

    #[test]
    fn what_is_kept_is_merged_when_there_is_no_more() {
        let mut blocks = Blocks::new(8, 1008, 0);
        let all: Vec<_> = std::iter::from_fn(|| blocks.give(5, |_| true)).collect();
        assert_eq!(all.len(), 200);
        for at in all {
            blocks.wait(at).unwrap();
            blocks.free(at);
        }
        blocks.verify().unwrap();
        let large: Vec<_> = std::iter::from_fn(|| blocks.give(100, |_| true)).collect();
        assert_eq!(large.len(), 10);
        blocks.verify().unwrap();
    }

    #[test]
    fn blocks_are_rebuilt() {
        let given = [(10, 4), (14, 2), (20, 5)].into_iter().collect();
        let mut blocks = Blocks::rebuilt(8, 100, 30, &given).unwrap();
        blocks.verify().unwrap();
        assert_eq!(blocks.units().free, 2 + 4 + 5);
        assert_eq!(blocks.give(4, |_| true), Some(16));
        assert_eq!(blocks.give(6, |_| true), Some(30));
        blocks.verify().unwrap();
        let overlap = [(10, 4), (13, 2)].into_iter().collect();
        assert!(Blocks::rebuilt(8, 100, 30, &overlap).is_none());
        let outside = [(28, 4)].into_iter().collect();
        assert!(Blocks::rebuilt(8, 100, 30, &outside).is_none());
    }

    #[test]
    fn blocks_are_cut_off_others() {
        let mut blocks = Blocks::new(8, 1008, 0);
        let at = blocks.give(100, |_| true).unwrap();
        assert!(blocks.split(at, 30) && blocks.split(at + 30, 69));
        assert!(!blocks.split(at + 99, 1), "all of it");
        assert!(!blocks.split(at + 1, 2), "not inside");
        assert!(!blocks.split(at, 0));
        assert_eq!(blocks.given(at), Some(30));
        assert_eq!(blocks.given(at + 30), Some(69));
        assert_eq!(blocks.given(at + 99), Some(1));
        blocks.verify().unwrap();
        assert_eq!(blocks.wait(at + 30), Some(69));
        blocks.free(at + 30);
        blocks.verify().unwrap();
        assert_eq!(blocks.give(69, |_| false), Some(at + 30));
    }

    #[test]
    fn requests_fail_when_they_shall() {
        let mut blocks = Blocks::new(8, 100, 3);
        let given: Vec<_> = (0..6).map(|_| blocks.give(2, |_| true).is_some()).collect();
        assert_eq!(given, [true, true, false, true, true, false]);
        assert_eq!(
            blocks.give(200, |_| true).or(blocks.give(4, |_| false)),
            None
        );
        blocks.verify().unwrap();
    }
}

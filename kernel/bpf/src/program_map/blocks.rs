//! The units of a window and the state of each: given to programs, waiting or free. These accounts
//! lie outside the window, where programs cannot write.
//!
//! Only units have a state, blocks have none: programs cut blocks off slabs, and say how many units
//! a retired block has. A unit that programs do not have cannot be retired, whatever they say. So
//! no unit is given out twice.

use crate::layout::program_map as k;

/// The most blocks of a size that are remembered when they are freed: about those that programs
/// retire in two grace periods. Others are found again as parts of free runs.
const KEPT: usize = 32_768;

/// A set of units.
#[derive(Clone, Default)]
pub(super) struct Bits(Vec<u64>);

/// The words of a run of bits: the number of each word, and the bits in it.
fn words(at: u32, units: u32) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (u64::from(at), u64::from(at) + u64::from(units));
    (from / 64..to.div_ceil(64)).map(move |word| {
        let (first, last) = (word * 64, word * 64 + 63);
        let low = u64::MAX << (from.max(first) - first);
        let high = u64::MAX >> (last - (to - 1).min(last));
        (word as usize, low & high)
    })
}

impl Bits {
    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Whether all units of a run are members.
    fn all(&self, at: u32, units: u32) -> bool {
        words(at, units).all(|(word, bits)| self.word(word) & bits == bits)
    }

    /// Whether any unit of a run is a member.
    fn any(&self, at: u32, units: u32) -> bool {
        words(at, units).any(|(word, bits)| self.word(word) & bits != 0)
    }

    fn set(&mut self, at: u32, units: u32, on: bool) {
        let end = (at as usize + units as usize).div_ceil(64);
        if self.0.len() < end {
            self.0.resize(end + end / 8, 0);
        }
        for (word, bits) in words(at, units) {
            match on {
                true => self.0[word] |= bits,
                false => self.0[word] &= !bits,
            }
        }
    }

    /// Adds a run; `false` when a unit of it is a member already, and then nothing is added.
    pub(super) fn add(&mut self, at: u32, units: u32) -> bool {
        let new = units > 0 && !self.any(at, units);
        if new {
            self.set(at, units, true);
        }
        new
    }

    fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The first unit that is in one of the two sets alone.
    pub(super) fn difference(&self, other: &Bits) -> Option<u32> {
        let words = self.0.len().max(other.0.len());
        let differ = |at| self.word(at) ^ other.word(at);
        let at = (0..words).find(|at| differ(*at) != 0)?;
        Some(at as u32 * 64 + differ(at).trailing_zeros())
    }
}

/// The units between the first one and the frontier. Each is given to programs, waits for the end
/// of a grace period, or is free.
pub(super) struct Blocks {
    first: u32,
    frontier: u32,
    limit: u32,
    given: Bits,
    waiting: Bits,
    /// Free blocks by their units, for the next request of that size. Some of their units may have
    /// been given out again since, as parts of other blocks.
    kept: Vec<Vec<u32>>,
    /// Where the search for free runs goes on.
    cursor: u32,
    /// The units that must be freed before another search makes sense, because the last one found
    /// no run of the least size that was asked for since.
    dry: Option<Dry>,
    given_units: u32,
    waiting_units: u32,
    fail_every: u64,
    requests: u64,
}

/// A search in vain.
#[derive(Clone, Copy)]
struct Dry {
    /// The least run that was looked for.
    least: u32,
    /// The units that were freed since.
    freed: u32,
}

/// The accounts, in units.
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
            given: Bits::default(),
            waiting: Bits::default(),
            kept: vec![Vec::new(); k::units(k::CLASSES - 1) + 1],
            cursor: first,
            dry: None,
            given_units: 0,
            waiting_units: 0,
            fail_every,
            requests: 0,
        }
    }

    /// Rebuilds the accounts of a dead owner. Programs have the units in `given`, and the rest
    /// below the frontier is free. `None` when a given unit lies outside.
    pub(super) fn rebuilt(first: u32, limit: u32, frontier: u32, given: Bits) -> Option<Blocks> {
        let mut blocks = Blocks::new(first, limit, 0);
        blocks.frontier = frontier;
        blocks.given_units = given.len();
        let before = first > 0 && given.any(0, first);
        let end = given.0.len() as u32 * 64;
        let behind = end > frontier && given.any(frontier, end - frontier);
        blocks.given = given;
        (!before && !behind).then_some(blocks)
    }

    pub(super) fn frontier(&self) -> u32 {
        self.frontier
    }

    pub(super) fn units(&self) -> Units {
        Units {
            first: self.first,
            given: self.given_units,
            waiting: self.waiting_units,
            free: self.frontier - self.first - self.given_units - self.waiting_units,
            frontier: self.frontier,
        }
    }

    /// The units that programs have.
    pub(super) fn given(&self) -> &Bits {
        &self.given
    }

    /// Whether programs have all units of a block.
    pub(super) fn is_given(&self, at: u32, units: u32) -> bool {
        let inside = at >= self.first && u64::from(at) + u64::from(units) <= self.frontier.into();
        units > 0 && inside && self.given.all(at, units)
    }

    fn is_free(&self, at: u32, units: u32) -> bool {
        !self.given.any(at, units) && !self.waiting.any(at, units)
    }

    /// Counts a request; whether it must fail.
    pub(super) fn fails(&mut self) -> bool {
        self.requests += 1;
        self.fail_every != 0 && self.requests % self.fail_every == 0
    }

    fn hand_out(&mut self, at: u32, units: u32) -> u32 {
        self.given.set(at, units, true);
        self.given_units += units;
        at
    }

    /// Gives a block to programs that was one of this size before, if there is one.
    pub(super) fn give_again(&mut self, units: u32) -> Option<u32> {
        if self.fails() {
            return None;
        }
        self.again(units)
    }

    fn again(&mut self, units: u32) -> Option<u32> {
        while let Some(at) = self.kept.get_mut(units as usize)?.pop() {
            if self.is_free(at, units) {
                return Some(self.hand_out(at, units));
            }
        }
        None
    }

    /// Gives a block to programs: one of this size that came back, or a part of a free run, or else
    /// from the frontier. `grow` makes sure that there is memory up to the new frontier, and says
    /// whether there is.
    pub(super) fn give(&mut self, units: u32, grow: impl FnOnce(u32) -> bool) -> Option<u32> {
        if self.fails() {
            return None;
        }
        if let Some(at) = self.again(units) {
            return Some(at);
        }
        if let Some((at, _)) = self.run(units, units) {
            return Some(self.hand_out(at, units));
        }
        self.rise(units, grow)
    }

    /// Gives a free run of `least` to `most` units to programs.
    pub(super) fn give_run(&mut self, least: u32, most: u32) -> Option<(u32, u32)> {
        if self.fails() {
            return None;
        }
        let (at, units) = self.run(least, most)?;
        Some((self.hand_out(at, units), units))
    }

    /// Gives a block at the frontier, and raises the frontier.
    pub(super) fn rise(&mut self, units: u32, grow: impl FnOnce(u32) -> bool) -> Option<u32> {
        let end = self.frontier.checked_add(units)?;
        if end > self.limit || !grow(end) {
            return None;
        }
        let at = std::mem::replace(&mut self.frontier, end);
        Some(self.hand_out(at, units))
    }

    /// The units that the frontier may still rise.
    pub(super) fn above(&self) -> u32 {
        self.limit - self.frontier
    }

    /// Finds the next free run of `least` units or more, and cuts it to `most`. The search goes
    /// around once.
    fn run(&mut self, least: u32, most: u32) -> Option<(u32, u32)> {
        if let Some(dry) = self.dry {
            let enough = dry.freed >= ((self.frontier - self.first) / 64).max(dry.least);
            if least >= dry.least && !enough {
                return None;
            }
        }
        let from = self.cursor.clamp(self.first, self.frontier);
        let found = self.run_in(from, self.frontier, least, most);
        let around = |blocks: &Blocks| blocks.run_in(blocks.first, from, least, most);
        let found = found.or_else(|| around(self));
        match found {
            Some((at, units)) => self.cursor = at + units,
            None => self.dry = Some(Dry { least, freed: 0 }),
        }
        found
    }

    fn run_in(&self, from: u32, to: u32, least: u32, most: u32) -> Option<(u32, u32)> {
        let mut at = from;
        loop {
            at = self.next(at, to, false)?;
            let end = at.saturating_add(most).min(self.frontier);
            let behind = self.next(at, end, true).unwrap_or(end);
            if behind - at >= least {
                return Some((at, behind - at));
            }
            at = behind.max(at + 1);
        }
    }

    /// The first unit from `at` on, before `end`, that is in use, or free.
    fn next(&self, at: u32, end: u32, in_use: bool) -> Option<u32> {
        let mut word = at as usize / 64;
        let mut mask = u64::MAX << (at % 64);
        while (word as u64) * 64 < u64::from(end) {
            let used = self.given.word(word) | self.waiting.word(word);
            let found = if in_use { used } else { !used } & mask;
            if found != 0 {
                let unit = word as u32 * 64 + found.trailing_zeros();
                return (unit < end).then_some(unit);
            }
            mask = u64::MAX;
            word += 1;
        }
        None
    }

    /// Makes a retired block wait, because programs may still read it. `false` when programs did
    /// not have all of it.
    pub(super) fn wait(&mut self, at: u32, units: u32) -> bool {
        let known = self.is_given(at, units);
        if known {
            self.given.set(at, units, false);
            self.waiting.set(at, units, true);
            self.given_units -= units;
            self.waiting_units += units;
        }
        known
    }

    /// Takes a block back that programs had and never used; `false` when they did not have all of
    /// it.
    pub(super) fn take_back(&mut self, at: u32, units: u32) -> bool {
        let known = self.wait(at, units);
        if known {
            self.free(at, units);
        }
        known
    }

    /// Frees a waiting block after its grace period.
    pub(super) fn free(&mut self, at: u32, units: u32) {
        debug_assert!(self.waiting.all(at, units));
        self.waiting.set(at, units, false);
        self.waiting_units -= units;
        if let Some(dry) = &mut self.dry {
            dry.freed += units;
        }
        if let Some(kept) = self.kept.get_mut(units as usize) {
            if kept.len() < KEPT {
                kept.push(at);
            }
        }
    }

    /// Checks that no unit has two states or lies outside, and that the counts are right.
    pub(super) fn verify(&self) -> Result<(), String> {
        let outside = |bits: &Bits| {
            let end = bits.0.len() as u32 * 64;
            bits.any(0, self.first)
                || (end > self.frontier && bits.any(self.frontier, end - self.frontier))
        };
        if outside(&self.given) || outside(&self.waiting) {
            return Err("a unit outside of the blocks is in use".into());
        }
        let both = |at: &usize| self.given.word(*at) & self.waiting.word(*at) != 0;
        if let Some(word) = (0..self.given.0.len()).find(both) {
            return Err(format!("units from {} on have two states", word * 64));
        }
        let found = (self.given.len(), self.waiting.len());
        if found != (self.given_units, self.waiting_units) {
            return Err(format!("found {found:?} units, counted {:?}", self.units()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Blocks};
    use std::collections::BTreeSet;

    #[test]
    fn runs_of_bits_are_those_of_a_set() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut bits, mut set) = (Bits::default(), BTreeSet::new());
        for _ in 0..5000 {
            let (at, units) = (rng.u32(..1000), rng.u32(1..200));
            let run = at..at + units;
            assert_eq!(
                bits.all(at, units),
                run.clone().all(|unit| set.contains(&unit))
            );
            assert_eq!(bits.any(at, units), set.range(run.clone()).next().is_some());
            match rng.u8(..3) {
                0 => assert_eq!(bits.add(at, units), set.range(run.clone()).next().is_none()),
                on => bits.set(at, units, on == 1),
            }
            if bits.all(at, units) {
                set.extend(run);
            } else if !bits.any(at, units) {
                set.retain(|unit| !run.contains(unit));
            }
            assert_eq!(bits.len() as usize, set.len());
        }
        let mut other = bits.clone();
        assert_eq!(bits.difference(&other), None);
        other.set(5000, 1, true);
        assert_eq!(bits.difference(&other), Some(5000));
    }

    #[test]
    fn blocks_are_given_and_come_back() {
        let mut blocks = Blocks::new(100, 4000, 0);
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut given, mut waiting) = (Vec::new(), Vec::new());
        for step in 0..20_000 {
            match rng.u8(0..6) {
                0..3 => {
                    let units = rng.u32(2..40);
                    if let Some(at) = blocks.give(units, |_| true) {
                        assert!(blocks.is_given(at, units));
                        given.push((at, units));
                    }
                }
                3 => given.extend(blocks.give_run(8, 100)),
                4 if !given.is_empty() => {
                    let (at, units) = given.swap_remove(rng.usize(..given.len()));
                    // Programs give a part of it back first.
                    let part = rng.u32(1..=units);
                    assert!(blocks.wait(at, part));
                    assert!(!blocks.wait(at, 1), "once only");
                    assert!(!blocks.wait(at, units), "not all of it is theirs any more");
                    waiting.push((at, part));
                    if part < units {
                        given.push((at + part, units - part));
                    }
                }
                _ => {
                    for (at, units) in waiting.drain(..) {
                        blocks.free(at, units);
                    }
                }
            }
            if step % 64 == 0 {
                blocks.verify().unwrap();
                let mut all = Bits::default();
                for &(at, units) in &given {
                    assert!(all.add(at, units), "no unit is given twice");
                }
                assert_eq!(all.difference(blocks.given()), None);
                let units = blocks.units();
                let sum = units.first + units.given + units.waiting + units.free;
                assert_eq!(sum, units.frontier);
            }
        }
        assert!(!blocks.wait(99, 1) && !blocks.wait(3999, 2) && !blocks.wait(u32::MAX, 2));
    }

    #[test]
    fn small_blocks_make_large_runs_again() {
        let mut blocks = Blocks::new(8, 1008, 0);
        let all: Vec<_> = std::iter::from_fn(|| blocks.give(5, |_| true)).collect();
        assert_eq!((all.len(), blocks.above()), (200, 0));
        assert_eq!(blocks.give_run(2, 100), None);
        for at in all {
            assert!(blocks.wait(at, 5));
            blocks.free(at, 5);
        }
        let large: Vec<_> = std::iter::from_fn(|| blocks.give_run(100, 100)).collect();
        assert_eq!(large.len(), 10);
        assert_eq!(blocks.give_again(5), None, "all of them are parts of runs");
        blocks.verify().unwrap();
    }

    #[test]
    fn blocks_are_rebuilt() {
        let given = |blocks: &[(u32, u32)]| {
            let mut bits = Bits::default();
            for &(at, units) in blocks {
                assert!(bits.add(at, units));
            }
            bits
        };
        let all = given(&[(10, 4), (14, 2), (20, 5)]);
        let mut blocks = Blocks::rebuilt(8, 100, 30, all).unwrap();
        blocks.verify().unwrap();
        assert_eq!(blocks.units().free, 2 + 4 + 5);
        assert_eq!(blocks.give(4, |_| true), Some(16));
        assert_eq!(blocks.give(6, |_| true), Some(30));
        blocks.verify().unwrap();
        assert!(Blocks::rebuilt(8, 100, 30, given(&[(28, 4)])).is_none());
        assert!(Blocks::rebuilt(8, 100, 30, given(&[(6, 4)])).is_none());
    }

    #[test]
    fn requests_fail_when_they_shall() {
        let mut blocks = Blocks::new(8, 100, 3);
        let runs: Vec<_> = (0..6).map(|_| blocks.give_run(1, 2).is_some()).collect();
        assert_eq!(runs, [false; 6], "nothing lies below the frontier");
        let given: Vec<_> = (0..6).map(|_| blocks.give(2, |_| true).is_some()).collect();
        assert_eq!(given, [true, true, false, true, true, false]);
        assert_eq!(
            blocks.give(200, |_| true).or(blocks.give(4, |_| false)),
            None
        );
        blocks.verify().unwrap();
    }
}

//! A list of changes to a map of ranges, with the map after each of them, for readers beside the
//! writer. An answer is right if it is that of a map between two changes: the last one completed
//! before the query, and the last one begun before the answer.
#![allow(dead_code)] // Each test uses only a part of it.

use std::fmt::Debug;
use std::sync::Arc;

use sapwood::maple::{MapleMap, MapleView, PlainValue, Window};
use sapwood_checked::maple::CheckedMaple;
use sapwood_checked::{Source, Trouble};

use sapwood_model::oracle::RangeMap;

use super::progress::Progress;
use super::ranges::{Checked, MAX, Range, copied};

/// A value that contains the number of the change that stored it, and that shows when it is torn.
pub trait Payload: Clone + PartialEq + Debug + Send + Sync + 'static {
    fn of(version: u32) -> Self;
    /// The version, if the value is whole.
    fn version(&self) -> Option<u32>;
}

impl Payload for u64 {
    fn of(version: u32) -> u64 {
        u64::from(version) << 32 | u64::from(!version.wrapping_mul(0x9e37_79b9))
    }

    fn version(&self) -> Option<u32> {
        let version = (self >> 32) as u32;
        (*self == u64::of(version)).then_some(version)
    }
}

impl Payload for String {
    fn of(version: u32) -> String {
        let tail = version.wrapping_mul(0x9e37_79b9);
        format!(
            "version {version}, {tail:x}{}",
            "-".repeat(tail as usize % 40)
        )
    }

    fn version(&self) -> Option<u32> {
        let version = self.strip_prefix("version ")?.split(',').next()?;
        let version = version.parse().ok()?;
        (*self == String::of(version)).then_some(version)
    }
}

impl Payload for Arc<[u32; 6]> {
    fn of(version: u32) -> Self {
        Arc::new([version; 6])
    }

    fn version(&self) -> Option<u32> {
        self.iter().all(|v| *v == self[0]).then_some(self[0])
    }
}

/// One change of the writer. The version of the stored value is the change's number.
#[derive(Clone, Debug)]
pub enum Step {
    Store(Range),
    Erase(u64),
    Clear(Range),
    ClearAll,
}

/// The changes, and the map after each. Index 0 is the map before the first change.
pub struct Script {
    pub units: Units,
    pub before: Vec<Range>,
    pub steps: Vec<Step>,
    pub maps: Vec<RangeMap<u32>>,
    /// A gap that exists at all times.
    pub gap: Option<Range>,
}

/// The indices of the changes: a number of units of a size.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    pub count: u64,
    pub size: u64,
}

impl Units {
    /// Units `a` to `b`.
    pub fn range(self, a: u64, b: u64) -> Range {
        let (a, b) = (a.min(b), a.max(b).min(self.count - 1));
        a * self.size..=b * self.size + (self.size - 1)
    }

    fn index(self, rng: &mut fastrand::Rng) -> u64 {
        let unit = rng.u64(0..self.count) * self.size;
        unit + [0, self.size - 1, rng.u64(0..self.size)][rng.usize(0..3)]
    }
}

impl Script {
    /// A script of the given changes, after some initial stores.
    pub fn of(units: Units, before: Vec<Range>, steps: Vec<Step>, gap: Option<Range>) -> Self {
        let mut map = RangeMap::new();
        for range in &before {
            map.store(range.clone(), 0);
        }
        let mut maps = vec![map.clone()];
        for (i, step) in steps.iter().enumerate() {
            match step {
                Step::Store(range) => map.store(range.clone(), i as u32 + 1),
                Step::Erase(i) => drop(map.remove(*i)),
                Step::Clear(range) => map.clear_range(range.clone()),
                Step::ClearAll => map.clear(),
            }
            maps.push(map.clone());
        }
        if let Some(gap) = &gap {
            assert!(maps.iter().all(|map| is_free(map, gap)));
        }
        Script {
            units,
            before,
            steps,
            maps,
            gap,
        }
    }

    /// A script of random changes: stores of single units that split leaves, erases that merge
    /// leaves, and occasionally a wide range. With a gap, nothing is stored to the units from 2/4
    /// to 3/4.
    pub fn random(seed: u64, units: Units, gap: bool, count: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let n = units.count;
        let (low, high) = (n / 2, n * 3 / 4);
        let fit = |a: u64, b: u64| {
            // The range stays on the side of the gap where it begins.
            let end = if a < low { low - 1 } else { n - 1 };
            units.range(a, if gap { b.min(end) } else { b.min(n - 1) })
        };
        let start = |rng: &mut fastrand::Rng| loop {
            let a = rng.u64(0..n);
            if !gap || !(low..high).contains(&a) {
                return a;
            }
        };
        let mut filling = true;
        let steps: Vec<Step> = (0..count)
            .map(|i| {
                // In some periods the map grows, in others it shrinks.
                if i % 64 == 0 {
                    filling = rng.u8(0..3) > 0;
                }
                let a = start(&mut rng);
                let grow = if filling { 14 } else { 5 };
                match rng.u8(0..20) {
                    k if k < grow => Step::Store(fit(a, a)),
                    k if k < grow + 2 => Step::Store(fit(a, a + rng.u64(0..6))),
                    k if k == grow + 2 && rng.u8(0..4) == 0 => {
                        Step::Store(fit(a, a + rng.u64(0..n)))
                    }
                    19 => match rng.u8(0..12) {
                        0 => Step::ClearAll,
                        1..3 => Step::Clear(fit(a, a + rng.u64(0..n))),
                        _ => Step::Clear(fit(a, a + rng.u64(0..8))),
                    },
                    _ => Step::Erase(a * units.size),
                }
            })
            .collect();
        let gap = gap.then(|| units.range(low, high - 1));
        Script::of(units, Vec::new(), steps, gap)
    }

    /// Stores the initial entries, before the first change.
    pub fn prepare<V: Payload>(&self, map: &MapleMap<V>) {
        for range in &self.before {
            map.store(range.clone(), V::of(0)).unwrap();
        }
    }

    /// Makes change number `i`, from 0, by one of the possible methods.
    pub fn make<V: Payload>(&self, map: &MapleMap<V>, i: usize) {
        let version = i as u32 + 1;
        match (&self.steps[i], i % 4) {
            (Step::Store(range), 1) => {
                let value = V::of(version);
                let plan = map.plan_store(range.clone(), &value).unwrap();
                let reservation = map.reserve(plan).unwrap();
                reservation.store(value);
            }
            (Step::Store(range), 2) => {
                let mut unknown = map.reserve_unknown(1).unwrap();
                unknown.store(range.clone(), V::of(version)).unwrap();
            }
            (Step::Store(range), 3) => {
                // No other entry has this value, except on a range that the store covers.
                let stored = map.store_coalescing(range.clone(), V::of(version));
                assert_eq!(stored.unwrap(), *range);
            }
            (Step::Store(range), _) => map.store(range.clone(), V::of(version)).unwrap(),
            (Step::Erase(i), _) => drop(map.remove(*i).unwrap()),
            (Step::Clear(range), 1) => {
                let plan = map.plan_clear(range.clone()).unwrap();
                map.reserve_erase(plan).unwrap().erase();
            }
            (Step::Clear(range), _) => map.clear_range(range.clone()).unwrap(),
            (Step::ClearAll, _) => map.clear().unwrap(),
        }
    }

    /// Checks that the map is the one after this many changes.
    pub fn check<V: Payload>(&self, map: &MapleMap<V>, done: usize) {
        let mut oracle = RangeMap::new();
        for (range, v) in self.maps[done].iter() {
            oracle.store(range, V::of(*v));
        }
        Checked {
            map: map.clone(),
            oracle,
        }
        .agree();
    }

    /// Makes one query of a reader that checks every node, and checks its answer.
    pub fn ask_checked<V: Payload + PlainValue, S: Source<Error = Trouble>>(
        &self,
        reader: &CheckedMaple<S, V>,
        progress: &Progress,
        rng: &mut fastrand::Rng,
    ) -> Result<(), Trouble> {
        let i = self.units.index(rng);
        let from = progress.done();
        match rng.u8(0..8) {
            0 => {
                // An entry that was stored across the walk's place reaches back.
                let mut next = Some(0);
                for found in reader.iter() {
                    let (range, v) = found?;
                    assert!(next.is_some_and(|next| next <= *range.end()), "{range:?}");
                    next = range.end().checked_add(1);
                    let v = whole(&v);
                    self.one(from, progress, |m| holds(m, &range, v), &(&range, v));
                }
            }
            1..3 => {
                let size = self.units.size;
                if let Some(gap) = reader.find_gap(size, i..=u64::MAX)? {
                    assert!(*gap.start() >= i && gap.end() - gap.start() == size - 1);
                    self.one(from, progress, |m| is_free(m, &gap), &gap);
                }
            }
            _ => {
                let found = reader.get(i)?.map(|(range, v)| (range, whole(&v)));
                self.one(from, progress, |m| copied(m.get_entry(i)) == found, &found);
            }
        }
        Ok(())
    }

    /// Makes one query of a reader beside the writer, and checks its answer.
    pub fn ask<V: Payload>(
        &self,
        map: &MapleMap<V>,
        view: MapleView<'_, V>,
        progress: &Progress,
        rng: &mut fastrand::Rng,
    ) {
        let i = self.units.index(rng);
        let from = progress.done();
        match rng.u8(0..16) {
            0..3 => {
                let found = view.get(i).map(whole);
                self.one(from, progress, |m| m.get(i).copied() == found, &found);
            }
            3 => {
                let found = map.get(i).as_ref().map(whole);
                self.one(from, progress, |m| m.get(i).copied() == found, &found);
            }
            4..6 => {
                let found = entry(view.get_entry(i));
                self.one(from, progress, |m| copied(m.get_entry(i)) == found, &found);
            }
            6 => {
                let (range, v) = view.locate(i);
                let v = v.map(whole);
                let right = |m: &RangeMap<u32>| m.locate(i) == (range.clone(), v.as_ref());
                self.one(from, progress, right, &(&range, v));
            }
            7 => {
                let found = entry(view.next_after(i));
                self.near(from, progress, |m| copied(m.next_after(i)), found);
            }
            8 => {
                let found = entry(view.prev_before(i));
                self.near(from, progress, |m| copied(m.prev_before(i)), found);
            }
            9 => {
                let first = rng.bool();
                let found = entry(if first { view.first() } else { view.last() });
                let right = |m: &RangeMap<u32>| {
                    let at = if first { m.first() } else { m.last() };
                    copied(at) == found
                };
                self.one(from, progress, right, &found);
            }
            10 => {
                let len = view.len();
                self.one(from, progress, |m| m.len() == len, &len);
            }
            11 => self.iterate(view, 0..=MAX, progress, || true),
            12 => self.iterate(view, 0..=MAX, progress, || false),
            13 => {
                let j = self.units.index(rng);
                self.iterate(view, i.min(j)..=i.max(j), progress, || rng.bool());
            }
            14 => self.gaps(view, progress),
            _ => self.find_gap(view, from, progress, rng),
        }
    }

    /// Checks that an answer is that of one of the maps.
    fn one(
        &self,
        from: usize,
        progress: &Progress,
        right: impl Fn(&RangeMap<u32>) -> bool,
        found: &dyn Debug,
    ) {
        let to = progress.begun();
        let is = self.maps[from..=to].iter().any(right);
        assert!(
            is,
            "{found:?} in none of {from}..={to}: {:?}",
            self.maps[to]
        );
    }

    /// Checks the nearest entry on one side, which a reader may find in two steps. If more than one
    /// change was made meanwhile, the entry may be the nearest in no map. But it is on that side,
    /// is an entry of one of the maps, and no permanent entry lies between.
    fn near(
        &self,
        from: usize,
        progress: &Progress,
        nearest: impl Fn(&RangeMap<u32>) -> Option<(Range, u32)>,
        found: Option<(Range, u32)>,
    ) {
        let to = progress.begun();
        let maps = &self.maps[from..=to];
        if maps.iter().any(|m| nearest(m) == found) {
            return;
        }
        let what = format!("{found:?} in {from}..={to}: {:?}", self.maps[to]);
        assert!(to - from > 1, "{what}");
        // The permanent entries, and the found one.
        let mut kept = RangeMap::new();
        for (range, v) in self.maps[from].iter() {
            if maps.iter().all(|m| holds(m, &range, *v)) {
                kept.store(range, *v);
            }
        }
        if let Some((range, v)) = found.clone() {
            assert!(maps.iter().any(|m| holds(m, &range, v)), "{what}");
            kept.store(range, v);
        }
        assert_eq!(nearest(&kept), found, "{what}");
    }

    /// Checks a walk from both ends: each step finds the nearest entry with an index not yet
    /// passed, in the map of that step.
    fn iterate<V: Payload>(
        &self,
        view: MapleView<'_, V>,
        within: Range,
        progress: &Progress,
        mut forward: impl FnMut() -> bool,
    ) {
        let mut entries = view.range(within.clone());
        let mut left = Some(within);
        while let Some(window) = left {
            let from = progress.done();
            if forward() {
                let found = entry(entries.next());
                let first = |m: &RangeMap<u32>| copied(m.range(window.clone()).next()) == found;
                self.one(from, progress, first, &(&window, &found));
                let behind = found.and_then(|e| e.0.end().checked_add(1));
                left = behind.map(|i| i..=*window.end());
            } else {
                let found = entry(entries.next_back());
                let last = |m: &RangeMap<u32>| copied(m.range(window.clone()).next_back());
                self.near(from, progress, last, found.clone());
                let before = found.and_then(|e| e.0.start().checked_sub(1));
                left = before.map(|i| *window.start()..=i);
            }
            left = left.filter(|window| !window.is_empty());
        }
        assert!(entries.next().is_none() && entries.next_back().is_none());
    }

    /// Checks a walk over gaps: each gap was free at some time during its step, and the permanent
    /// gap is part of one.
    fn gaps<V: Payload>(&self, view: MapleView<'_, V>, progress: &Progress) {
        let mut gaps = view.gaps(0..=MAX);
        let mut next = 0;
        let mut around = self.gap.is_none();
        // A step also passes the entry after its gap.
        let mut before = progress.done();
        loop {
            let from = progress.done();
            let found = gaps.next();
            let to = progress.begun();
            if core::mem::replace(&mut before, from) == to {
                let first = self.maps[to].gaps(next..=MAX).into_iter().next();
                assert_eq!(found, first, "behind {next} in {to}: {:?}", self.maps[to]);
            }
            let Some(gap) = found else { break };
            let free = self.maps[from..=to].iter().any(|m| is_free(m, &gap));
            assert!(free, "{gap:?} was never free in {from}..={to}");
            assert!(*gap.start() >= next, "{gap:?} after {next}");
            if let Some(wanted) = &self.gap {
                around |= gap.start() <= wanted.start() && gap.end() >= wanted.end();
            }
            match gap.end().checked_add(1) {
                Some(behind) => next = behind,
                None => break,
            }
        }
        assert!(around, "{:?} is no part of a gap", self.gap);
    }

    fn find_gap<V: Payload>(
        &self,
        view: MapleView<'_, V>,
        from: usize,
        progress: &Progress,
        rng: &mut fastrand::Rng,
    ) {
        let all = self.units.range(0, self.units.count - 1);
        let size = match &self.gap {
            Some(gap) => rng.u64(1..=gap.end() - gap.start() + 1),
            None => rng.u64(1..=self.units.size.saturating_mul(4)),
        };
        let highest = rng.bool();
        let found = match highest {
            false => view.find_gap(size, all.clone()),
            true => view.find_gap(size, Window::new(all.clone()).from_end()),
        };
        let to = progress.begun();
        let what = format!("{size} in {from}..={to}, highest {highest}: {found:?}");
        if let Some(found) = &found {
            assert_eq!(found.end() - found.start() + 1, size, "{what}");
            assert!(found.start() >= all.start() && found.end() <= all.end());
            let free = self.maps[from..=to].iter().any(|m| is_free(m, found));
            assert!(free, "{what}");
        }
        // The search finds the permanent gap, or one that is nearer.
        if let Some(gap) = &self.gap {
            let found = found.as_ref().expect(&what);
            match highest {
                false => assert!(found.start() <= gap.start(), "{what}"),
                true => assert!(found.end() >= gap.end(), "{what}"),
            }
        }
        if from == to {
            let wanted = match highest {
                false => self.maps[to].find_gap(size, 1, all.clone()),
                true => self.maps[to].find_gap_rev(size, 1, all.clone()),
            };
            assert_eq!(found, wanted, "{what}");
        }
    }
}

fn holds(map: &RangeMap<u32>, range: &Range, v: u32) -> bool {
    map.get_entry(*range.start()) == Some((range.clone(), &v))
}

fn is_free(map: &RangeMap<u32>, range: &Range) -> bool {
    map.range(range.clone()).next().is_none()
}

fn whole<V: Payload>(value: &V) -> u32 {
    match value.version() {
        Some(version) => version,
        None => panic!("{value:?} is not whole"),
    }
}

fn entry<V: Payload>(found: Option<(Range, &V)>) -> Option<(Range, u32)> {
    found.map(|(range, v)| (range, whole(v)))
}

//! What the tests of `MapleMap` have in common: a naive oracle, and a map that is compared with it after every step.
#![allow(dead_code)] // Each test uses its part.

#[path = "steps.rs"]
mod steps;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::maple::{MapleBuilder, MapleMap};

#[allow(unused_imports)]
pub use steps::steps;

pub type Range = RangeInclusive<u64>;

/// The last index.
pub const MAX: u64 = u64::MAX;

/// Entries in order: every question is answered by its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges<V> {
    pub entries: Vec<(Range, V)>,
}

impl<V: Clone> Ranges<V> {
    pub fn new() -> Self {
        Ranges {
            entries: Vec::new(),
        }
    }

    pub fn entry(&self, i: u64) -> Option<&(Range, V)> {
        let at = self.entries.partition_point(|(r, _)| *r.end() < i);
        self.entries.get(at).filter(|(r, _)| r.contains(&i))
    }

    pub fn get(&self, i: u64) -> Option<&V> {
        self.entry(i).map(|(_, v)| v)
    }

    /// The entries that overlap a range.
    pub fn overlapping(&self, range: &Range) -> &[(Range, V)] {
        let from = (self.entries).partition_point(|(r, _)| r.end() < range.start());
        let to = (self.entries).partition_point(|(r, _)| r.start() <= range.end());
        &self.entries[from..to]
    }

    pub fn clear(&mut self, range: &Range) {
        let from = (self.entries).partition_point(|(r, _)| r.end() < range.start());
        let to = (self.entries).partition_point(|(r, _)| r.start() <= range.end());
        let mut rest = Vec::new();
        for (r, v) in &self.entries[from..to] {
            if r.start() < range.start() {
                rest.push((*r.start()..=range.start() - 1, v.clone()));
            }
            if r.end() > range.end() {
                rest.push((range.end() + 1..=*r.end(), v.clone()));
            }
        }
        self.entries.splice(from..to, rest);
    }

    pub fn store(&mut self, range: Range, v: V) {
        self.clear(&range);
        let at = (self.entries).partition_point(|(r, _)| r.end() < range.start());
        self.entries.insert(at, (range, v));
    }

    /// Stores, as one entry with neighbours of equal value.
    pub fn coalesce(&mut self, range: Range, v: V) -> Range
    where
        V: PartialEq,
    {
        let (mut start, mut end) = (*range.start(), *range.end());
        self.clear(&range);
        if let Some((left, w)) = start.checked_sub(1).and_then(|i| self.entry(i)) {
            if *w == v {
                start = *left.start();
            }
        }
        if let Some((right, w)) = end.checked_add(1).and_then(|i| self.entry(i)) {
            if *w == v {
                end = *right.end();
            }
        }
        self.store(start..=end, v);
        start..=end
    }

    pub fn erase(&mut self, i: u64) -> Option<(Range, V)> {
        let at = self.entries.partition_point(|(r, _)| *r.end() < i);
        let found = self.entries.get(at).is_some_and(|(r, _)| r.contains(&i));
        found.then(|| self.entries.remove(at))
    }

    /// The largest free ranges, cut to a window.
    pub fn gaps(&self, within: &Range) -> Vec<Range> {
        let mut gaps = Vec::new();
        let mut from = Some(*within.start());
        for (r, _) in self.overlapping(within) {
            let Some(start) = from else { break };
            if start < *r.start() {
                gaps.push(start..=r.start() - 1);
            }
            from = r.end().checked_add(1);
        }
        if let Some(start) = from.filter(|start| start <= within.end()) {
            gaps.push(start..=*within.end());
        }
        gaps
    }

    /// What holds an index: an entry, or the whole gap.
    pub fn locate(&self, i: u64) -> (Range, Option<&V>) {
        if let Some((r, v)) = self.entry(i) {
            return (r.clone(), Some(v));
        }
        let gaps = self.gaps(&(0..=MAX));
        (gaps.into_iter().find(|g| g.contains(&i)).unwrap(), None)
    }

    pub fn find_gap(&self, size: u64, align: u64, within: &Range) -> Option<Range> {
        self.gaps(within).into_iter().find_map(|g| {
            let start = g.start().checked_next_multiple_of(align)?;
            let end = start.checked_add(size - 1)?;
            (end <= *g.end()).then_some(start..=end)
        })
    }

    pub fn find_gap_rev(&self, size: u64, align: u64, within: &Range) -> Option<Range> {
        self.gaps(within).into_iter().rev().find_map(|g| {
            let start = g.end().checked_sub(size - 1)? / align * align;
            (start >= *g.start()).then(|| start..=start + (size - 1))
        })
    }
}

/// Options that make mistakes loud: freed memory is poisoned.
pub fn loud() -> ArenaOptions {
    ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 26 })
        .debug(DebugMode::Poison)
}

/// Nodes so small that few entries make a high tree.
pub fn tiny<V: Clone + Send + Sync + 'static>() -> MapleBuilder<V> {
    MapleMap::builder().nodes(128, 4).options(loud())
}

/// Runs a test with tiny nodes, with some that do not halve evenly, and with those of every user.
pub fn each(test: impl Fn(MapleMap<u64>)) {
    test(tiny().build());
    test(MapleMap::builder().nodes(192, 7).options(loud()).build());
    test(MapleMap::new());
}

/// A map of copies that are whole, and the entries that it has, as a list.
pub fn listed<V: Clone + Send + Sync + 'static>(map: &MapleMap<V>) -> Vec<(Range, V)> {
    map.read(|view| view.iter().map(|(r, v)| (r, v.clone())).collect())
}

/// A map and what it must hold: each change is made to both, planned, counted, and followed by `verify`.
pub struct Checked<V: Clone + Send + Sync + PartialEq + Debug + 'static> {
    pub map: MapleMap<V>,
    pub oracle: Ranges<V>,
}

impl<V: Clone + Send + Sync + PartialEq + Debug + 'static> Checked<V> {
    pub fn new(map: MapleMap<V>) -> Self {
        let oracle = Ranges {
            entries: listed(&map),
        };
        Checked { map, oracle }
    }

    /// Compares everything.
    #[track_caller]
    pub fn agree(&self) {
        self.whole();
        assert_eq!(self.map.len(), self.oracle.entries.len());
        self.map.read(|view| {
            let wanted = self.oracle.entries.iter().map(|(r, v)| (r.clone(), v));
            assert!(
                view.iter().eq(wanted.clone()),
                "{:?} is not {:?}",
                self.map,
                self.oracle.entries
            );
            assert!(view.iter().rev().eq(wanted.rev()), "{:?}", self.map);
            assert!(view.gaps(0..=MAX).eq(self.oracle.gaps(&(0..=MAX))));
        });
    }

    /// The invariants alone, for maps that are too large to be compared each time.
    #[track_caller]
    pub fn whole(&self) {
        if let Err(wrong) = self.map.verify() {
            panic!("{wrong}: {:?}", self.map);
        }
    }

    /// Makes a change that was planned to need so many nodes; the number.
    #[track_caller]
    fn counted<T>(&self, planned: usize, change: impl FnOnce(&MapleMap<V>) -> T) -> (usize, T) {
        let before = self.map.memory().nodes_made;
        let done = change(&self.map);
        let memory = self.map.memory();
        let made = (memory.nodes_made - before) as usize;
        assert_eq!(planned, made, "planned and made");
        assert_eq!(memory.reserved, (0, 0));
        assert_eq!(memory.entries, self.map.len());
        (made, done)
    }

    /// Stores; the number of nodes that it took.
    #[track_caller]
    pub fn store(&mut self, range: Range, v: V) -> usize {
        let made = self.quick_store(range, v);
        self.agree();
        made
    }

    /// As `store`, without comparing everything.
    #[track_caller]
    pub fn quick_store(&mut self, range: Range, v: V) -> usize {
        let plan = self.map.plan_store(range.clone(), &v).unwrap();
        let (made, ()) = self.counted(plan.nodes(), |map| {
            map.store(range.clone(), v.clone()).unwrap();
        });
        self.oracle.store(range, v);
        made
    }

    /// Inserts when nothing is in the way, and sees to it that nothing changes otherwise. Whether it did.
    #[track_caller]
    pub fn insert(&mut self, range: Range, v: V) -> bool {
        let blocked = self.oracle.overlapping(&range).first();
        let blocked = blocked.map(|(r, _)| (*r.start(), *r.end()));
        let before = self.map.memory().nodes_made;
        let done = self.map.insert(range.clone(), v.clone());
        match (done, blocked) {
            (Ok(()), None) => self.oracle.store(range, v),
            (Err(rejected), Some((start, end))) => {
                assert_eq!(rejected.value, v);
                assert_eq!(rejected.error, Error::Occupied { start, end });
                assert_eq!(self.map.memory().nodes_made, before);
            }
            (done, blocked) => panic!("{range:?}: {done:?}, {blocked:?} is in the way"),
        }
        self.agree();
        blocked.is_none()
    }

    /// Erases; the number of nodes that it took, and what was there.
    #[track_caller]
    pub fn erase(&mut self, i: u64) -> (usize, Option<(Range, V)>) {
        let done = self.quick_erase(i);
        self.agree();
        done
    }

    /// As `erase`, without comparing everything.
    #[track_caller]
    pub fn quick_erase(&mut self, i: u64) -> (usize, Option<(Range, V)>) {
        let plan = self.map.plan_erase(i);
        let (made, found) = self.counted(plan.nodes(), |map| map.erase(i).unwrap());
        assert_eq!(found, self.oracle.erase(i), "{i}");
        (made, found)
    }

    /// Clears; the number of nodes that it took.
    #[track_caller]
    pub fn clear_range(&mut self, range: Range) -> usize {
        let plan = self.map.plan_clear(range.clone()).unwrap();
        let (made, ()) = self.counted(plan.nodes(), |map| {
            map.clear_range(range.clone()).unwrap();
        });
        self.oracle.clear(&range);
        self.agree();
        made
    }
}

//! The common parts of the tests of `MapleMap`: a map that is compared with the naive one after
//! every step.
#![allow(dead_code)] // Each test uses only a part of it.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use sapwood::Builder;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::maple::Error;
use sapwood::maple::MapleMap;
use sapwood_model::oracle::RangeMap;

#[allow(unused_imports)]
pub use super::steps::steps;

pub type Range = RangeInclusive<u64>;

/// The last index.
pub const MAX: u64 = u64::MAX;

/// Options that detect misuse: freed memory is poisoned.
pub fn loud() -> ArenaOptions {
    ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 26 })
        .debug(DebugMode::Poison)
}

/// Nodes so small that few entries make a high tree.
pub fn tiny<V: Clone + Send + Sync + 'static>() -> Builder<MapleMap<V>> {
    MapleMap::builder().nodes(128, 4).options(loud())
}

/// Runs a test with tiny nodes, with nodes that do not halve evenly, and with the usual nodes.
pub fn each(test: impl Fn(MapleMap<u64>)) {
    test(tiny().build());
    test(MapleMap::builder().nodes(192, 7).options(loud()).build());
    test(MapleMap::new());
}

/// The entries of a map, with copies of their values.
pub fn listed<V: Clone + Send + Sync + 'static>(map: &MapleMap<V>) -> Vec<(Range, V)> {
    map.read(|view| view.iter().map(|(r, v)| (r, v.clone())).collect())
}

/// A found entry, with a copy of its value.
pub fn copied<V: Clone>(found: Option<(Range, &V)>) -> Option<(Range, V)> {
    found.map(|(range, v)| (range, v.clone()))
}

/// A map and its expected contents: each change is applied to both, planned and counted, and
/// followed by `verify`.
pub struct Checked<V: Clone + Send + Sync + PartialEq + Debug + 'static> {
    pub map: MapleMap<V>,
    pub oracle: RangeMap<V>,
}

impl<V: Clone + Send + Sync + PartialEq + Debug + 'static> Checked<V> {
    pub fn new(map: MapleMap<V>) -> Self {
        let mut oracle = RangeMap::new();
        for (range, v) in listed(&map) {
            oracle.store(range, v);
        }
        Checked { map, oracle }
    }

    /// Compares everything.
    #[track_caller]
    pub fn agree(&self) {
        self.whole();
        assert_eq!(self.map.len(), self.oracle.len());
        self.map.read(|view| {
            let oracle = &self.oracle;
            assert!(view.iter().eq(oracle.iter()), "{view:?} is not {oracle:?}");
            assert!(view.iter().rev().eq(oracle.iter().rev()), "{view:?}");
            let gaps = oracle.gaps(0..=MAX);
            assert!(view.gaps(0..=MAX).eq(gaps.iter().cloned()), "{view:?}");
            assert!(view.gaps(0..=MAX).rev().eq(gaps.into_iter().rev()));
        });
    }

    /// Verifies only the invariants, for maps that are too large to be compared each time.
    #[track_caller]
    pub fn whole(&self) {
        if let Err(wrong) = self.map.verify() {
            panic!("{wrong}: {:?}", self.map);
        }
    }

    /// Makes a change whose plan states this number of nodes; returns the number and the result.
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

    /// Stores; returns the number of nodes made.
    #[track_caller]
    pub fn store(&mut self, range: Range, v: V) -> usize {
        let made = self.quick_store(range, v);
        self.agree();
        made
    }

    /// Does the same as `store`, without comparing everything.
    #[track_caller]
    pub fn quick_store(&mut self, range: Range, v: V) -> usize {
        let plan = self.map.plan_store(range.clone(), &v).unwrap();
        let (made, ()) = self.counted(plan.nodes(), |map| {
            map.store(range.clone(), v.clone()).unwrap();
        });
        self.oracle.store(range, v);
        made
    }

    /// Inserts if the range is free; otherwise checks that nothing changes. Returns whether it
    /// inserted.
    #[track_caller]
    pub fn insert_new(&mut self, range: Range, v: V) -> bool {
        let blocked = self.oracle.range(range.clone()).next();
        let blocked = blocked.map(|(r, _)| r.into_inner());
        let before = self.map.memory().nodes_made;
        let done = self.map.insert_new(range.clone(), v.clone());
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

    /// Erases; returns the number of nodes made, and the erased entry.
    #[track_caller]
    pub fn remove(&mut self, i: u64) -> (usize, Option<(Range, V)>) {
        let done = self.quick_remove(i);
        self.agree();
        done
    }

    /// Does the same as `remove`, without comparing everything.
    #[track_caller]
    pub fn quick_remove(&mut self, i: u64) -> (usize, Option<(Range, V)>) {
        let plan = self.map.plan_remove(i);
        let (made, found) = self.counted(plan.nodes(), |map| map.remove(i).unwrap());
        assert_eq!(found, self.oracle.remove(i), "{i}");
        (made, found)
    }

    /// Clears; returns the number of nodes made.
    #[track_caller]
    pub fn clear_range(&mut self, range: Range) -> usize {
        let plan = self.map.plan_clear(range.clone()).unwrap();
        let (made, ()) = self.counted(plan.nodes(), |map| {
            map.clear_range(range.clone()).unwrap();
        });
        self.oracle.clear_range(range);
        self.agree();
        made
    }
}

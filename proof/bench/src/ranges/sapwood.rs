//! Sapwood's `MapleMap`, read through one view and changed by single calls, and `RangeMap`.

use ::sapwood::maple::{MapleMap, RangeMap};

use super::requests::{Change, Shape};
use super::{Engine, EntrySum, Op, Query, Requests, Tally};
use crate::engines::sapwood::mapped;

/// `MapleMap`.
pub struct Sapwood(MapleMap<u64>);

impl Engine for Sapwood {
    const NAME: &'static str = "sapwood";

    fn empty() -> Result<Self, String> {
        Ok(Self(MapleMap::new()))
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.store(start..=end, value).expect("there is memory");
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        let erased = self.0.remove(index).expect("there is memory");
        erased.map(|(_, value)| value)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.0.clear_range(start..=end).expect("there is memory");
    }

    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(index)
    }

    fn loads(&self, indices: &[u64]) -> Tally {
        self.0
            .read(|view| Tally::of(indices, |index| view.get(index).copied()))
    }

    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        self.0
            .read(|view| Tally::dependent(indices, |index| view.get(index).copied()))
    }

    fn entries(&self) -> EntrySum {
        self.0.read(|view| {
            let entries = view.iter();
            EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
        })
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let found = self.0.find_gap(size, from..=to);
        found.map(|range| *range.start())
    }

    fn gaps(&self, queries: &[Query]) -> Tally {
        let mut tally = Tally::default();
        self.0.read(|view| {
            for Query { size, from, to } in queries.iter().copied() {
                let found = view.find_gap(size, from..=to);
                tally.add(found.map(|range| *range.start()));
            }
        });
        tally
    }

    fn alloc(&mut self, Query { size, from, to }: Query, value: u64) -> Option<u64> {
        let place = self.0.alloc_range(size, from..=to, value);
        place.ok().map(|range| *range.start())
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().arena.committed
    }

    fn requests(base: &[Op], changes: &[Op]) -> Option<Requests> {
        let map = MapleMap::new();
        for op in base {
            planned(&map, op);
        }
        let mut requests = Requests::default();
        let (mut before, mut made) = shape(&map);
        for op in changes {
            let planned = planned(&map, op);
            let (after, now) = shape(&map);
            let used = now - made;
            assert_eq!(planned as u64, used, "nodes planned and made: {op:?}");
            requests.add(Change {
                stores: matches!(op, Op::Store { .. } | Op::Alloc { .. }),
                planned,
                used,
                before,
                after,
            });
            (before, made) = (after, now);
        }
        Some(requests)
    }
}

/// `RangeMap`.
pub struct Owned(RangeMap<u64>);

impl Engine for Owned {
    const NAME: &'static str = "sapwood-owned";

    fn empty() -> Result<Self, String> {
        Ok(Self(RangeMap::new()))
    }

    fn store(&mut self, start: u64, end: u64, value: u64) {
        self.0.store(start..=end, value).expect("there is memory");
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        let erased = self.0.remove(index).expect("there is memory");
        erased.map(|(_, value)| value)
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.0.clear_range(start..=end).expect("there is memory");
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(index).copied()
    }

    fn entries(&self) -> EntrySum {
        let entries = self.0.iter();
        EntrySum::of(entries.map(|(range, value)| (*range.start(), *range.end(), *value)))
    }

    fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
        let found = self.0.find_gap(size, from..=to);
        found.map(|range| *range.start())
    }

    fn alloc(&mut self, Query { size, from, to }: Query, value: u64) -> Option<u64> {
        let place = self.0.alloc_range(size, from..=to, value);
        place.ok().map(|range| *range.start())
    }

    fn mapped_bytes(&self) -> usize {
        mapped(&self.0.memory().arena)
    }
}

/// Plans a change, reserves its nodes and carries it out; returns the number of nodes requested.
fn planned(map: &MapleMap<u64>, op: &Op) -> usize {
    let store = |plan, value| {
        let reserved = map.reserve(plan).expect("there is memory");
        let nodes = reserved.nodes();
        reserved.store(value);
        nodes
    };
    let erase = |plan| {
        let reserved = map.reserve_erase(plan).expect("there is memory");
        let nodes = reserved.nodes();
        reserved.erase();
        nodes
    };
    match *op {
        Op::Store { start, end, value } => {
            let plan = map.plan_store(start..=end, &value).expect("a good range");
            store(plan, value)
        }
        Op::Alloc {
            within: Query { size, from, to },
            value,
        } => match map.plan_alloc(size, from..=to, &value) {
            Ok(plan) => store(plan, value),
            Err(_) => 0,
        },
        Op::Clear { start, end } => erase(map.plan_clear(start..=end).expect("a good range")),
        Op::Erase { index } => erase(map.plan_remove(index)),
    }
}

/// The size of the map's tree, and the number of nodes that the map has made so far.
fn shape(map: &MapleMap<u64>) -> (Shape, u64) {
    let memory = map.memory();
    let shape = Shape {
        levels: match memory.entries {
            0 => 0,
            _ => memory.height + 1,
        },
        leaves: memory.leaves.0,
        inner: memory.inner.0,
        entries: memory.entries,
    };
    (shape, memory.nodes_made)
}

//! Sapwood's `MapleMap`, read through one view and changed by single calls, and `RangeMap`; both
//! with indices of 64 bits and of 128.

use std::ops::RangeInclusive;

use ::sapwood::maple::{Index, MapleMap, RangeMap};

use super::requests::{Change, Shape};
use super::{Engine, EntrySum, Op, Query, Requests, Tally};
use crate::engines::sapwood::mapped;

/// Indices of an engine, which stand for those of the benchmark.
pub trait Key: Index {
    /// The engine's name in tables and records, and that of the owned map.
    const NAMES: [&'static str; 2];

    fn of(index: u64) -> Self;

    fn index(self) -> u64;

    fn size(size: u64) -> Self::Word;
}

impl Key for u64 {
    const NAMES: [&'static str; 2] = ["sapwood", "sapwood-owned"];

    #[inline(always)]
    fn of(index: u64) -> u64 {
        index
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self
    }

    #[inline(always)]
    fn size(size: u64) -> u64 {
        size
    }
}

/// Where the indices of 128 bits begin.
const BASE: u128 = 0x2001_0db8 << 96;

impl Key for u128 {
    const NAMES: [&'static str; 2] = ["sapwood-u128", "sapwood-owned-u128"];

    #[inline(always)]
    fn of(index: u64) -> u128 {
        BASE | u128::from(index)
    }

    #[inline(always)]
    fn index(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn size(size: u64) -> u128 {
        size.into()
    }
}

#[inline(always)]
fn range<K: Key>(start: u64, end: u64) -> RangeInclusive<K> {
    K::of(start)..=K::of(end)
}

#[inline(always)]
fn first<K: Key>(range: RangeInclusive<K>) -> u64 {
    range.start().index()
}

#[inline(always)]
fn entry<K: Key>((range, value): (RangeInclusive<K>, &u64)) -> (u64, u64, u64) {
    (range.start().index(), range.end().index(), *value)
}

/// The methods that are the same for both maps.
macro_rules! same {
    () => {
        fn store(&mut self, start: u64, end: u64, value: u64) {
            let stored = self.0.store(range::<K>(start, end), value);
            stored.expect("there is memory");
        }

        fn erase(&mut self, index: u64) -> Option<u64> {
            let erased = self.0.remove(K::of(index)).expect("there is memory");
            erased.map(|(_, value)| value)
        }

        fn clear(&mut self, start: u64, end: u64) {
            let cleared = self.0.clear_range(range::<K>(start, end));
            cleared.expect("there is memory");
        }

        fn gap(&self, Query { size, from, to }: Query) -> Option<u64> {
            let found = self.0.find_gap(K::size(size), range::<K>(from, to));
            found.map(first)
        }

        fn alloc(&mut self, Query { size, from, to }: Query, value: u64) -> Option<u64> {
            let within = range::<K>(from, to);
            let place = self.0.alloc_range(K::size(size), within, value);
            place.ok().map(first)
        }
    };
}

/// `MapleMap`.
pub struct Sapwood<K: Key>(MapleMap<u64, K>);

impl<K: Key> Engine for Sapwood<K> {
    const NAME: &'static str = K::NAMES[0];

    fn empty() -> Result<Self, String> {
        Ok(Self(MapleMap::default()))
    }

    same!();

    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(K::of(index))
    }

    fn loads(&self, indices: &[u64]) -> Tally {
        self.0
            .read(|view| Tally::of(indices, |index| view.get(K::of(index)).copied()))
    }

    fn loads_dependent(&self, indices: &[u64]) -> Tally {
        self.0
            .read(|view| Tally::dependent(indices, |index| view.get(K::of(index)).copied()))
    }

    fn entries(&self) -> EntrySum {
        self.0.read(|view| EntrySum::of(view.iter().map(entry)))
    }

    fn gaps(&self, queries: &[Query]) -> Tally {
        let mut tally = Tally::default();
        self.0.read(|view| {
            for Query { size, from, to } in queries.iter().copied() {
                let found = view.find_gap(K::size(size), range::<K>(from, to));
                tally.add(found.map(first));
            }
        });
        tally
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().arena.committed
    }

    fn requests(base: &[Op], changes: &[Op]) -> Option<Requests> {
        let map = MapleMap::<u64, K>::default();
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
pub struct Owned<K: Key>(RangeMap<u64, K>);

impl<K: Key> Engine for Owned<K> {
    const NAME: &'static str = K::NAMES[1];

    fn empty() -> Result<Self, String> {
        Ok(Self(RangeMap::default()))
    }

    same!();

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        self.0.get(K::of(index)).copied()
    }

    fn entries(&self) -> EntrySum {
        EntrySum::of(self.0.iter().map(entry))
    }

    fn mapped_bytes(&self) -> usize {
        mapped(&self.0.memory().arena)
    }
}

/// Plans a change, reserves its nodes and carries it out; returns the number of nodes requested.
fn planned<K: Key>(map: &MapleMap<u64, K>, op: &Op) -> usize {
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
            let plan = map.plan_store(range::<K>(start, end), &value);
            let plan = plan.expect("a good range");
            store(plan, value)
        }
        Op::Alloc {
            within: Query { size, from, to },
            value,
        } => match map.plan_alloc(K::size(size), range::<K>(from, to), &value) {
            Ok(plan) => store(plan, value),
            Err(_) => 0,
        },
        Op::Clear { start, end } => erase(
            map.plan_clear(range::<K>(start, end))
                .expect("a good range"),
        ),
        Op::Erase { index } => erase(map.plan_remove(K::of(index))),
    }
}

/// The size of the map's tree, and the number of nodes that the map has made so far.
fn shape<K: Key>(map: &MapleMap<u64, K>) -> (Shape, u64) {
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

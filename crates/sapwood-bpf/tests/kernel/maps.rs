//! The maps over byte strings that user space writes, for tests that each of them passes.

use std::fmt::Debug;
use std::ops::ControlFlow;

use sapwood::qp::{PointMap, QpShared, QpStore};
use sapwood_bpf::{
    BpfArena, CheckedReader, NamesInWindow, UserMap, UserPointMap, UserStore, WindowMapBuilder,
};

/// What the maps can do.
pub trait Names: NamesInWindow<Value = u64> + Debug + Send + Sync {
    fn put(&self, key: &[u8], value: u64);
    /// Removes a key; whether it was there.
    fn take(&self, key: &[u8]) -> bool;
    fn value(&self, key: &[u8]) -> Option<u64>;
    fn count(&self) -> usize;
    /// In order of keys.
    fn entries(&self) -> Vec<(Vec<u8>, u64)>;
    /// Removes all entries; how many.
    fn empty(&self) -> usize;
    fn check(&self);
    /// Moves branches, if there are any; whether there are more to move.
    fn tidy(&self, budget: usize) -> bool;
    /// Pins the map for a moment.
    fn rest(&self);
}

macro_rules! names {
    ($map:ident, $tidy:expr) => {
        impl Names for $map<u64> {
            fn put(&self, key: &[u8], value: u64) {
                self.insert(key, value).unwrap();
            }

            fn take(&self, key: &[u8]) -> bool {
                self.remove(key).unwrap()
            }

            fn value(&self, key: &[u8]) -> Option<u64> {
                self.get(key)
            }

            fn count(&self) -> usize {
                self.len()
            }

            fn entries(&self) -> Vec<(Vec<u8>, u64)> {
                let mut all = Vec::new();
                let _ = self.for_each(|key, value| {
                    all.push((key.to_vec(), *value));
                    ControlFlow::<()>::Continue(())
                });
                all.sort_unstable();
                all
            }

            fn empty(&self) -> usize {
                self.clear().unwrap()
            }

            fn check(&self) {
                self.verify().unwrap();
            }

            fn tidy(&self, budget: usize) -> bool {
                let tidy: fn(&$map<u64>, usize) -> bool = $tidy;
                tidy(self, budget)
            }

            fn rest(&self) {
                drop(self.pin());
            }
        }
    };
}

names!(QpShared, |map, budget| map.compact_step(budget).unwrap());
names!(PointMap, |_, _| false);

/// Each change is a commit.
impl Names for QpStore<u64> {
    fn put(&self, key: &[u8], value: u64) {
        let mut txn = self.begin();
        txn.insert(key, value).unwrap();
        txn.commit();
    }

    fn take(&self, key: &[u8]) -> bool {
        let mut txn = self.begin();
        let there = txn.remove(key).unwrap().is_some();
        txn.commit();
        there
    }

    fn value(&self, key: &[u8]) -> Option<u64> {
        self.get(key)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn entries(&self) -> Vec<(Vec<u8>, u64)> {
        let snapshot = self.snapshot();
        let all = snapshot.iter();
        all.map(|(key, value)| (key.to_vec(), *value)).collect()
    }

    fn empty(&self) -> usize {
        let mut txn = self.begin();
        let there = txn.clear().unwrap();
        txn.commit();
        there
    }

    fn check(&self) {
        self.verify().unwrap();
    }

    fn tidy(&self, budget: usize) -> bool {
        self.compact_step(budget).unwrap()
    }

    fn rest(&self) {
        drop(self.pin());
    }
}

/// A map and how it is made.
pub trait Kind {
    type Map: Names;
    const NAME: &'static str;
    const HAS_TRIE: bool;
    const HAS_INDEX: bool;
    /// How programs look keys up: see `lookup`.
    const WHATS: &'static [u32];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map>;
}

/// A trie alone.
pub struct Trie;
/// A trie and an index.
pub struct Both;
/// An index alone.
pub struct Points;

impl Kind for Trie {
    type Map = QpShared<u64>;
    const NAME: &'static str = "trie";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = false;
    const WHATS: &'static [u32] = &[0, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserMap::builder(arena, name)
    }
}

impl Kind for Both {
    type Map = QpShared<u64>;
    const NAME: &'static str = "both";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = true;
    const WHATS: &'static [u32] = &[0, 1, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserMap::builder(arena, name).with_index()
    }
}

impl Kind for Points {
    type Map = PointMap<u64>;
    const NAME: &'static str = "points";
    const HAS_TRIE: bool = false;
    const HAS_INDEX: bool = true;
    const WHATS: &'static [u32] = &[1, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserPointMap::builder(arena, name)
    }
}

/// A store.
pub struct Stores;

impl Kind for Stores {
    type Map = QpStore<u64>;
    const NAME: &'static str = "store";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = false;
    const WHATS: &'static [u32] = &[0, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserStore::builder(arena, name)
    }
}

/// All entries that a reader finds, in order of keys.
pub fn all(map: &CheckedReader<u64>) -> Vec<(Vec<u8>, u64)> {
    let mut all: Vec<_> = map.unordered().map(|entry| entry.unwrap()).collect();
    if map.has_order().unwrap() {
        assert!(map.iter().map(|entry| entry.unwrap()).eq(all.clone()));
    }
    all.sort_unstable();
    all
}

/// Tests of each kind of map that they fit, in a module of the kind.
#[macro_export]
macro_rules! tests_of_maps {
    ($($module:ident: $kind:ident { $($test:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                if !super::skipped() {
                    super::$test::<super::$kind>();
                }
            })*
        })*
    };
}

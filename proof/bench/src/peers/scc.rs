//! scc: a B+ tree for many readers, and a hash map with a lock for each bucket of entries, which
//! readers share.

use scc::{HashMap, TreeIndex};

use crate::concurrent::{ConcurrentEngine, Session};
use crate::engines::{Built, Engine, in_turns};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `TreeIndex`, without its searches in order. `TreeIndex::range` searches child after child for a
/// leaf with a lesser key (scc 3.8, `InternalNode::approximate`). Over a million names, or 100,000
/// paths, one search did not end within minutes.
///
/// One guard covers a pass of lookups.
pub struct Tree(TreeIndex<Box<[u8]>, u64>);

impl Engine for Tree {
    const NAME: &'static str = "scc-treeindex";

    fn build(pairs: &KeyList) -> Self {
        let map = TreeIndex::new();
        for (key, value) in pairs.iter() {
            map.insert_sync(Box::from(key), value)
                .expect("no key comes twice");
        }
        Self(map)
    }
}

impl Built for Tree {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.peek(key, &sdd::Guard::new()).copied()
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        let guard = sdd::Guard::new();
        Tally::of(keys, |key| self.0.peek(key, &guard).copied())
    }

    fn scan(&self) -> ScanSum {
        let guard = sdd::Guard::new();
        ScanSum::of(self.0.iter(&guard).map(|(key, value)| (&**key, *value)))
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.0.remove_sync(old);
            self.0
                .insert_sync(Box::from(new), value)
                .expect("no key comes twice");
        });
    }
}

/// `scc::HashMap`. One guard covers a run of keys, so that the guards inside the calls are cheap.
pub struct Hash(HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>);

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
    guard: Option<sdd::Guard>,
}

impl ConcurrentEngine for Hash {
    const NAME: &'static str = "scc-hashmap";

    fn new() -> Self {
        Self(HashMap::default())
    }

    fn session(&self) -> impl Session {
        Guarded {
            map: &self.0,
            guard: Some(sdd::Guard::new()),
        }
    }
}

impl Session for Guarded<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.read_sync(key, |_, value| *value)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map.insert_sync(Box::from(key), value).is_ok()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.map
            .update_sync(key, |_, place| std::mem::replace(place, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map.remove_sync(key).map(|(_, value)| value)
    }

    fn pause(&mut self) {
        // The old guard ends before the new one starts: nested guards would be one.
        drop(self.guard.take());
        self.guard = Some(sdd::Guard::new());
    }
}

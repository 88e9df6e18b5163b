//! scc's B+ tree for many readers.

use scc::TreeIndex;

use super::{Engine, in_turns};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `TreeIndex`, without its searches in order. `TreeIndex::range` searches child after child for a
/// leaf with a lesser key (scc 3.8, `InternalNode::approximate`). Over a million names, or 100,000
/// paths, one search did not end within minutes.
///
/// One guard covers a pass of lookups.
pub struct Scc(TreeIndex<Box<[u8]>, u64>);

impl Engine for Scc {
    const NAME: &'static str = "scc-treeindex";

    fn build(pairs: &KeyList) -> Self {
        let map = TreeIndex::new();
        for (key, value) in pairs.iter() {
            map.insert_sync(Box::from(key), value)
                .expect("no key comes twice");
        }
        Self(map)
    }

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

//! The standard library's B-tree.

use std::collections::BTreeMap;

use super::Engine;
use crate::keylist::{KeyList, ScanSum};

/// `BTreeMap` with owned keys.
pub struct Btree(BTreeMap<Box<[u8]>, u64>);

impl Engine for Btree {
    const NAME: &'static str = "std-btreemap";

    fn build(pairs: &KeyList) -> Self {
        let mut map = BTreeMap::new();
        for (key, value) in pairs.iter() {
            map.insert(Box::from(key), value);
        }
        Self(map)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn scan(&self) -> ScanSum {
        ScanSum::of(self.0.iter().map(|(key, value)| (&**key, *value)))
    }
}

//! Hash maps with owned keys.

use std::collections::HashMap;

use super::Engine;
use crate::keylist::{KeyList, ScanSum};

/// hashbrown with foldhash: the fastest that is in wide use, and what others are measured against.
pub struct Foldhash(hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>);

impl Engine for Foldhash {
    const NAME: &'static str = "hashbrown-foldhash";
    const ORDERED: bool = false;

    fn build(pairs: &KeyList) -> Self {
        let mut map = hashbrown::HashMap::default();
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

/// The standard library's, with its default SipHash.
pub struct Std(HashMap<Box<[u8]>, u64>);

impl Engine for Std {
    const NAME: &'static str = "std-hashmap";
    const ORDERED: bool = false;

    fn build(pairs: &KeyList) -> Self {
        let mut map = HashMap::new();
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

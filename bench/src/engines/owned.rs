//! Maps that have the methods of the standard library's, with owned keys.

use std::collections::{BTreeMap, HashMap};

use super::Engine;
use crate::keylist::{KeyList, ScanSum};

/// hashbrown with foldhash: the fastest that is in wide use, and what others are measured against.
pub type Foldhash = hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>;
/// The standard library's, with its default SipHash.
pub type Std = HashMap<Box<[u8]>, u64>;
/// The standard library's B-tree.
pub type Btree = BTreeMap<Box<[u8]>, u64>;
/// The crate qp-trie: a nibble at a time, safe Rust, vectors of children. It takes the lower nibble
/// of a byte first, so its order is not that of the bytes (0x52 comes after 0x61), and its scan is
/// not timed.
pub type QpTrie = qp_trie::Trie<Box<[u8]>, u64>;

macro_rules! engines {
    ($($map:ident = $name:literal, ordered: $ordered:literal;)*) => {$(
        impl Engine for $map {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;

            fn build(pairs: &KeyList) -> Self {
                let mut map = Self::default();
                for (key, value) in pairs.iter() {
                    map.insert(Box::from(key), value);
                }
                map
            }

            #[inline]
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.get(key).copied()
            }

            fn scan(&self) -> ScanSum {
                ScanSum::of(self.iter().map(|(key, value)| (&**key, *value)))
            }
        }
    )*};
}

engines! {
    Foldhash = "hashbrown-foldhash", ordered: false;
    Std = "std-hashmap", ordered: false;
    Btree = "std-btreemap", ordered: true;
    QpTrie = "qp-trie", ordered: false;
}

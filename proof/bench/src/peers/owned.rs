//! Maps with the methods of the standard library's maps and with owned keys.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::answer::{Answer, AnswerSum};
use crate::engines::{Built, Engine, in_turns};
use crate::keylist::{KeyList, ScanSum};

/// hashbrown with foldhash: the fastest hash map in wide use, and the base of the ratios.
pub type Foldhash = hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>;
/// The standard library's hash map, with its default SipHash.
pub type Std = HashMap<Box<[u8]>, u64>;
/// The standard library's B-tree.
pub type Btree = BTreeMap<Box<[u8]>, u64>;
/// The crate qp-trie: it branches on one nibble at a time, in safe Rust, with vectors of children.
/// It takes the lower nibble of a byte first. Its order is therefore not that of the bytes (0x52
/// comes after 0x61), and its scan is not timed.
pub type QpTrie = qp_trie::Trie<Box<[u8]>, u64>;

macro_rules! engines {
    ($($map:ident = $name:literal, ordered: $ordered:literal { $($ordered_methods:tt)* })*) => {$(
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
        }

        impl Built for $map {
            #[inline]
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.get(key).copied()
            }

            fn scan(&self) -> ScanSum {
                ScanSum::of(self.iter().map(|(key, value)| (&**key, *value)))
            }

            fn replace(&mut self, old: &KeyList, new: &KeyList) {
                in_turns(old, new, |old, new, value| {
                    self.remove(old);
                    self.insert(Box::from(new), value);
                });
            }

            $($ordered_methods)*
        }
    )*};
}

engines! {
    Foldhash = "hashbrown-foldhash", ordered: false {
        fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
            Some(AnswerSum::of_above(names, |key| self.get(key).copied()))
        }
    }
    Std = "std-hashmap", ordered: false {}
    Btree = "std-btreemap", ordered: true {
        fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
            Some(ScanSum::ranges(starts, count, |start| {
                let entries = self.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
                entries.map(|(key, value)| (&**key, *value))
            }))
        }

        fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
            Some(ScanSum::ranges(keys, 1, |key| {
                let entries = self.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key)));
                entries.rev().map(|(key, value)| (&**key, *value))
            }))
        }

        fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
            Some(AnswerSum::of(names, |name| {
                let mut before = self.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(name)));
                let mut from = self.range::<[u8], _>((Bound::Included(name), Bound::Unbounded));
                Answer::in_order(
                    name,
                    before.next_back().map(|(key, value)| (&**key, *value)),
                    from.next().map(|(key, value)| (&**key, *value)),
                    |key| self.get(key).copied(),
                )
            }))
        }
    }
    QpTrie = "qp-trie", ordered: false {}
}

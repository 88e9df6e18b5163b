//! The crate qp-trie: a nibble at a time, safe Rust, vectors of children.

use qp_trie::Trie;

use super::Engine;
use crate::keylist::{KeyList, ScanSum};

/// `qp_trie::Trie` with owned keys. It takes the lower nibble of a byte first, so its order is not that of the
/// bytes (0x52 comes after 0x61), and its scan is not timed.
pub struct QpTrie(Trie<Box<[u8]>, u64>);

impl Engine for QpTrie {
    const NAME: &'static str = "qp-trie";
    const ORDERED: bool = false;

    fn build(pairs: &KeyList) -> Self {
        let mut map = Trie::new();
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

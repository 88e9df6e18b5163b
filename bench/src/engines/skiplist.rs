//! crossbeam's lock-free skip list.

use crossbeam_skiplist::SkipMap;

use super::Engine;
use crate::keylist::{KeyList, ScanSum, Tally};

/// `SkipMap`. A pass runs inside one pin, so that the pins of the calls are cheap.
pub struct Skiplist(SkipMap<Box<[u8]>, u64>);

impl Engine for Skiplist {
    const NAME: &'static str = "crossbeam-skipmap";

    fn build(pairs: &KeyList) -> Self {
        let _pin = crossbeam_epoch::pin();
        let map = SkipMap::new();
        for (key, value) in pairs.iter() {
            map.insert(Box::from(key), value);
        }
        Self(map)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(|entry| *entry.value())
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        let _pin = crossbeam_epoch::pin();
        Tally::of(keys, |key| self.get(key))
    }

    fn scan(&self) -> ScanSum {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for entry in self.0.iter() {
            sum.add(entry.key(), *entry.value());
        }
        sum
    }
}

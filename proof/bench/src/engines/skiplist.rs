//! crossbeam's lock-free skip list.

use std::ops::Bound;

use crossbeam_skiplist::SkipMap;

use super::{Engine, in_turns};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `SkipMap`. One pin covers a pass, so that the pins inside the calls are cheap.
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

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for (start, _) in starts.iter() {
            let bounds = (Bound::Included(start), Bound::Unbounded);
            for entry in self.0.range::<[u8], _>(bounds).take(count) {
                sum.add(entry.key(), *entry.value());
            }
        }
        Some(sum)
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        let _pin = crossbeam_epoch::pin();
        let mut sum = ScanSum::default();
        for (key, _) in keys.iter() {
            if let Some(entry) = self.0.upper_bound::<[u8]>(Bound::Excluded(key)) {
                sum.add(entry.key(), *entry.value());
            }
        }
        Some(sum)
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.0.remove(old);
            self.0.insert(Box::from(new), value);
        });
    }
}

//! Ours without order: the point index alone, for many writers, used by one thread.

use std::time::Duration;

use sapwood::qp::PointMap;

use super::{Engine, longest};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `PointMap`.
pub struct Points(PointMap<u64>);

fn new() -> PointMap<u64> {
    PointMap::new().expect("there is address space")
}

impl Engine for Points {
    const NAME: &'static str = "sapwood-points";
    const ORDERED: bool = false;

    fn build(pairs: &KeyList) -> Self {
        let map = new();
        for (key, value) in pairs.iter() {
            map.insert(key, value).expect("the key fits");
        }
        Self(map)
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        let map = new();
        Some(longest(pairs, |key, value| {
            map.insert(key, value).expect("the key fits");
        }))
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    /// Under one guard, as a reader has it.
    fn lookups(&self, keys: &KeyList) -> Tally {
        let pin = self.0.pin();
        Tally::of(keys, |key| pin.view().get(key).copied())
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        let pin = self.0.pin();
        Some(Tally::chained(keys, |key| pin.view().get(key).copied()))
    }

    fn scan(&self) -> ScanSum {
        let pin = self.0.pin();
        ScanSum::of(pin.view().iter().map(|(key, value)| (key, *value)))
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().arena.committed
    }
}

//! Ours for many writers, used by one thread: without and with the point index.

use std::time::Duration;

use sapwood::qp::QpShared;

use super::{Engine, longest};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `QpShared`.
pub struct Shared(QpShared<u64>);

fn new() -> QpShared<u64> {
    QpShared::new().expect("there is address space")
}

fn indexed() -> QpShared<u64> {
    let map = QpShared::builder().with_index().build();
    map.expect("there is address space")
}

fn worst(map: &QpShared<u64>, pairs: &KeyList) -> Option<Duration> {
    Some(longest(pairs, |key, value| {
        map.insert(key, value).expect("the key fits");
    }))
}

impl Shared {
    fn filled(map: QpShared<u64>, pairs: &KeyList) -> Self {
        for (key, value) in pairs.iter() {
            map.insert(key, value).expect("the key fits");
        }
        Self(map)
    }
}

impl Engine for Shared {
    const NAME: &'static str = "sapwood-shared";

    fn build(pairs: &KeyList) -> Self {
        Self::filled(new(), pairs)
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        worst(&new(), pairs)
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

/// `QpShared` with the point index.
pub struct Indexed(Shared);

impl Engine for Indexed {
    const NAME: &'static str = "sapwood-shared-index";

    fn build(pairs: &KeyList) -> Self {
        Self(Shared::filled(indexed(), pairs))
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        worst(&indexed(), pairs)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        self.0.lookups(keys)
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        self.0.chained(keys)
    }

    fn scan(&self) -> ScanSum {
        self.0.scan()
    }

    fn mapped_bytes(&self) -> usize {
        self.0.mapped_bytes()
    }
}

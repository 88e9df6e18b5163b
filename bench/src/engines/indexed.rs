//! Ours with the point index: looked up one by one, and sixteen at a time.

use std::time::Duration;

use sapwood::qp::QpMap;

use super::sapwood::{Sapwood, sixteen_a_call};
use super::{Engine, longest};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `QpMap::with_index`.
pub struct Indexed(Sapwood);

impl Engine for Indexed {
    const NAME: &'static str = "sapwood-index";

    fn build(pairs: &KeyList) -> Self {
        Self(Sapwood::filled(QpMap::with_index(), pairs))
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        let mut map = QpMap::with_index();
        Some(longest(pairs, |key, value| {
            map.insert(key, value).expect("the key fits");
        }))
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn scan(&self) -> ScanSum {
        self.0.scan()
    }

    fn mapped_bytes(&self) -> usize {
        self.0.mapped_bytes()
    }
}

/// `QpMap::with_index`, sixteen lookups a call.
pub struct IndexedBatch16(Indexed);

impl Engine for IndexedBatch16 {
    const NAME: &'static str = "sapwood-index-batch16";

    fn build(pairs: &KeyList) -> Self {
        Self(Indexed::build(pairs))
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        sixteen_a_call(self.0.0.map(), keys)
    }

    fn chained(&self, _: &KeyList) -> Option<Tally> {
        None
    }

    fn scan(&self) -> ScanSum {
        self.0.scan()
    }

    fn mapped_bytes(&self) -> usize {
        self.0.mapped_bytes()
    }
}

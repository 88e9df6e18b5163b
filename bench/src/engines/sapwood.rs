//! Ours: as built, compacted, and looked up sixteen at a time.

use std::time::Duration;

use sapwood::qp::QpMap;

use super::{Engine, longest};
use crate::keylist::{KeyList, ScanSum, Tally};

/// `QpMap`, as random insertions leave it.
pub struct Sapwood(QpMap<u64>);

impl Sapwood {
    pub(super) fn filled(mut map: QpMap<u64>, pairs: &KeyList) -> Self {
        for (key, value) in pairs.iter() {
            map.insert(key, value).expect("the key fits");
        }
        Self(map)
    }

    pub(super) fn map(&self) -> &QpMap<u64> {
        &self.0
    }
}

impl Engine for Sapwood {
    const NAME: &'static str = "sapwood";

    fn build(pairs: &KeyList) -> Self {
        Self::filled(QpMap::new(), pairs)
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        let mut map = QpMap::new();
        Some(longest(pairs, |key, value| {
            map.insert(key, value).expect("the key fits");
        }))
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn scan(&self) -> ScanSum {
        ScanSum::of(self.0.iter().map(|(key, value)| (key, *value)))
    }

    fn mapped_bytes(&self) -> usize {
        let memory = self.0.memory();
        // Small arenas lie in malloc's heap, which counts them already.
        if memory.arena.reserved >= MAPPED {
            memory.arena.committed
        } else {
            0
        }
    }
}

/// Arenas of this size and more are mapped.
const MAPPED: usize = 256 << 10;

/// `QpMap` after `compact`.
pub struct Compact(Sapwood);

impl Engine for Compact {
    const NAME: &'static str = "sapwood-compact";

    fn build(pairs: &KeyList) -> Self {
        Self(Sapwood::build(pairs))
    }

    fn finish(&mut self) {
        self.0.0.compact().expect("there is memory for a copy");
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

/// `QpMap`, sixteen lookups a call.
pub struct Batch16(Sapwood);

/// Looks all keys up, sixteen a call.
pub(super) fn sixteen_a_call(map: &QpMap<u64>, keys: &KeyList) -> Tally {
    let mut tally = Tally::default();
    let mut batch: [&[u8]; 16] = [&[]; 16];
    let mut filled = 0;
    let mut out = [None; 16];
    for (key, _) in keys.iter() {
        batch[filled] = key;
        filled += 1;
        if filled == batch.len() {
            map.get_many(&batch, &mut out);
            out.iter().for_each(|found| tally.add(found.copied()));
            filled = 0;
        }
    }
    map.get_many(&batch[..filled], &mut out[..filled]);
    out[..filled]
        .iter()
        .for_each(|found| tally.add(found.copied()));
    tally
}

impl Engine for Batch16 {
    const NAME: &'static str = "sapwood-batch16";

    fn build(pairs: &KeyList) -> Self {
        Self(Sapwood::build(pairs))
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        sixteen_a_call(&self.0.0, keys)
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

//! Sapwood's `QpMap`: as built, compacted, and with sixteen lookups a call; each without and with
//! the point index.

use std::ops::Bound;
use std::time::Duration;

use sapwood::qp::QpMap;

use super::{Built, Engine, in_turns, longest};
use crate::answer::{Answer, AnswerSum, SEPARATOR, is_cut};
use crate::keylist::{KeyList, ScanSum, Tally};

/// The map as random insertions leave it, looked up key by key.
pub const AS_BUILT: u8 = 0;
/// The map after `compact`.
pub const COMPACT: u8 = 1;
/// The map as built, with sixteen lookups a call.
pub const BATCH16: u8 = 2;

/// `QpMap`, with the point index or without it, used in one of the ways above.
pub struct Sapwood<const INDEX: bool, const USE: u8>(QpMap<u64>);

impl<const INDEX: bool, const USE: u8> Sapwood<INDEX, USE> {
    fn new() -> Self {
        Self(match INDEX {
            true => QpMap::with_index(),
            false => QpMap::new(),
        })
    }
}

/// Arenas of at least this many bytes are mapped.
const MAPPED: usize = 256 << 10;

impl<const INDEX: bool, const USE: u8> Engine for Sapwood<INDEX, USE> {
    const NAME: &'static str = match (INDEX, USE) {
        (false, AS_BUILT) => "sapwood",
        (false, COMPACT) => "sapwood-compact",
        (false, _) => "sapwood-batch16",
        (true, AS_BUILT) => "sapwood-index",
        (true, COMPACT) => "sapwood-index-compact",
        (true, _) => "sapwood-index-batch16",
    };

    fn build(pairs: &KeyList) -> Self {
        let mut map = Self::new();
        for (key, value) in pairs.iter() {
            map.0.insert(key, value).expect("the key fits");
        }
        map
    }

    fn worst_insert(pairs: &KeyList) -> Option<Duration> {
        // The other uses build the map in the same way.
        (USE == AS_BUILT).then(|| {
            let mut map = Self::new();
            longest(pairs, |key, value| {
                map.0.insert(key, value).expect("the key fits");
            })
        })
    }
}

impl<const INDEX: bool, const USE: u8> Built for Sapwood<INDEX, USE> {
    fn finish(&mut self) {
        if USE == COMPACT {
            self.0.compact().expect("there is memory for a copy");
        }
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        if USE == BATCH16 {
            sixteen_a_call(&self.0, keys)
        } else {
            Tally::of(keys, |key| self.get(key))
        }
    }

    fn chained(&self, keys: &KeyList) -> Option<Tally> {
        (USE != BATCH16).then(|| Tally::chained(keys, |key| self.get(key)))
    }

    fn scan(&self) -> ScanSum {
        let mut sum = ScanSum::default();
        let _ = self
            .0
            .for_each::<[u8], _, ()>(.., sum.each(None, u64::clone));
        sum
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        // The index takes no part in these searches.
        (!INDEX && USE != BATCH16).then(|| {
            let mut sum = ScanSum::default();
            for (start, _) in starts.iter() {
                let bounds = (Bound::Included(start), Bound::Unbounded);
                let _ = self
                    .0
                    .for_each::<[u8], _, ()>(bounds, sum.each(Some(count), u64::clone));
            }
            sum
        })
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        (!INDEX && USE != BATCH16).then(|| {
            let entry = |key: &[u8]| self.0.predecessor(key).into_iter();
            ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value)))
        })
    }

    fn longest_prefixes(&self, keys: &KeyList) -> Option<ScanSum> {
        (!INDEX && USE != BATCH16).then(|| {
            let entry = |key: &[u8]| self.0.longest_prefix(key).into_iter();
            ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value)))
        })
    }

    fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
        (USE == AS_BUILT).then(|| {
            AnswerSum::of(names, |name| {
                Answer::of(&self.0.closest(name, SEPARATOR, is_cut))
            })
        })
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.0.remove(old);
            self.0.insert(new, value).expect("the key fits");
        });
    }

    fn saved_bytes(&self) -> Option<u64> {
        if (INDEX, USE) != (false, AS_BUILT) {
            return None;
        }
        let path = std::env::temp_dir().join(format!("sapwood-bench-{}.qp", std::process::id()));
        self.0.save(&path).expect("there is space for the file");
        let bytes = std::fs::metadata(&path).expect("it was saved").len();
        std::fs::remove_file(&path).expect("it is there");
        Some(bytes)
    }

    fn mapped_bytes(&self) -> usize {
        qp_mapped_bytes(&self.0)
    }
}

/// The bytes that a map holds outside malloc's heap.
pub fn qp_mapped_bytes(map: &QpMap<u64>) -> usize {
    mapped(&map.memory().arena)
}

/// The bytes that the arena of an owned map holds outside malloc's heap.
pub fn mapped(arena: &sapwood::arena::Memory) -> usize {
    // Small arenas lie in malloc's heap, where they are counted already.
    if arena.reserved >= MAPPED {
        arena.committed
    } else {
        0
    }
}

/// Looks all keys up, sixteen a call.
fn sixteen_a_call(map: &QpMap<u64>, keys: &KeyList) -> Tally {
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

//! Masstree: a trie of B+ trees.

use masstree::{MassTree, RangeBound};

use super::Engine;
use crate::keylist::{Form, KeyList, ScanSum, Tally};

/// `MassTree` of the crate `masstree`. A pass runs under one guard.
pub struct Masstree(MassTree<u64>);

/// It panics on longer keys.
const LONGEST: usize = 256;

/// Inserts under one guard: few enough that what they retire is freed on the way.
const GUARDED: usize = 256;

impl Engine for Masstree {
    const NAME: &'static str = "masstree";
    // Seen with one thread, kernel symbols in random order and MassTree15 too: no guard or type avoids it.
    const LOSES_KEYS: Option<&'static str> =
        Some("masstree 0.9.5: get finds no value for some keys that insert took and scan lists");

    fn form(keys: &KeyList) -> Result<Form, String> {
        match keys.iter().map(|(key, _)| key.len()).max() {
            Some(length) if length > LONGEST => Err(format!(
                "keys are at most {LONGEST} bytes, and there is one of {length}"
            )),
            _ => Ok(Form::Plain),
        }
    }

    fn build(pairs: &KeyList) -> Self {
        let map = MassTree::new();
        for from in (0..pairs.len()).step_by(GUARDED) {
            let guard = map.guard();
            for (key, value) in pairs.run(from, GUARDED.min(pairs.len() - from)) {
                map.insert_with_guard(key, value, &guard);
            }
        }
        Self(map)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get_with_guard(key, &self.0.guard())
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        let guard = self.0.guard();
        Tally::of(keys, |key| self.0.get_with_guard(key, &guard))
    }

    fn scan(&self) -> ScanSum {
        let mut sum = ScanSum::default();
        let each = |key: &[u8], value| {
            sum.add(key, value);
            true
        };
        let all = RangeBound::Unbounded;
        self.0
            .scan_intra_leaf_batch(all, all, each, &self.0.guard());
        sum
    }
}

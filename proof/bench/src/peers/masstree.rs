//! Masstree: a trie of B+ trees, whose writers lock single nodes.

use masstree::{MassTree, RangeBound};
use seize::{Guard, LocalGuard};

use crate::concurrent::{ConcurrentEngine, Session};
use crate::engines::{Built, Engine};
use crate::keylist::{Form, KeyList, ScanSum, Tally};

/// `MassTree` of the crate `masstree`. One guard covers a pass of one thread, or a run of keys of
/// many threads.
pub struct Masstree(MassTree<u64>);

/// The longest key in bytes; the crate panics on longer ones.
const LONGEST: usize = 256;

// This was seen with one thread, with kernel symbols in random order, and with MassTree15. No
// choice of guard or type avoids it.
const LOSES_KEYS: &str =
    "masstree 0.9.5: get finds no value for some keys that insert took and scan lists";

/// Inserts under one guard: few, so that the memory that they retire is freed during the build.
const GUARDED: usize = 256;

impl Engine for Masstree {
    const NAME: &'static str = "masstree";
    const LOSES_KEYS: Option<&'static str> = Some(LOSES_KEYS);

    fn form(keys: &KeyList) -> Result<Form, String> {
        Self::refuses(keys).map_or(Ok(Form::Plain), Err)
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
}

impl Built for Masstree {
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

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let guard = self.0.guard();
        let mut sum = ScanSum::default();
        for (start, _) in starts.iter() {
            let mut left = count;
            let each = |key: &[u8], value| {
                sum.add(key, value);
                left -= 1;
                left > 0
            };
            let start = RangeBound::Included(start);
            self.0.scan(start, RangeBound::Unbounded, each, &guard);
        }
        Some(sum)
    }

    fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
        let guard = self.0.guard();
        let mut sum = ScanSum::default();
        for (key, _) in keys.iter() {
            let first = |key: &[u8], value| {
                sum.add(key, value);
                false
            };
            let end = RangeBound::Excluded(key);
            self.0
                .scan_rev_batch(RangeBound::Unbounded, end, first, &guard);
        }
        Some(sum)
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        for from in (0..old.len()).step_by(GUARDED) {
            let count = GUARDED.min(old.len() - from);
            let guard = self.0.guard();
            for ((old, _), (new, value)) in old.run(from, count).zip(new.run(from, count)) {
                self.0
                    .remove_with_guard(old, &guard)
                    .expect("nobody else writes");
                self.0.insert_with_guard(new, value, &guard);
            }
        }
    }
}

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m MassTree<u64>,
    guard: LocalGuard<'m>,
}

impl ConcurrentEngine for Masstree {
    const NAME: &'static str = "masstree";
    const LOSES_KEYS: Option<&'static str> = Some(LOSES_KEYS);

    fn refuses(keys: &KeyList) -> Option<String> {
        let longest = keys.iter().map(|(key, _)| key.len()).max()?;
        (longest > LONGEST)
            .then(|| format!("keys are at most {LONGEST} bytes, and there is one of {longest}"))
    }

    fn new() -> Self {
        Self(MassTree::new())
    }

    fn session(&self) -> impl Session {
        Guarded {
            map: &self.0,
            guard: self.0.guard(),
        }
    }
}

impl Session for Guarded<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.get_with_guard(key, &self.guard)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.replace(key, value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.map.insert_value_with_guard(key, value, &self.guard)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map
            .remove_with_guard(key, &self.guard)
            .expect("it ends within its number of tries")
    }

    fn pause(&mut self) {
        self.guard.refresh();
    }
}

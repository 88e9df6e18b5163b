//! scc's B+ tree for many readers.

use scc::TreeIndex;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Engine, in_turns};
use crate::keylist::{KeyList, ScanSum, Tally};

/// The first pass of searches is given up if it takes longer than this for each search, and no
/// figure is reported.
///
/// `TreeIndex::range` walks from the first key when it finds no leaf with a lesser key near the bound
/// (scc 3.8, `Range::start_forward`). With some sets of keys that happens often: over 100,000 file
/// paths the searches of one round were not over after five minutes.
const SEARCH: Duration = Duration::from_micros(20);

/// `TreeIndex`. A pass of lookups runs under one guard.
pub struct Scc {
    map: TreeIndex<Box<[u8]>, u64>,
    /// A pass of searches has come to its end.
    quick: AtomicBool,
}

impl Engine for Scc {
    const NAME: &'static str = "scc-treeindex";

    fn build(pairs: &KeyList) -> Self {
        let map = TreeIndex::new();
        for (key, value) in pairs.iter() {
            map.insert_sync(Box::from(key), value)
                .expect("no key comes twice");
        }
        Self {
            map,
            quick: AtomicBool::new(false),
        }
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.map.peek(key, &sdd::Guard::new()).copied()
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        let guard = sdd::Guard::new();
        Tally::of(keys, |key| self.map.peek(key, &guard).copied())
    }

    fn scan(&self) -> ScanSum {
        let guard = sdd::Guard::new();
        ScanSum::of(self.map.iter(&guard).map(|(key, value)| (&**key, *value)))
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let guard = sdd::Guard::new();
        let mut sum = ScanSum::default();
        let watched = !self.quick.load(Ordering::Relaxed);
        let (begun, most) = (Instant::now(), SEARCH * starts.len() as u32);
        for (start, _) in starts.iter() {
            if watched && begun.elapsed() > most {
                return None;
            }
            let bounds = (Bound::Included(start), Bound::Unbounded);
            for (key, value) in self.map.range::<[u8], _>(bounds, &guard).take(count) {
                sum.add(key, *value);
            }
        }
        self.quick.store(true, Ordering::Relaxed);
        Some(sum)
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        in_turns(old, new, |old, new, value| {
            self.map.remove_sync(old);
            self.map
                .insert_sync(Box::from(new), value)
                .expect("no key comes twice");
        });
    }
}

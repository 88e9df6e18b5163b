//! arc-swap: a persistent map whose root each commit swaps, and the same over Sapwood's trie.

use std::sync::Arc;

use arc_swap::ArcSwap;
use imbl::OrdMap;
use parking_lot::{Mutex, MutexGuard};

use crate::keylist::KeyList;
use crate::stores::{Protection, Reader, Seen, Snapshot, Store, Txn, Version, Writer};

/// Keys are shared, because the nodes that hold them are copied.
type Map = OrdMap<Arc<[u8]>, u64>;

/// `arc_swap::ArcSwap<imbl::OrdMap>`. A transaction changes a clone, which shares all nodes at
/// first.
pub struct ArcSwapImbl {
    current: ArcSwap<Map>,
    writing: Mutex<()>,
}

/// A reader, which loads the current map for each read transaction.
pub struct Loader<'s>(&'s ArcSwap<Map>);

/// The one writer.
pub struct Swapper<'s> {
    current: &'s ArcSwap<Map>,
    _alone: MutexGuard<'s, ()>,
}

/// The clone that a transaction changes.
pub struct Draft<'w> {
    map: Map,
    current: &'w ArcSwap<Map>,
}

impl Store for ArcSwapImbl {
    const NAME: &'static str = "arcswap-imbl";
    const NOTE: &'static str =
        "keys are Arc<[u8]>; the thread that drops an old node last frees it";

    fn new() -> Self {
        Self {
            current: ArcSwap::from_pointee(Map::new()),
            writing: Mutex::new(()),
        }
    }

    fn reader(&self) -> impl Reader {
        Loader(&self.current)
    }

    fn writer(&self) -> impl Writer {
        Swapper {
            current: &self.current,
            _alone: self.writing.lock(),
        }
    }

    fn snapshot(&self) -> Option<Snapshot<'_>> {
        let map = self.current.load_full();
        Some(Box::new(move |key| map.get(key).copied()))
    }
}

impl Reader for Loader<'_> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let map = self.0.load();
        Seen::of(keys, from, count, |key| map.get(key).copied())
    }
}

impl Writer for Swapper<'_> {
    fn begin(&mut self) -> impl Txn {
        Draft {
            map: Map::clone(&self.current.load()),
            current: self.current,
        }
    }
}

impl Txn for Draft<'_> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.map.insert(Arc::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.map.remove(key);
    }

    fn commit(self) {
        self.current.store(Arc::new(self.map));
    }
}

impl Protection for ArcSwap<Version> {
    const NAME: &'static str = "arcswap-qp";
    const NOTE: &'static str = "QpStore, compacted as sapwood is; each commit publishes a snapshot \
         in an ArcSwap, and each read transaction loads it";
    type Thread = ();

    fn new(first: Version) -> Self {
        Self::from_pointee(first)
    }

    fn thread(&self) {}

    fn read<R>(&self, (): &(), f: impl FnOnce(&Version) -> R) -> R {
        f(&self.load())
    }

    fn publish(&self, (): &(), next: Version) {
        self.store(Arc::new(next));
    }
}

//! Sapwood's `QpStore`.

use std::time::{Duration, Instant};

use sapwood::qp::{QpStore, QpTxn as SapwoodTxn};

use super::{Reader, Seen, Snapshot, Store, Txn, Writer};
use crate::keylist::KeyList;

/// `QpStore`, compacted step by step while the writer works.
pub struct Sapwood(QpStore<u64>);

/// A registered reader.
pub struct Registered(sapwood::Reader<QpStore<u64>>);

/// The writer.
pub struct Writing<'s> {
    store: &'s QpStore<u64>,
    commits: u32,
    longest_step: Duration,
}

/// An open transaction.
pub struct Open<'w>(SapwoodTxn<'w, u64>);

/// The number of commits per step of compaction.
const COMPACT_EVERY: u32 = 16;
/// The number of branches that a step moves.
const COMPACT_STEP: usize = 64;

impl Store for Sapwood {
    const NAME: &'static str = "sapwood";
    const NOTE: &'static str =
        "QpStore; a step of compaction (64 branches) before every 16th transaction";

    fn new() -> Self {
        Self(QpStore::new().expect("there is address space"))
    }

    fn reader(&self) -> impl Reader {
        Registered(self.0.reader("bench").expect("there is room for a reader"))
    }

    fn writer(&self) -> impl Writer {
        Writing::new(&self.0)
    }

    fn snapshot(&self) -> Option<Snapshot<'_>> {
        let snapshot = self.0.snapshot();
        Some(Box::new(move |key| snapshot.get(key).copied()))
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().map.arena.committed
    }
}

impl Reader for Registered {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let view = self.0.view();
        Seen::of(keys, from, count, |key| view.get(key).copied())
    }

    fn pause(&mut self) {
        self.0.quiescent();
    }
}

impl<'s> Writing<'s> {
    /// The writer of a store; only one exists at a time.
    pub(super) fn new(store: &'s QpStore<u64>) -> Self {
        Self {
            store,
            commits: 0,
            longest_step: Duration::ZERO,
        }
    }

    /// Opens a transaction, after a step of compaction if one is due.
    pub(super) fn open(&mut self) -> Open<'s> {
        self.commits += 1;
        if self.commits.is_multiple_of(COMPACT_EVERY) {
            let start = Instant::now();
            self.store
                .compact_step(COMPACT_STEP)
                .expect("there is memory for a step");
            self.longest_step = self.longest_step.max(start.elapsed());
        }
        Open(self.store.begin())
    }
}

impl Writer for Writing<'_> {
    fn begin(&mut self) -> impl Txn {
        self.open()
    }

    fn pause(&mut self) {
        self.store.reclaim(1 << 10);
    }

    fn longest_step(&self) -> Option<Duration> {
        Some(self.longest_step)
    }
}

impl Txn for Open<'_> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(key, value).expect("the key fits");
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key).expect("there is memory for a path");
    }

    fn commit(self) {
        self.0.commit();
    }
}

//! Our own trie, where each commit publishes a snapshot and something else than our grace periods
//! protects the readers: compared with [`Sapwood`](super::Sapwood), the protection alone.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sapwood::qp::{QpSnapshot, QpStore};

use super::sapwood::{Open, Writing};
use super::{Reader, Seen, Store, Txn, Writer};
use crate::keylist::KeyList;

/// What one version of the trie is.
pub type Version = QpSnapshot<u64>;

/// How threads share the newest version.
pub trait Protection: Send + Sync + Sized + 'static {
    /// As [`Store::NAME`].
    const NAME: &'static str;
    /// As [`Store::NOTE`].
    const NOTE: &'static str;
    /// What a thread must have to read or to publish.
    type Thread;

    /// As [`Store::available`].
    fn available() -> Result<(), String> {
        Ok(())
    }

    /// Shares a first version.
    fn new(first: Version) -> Self;

    /// Makes this thread ready; it is so once at a time.
    fn thread(&self) -> Self::Thread;

    /// Calls `f` with the newest version, which stays until `f` returns.
    fn read<R>(&self, thread: &Self::Thread, f: impl FnOnce(&Version) -> R) -> R;

    /// Replaces the newest version.
    fn publish(&self, thread: &Self::Thread, next: Version);

    /// The thread holds nothing now.
    fn quiescent(thread: &mut Self::Thread) {
        let _ = thread;
    }

    /// Waits until all versions that were replaced are freed.
    fn settle(&self) {}
}

/// `QpStore` beside its newest version.
pub struct Published<P> {
    store: QpStore<u64>,
    newest: P,
}

/// A thread that reads.
pub struct Reading<'s, P: Protection> {
    newest: &'s P,
    thread: P::Thread,
}

/// The thread that writes.
pub struct Publisher<'s, P: Protection> {
    store: &'s QpStore<u64>,
    newest: &'s P,
    thread: P::Thread,
    writing: Writing<'s>,
}

/// An open transaction.
pub struct Draft<'w, P: Protection> {
    open: Open<'w>,
    store: &'w QpStore<u64>,
    newest: &'w P,
    thread: &'w mut P::Thread,
}

impl<P: Protection> Store for Published<P> {
    const NAME: &'static str = P::NAME;
    const NOTE: &'static str = P::NOTE;

    fn available() -> Result<(), String> {
        P::available()
    }

    fn new() -> Self {
        let store = QpStore::new().expect("there is address space");
        Self {
            newest: P::new(store.snapshot()),
            store,
        }
    }

    fn reader(&self) -> impl Reader {
        Reading {
            newest: &self.newest,
            thread: self.newest.thread(),
        }
    }

    fn writer(&self) -> impl Writer {
        Publisher {
            store: &self.store,
            newest: &self.newest,
            thread: self.newest.thread(),
            writing: Writing::new(&self.store),
        }
    }

    fn snapshot(&self) -> Option<super::Snapshot<'_>> {
        let snapshot = self.store.snapshot();
        Some(Box::new(move |key| snapshot.get(key).copied()))
    }

    fn mapped_bytes(&self) -> usize {
        self.store.memory().map.arena.committed
    }
}

impl<P: Protection> Reader for Reading<'_, P> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        self.newest.read(&self.thread, |version| {
            Seen::of(keys, from, count, |key| version.get(key).copied())
        })
    }

    fn pause(&mut self) {
        P::quiescent(&mut self.thread);
    }
}

impl<P: Protection> Writer for Publisher<'_, P> {
    fn begin(&mut self) -> impl Txn {
        Draft {
            open: self.writing.open(),
            store: self.store,
            newest: self.newest,
            thread: &mut self.thread,
        }
    }

    fn pause(&mut self) {
        self.writing.pause();
    }
}

impl<P: Protection> Drop for Publisher<'_, P> {
    fn drop(&mut self) {
        self.newest.settle();
    }
}

impl<P: Protection> Txn for Draft<'_, P> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.open.insert(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.open.remove(key);
    }

    fn commit(self) {
        self.open.commit();
        self.newest.publish(self.thread, self.store.snapshot());
        P::quiescent(self.thread);
    }
}

impl Protection for ArcSwap<Version> {
    const NAME: &'static str = "arcswap-qp";
    const NOTE: &'static str = "QpStore, compacted as sapwood is; each commit publishes a snapshot \
         in an ArcSwap, each read transaction loads it";
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

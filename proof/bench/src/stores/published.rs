//! Sapwood's trie with another protection of readers than its own grace periods. Each commit
//! publishes a snapshot. The comparison with [`Sapwood`](super::Sapwood) shows the cost of the
//! protection alone.

use std::time::Duration;

use sapwood::qp::{QpSnapshot, QpStore};

use super::sapwood::{Open, Writing};
use super::{Reader, Seen, Store, Txn, Writer};
use crate::keylist::KeyList;

/// One version of the trie.
pub type Version = QpSnapshot<u64>;

/// The means by which threads share the newest version.
pub trait Protection: Send + Sync + Sized + 'static {
    /// See [`Store::NAME`].
    const NAME: &'static str;
    /// See [`Store::NOTE`].
    const NOTE: &'static str;
    /// The state that a thread needs to read or to publish.
    type Thread;

    /// See [`Store::available`].
    fn available() -> Result<(), String> {
        Ok(())
    }

    /// Shares a first version.
    fn new(first: Version) -> Self;

    /// Prepares this thread; only one such state exists per thread at a time.
    fn thread(&self) -> Self::Thread;

    /// Calls `f` with the newest version, which stays valid until `f` returns.
    fn read<R>(&self, thread: &Self::Thread, f: impl FnOnce(&Version) -> R) -> R;

    /// Replaces the newest version.
    fn publish(&self, thread: &Self::Thread, next: Version);

    /// Says that the thread holds no reference now.
    fn quiescent(thread: &mut Self::Thread) {
        let _ = thread;
    }

    /// Waits until all replaced versions are freed.
    fn settle(&self) {}
}

/// `QpStore`, with its newest version beside it.
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

    fn longest_step(&self) -> Option<Duration> {
        self.writing.longest_step()
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

//! Maps behind one reader-writer lock, the usual first choice of a program: of names, with many
//! writers or with transactions; as a cache, as the first route cache was; and of ranges.

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use sapwood::qp::QpMap;

use crate::cache::{CacheEngine, Hasher, Key, Value};
use crate::concurrent::{ConcurrentEngine, Session, Waits};
use crate::engines::qp_mapped_bytes;
use crate::keylist::KeyList;
use crate::ranges::shared::{Loads, Shared};
use crate::ranges::{Engine, EntrySum, Query, Reference};
use crate::stores::{Reader, Seen, Store, Txn, Writer};

type Table = hashbrown::HashMap<Box<[u8]>, u64, Hasher>;

/// `hashbrown::HashMap` with foldhash in parking_lot's `RwLock`; each operation takes the lock.
pub struct RwLockHashbrown {
    table: RwLock<Table>,
    met: AtomicU64,
    nanoseconds: AtomicU64,
}

/// A thread with the time that it waited for the lock.
pub struct Waiting<'m> {
    map: &'m RwLockHashbrown,
    waits: Waits,
}

impl ConcurrentEngine for RwLockHashbrown {
    const NAME: &'static str = "rwlock-hashbrown";

    fn new() -> Self {
        Self {
            table: RwLock::default(),
            met: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn session(&self) -> impl Session {
        Waiting {
            map: self,
            waits: Waits::default(),
        }
    }

    fn waits(&self) -> Option<Waits> {
        Some(Waits {
            met: self.met.load(Relaxed),
            nanoseconds: self.nanoseconds.load(Relaxed),
        })
    }
}

impl<'m> Waiting<'m> {
    #[inline]
    fn read(&mut self) -> RwLockReadGuard<'m, Table> {
        match self.map.table.try_read() {
            Some(guard) => guard,
            None => self.wait(|table| table.read()),
        }
    }

    #[inline]
    fn write(&mut self) -> RwLockWriteGuard<'m, Table> {
        match self.map.table.try_write() {
            Some(guard) => guard,
            None => self.wait(|table| table.write()),
        }
    }

    #[cold]
    fn wait<G>(&mut self, lock: impl FnOnce(&'m RwLock<Table>) -> G) -> G {
        let start = Instant::now();
        let guard = lock(&self.map.table);
        self.waits.met += 1;
        self.waits.nanoseconds += start.elapsed().as_nanos() as u64;
        guard
    }
}

impl Session for Waiting<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.read().get(key).copied()
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        // The key is allocated before the lock is taken.
        let key = Box::from(key);
        self.write().insert(key, value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let mut table = self.write();
        let place = table.get_mut(key)?;
        Some(std::mem::replace(place, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        // The removed key is dropped after the lock is released.
        let removed = self.write().remove_entry(key);
        removed.map(|(_, value)| value)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.map.met.fetch_add(self.waits.met, Relaxed);
        self.map
            .nanoseconds
            .fetch_add(self.waits.nanoseconds, Relaxed);
    }
}

/// A map that one thread at a time changes.
pub trait Owned: Default + Send + Sync + 'static {
    /// See [`Store::NAME`].
    const NAME: &'static str;
    /// See [`Store::NOTE`].
    const NOTE: &'static str;
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<u64>;
    /// Stores a value at a key.
    fn insert(&mut self, key: &[u8], value: u64);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);
    /// See [`Store::mapped_bytes`].
    fn mapped_bytes(&self) -> usize {
        0
    }
}

impl Owned for BTreeMap<Box<[u8]>, u64> {
    const NAME: &'static str = "rwlock-btreemap";
    const NOTE: &'static str = "readers and the writer wait for each other; no snapshots";

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get(key).copied()
    }

    fn insert(&mut self, key: &[u8], value: u64) {
        self.insert(Box::from(key), value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.remove(key);
    }
}

impl Owned for QpMap<u64> {
    const NAME: &'static str = "rwlock-qp";
    const NOTE: &'static str =
        "QpMap, changed in place and never compacted; readers and the writer wait for each other";

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get(key).copied()
    }

    fn insert(&mut self, key: &[u8], value: u64) {
        self.insert(key, value).expect("the key fits");
    }

    fn remove(&mut self, key: &[u8]) {
        self.remove(key);
    }

    fn mapped_bytes(&self) -> usize {
        qp_mapped_bytes(self)
    }
}

/// `parking_lot::RwLock` over a map; each transaction holds the lock.
pub struct Locked<M>(RwLock<M>);

/// A B-tree behind the lock.
pub type Btree = Locked<BTreeMap<Box<[u8]>, u64>>;

/// Sapwood's trie behind the lock.
pub type Qp = Locked<QpMap<u64>>;

/// A reader, which takes the lock for each read transaction.
pub struct Sharing<'s, M>(&'s RwLock<M>);

/// A writer, which takes the lock for each write transaction.
pub struct Exclusive<'s, M>(&'s RwLock<M>);

/// A transaction, which holds the lock.
pub struct Held<'w, M>(RwLockWriteGuard<'w, M>);

impl<M: Owned> Store for Locked<M> {
    const NAME: &'static str = M::NAME;
    const NOTE: &'static str = M::NOTE;

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn reader(&self) -> impl Reader {
        Sharing(&self.0)
    }

    fn writer(&self) -> impl Writer {
        Exclusive(&self.0)
    }

    fn mapped_bytes(&self) -> usize {
        self.0.read().mapped_bytes()
    }
}

impl<M: Owned> Reader for Sharing<'_, M> {
    fn read(&mut self, keys: &KeyList, from: usize, count: usize) -> Seen {
        let map = self.0.read();
        Seen::of(keys, from, count, |key| map.get(key))
    }
}

impl<M: Owned> Writer for Exclusive<'_, M> {
    fn begin(&mut self) -> impl Txn {
        Held(self.0.write())
    }
}

impl<M: Owned> Txn for Held<'_, M> {
    fn insert(&mut self, key: &[u8], value: u64) {
        self.0.insert(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    fn commit(self) {}
}

macro_rules! caches {
    ($($(#[$doc:meta])* $cache:ident($map:ty) = $name:literal, $new:expr;)*) => {$(
        $(#[$doc])*
        pub struct $cache {
            map: RwLock<$map>,
            most: usize,
        }

        impl CacheEngine for $cache {
            const NAME: &'static str = $name;

            fn new(capacity: usize, bounded: bool) -> Self {
                Self {
                    map: RwLock::new($new(capacity)),
                    most: if bounded { capacity } else { usize::MAX },
                }
            }

            #[inline]
            fn get(&self, _: usize, key: &Key) -> Option<Value> {
                self.map.read().get(key).copied()
            }

            #[inline]
            fn insert(&self, _: usize, key: Key, value: Value) {
                let mut map = self.map.write();
                if map.len() < self.most {
                    map.insert(key, value);
                }
            }

            #[inline]
            fn refresh(&self, _: usize, key: Key, value: Value) {
                if let Some(place) = self.map.write().get_mut(&key) {
                    *place = value;
                }
            }

            #[inline]
            fn remove(&self, _: usize, key: &Key) {
                self.map.write().remove(key);
            }
        }
    )*};
}

// They refuse new keys when they are full.
caches! {
    /// A cache in a `BTreeMap`, which the first route cache used.
    BtreeCache(BTreeMap<Key, Value>) = "rwlock-btreemap", |_| BTreeMap::new();
    /// A cache in a `HashMap` with its default hasher.
    SipHashCache(HashMap<Key, Value, RandomState>) = "rwlock-siphash",
        |n| HashMap::with_capacity_and_hasher(n, RandomState::new());
    /// A cache in a `HashMap` with a faster hasher.
    FoldhashCache(HashMap<Key, Value, Hasher>) = "rwlock-foldhash",
        |n| HashMap::with_capacity_and_hasher(n, Hasher::default());
}

/// A B-tree of ranges behind the lock, which is held for one change or for one burst of lookups.
pub struct BtreeRanges(RwLock<Reference>);

impl Shared for BtreeRanges {
    const NAME: &'static str = "rwlock-btreemap";

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn store(&self, start: u64, end: u64, value: u64) {
        self.0.write().store(start, end, value);
    }

    fn alloc(&self, within: Query, value: u64) -> Option<u64> {
        self.0.write().alloc(within, value)
    }

    fn erase(&self, index: u64) -> Option<u64> {
        self.0.write().erase(index)
    }

    fn entries(&self) -> EntrySum {
        Engine::entries(&*self.0.read())
    }

    fn reader(&self) -> impl Loads {
        &self.0
    }
}

impl<E: Engine> Loads for &RwLock<E> {
    fn burst(&mut self, indices: &[u64], mut each: impl FnMut(Option<u64>)) {
        let map = self.read();
        indices.iter().for_each(|index| each(map.get(*index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told() {
        let map = RwLockHashbrown::new();
        let mut session = Waiting {
            map: &map,
            waits: Waits::default(),
        };
        assert!(session.insert(b"k", 1));
        drop(session.wait(|table| table.read()));
        assert_eq!(map.waits(), Some(Waits::default()));
        drop(session);
        let waits = map.waits().expect("it can tell");
        assert_eq!(waits.met, 1);
        assert!(waits.nanoseconds > 0);
        assert_eq!((waits - waits).met, 0);
    }
}

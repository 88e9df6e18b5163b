//! hashbrown behind one lock, the usual first choice of a program.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{ConcurrentEngine, Session, Waits};

type Table = hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>;

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

//! papaya: a hash table whose readers never lock.

use papaya::{Guard, HashMap, LocalGuard};

use super::{ConcurrentEngine, Session};

type Table = HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>;

/// `papaya::HashMap`. One guard covers a run of keys.
pub struct Papaya(Table);

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m Table,
    guard: LocalGuard<'m>,
}

impl ConcurrentEngine for Papaya {
    const NAME: &'static str = "papaya";

    fn new() -> Self {
        Self(HashMap::default())
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
        self.map.get(key, &self.guard).copied()
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map
            .insert(Box::from(key), value, &self.guard)
            .is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        // `update` needs an owned key, too.
        self.map.insert(Box::from(key), value, &self.guard).copied()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map.remove(key, &self.guard).copied()
    }

    fn pause(&mut self) {
        self.guard.refresh();
    }
}

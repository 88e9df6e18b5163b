//! dashmap: hash tables in shards, each behind a lock.

use dashmap::DashMap;

use super::{ConcurrentEngine, Session};

/// `DashMap` with its default number of shards.
pub struct Dashmap(DashMap<Box<[u8]>, u64, foldhash::fast::RandomState>);

impl ConcurrentEngine for Dashmap {
    const NAME: &'static str = "dashmap";

    fn new() -> Self {
        Self(DashMap::default())
    }

    fn session(&self) -> impl Session {
        self
    }
}

impl Session for &Dashmap {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(|value| *value)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.0.insert(Box::from(key), value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        let mut place = self.0.get_mut(key)?;
        Some(std::mem::replace(&mut *place, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.0.remove(key).map(|(_, value)| value)
    }
}

//! Maps like the standard library's behind one lock, which refuse new keys when they are full. The
//! first route cache was such a map.

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;

use parking_lot::RwLock;

use super::{CacheEngine, Hasher, Key, Value};

/// A map and its capacity.
pub struct RwLocked<M> {
    map: RwLock<M>,
    most: usize,
}

/// A `BTreeMap`, which the first route cache used.
pub type BTree = BTreeMap<Key, Value>;
/// A `HashMap` with its default hasher.
pub type SipHash = HashMap<Key, Value, RandomState>;
/// A `HashMap` with a faster hasher.
pub type Foldhash = HashMap<Key, Value, Hasher>;

/// The map that the lock guards.
pub trait Map: Send + Sync + 'static {
    /// The name of the engine.
    const NAME: &'static str;
    /// An empty map.
    fn with(capacity: usize) -> Self;
    /// How many entries it has.
    fn len(&self) -> usize;
    /// The value of a key.
    fn get(&self, key: &Key) -> Option<&Value>;
    /// The value of a key, to be changed.
    fn get_mut(&mut self, key: &Key) -> Option<&mut Value>;
    /// Stores a value.
    fn insert(&mut self, key: Key, value: Value);
    /// Removes a key.
    fn remove(&mut self, key: &Key);
}

macro_rules! map {
    ($name:literal, $with:expr) => {
        const NAME: &'static str = $name;

        fn with(capacity: usize) -> Self {
            $with(capacity)
        }

        #[inline]
        fn len(&self) -> usize {
            self.len()
        }

        #[inline]
        fn get(&self, key: &Key) -> Option<&Value> {
            self.get(key)
        }

        #[inline]
        fn get_mut(&mut self, key: &Key) -> Option<&mut Value> {
            self.get_mut(key)
        }

        #[inline]
        fn insert(&mut self, key: Key, value: Value) {
            self.insert(key, value);
        }

        #[inline]
        fn remove(&mut self, key: &Key) {
            self.remove(key);
        }
    };
}

impl Map for BTree {
    map!("rwlock-btreemap", |_| BTreeMap::new());
}

impl Map for SipHash {
    map!("rwlock-siphash", |n| HashMap::with_capacity_and_hasher(
        n,
        RandomState::new()
    ));
}

impl Map for Foldhash {
    map!("rwlock-foldhash", |n| HashMap::with_capacity_and_hasher(
        n,
        Hasher::default()
    ));
}

impl<M: Map> CacheEngine for RwLocked<M> {
    const NAME: &'static str = M::NAME;

    fn new(capacity: usize, bounded: bool) -> Self {
        Self {
            map: RwLock::new(M::with(capacity)),
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

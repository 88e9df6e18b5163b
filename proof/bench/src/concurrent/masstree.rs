//! Masstree: a trie of B+ trees, whose writers lock single nodes.

use masstree::MassTree;
use seize::{Guard, LocalGuard};

use super::{ConcurrentEngine, Session};
use crate::keylist::KeyList;

/// `MassTree` of the crate `masstree`. One guard covers a run of keys.
pub struct Masstree(MassTree<u64>);

/// The longest key in bytes; the crate panics on longer ones.
const LONGEST: usize = 256;

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m MassTree<u64>,
    guard: LocalGuard<'m>,
}

impl ConcurrentEngine for Masstree {
    const NAME: &'static str = "masstree";
    const LOSES_KEYS: Option<&'static str> =
        Some("masstree 0.9.5: get finds no value for some keys that insert took and scan lists");

    fn refuses(keys: &KeyList) -> Option<String> {
        let longest = keys.iter().map(|(key, _)| key.len()).max()?;
        (longest > LONGEST)
            .then(|| format!("keys are at most {LONGEST} bytes, and there is one of {longest}"))
    }

    fn new() -> Self {
        Self(MassTree::new())
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
        self.map.get_with_guard(key, &self.guard)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.replace(key, value).is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.map.insert_value_with_guard(key, value, &self.guard)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map
            .remove_with_guard(key, &self.guard)
            .expect("it ends within its number of tries")
    }

    fn pause(&mut self) {
        self.guard.refresh();
    }
}

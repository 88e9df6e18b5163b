//! scc's hash map: a lock for each bucket of entries, which readers share.

use scc::HashMap;

use super::{ConcurrentEngine, Session};

/// `scc::HashMap`. One guard covers a run of keys, so that the guards inside the calls are cheap.
pub struct Scc(HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>);

/// A thread's guard.
pub struct Guarded<'m> {
    map: &'m HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
    guard: Option<sdd::Guard>,
}

impl ConcurrentEngine for Scc {
    const NAME: &'static str = "scc-hashmap";

    fn new() -> Self {
        Self(HashMap::default())
    }

    fn session(&self) -> impl Session {
        Guarded {
            map: &self.0,
            guard: Some(sdd::Guard::new()),
        }
    }
}

impl Session for Guarded<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.map.read_sync(key, |_, value| *value)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        self.map.insert_sync(Box::from(key), value).is_ok()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.map
            .update_sync(key, |_, place| std::mem::replace(place, value))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        self.map.remove_sync(key).map(|(_, value)| value)
    }

    fn pause(&mut self) {
        // The old guard ends before the new one starts: nested guards would be one.
        drop(self.guard.take());
        self.guard = Some(sdd::Guard::new());
    }
}

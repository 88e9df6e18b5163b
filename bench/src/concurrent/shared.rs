//! Ours: the trie alone, and with the point index.

use sapwood::Reader;
use sapwood::qp::QpShared;

use super::{ConcurrentEngine, Session, Waits};

/// `QpShared`. A run of keys is done between two quiescent states.
pub struct Shared(QpShared<u64>);

/// `QpShared` with the point index.
pub struct Indexed(Shared);

/// A registered thread.
pub struct Registered<'m> {
    map: &'m QpShared<u64>,
    reader: Reader<QpShared<u64>>,
}

/// What a thread frees at most in a pause.
const RECLAIM: usize = 1 << 10;

impl ConcurrentEngine for Shared {
    const NAME: &'static str = "sapwood-shared";
    type Session<'m> = Registered<'m>;

    fn new() -> Self {
        Self(QpShared::new().expect("there is address space"))
    }

    fn session(&self) -> Registered<'_> {
        Registered {
            map: &self.0,
            reader: self.0.reader("bench").expect("there is room for one"),
        }
    }

    fn waits(&self) -> Option<Waits> {
        let contention = self.0.contention();
        Some(Waits {
            met: contention.met_lock,
            nanoseconds: contention.waited.as_nanos() as u64,
        })
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().arena.committed
    }
}

impl ConcurrentEngine for Indexed {
    const NAME: &'static str = "sapwood-shared-index";
    type Session<'m> = Registered<'m>;

    fn new() -> Self {
        let map = QpShared::builder().with_index().build();
        Self(Shared(map.expect("there is address space")))
    }

    fn session(&self) -> Registered<'_> {
        self.0.session()
    }

    fn waits(&self) -> Option<Waits> {
        ConcurrentEngine::waits(&self.0)
    }

    fn mapped_bytes(&self) -> usize {
        ConcurrentEngine::mapped_bytes(&self.0)
    }
}

impl Session for Registered<'_> {
    #[inline]
    fn get(&mut self, key: &[u8]) -> Option<u64> {
        self.reader.view().get(key).copied()
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: u64) -> bool {
        let old = self.reader.view().insert(key, value);
        old.expect("the key fits").is_none()
    }

    #[inline]
    fn replace(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.reader.view().replace(key, value).ok().copied()
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let old = self.reader.view().remove(key);
        old.expect("there is memory for a node").copied()
    }

    fn pause(&mut self) {
        self.reader.quiescent();
        self.map.reclaim(RECLAIM);
    }
}

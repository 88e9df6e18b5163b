//! Ours without order: the point index alone.

use sapwood::Reader;
use sapwood::qp::PointMap;

use super::{ConcurrentEngine, Session, Waits};

/// `PointMap`. A run of keys is done between two quiescent states.
pub struct Points(PointMap<u64>);

/// A registered thread.
pub struct Registered<'m> {
    map: &'m PointMap<u64>,
    reader: Reader<PointMap<u64>>,
}

/// What a thread frees at most in a pause.
const RECLAIM: usize = 1 << 10;

impl ConcurrentEngine for Points {
    const NAME: &'static str = "sapwood-points";
    type Session<'m> = Registered<'m>;

    fn new() -> Self {
        Self(PointMap::new().expect("there is address space"))
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
        old.expect("no garbage limit").copied()
    }

    fn pause(&mut self) {
        self.reader.quiescent();
        self.map.reclaim(RECLAIM);
    }
}

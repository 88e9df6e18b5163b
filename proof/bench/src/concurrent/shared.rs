//! Sapwood's maps: the trie alone, the trie with the point index, and the index alone.

use sapwood::Reader;
use sapwood::qp::{Order, PointMap, QpShared, SharedMap};

use super::{ConcurrentEngine, Session, Waits};

/// A registered thread. It reports a quiescent state after each run of keys.
pub struct Registered<'m, O: Order> {
    map: &'m SharedMap<O, u64>,
    reader: Reader<SharedMap<O, u64>>,
}

/// The largest number of retired items that a thread frees in one pause.
const RECLAIM: usize = 1 << 10;

impl<O: Order> Session for Registered<'_, O> {
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
        old.expect("there is memory, and no garbage limit").copied()
    }

    fn pause(&mut self) {
        self.reader.quiescent();
        self.map.reclaim(RECLAIM);
    }
}

macro_rules! engines {
    ($($(#[$doc:meta])* $engine:ident($map:ty) = $name:literal, $new:expr;)*) => {$(
        $(#[$doc])*
        pub struct $engine($map);

        impl ConcurrentEngine for $engine {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self($new.expect("there is address space"))
            }

            fn session(&self) -> impl Session {
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
    )*};
}

engines! {
    /// `QpShared`.
    Shared(QpShared<u64>) = "sapwood-shared", QpShared::new();
    /// `QpShared` with the point index.
    Indexed(QpShared<u64>) = "sapwood-shared-index", QpShared::builder().with_index().build();
    /// `PointMap`.
    Points(PointMap<u64>) = "sapwood-points", PointMap::new();
}

//! Sapwood's maps for many writers, used by one thread: the trie alone, the trie with the point
//! index, and the index alone.

use std::ops::Bound;
use std::time::Duration;

use sapwood::qp::{PointMap, QpShared};

use super::{Built, Engine, in_turns, longest};
use crate::answer::{Answer, AnswerSum, SEPARATOR, is_cut};
use crate::keylist::{KeyList, ScanSum, Tally};

macro_rules! engines {
    ($(
        $(#[$doc:meta])*
        $engine:ident($map:ty) = $name:literal, ordered: $ordered:literal, $new:expr,
        { $($ordered_methods:tt)* }
    )*) => {$(
        $(#[$doc])*
        pub struct $engine($map);

        impl $engine {
            fn new() -> Self {
                Self($new.expect("there is address space"))
            }
        }

        impl Engine for $engine {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;

            fn build(pairs: &KeyList) -> Self {
                let map = Self::new();
                for (key, value) in pairs.iter() {
                    map.0.insert(key, value).expect("the key fits");
                }
                map
            }

            fn worst_insert(pairs: &KeyList) -> Option<Duration> {
                let map = Self::new();
                Some(longest(pairs, |key, value| {
                    map.0.insert(key, value).expect("the key fits");
                }))
            }
        }

        impl Built for $engine {
            #[inline]
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.0.get(key)
            }

            /// Looks the keys up under one guard, as a reader does.
            fn lookups(&self, keys: &KeyList) -> Tally {
                let pin = self.0.pin();
                Tally::of(keys, |key| pin.view().get(key).copied())
            }

            fn chained(&self, keys: &KeyList) -> Option<Tally> {
                let pin = self.0.pin();
                Some(Tally::chained(keys, |key| pin.view().get(key).copied()))
            }

            fn scan(&self) -> ScanSum {
                let pin = self.0.pin();
                ScanSum::of(pin.view().iter().map(|(key, value)| (key, *value)))
            }

            fn replace(&mut self, old: &KeyList, new: &KeyList) {
                in_turns(old, new, |old, new, value| {
                    self.0.remove(old).expect("there is memory");
                    self.0.insert(new, value).expect("the key fits");
                });
            }

            fn mapped_bytes(&self) -> usize {
                self.0.memory().arena.committed
            }

            $($ordered_methods)*
        }
    )*};
}

engines! {
    /// `QpShared`.
    Shared(QpShared<u64>) = "sapwood-shared", ordered: true, QpShared::new(), {
        fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
            let pin = self.0.pin();
            let view = pin.view();
            Some(ScanSum::ranges(starts, count, |start| {
                let entries = view.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
                entries.map(|(key, value)| (key, *value))
            }))
        }

        fn predecessors(&self, keys: &KeyList) -> Option<ScanSum> {
            let pin = self.0.pin();
            let entry = |key: &[u8]| pin.view().predecessor(key).into_iter();
            Some(ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value))))
        }

        fn longest_prefixes(&self, keys: &KeyList) -> Option<ScanSum> {
            let pin = self.0.pin();
            let entry = |key: &[u8]| pin.view().longest_prefix(key).into_iter();
            Some(ScanSum::ranges(keys, 1, |key| entry(key).map(|(key, value)| (key, *value))))
        }

        fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
            Some(closest(&self.0, names))
        }
    }
    /// `QpShared` with the point index.
    Indexed(QpShared<u64>) = "sapwood-shared-index", ordered: true,
        QpShared::builder().with_index().build(), {
        fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
            Some(closest(&self.0, names))
        }
    }
    /// `PointMap`.
    Points(PointMap<u64>) = "sapwood-points", ordered: false, PointMap::new(), {
        fn closest(&self, names: &KeyList) -> Option<AnswerSum> {
            let pin = self.0.pin();
            Some(AnswerSum::of_above(names, |key| pin.view().get(key).copied()))
        }
    }
}

/// All answers under one guard.
fn closest(map: &QpShared<u64>, names: &KeyList) -> AnswerSum {
    let pin = map.pin();
    AnswerSum::of(names, |name| {
        Answer::of(&pin.view().closest(name, SEPARATOR, is_cut))
    })
}

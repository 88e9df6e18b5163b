//! The maps of the case `texts`: byte strings to byte strings of 0 to 1,000 bytes.
//!
//! The number of a pair stands for a text: it gives the text's length, its first byte and its last
//! byte. Each engine makes the text from the number and stores it. A lookup returns the number of
//! the text that it finds, for which it reads both ends of the text.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use sapwood::qp::{PointMap, QpMap, QpShared, QpStore};

use super::sapwood::mapped;
use super::{Built, Engine, Lane, in_turns, lane};
use crate::keylist::{KeyList, ScanSum, Tally};

/// The length of the longest text in bytes.
pub const MOST: usize = 1_000;

/// The number of a text.
#[inline]
fn number(text: &[u8]) -> u64 {
    let ends = [text.first(), text.last()].map(|end| u64::from(end.copied().unwrap_or(0)));
    text.len() as u64 | ends[0] << 10 | ends[1] << 18
}

/// A number that stands for a text, made from any number.
pub fn any_number(random: u64) -> u64 {
    let mut text = [0; MOST];
    let len = (random >> 16) as usize % (MOST + 1);
    if len > 0 {
        text[0] = random as u8;
        text[len - 1] = (random >> 8) as u8;
    }
    number(&text[..len])
}

/// The length in bytes of the text that a number stands for.
pub fn length(number: u64) -> usize {
    (number & 1023) as usize
}

/// The buffer in which texts are made.
struct Scratch([u8; MOST]);

impl Scratch {
    fn new() -> Self {
        Self([b'.'; MOST])
    }

    /// Calls `with` with the text of a number.
    #[inline]
    fn text(&mut self, number: u64, with: impl FnOnce(&[u8])) {
        let text = &mut self.0[..length(number)];
        if let Some(last) = text.last_mut() {
            *last = (number >> 18) as u8;
        }
        if let Some(first) = text.first_mut() {
            *first = (number >> 10) as u8;
        }
        with(text);
        for end in [text.len().saturating_sub(1), 0] {
            text.get_mut(end).into_iter().for_each(|byte| *byte = b'.');
        }
    }
}

/// `QpMap`, as built or compacted.
struct Owned<const COMPACT: bool>(QpMap<[u8]>);

impl<const COMPACT: bool> Engine for Owned<COMPACT> {
    const NAME: &'static str = match COMPACT {
        true => "sapwood-compact",
        false => "sapwood",
    };

    fn build(pairs: &KeyList) -> Self {
        let (mut map, mut scratch) = (QpMap::new(), Scratch::new());
        for (key, value) in pairs.iter() {
            scratch.text(value, |text| drop(map.insert(key, text).expect("it fits")));
        }
        Self(map)
    }
}

impl<const COMPACT: bool> Built for Owned<COMPACT> {
    fn finish(&mut self) {
        if COMPACT {
            self.0.compact().expect("there is memory for a copy");
        }
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).map(number)
    }

    fn scan(&self) -> ScanSum {
        let mut sum = ScanSum::default();
        let _ = self.0.for_each::<[u8], _, ()>(.., sum.each(None, number));
        sum
    }

    fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
        let mut sum = ScanSum::default();
        for (start, _) in starts.iter() {
            let bounds = (Bound::Included(start), Bound::Unbounded);
            let each = sum.each(Some(count), number);
            let _ = self.0.for_each::<[u8], _, ()>(bounds, each);
        }
        Some(sum)
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        let mut scratch = Scratch::new();
        in_turns(old, new, |old, new, value| {
            self.0.remove(old);
            scratch.text(value, |text| {
                drop(self.0.insert(new, text).expect("it fits"))
            });
        });
    }

    fn mapped_bytes(&self) -> usize {
        mapped(&self.0.memory().arena)
    }
}

/// `QpStore`, with transactions of 256 changes.
struct Store(QpStore<[u8]>);

impl Engine for Store {
    const NAME: &'static str = "sapwood-store";

    fn build(pairs: &KeyList) -> Self {
        let (store, mut scratch) = (
            QpStore::new().expect("there is address space"),
            Scratch::new(),
        );
        for from in (0..pairs.len()).step_by(256) {
            let mut txn = store.begin();
            for (key, value) in pairs.run(from, 256.min(pairs.len() - from)) {
                scratch.text(value, |text| {
                    txn.insert(key, text).expect("it fits");
                });
            }
            txn.commit();
        }
        Self(store)
    }
}

impl Built for Store {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.read(|view| view.get(key).map(number))
    }

    fn lookups(&self, keys: &KeyList) -> Tally {
        self.0
            .read(|view| Tally::of(keys, |key| view.get(key).map(number)))
    }

    fn scan(&self) -> ScanSum {
        let mut sum = ScanSum::default();
        self.0.read(|view| {
            let _ = view.for_each::<[u8], _, ()>(.., sum.each(None, number));
        });
        sum
    }

    fn replace(&mut self, old: &KeyList, new: &KeyList) {
        let mut scratch = Scratch::new();
        in_turns(old, new, |old, new, value| {
            let mut txn = self.0.begin();
            txn.remove(old).expect("there is memory");
            scratch.text(value, |text| {
                txn.insert(new, text).expect("it fits");
            });
            txn.commit();
        });
    }

    fn mapped_bytes(&self) -> usize {
        self.0.memory().map.arena.committed
    }
}

macro_rules! shared {
    ($($engine:ident($map:ident) = $name:literal, ordered: $ordered:literal)*) => {$(
        #[doc = concat!("`", stringify!($map), "`, used by one thread.")]
        struct $engine($map<[u8]>);

        impl Engine for $engine {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;

            fn build(pairs: &KeyList) -> Self {
                let map = $map::<[u8]>::new().expect("there is address space");
                let mut scratch = Scratch::new();
                for (key, value) in pairs.iter() {
                    scratch.text(value, |text| {
                        map.insert(key, text).expect("it fits");
                    });
                }
                Self(map)
            }
        }

        impl Built for $engine {
            #[inline]
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.0.read(|view| view.get(key).map(number))
            }

            /// Looks the keys up under one guard, as a reader does.
            fn lookups(&self, keys: &KeyList) -> Tally {
                let pin = self.0.pin();
                Tally::of(keys, |key| pin.view().get(key).map(number))
            }

            fn scan(&self) -> ScanSum {
                let pin = self.0.pin();
                ScanSum::of(pin.view().iter().map(|(key, text)| (key, number(text))))
            }

            fn replace(&mut self, old: &KeyList, new: &KeyList) {
                let mut scratch = Scratch::new();
                in_turns(old, new, |old, new, value| {
                    self.0.remove(old).expect("there is memory");
                    scratch.text(value, |text| {
                        self.0.insert(new, text).expect("it fits");
                    });
                });
            }

            fn mapped_bytes(&self) -> usize {
                self.0.memory().arena.committed
            }
        }
    )*};
}

shared! {
    Shared(QpShared) = "sapwood-shared", ordered: true
    Points(PointMap) = "sapwood-points", ordered: false
}

type Text = Box<[u8]>;
type Foldhash = hashbrown::HashMap<Text, Text, foldhash::fast::RandomState>;
type Std = HashMap<Text, Text>;
type Btree = BTreeMap<Text, Text>;

macro_rules! boxed {
    ($($map:ident = $name:literal, ordered: $ordered:literal { $($ordered_methods:tt)* })*) => {$(
        impl Engine for $map {
            const NAME: &'static str = $name;
            const ORDERED: bool = $ordered;

            fn build(pairs: &KeyList) -> Self {
                let (mut map, mut scratch) = (Self::default(), Scratch::new());
                for (key, value) in pairs.iter() {
                    scratch.text(value, |text| drop(map.insert(Box::from(key), Box::from(text))));
                }
                map
            }
        }

        impl Built for $map {
            #[inline]
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.get(key).map(|text| number(text))
            }

            fn scan(&self) -> ScanSum {
                ScanSum::of(self.iter().map(|(key, text)| (&**key, number(text))))
            }

            fn replace(&mut self, old: &KeyList, new: &KeyList) {
                let mut scratch = Scratch::new();
                in_turns(old, new, |old, new, value| {
                    self.remove(old);
                    scratch.text(value, |text| drop(self.insert(Box::from(new), Box::from(text))));
                });
            }

            $($ordered_methods)*
        }
    )*};
}

boxed! {
    Foldhash = "hashbrown-foldhash", ordered: false {}
    Std = "std-hashmap", ordered: false {}
    Btree = "std-btreemap", ordered: true {
        fn ranges(&self, starts: &KeyList, count: usize) -> Option<ScanSum> {
            Some(ScanSum::ranges(starts, count, |start| {
                let entries = self.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
                entries.map(|(key, text)| (&**key, number(text)))
            }))
        }
    }
}

/// The engines of the case.
pub fn lanes() -> Vec<Lane> {
    vec![
        lane::<Owned<false>>(),
        lane::<Owned<true>>(),
        lane::<Store>(),
        lane::<Shared>(),
        lane::<Points>(),
        lane::<Foldhash>(),
        lane::<Std>(),
        lane::<Btree>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keylist::scramble;

    #[test]
    fn every_engine_answers_with_the_number_of_the_text() {
        let keys: Vec<Box<[u8]>> = (0..400u32).map(|i| i.to_be_bytes().into()).collect();
        let pairs = |from: u64| {
            let numbers = (from..).map(|i| any_number(scramble(i)));
            let pairs = keys.iter().zip(numbers);
            KeyList::new(pairs.map(|(key, number)| (&**key, number)))
        };
        let list = pairs(0);
        assert!(list.iter().any(|(_, number)| length(number) > 990));
        assert!(any_number(0) == 0 && any_number(u64::MAX) < 1 << 26);
        for lane in lanes() {
            let mut built = (lane.build)(&list.shuffled(1));
            built.finish();
            for (key, value) in list.iter() {
                assert_eq!(built.get(key), Some(value), "{}", lane.name);
            }
            assert_eq!(built.scan().sum, list.sum(), "{}", lane.name);
            built.replace(&list, &pairs(7));
            assert_eq!(built.lookups(&list).sum, pairs(7).sum(), "{}", lane.name);
        }
    }
}

//! The maps over byte strings that user space writes, for tests that are generic over the map.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::ops::ControlFlow;

use super::word;
use sapwood::qp::{Accepts, IntoValue, PointMap, QpShared, QpStore};
use sapwood_bpf::{
    BpfArena, CheckedReader, CheckedValue, Error, NamesInWindow, UserMap, UserPointMap, UserStore,
    WindowMapBuilder, WindowValue,
};

/// The operations that the tests use.
pub trait Names: NamesInWindow + Debug + Send + Sync {
    fn put(&self, key: &[u8], value: u64);
    /// Removes a key, and returns whether it was there.
    fn take(&self, key: &[u8]) -> bool;
    fn value(&self, key: &[u8]) -> Option<u64>;
    fn count(&self) -> usize;
    /// All entries, in order of keys.
    fn entries(&self) -> Vec<(Vec<u8>, u64)>;
    /// Removes all entries, and returns their number.
    fn empty(&self) -> usize;
    fn check(&self);
    /// Compacts the map, and returns whether there is more to compact.
    fn tidy(&self, budget: usize) -> bool;
    /// Pins the map for a moment.
    fn rest(&self);
}

/// A number that a map holds: as eight bytes, or as a byte string made of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Number(pub u64);

impl CheckedValue for Number {
    fn fits(bytes: usize) -> bool {
        bytes == 8
    }

    fn of(bytes: &[u8]) -> Option<Number> {
        let number = u64::from_le_bytes(*bytes.first_chunk()?);
        (bytes.len() == 8 || bytes == text(number)).then_some(Number(number))
    }

    fn align() -> Option<usize> {
        None
    }
}

impl From<Number> for u64 {
    fn from(Number(number): Number) -> u64 {
        number
    }
}

/// The byte string of a number, as `tests/bpf/number.h` checks it.
pub fn text(number: u64) -> Vec<u8> {
    let most = if number % 64 == 63 { 600 } else { 40 };
    let mut text = number.to_le_bytes().to_vec();
    text.extend((8..8 + number % most).map(|i| (number >> (i % 8 * 8) ^ i) as u8));
    text
}

/// A value of a map, made of a number.
pub trait Stored: WindowValue {
    fn put(map: &impl Puts<Self>, key: &[u8], number: u64);
    fn number(&self) -> u64;
}

/// A map that stores values of any type.
pub trait Puts<V: ?Sized + WindowValue> {
    fn put_value<N: IntoValue<V>>(&self, key: &[u8], value: N)
    where
        V: Accepts<N>;
}

impl Stored for u64 {
    fn put(map: &impl Puts<u64>, key: &[u8], number: u64) {
        map.put_value(key, number);
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// The largest value that a block holds.
impl Stored for [u64; 8] {
    fn put(map: &impl Puts<[u64; 8]>, key: &[u8], number: u64) {
        map.put_value(key, [number; 8]);
    }

    fn number(&self) -> u64 {
        self[0]
    }
}

/// A value without alignment, in entries that begin at any multiple of 4 bytes.
impl Stored for [u8; 16] {
    fn put(map: &impl Puts<[u8; 16]>, key: &[u8], number: u64) {
        map.put_value(
            key,
            (u128::from(number) << 64 | u128::from(number)).to_le_bytes(),
        );
    }

    fn number(&self) -> u64 {
        word(self, 8)
    }
}

impl Stored for [u8] {
    fn put(map: &impl Puts<[u8]>, key: &[u8], number: u64) {
        map.put_value(key, &text(number));
    }

    fn number(&self) -> u64 {
        Number::of(self).expect("the byte string of a number").0
    }
}

macro_rules! names {
    ($map:ident, $tidy:expr) => {
        impl<V: ?Sized + WindowValue> Puts<V> for $map<V> {
            fn put_value<N: IntoValue<V>>(&self, key: &[u8], value: N)
            where
                V: Accepts<N>,
            {
                if let Err(refused) = self.insert(key, value) {
                    panic!("{refused}");
                }
            }
        }

        impl<V: ?Sized + Stored + ToOwned<Owned: Borrow<V>> + Debug> Names for $map<V> {
            fn put(&self, key: &[u8], value: u64) {
                V::put(self, key, value);
            }

            fn take(&self, key: &[u8]) -> bool {
                self.remove(key).unwrap()
            }

            fn value(&self, key: &[u8]) -> Option<u64> {
                self.get(key).map(|value| value.borrow().number())
            }

            fn count(&self) -> usize {
                self.len()
            }

            fn entries(&self) -> Vec<(Vec<u8>, u64)> {
                let mut all = Vec::new();
                let _ = self.for_each(|key, value| {
                    all.push((key.to_vec(), value.number()));
                    ControlFlow::<()>::Continue(())
                });
                all.sort_unstable();
                all
            }

            fn empty(&self) -> usize {
                self.clear().unwrap()
            }

            fn check(&self) {
                self.verify().unwrap();
            }

            fn tidy(&self, budget: usize) -> bool {
                let tidy: fn(&$map<V>, usize) -> bool = $tidy;
                tidy(self, budget)
            }

            fn rest(&self) {
                drop(self.pin());
            }
        }
    };
}

names!(QpShared, |map, budget| map.compact_step(budget).unwrap());
names!(PointMap, |_, _| false);

impl<V: ?Sized + WindowValue> Puts<V> for QpStore<V> {
    fn put_value<N: IntoValue<V>>(&self, key: &[u8], value: N)
    where
        V: Accepts<N>,
    {
        let mut txn = self.begin();
        if let Err(refused) = txn.insert(key, value) {
            panic!("{refused}");
        }
        txn.commit();
    }
}

/// Each change is a commit.
impl<V: ?Sized + Stored + ToOwned<Owned: Borrow<V>> + Debug> Names for QpStore<V> {
    fn put(&self, key: &[u8], value: u64) {
        V::put(self, key, value);
    }

    fn take(&self, key: &[u8]) -> bool {
        let mut txn = self.begin();
        let there = txn.remove(key).unwrap().is_some();
        txn.commit();
        there
    }

    fn value(&self, key: &[u8]) -> Option<u64> {
        self.get(key).map(|value| value.borrow().number())
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn entries(&self) -> Vec<(Vec<u8>, u64)> {
        let snapshot = self.snapshot();
        let all = snapshot.iter();
        all.map(|(key, value)| (key.to_vec(), value.number()))
            .collect()
    }

    fn empty(&self) -> usize {
        let mut txn = self.begin();
        let there = txn.clear().unwrap();
        txn.commit();
        there
    }

    fn check(&self) {
        self.verify().unwrap();
    }

    fn tidy(&self, budget: usize) -> bool {
        self.compact_step(budget).unwrap()
    }

    fn rest(&self) {
        drop(self.pin());
    }
}

/// A map and how it is made.
pub trait Kind {
    type Map: Names;
    const NAME: &'static str;
    const HAS_TRIE: bool;
    const HAS_INDEX: bool;
    /// The kinds of lookups that programs can do: see `lookup`.
    const WHATS: &'static [u32];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map>;
}

/// A trie alone.
pub struct Trie;
/// A trie and an index.
pub struct Both;
/// An index alone.
pub struct Points;

impl Kind for Trie {
    type Map = QpShared<u64>;
    const NAME: &'static str = "trie";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = false;
    const WHATS: &'static [u32] = &[0, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserMap::builder(arena, name)
    }
}

impl Kind for Both {
    type Map = QpShared<u64>;
    const NAME: &'static str = "both";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = true;
    const WHATS: &'static [u32] = &[0, 1, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserMap::builder(arena, name).with_index()
    }
}

impl Kind for Points {
    type Map = PointMap<u64>;
    const NAME: &'static str = "points";
    const HAS_TRIE: bool = false;
    const HAS_INDEX: bool = true;
    const WHATS: &'static [u32] = &[1, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserPointMap::builder(arena, name)
    }
}

/// A store.
pub struct Stores;

impl Kind for Stores {
    type Map = QpStore<u64>;
    const NAME: &'static str = "store";
    const HAS_TRIE: bool = true;
    const HAS_INDEX: bool = false;
    const WHATS: &'static [u32] = &[0, 2];

    fn builder(arena: &BpfArena, name: &str) -> WindowMapBuilder<Self::Map> {
        UserStore::builder(arena, name)
    }
}

/// A trie, a trie and an index, and a store, of byte strings.
pub struct Texts;
pub struct TextsBoth;
pub struct TextStores;
/// An index alone, of byte strings.
pub struct TextPoints;

/// A store of large values, and one of values without alignment.
pub struct WideStores;
pub struct LooseStores;

macro_rules! kinds {
    ($($texts:ident of $kind:ident, $map:ident<$value:ty>, $name:literal, |$arena:ident, $called:ident| $builder:expr;)*) => {
        $(impl Kind for $texts {
            type Map = $map<$value>;
            const NAME: &'static str = $name;
            const HAS_TRIE: bool = $kind::HAS_TRIE;
            const HAS_INDEX: bool = $kind::HAS_INDEX;
            const WHATS: &'static [u32] = $kind::WHATS;

            fn builder($arena: &BpfArena, $called: &str) -> WindowMapBuilder<Self::Map> {
                $builder
            }
        })*
    };
}

kinds! {
    Texts of Trie, QpShared<[u8]>, "texts", |arena, name| UserMap::builder(arena, name);
    TextsBoth of Both, QpShared<[u8]>, "texts-both", |arena, name| UserMap::builder(arena, name).with_index();
    TextPoints of Points, PointMap<[u8]>, "text-points", |arena, name| UserPointMap::builder(arena, name);
    TextStores of Stores, QpStore<[u8]>, "text-stores", |arena, name| UserStore::builder(arena, name);
    WideStores of Stores, QpStore<[u64; 8]>, "wide-stores", |arena, name| UserStore::builder(arena, name);
    LooseStores of Stores, QpStore<[u8; 16]>, "loose-stores", |arena, name| UserStore::builder(arena, name);
}

/// All entries that a reader finds, in order of keys.
pub fn all<V: CheckedValue + Into<u64>>(map: &CheckedReader<V>) -> Vec<(Vec<u8>, u64)> {
    let number = |entry: Result<(Vec<u8>, V), Error>| {
        let (key, value) = entry.unwrap();
        (key, value.into())
    };
    let mut all: Vec<_> = map.unordered().map(number).collect();
    if map.has_order().unwrap() {
        assert!(map.iter().map(number).eq(all.clone()));
    }
    all.sort_unstable();
    all
}

/// Makes the tests for each kind of map, in a module of the kind.
#[macro_export]
macro_rules! tests_of_maps {
    ($($module:ident: $kind:ident { $($test:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                if !super::skipped() {
                    super::$test::<super::$kind>();
                }
            })*
        })*
    };
}

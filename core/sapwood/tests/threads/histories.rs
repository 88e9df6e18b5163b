//! Maps for many writers on real threads: recorded histories are linearizable, and a long run
//! leaves the right entries.
//!
//! `SAPWOOD_SOAK=600` makes the last test run for ten minutes, `SAPWOOD_ROUNDS=1000` records a
//! thousand histories of each kind of map.

use std::time::Duration;

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::Error;
use sapwood::qp::{Order, PointMap, QpShared, SharedMap};
use sapwood_model::shared_ops::{self, Absent, Present, drive, hot_keys};
use sapwood_model::soak::{Length, soak};

use crate::support::shared::{builder, each_kind};
use crate::support::steps::rounds;
use crate::support::values::Value;

/// A map, and the work of a writer in a pause.
struct Shared<O: Order, V: ?Sized + Value> {
    map: SharedMap<O, V>,
    pause: fn(&SharedMap<O, V>),
}

impl<O: Order, V: ?Sized + Value> shared_ops::SharedMap for Shared<O, V> {
    fn get(&self, key: &[u8]) -> Option<u64> {
        V::shared_get(&self.map, key)
    }

    fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
        V::view_insert(self.map.pin().view(), key, value).unwrap()
    }

    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
        V::insert_new(&self.map, key, value).map_err(|error| {
            assert_eq!(error, Error::Exists);
            Present
        })
    }

    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
        let pin = self.map.pin();
        V::view_replace(pin.view(), key, value).map_err(|error| {
            assert_eq!(error, Error::Absent);
            Absent
        })
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        self.map.pin().view().remove(key).unwrap().map(V::number)
    }

    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
        let pin = self.map.pin();
        let done = V::view_exchange(pin.view(), key, expected, new).unwrap();
        done.map(drop)
    }

    fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
        V::view_get_or_insert(self.map.pin().view(), key, value).unwrap()
    }

    fn pause(&self) {
        (self.pause)(&self.map);
        self.map.reclaim(100);
    }
}

/// Whether `SAPWOOD_OPS` asks for few operations, as under sanitizers.
fn few() -> bool {
    std::env::var("SAPWOOD_OPS").is_ok_and(|ops| ops.parse().is_ok_and(|n: u64| n < 100_000))
}

/// Options for memory in both modes.
fn both_modes() -> [ArenaOptions; 2] {
    [DebugMode::Off, DebugMode::Poison].map(|debug| {
        ArenaOptions::default()
            .backing(Backing::Mmap { reserve: 1 << 30 })
            .debug(debug)
    })
}

/// The number of maps that `all_kinds` makes.
const KINDS: u64 = 10;

/// Runs `$test` on maps of all kinds, and on tries that are compacted meanwhile.
macro_rules! all_kinds {
    ($test:ident) => {{
        let mut seed = fastrand::u64(..);
        let mut run = |kind: &str, test: &dyn Fn(u64)| {
            seed = seed.wrapping_add(1);
            println!("{kind}, seed {seed}");
            test(seed);
        };
        for options in both_modes() {
            each_kind!(new => {
                let map: SharedMap<_, u64> = new().options(options.clone()).build().unwrap();
                run("as it is", &|seed| {
                    $test(Shared { map: map.clone(), pause: |_| () }, seed)
                });
            });
            for index in [false, true] {
                let map = builder(index).options(options.clone()).build().unwrap();
                run("compacted", &|seed| {
                    let pause = |map: &QpShared<u64>| {
                        map.compact_step(20).unwrap();
                    };
                    $test(Shared { map: map.clone(), pause }, seed)
                });
            }
        }
    }};
}

fn linearizable<O: Order, V: ?Sized + Value>(shared: Shared<O, V>, seed: u64) {
    let (usual, ops) = match (cfg!(miri), few()) {
        (true, _) => (1, 20),
        (false, true) => (4, 300),
        (false, false) => (20, 400),
    };
    let rounds = rounds(usual);
    for round in 0..rounds as u64 {
        let keys = hot_keys(6);
        for key in &keys {
            shared.map.remove(key).unwrap();
        }
        let history = drive(&shared, 4, ops, &keys, seed.wrapping_add(round));
        if let Err(error) = history.check() {
            panic!("{error}");
        }
    }
    shared.map.verify().unwrap();
    println!("{rounds} histories");
}

#[test]
fn histories_are_linearizable() {
    all_kinds!(linearizable);
}

/// Byte strings in the same test: each has a length, and a replacement changes it.
#[test]
fn histories_of_byte_strings_are_linearizable() {
    for options in both_modes() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let trie = QpShared::<[u8]>::builder().with_index();
        let pause = |map: &QpShared<[u8]>| {
            map.compact_step(20).unwrap();
        };
        let map = trie.options(options.clone()).build().unwrap();
        linearizable(Shared { map, pause }, seed);
        let map = PointMap::<[u8]>::builder().options(options).build();
        let map = map.unwrap();
        linearizable(Shared { map, pause: |_| () }, seed);
    }
}

fn a_long_run<O: Order, V: ?Sized + Value>(shared: Shared<O, V>, seed: u64) {
    let seconds: u64 = std::env::var("SAPWOOD_SOAK").map_or(0, |s| s.parse().expect("seconds"));
    let length = match seconds {
        0 if cfg!(miri) => Length::Operations(30),
        0 if few() => Length::Operations(3000),
        0 => Length::Operations(20_000),
        all => Length::Time(Duration::from_millis(all * 1000 / KINDS)),
    };
    let expected = soak(&shared, 4, length, seed);
    shared.map.verify().unwrap();
    let pin = shared.map.pin();
    let mut entries: Vec<_> = pin
        .view()
        .iter()
        .map(|(key, value)| (key, value.number()))
        .collect();
    entries.sort_unstable();
    let checked = expected.check(entries);
    assert_eq!(checked, Ok(shared.map.len()));
    let contention = shared.map.contention();
    assert!(contention.operations > 0);
    println!("{} operations, {contention:?}", expected.operations);
}

#[test]
fn a_long_run_leaves_what_it_must() {
    all_kinds!(a_long_run);
}

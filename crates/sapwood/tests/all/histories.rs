//! `QpShared` on real threads: recorded histories are linearizable, and a long run leaves what it must.
//!
//! `SAPWOOD_SOAK=600` makes the last test run for ten minutes.

use std::time::Duration;

use sapwood::Error;
use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::qp::{Exchange, QpShared};
use sapwood_model::shared_ops::{Absent, Present, SharedMap, drive, hot_keys};
use sapwood_model::soak::{Length, soak};

struct Shared {
    map: QpShared<u64>,
    compact: bool,
}

impl SharedMap for Shared {
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.map.get(key)
    }

    fn insert(&self, key: &[u8], value: u64) -> Option<u64> {
        self.map.pin().view().insert(key, value).unwrap().copied()
    }

    fn insert_new(&self, key: &[u8], value: u64) -> Result<(), Present> {
        self.map.insert_new(key, value).map_err(|no| {
            assert_eq!(no.error, Error::Exists);
            Present
        })
    }

    fn replace(&self, key: &[u8], value: u64) -> Result<u64, Absent> {
        let pin = self.map.pin();
        pin.view().replace(key, value).copied().map_err(|no| {
            assert_eq!(no.error, Error::Absent);
            Absent
        })
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        self.map.pin().view().remove(key).unwrap().copied()
    }

    fn compare_exchange(&self, key: &[u8], expected: u64, new: u64) -> Result<(), Option<u64>> {
        let pin = self.map.pin();
        match pin.view().compare_exchange(key, &expected, new).unwrap() {
            Exchange::Done(_) => Ok(()),
            Exchange::Refused { found, .. } => Err(found.copied()),
        }
    }

    fn get_or_insert(&self, key: &[u8], value: u64) -> u64 {
        self.map.get_or_insert_with(key, || value).unwrap()
    }

    fn pause(&self) {
        if self.compact {
            self.map.compact_step(20).unwrap();
        }
        self.map.reclaim(100);
    }
}

fn shared(index: bool, debug: DebugMode, compact: bool) -> Shared {
    let options = ArenaOptions::default()
        .backing(Backing::Mmap { reserve: 1 << 30 })
        .debug(debug);
    let builder = QpShared::builder().options(options);
    let builder = if index { builder.with_index() } else { builder };
    Shared {
        map: builder.build().unwrap(),
        compact,
    }
}

/// Whether `SAPWOOD_OPS` asks for few operations, as it does under sanitizers.
fn few() -> bool {
    std::env::var("SAPWOOD_OPS").is_ok_and(|ops| ops.parse().is_ok_and(|n: u64| n < 100_000))
}

/// Runs `test` on maps of all kinds.
fn all_kinds(test: impl Fn(Shared, u64)) {
    let mut seed = fastrand::u64(..);
    for index in [false, true] {
        for debug in [DebugMode::Off, DebugMode::Poison] {
            for compact in [false, true] {
                seed += 1;
                println!("index {index}, {debug:?}, compacting {compact}, seed {seed}");
                test(shared(index, debug, compact), seed);
            }
        }
    }
}

#[test]
fn histories_are_linearizable() {
    let (rounds, ops) = match (cfg!(miri), few()) {
        (true, _) => (1, 20),
        (false, true) => (4, 300),
        (false, false) => (20, 400),
    };
    all_kinds(|shared, seed| {
        for round in 0..rounds {
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
    });
}

#[test]
fn a_long_run_leaves_what_it_must() {
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(0, |s| s.parse().expect("seconds"));
    all_kinds(|shared, seed| {
        let length = match seconds {
            0 if cfg!(miri) => Length::Operations(30),
            0 if few() => Length::Operations(3000),
            0 => Length::Operations(20_000),
            // Eight kinds share the time.
            all => Length::Time(Duration::from_millis(all * 1000 / 8)),
        };
        let expected = soak(&shared, 4, length, seed);
        shared.map.verify().unwrap();
        let pin = shared.map.pin();
        let entries = pin.view().iter().map(|(key, value)| (key, *value));
        let checked = expected.check(entries);
        assert_eq!(checked, Ok(shared.map.len()));
        println!(
            "{} operations, {:?}",
            expected.operations,
            shared.map.contention()
        );
    });
}

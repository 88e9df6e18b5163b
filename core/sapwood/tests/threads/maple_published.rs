//! Readers of a published map beside its writer: by a second mapping of its file, as another
//! process reads it, and by checked copies of its nodes. `SAPWOOD_SOAK` sets the seconds that each
//! test runs.
#![cfg(all(unix, not(miri)))]

use std::time::{Duration, Instant};

use sapwood::maple::{MapleMap, PlainValue};
use sapwood_checked::maple::CheckedMaple;
use sapwood_checked::{Fixed, Trouble};

use crate::support::attached::Attached;
use crate::support::folder::Folder;
use crate::support::progress::Progress;
use crate::support::ranges::steps;
use crate::support::ranges_script::{Payload, Script, Units};

const PAGES: Units = Units {
    count: 96,
    size: 4096,
};

impl Payload for [u64; 3] {
    fn of(version: u32) -> Self {
        [1, 3, 5].map(|factor| u64::of(version).wrapping_mul(factor))
    }

    fn version(&self) -> Option<u32> {
        let version = self[0].version()?;
        (*self == Self::of(version)).then_some(version)
    }
}

fn beside<V: Payload + PlainValue>(
    name: &str,
    seed: u64,
    reader: impl Fn(&Attached<V>, &Script, &Progress, &mut fastrand::Rng) + Sync,
) {
    let soak = std::env::var("SAPWOOD_SOAK").ok();
    let soak = soak.and_then(|seconds| seconds.parse().ok());
    let end = Instant::now() + Duration::from_secs(soak.unwrap_or(0));
    for round in 0.. {
        once(&format!("{name}-{round}"), seed + 1000 * round, &reader);
        if round >= 2 && Instant::now() > end {
            break;
        }
    }
}

fn once<V: Payload + PlainValue>(
    name: &str,
    seed: u64,
    reader: &(impl Fn(&Attached<V>, &Script, &Progress, &mut fastrand::Rng) + Sync),
) {
    let folder = Folder::quick(name);
    let script = Script::random(seed, PAGES, false, steps(4_000));
    let builder = MapleMap::<V>::builder().nodes(128, 4);
    let attached = Attached::new(builder, &folder.file("map"));
    script.prepare(&attached.map);
    let progress = Progress::default();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (attached, script, progress) = (&attached, &script, &progress);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed + number);
                let mut asked = 0;
                while progress.done() < script.steps.len() || asked < 10 {
                    reader(attached, script, progress, &mut rng);
                    asked += 1;
                }
            });
        }
        for i in 0..script.steps.len() {
            progress.step(i, || script.make(&attached.map, i));
        }
    });
    script.check(&attached.map, script.steps.len());
    attached.map.reclaim(usize::MAX);
    assert_eq!(attached.map.memory().waiting.0, 0);
}

/// Every kind of question, by the second mapping.
fn attached<V: Payload + PlainValue>(name: &str, seed: u64) {
    beside::<V>(name, seed, |attached, script, progress, rng| {
        attached.read(|view| {
            for _ in 0..8 {
                script.ask(&attached.map, view, progress, rng);
            }
        });
    });
}

#[test]
fn attached_views_beside_a_writer() {
    attached::<u64>("maple-attached", 31);
}

#[test]
fn attached_views_of_values_apart_beside_a_writer() {
    attached::<[u64; 3]>("maple-attached-apart", 32);
}

/// While the writer's grace periods wait for it, a checked reader sees no damage, except where the
/// map grows out of the window.
fn checked<V: Payload + PlainValue>(name: &str, seed: u64) {
    beside::<V>(name, seed, |attached, script, progress, rng| {
        attached.map.read(|_| {
            let window = attached.memory.window();
            let reader = CheckedMaple::<_, V>::new(Fixed(window)).unwrap();
            for _ in 0..8 {
                match script.ask_checked(&reader, progress, rng) {
                    Ok(()) | Err(Trouble::Changed) => (),
                    Err(what) => {
                        assert!(what.to_string().contains("out of the memory"), "{what}");
                    }
                }
            }
        });
    });
}

#[test]
fn checked_readers_beside_a_writer() {
    checked::<u64>("maple-checked", 33);
}

#[test]
fn checked_readers_of_values_apart_beside_a_writer() {
    checked::<[u64; 3]>("maple-checked-apart", 34);
}

/// Without a grace period, memory is reused under the reader: it ends, and reads nothing outside
/// (the window panics then).
#[test]
fn checked_readers_without_a_grace_period_end() {
    beside::<u64>("maple-checked-alone", 35, |attached, _, _, rng| {
        let reader = CheckedMaple::<_, u64>::new(Fixed(attached.memory.window())).unwrap();
        let at = rng.u64(0..PAGES.count * PAGES.size);
        if let Ok(Some((range, _))) = reader.get(at) {
            assert!(range.contains(&at));
        }
        if let Ok(Some(gap)) = reader.find_gap(PAGES.size, at..=u64::MAX) {
            assert!(*gap.start() >= at);
        }
        let mut next = 0;
        for (range, _) in reader.iter().map_while(Result::ok) {
            assert!(next <= *range.end() && range.start() <= range.end());
            next = range.end().saturating_add(1);
        }
    });
}

//! Chapter: readers beside a busy writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood::qp::{QpStore, QpView};
use serde_json::{Value, json};

use super::data::Set;
use super::{Chapter, Tour, cpu_time, figure, grouped, median};
use crate::beside::{Pace, Paces};
use crate::errors::Error;
use crate::progress::Progress;

/// The chapter on the rate of a reader, alone and beside a writer that never pauses.
pub struct Readers;

/// Two keys that every transaction writes together. A reader that saw only one of the writes would
/// find two values.
const TWINS: [&[u8]; 2] = [b"\0left twin", b"\xffright twin"];
/// How many lookups a view serves.
const A_VIEW: usize = 256;

impl Chapter for Readers {
    fn name(&self) -> &'static str {
        "readers"
    }

    fn title(&self) -> &'static str {
        "Readers beside a busy writer"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        let (slice, rounds) = match tour.quick {
            true => (Duration::from_millis(80), 5),
            false => (Duration::from_millis(300), 7),
        };
        tour.say(
            "One thread reads without a pause. Another one commits transaction after transaction, \
             each of ten changes. The reader takes no lock, and the writer does not wait for it. \
             The reader checks every value, and that it never sees one of two keys changed that \
             are written together. It runs by turns alone and beside the writer; its rate is by \
             the CPU time of its thread.",
        )?;
        let sets = std::mem::take(&mut tour.sets);
        let set = &sets[0];
        let mut map = set.map.clone();
        for twin in TWINS {
            map.insert(twin, 0).map_err(sapwood::Error::from)?;
        }
        let store = QpStore::from_map(map)?;
        let mut progress = Progress::new("reading and writing", Some(rounds), false);
        let commits = AtomicU64::new(0);
        let mut at = 0;
        let Paces {
            alone,
            beside,
            lookups,
            writing,
        } = Paces::measured(
            rounds,
            || read(&store, set, slice, &mut at),
            |_, stop| write(&store, set, stop, &commits),
            || progress.step(),
        )?;
        drop(progress);
        tour.checks += lookups;
        let ratios = alone.iter().zip(&beside).map(|(a, b)| b / a).collect();
        let (alone, beside, ratio) = (median(alone), median(beside), median(ratios));
        let commits = commits.into_inner();
        let rate = commits as f64 / writing.as_secs_f64();
        tour.say(format!(
            "  {} million lookups a second alone, {} million beside the writer (median ratio \
             {:.2})\n  \
             {} commits at the same time, {} thousand a second, up to version {}",
            figure(alone),
            figure(beside),
            ratio,
            grouped(commits as usize),
            figure(rate / 1e3),
            store.version(),
        ))?;
        let verdict = store.verify();
        tour.check(verdict.is_ok(), || format!("the store: {verdict:?}"))?;
        while store.reclaim(usize::MAX) > 0 {}
        let memory = store.memory();
        tour.say(format!(
            "  {} bytes of old versions still wait for readers after the end",
            grouped(memory.waiting.1)
        ))?;
        tour.sets = sets;
        Ok(json!({
            "set": tour.sets[0].name,
            "reader_alone_mops": alone,
            "reader_beside_writer_mops": beside,
            "ratio": ratio,
            "commits": commits,
            "commits_per_second": rate,
        }))
    }
}

/// Reads for `time`, from the key where the last call stopped.
fn read(store: &QpStore<u64>, set: &Set, time: Duration, at: &mut usize) -> Result<Pace, Error> {
    let mut reader = store
        .reader("reader")
        .map_err(|e| Error::Tour(e.to_string()))?;
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut lookups = 0;
    while began.elapsed() < time {
        read_one_view(&reader.view(), set, at)?;
        reader.quiescent();
        lookups += A_VIEW as u64;
    }
    Ok(Pace {
        lookups,
        cpu: cpu_time() - cpu,
    })
}

fn read_one_view(view: &QpView<'_, u64>, set: &Set, at: &mut usize) -> Result<(), Error> {
    let twins = TWINS.map(|twin| view.get(twin));
    if twins[0].is_none() || twins[0] != twins[1] {
        return Err(Error::Wrong(format!(
            "half a transaction is visible: {twins:?}"
        )));
    }
    for _ in 0..A_VIEW {
        let value = view.get(&set.keys[*at]);
        if value != Some(&(*at as u64)) {
            let key = set.show(&set.keys[*at]);
            return Err(Error::Wrong(format!(
                "{value:?} for \"{key}\" beside a writer"
            )));
        }
        *at = (*at + 1) % set.keys.len();
    }
    Ok(())
}

/// Commits transactions until the flag stops it. Each writes the two keys, replaces values of
/// stored keys, and inserts or removes other keys.
fn write(
    store: &QpStore<u64>,
    set: &Set,
    stop: &AtomicBool,
    commits: &AtomicU64,
) -> Result<(), Error> {
    let mut rng = fastrand::Rng::with_seed(store.version().get());
    while !stop.load(Ordering::Relaxed) {
        let number = commits.fetch_add(1, Ordering::Relaxed);
        let mut txn = store.begin();
        for twin in TWINS {
            txn.insert(twin, number).map_err(sapwood::Error::from)?;
        }
        for _ in 0..4 {
            // The same value again, which makes a new leaf, too.
            let i = rng.usize(..set.keys.len());
            txn.insert(&set.keys[i], i as u64)
                .map_err(sapwood::Error::from)?;
        }
        for _ in 0..4 {
            if set.misses.is_empty() {
                break;
            }
            let key = &set.misses[rng.usize(..set.misses.len())];
            if txn.contains_key(key) {
                txn.remove(key)?;
            } else {
                txn.insert(key, number).map_err(sapwood::Error::from)?;
            }
        }
        txn.commit();
    }
    Ok(())
}

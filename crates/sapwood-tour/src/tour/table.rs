//! Chapter: speed and memory beside the maps that everybody has.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sapwood::qp::QpMap;
use serde_json::{Value, json};

use super::data::{Flat, SAMPLE, Set};
use super::measure::{self, Rival};
use super::{Chapter, Tour, figure, median, mega, timed};
use crate::errors::Error;
use crate::progress::Progress;

/// The table.
pub struct Speed;

/// A map that is measured.
trait Contender: Default {
    const KIND: Rival;
    const NAME: &'static str;
    /// Whether inserting is what makes it so, and worth a figure.
    const INSERTS: bool = true;
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error>;
    /// Between inserting and asking; not timed.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// Values of all keys that are there, added up.
    fn sum(&self, keys: &Flat) -> u64;
    /// A sum over all entries in order of keys; nothing, where there is no order.
    fn scan(&self) -> Option<u64>;
}

/// Reads a key and a value.
fn touch(sum: u64, key: &[u8], value: u64) -> u64 {
    let middle = key.get(key.len() / 2).copied().unwrap_or(0);
    sum.wrapping_add(u64::from(middle)).wrapping_add(value)
}

impl Contender for QpMap<u64> {
    const KIND: Rival = Rival::Qp;
    const NAME: &'static str = "QpMap";

    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key, value).map_err(sapwood::Error::from)?;
        Ok(())
    }

    fn sum(&self, keys: &Flat) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn scan(&self) -> Option<u64> {
        Some(self.iter().fold(0, |sum, (k, v)| touch(sum, k, *v)))
    }
}

/// A map in depth-first order, asked 16 keys at a time.
#[derive(Default)]
struct Compacted(QpMap<u64>);

impl Contender for Compacted {
    const KIND: Rival = Rival::QpCompacted;
    const NAME: &'static str = "QpMap, compacted, in batches";
    const INSERTS: bool = false;

    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.0.put(key, value)
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(self.0.compact()?)
    }

    fn sum(&self, keys: &Flat) -> u64 {
        let (mut batch, mut out) = ([&[][..]; 16], [None; 16]);
        let mut sum = 0;
        for from in (0..keys.len()).step_by(16) {
            let many = (keys.len() - from).min(16);
            for (i, key) in batch[..many].iter_mut().enumerate() {
                *key = keys.get(from + i);
            }
            self.0.get_many(&batch[..many], &mut out[..many]);
            sum += out[..many].iter().flatten().copied().sum::<u64>();
        }
        sum
    }

    fn scan(&self) -> Option<u64> {
        self.0.scan()
    }
}

impl Contender for HashMap<Box<[u8]>, u64> {
    const KIND: Rival = Rival::Hash;
    const NAME: &'static str = "std HashMap";

    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key.into(), value);
        Ok(())
    }

    fn sum(&self, keys: &Flat) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn scan(&self) -> Option<u64> {
        None
    }
}

impl Contender for hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState> {
    const KIND: Rival = Rival::Foldhash;
    const NAME: &'static str = "hashbrown, foldhash";

    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key.into(), value);
        Ok(())
    }

    fn sum(&self, keys: &Flat) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn scan(&self) -> Option<u64> {
        None
    }
}

impl Contender for BTreeMap<Box<[u8]>, u64> {
    const KIND: Rival = Rival::Btree;
    const NAME: &'static str = "std BTreeMap";

    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key.into(), value);
        Ok(())
    }

    fn sum(&self, keys: &Flat) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn scan(&self) -> Option<u64> {
        Some(self.iter().fold(0, |sum, (k, v)| touch(sum, k, *v)))
    }
}

/// The questions about one set, and the right answers.
struct Course<'a> {
    set: &'a Set,
    hits: Flat,
    misses: Flat,
    hit_sum: u64,
    scan_sum: u64,
}

/// The figures of one contender, in millions a second, a round each.
struct Results {
    name: &'static str,
    kind: Rival,
    inserts: bool,
    insert: Vec<f64>,
    hit: Vec<f64>,
    miss: Vec<f64>,
    scan: Vec<f64>,
}

impl Results {
    fn new<C: Contender>() -> Self {
        Results {
            name: C::NAME,
            kind: C::KIND,
            inserts: C::INSERTS,
            insert: Vec::new(),
            hit: Vec::new(),
            miss: Vec::new(),
            scan: Vec::new(),
        }
    }
}

/// One round of one contender.
fn round<C: Contender>(
    tour: &mut Tour,
    course: &Course<'_>,
    results: &mut Results,
) -> Result<(), Error> {
    let set = course.set;
    let wrong = |what: &str| format!("{}: {} {what}", set.name, C::NAME);
    let mut map = C::default();
    let (done, time) = timed(|| {
        for (key, value) in set.keys.iter().zip(0..) {
            map.put(key, value)?;
        }
        Ok::<_, Error>(())
    });
    done?;
    if C::INSERTS {
        results.insert.push(mega(set.keys.len(), time));
    }
    map.settle()?;
    let (sum, time) = timed(|| map.sum(&course.hits));
    tour.check(sum == course.hit_sum, || wrong("lookups"))?;
    results.hit.push(mega(course.hits.len(), time));
    let (sum, time) = timed(|| map.sum(&course.misses));
    tour.check(sum == 0, || wrong("misses"))?;
    results.miss.push(mega(course.misses.len(), time));
    let (sum, time): (_, Duration) = timed(|| map.scan());
    if let Some(sum) = sum {
        tour.check(sum == course.scan_sum, || wrong("scan"))?;
        results.scan.push(mega(set.keys.len(), time));
    }
    Ok(())
}

impl Chapter for Speed {
    fn name(&self) -> &'static str {
        "table"
    }

    fn title(&self) -> &'static str {
        "Speed and memory beside std's maps"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        tour.say(
            "Millions of operations a second on one thread; medians of rounds in which all take their turn.\n\
             Rivals hold Box<[u8]> keys, all values have 8 bytes. Keys are inserted and asked in random order.\n\
             Scans are in order of keys, which hash maps do not have. A timing on a busy machine is worth\n\
             little; what counts is the ratio.",
        )?;
        tour.say(fold(measure::HOW))?;
        let folder = tempfile::tempdir().map_err(Error::write(&std::env::temp_dir()))?;
        let sets = std::mem::take(&mut tour.sets);
        let rounds = |set: &Set| match (tour.quick, set.keys.len() > 300_000) {
            (false, false) => 5,
            _ => 3,
        };
        let steps = sets.iter().map(|set| rounds(set) * 5 + 5).sum::<u64>();
        let all_rounds: Vec<u64> = sets.iter().map(rounds).collect();
        let mut progress = Progress::new("measuring", Some(steps), false);
        let mut figures = Vec::new();
        for (set, rounds) in sets.iter().zip(all_rounds) {
            progress.doing(format!("measuring {}", set.name));
            let hits = Flat::drawn(&set.keys, SAMPLE, 10);
            let course = Course {
                set,
                misses: Flat::drawn(&set.misses, SAMPLE, 11),
                hit_sum: hits.iter().filter_map(|key| set.oracle.get(key)).sum(),
                scan_sum: set.oracle.iter().fold(0, |sum, (k, v)| touch(sum, k, *v)),
                hits,
            };
            let figures_of_set = contend(tour, &course, rounds, &mut progress)?;
            let keys = folder.path().join("keys");
            measure::write_keys(set.keys.iter(), &keys)?;
            let mut rows = Vec::new();
            let mut entries = Vec::new();
            let mut unmeasured = None;
            for results in figures_of_set {
                let memory = measure::bytes(results.kind, &keys);
                progress.step();
                let each = memory.map(|bytes| bytes as f64 / set.keys.len() as f64);
                let own = set.key_bytes() as f64 / set.keys.len() as f64;
                let beyond = each.as_ref().ok().map(|each| each - own);
                let speed = |rounds: Vec<f64>| (!rounds.is_empty()).then(|| median(rounds));
                let insert = speed(results.insert).filter(|_| results.inserts);
                let (hit, miss) = (speed(results.hit), speed(results.miss));
                let scan = speed(results.scan);
                let mut row = vec![results.name.to_owned()];
                for value in [hit, miss, insert, scan, each.as_ref().ok().copied(), beyond] {
                    row.push(value.map_or_else(|| "-".into(), figure));
                }
                rows.push(row);
                entries.push(json!({
                    "map": results.name,
                    "hit_mops": hit,
                    "miss_mops": miss,
                    "insert_mops": insert,
                    "scan_mops": scan,
                    "bytes_per_key": each.as_ref().ok(),
                    "bytes_per_key_beyond": beyond,
                }));
                unmeasured = unmeasured.or(each.err());
            }
            let title = format!("{} ({})", set.name, super::grouped(set.keys.len()));
            progress.hide(|| {
                tour.say(" ")?;
                tour.table(
                    &[
                        &title,
                        "hit",
                        "miss",
                        "insert",
                        "scan",
                        "B/key",
                        "beyond key",
                    ],
                    &rows,
                )?;
                match unmeasured {
                    Some(why) => tour.say(format!("memory was not measured: {why}")),
                    None => Ok(()),
                }
            })?;
            figures.push(json!({ "set": set.name, "rounds": rounds, "maps": entries }));
        }
        tour.sets = sets;
        Ok(json!({ "memory_how": measure::HOW, "sets": figures }))
    }
}

/// All rounds of all contenders on one set.
fn contend(
    tour: &mut Tour,
    course: &Course<'_>,
    rounds: u64,
    progress: &mut Progress,
) -> Result<Vec<Results>, Error> {
    macro_rules! contenders {
        ($($map:ty),* $(,)?) => {{
            let mut all = vec![$(Results::new::<$map>()),*];
            for _ in 0..rounds {
                let mut results = all.iter_mut();
                $(if let Some(results) = results.next() {
                    round::<$map>(tour, course, results)?;
                    progress.step();
                })*
            }
            all
        }};
    }
    Ok(contenders![
        QpMap<u64>,
        Compacted,
        HashMap<Box<[u8]>, u64>,
        hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
        BTreeMap<Box<[u8]>, u64>,
    ])
}

/// Breaks a sentence into lines.
fn fold(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if lines
            .last()
            .is_some_and(|line| line.len() + word.len() > 96)
        {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

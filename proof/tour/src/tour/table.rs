//! Chapter: speed and memory next to the maps of std and hashbrown.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use sapwood::qp::QpMap;
use serde_json::{Value, json};

use super::data::{Flat, SAMPLE, Set};
use super::measure::{self, Fill, Rival};
use super::{Chapter, Tour, figure, grouped, median, mega, timed};
use crate::errors::Error;
use crate::progress::Progress;

/// The chapter on speed and memory.
pub struct Speed;

/// A map that is measured.
trait Contender: Fill {
    const KIND: Rival;
    const NAME: &'static str;
    /// Whether insertions are measured.
    const INSERTS: bool = true;
    /// The sum of the values of all stored keys among `keys`.
    fn sum(&self, keys: &Flat) -> u64;
    /// A sum over all entries in order of keys; `None` for maps without order.
    fn scan(&self) -> Option<u64> {
        None
    }
}

/// Adds a byte of a key and a value to a sum, so that a scan reads both.
fn touch(sum: u64, key: &[u8], value: u64) -> u64 {
    let middle = key.get(key.len() / 2).copied().unwrap_or(0);
    sum.wrapping_add(u64::from(middle)).wrapping_add(value)
}

impl Fill for QpMap<u64> {
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key, value).map_err(sapwood::Error::from)?;
        Ok(())
    }
}

impl Contender for QpMap<u64> {
    const KIND: Rival = Rival::Qp;
    const NAME: &'static str = "QpMap";

    fn sum(&self, keys: &Flat) -> u64 {
        keys.iter().filter_map(|key| self.get(key)).sum()
    }

    fn scan(&self) -> Option<u64> {
        Some(self.iter().fold(0, |sum, (k, v)| touch(sum, &k, *v)))
    }
}

/// A compacted map, in depth-first order, whose lookups take 16 keys at a time.
#[derive(Default)]
pub struct Compacted(QpMap<u64>);

impl Fill for Compacted {
    fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        self.0.put(key, value)
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(self.0.compact()?)
    }
}

impl Contender for Compacted {
    const KIND: Rival = Rival::QpCompacted;
    const NAME: &'static str = "QpMap, compacted, in batches";
    const INSERTS: bool = false;

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

/// The standard library's hash map.
pub type Std = HashMap<Box<[u8]>, u64>;
/// hashbrown with foldhash.
pub type Foldhash = hashbrown::HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>;
/// The standard library's B-tree.
pub type BTree = BTreeMap<Box<[u8]>, u64>;

macro_rules! rivals {
    ($($map:ident = $name:literal, $kind:ident $(, $scan:item)?;)*) => {$(
        impl Fill for $map {
            fn put(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
                self.insert(key.into(), value);
                Ok(())
            }
        }

        impl Contender for $map {
            const KIND: Rival = Rival::$kind;
            const NAME: &'static str = $name;

            fn sum(&self, keys: &Flat) -> u64 {
                keys.iter().filter_map(|key| self.get(key)).sum()
            }

            $($scan)?
        }
    )*};
}

rivals! {
    Std = "std HashMap", Hash;
    Foldhash = "hashbrown, foldhash", Foldhash;
    BTree = "std BTreeMap", Btree, fn scan(&self) -> Option<u64> {
        Some(self.iter().fold(0, |sum, (k, v)| touch(sum, k, *v)))
    };
}

/// The questions about one set, and the right answers.
struct Course<'a> {
    set: &'a Set,
    hits: Flat,
    misses: Flat,
    hit_sum: u64,
    scan_sum: u64,
}

/// The figures of one contender for each round, in millions of operations a second.
struct Results {
    name: &'static str,
    kind: Rival,
    insert: Vec<f64>,
    hit: Vec<f64>,
    miss: Vec<f64>,
    scan: Vec<f64>,
}

impl<'a> Course<'a> {
    fn new(set: &'a Set) -> Self {
        let hits = Flat::drawn(&set.keys, SAMPLE, 10);
        Course {
            set,
            misses: Flat::drawn(&set.misses, SAMPLE, 11),
            hit_sum: hits.iter().filter_map(|key| set.oracle.get(key)).sum(),
            scan_sum: set.oracle.iter().fold(0, |sum, (k, v)| touch(sum, k, *v)),
            hits,
        }
    }
}

impl Results {
    fn new<C: Contender>() -> Self {
        Results {
            name: C::NAME,
            kind: C::KIND,
            insert: Vec::new(),
            hit: Vec::new(),
            miss: Vec::new(),
            scan: Vec::new(),
        }
    }
}

impl Results {
    /// The medians as a row and as a document, with the bytes of the map.
    fn shown(self, set: &Set, bytes: Option<&u64>) -> (Vec<String>, Value) {
        let each = bytes.map(|bytes| *bytes as f64 / set.keys.len() as f64);
        let own = set.key_bytes() as f64 / set.keys.len() as f64;
        let beyond = each.map(|each| each - own);
        let speed = |rounds: Vec<f64>| (!rounds.is_empty()).then(|| median(rounds));
        let [hit, miss, insert, scan] = [self.hit, self.miss, self.insert, self.scan].map(speed);
        let figures = [hit, miss, insert, scan, each, beyond];
        let cells = figures.map(|value| value.map_or_else(|| "-".into(), figure));
        let row = [self.name.to_owned()].into_iter().chain(cells).collect();
        let document = json!({
            "map": self.name,
            "hit_mops": hit,
            "miss_mops": miss,
            "insert_mops": insert,
            "scan_mops": scan,
            "bytes_per_key": each,
            "bytes_per_key_beyond": beyond,
        });
        (row, document)
    }
}

/// Measures one round of one contender.
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
        "Speed and memory next to std's maps"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        tour.say(
            "The figures are millions of operations a second on one thread: medians of rounds in \
             which the maps take turns. The keys of the rivals are Box<[u8]>, and all values have \
             8 bytes. Insertions and lookups are in random order. Scans are in order of keys, \
             which hash maps do not have. On a busy machine only the ratios mean something. B/key \
             is the bytes of a key and its value; \"beyond key\" is the part of them that is not \
             the key's own bytes.",
        )?;
        tour.say(measure::HOW)?;
        let folder = tempfile::tempdir().map_err(Error::write(&std::env::temp_dir()))?;
        let keys = folder.path().join("keys");
        let sets = std::mem::take(&mut tour.sets);
        let quick = tour.quick;
        let rounds = |set: &Set| match (quick, set.keys.len() > 300_000) {
            (false, false) => 5,
            _ => 3,
        };
        let steps = sets.iter().map(|set| rounds(set) * 5 + 5).sum();
        let mut progress = Progress::new("measuring", Some(steps), false);
        let mut figures = Vec::new();
        for set in &sets {
            figures.push(compare(tour, set, rounds(set), &keys, &mut progress)?);
        }
        tour.sets = sets;
        Ok(json!({ "memory_how": measure::HOW, "sets": figures }))
    }
}

/// Measures all contenders on one set, and prints the table of their figures.
fn compare(
    tour: &mut Tour,
    set: &Set,
    rounds: u64,
    keys: &Path,
    progress: &mut Progress,
) -> Result<Value, Error> {
    progress.doing(format!("measuring {}", set.name));
    let all = contend(tour, &Course::new(set), rounds, progress)?;
    measure::write_keys(set.keys.iter(), keys)?;
    let (mut rows, mut maps) = (Vec::new(), Vec::new());
    let mut unmeasured = None;
    for results in all {
        let memory = measure::bytes(results.kind, keys);
        progress.step();
        let (row, map) = results.shown(set, memory.as_ref().ok());
        rows.push(row);
        maps.push(map);
        unmeasured = unmeasured.or(memory.err());
    }
    let title = format!("{} ({})", set.name, grouped(set.keys.len()));
    let columns = ["hit", "miss", "insert", "scan", "B/key", "beyond key"];
    let header = [&[&*title][..], &columns].concat();
    progress.hide(|| {
        tour.say(" ")?;
        tour.table(&header, &rows)?;
        match unmeasured {
            Some(why) => tour.say(format!("memory was not measured: {why}")),
            None => Ok(()),
        }
    })?;
    Ok(json!({ "set": set.name, "rounds": rounds, "maps": maps }))
}

/// Runs all rounds of all contenders on one set.
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
    Ok(contenders![QpMap<u64>, Compacted, Std, Foldhash, BTree])
}

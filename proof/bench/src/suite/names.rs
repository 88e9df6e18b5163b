//! The suite `names`: one map, one thread, eight key sets.
//!
//! Each round builds every engine from empty with the keys in a random order, looks all keys up in
//! another random order, looks absent keys up, scans, seeks, and drops the map. Before that, each
//! key is looked up once and its answer compared. In the cases `churned-…`, a million keys are
//! replaced by others, one at a time and at random, before any lookup. Metrics:
//!
//! | metric | what it is |
//! |---|---|
//! | `hit_mops` | lookups of present keys a second, in millions; the processor may overlap one with the next |
//! | `hit_chained_mops` | the same where each lookup waits for the answer to the one before |
//! | `miss_mops` | lookups of absent keys: present keys with one byte changed, or new keys of a random generator |
//! | `insert_mops` | inserts a second into a map that grows from empty |
//! | `worst_insert_us` | the longest single insert, in another build with a clock around each; only our engines |
//! | `scan_mkeys` | entries a second with all key bytes read, here and in `range…` by `for_each` where our maps have it; only maps that keep the order of the bytes |
//! | `seek_mops` | searches a second for the first entry that is not less than a key, key bytes and value read; half of the keys are stored; here and below, only ordered maps that have such a search |
//! | `range10_mops`, `range100_mops` | the same with 10 or 100 entries read from there on; searches a second |
//! | `pred_mops` | searches for the last entry that is less than a key |
//! | `longest_mops` | searches for the longest stored prefix of a key; half of the keys are stored keys, the others stored keys with one more part |
//! | `replace_mops` | pairs of one removal and one insertion of another key, a second; only cases `churned-…` |
//! | `bytes_per_key` | memory beyond the key bytes, malloc's rounding and headers included |
//! | `file_bytes_per_key` | bytes of the saved map beyond the key bytes; only `sapwood` |
//!
//! In the case `texts`, values are byte strings of 0 to 1,000 bytes; peers hold them as
//! `Box<[u8]>`. `bytes_per_key` excludes the bytes of the values as well as those of the keys.
//!
//! Where the kernel does not show its symbols or types, the cases `kallsyms` and `btf` use names
//! generated from a model, and the report says so.
//!
//! The cases `closest-…`, for maps of DNS names, are in [`closest`].
//!
//! The cases `threads-…`, for maps that many threads write to, are in [`threads`]; they run only
//! when they are named.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use sapwood_model::data::{self, DataSet, Missing};

use super::{Options, closest, mega_rate, mops, threads};
use crate::alloc;
use crate::engines::{self, Built, Lane, texts};
use crate::keylist::{Form, KeyList, ScanSum, Tally};
use crate::report::{Measure, Report, Samples};

const CASES: [&str; 13] = [
    "kallsyms",
    "btf",
    "paths",
    "domains-real",
    "domains-1m",
    "random-u64",
    "random-binary",
    TEXTS,
    "churned-kallsyms",
    "churned-btf",
    "churned-paths",
    "churned-domains-real",
    "churned-domains-1m",
];

/// The case whose values are byte strings.
const TEXTS: &str = "texts";

/// The prefix of the names of cases whose maps are read after replacements of keys.
const CHURNED: &str = "churned-";
/// The number of replacements.
const REPLACEMENTS: usize = 1_000_000;
const QUICK_REPLACEMENTS: usize = 30_000;

/// Each measurement covers at least this many lookups; passes over small sets are repeated.
const LOOKUPS: usize = 200_000;
const QUICK_LOOKUPS: usize = 100_000;

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut lanes = engines::lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    let mut of_texts = engines::texts::lanes();
    of_texts.retain(|lane| options.wants_engine(lane.name));
    let mut cases = options.chosen(CASES);
    if lanes.is_empty() {
        cases.clear();
    }
    let sharing = threads::lanes(options);
    let mut groups = threads::groups(options);
    if sharing.is_empty() {
        groups.clear();
    }
    let closest = closest::chosen(options, &lanes);
    if cases.is_empty() && closest.is_empty() && groups.is_empty() {
        return Err(format!(
            "no such engine or case; cases: {}, {}, {}",
            CASES.join(", "),
            closest::CASES.join(", "),
            threads::names()
        ));
    }
    let mut report = Report::new("names");
    println!("{}", report.machine);
    if !cases.is_empty() {
        report.note("Scans and ranges: QpMap and QpStore lend each key by `for_each`.".into());
    }
    for (at, name) in cases.iter().enumerate() {
        if options.is_over() {
            report.begin(format!(
                "{name}: omitted, because the time limit has passed: use --cases {name}"
            ));
            continue;
        }
        match Case::load(name, options) {
            Ok(case) => {
                let left = cases.len() - at + closest.len() + groups.len();
                let lanes = if *name == TEXTS { &of_texts } else { &lanes };
                case.run(options, lanes, left, &mut report);
            }
            Err(missing) => {
                report.begin(format!("{name}: {missing}"));
            }
        }
    }
    for (at, name) in closest.iter().enumerate() {
        let left = closest.len() - at + groups.len();
        closest::run(name, options, &lanes, left, &mut report)?;
    }
    for (at, group) in groups.iter().enumerate() {
        group.run(options, &sharing, groups.len() - at, &mut report);
    }
    Ok(report)
}

/// A key set.
pub(super) struct Case {
    name: &'static str,
    /// The number and the origin of the keys, in a line for the report.
    pub(super) how: String,
    /// The pairs that are inserted.
    pub(super) present: KeyList,
    /// The same number of absent keys that look similar; they may repeat.
    pub(super) absent: KeyList,
    /// The replacements before any lookup.
    churn: Option<Churn>,
    /// The bytes of the values, where these are byte strings.
    value_bytes: usize,
}

/// Replacements of keys, and the pairs that remain after them.
struct Churn {
    old: KeyList,
    new: KeyList,
    present: KeyList,
    absent: KeyList,
}

impl Churn {
    /// Each replacement removes a random present key and inserts a random absent one.
    fn new(present: &KeyList, absent: &KeyList, count: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(4);
        let mut taken = std::collections::HashSet::new();
        // Places in both lists together: the absent keys follow the present ones.
        let mut inside: Vec<usize> = (0..present.len()).collect();
        let others = (0..absent.len()).filter(|at| taken.insert(absent.key(*at)));
        let mut outside: Vec<usize> = others.map(|at| present.len() + at).collect();
        let pair = |at: &usize| match at.checked_sub(present.len()) {
            None => (present.key(*at), present.value(*at)),
            Some(at) => (absent.key(at), !absent.value(at)),
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let from = random.usize(..inside.len());
            let to = random.usize(..outside.len());
            old.push(inside[from]);
            new.push(outside[to]);
            std::mem::swap(&mut inside[from], &mut outside[to]);
        }
        let list = |places: &[usize]| KeyList::new(places.iter().map(pair));
        Self {
            old: list(&old),
            new: list(&new),
            present: list(&inside),
            absent: list(&outside),
        }
    }
}

/// The lists of one round, in the form that an engine needs.
struct Lists {
    insert: KeyList,
    /// The keys that are replaced, and the pairs that replace them.
    churn: Option<[KeyList; 2]>,
    hit: KeyList,
    miss: KeyList,
    seeks: Seeks,
}

/// Searches in order: their metrics, the number of entries each reads, their keys, and the result
/// that a pass must have.
struct Seeks {
    ranges: [(&'static str, usize, KeyList, ScanSum); 3],
    predecessors: (KeyList, ScanSum),
    longest: (KeyList, ScanSum),
}

impl Seeks {
    /// Up to `count` searches; fewer for searches that read more entries.
    fn new(present: &KeyList, absent: &KeyList, count: usize) -> Self {
        let half = (count / 2).min(present.len()).min(absent.len());
        let entries = present.sorted();
        let stored = present.shuffled(5);
        let keys = |many: usize| {
            let half = (half / many).max(1);
            let (stored, absent) = (stored.run(0, half), absent.run(0, half));
            KeyList::new(stored.chain(absent)).shuffled(6)
        };
        let place = |key: &[u8]| entries.lower_bound(key);
        let ranges = [
            ("seek_mops", 1),
            ("range10_mops", 10),
            ("range100_mops", 100),
        ];
        let ranges = ranges.map(|(metric, read): (_, usize)| {
            let keys = keys(read.div_ceil(5));
            let sum = ScanSum::ranges(&keys, read, |key| {
                let from = place(key);
                entries.run(from, read.min(entries.len() - from))
            });
            (metric, read, keys, sum)
        });
        let keys = keys(1);
        let sum = ScanSum::ranges(&keys, 1, |key| {
            let before = place(key).checked_sub(1);
            entries.run(before.unwrap_or(0), usize::from(before.is_some()))
        });
        let predecessors = (keys, sum);
        let longer = stored
            .run(0, half)
            .map(|(key, value)| ([key, b"/behind"].concat(), value));
        let longer: Vec<_> = longer.collect();
        let longer = longer.iter().map(|(key, value)| (&**key, *value));
        let keys = KeyList::new(stored.run(0, half).chain(longer)).shuffled(7);
        let sum = ScanSum::ranges(&keys, 1, |key| {
            let found = (0..=key.len())
                .rev()
                .find_map(|len| entries.place_of(&key[..len]));
            entries.run(found.unwrap_or(0), usize::from(found.is_some()))
        });
        let longest = (keys, sum);
        Self {
            ranges,
            predecessors,
            longest,
        }
    }
}

impl Case {
    /// The set with this name, if this machine has it.
    pub(super) fn load(name: &'static str, options: &Options) -> Result<Self, Missing> {
        let million = options.size(1_000_000, 30_000);
        let base = name.strip_prefix(CHURNED);
        let mut set = match base.unwrap_or(name) {
            "kallsyms" => data::kallsyms()
                .unwrap_or_else(|missing| missing.instead(data::symbols(121_000, 1))),
            "btf" => data::btf_strings()
                .unwrap_or_else(|missing| missing.instead(data::type_names(124_000, 1))),
            "paths" => data::paths(Path::new("/usr"), 100_000)?,
            "domains-real" => real_domains(options)?,
            "domains-1m" => data::domains(million, 1),
            "random-u64" => data::random_u64(million, 1),
            TEXTS => data::domains(options.size(200_000, 20_000), 1),
            _ => data::random_binary(16_384, 1),
        };
        if options.quick {
            set.thin(30_000);
        }
        let absent = match name {
            "random-u64" => fresh(&set, data::random_u64(set.keys.len() + 1000, 2)),
            "random-binary" => fresh(&set, data::random_binary(set.keys.len() + 1000, 2)),
            _ => set.mutated(set.keys.len(), 3),
        };
        let how = format!(
            "{} keys, {:.1} bytes each; {}",
            set.keys.len(),
            mean_length(&set),
            set.how
        );
        let (mut present, mut absent) = (KeyList::numbered(&set.keys), KeyList::numbered(&absent));
        let mut value_bytes = 0;
        if name == TEXTS {
            for list in [&mut present, &mut absent] {
                let texts = list.iter().map(|(key, any)| (key, texts::any_number(any)));
                *list = KeyList::new(texts);
            }
            value_bytes = present.iter().map(|(_, text)| texts::length(text)).sum();
        }
        let count = options.size(REPLACEMENTS, QUICK_REPLACEMENTS);
        Ok(Self {
            name,
            how,
            churn: base.map(|_| Churn::new(&present, &absent, count)),
            present,
            absent,
            value_bytes,
        })
    }

    fn run(&self, options: &Options, lanes: &[Lane], cases_left: usize, report: &mut Report) {
        report.begin(format!("{}: {}", self.name, self.how));
        let mut able = Vec::new();
        for lane in lanes {
            match (lane.form)(&self.present)
                .and_then(|form| (lane.form)(&self.absent).map(|_| form))
            {
                Ok(form) => able.push((lane, form)),
                Err(reason) => {
                    report.note(format!("{} cannot hold {}: {reason}", lane.name, self.name));
                }
            }
        }
        let names: Vec<_> = able.iter().map(|(lane, _)| lane.name).collect();
        let mut samples = Samples::new(self.name, &names);
        let mut losses = Vec::new();
        let lookups = options.size(LOOKUPS, QUICK_LOOKUPS);
        for round in options.rounds(&format!("names: {}", self.name), cases_left) {
            let lists = self.lists(u64::from(round), lookups);
            able.rotate_left(usize::from(round > 0));
            for (lane, form) in &able {
                // The keys are converted outside the measured time, and for one engine at a time.
                let dressed = (*form != Form::Plain).then(|| lists.in_form(*form, lookups));
                let lists = dressed.as_ref().unwrap_or(&lists);
                let work = || {
                    let bytes = (round == 0).then(|| self.check(lane, lists));
                    let (measures, lost) = time(lane, lists, lookups);
                    (bytes.into_iter().flatten().chain(measures), lost)
                };
                // An engine that is known to lose keys may fail; then this round runs without it.
                let done = match lane.loses_keys {
                    None => Ok(work()),
                    Some(_) => catch_unwind(AssertUnwindSafe(work)),
                };
                let Ok((measures, lost)) = done else {
                    losses.push(format!(
                        "WRONG: {}: {}: round {}: wrong answers beyond its known defect; \
                         not measured",
                        self.name,
                        lane.name,
                        round + 1
                    ));
                    continue;
                };
                for measure in measures {
                    samples.add(lane.name, &measure);
                }
                if lost > 0 {
                    losses.push(format!(
                        "{}: {}: round {}: {lost} of {} keys not found; {}",
                        self.name,
                        lane.name,
                        round + 1,
                        lists.hit.len(),
                        lane.loses_keys.unwrap_or_default()
                    ));
                }
            }
        }
        losses.into_iter().for_each(|loss| report.note(loss));
        report.end(samples, &["hashbrown-foldhash", "std-btreemap"]);
    }

    fn lists(&self, round: u64, lookups: usize) -> Lists {
        let (present, absent) = match &self.churn {
            Some(churn) => (&churn.present, &churn.absent),
            None => (&self.present, &self.absent),
        };
        let hit = present.shuffled(3 * round + 1);
        let miss = absent.shuffled(3 * round + 2);
        Lists {
            insert: self.present.shuffled(3 * round),
            churn: self
                .churn
                .as_ref()
                .map(|churn| [churn.old.clone(), churn.new.clone()]),
            seeks: Seeks::new(&hit, &miss, lookups),
            hit,
            miss,
        }
    }

    /// Builds the map once without a clock, to check the order and count the memory, and the bytes
    /// of a file if the engine has such.
    fn check(&self, lane: &Lane, lists: &Lists) -> Vec<Measure> {
        engines::settle();
        let (built, allocated) = alloc::counted(|| {
            let mut built = (lane.build)(&lists.insert);
            if let Some([old, new]) = &lists.churn {
                built.replace(old, new);
            }
            built.finish();
            built
        });
        let case = (lane.name, self.name);
        let scan = built.scan();
        assert_eq!(
            (scan.count, scan.sum),
            (lists.hit.len() as u64, lists.hit.sum()),
            "{case:?}"
        );
        if lane.ordered {
            assert_eq!(
                scan,
                ScanSum::of(lists.hit.sorted().iter()),
                "{case:?}: order"
            );
        }
        // The memory beyond the bytes of the original keys, without the bytes that a form adds.
        let present = self
            .churn
            .as_ref()
            .map_or(&self.present, |churn| &churn.present);
        let given = present.key_bytes() + self.value_bytes;
        let beyond = |bytes: i64| (bytes - given as i64) as f64 / present.len() as f64;
        let memory = beyond(allocated + built.mapped_bytes() as i64);
        let mut measures = vec![Measure::new("bytes_per_key", memory, "B")];
        if let Some(saved) = built.saved_bytes() {
            measures.push(Measure::new(
                "file_bytes_per_key",
                beyond(saved as i64),
                "B",
            ));
        }
        measures
    }
}

impl Lists {
    fn in_form(&self, form: Form, lookups: usize) -> Self {
        let in_form = |list: &KeyList| list.in_form(form);
        let (hit, miss) = (in_form(&self.hit), in_form(&self.miss));
        Self {
            insert: in_form(&self.insert),
            churn: self
                .churn
                .as_ref()
                .map(|lists| lists.each_ref().map(in_form)),
            seeks: Seeks::new(&hit, &miss, lookups),
            hit,
            miss,
        }
    }
}

/// Runs one round of one engine; returns the number of lost keys, too.
fn time(lane: &Lane, lists: &Lists, lookups: usize) -> (Vec<Measure>, u64) {
    let passes = lookups.div_ceil(lists.hit.len());
    engines::settle();
    alloc::trim();
    // A small map is built several times; the last one is kept.
    let mut building = Duration::ZERO;
    let mut built = None;
    for _ in 0..passes {
        drop(built.take());
        let start = Instant::now();
        built = Some((lane.build)(&lists.insert));
        building += start.elapsed();
    }
    let mut built = built.expect("there is at least one pass");
    let mut measures = Vec::new();
    if let Some([old, new]) = &lists.churn {
        let start = Instant::now();
        built.replace(old, new);
        measures.push(mops("replace_mops", old.len(), start.elapsed()));
    }
    built.finish();

    let (hits, lost) = audit(lane, &*built, lists);
    let hitting = repeat(passes, || built.lookups(&lists.hit), hits, lane);
    let missing = repeat(
        passes,
        || built.lookups(&lists.miss),
        Tally::default(),
        lane,
    );
    measures.push(mops("hit_mops", passes * lists.hit.len(), hitting));
    if built.chained(&lists.hit).is_some() {
        let chained = || built.chained(&lists.hit).unwrap_or_default();
        let time = repeat(passes, chained, hits, lane);
        measures.push(mops("hit_chained_mops", passes * lists.hit.len(), time));
    }
    measures.push(mops("miss_mops", passes * lists.miss.len(), missing));
    if lists.churn.is_none() {
        measures.push(mops("insert_mops", passes * lists.insert.len(), building));
        if let Some(worst) = (lane.worst_insert)(&lists.insert) {
            measures.push(Measure::new(
                "worst_insert_us",
                worst.as_secs_f64() * 1e6,
                "us",
            ));
        }
    }
    if lane.ordered {
        // `check` compares the first scan with the order; each later scan is compared with the
        // first.
        let expected = built.scan();
        let all = (lists.hit.len() as u64, lists.hit.sum());
        assert_eq!((expected.count, expected.sum), all, "{}", lane.name);
        let scanning = repeat(passes, || built.scan(), expected, lane);
        let rate = mega_rate(passes * lists.hit.len(), scanning);
        measures.push(Measure::new("scan_mkeys", rate, "Mkey/s"));
        measures.extend(time_seeks(lane, &*built, &lists.seeks, lookups));
    }
    (measures, lost)
}

/// Times the searches in order that the engine has.
fn time_seeks(lane: &Lane, built: &dyn Built, seeks: &Seeks, lookups: usize) -> Vec<Measure> {
    let ranges = seeks.ranges.iter().map(|(metric, read, keys, sum)| {
        let time = time_seek(lane, keys, *sum, lookups / read, || {
            built.ranges(keys, *read)
        });
        (*metric, time)
    });
    let (keys, sum) = &seeks.predecessors;
    let predecessors = || built.predecessors(keys);
    let predecessors = time_seek(lane, keys, *sum, lookups, predecessors);
    let (keys, sum) = &seeks.longest;
    let longest = || built.longest_prefixes(keys);
    let longest = time_seek(lane, keys, *sum, lookups, longest);
    ranges
        .chain([("pred_mops", predecessors), ("longest_mops", longest)])
        .filter_map(|(metric, time)| time.map(|(count, time)| mops(metric, count, time)))
        .collect()
}

/// The number of searches and their time, if the engine has this search.
fn time_seek(
    lane: &Lane,
    keys: &KeyList,
    expected: ScanSum,
    least: usize,
    pass: impl Fn() -> Option<ScanSum>,
) -> Option<(usize, Duration)> {
    let answer = pass()?;
    // Where a key is lost, a search begins at another one; in some key sets that is one search in a
    // hundred.
    let lost = answer.count.abs_diff(expected.count) * 20;
    assert!(
        answer == expected || lane.loses_keys.is_some() && lost <= expected.count,
        "{}: {answer:?} instead of {expected:?}",
        lane.name
    );
    let passes = least.div_ceil(keys.len());
    let time = repeat(passes, pass, Some(answer), lane);
    Some((passes * keys.len(), time))
}

/// Looks each key up and compares each answer, without a clock. Returns the result that a pass of
/// lookups must have, which is every key, and the number of lost keys, which is zero unless the
/// engine is known to lose some.
fn audit(lane: &Lane, built: &dyn Built, lists: &Lists) -> (Tally, u64) {
    let mut tally = Tally::default();
    for (key, value) in lists.hit.iter() {
        let answer = built.get(key);
        let lost = answer.is_none() && lane.loses_keys.is_some();
        assert!(
            lost || answer == Some(value),
            "{}: {}",
            lane.name,
            key.escape_ascii()
        );
        tally.add(answer);
    }
    for (key, _) in lists.miss.iter() {
        assert_eq!(
            built.get(key),
            None,
            "{}: {}",
            lane.name,
            key.escape_ascii()
        );
    }
    let keys = lists.hit.len() as u64;
    let lost = keys - tally.found;
    assert!(
        lost * 10_000 <= keys,
        "{}: {lost} of {keys} keys lost",
        lane.name
    );
    (tally, lost)
}

/// Times passes that must all give the same result.
fn repeat<T: PartialEq + std::fmt::Debug>(
    passes: usize,
    mut pass: impl FnMut() -> T,
    expected: T,
    lane: &Lane,
) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..passes {
        let start = Instant::now();
        let answer = pass();
        time += start.elapsed();
        assert_eq!(answer, expected, "{}", lane.name);
    }
    time
}

fn real_domains(options: &Options) -> Result<DataSet, Missing> {
    let Some(folder) = &options.data else {
        return Err(Missing {
            name: "domains-real",
            reason: "--data names no folder".into(),
        });
    };
    data::domains_gz(&folder.join("domains-opendns.txt.gz"))
}

/// The same number of keys of `others` as `set` has, none of them in `set`.
fn fresh(set: &DataSet, others: DataSet) -> Vec<Box<[u8]>> {
    let present: std::collections::HashSet<_> = set.keys.iter().collect();
    let mut keys = others.keys;
    keys.retain(|key| !present.contains(key));
    keys.truncate(set.keys.len());
    keys
}

fn mean_length(set: &DataSet) -> f64 {
    set.key_bytes() as f64 / set.keys.len() as f64
}

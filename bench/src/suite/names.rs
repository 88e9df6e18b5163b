//! The suite `names`: one map, one thread, seven key sets.
//!
//! Each round builds every engine from nothing with the keys in a random order, looks all keys up in another
//! random order, looks absent keys up, scans, and drops it. Each key was asked for once before, and its answer
//! compared. Metrics:
//!
//! | metric | what it is |
//! |---|---|
//! | `hit_mops` | lookups of present keys a second, in millions; the processor may overlap one with the next |
//! | `hit_chained_mops` | the same where each lookup waits for the answer to the one before |
//! | `miss_mops` | lookups of absent keys: present ones with one byte changed, or fresh ones of a random generator |
//! | `insert_mops` | inserts a second into a map that grows from empty |
//! | `worst_insert_us` | the longest single insert, in another build with a clock around each; our engines only |
//! | `scan_mkeys` | entries a second with all key bytes read; maps that keep the order of the bytes only |
//! | `bytes_per_key` | memory beyond the key bytes, malloc's rounding and headers included |
//!
//! Where the kernel does not show its symbols or types, the cases `kallsyms` and `btf` have names made after a model, and say so.
//!
//! The cases `threads-…`, for maps that many threads write to, are in [`threads`].

use std::path::Path;
use std::time::{Duration, Instant};

use sapwood_model::data::{self, DataSet, Missing};

use super::{Options, mega_rate, mops, threads};
use crate::alloc;
use crate::engines::{self, Built, Lane};
use crate::keylist::{Form, KeyList, ScanSum, Tally};
use crate::report::{Measure, Report, Samples};

const CASES: [&str; 7] = [
    "kallsyms",
    "btf",
    "paths",
    "domains-real",
    "domains-1m",
    "random-u64",
    "random-binary",
];

/// Each measurement covers this many lookups or more; passes over small sets are repeated.
const LOOKUPS: usize = 200_000;
const QUICK_LOOKUPS: usize = 100_000;

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut lanes = engines::lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    let mut cases = options.chosen(CASES);
    if lanes.is_empty() {
        cases.clear();
    }
    let sharing = threads::lanes(options);
    let mut groups = threads::groups(options);
    if sharing.is_empty() {
        groups.clear();
    }
    if cases.is_empty() && groups.is_empty() {
        return Err(format!(
            "no such engine or case; cases: {}, {}",
            CASES.join(", "),
            threads::names()
        ));
    }
    let mut report = Report::new("names");
    println!("{}", report.machine);
    for (at, name) in cases.iter().enumerate() {
        match Case::load(name, options) {
            Ok(case) => {
                let left = cases.len() - at + groups.len();
                case.run(options, &lanes, left, &mut report);
            }
            Err(missing) => {
                report.begin(format!("{name}: {missing}"));
            }
        }
    }
    for (at, group) in groups.iter().enumerate() {
        group.run(options, &sharing, groups.len() - at, &mut report);
    }
    Ok(report)
}

/// A key set.
pub(super) struct Case {
    name: &'static str,
    /// How many keys of what there are, and where they come from.
    pub(super) how: String,
    /// What is inserted.
    pub(super) present: KeyList,
    /// As many others that look alike; they may repeat.
    pub(super) absent: KeyList,
}

/// The lists of one round, in the form that an engine needs.
struct Lists {
    insert: KeyList,
    hit: KeyList,
    miss: KeyList,
}

impl Case {
    /// The set of this name, if this machine has it.
    pub(super) fn load(name: &'static str, options: &Options) -> Result<Self, Missing> {
        let million = options.size(1_000_000, 30_000);
        let mut set = match name {
            "kallsyms" => data::kallsyms()
                .unwrap_or_else(|missing| missing.instead(data::symbols(121_000, 1))),
            "btf" => data::btf_strings()
                .unwrap_or_else(|missing| missing.instead(data::type_names(124_000, 1))),
            "paths" => data::paths(Path::new("/usr"), 100_000)?,
            "domains-real" => real_domains(options)?,
            "domains-1m" => data::domains(million, 1),
            "random-u64" => data::random_u64(million, 1),
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
        let present = KeyList::numbered(&set.keys);
        Ok(Self {
            name,
            how,
            present,
            absent: KeyList::numbered(&absent),
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
        for round in options.rounds(&format!("names: {}", self.name), cases_left) {
            let lists = self.lists(u64::from(round));
            able.rotate_left(usize::from(round > 0));
            for (lane, form) in &able {
                // The form is worked out outside of what is timed, and for one engine at a time.
                let dressed = (*form != Form::Plain).then(|| lists.in_form(*form));
                let lists = dressed.as_ref().unwrap_or(&lists);
                if round == 0 {
                    samples.add(lane.name, &self.check(lane, lists));
                }
                let (measures, lost) = time(lane, lists, options.size(LOOKUPS, QUICK_LOOKUPS));
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

    fn lists(&self, round: u64) -> Lists {
        Lists {
            insert: self.present.shuffled(3 * round),
            hit: self.present.shuffled(3 * round + 1),
            miss: self.absent.shuffled(3 * round + 2),
        }
    }

    /// Builds once without a clock: checks the order, and counts the memory.
    fn check(&self, lane: &Lane, lists: &Lists) -> Measure {
        engines::settle();
        let (built, allocated) = alloc::counted(|| {
            let mut built = (lane.build)(&lists.insert);
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
        // Beyond the bytes of the keys as they are, without what a form adds.
        let beyond = allocated + built.mapped_bytes() as i64 - self.present.key_bytes() as i64;
        Measure::new(
            "bytes_per_key",
            beyond as f64 / self.present.len() as f64,
            "B",
        )
    }
}

impl Lists {
    fn in_form(&self, form: Form) -> Self {
        Self {
            insert: self.insert.in_form(form),
            hit: self.hit.in_form(form),
            miss: self.miss.in_form(form),
        }
    }
}

/// One round of one engine, and how many keys it lost.
fn time(lane: &Lane, lists: &Lists, lookups: usize) -> (Vec<Measure>, u64) {
    let passes = lookups.div_ceil(lists.hit.len());
    engines::settle();
    alloc::trim();
    // A small map is built several times; the last one stays.
    let mut building = Duration::ZERO;
    let mut built = None;
    for _ in 0..passes {
        drop(built.take());
        let start = Instant::now();
        built = Some((lane.build)(&lists.insert));
        building += start.elapsed();
    }
    let mut built = built.expect("there is at least one pass");
    built.finish();

    let (hits, lost) = audit(lane, &*built, lists);
    let hitting = repeat(passes, || built.lookups(&lists.hit), hits, lane);
    let missing = repeat(
        passes,
        || built.lookups(&lists.miss),
        Tally::default(),
        lane,
    );
    let mut measures = vec![
        mops("hit_mops", passes * lists.hit.len(), hitting),
        mops("miss_mops", passes * lists.miss.len(), missing),
        mops("insert_mops", passes * lists.insert.len(), building),
    ];
    if built.chained(&lists.hit).is_some() {
        let chained = || built.chained(&lists.hit).unwrap_or_default();
        let time = repeat(passes, chained, hits, lane);
        measures.insert(1, mops("hit_chained_mops", passes * lists.hit.len(), time));
    }
    if let Some(worst) = (lane.worst_insert)(&lists.insert) {
        measures.push(Measure::new(
            "worst_insert_us",
            worst.as_secs_f64() * 1e6,
            "us",
        ));
    }
    if lane.ordered {
        // The first scan is checked against the order in `check`; each later one against the first.
        let expected = built.scan();
        let all = (lists.hit.len() as u64, lists.hit.sum());
        assert_eq!((expected.count, expected.sum), all, "{}", lane.name);
        let scanning = repeat(passes, || built.scan(), expected, lane);
        let rate = mega_rate(passes * lists.hit.len(), scanning);
        measures.push(Measure::new("scan_mkeys", rate, "Mkey/s"));
    }
    (measures, lost)
}

/// Asks for each key and compares each answer, without a clock. Returns what a pass of lookups must find, which
/// is everything, and how many keys are lost, which is zero unless the engine is known to lose some.
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

/// Times passes that must all give the same answer.
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

/// As many keys of `others` as `set` has, none of them in it.
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

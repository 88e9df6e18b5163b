//! The suite `routes`: longest-prefix match over tables of IP prefixes, each with the number of a
//! next hop.
//!
//! Each round builds every engine from the routes in their order. It looks up random addresses and
//! addresses inside the table. It removes routes and inserts them again while another thread looks
//! addresses up. Another table of the engine grows from empty, one route at a time in a random
//! order, and shrinks to empty in the same way. In the first round each engine's answers are
//! compared one by one with those of one hash map per prefix length: with all routes, without a
//! tenth of them, and with that tenth again. In all rounds checksums of the answers are compared,
//! also for the table that has grown. An engine that is wrong is measured nevertheless and reported
//! as wrong; if it is Sapwood's, the run ends.
//!
//! | metric | what it is |
//! |---|---|
//! | `random_mlps` | lookups a second, in millions, of addresses drawn from the whole space; most of those of IPv6 are in no prefix |
//! | `intable_mlps` | the same of addresses in a random prefix of the table, with random bits after it |
//! | `insert_ns`, `remove_ns` | one change, visible to readers when it returns, without any reader: the mean over all routes in a random order, from the empty table to the full one and back |
//! | `update_p50_us`, `update_p999_us`, `update_max_us` | one change of the full table until readers see it, with a reader that never pauses: random routes removed and inserted again; the clock's own time (some 30 ns) included |
//! | `reader_mlps` | that reader's lookups, in millions a second |
//! | `bytes_per_prefix` | all memory, malloc's rounding and headers included, where the engine tells its size |
//! | `build_ms`, `drop_ms` | building and dropping the whole table |
//! | `wrong` | the number of wrong answers among those that were compared |
//! | `bytes_per_table_N`, `vrf_mlps_N` | case `vrf`: the memory of each of N tables of a hundred routes, and lookups in millions a second, eight in each table in turn |
//!
//! Times are the thread's processor time. Times of changes beside a reader are wall-clock time,
//! waits and other programs' turns included. Rates of a reader are by wall-clock time, too.
//!
//! In `sapwood-table` a next hop is a group of four ports with equal weights. Each lookup is of
//! another flow, and returns the next hop that owns the port of the flow. `sapwood-bits` takes
//! prefixes of any length, and holds these prefixes as strings of bits; `sapwood-bits-inline` in
//! clusters that hold their entries.
//!
//! The cases `covering-v4` and `covering-v6` are in `covering.rs`, `sets-v4` and `sets-v6` in
//! `sets.rs`.
//!
//! If an engine has no better means, its reader and its writer share it through
//! `parking_lot::RwLock`, which is held for one change or for a burst of 32 lookups.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use sapwood_model::data::{self, routes as model};
use sapwood_model::oracle::{LpmByLength, Prefix};

use super::{Options, covering, mega_rate, sets};
use crate::alloc;
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::routes::{Built, Family, Lane, Lanes, Shared, Stop, Tally, V4, V6};

mod vrf;

const CASES: [&str; 10] = [
    "v4-full",
    "v6-full",
    "v4-gen",
    "v6-gen",
    "v4-100k-random",
    "vrf",
    "covering-v4",
    "covering-v6",
    "sets-v4",
    "sets-v6",
];

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let cases = options.chosen(CASES);
    let (v4, v6) = (lanes::<V4>(options), lanes::<V6>(options));
    let others = ["iprange"]
        .iter()
        .any(|engine| options.wants_engine(engine));
    if cases.is_empty() || v4.is_empty() && v6.is_empty() && !others {
        return Err(format!(
            "no such engine or case; cases: {}",
            CASES.join(", ")
        ));
    }
    let mut report = Report::new("routes");
    println!("{}", report.machine);
    for (at, case) in cases.iter().enumerate() {
        let left = cases.len() - at;
        if *case == "vrf" {
            vrf::run(options, &v4, left, &mut report);
            continue;
        }
        if let Some((kind, family)) = case.split_once('-').filter(|(kind, _)| kind.len() > 2) {
            // The global table where it is, else one made after it.
            let table = routes(&format!("{family}-full"), options);
            let Ok(table) = table.or_else(|_| routes(&format!("{family}-gen"), options)) else {
                unreachable!("generated tables need no data");
            };
            let table = (table.routes, table.how);
            match (kind, family) {
                ("covering", "v4") => covering::run::<V4>(case, table, options, left, &mut report),
                ("covering", _) => covering::run::<V6>(case, table, options, left, &mut report),
                (_, "v4") => sets::run::<V4>(case, table, options, left, &mut report),
                _ => sets::run::<V6>(case, table, options, left, &mut report),
            }
            continue;
        }
        match routes(case, options) {
            Err(missing) => {
                report.begin(format!("{case}: {missing}"));
            }
            Ok(table) if case.starts_with("v6") => {
                Case::<V6>::new(case, table, options).run(options, &v6, left, &mut report);
            }
            Ok(table) => {
                Case::<V4>::new(case, table, options).run(options, &v4, left, &mut report);
            }
        }
    }
    Ok(report)
}

/// Records the wrong answers of each engine of a case. Sapwood's end the run.
pub(super) fn tell(
    case: &str,
    wrong: BTreeMap<&'static str, usize>,
    samples: &mut Samples,
    report: &mut Report,
) {
    for (engine, wrong) in wrong {
        samples.add(engine, &Measure::new("wrong", wrong as f64, "answers"));
        if wrong > 0 {
            let note = format!("WRONG: {case}: {engine}: {wrong} answers");
            assert!(!engine.starts_with("sapwood"), "{note}");
            report.note(note);
        }
    }
}

fn lanes<F: Lanes>(options: &Options) -> Vec<Lane<F>> {
    let mut lanes = F::lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    lanes
}

/// Prefixes with next hops, and a description of their origin.
struct Table {
    routes: Vec<(Prefix, u32)>,
    how: String,
}

/// The table of a case, if it is available.
fn routes(case: &str, options: &Options) -> Result<Table, data::Missing> {
    let quick = 20_000;
    let (prefixes, hops, how) = match case {
        "v4-full" | "v6-full" => {
            let folder = options.data.as_ref().ok_or_else(|| data::Missing {
                name: "routes",
                reason: "--data names no folder".into(),
            })?;
            let file = model::routes_gz(&folder.join("bgp-prefixes-2024-01.txt.gz"))?;
            let prefixes = if case == "v4-full" { file.v4 } else { file.v6 };
            let step = prefixes.len().div_ceil(options.size(prefixes.len(), quick));
            let prefixes: Vec<_> = prefixes.into_iter().step_by(step.max(1)).collect();
            let hops = model::next_hops(prefixes.len(), 1);
            (
                prefixes,
                hops,
                "the global table of January 2024; next hops drawn one by one, seed 1",
            )
        }
        "v4-gen" | "v6-gen" => {
            let prefixes = if case == "v4-gen" {
                model::routes_v4(options.size(900_000, quick), 1)
            } else {
                model::routes_v6(options.size(160_000, quick), 1)
            };
            let hops = model::next_hops_clustered(prefixes.len(), 1);
            (
                prefixes,
                hops,
                "made after the global table, seed 1; neighbours often share a next hop",
            )
        }
        _ => {
            let prefixes = model::random_v4(options.size(100_000, 10_000), 1);
            let hops = model::next_hops(prefixes.len(), 1);
            (prefixes, hops, "random prefixes of 8 to 32 bits, seed 1")
        }
    };
    let how = format!(
        "{} prefixes, {} next hops; {how}",
        prefixes.len(),
        model::NEXT_HOPS
    );
    Ok(Table {
        routes: prefixes.into_iter().zip(hops).collect(),
        how,
    })
}

/// Addresses, and the oracle's answers for them.
struct Probe<F: Family> {
    addrs: Vec<F::Addr>,
    full: Vec<Option<u32>>,
    /// The answers without the removed routes, for the addresses that were asked for.
    less: Vec<Option<u32>>,
}

impl<F: Family> Probe<F> {
    fn new(bits: &[u128], full: &LpmByLength<u32>, less: &LpmByLength<u32>) -> Self {
        let ask = |table: &LpmByLength<u32>, bits: &[u128]| {
            let answers = bits.iter().map(|bits| table.lookup(*bits));
            answers.map(|found| found.map(|(_, hop)| *hop)).collect()
        };
        Self {
            addrs: bits.iter().map(|bits| F::addr(*bits)).collect(),
            full: ask(full, bits),
            less: ask(less, &bits[..bits.len().min(100_000)]),
        }
    }

    fn wrong(&self, built: &dyn Built<F>, expected: &[Option<u32>]) -> usize {
        let answers = built.answers(&self.addrs[..expected.len()]);
        answers.iter().zip(expected).filter(|(a, b)| a != b).count()
    }

    /// The same as [`wrong`](Self::wrong) if the tally differs from the expected one; otherwise 0.
    fn mistakes(&self, built: &dyn Built<F>, tally: Tally, expected: &[Option<u32>]) -> usize {
        if tally == Tally::of(expected) {
            return 0;
        }
        // A table that was wrong before and is right now was wrong at least once.
        self.wrong(built, expected).max(1)
    }
}

struct Case<F: Family> {
    name: &'static str,
    how: String,
    routes: Vec<(F::Net, u32)>,
    /// A tenth of the routes, in a random order.
    some: Vec<(F::Net, u32)>,
    random: Probe<F>,
    inside: Probe<F>,
    /// The time limit of the changes beside a reader.
    patience: Duration,
}

impl<F: Lanes> Case<F> {
    fn new(name: &'static str, table: Table, options: &Options) -> Self {
        let mut routes = table.routes;
        let prefixes: Vec<_> = routes.iter().map(|(prefix, _)| *prefix).collect();
        let lookups = options.size(1_000_000, 50_000);
        let random = model::random_addresses(F::WIDTH, lookups, 2);
        let inside = model::addresses_within(&prefixes, F::WIDTH, lookups, 3);
        let full: LpmByLength<u32> = routes.iter().copied().collect();
        let mut some = routes.clone();
        Rng::with_seed(4).shuffle(&mut some);
        some.truncate((routes.len() / 10).clamp(1, 100_000));
        let mut less = full.clone();
        for (prefix, _) in &some {
            less.remove(*prefix);
        }
        routes.sort_unstable();
        let nets = |routes: Vec<(Prefix, u32)>| {
            let nets = routes
                .into_iter()
                .map(|(prefix, hop)| (F::net(prefix), hop));
            nets.collect()
        };
        Self {
            name,
            how: table.how,
            random: Probe::new(&random, &full, &less),
            inside: Probe::new(&inside, &full, &less),
            routes: nets(routes),
            some: nets(some),
            patience: Duration::from_millis(options.size(1500, 50) as u64),
        }
    }

    fn run(&self, options: &Options, lanes: &[Lane<F>], cases_left: usize, report: &mut Report) {
        report.begin(format!("{}: {}", self.name, self.how));
        let mut able: Vec<_> = lanes.iter().collect();
        let names: Vec<_> = able.iter().map(|lane| lane.name).collect();
        let mut samples = Samples::new(self.name, &names);
        let mut wrong = BTreeMap::new();
        for round in options.rounds(&format!("routes: {}", self.name), cases_left) {
            if round == 0 {
                able.retain(|lane| match self.check(lane) {
                    Ok((bytes, mistakes)) => {
                        match bytes {
                            Some(bytes) => samples.add(lane.name, &bytes),
                            None => report.note(format!(
                                "{}: {} does not report its memory",
                                self.name, lane.name
                            )),
                        }
                        if let Some(fault) = lane.unsafe_remove {
                            report.note(format!("WRONG: {}: {fault}", lane.name));
                        }
                        wrong.insert(lane.name, mistakes);
                        true
                    }
                    Err(reason) => {
                        report.note(format!("{}: without {}: {reason}", self.name, lane.name));
                        false
                    }
                });
            }
            let turn = usize::from(round > 0 && !able.is_empty());
            able.rotate_left(turn);
            for lane in &able {
                let (Ok((measures, mistakes)), Ok((changes, more))) =
                    (self.time(lane), self.grow(lane, round))
                else {
                    // The engine was available in the check, and is not now.
                    continue;
                };
                for measure in measures.iter().chain(&changes) {
                    samples.add(lane.name, measure);
                }
                *wrong.entry(lane.name).or_default() += mistakes + more;
            }
        }
        tell(self.name, wrong, &mut samples, report);
        report.end(samples, &["prefix-trie"]);
    }

    /// Counts the memory, if the engine tells its size, and the wrong answers.
    fn check(&self, lane: &Lane<F>) -> Result<(Option<Measure>, usize), String> {
        alloc::trim();
        let (built, allocated) = alloc::counted(|| (lane.build)(&self.routes));
        let mut built = built?;
        let probes = [&self.random, &self.inside];
        let full = |built: &dyn Built<F>| -> usize {
            let wrong = probes.map(|probe| probe.wrong(built, &probe.full));
            wrong.iter().sum()
        };
        let mut wrong = full(&*built);
        let bytes = built.mapped_bytes().map(|mapped| {
            let bytes = allocated.max(0) as usize + mapped;
            let each = bytes as f64 / self.routes.len() as f64;
            Measure::new("bytes_per_prefix", each, "B")
        });
        if lane.unsafe_remove.is_some() {
            return Ok((bytes, wrong));
        }
        built.remove(&self.some);
        let less = probes.map(|probe| probe.wrong(&*built, &probe.less));
        wrong += less.iter().sum::<usize>();
        built.insert(&self.some);
        wrong += full(&*built);
        Ok((bytes, wrong))
    }

    /// Runs one round of one engine; returns the number of wrong answers, too, if the checksums
    /// show any.
    fn time(&self, lane: &Lane<F>) -> Result<(Vec<Measure>, usize), String> {
        alloc::trim();
        let clock = CpuClock::start();
        let built = (lane.build)(&self.routes)?;
        let building = clock.elapsed();
        let mut wrong = 0;
        let mut rate = |probe: &Probe<F>| {
            let clock = CpuClock::start();
            let tally = built.tally(&probe.addrs);
            let time = clock.elapsed();
            wrong += probe.mistakes(&*built, tally, &probe.full);
            mega_rate(probe.addrs.len(), time)
        };
        let random = rate(&self.random);
        let inside = rate(&self.inside);
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let mut measures = vec![
            Measure::new("random_mlps", random, "M/s"),
            Measure::new("intable_mlps", inside, "M/s"),
            Measure::new("build_ms", millis(building), "ms"),
        ];
        if lane.unsafe_remove.is_some() {
            let clock = CpuClock::start();
            drop(built);
            measures.push(Measure::new("drop_ms", millis(clock.elapsed()), "ms"));
            return Ok((measures, wrong));
        }
        let shared = built.share();
        let mut churn = self.churn(&*shared);
        let clock = CpuClock::start();
        drop(shared);
        let dropping = clock.elapsed();
        churn.latencies.sort_unstable();
        let quantile = |share: f64| {
            let last = churn.latencies.len() - 1;
            churn.latencies[(share * last as f64) as usize].as_secs_f64() * 1e6
        };
        measures.extend([
            Measure::new("update_p50_us", quantile(0.5), "us"),
            Measure::new("update_p999_us", quantile(0.999), "us"),
            Measure::new("update_max_us", quantile(1.0), "us"),
            Measure::new("reader_mlps", churn.reader, "M/s"),
            Measure::new("drop_ms", millis(dropping), "ms"),
        ]);
        Ok((measures, wrong))
    }

    /// Has a table grow and shrink one route at a time, and counts wrong answers at both ends.
    fn grow(&self, lane: &Lane<F>, round: u32) -> Result<(Vec<Measure>, usize), String> {
        alloc::trim();
        let mut routes = self.routes.clone();
        let mut rng = Rng::with_seed(100 + u64::from(round));
        rng.shuffle(&mut routes);
        let nanos = |time: Duration| time.as_secs_f64() * 1e9 / routes.len() as f64;
        let mut built = (lane.empty)(&self.routes)?;
        let clock = CpuClock::start();
        built.insert(&routes);
        let mut measures = vec![Measure::new("insert_ns", nanos(clock.elapsed()), "ns")];
        let probes = [&self.random, &self.inside];
        let mistakes = |built: &dyn Built<F>, of: fn(&Probe<F>) -> Vec<Option<u32>>| -> usize {
            let wrong =
                probes.map(|probe| probe.mistakes(built, built.tally(&probe.addrs), &of(probe)));
            wrong.iter().sum()
        };
        let mut wrong = mistakes(&*built, |probe| probe.full.clone());
        if lane.unsafe_remove.is_none() {
            let mut routes = routes.clone();
            rng.shuffle(&mut routes);
            let clock = CpuClock::start();
            built.remove(&routes);
            measures.push(Measure::new("remove_ns", nanos(clock.elapsed()), "ns"));
            wrong += mistakes(&*built, |probe| vec![None; probe.addrs.len()]);
        }
        Ok((measures, wrong))
    }

    /// Removes routes and inserts each again at once, with a clock around each change, while
    /// another thread reads.
    fn churn(&self, shared: &dyn Shared<F>) -> Churn {
        let stop = Stop::default();
        let mut latencies = Vec::with_capacity(MOST_CHANGES);
        let reader = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let start = Instant::now();
                let count = shared.read_until(&stop, &self.inside.addrs);
                mega_rate(count as usize, start.elapsed())
            });
            stop.wait_for_reader();
            let end = Instant::now() + self.patience;
            for (net, hop) in self.some.iter().cycle().take(MOST_CHANGES / 2) {
                let start = Instant::now();
                shared.remove(*net);
                let removed = Instant::now();
                shared.insert(*net, *hop);
                let inserted = Instant::now();
                latencies.extend([removed - start, inserted - removed]);
                if inserted > end {
                    break;
                }
            }
            stop.stop();
            reader.join().expect("the reader ends when it is told to")
        });
        Churn { latencies, reader }
    }
}

/// The largest number of changes beside a reader.
const MOST_CHANGES: usize = 1_000_000;

struct Churn {
    latencies: Vec<Duration>,
    reader: f64,
}

//! Exact matches of byte strings.

use crate::bpf::engines::{Change, Changed, Engine, Hash, Ours, Parts, Store, Written};
use crate::bpf::rig::{self, KEY_MAX, Questions};
use crate::clock::CpuClock;
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;
use crate::suite::names::Case as Keys;
use sapwood_bpf::{BpfArena, Programs, Words, layout};
use sapwood_programs as objects;

pub const CASES: [&str; 5] = ["kallsyms", "btf", "paths", "domains-1m", "random-binary"];

const ENGINES: [&str; 6] = [
    "sapwood-bpf",
    "sapwood-bpf-store",
    "sapwood-bpf-index",
    "sapwood-bpf-both",
    "kernel-hash",
    "kernel-hash-noprealloc",
];

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let cases = options.chosen(CASES);
    for (at, name) in cases.iter().enumerate() {
        match Keys::load(name, options) {
            Ok(keys) => Case::new(name, &keys).run(options, cases.len() - at, report)?,
            Err(missing) => {
                report.begin(format!("{name}: {missing}"));
            }
        }
    }
    Ok(())
}

/// A key set without the keys that are too long.
struct Case {
    name: &'static str,
    how: String,
    present: KeyList,
    absent: KeyList,
    longest: usize,
}

/// The questions of a round.
struct Lists {
    hits: KeyList,
    misses: KeyList,
    hot: KeyList,
    changes: KeyList,
}

impl Case {
    fn new(name: &'static str, keys: &Keys) -> Self {
        let short = |list: &KeyList| {
            let places = (0..list.len()).filter(|at| list.key(*at).len() <= KEY_MAX);
            list.picked(places.collect::<Vec<_>>())
        };
        let (present, absent) = (short(&keys.present), short(&keys.absent));
        let lengths = [&present, &absent].map(|list| list.iter().map(|(key, _)| key.len()).max());
        let mut how = keys.how.clone();
        let long = keys.present.len() - present.len();
        if long > 0 {
            how += &format!("; without {long} of more than {KEY_MAX} bytes");
        }
        Self {
            name,
            how,
            longest: lengths.into_iter().flatten().max().unwrap_or(0),
            present,
            absent,
        }
    }

    fn lists(&self, round: u64, options: &Options) -> Lists {
        let many = options.size(131_072, 8192);
        // Smaller sets are asked more than once.
        let drawn = |list: &KeyList, count: usize, seed: u64| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut places = Vec::with_capacity(count);
            while places.len() < count {
                let mut all: Vec<usize> = (0..list.len()).collect();
                rng.shuffle(&mut all);
                all.truncate(count - places.len());
                places.extend(all);
            }
            list.picked(places)
        };
        let changes = self.present.shuffled(4 * round + 1);
        // At most a quarter of the keys, so that the map changes little.
        let changes = changes.picked(0..(changes.len() / 4).min(many / 8));
        Lists {
            hits: drawn(&self.present, many, 4 * round + 2),
            misses: drawn(&self.absent, many, 4 * round + 3),
            hot: drawn(&self.present, 1000, 4 * round),
            changes,
        }
    }

    fn run(&self, options: &Options, cases_left: usize, report: &mut Report) -> Result<(), String> {
        report.begin(format!("{}: {}", self.name, self.how));
        let key_bytes = rig::hash_key(self.longest);
        let arena = BpfArena::create(4 << 30).map_err(|e| e.to_string())?;
        let programs = rig::load(&arena, objects::BENCH_NAMES, key_bytes, self.present.len())?;
        let room = |name, count| Questions::room(&arena, name, count, self.longest);
        let lists = self.lists(0, options);
        let mut hits = room("hits", lists.hits.len())?;
        let mut misses = room("misses", lists.misses.len())?;
        let mut hot = room("hot", lists.hot.len())?.again();
        let mut changes = room("changes", lists.changes.len())?;

        let order = self.present.shuffled(1);
        let all = Changed::new(&order, key_bytes);
        let mut engines: Vec<Box<dyn Engine>> = Vec::new();
        for name in ENGINES
            .into_iter()
            .filter(|name| options.wants_engine(name))
        {
            engines.push(match name {
                "sapwood-bpf" => Box::new(Ours::new(&arena, Parts::Trie, &order)?),
                "sapwood-bpf-store" => Box::new(Store::new(&arena, &order)?),
                "sapwood-bpf-index" => Box::new(Ours::new(&arena, Parts::Index, &order)?),
                "sapwood-bpf-both" => Box::new(Ours::new(&arena, Parts::Both, &order)?),
                "kernel-hash" => Box::new(Hash::new(&programs, true, &all)?),
                _ => Box::new(Hash::new(&programs, false, &all)?),
            });
        }
        // Programs write to separate maps.
        let writers = rig::load(&arena, objects::BENCH_WRITES, 0, 0)?;
        let mut written = Vec::new();
        for parts in [Parts::Trie, Parts::Index, Parts::Both] {
            if options.wants_engine(parts.name()) {
                match Written::new(&arena, &writers, parts, &order, &mut changes) {
                    Ok(map) => written.push(map),
                    Err(why) => {
                        report.note(format!("{}: no changes by programs: {why}", self.name));
                    }
                }
            }
        }
        let cursor =
            Words::create(&arena, "cursor", layout::CURSOR_BYTES / 8).map_err(|e| e.to_string())?;
        let mut samples = Samples::new(self.name, &ENGINES);
        for engine in &engines {
            let memory = engine.memory()? as f64 / 1e6;
            samples.add(engine.name(), &Measure::new("memory_mb", memory, "MB"));
        }
        for round in options.rounds(&format!("bpf: {}", self.name), cases_left) {
            let lists = self.lists(round.into(), options);
            hits.set(lists.hits.iter());
            misses.set(lists.misses.iter().map(|(key, _)| (key, 0)));
            hot.set(lists.hot.iter());
            changes.set(lists.changes.iter());
            let changed = Changed::new(&lists.changes, key_bytes);
            engines.rotate_left(usize::from(round > 0));
            for (metric, questions) in
                [("lookup_ns", &hits), ("miss_ns", &misses), ("hot_ns", &hot)]
            {
                let empty = rig::ask(&programs, "sw_run_empty", questions, 0)?.each;
                for engine in &engines {
                    let answers = rig::ask(&programs, engine.lookup(), questions, engine.window())?;
                    right(engine.name(), metric, answers.wrong)?;
                    let each = (answers.each - empty).max(0.0);
                    samples.add(engine.name(), &Measure::new(metric, each, "ns"));
                }
            }
            for engine in &engines {
                for measure in self.walks(&programs, &**engine, cursor.window().at)? {
                    samples.add(engine.name(), &measure);
                }
            }
            let empty = rig::ask_changes(&programs, "sw_run_empty", &changes, 0)?.each;
            for map in &written {
                let mut each = [0.0; 3];
                for change in Change::ALL {
                    each[change as usize] = map.change(&writers, change, &changes)? - empty;
                }
                bpf_changes(map.name(), each, &mut samples);
                let mut sum = 0.0;
                for change in Change::ALL {
                    sum += map.change_many(change, &lists.changes)?;
                }
                let measure = Measure::new("update_user_batch_ns", sum / 3.0, "ns");
                samples.add(map.name(), &measure);
            }
            for engine in &engines {
                for measure in self.changes(&**engine, &changed)? {
                    samples.add(engine.name(), &measure);
                }
                let mut bpf = [0.0; 3];
                for change in Change::ALL {
                    let Some(program) = engine.program(change) else {
                        continue;
                    };
                    let answers = rig::ask_changes(&programs, program, &changes, engine.window())?;
                    right(engine.name(), program, answers.wrong)?;
                    bpf[change as usize] = answers.each - empty;
                }
                if engine.program(Change::Insert).is_some() {
                    bpf_changes(engine.name(), bpf, &mut samples);
                }
                engine.tidy()?;
            }
        }
        report.end(samples, &["kernel-hash"]);
        Ok(())
    }

    /// Walks over all of a map, by a program and by this process; returns nanoseconds per entry.
    fn walks(
        &self,
        programs: &Programs,
        engine: &dyn Engine,
        cursor: usize,
    ) -> Result<Vec<Measure>, String> {
        let all = (self.present.len(), self.present.sum());
        let each = |metric, (entries, sum): (usize, u64), ns: f64| {
            if (entries, sum) != all {
                let name = engine.name();
                return Err(format!(
                    "WRONG: {name}: {metric}: {entries} entries of {}",
                    all.0
                ));
            }
            Ok(Measure::new(metric, ns / all.0 as f64, "ns"))
        };
        let mut measures = Vec::new();
        if let Some(program) = engine.walk() {
            let packet = [cursor as u64, engine.window().into(), 0, 0, 0];
            let out = rig::call(programs, program, &packet)?;
            measures.push(each("walk_ns", (out[3] as usize, out[4]), out[2] as f64)?);
        }
        let clock = CpuClock::start();
        if let Some(walked) = engine.walk_here() {
            let ns = clock.elapsed().as_nanos() as f64;
            measures.push(each("walk_user_ns", walked, ns)?);
        }
        Ok(measures)
    }

    /// Measures changes by this process.
    fn changes(&self, engine: &dyn Engine, keys: &Changed<'_>) -> Result<Vec<Measure>, String> {
        let mut sum = 0.0;
        for change in Change::ALL {
            sum += engine.change(change, keys)?;
        }
        let mut measures = vec![Measure::new("update_user_ns", sum / 3.0, "ns")];
        let mut sum = 0.0;
        for change in Change::ALL {
            let Some(each) = engine.change_many(change, keys) else {
                return Ok(measures);
            };
            sum += each?;
        }
        measures.push(Measure::new("update_user_batch_ns", sum / 3.0, "ns"));
        Ok(measures)
    }
}

/// Adds a program's time per change, with the empty loop subtracted.
fn bpf_changes(engine: &'static str, each: [f64; 3], samples: &mut Samples) {
    let [_, insert, overwrite] = each.map(|each| each.max(0.0));
    samples.add(engine, &Measure::new("insert_bpf_ns", insert, "ns"));
    let mean = (insert + overwrite) / 2.0;
    samples.add(engine, &Measure::new("update_bpf_ns", mean, "ns"));
}

/// Fails if any answer is wrong, which ends the run.
fn right(engine: &str, what: &str, wrong: u64) -> Result<(), String> {
    match wrong {
        0 => Ok(()),
        _ => Err(format!("WRONG: {engine}: {what}: {wrong} answers")),
    }
}

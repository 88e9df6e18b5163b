//! Programs on several processors write at once.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, ProgramMap, Programs};
use sapwood_programs as objects;

use crate::bpf::engines::{Change, Parts};
use crate::bpf::rig::{self, KEY_MAX, Questions};
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;
use crate::suite::names::Case as Keys;

/// The cases: kernel symbols, then the other sets of keys, each by numbers of processors.
pub const CASES: [&str; 20] = [
    "writers-1",
    "writers-2",
    "writers-4",
    "writers-8",
    "writers-random-binary-1",
    "writers-random-binary-2",
    "writers-random-binary-4",
    "writers-random-binary-8",
    "writers-btf-1",
    "writers-btf-2",
    "writers-btf-4",
    "writers-btf-8",
    "writers-paths-1",
    "writers-paths-2",
    "writers-paths-4",
    "writers-paths-8",
    "writers-domains-1m-1",
    "writers-domains-1m-2",
    "writers-domains-1m-4",
    "writers-domains-1m-8",
];

/// The set of keys of a case, and its number of processors.
fn meant(case: &'static str) -> (&'static str, usize) {
    let case = case.strip_prefix("writers-").expect("a name of a case");
    let (set, processors) = case.rsplit_once('-').unwrap_or(("kallsyms", case));
    (set, processors.parse().expect("a number of processors"))
}

const ENGINES: [&str; 5] = [
    "sapwood-bpf",
    "sapwood-bpf-index",
    "sapwood-bpf-both",
    "kernel-hash",
    "kernel-hash-noprealloc",
];

/// The changes of a call of a program.
const CALL: usize = 1024;

/// Runs the cases that this machine has processors for.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let mut loaded: Option<(&str, Result<Keys, String>)> = None;
    for name in options.chosen(CASES) {
        let (set, processors) = meant(name);
        let there = std::thread::available_parallelism().map_or(1, |n| n.get());
        if processors > there {
            report.begin(format!("{name}: this machine has {there} processors"));
            continue;
        }
        if loaded.as_ref().is_none_or(|(of, _)| *of != set) {
            loaded = Some((set, Keys::load(set, options).map_err(|e| e.to_string())));
        }
        match &loaded {
            Some((_, Ok(keys))) => measure(name, processors, keys, options, report)?,
            Some((_, Err(missing))) => report.begin(format!("{name}: {missing}")),
            None => (),
        }
    }
    Ok(())
}

/// A map, as the writer on one processor uses it.
struct Engine {
    name: &'static str,
    /// Sapwood's map, which each writer services between its calls.
    map: Option<ProgramMap<u64>>,
}

impl Engine {
    fn new(name: &'static str, arena: &BpfArena, keys: &KeyList) -> Result<Self, String> {
        let builder = || {
            let bytes = (64 << 20) + 384 * keys.len() + 3 * keys.key_bytes();
            let builder = ProgramMap::builder(arena, name).bytes(bytes);
            builder
                .max_entries(keys.len())
                .mean_key(keys.key_bytes() / keys.len().max(1))
                .ring(8192)
        };
        let map = [Parts::Trie, Parts::Index, Parts::Both]
            .into_iter()
            .find(|parts| parts.name() == name)
            .map(|parts| match parts {
                Parts::Trie => builder().with_trie(),
                Parts::Index => builder().with_index(),
                Parts::Both => builder().with_trie().with_index(),
            });
        let map = map.map(|builder| builder.build().map_err(|e| e.to_string()));
        Ok(Engine {
            name,
            map: map.transpose()?,
        })
    }

    /// The program for a change, or for lookups.
    fn program(&self, change: Option<Change>) -> &'static str {
        match (self.name, change) {
            ("sapwood-bpf", None) => "sw_run_trie",
            ("kernel-hash", None) => "sw_run_hash",
            ("kernel-hash-noprealloc", None) => "sw_run_hash_noprealloc",
            (_, None) => "sw_run_index",
            ("kernel-hash", Some(Change::Insert)) => "sw_run_hash_insert",
            ("kernel-hash", Some(Change::Overwrite)) => "sw_run_hash_overwrite",
            ("kernel-hash", Some(Change::Remove)) => "sw_run_hash_remove",
            ("kernel-hash-noprealloc", Some(Change::Insert)) => "sw_run_hash_noprealloc_insert",
            ("kernel-hash-noprealloc", Some(Change::Overwrite)) => {
                "sw_run_hash_noprealloc_overwrite"
            }
            ("kernel-hash-noprealloc", Some(Change::Remove)) => "sw_run_hash_noprealloc_remove",
            (_, Some(Change::Insert)) => "sw_run_insert",
            (_, Some(Change::Overwrite)) => "sw_run_overwrite",
            (_, Some(Change::Remove)) => "sw_run_remove",
        }
    }

    /// The bytes of the map: of Sapwood's, all that it has in use, free blocks and rings included.
    fn memory(&self, tables: &Programs) -> Result<u64, String> {
        let table = match (&self.map, self.name) {
            (Some(map), _) => {
                let memory = map.memory().map_err(|e| e.to_string())?;
                return Ok(memory.frontier as u64);
            }
            (None, "kernel-hash") => "sw_hash",
            (None, _) => "sw_hash_noprealloc",
        };
        rig::memlock(&rig::handle(tables, table)?)
    }

    /// Runs a program over these questions, with the supply that it needs between two calls.
    /// Returns the number of refused changes.
    fn go(&self, programs: &Programs, program: &str, keys: &Questions) -> Result<u64, String> {
        let window = self.map.as_ref().map_or(0, |map| map.window().number);
        let service = || match &self.map {
            Some(map) => map.service().map(|_| ()).map_err(|e| e.to_string()),
            None => Ok(()),
        };
        service()?;
        let answers = rig::ask_between(programs, program, keys, window, CALL, service)?;
        Ok(answers.wrong)
    }
}

/// The programs of a processor, and its questions.
struct Side {
    names: Programs,
    writes: Programs,
    keys: Questions,
}

impl Side {
    fn programs(&self, engine: &Engine, change: Option<Change>) -> &Programs {
        match engine.map.is_some() && change.is_some() {
            true => &self.writes,
            false => &self.names,
        }
    }

    /// Makes a change, or looks all keys up; returns the number of refused changes, and the time.
    fn go(&self, engine: &Engine, change: Option<Change>) -> Result<(u64, Duration), String> {
        let begin = Instant::now();
        let programs = self.programs(engine, change);
        let refused = engine.go(programs, engine.program(change), &self.keys)?;
        match (change, refused) {
            (None, 1..) => Err(format!("WRONG: {}: {refused} lookups", engine.name)),
            _ => Ok((refused, begin.elapsed())),
        }
    }

    /// Makes all changes that were refused.
    fn complete(&self, engine: &Engine, change: Change) -> Result<(), String> {
        for _ in 0..1000 {
            // Each present key can be overwritten, and no absent one can be removed.
            let left = match change {
                Change::Insert => self.go(engine, Some(Change::Overwrite))?.0,
                _ => self.keys.count() as u64 - self.go(engine, Some(Change::Remove))?.0,
            };
            if left == 0 {
                return Ok(());
            }
            self.go(engine, Some(change))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let map = engine.map.as_ref();
        let state = map.map(|map| (map.len(), map.drops(), map.memory()));
        Err(format!(
            "{}: {change:?} is refused all the time: {state:?}",
            engine.name
        ))
    }
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    // Where the first processors are not available, threads run on any.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn measure(
    name: &'static str,
    processors: usize,
    all: &Keys,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let (all, how) = (&all.present, &all.how);
    let short = (0..all.len()).filter(|at| all.key(*at).len() <= KEY_MAX);
    let keys = all.picked(short.collect::<Vec<_>>());
    let keys = keys.picked(0..keys.len().min(options.size(keys.len(), 8192)));
    report.begin(format!(
        "{name}: {} keys of at most {KEY_MAX} bytes ({how}); programs on {processors} \
         processors; supply and service are inside the clock",
        keys.len()
    ));
    let longest = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let arena = BpfArena::create(4 << 30).map_err(|e| e.to_string())?;
    let key_bytes = rig::hash_key(longest);
    let each = keys.len() / processors;
    let mut engines = Vec::new();
    for engine in ENGINES {
        if options.wants_engine(engine) {
            engines.push(Engine::new(engine, &arena, &keys)?);
        }
    }
    // All processors use the hash tables of the first object.
    let mut sides: Vec<Side> = Vec::new();
    for cpu in 0..processors {
        let tables = match sides.first() {
            Some(first) => vec![
                ("sw_hash", rig::handle(&first.names, "sw_hash")?),
                (
                    "sw_hash_noprealloc",
                    rig::handle(&first.names, "sw_hash_noprealloc")?,
                ),
            ],
            None => Vec::new(),
        };
        let names = objects::BENCH_NAMES;
        sides.push(Side {
            names: rig::load_with(&arena, names, key_bytes, keys.len(), &tables)?,
            writes: rig::load(&arena, objects::BENCH_WRITES, 0, 0)?,
            keys: Questions::room(&arena, &format!("keys{cpu}"), each, longest)?,
        });
    }
    // The keys of each processor; or the same keys for all.
    let steps = [
        ("insert_bpf_mops", Some(Change::Insert), true),
        ("update_bpf_mops", Some(Change::Overwrite), true),
        ("lookup_mops", None, true),
        ("same_keys_mops", Some(Change::Overwrite), false),
        ("remove_bpf_mops", Some(Change::Remove), true),
    ];
    let mut samples = Samples::new(name, &ENGINES);
    for round in options.rounds(&format!("bpf: {name}"), 1) {
        let order = keys.shuffled(round.into());
        engines.rotate_left(usize::from(round > 0));
        for engine in &engines {
            let start = Barrier::new(processors);
            // A writer that fails goes on to the end: the others wait for it.
            let work = |cpu: usize, side: &mut Side| {
                pin(cpu);
                let mut all = Vec::new();
                let mut memory = Ok(0);
                for (_, change, apart) in steps {
                    let mine = order.picked(cpu * each..(cpu + 1) * each);
                    let same = order.picked(0..each).shuffled(cpu as u64);
                    side.keys.set(if apart { mine } else { same }.iter());
                    start.wait();
                    let gone = side.go(engine, change);
                    start.wait();
                    all.push(gone.and_then(|gone| {
                        if let Some(change @ (Change::Insert | Change::Remove)) = change {
                            side.complete(engine, change)?;
                        }
                        Ok(gone)
                    }));
                    start.wait();
                    if cpu == 0 && change == Some(Change::Insert) {
                        memory = engine.memory(&side.names);
                    }
                }
                let all = all.into_iter().collect::<Result<Vec<_>, String>>()?;
                Ok((all, memory?))
            };
            let done = std::thread::scope(|scope| {
                let threads: Vec<_> = (sides.iter_mut().enumerate())
                    .map(|(cpu, side)| {
                        let work = &work;
                        scope.spawn(move || work(cpu, side))
                    })
                    .collect();
                let done = threads.into_iter();
                let done = done.map(|thread| thread.join().expect("no panic"));
                done.collect::<Result<Vec<_>, String>>()
            })?;
            let mut dropped = 0;
            for (step, (metric, _, _)) in steps.into_iter().enumerate() {
                let slowest = done.iter().map(|(all, _)| all[step].1).max();
                let seconds = slowest.unwrap_or(Duration::ZERO).as_secs_f64();
                dropped += done.iter().map(|(all, _)| all[step].0).sum::<u64>();
                let mops = (each * processors) as f64 / seconds / 1e6;
                samples.add(engine.name, &Measure::new(metric, mops, "M/s"));
            }
            let memory = done[0].1 as f64 / 1e6;
            samples.add(engine.name, &Measure::new("memory_mb", memory, "MB"));
            let share = dropped as f64 / (steps.len() * each * processors) as f64;
            samples.add(engine.name, &Measure::new("dropped_share", share, "share"));
        }
    }
    report.end(samples, &["kernel-hash"]);
    Ok(())
}

//! Range maps: the entry that holds an index, and the lowest gap of a size.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sapwood_bpf::{BpfArena, UserRanges};
use sapwood_model::data::ranges as model;
use sapwood_programs as objects;

use crate::bpf::rig::{self, Questions};
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 3] = ["ranges-1k", "ranges-100k", "ranges-1m"];

const OURS: &str = "sapwood-bpf-ranges";
const HASH: &str = "kernel-hash";
const LAZY: &str = "kernel-hash-noprealloc";
const ENGINES: [&str; 3] = [OURS, HASH, LAZY];

/// Bytes of a page, of which ranges and gaps have whole numbers.
const PAGE: u64 = 4096;

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let cases = options.chosen(CASES);
    for (at, name) in cases.iter().enumerate() {
        Case::new(name, options).run(options, cases.len() - at, report)?;
    }
    Ok(())
}

/// Start, end and value, which is not 0.
type Entry = (u64, u64, u64);

struct Case {
    name: &'static str,
    entries: Vec<Entry>,
    /// Indices that no entry has, and no hash table.
    free: Vec<u64>,
}

impl Case {
    fn new(name: &'static str, options: &Options) -> Case {
        let count = match name {
            "ranges-1k" => 1_000,
            "ranges-100k" => options.size(100_000, 10_000),
            _ => options.size(1_000_000, 20_000),
        };
        let ranges = model::pages(count, 1).ascending;
        let values = 1..;
        let entry = |(range, value): (&std::ops::RangeInclusive<u64>, u64)| {
            (*range.start(), *range.end(), value)
        };
        let entries: Vec<Entry> = ranges.iter().zip(values).map(entry).collect();
        let behind = entries.windows(2).filter(|pair| pair[0].1 + 1 < pair[1].0);
        Case {
            name,
            free: behind.map(|pair| pair[0].1 + 1).collect(),
            entries,
        }
    }

    /// The map of this process.
    fn ours(&self, arena: &BpfArena) -> Result<UserRanges<u64>, String> {
        let bytes = (16 << 20) + 128 * self.entries.len();
        let map = UserRanges::builder(arena, "ranges").bytes(bytes);
        let entries = self.entries.iter();
        map.build_sorted(entries.map(|(start, end, value)| (*start..=*end, *value)))
            .map_err(|e| e.to_string())
    }

    /// Fills a hash table of the kernel: the first index of each entry, and its value.
    fn fill(&self, map: &MapHandle) -> Result<(), String> {
        for (start, _, value) in &self.entries {
            let (key, value) = (start.to_ne_bytes(), value.to_ne_bytes());
            map.update(&key, &value, MapFlags::ANY)
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn run(&self, options: &Options, cases_left: usize, report: &mut Report) -> Result<(), String> {
        let count = self.entries.len();
        let how = "of whole pages; hash tables have the first indices, and are asked for them";
        report.begin(format!("{}: {count} ranges {how}", self.name));
        let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
        let programs = rig::load(&arena, objects::BENCH_RANGES, 8, count)?;
        let many = options.size(131_072, 8192);
        let room = |name, count| Questions::room_of_words(&arena, name, count, 2);
        let mut hits = room("hits", many)?;
        let mut misses = room("misses", many)?;
        let mut gaps = room("gaps", many)?;
        let mut hot = room("hot", 1000)?.again();
        let ours = self.ours(&arena)?;
        let tables = [("sw_hash", HASH), ("sw_hash_noprealloc", LAZY)];
        let mut hashes = Vec::new();
        for (map, engine) in tables {
            let map = rig::handle(&programs, map)?;
            if options.wants_engine(engine) {
                self.fill(&map)?;
            }
            hashes.push((engine, map));
        }
        let of = |engine: &str| hashes.iter().find(|(name, _)| *name == engine);
        let mut engines: Vec<&str> = ENGINES
            .into_iter()
            .filter(|engine| options.wants_engine(engine))
            .collect();
        let mut samples = Samples::new(self.name, &ENGINES);
        for engine in &engines {
            let bytes = match of(engine) {
                Some((_, map)) => rig::memlock(map)?,
                None => ours.memory().total() as u64,
            };
            let bytes = Measure::new("memory_mb", bytes as f64 / 1e6, "MB");
            samples.add(engine, &bytes);
        }
        for round in options.rounds(&format!("bpf: {}", self.name), cases_left) {
            let mut rng = fastrand::Rng::with_seed(round.into());
            let asked: Vec<Entry> = (0..many)
                .map(|_| self.entries[rng.usize(0..count)])
                .collect();
            let few: Vec<Entry> = (0..1000)
                .map(|_| self.entries[rng.usize(0..count)])
                .collect();
            let free: Vec<u64> = (0..many)
                .map(|_| self.free[rng.usize(0..self.free.len())])
                .collect();
            // A gap of two pages, from anywhere on.
            gaps.set_words(asked.iter().map(|(start, ..)| {
                let gap = ours.find_gap(2 * PAGE, *start..=u64::MAX);
                [gap.map_or(0, |gap| *gap.start()), *start, 2 * PAGE]
            }));
            let turn = usize::from(round > 0 && engines.len() > 1);
            engines.rotate_left(turn);
            for engine in &engines {
                // Programs ask range maps for any index of an entry.
                let inside = |rng: &mut fastrand::Rng, (start, end, value): Entry| match *engine {
                    OURS => [value, rng.u64(start..=end), 0],
                    _ => [value, start, 0],
                };
                hits.set_words(asked.iter().map(|one| inside(&mut rng, *one)));
                hot.set_words(few.iter().map(|one| inside(&mut rng, *one)));
                misses.set_words(free.iter().map(|index| [0, *index, 0]));
                let program = match *engine {
                    OURS => "sw_run_ranges",
                    HASH => "sw_run_hash",
                    _ => "sw_run_hash_noprealloc",
                };
                let mut lists = vec![
                    ("lookup_ns", program, &hits),
                    ("hot_ns", program, &hot),
                    ("miss_ns", program, &misses),
                ];
                if *engine == OURS {
                    lists.push(("gap_ns", "sw_run_gap", &gaps));
                }
                for (metric, program, questions) in lists {
                    let window = ours.window().number;
                    let empty = rig::ask(&programs, "sw_run_empty", questions, window)?.each;
                    let answers = rig::ask(&programs, program, questions, window)?;
                    if answers.wrong > 0 {
                        let wrong = answers.wrong;
                        return Err(format!("WRONG: {engine}: {metric}: {wrong} answers"));
                    }
                    let each = (answers.each - empty).max(0.0);
                    samples.add(engine, &Measure::new(metric, each, "ns"));
                }
                let some = &asked[..options.size(4096, 512)];
                let clock = CpuClock::start();
                for (start, end, value) in some {
                    match of(engine) {
                        Some((_, map)) => {
                            let key = start.to_ne_bytes();
                            let put = map.delete(&key);
                            put.and_then(|()| {
                                map.update(&key, &value.to_ne_bytes(), MapFlags::ANY)
                            })
                            .map_err(|e| e.to_string())?;
                        }
                        None => {
                            ours.remove(*start).map_err(|e| e.to_string())?;
                            ours.store(*start..=*end, *value)
                                .map_err(|e| e.to_string())?;
                        }
                    }
                }
                let each = clock.elapsed().as_nanos() as f64 / (2 * some.len()) as f64;
                samples.add(engine, &Measure::new("update_user_ns", each, "ns"));
            }
        }
        report.end(samples, &[HASH]);
        Ok(())
    }
}

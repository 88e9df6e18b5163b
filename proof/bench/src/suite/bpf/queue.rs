//! Queues: programs take the first entry, and insert one that is due later.

use std::sync::Barrier;
use std::thread;

use rustix::thread::{self as tasks, CpuSet};
use sapwood_bpf::{BpfArena, ProgramMap, Programs};
use sapwood_programs as objects;

use crate::bpf::rig;
use crate::clock::CpuClock;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 2] = ["queue-1k", "queue-64k"];

const OURS: &str = "sapwood-bpf";
const QUEUE: &str = "kernel-queue";
const TREE: &str = "kernel-rbtree";
const ENGINES: [&str; 3] = [OURS, QUEUE, TREE];

/// The number of entries that one call of a program takes and inserts. Between two calls, Sapwood's
/// service replaces what the program took.
const STEPS: u64 = 128;

/// Runs these cases.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    for name in options.chosen(CASES) {
        measure(name, options, report)?;
    }
    Ok(())
}

/// The queues of a case.
struct Queues<'a> {
    programs: &'a Programs,
    map: ProgramMap<u64>,
}

/// The results of one processor.
#[derive(Default)]
struct Done {
    /// Nanoseconds of each call's program.
    calls: Vec<f64>,
    /// Nanoseconds of processor time of the service.
    service: f64,
    /// Steps that failed.
    lost: u64,
    /// Entries that came before their predecessors.
    disorder: u64,
    /// The last error.
    error: i64,
}

impl Done {
    /// Nanoseconds per step, the service included.
    fn each(&self) -> f64 {
        let mut calls = self.calls.clone();
        calls.sort_by(f64::total_cmp);
        let steps = STEPS as f64;
        calls[calls.len() / 2] / steps + self.service / (steps * calls.len() as f64)
    }

    /// The share of the steps that failed.
    fn lost(&self) -> f64 {
        self.lost as f64 / (STEPS as usize * self.calls.len()) as f64
    }
}

impl Queues<'_> {
    /// Calls a program this many times. The entries have the numbers from `number` on.
    fn call(&self, program: &str, number: u64, calls: usize) -> Result<Done, String> {
        let mut done = Done::default();
        let mut seed = number;
        for call in 0..calls as u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005) + 99;
            let window = u64::from(self.map.window().number);
            let number = number + call * STEPS;
            let packet = [window | STEPS << 32, seed, number, 0, 0, 0, 0];
            let answer = rig::call(self.programs, program, &packet)?;
            done.calls.push(answer[3] as f64);
            done.lost += answer[4];
            done.disorder += answer[5];
            if answer[6] != 0 {
                done.error = answer[6] as i64;
            }
            if program.ends_with("_ours") {
                let clock = CpuClock::start();
                self.map.service().map_err(|e| e.to_string())?;
                done.service += clock.elapsed().as_nanos() as f64;
            }
        }
        Ok(done)
    }

    /// The same on several processors at once.
    fn call_on(
        &self,
        processors: &[usize],
        program: &str,
        number: u64,
        calls: usize,
    ) -> Result<Vec<Done>, String> {
        let met = Barrier::new(processors.len());
        thread::scope(|scope| {
            let threads = processors.iter().zip(0u64..).map(|(processor, i)| {
                let met = &met;
                scope.spawn(move || {
                    let mut here = CpuSet::new();
                    here.set(*processor);
                    let placed = tasks::sched_setaffinity(None, &here);
                    met.wait();
                    placed.map_err(|e| format!("processor {processor}: {e}"))?;
                    self.call(program, number + (i << 32), calls)
                })
            });
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|one| one.join().expect("no panic"));
            joined.collect()
        })
    }
}

fn measure(name: &'static str, options: &Options, report: &mut Report) -> Result<(), String> {
    let entries = match name {
        "queue-1k" => 1 << 10,
        _ => 1 << 16,
    };
    report.begin(format!(
        "{name}: {entries} entries; a step takes the first and inserts one, due up to 2^20 later"
    ));
    let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
    let programs = rig::load(&arena, objects::BENCH_QUEUE, 0, 0)?;
    let map = ProgramMap::builder(&arena, "queue")
        .with_trie()
        .max_entries(1 << 18)
        .longest_key(16)
        .bytes(256 << 20)
        .ring(8192)
        .build();
    let queues = Queues {
        programs: &programs,
        map: map.map_err(|e| e.to_string())?,
    };
    let engines = [(OURS, "ours"), (QUEUE, "queue"), (TREE, "tree")];
    let mut number = 1;
    for (engine, program) in engines {
        if !options.wants_engine(engine) {
            continue;
        }
        let done = queues.call(
            &format!("sw_fill_{program}"),
            number,
            entries / STEPS as usize,
        )?;
        if done.lost > 0 {
            return Err(format!("{engine}: filling: error {}", done.error));
        }
    }
    number += entries as u64;
    let may = tasks::sched_getaffinity(None).map_err(|e| format!("processors: {e}"))?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|one| may.is_set(*one))
        .collect();
    if processors.len() < 2 {
        report.note(format!("{name}: one processor, so nothing by two"));
    }
    let calls = options.size(1000, 40);
    let mut samples = Samples::new(name, &ENGINES);
    for round in options.rounds(&format!("bpf: {name}"), 1) {
        let empty = queues.call("sw_hold_none", number, calls)?.each();
        for turn in 0..engines.len() {
            let (engine, program) = engines[(turn + round as usize) % engines.len()];
            if !options.wants_engine(engine) {
                continue;
            }
            let program = format!("sw_hold_{program}");
            for (count, metric) in [(1, "push_pop_ns"), (2, "push_pop_by_two_ns")] {
                let Some(processors) = processors.get(..count) else {
                    continue;
                };
                let done = queues.call_on(processors, &program, number, calls)?;
                number += (calls as u64) * STEPS;
                let share = done.iter().map(Done::lost).sum::<f64>() / count as f64;
                let wrong = done.iter().map(|one| one.disorder).sum::<u64>();
                let error = done.iter().map(|one| one.error).find(|error| *error != 0);
                // Two processors insert in an order that no number shows.
                let ordered = count == 1 && engine != QUEUE;
                if (count == 1 && share > 0.0) || (ordered && wrong > 0) {
                    return Err(format!(
                        "WRONG: {engine}: {wrong} entries not in order; error {error:?}"
                    ));
                }
                let each = done.iter().map(Done::each).sum::<f64>() / count as f64;
                let each = Measure::new(metric, (each - empty).max(0.0), "ns");
                samples.add(engine, &each);
                if count == 2 {
                    let share = Measure::new("dropped_share", share, "share");
                    samples.add(engine, &share);
                }
            }
        }
    }
    report.end(samples, &[QUEUE, TREE]);
    Ok(())
}

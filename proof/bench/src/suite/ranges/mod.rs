//! The suite `ranges`: maps from disjoint ranges of `u64` to a `u64`.
//!
//! In the cases `1k`, `100k`, `1m` and `bytes-1m` a map is built from ranges in a random order,
//! read, and then changed. In the other cases a stream of changes builds the map, which is then
//! read. Each round does so with every engine. All answers are compared with those of
//! `std-btreemap`: one by one in the first round, by checksums in all rounds. The run ends at the
//! first difference.
//!
//! In the cases `replay-…` the stream is a recording of what real programs mapped and unmapped: see
//! [`replay`].
//!
//! In the cases `beside-1wNr` and `writers-N` threads share the map: see [`beside`]. A writer maps
//! ranges at the lowest gap that fits in its region of an address space, and unmaps them again.
//! Meanwhile N readers look indices up, or N writers change the map, each in a region of its own.
//! Readers check each answer. The answers to the writers, and the entries that they left, are
//! compared with those of `std-btreemap` after the same changes.
//!
//! | metric | what it is |
//! |---|---|
//! | `load_ns`, `load_dependent_ns` | one lookup of a random index from 0 to the last end, in ranges or in gaps; dependent: each after the answer to the one before is known |
//! | `iter_ns` | reading all entries in order, per entry |
//! | `gap_common_ns` | the search for the lowest gap of a size that half of all gaps have, within a random window |
//! | `gap_rare_ns` | the same from the start, of a size that only one gap near the end has; of the largest gap, wherever it is, after a stream |
//! | `store_ns` | one change. Of a built map: storing a range like its own at a random place, or erasing the entry at one. Otherwise one of the stream's changes |
//! | `bytes_per_entry` | all memory of the map as built, malloc's rounding and headers included |
//! | `nodes_requested` | the nodes that the plans of the same changes request |
//! | `nodes_used` | the nodes that these changes made |
//! | `nodes_requested_worst`, `nodes_requested_vacant` | the nodes that the kernel's formulas request for them at the heights of our tree: before its series, and with vacant and sufficient heights |
//! | `load_mops` | in `beside-1wNr`: lookups of all readers beside the writer, in millions a second |
//! | `load_alone_mops` | the same before the writer begins |
//! | `change_mops` | changes of all writers, in millions a second |
//! | `p50_us`, `p99_us`, `worst_us` | one mapping beside the other threads: the search for the lowest gap of n pages, and the store there |
//!
//! Times of one thread are its processor time, times of several threads are wall-clock time.
//! Sapwood's map is read through one view, and acquires and releases its lock for each change. The
//! peers have no lock where one thread works, and have one in the other cases.

mod beside;
mod replay;
mod work;

use std::time::Duration;

use super::Options;
use crate::alloc;
use crate::clock::CpuClock;
use crate::ranges::{self, Lane, Op, Requests};
use crate::report::{Measure, Report, Samples};
use work::Work;

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let cases = options.chosen(work::CASES);
    let shared = options.chosen(beside::names());
    let mut lanes = ranges::lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    if (cases.is_empty() || lanes.is_empty()) && (shared.is_empty() || !beside::wanted(options)) {
        return Err(format!(
            "no such engine or case; cases: {}, {}",
            work::CASES.join(", "),
            beside::names().join(", ")
        ));
    }
    let mut report = Report::new("ranges");
    println!("{}", report.machine);
    let all = cases.len() + shared.len();
    for (at, case) in cases.iter().enumerate() {
        if !lanes.is_empty() {
            let work = Work::new(case, options);
            run_case(&work, options, &lanes, all - at, &mut report);
        }
    }
    for (at, case) in shared.iter().enumerate() {
        if beside::wanted(options) {
            beside::run_case(case, options, shared.len() - at, &mut report);
        }
    }
    Ok(report)
}

fn run_case(
    work: &Work,
    options: &Options,
    lanes: &[Lane],
    cases_left: usize,
    report: &mut Report,
) {
    report.begin(format!("{}: {}", work.name, work.how));
    let mut able: Vec<_> = lanes.iter().collect();
    let names: Vec<_> = able.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new(work.name, &names);
    for round in options.rounds(&format!("ranges: {}", work.name), cases_left) {
        if round == 0 {
            able.retain(|lane| match check(work, lane) {
                Ok((measures, requests)) => {
                    for measure in measures {
                        samples.add(lane.name, &measure);
                    }
                    if let Some(requests) = requests {
                        for text in histograms(&requests) {
                            report.note(format!("{}: {}: {text}", work.name, lane.name));
                        }
                    }
                    true
                }
                Err(reason) => {
                    report.note(format!("{}: without {}: {reason}", work.name, lane.name));
                    false
                }
            });
        }
        let turn = usize::from(round > 0 && !able.is_empty());
        able.rotate_left(turn);
        for lane in &able {
            for measure in time(work, lane) {
                samples.add(lane.name, &measure);
            }
        }
    }
    report.end(samples, &[ranges::REFERENCE]);
}

/// The requests for nodes in the form in which the kernel's series prints them.
fn histograms(requests: &Requests) -> [String; 3] {
    // Changes that had nothing to do are not counted.
    let writes = requests.planned.asked();
    [
        ("planned", &requests.planned),
        ("by the worst case", &requests.worst),
        ("by vacant heights", &requests.vacant),
    ]
    .map(|(how, histogram)| {
        let sum = histogram.nodes();
        let each = sum as f64 / writes as f64;
        format!("{writes} changes, requests {how}: {histogram} (in all {sum}, {each:.3} a change)")
    })
}

/// Compares all answers, counts the memory, and collects the requests of the plans.
fn check(work: &Work, lane: &Lane) -> Result<(Vec<Measure>, Option<Requests>), String> {
    let (name, expected) = (lane.name, &work.expected);
    if work.stream && !changes(work, lane) {
        return Err(lane.no_erase.unwrap_or_default().to_owned());
    }
    alloc::trim();
    let (built, allocated) = alloc::counted(|| -> Result<_, String> {
        let mut built = (lane.empty)()?;
        built.apply(&work.base);
        if work.stream {
            assert_eq!(built.apply(&work.changes), expected.changed, "{name}");
        }
        Ok(built)
    });
    let mut built = built?;
    let bytes = allocated.max(0) as usize + built.mapped_bytes();
    assert_eq!(built.entries(), expected.entries, "{name}: entries");
    let answers = built.answers(&work.probes);
    assert!(answers == expected.answers, "{name}: answers to loads");
    assert_eq!(built.gaps(&work.common), expected.common, "{name}: gaps");
    let rare = built.gaps(work.one_rare());
    assert_eq!(rare, expected.rare, "{name}: the rare gap");
    if !work.stream && changes(work, lane) {
        assert_eq!(built.apply(&work.changes), expected.changed, "{name}");
        assert_eq!(built.entries(), expected.left, "{name}: entries left");
    }
    drop(built);
    let each = bytes as f64 / expected.entries.count as f64;
    let mut measures = vec![Measure::new("bytes_per_entry", each, "B")];
    let requests = (lane.requests)(&work.base, &work.changes);
    if let Some(requests) = &requests {
        let counts = [
            ("nodes_requested", requests.planned.nodes()),
            ("nodes_used", requests.used),
            ("nodes_requested_worst", requests.worst.nodes()),
            ("nodes_requested_vacant", requests.vacant.nodes()),
        ];
        measures.extend(counts.map(|(metric, count)| Measure::new(metric, count as f64, "nodes")));
    }
    Ok((measures, requests))
}

/// Whether the engine can make the changes of the case.
fn changes(work: &Work, lane: &Lane) -> bool {
    let takes_out = |op: &Op| matches!(op, Op::Erase { .. } | Op::Clear { .. });
    lane.no_erase.is_none() || !work.changes.iter().any(takes_out)
}

/// Runs one round of one engine.
fn time(work: &Work, lane: &Lane) -> Vec<Measure> {
    let (name, expected) = (lane.name, &work.expected);
    alloc::trim();
    let mut measures = Vec::new();
    let mut measure = |metric, time: Duration, count: usize| {
        let each = time.as_secs_f64() * 1e9 / count as f64;
        measures.push(Measure::new(metric, each, "ns"));
    };
    let mut built = (lane.empty)().expect("it could be had in the check");
    built.apply(&work.base);
    if work.stream {
        let (time, changed) = timed(|| built.apply(&work.changes));
        assert_eq!(changed, expected.changed, "{name}");
        measure("store_ns", time, work.changes.len());
    }

    let (time, tally) = timed(|| built.loads(&work.probes));
    assert_eq!(tally, expected.loads, "{name}");
    measure("load_ns", time, work.probes.len());
    let (time, tally) = timed(|| built.loads_dependent(&work.probes));
    assert_eq!(tally, expected.loads, "{name}");
    measure("load_dependent_ns", time, work.probes.len());

    let entries = expected.entries.count as usize;
    let passes = work.probes.len().div_ceil(entries);
    let (time, ()) = timed(|| {
        for _ in 0..passes {
            assert_eq!(built.entries(), expected.entries, "{name}");
        }
    });
    measure("iter_ns", time, passes * entries);

    if !work.common.is_empty() {
        let (time, tally) = timed(|| built.gaps(&work.common));
        assert_eq!(tally, expected.common, "{name}");
        measure("gap_common_ns", time, work.common.len());
        // A scan takes long, so a few are enough; a descent is short, so many are needed.
        let mut count = 1;
        let time = loop {
            let (time, _) = timed(|| built.gaps(&work.rare[..count]));
            if time >= work.patience || count == work.rare.len() {
                break time;
            }
            count = (4 * count).min(work.rare.len());
        };
        measure("gap_rare_ns", time, count);
    }

    if !work.stream && changes(work, lane) {
        let (time, changed) = timed(|| built.apply(&work.changes));
        assert_eq!(changed, expected.changed, "{name}");
        assert_eq!(built.entries(), expected.left, "{name}");
        measure("store_ns", time, work.changes.len());
    }
    measures
}

fn timed<T>(act: impl FnOnce() -> T) -> (Duration, T) {
    let clock = CpuClock::start();
    let result = act();
    (clock.elapsed(), result)
}

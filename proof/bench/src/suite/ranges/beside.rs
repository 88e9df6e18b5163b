//! Range maps with readers beside one writer, and with several writers.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;
use sapwood::maple::MapleMap;
use sapwood_model::data::ranges as model;

use super::work;
use crate::alloc;
use crate::peers::rwlock::BtreeRanges;
use crate::ranges::shared::{Loads, Shared};
use crate::ranges::{Engine, Op, Query, Reference, Tally};
use crate::report::{Measure, Report, Samples};
use crate::suite::{Options, mega_rate, mops};

/// The cases, each with its numbers of readers and writers.
const CASES: [(&str, usize, usize); 5] = [
    ("beside-1w1r", 1, 1),
    ("beside-1w2r", 2, 1),
    ("beside-1w4r", 4, 1),
    ("writers-2", 0, 2),
    ("writers-4", 0, 4),
];

/// The names of the cases.
pub(super) fn names() -> [&'static str; 5] {
    CASES.map(|(name, ..)| name)
}

/// An engine with its type erased.
struct Lane {
    name: &'static str,
    run: fn(&Work, Duration) -> Vec<Measure>,
}

fn lane<S: Shared>() -> Lane {
    Lane {
        name: S::NAME,
        run: run_engine::<S>,
    }
}

/// All engines, in the order in which tables list them.
fn lanes() -> Vec<Lane> {
    vec![lane::<MapleMap<u64>>(), lane::<BtreeRanges>()]
}

/// Whether any engine of these cases is wanted.
pub(super) fn wanted(options: &Options) -> bool {
    lanes().iter().any(|lane| options.wants_engine(lane.name))
}

/// The number of ranges in all regions together.
const RANGES: usize = 1_000;
/// The number of indices of a writer's region.
const REGION: u64 = 1 << 40;
/// The number of lookups between two points where a reader holds no reference.
const BURST: usize = 32;

/// The initial contents of a map, and the lookups.
struct Work {
    readers: usize,
    writers: usize,
    /// Ranges with even values, which stay mapped.
    standing: Vec<Op>,
    /// The largest number of ranges that a writer has mapped at once.
    most: usize,
    probes: Vec<u64>,
    /// The value that stays at each probe; 0 where none does.
    stands: Vec<u64>,
}

impl Work {
    fn new(readers: usize, writers: usize, options: &Options) -> Self {
        let each = RANGES / writers;
        let mut standing = Vec::new();
        for region in 0..writers as u64 {
            for range in model::vma(each, 1 + region).initial {
                assert!(*range.end() < REGION, "a region is large enough");
                standing.push(Op::Store {
                    start: region * REGION + range.start(),
                    end: region * REGION + range.end(),
                    value: 2 * (standing.len() as u64 + 1),
                });
            }
        }
        let reference = stored(&standing);
        let probes = work::probes(&reference.list(), options.size(100_000, 10_000));
        let stands = probes.iter().map(|at| reference.get(*at).unwrap_or(0));
        Self {
            readers,
            writers,
            most: each / 4,
            stands: stands.collect(),
            probes,
            standing,
        }
    }
}

fn stored(ops: &[Op]) -> Reference {
    let mut map = Reference::default();
    for op in ops {
        if let Op::Store { start, end, value } = *op {
            Engine::store(&mut map, start, end, value);
        }
    }
    map
}

/// The changes of a writer, turn by turn. A turn maps a range of 1 to 16 pages at the lowest gap
/// that fits in the writer's region. When enough is mapped, it also unmaps one range that the
/// writer mapped before.
struct Turns {
    rng: Rng,
    region: u64,
    mapped: VecDeque<u64>,
    most: usize,
    value: u64,
    /// The places of the mapped ranges, and the unmapped values.
    tally: Tally,
    count: usize,
}

/// A map as a writer uses it: the tested engine or the reference.
trait Changes {
    fn alloc(&mut self, within: Query, value: u64) -> Option<u64>;
    fn erase(&mut self, index: u64) -> Option<u64>;
}

impl<S: Shared> Changes for &S {
    fn alloc(&mut self, within: Query, value: u64) -> Option<u64> {
        Shared::alloc(*self, within, value)
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        Shared::erase(*self, index)
    }
}

impl Changes for Reference {
    fn alloc(&mut self, within: Query, value: u64) -> Option<u64> {
        Engine::alloc(self, within, value)
    }

    fn erase(&mut self, index: u64) -> Option<u64> {
        Engine::erase(self, index)
    }
}

impl Turns {
    fn new(work: &Work, writer: usize) -> Self {
        Self {
            rng: Rng::with_seed(10 + writer as u64),
            region: writer as u64 * REGION,
            mapped: VecDeque::new(),
            most: work.most,
            value: 1,
            tally: Tally::default(),
            count: 0,
        }
    }

    /// Runs one turn; returns the time of the mapping.
    fn take(&mut self, map: &mut impl Changes) -> Duration {
        let within = Query {
            size: self.rng.u64(1..=16) * model::PAGE,
            from: self.region,
            to: self.region + (REGION - 1),
        };
        let start = Instant::now();
        let place = map.alloc(within, self.value);
        let time = start.elapsed();
        self.tally.add(place);
        // The values of mapped ranges are odd.
        self.value += 2;
        self.mapped.push_back(place.expect("a region has room"));
        if self.mapped.len() > self.most {
            let at = self.rng.usize(..self.mapped.len());
            let place = self.mapped.swap_remove_back(at);
            let place = place.expect("it is one of them");
            self.tally.add(map.erase(place));
        }
        self.count += 1;
        time
    }

    /// The number of changes in these turns.
    fn changes(&self) -> usize {
        2 * self.count - self.mapped.len()
    }
}

/// Runs those of these cases that are wanted.
pub(super) fn run_case(name: &str, options: &Options, cases_left: usize, report: &mut Report) {
    let case = CASES.iter().find(|case| case.0 == name);
    let (name, readers, writers) = *case.expect("the caller has it from `names`");
    let work = Work::new(readers, writers, options);
    let mut lanes = lanes();
    lanes.retain(|lane| options.wants_engine(lane.name));
    let who = match readers {
        0 => format!("{writers} writers, each in its own region"),
        1 => "a reader beside a writer".into(),
        _ => format!("{readers} readers beside a writer"),
    };
    report.begin(format!(
        "{name}: an address space of {} ranges, {who}: lowest fit of 1 to 16 pages, exact erasure",
        work.standing.len()
    ));
    let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
    let mut samples = Samples::new(name, &names);
    let window = Duration::from_millis(options.size(300, 40) as u64);
    for round in options.rounds(&format!("ranges: {name}"), cases_left) {
        for step in 0..lanes.len() {
            let lane = &lanes[(step + round as usize) % lanes.len()];
            alloc::trim();
            for measure in (lane.run)(&work, window) {
                samples.add(lane.name, &measure);
            }
        }
    }
    report.end(samples, &[BtreeRanges::NAME]);
}

/// Runs one round of one engine.
fn run_engine<S: Shared>(work: &Work, window: Duration) -> Vec<Measure> {
    let map = S::new();
    for op in &work.standing {
        if let Op::Store { start, end, value } = *op {
            map.store(start, end, value);
        }
    }
    let mut measures = Vec::new();
    if work.readers > 0 {
        let (reads, _) = threads(&map, work, 0, window);
        measures.push(mops("load_alone_mops", reads.count, reads.time));
    }
    let (reads, writers) = threads(&map, work, work.writers, window);
    if work.readers > 0 {
        measures.push(mops("load_mops", reads.count, reads.time));
    }
    let mut expected = stored(&work.standing);
    let mut nanoseconds = Vec::new();
    let mut rate = 0.0;
    for (number, writer) in writers.into_iter().enumerate() {
        let mut turns = Turns::new(work, number);
        for _ in 0..writer.turns.count {
            turns.take(&mut expected);
        }
        assert_eq!(writer.turns.tally, turns.tally, "{}", S::NAME);
        rate += mega_rate(writer.turns.changes(), writer.time);
        nanoseconds.extend(writer.nanoseconds);
    }
    assert_eq!(map.entries(), expected.entries(), "{}: entries", S::NAME);
    nanoseconds.sort_unstable();
    let last = nanoseconds.len() - 1;
    let quantile = |share: f64| nanoseconds[(share * last as f64) as usize] as f64 / 1e3;
    measures.extend([
        Measure::new("change_mops", rate, "Mop/s"),
        Measure::new("p50_us", quantile(0.5), "us"),
        Measure::new("p99_us", quantile(0.99), "us"),
        Measure::new("worst_us", quantile(1.0), "us"),
    ]);
    measures
}

/// The results of all readers together.
#[derive(Default)]
struct Reads {
    count: usize,
    time: Duration,
}

/// The results of a writer.
struct Writer {
    turns: Turns,
    /// The time of each mapping.
    nanoseconds: Vec<u64>,
    time: Duration,
}

/// Runs the readers and some writers for a while.
fn threads<S: Shared>(
    map: &S,
    work: &Work,
    writers: usize,
    window: Duration,
) -> (Reads, Vec<Writer>) {
    let stop = &AtomicBool::new(false);
    let start = &Barrier::new(work.readers + writers + 1);
    std::thread::scope(|scope| {
        let reading: Vec<_> = (0..work.readers)
            .map(|number| {
                scope.spawn(move || {
                    let mut reader = map.reader();
                    start.wait();
                    read(&mut reader, work, number, stop, S::NAME)
                })
            })
            .collect();
        let writing: Vec<_> = (0..writers)
            .map(|number| {
                scope.spawn(move || {
                    let turns = Turns::new(work, number);
                    start.wait();
                    write(map, turns, stop)
                })
            })
            .collect();
        start.wait();
        std::thread::sleep(window);
        stop.store(true, Relaxed);
        let mut reads = Reads::default();
        for thread in reading {
            let done = thread.join().expect("a reader ends");
            reads.count += done.count;
            reads.time = reads.time.max(done.time);
        }
        let writers = writing.into_iter();
        let writers = writers.map(|thread| thread.join().expect("a writer ends"));
        (reads, writers.collect())
    })
}

/// Looks indices up, one burst at a time and at least one, until told to stop.
fn read(
    reader: &mut impl Loads,
    work: &Work,
    number: usize,
    stop: &AtomicBool,
    name: &str,
) -> Reads {
    // Each reader starts at another place.
    let mut from = work.probes.len() * number / work.readers / BURST * BURST;
    let (mut count, mut wrong) = (0, 0);
    let start = Instant::now();
    loop {
        let to = (from + BURST).min(work.probes.len());
        let mut stands = work.stands[from..to].iter();
        reader.burst(&work.probes[from..to], |answer| {
            let stands = stands.next().copied().unwrap_or(0);
            wrong += usize::from(!is_right(answer, stands));
        });
        count += to - from;
        from = to % work.probes.len();
        if stop.load(Relaxed) {
            break;
        }
    }
    let time = start.elapsed();
    assert_eq!(wrong, 0, "{name}: wrong answers");
    Reads { count, time }
}

/// Whether an answer is possible: the value that stays there or, where none does, no value or an
/// odd one, which a writer has mapped there.
fn is_right(answer: Option<u64>, stands: u64) -> bool {
    match (answer, stands) {
        (None, 0) => true,
        (Some(value), 0) => value & 1 == 1,
        (answer, stands) => answer == Some(stands),
    }
}

/// Runs turns, at least one, until told to stop.
fn write<S: Shared>(map: &S, mut turns: Turns, stop: &AtomicBool) -> Writer {
    let mut map = map;
    let mut nanoseconds = Vec::with_capacity(1 << 20);
    let start = Instant::now();
    loop {
        nanoseconds.push(turns.take(&mut map).as_nanos() as u64);
        if stop.load(Relaxed) {
            break;
        }
    }
    Writer {
        turns,
        nanoseconds,
        time: start.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    #[test]
    fn turns_map_and_unmap_odd_values_and_leave_what_stands() {
        let options = Options::new(Suite::Ranges, true, Some(1), None, vec![], vec![]);
        let work = Work::new(1, 2, &options);
        let mut map = stored(&work.standing);
        for number in 0..2 {
            let mut turns = Turns::new(&work, number);
            for _ in 0..1_000 {
                turns.take(&mut map);
            }
            assert_eq!(turns.mapped.len(), work.most);
            assert_eq!(turns.changes(), 2_000 - work.most);
        }
        let odd = map.list().iter().filter(|entry| entry.2 & 1 == 1).count();
        assert_eq!(odd, 2 * work.most);
        assert_eq!(map.len(), RANGES + odd);
        for (probe, stands) in work.probes.iter().zip(&work.stands) {
            assert!(is_right(map.get(*probe), *stands));
        }
    }

    #[test]
    fn wrong_answers_are_seen() {
        assert!(is_right(None, 0) && is_right(Some(3), 0) && is_right(Some(4), 4));
        assert!(!is_right(Some(2), 0) && !is_right(None, 4) && !is_right(Some(3), 4));
    }

    #[test]
    fn every_engine_runs_with_readers_and_with_writers() {
        let options = Options::new(Suite::Ranges, true, Some(1), None, vec![], vec![]);
        for (readers, writers) in [(2, 1), (0, 2)] {
            let work = Work::new(readers, writers, &options);
            for lane in lanes() {
                let measures = (lane.run)(&work, Duration::from_millis(20));
                assert_eq!(
                    measures.len(),
                    if readers > 0 { 6 } else { 4 },
                    "{}",
                    lane.name
                );
            }
        }
    }
}

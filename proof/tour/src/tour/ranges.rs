//! Chapter: ranges of numbers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sapwood::maple::{MapleMap, Window};
use sapwood_model::data::ranges::{PAGE, mappings, pages_with_rare_gaps};
use serde_json::{Value, json};

use super::measure::{self, Rival};
use super::spans::Spans;
use super::{Chapter, Tour, cpu_time, figure, grouped, median, timed};
use crate::beside::{Pace, Paces};
use crate::errors::Error;
use crate::numbers::{Base, length};
use crate::progress::Progress;

/// The chapter on maps of ranges, with gap searches and reservations.
pub struct Ranges;

/// How many ranges are generated.
const GENERATED: usize = 1_000_000;
const QUICK: usize = 100_000;
/// One of this many ranges follows a gap that is larger than the others.
const RARE: usize = 5_000;
/// Rounds of lookups and of walks.
const ROUNDS: usize = 3;
/// How many lookups a view serves.
const A_VIEW: usize = 256;

type Map = MapleMap<u32>;
type Span = RangeInclusive<u64>;

/// The ranges, the questions and the changes for both maps.
struct Course {
    /// The ranges in order. The value of a range is its place here.
    ranges: Vec<Span>,
    shuffled: Vec<u32>,
    indices: Vec<u64>,
    changes: Vec<(Span, Option<u32>)>,
    /// The starts of the windows in which gaps are searched: of the common size, and of the rare
    /// one.
    common: Vec<u64>,
    rare: Vec<u64>,
}

/// The figures of one map, in nanoseconds an operation.
#[derive(Default)]
struct Times {
    name: &'static str,
    build: f64,
    load: Vec<f64>,
    iterate: Vec<f64>,
    change: f64,
    common: f64,
    rare: f64,
}

impl Times {
    fn new(name: &'static str) -> Self {
        Times {
            name,
            ..Times::default()
        }
    }

    /// The figures as a row and as a document, with the bytes of a range.
    fn shown(self, bytes: Option<f64>) -> (Vec<String>, Value) {
        let row = [
            ("load_ns", Some(median(self.load))),
            ("iterate_ns", Some(median(self.iterate))),
            ("build_ns", Some(self.build)),
            ("change_ns", Some(self.change)),
            ("gap_common_ns", Some(self.common)),
            ("gap_rare_ns", Some(self.rare)),
            ("bytes_per_range", bytes),
        ];
        let mut cells = vec![self.name.to_owned()];
        let mut document = json!({ "map": self.name });
        for (name, value) in row {
            cells.push(value.map_or_else(|| "-".into(), figure));
            document[name] = json!(value);
        }
        (cells, document)
    }
}

impl Chapter for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    fn title(&self) -> &'static str {
        "Ranges"
    }

    fn run(&self, tour: &mut Tour) -> Result<Value, Error> {
        tour.say(
            "A MapleMap maps ranges of numbers to values, and finds gaps between them. Readers \
             take no lock. One writer at a time stores, cuts and allocates ranges.",
        )?;
        let process = process(tour)?;
        let mut progress = Progress::new("ranges", Some(9), false);
        let count = tour.limit.min(if tour.quick { QUICK } else { GENERATED });
        let course = Course::new(count, tour.quick);
        let (map, mut figures) = beside(tour, &course, &mut progress)?;
        drop(progress);
        figures["process"] = process;
        figures["reservation"] = reservation(tour, &course, &map)?;
        figures["readers"] = readers(tour, &course)?;
        Ok(figures)
    }
}

fn each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count.max(1) as f64
}

/// Shows the memory mappings of this process.
fn process(tour: &mut Tour) -> Result<Value, Error> {
    let mappings = match mappings() {
        Ok(mappings) => mappings,
        Err(missing) => {
            tour.say(format!("  ({missing})"))?;
            return Ok(Value::Null);
        }
    };
    let here = 0u8;
    let here = std::ptr::from_ref(&here).addr() as u64;
    let (map, mut oracle) = (MapleMap::new(), BTreeMap::new());
    for (mapping, number) in mappings.iter().zip(0u32..) {
        map.store(mapping.range.clone(), number)
            .map_err(sapwood::Error::from)?;
        oracle.insert(*mapping.range.start(), (*mapping.range.end(), number));
    }
    for (start, (end, number)) in &oracle {
        for index in [*start, *end] {
            let found = map.get_entry(index);
            tour.check(found == Some((*start..=*end, *number)), || {
                format!("{found:?} at {index:#x}")
            })?;
        }
    }
    let stack = map.get_entry(here);
    tour.check(stack.is_some(), || "no mapping has the stack".into())?;
    let mapped: u128 = mappings.iter().map(|m| length(&m.range)).sum();
    let window = 0x1_0000..=u64::MAX;
    let (gap, time) = timed(|| map.find_gap(1 << 30, Window::new(window).aligned(2 << 20)));
    let free = |gap: &Span| {
        let before = oracle.range(..=*gap.end()).next_back();
        before.is_none_or(|(_, (end, _))| end < gap.start())
    };
    tour.check(gap.as_ref().is_some_and(free), || {
        format!("the gap {gap:?}")
    })?;
    let name = stack.map_or_else(String::new, |(range, number)| {
        let name = &mappings[number as usize].name;
        format!("{name} of {}", Base::Sixteen.span(&range))
    });
    tour.say(format!(
        "\nThis process has {} mappings of {} bytes in all:\n  \
         a variable of this function, at {here:#x}, is in {name}\n  \
         the lowest gap of 1 GiB at a multiple of 2 MiB is {}, found in {time:.0?}",
        mappings.len(),
        grouped(mapped as usize),
        gap.as_ref()
            .map_or_else(String::new, |gap| Base::Sixteen.span(gap)),
    ))?;
    Ok(json!({ "ranges": mappings.len(), "bytes": mapped as u64 }))
}

impl Course {
    fn new(count: usize, quick: bool) -> Self {
        let ranges = pages_with_rare_gaps(count.max(1), RARE, 1).ascending;
        let end = ranges.last().map_or(0, |last| *last.end());
        let mut rng = fastrand::Rng::with_seed(2);
        let mut shuffled: Vec<u32> = (0..ranges.len() as u32).collect();
        rng.shuffle(&mut shuffled);
        // Small maps get fewer questions.
        let asked = (if quick { 50_000 } else { 250_000 }).min(10 * ranges.len());
        let mut any = |count| (0..count).map(|_| rng.u64(..=end)).collect::<Vec<_>>();
        let (indices, common, rare) = (any(asked), any(asked / 10), any(asked / 1250));
        let changes = (0..asked as u32 / 2).map(|number| {
            let start = rng.u64(..=end) / PAGE * PAGE;
            let range = start..=start + (rng.u64(1..=16) * PAGE - 1);
            (range, (rng.u8(..10) < 7).then_some(number))
        });
        Course {
            changes: changes.collect(),
            ranges,
            shuffled,
            indices,
            common,
            rare,
        }
    }
}

/// Builds, queries and changes both maps, and prints the table of their figures.
fn beside(
    tour: &mut Tour,
    course: &Course,
    progress: &mut Progress,
) -> Result<(Map, Value), Error> {
    let count = course.ranges.len();
    progress.hide(|| {
        tour.say(format!(
            "\n{} generated ranges of 1 to 16 pages, seven of ten after a gap, are stored in \
             random order. Then {} stores and clears at random places cut what they overlap. The \
             figures are nanoseconds an operation. The rival is a BTreeMap from starts to ends \
             and values, which are u32. All answers are compared. A gap of 4 pages is common, one \
             of 50 pages is rare.\n ",
            grouped(count),
            grouped(course.changes.len()),
        ))
    })?;
    let mut times = [Times::new("MapleMap"), Times::new("std BTreeMap")];
    let [ours, theirs] = &mut times;
    let (map, mut spans) = build(course, ours, theirs, progress)?;
    for _ in 0..ROUNDS {
        ask(tour, course, (&map, ours), (&spans, theirs))?;
        progress.step();
    }
    change(tour, course, (&map, ours), (&mut spans, theirs))?;
    progress.step();
    gaps(tour, course, (&map, ours), (&spans, theirs))?;
    progress.step();
    progress.doing("measuring memory");
    let memory = memory(course, progress)?;
    let each = |bytes: &u64| *bytes as f64 / count as f64;
    let bytes = memory.each_ref().map(|bytes| bytes.as_ref().ok().map(each));
    let shown = times
        .into_iter()
        .zip(bytes)
        .map(|(times, bytes)| times.shown(bytes));
    let (rows, figures): (Vec<_>, Vec<_>) = shown.unzip();
    let header = [
        "ranges",
        "load",
        "iterate",
        "build",
        "change",
        "gap, common",
        "gap, rare",
        "B/range",
    ];
    progress.hide(|| {
        tour.table(&header, &rows)?;
        match memory.into_iter().find_map(Result::err) {
            Some(why) => tour.say(format!("memory was not measured: {why}")),
            None => Ok(()),
        }
    })?;
    Ok((map, json!({ "ranges": count, "maps": figures })))
}

/// Fills both maps.
fn build(
    course: &Course,
    ours: &mut Times,
    theirs: &mut Times,
    progress: &mut Progress,
) -> Result<(Map, Spans), Error> {
    let entries = || {
        let places = course.shuffled.iter();
        places.map(|i| (course.ranges[*i as usize].clone(), *i))
    };
    let (map, time) = timed(|| {
        let map = Map::new();
        for (range, value) in entries() {
            map.store(range, value)?;
        }
        Ok::<_, sapwood::Error>(map)
    });
    let map = map?;
    ours.build = each(time, course.ranges.len());
    progress.step();
    let (spans, time) = timed(|| {
        let mut spans = Spans::default();
        entries().for_each(|(range, value)| spans.store(range, value));
        spans
    });
    theirs.build = each(time, course.ranges.len());
    progress.step();
    Ok((map, spans))
}

/// Stores and clears ranges in both maps, and checks that they are equal after that.
fn change(
    tour: &mut Tour,
    course: &Course,
    (map, ours): (&Map, &mut Times),
    (spans, theirs): (&mut Spans, &mut Times),
) -> Result<(), Error> {
    let (done, time) = timed(|| {
        for (range, value) in &course.changes {
            match value {
                Some(value) => map.store(range.clone(), *value)?,
                None => map.clear_range(range.clone())?,
            }
        }
        Ok::<_, sapwood::Error>(())
    });
    done?;
    ours.change = each(time, course.changes.len());
    let (_, time) = timed(|| {
        for (range, value) in &course.changes {
            match value {
                Some(value) => spans.store(range.clone(), *value),
                None => spans.clear(range),
            }
        }
    });
    theirs.change = each(time, course.changes.len());
    let same = map.read(|view| {
        let entries = view.iter().map(|(range, value)| (range, *value));
        entries.eq(spans.iter())
    });
    tour.check(same, || "the maps differ after the changes".into())?;
    let verdict = map.verify();
    tour.check(verdict.is_ok(), || format!("the map: {verdict:?}"))?;
    tour.checks += map.len() as u64;
    Ok(())
}

/// Measures lookups, and a walk over all ranges.
fn ask(
    tour: &mut Tour,
    course: &Course,
    (map, ours): (&Map, &mut Times),
    (spans, theirs): (&Spans, &mut Times),
) -> Result<(), Error> {
    let wrong = |e: sapwood::qsbr::TooManyReaders| Error::Tour(e.to_string());
    let add = |sum: u64, value: u32| sum.wrapping_mul(31).wrapping_add(value.into());
    let missing = u32::MAX;
    let reader = map.reader("tour").map_err(wrong)?;
    let view = reader.view();
    let (a, time) = timed(|| {
        let found = course.indices.iter().map(|i| view.get(*i).copied());
        found.map(|value| value.unwrap_or(missing)).fold(0, add)
    });
    ours.load.push(each(time, course.indices.len()));
    let (b, time) = timed(|| {
        let found = course.indices.iter().map(|i| spans.get(*i));
        found.map(|value| value.unwrap_or(missing)).fold(0, add)
    });
    theirs.load.push(each(time, course.indices.len()));
    tour.checks += course.indices.len() as u64;
    tour.check(a == b, || "the maps differ in the values of lookups".into())?;
    let touch = |sum: u64, range: &Span, value: u32| add(sum ^ range.start() ^ range.end(), value);
    let (a, time) = timed(|| {
        view.iter()
            .fold(0, |sum, (range, value)| touch(sum, &range, *value))
    });
    ours.iterate.push(each(time, map.len()));
    let (b, time) = timed(|| {
        spans
            .iter()
            .fold(0, |sum, (range, value)| touch(sum, &range, value))
    });
    theirs.iterate.push(each(time, spans.len()));
    tour.checks += map.len() as u64;
    tour.check(a == b, || "the maps differ in their order".into())
}

/// Measures searches for gaps of a common size and of a rare one.
fn gaps(
    tour: &mut Tour,
    course: &Course,
    (map, ours): (&Map, &mut Times),
    (spans, theirs): (&Spans, &mut Times),
) -> Result<(), Error> {
    let end = course.ranges.last().map_or(0, |last| *last.end()) + 1000 * PAGE;
    for (pages, from) in [(4, &course.common), (50, &course.rare)] {
        let (found, a) = timed(|| {
            map.read(|view| {
                let found = from
                    .iter()
                    .map(|from| view.find_gap(pages * PAGE, *from..=end));
                found.collect::<Vec<_>>()
            })
        });
        let (wanted, b) = timed(|| {
            let found = from
                .iter()
                .map(|from| spans.find_gap(pages * PAGE, *from..=end));
            found.collect::<Vec<_>>()
        });
        tour.checks += from.len() as u64;
        tour.check(found == wanted, || {
            format!("the maps differ in gaps of {pages} pages")
        })?;
        let (a, b) = (each(a, from.len()), each(b, from.len()));
        match pages {
            4 => (ours.common, theirs.common) = (a, b),
            _ => (ours.rare, theirs.rare) = (a, b),
        }
    }
    Ok(())
}

/// The bytes of both maps, each filled in a process of its own, or why they were not measured.
fn memory(course: &Course, progress: &mut Progress) -> Result<[Result<u64, String>; 2], Error> {
    let folder = tempfile::tempdir().map_err(Error::write(&std::env::temp_dir()))?;
    let path = folder.path().join("ranges");
    let keys = course.shuffled.iter().map(|i| {
        let range = &course.ranges[*i as usize];
        [range.start().to_be_bytes(), range.end().to_be_bytes()].concat()
    });
    measure::write_keys(keys, &path)?;
    Ok([Rival::Ranges, Rival::RangesBtree].map(|rival| {
        let bytes = measure::bytes(rival, &path);
        progress.step();
        bytes
    }))
}

/// Checks stores whose memory is reserved before.
fn reservation(tour: &mut Tour, course: &Course, map: &Map) -> Result<Value, Error> {
    let count = if tour.quick { 5_000 } else { 20_000 };
    let (mut planned, mut most) = (0, 0);
    let before = map.memory().nodes_made;
    // Near the places of the changes before, so that entries are cut again.
    for (i, (range, _)) in course.changes.iter().take(count).enumerate() {
        let start = range.start() + PAGE / 2;
        let range = start..=range.end() + PAGE / 2;
        let value = i as u32;
        let plan = map.plan_store(range.clone(), &value)?;
        let nodes = plan.nodes();
        let reserved = map.reserve(plan)?;
        tour.check(reserved.nodes() == nodes, || {
            format!("{} nodes reserved, {nodes} planned", reserved.nodes())
        })?;
        reserved.store(value);
        tour.check(map.get(start) == Some(value), || "a reserved store".into())?;
        planned += nodes as u64;
        most = most.max(nodes);
    }
    let memory = map.memory();
    // The memory that a store of an unknown range would reserve.
    let later = map.reserve_unknown(1)?;
    let worst = map.memory().reserved.0;
    drop(later);
    let made = memory.nodes_made - before;
    tour.check(made == planned, || {
        format!("{made} nodes made, {planned} planned")
    })?;
    let verdict = map.verify();
    tour.check(verdict.is_ok(), || format!("the map: {verdict:?}"))?;
    let stores = count.min(course.changes.len());
    let mean = planned as f64 / stores as f64;
    tour.say(format!(
        "\nA store can reserve its memory first: plan_store counts the nodes, reserve allocates \
         them, and Reservation::store uses them. Only reserve can fail for want of memory. {} \
         stores at height {}:\n  \
         {} nodes planned, {} made: {mean:.2} a store, {most} at most; a store of an unknown \
         range\n  \
         would have to reserve {worst} (reserve_unknown)",
        grouped(stores),
        memory.height,
        grouped(planned as usize),
        grouped(made as usize),
    ))?;
    Ok(json!({
        "stores": stores,
        "nodes_planned": planned,
        "nodes_made": made,
        "nodes_most": most,
        "nodes_worst_case": worst,
        "height": memory.height,
    }))
}

/// Measures a reader, alone and beside a writer that never pauses.
fn readers(tour: &mut Tour, course: &Course) -> Result<Value, Error> {
    let (slice, rounds) = match tour.quick {
        true => (Duration::from_millis(40), 3),
        false => (Duration::from_millis(100), 4),
    };
    // Few ranges, so that the processor's caches have them and the cost of the writer shows.
    let ranges = &course.ranges[..course.ranges.len().min(100_000)];
    let map = Map::new();
    for (range, i) in ranges.iter().zip(0..) {
        map.store(range.clone(), i).map_err(sapwood::Error::from)?;
    }
    let stores = AtomicU64::new(0);
    let Paces {
        alone,
        beside,
        lookups,
        writing,
    } = Paces::measured(
        rounds,
        || read(&map, ranges, slice),
        |_, stop| write(&map, ranges, stop, &stores),
        || {},
    )?;
    tour.checks += lookups;
    let verdict = map.verify();
    tour.check(verdict.is_ok(), || format!("the map: {verdict:?}"))?;
    let (alone, beside) = (median(alone), median(beside));
    let stores = stores.into_inner();
    let rate = stores as f64 / writing.as_secs_f64();
    tour.say(format!(
        "\nA reader of {} ranges, and a writer that cuts and overwrites them without a pause. \
         Each value that the reader finds is an old one or a new one of its range:\n  \
         {} million lookups a second of CPU time alone, {} million beside the writer;\n  \
         {} thousand stores a second at the same time",
        grouped(ranges.len()),
        figure(alone),
        figure(beside),
        figure(rate / 1e3),
    ))?;
    Ok(json!({
        "ranges": ranges.len(),
        "reader_alone_mops": alone,
        "reader_beside_writer_mops": beside,
        "stores": stores,
        "stores_per_second": rate,
    }))
}

/// The values of the range at place `i` are `i` plus multiples of this number.
fn turn(ranges: &[Span]) -> u32 {
    ranges.len() as u32
}

/// Reads for `time`, and checks each value.
fn read(map: &Map, ranges: &[Span], time: Duration) -> Result<Pace, Error> {
    let mut reader = map
        .reader("reader")
        .map_err(|e| Error::Tour(e.to_string()))?;
    let mut rng = fastrand::Rng::with_seed(6);
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut lookups = 0;
    while began.elapsed() < time {
        let view = reader.view();
        for _ in 0..A_VIEW {
            let i = rng.usize(..ranges.len());
            let middle = ranges[i].start() + (ranges[i].end() - ranges[i].start()) / 2;
            match view.get(middle) {
                Some(value) if (value % turn(ranges)) as usize == i => {}
                other => {
                    let what = format!("{other:?} in range {i} beside a writer");
                    return Err(Error::Wrong(what));
                }
            }
        }
        reader.quiescent();
        lookups += A_VIEW as u64;
    }
    let cpu = cpu_time() - cpu;
    Ok(Pace { lookups, cpu })
}

/// Writes until the flag stops it: stores the first page of a random range by itself, and then the
/// whole range as one again.
fn write(map: &Map, ranges: &[Span], stop: &AtomicBool, stores: &AtomicU64) -> Result<(), Error> {
    let mut rng = fastrand::Rng::with_seed(7);
    while !stop.load(Ordering::Relaxed) {
        let i = rng.usize(..ranges.len());
        let range = &ranges[i];
        let value = i as u32 + turn(ranges) * rng.u32(..1000);
        let page = *range.start()..=range.start() + (PAGE - 1);
        map.store(page, value).map_err(sapwood::Error::from)?;
        map.store(range.clone(), value)
            .map_err(sapwood::Error::from)?;
        stores.fetch_add(2, Ordering::Relaxed);
    }
    Ok(())
}

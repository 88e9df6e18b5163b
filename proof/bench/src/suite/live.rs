//! The suite `live`: one process writes a map of kernel symbols, and 1, 2 or 4 other processes read
//! it.
//!
//! | metric | what it is |
//! |---|---|
//! | `reads_mops` | random reads of present keys, in millions for each second of processor time of a reader; the mean of the readers, which read at once. A view, transaction or turn has 32 reads |
//! | `update_us` | a commit that changes one key, without readers, by the clock on the wall |
//! | `visible_us` | from the return of such a commit until another process has read the new value, by one clock; 0 when it was read before the return |
//! | `bytes_per_key` | the memory of the map, or of the server, less that of an empty one |
//!
//! Engines: `sapwood-live` (`LiveStore`), `sapwood-store` (a `QpStore` that threads of the writer's
//! process read: without `visible_us`), `lmdb` (heed, without sync, in the same folder in memory),
//! `redb` (without durability; its readers are threads of the writer's process, because a second
//! process cannot open its file), and `redis-unix` (redis-server on a Unix socket, without saving,
//! if it is installed). Every value that is read is compared.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::clock::CpuClock;
use crate::keylist::KeyList;
use crate::live::{self, Engine, Reads};
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;
use crate::suite::names::Case as Keys;

const CASES: [&str; 3] = ["readers-1", "readers-2", "readers-4"];
const ENGINES: [&str; 5] = [
    "sapwood-live",
    "sapwood-store",
    "lmdb",
    "redb",
    "redis-unix",
];

/// The key whose changes are watched.
const WATCHED: &[u8] = b"the watched key";

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let mut report = Report::new("live");
    let cases = options.chosen(CASES);
    if cases.is_empty() {
        return Err(format!("no such case; cases: {}", CASES.join(", ")));
    }
    println!("{}", report.machine);
    let keys = Keys::load("kallsyms", options).map_err(|e| e.to_string())?;
    let keys = keys.present;
    for (at, name) in cases.iter().enumerate() {
        let readers = name.rsplit('-').next().and_then(|n| n.parse().ok());
        let readers: usize = readers.ok_or("a case without a number")?;
        report.begin(format!(
            "{name}: {} kernel symbols; {readers} processes read",
            keys.len()
        ));
        let mut samples = Samples::new(name, &ENGINES);
        for round in options.rounds(&format!("live: {name}"), cases.len() - at) {
            let mut engines = ENGINES;
            engines.rotate_left(round as usize % ENGINES.len());
            for engine in engines {
                if !options.wants_engine(engine) {
                    continue;
                }
                match measure(engine, readers, &keys, options)? {
                    Ok(measures) => measures.iter().for_each(|m| samples.add(engine, m)),
                    Err(why) if round == 0 => report.note(format!("{engine}: {why}")),
                    Err(_) => (),
                }
            }
        }
        report.end(samples, &["lmdb", "sapwood-store"]);
    }
    Ok(report)
}

/// Measures an engine once. The inner error says why this machine does not have it.
fn measure(
    name: &'static str,
    readers: usize,
    keys: &KeyList,
    options: &Options,
) -> Result<Result<Vec<Measure>, String>, String> {
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() { shm } else { Path::new("/tmp") };
    let folder = live::Folder::new(base)?;
    live::write_keys(&folder.path().join("keys"), keys)?;
    let mut engine = match live::open(name, folder.path())? {
        Ok(engine) => engine,
        Err(why) => return Ok(Err(why)),
    };
    let before = engine.bytes()?;
    engine.fill(keys)?;
    let bytes = (engine.bytes()? - before) / keys.len() as f64;
    let mut measures = vec![Measure::new("bytes_per_key", bytes, "B")];

    let count = options.size(2000, 200) as u64;
    let begin = Instant::now();
    for n in 0..count {
        engine.update(WATCHED, n)?;
    }
    let each = begin.elapsed().as_secs_f64() * 1e6 / count as f64;
    measures.push(Measure::new("update_us", each, "us"));

    let time = Duration::from_millis(options.size(500, 50) as u64);
    let reads = match engine.reader_here() {
        Some(reader) => here(&*reader, readers, keys, time)?,
        None => beside(name, folder.path(), readers, time)?,
    };
    measures.push(Measure::new("reads_mops", reads, "M/s"));
    if engine.reader_here().is_none() {
        let visible = visible(&mut *engine, name, folder.path(), options.size(300, 30))?;
        measures.push(Measure::new("visible_us", visible, "us"));
    }
    Ok(Ok(measures))
}

/// Reads by threads of this process: millions a second of processor time, the mean of the readers.
fn here(
    reader: &(dyn Fn() -> Box<dyn Reads> + Sync),
    readers: usize,
    keys: &KeyList,
    time: Duration,
) -> Result<f64, String> {
    let start = Barrier::new(readers);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..readers as u64)
            .map(|seed| {
                let start = &start;
                scope.spawn(move || {
                    let mut reader = reader();
                    start.wait();
                    read_for(&mut *reader, keys, seed, time)
                })
            })
            .collect();
        let all = threads.into_iter();
        let all = all.map(|thread| thread.join().expect("no panic"));
        let all: Result<Vec<f64>, String> = all.collect();
        Ok(all?.iter().sum::<f64>() / readers as f64)
    })
}

/// The same by other processes.
fn beside(engine: &str, folder: &Path, readers: usize, time: Duration) -> Result<f64, String> {
    let mut all = Vec::new();
    for _ in 0..readers {
        all.push(Beside::start(engine, folder)?);
    }
    for (seed, reader) in all.iter_mut().enumerate() {
        reader.say(&format!("read {seed} {}", time.as_millis()))?;
    }
    let mut sum = 0.0;
    for reader in &mut all {
        let rate = reader.line()?;
        sum += rate
            .parse::<f64>()
            .map_err(|_| format!("WRONG: {engine}: {rate}"))?;
    }
    Ok(sum / readers as f64)
}

/// The median time until another process sees a change, in microseconds.
fn visible(
    engine: &mut dyn Engine,
    name: &str,
    folder: &Path,
    count: usize,
) -> Result<f64, String> {
    let first = 1_000_000;
    engine.update(WATCHED, first)?;
    let mut reader = Beside::start(name, folder)?;
    reader.say(&format!("watch {first} {count}"))?;
    reader.line()?;
    let mut committed = Vec::new();
    for n in 1..=count as u64 {
        let pause = Instant::now();
        while pause.elapsed() < Duration::from_micros(300) {
            std::hint::spin_loop();
        }
        engine.update(WATCHED, first + n)?;
        committed.push(now());
    }
    let seen = reader.line()?;
    let seen: Vec<u64> = seen
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    if seen.len() != count {
        return Err(format!(
            "WRONG: {name}: {} changes of {count} were seen",
            seen.len()
        ));
    }
    let mut times: Vec<u64> = (seen.iter().zip(&committed))
        // A change that the reader overtook was not seen.
        .filter(|(seen, _)| **seen > 0)
        .map(|(seen, committed)| seen.saturating_sub(*committed))
        .collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).ok_or("no change was seen")?;
    Ok(*median as f64 / 1e3)
}

/// Nanoseconds of a clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads random keys for this long: millions a second of processor time.
fn read_for(
    reader: &mut dyn Reads,
    keys: &KeyList,
    seed: u64,
    time: Duration,
) -> Result<f64, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let order: Vec<usize> = (0..4096).map(|_| rng.usize(..keys.len())).collect();
    let mut turn: Vec<(&[u8], u64)> = Vec::with_capacity(32);
    let (begin, clock) = (Instant::now(), CpuClock::start());
    let mut count = 0u64;
    let mut wrong = 0;
    while begin.elapsed() < time {
        for places in order.chunks(32) {
            turn.clear();
            turn.extend(places.iter().map(|at| (keys.key(*at), keys.value(*at))));
            wrong += reader.turn(&turn)?;
            count += turn.len() as u64;
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    match wrong {
        0 => Ok(count as f64 / seconds / 1e6),
        _ => Err(format!("{wrong} wrong values")),
    }
}

/// The part of a reader in a process of its own: it does what the lines of its input say.
pub fn read(engine: &str, folder: &Path) -> Result<(), String> {
    let keys = live::read_keys(&folder.join("keys"))?;
    let mut reader = live::reader(engine, folder)?;
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let (Some(a), Some(b)) = (number(1), number(2)) else {
            return Err(format!("not understood: {line}"));
        };
        match words[0] {
            "read" => {
                let rate = read_for(&mut *reader, &keys, a, Duration::from_millis(b));
                println!("{}", rate.map_or_else(|e| e, |rate| rate.to_string()));
            }
            _ => {
                println!("watching");
                let mut seen = vec![0; b as usize];
                let mut last = a;
                while last < a + b {
                    let value = reader.get(WATCHED)?.unwrap_or(a);
                    if value > last {
                        seen[(value - a - 1) as usize] = now();
                        last = value;
                    }
                }
                let seen: Vec<String> = seen.iter().map(u64::to_string).collect();
                println!("{}", seen.join(" "));
            }
        }
    }
    Ok(())
}

/// A reader in another process. The drop ends it.
struct Beside {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Beside {
    fn start(engine: &str, folder: &Path) -> Result<Beside, String> {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let child = Command::new(me)
            .args(["live-reader", engine])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| format!("starting a reader: {e}"))?;
        let to = child.stdin.take().ok_or("no input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut beside = Beside { child, to, from };
        match beside.line()?.as_str() {
            "ready" => Ok(beside),
            other => Err(format!("{engine}: a reader said {other}")),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.to, "{line}").map_err(|e| format!("a reader has ended: {e}"))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.from.read_line(&mut line).map_err(|e| e.to_string())?;
        match read {
            0 => Err("a reader has ended".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Measures updates of a table while a reader checks every answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood::lpm::Fib;
use sapwood_model::oracle::Prefix;

use super::family::Kind;
use super::lookups::Course;
use crate::beside::{Pace, Paces};
use crate::errors::Error;
use crate::figures::{cpu_time, median};

/// How many prefixes are changed again and again.
const CHANGED: usize = 4096;
/// A next hop that no route of the table has.
const DETOUR: u32 = u32::MAX;
/// How many lookups a view serves.
const BURST: usize = 256;

/// The figures of the updates and of the reader.
pub struct Updated {
    /// How many changes were published.
    pub updates: u64,
    /// The median, the 99.9th percentile and the worst of the time of one change, in microseconds.
    pub micros: [f64; 3],
    /// The rate of the reader alone, in millions of lookups a second of its processor time.
    pub alone: f64,
    /// The rate of the reader beside the writer, in the same unit.
    pub beside: f64,
    /// How many lookups were checked.
    pub lookups: u64,
}

/// A prefix to change, an address whose answer depends on no other changed prefix, and all answers
/// that are right at some time.
struct Target<F: Kind> {
    net: F::Net,
    hop: u32,
    address: F::Addr,
    /// The answers with the prefix, without it, and with the detour.
    right: [Option<u32>; 3],
}

/// Chooses prefixes, each with an address whose next shorter prefix is not among them.
fn targets<F: Kind>(course: &Course<F>) -> Vec<Target<F>> {
    let mut targets = Vec::new();
    let mut changed: HashSet<Prefix> = HashSet::new();
    let mut relied: HashSet<Prefix> = HashSet::new();
    for address in &course.inside {
        let mut matches = course.maps.matches(*address);
        let Some((len, hop)) = matches.next() else {
            continue;
        };
        let above = matches.next();
        let prefix = |len| Prefix::truncated(F::left(*address), len);
        let net = prefix(len);
        let parent = above.map(|(len, _)| prefix(len));
        let clash = parent.is_some_and(|parent| changed.contains(&parent));
        if clash || relied.contains(&net) || !changed.insert(net) {
            continue;
        }
        relied.extend(parent);
        targets.push(Target {
            net: F::join(net),
            hop,
            address: *address,
            right: [Some(hop), above.map(|(_, hop)| hop), Some(DETOUR)],
        });
        if targets.len() == CHANGED {
            break;
        }
    }
    targets
}

/// Measures the reader and the writer. The table has the same routes after that.
pub fn run<F: Kind>(
    course: &Course<F>,
    slice: Duration,
    rounds: u64,
    progress: impl FnMut(),
) -> Result<Updated, Error> {
    let fib = &course.fib;
    let targets = targets(course);
    let mut times: Vec<u32> = Vec::new();
    let paces = Paces::measured(
        rounds,
        || read(fib, &targets, slice),
        |round, stop| {
            times.extend(write(fib, &targets, round, stop)?);
            Ok(())
        },
        progress,
    )?;
    while fib.reclaim(usize::MAX) > 0 {}
    fib.verify().map_err(Error::Wrong)?;
    let lookups = paces.lookups + course.compare()?;
    times.sort_unstable();
    let at = |share: f64| {
        let place = (times.len() as f64 * share) as usize;
        times
            .get(place)
            .or(times.last())
            .map_or(0.0, |ns| f64::from(*ns) / 1e3)
    };
    Ok(Updated {
        updates: times.len() as u64,
        micros: [at(0.5), at(0.999), at(1.0)],
        alone: median(paces.alone),
        beside: median(paces.beside),
        lookups,
    })
}

/// Reads for `time`, and checks each answer.
fn read<F: Kind>(fib: &Fib<F, u32>, targets: &[Target<F>], time: Duration) -> Result<Pace, Error> {
    let mut reader = fib
        .reader("reader")
        .map_err(|e| Error::Usage(e.to_string()))?;
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut all = targets.iter().cycle();
    let mut lookups = 0;
    while began.elapsed() < time {
        let view = reader.view();
        for target in all.by_ref().take(BURST) {
            let found = view.lookup_value(target.address).copied();
            if !target.right.contains(&found) {
                return Err(Error::Wrong(format!(
                    "{found:?} for {}, which is neither before nor after a change of {}",
                    target.address, target.net
                )));
            }
            lookups += 1;
        }
        reader.quiescent();
    }
    let cpu = cpu_time() - cpu;
    Ok(Pace { lookups, cpu })
}

/// Removes a route, inserts it with the detour, and inserts it as it was, until the flag stops it.
/// Returns the nanoseconds of each change. It changes at least one route, however late its thread
/// runs.
fn write<F: Kind>(
    fib: &Fib<F, u32>,
    targets: &[Target<F>],
    seed: u64,
    stop: &AtomicBool,
) -> Result<Vec<u32>, Error> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut times = Vec::with_capacity(1 << 20);
    while !targets.is_empty() {
        let target = &targets[rng.usize(..targets.len())];
        let old = [
            change(&mut times, || Ok(fib.remove(target.net)?))?,
            change(&mut times, || Ok(fib.insert(target.net, DETOUR)?))?,
            change(&mut times, || Ok(fib.insert(target.net, target.hop)?))?,
        ];
        if old != [Some(target.hop), None, Some(DETOUR)] {
            let what = format!("{old:?} were the old next hops of {}", target.net);
            return Err(Error::Wrong(what));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(times)
}

fn change<R>(
    times: &mut Vec<u32>,
    work: impl FnOnce() -> Result<R, sapwood::Error>,
) -> Result<R, Error> {
    let began = Instant::now();
    let done = work()?;
    times.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
    Ok(done)
}

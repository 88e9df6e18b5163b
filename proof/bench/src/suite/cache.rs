//! The suite `cache`: caches of routes. A key is a destination and the hash of a flow; a value has
//! 32 bytes.
//!
//! | case | metric | what it is |
//! |---|---|---|
//! | `size-N` | `get_ns` | a lookup of a random one of N entries; of an absent key where N is 0 |
//! | | `insert_ns` | storing a new key beside N others; at 8192 caches are full and evict, and maps grow |
//! | | `refresh_ns` | storing a key that is present |
//! | `churn` | `churn_ns` | a lookup, and an insertion where it missed: 80 % of 4,096 hot keys, 20 % keys that come once; room for 8,192 |
//! | `hostile-first` | `hit_rate` | how many lookups of `churn` hit when 16,384 keys that come once came before |
//!
//! With the suffix `-2t`, two threads do the same at once, and the figure is the mean time of an
//! operation of one thread. `sapwood-apart` has one cache per thread, `sapwood-front` one reader
//! with a front per thread. Lookups and refreshes run with room for 16,384 entries. An entry that a
//! cache has evicted nevertheless is not looked up, and at most one entry in a hundred may be
//! missing in this way.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::Options;
use crate::cache::{
    CacheEngine, Key, Sapwood, SapwoodApart, SapwoodFront, Value, sum_of, value_of,
};
use crate::clock::CpuClock;
use crate::engines::settle;
use crate::report::{Measure, Report, Samples};

const SIZES: [usize; 6] = [0, 2, 8, 64, 512, 8192];
const ROOM: usize = 8192;
const HOT: u64 = 4096;
const HOSTILE: usize = 16_384;

/// The number of new keys that are inserted between two readings of the clock.
const BATCH: usize = 512;

/// The number of distinct lookups, which are repeated: few enough that the list of keys itself
/// stays in the processor's cache.
const LIST: usize = 4096;

/// The number of operations between two ticks of the engines' clock.
const BURST: usize = 64;

/// An engine with its type erased.
struct Lane {
    name: &'static str,
    several: bool,
    size: fn(usize, usize, &Lists) -> Vec<Measure>,
    churn: fn(usize, &Lists) -> Measure,
    hostile: fn(usize, &Lists) -> Measure,
}

fn lane<E: CacheEngine>() -> Lane {
    Lane {
        name: E::NAME,
        several: E::SEVERAL,
        size: size::<E>,
        churn: churn::<E>,
        hostile: hostile::<E>,
    }
}

/// All engines, in the order in which tables list them.
fn lanes() -> Vec<Lane> {
    use crate::peers::{dashmap, evicting, papaya, rwlock};
    vec![
        lane::<Sapwood>(),
        lane::<SapwoodApart>(),
        lane::<SapwoodFront>(),
        lane::<rwlock::BtreeCache>(),
        lane::<rwlock::SipHashCache>(),
        lane::<rwlock::FoldhashCache>(),
        lane::<dashmap::Cache>(),
        lane::<papaya::Cache>(),
        lane::<evicting::Quick>(),
        lane::<evicting::Moka>(),
    ]
}

/// The kind of measurement.
#[derive(Clone, Copy)]
enum Kind {
    Size(usize),
    Churn,
    HostileFirst,
}

struct Case {
    name: String,
    kind: Kind,
    threads: usize,
}

fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    for (threads, suffix) in [(1, ""), (2, "-2t")] {
        let kinds = SIZES
            .into_iter()
            .map(|n| (format!("size-{n}"), Kind::Size(n)));
        let others = [
            ("churn", Kind::Churn),
            ("hostile-first", Kind::HostileFirst),
        ];
        for (name, kind) in kinds.chain(others.map(|(name, kind)| (name.to_owned(), kind))) {
            let name = name + suffix;
            cases.push(Case {
                name,
                kind,
                threads,
            });
        }
    }
    cases.retain(|case| options.wants_case(&case.name));
    cases
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Report, String> {
    let (mut lanes, cases) = (lanes(), cases(options));
    lanes.retain(|lane| options.wants_engine(lane.name));
    if lanes.is_empty() || cases.is_empty() {
        return Err(format!(
            "no such engine or case; cases: size-N with N of {SIZES:?}, churn, hostile-first, each also with -2t"
        ));
    }
    let mut report = Report::new("cache");
    println!("{}", report.machine);
    for (at, case) in cases.iter().enumerate() {
        println!("\n## {}", case.name);
        let mut able: Vec<_> = lanes.iter().collect();
        able.retain(|lane| case.threads > 1 || !lane.several);
        let names: Vec<_> = able.iter().map(|lane| lane.name).collect();
        let mut samples = Samples::new(&case.name, &names);
        for round in options.rounds(&format!("cache: {}", case.name), cases.len() - at) {
            let lists = Lists::new(u64::from(round), options);
            able.rotate_left(usize::from(round > 0));
            for lane in &able {
                settle();
                let measures = match case.kind {
                    Kind::Size(n) => (lane.size)(n, case.threads, &lists),
                    Kind::Churn => vec![(lane.churn)(case.threads, &lists)],
                    Kind::HostileFirst => vec![(lane.hostile)(case.threads, &lists)],
                };
                for measure in measures {
                    samples.add(lane.name, &measure);
                }
            }
        }
        report.end(samples, &["rwlock-foldhash"]);
    }
    Ok(report)
}

/// The keys of one round.
struct Lists {
    /// The keys that caches hold, enough for the largest size.
    keys: Vec<Key>,
    /// Other keys, for each of two threads.
    others: [Vec<Key>; 2],
    /// The lookups of `churn`, for each of two threads.
    churn: [Vec<Key>; 2],
    lookups: usize,
}

impl Lists {
    fn new(round: u64, options: &Options) -> Self {
        let mut rng = fastrand::Rng::with_seed(round);
        let lookups = options.size(400_000, 20_000);
        let mut key = || (rng.u128(..), rng.u32(..));
        let keys: Vec<_> = (0..ROOM).map(|_| key()).collect();
        let others = [(); 2].map(|()| (0..HOSTILE).map(|_| key()).collect());
        let churn = [(); 2].map(|()| {
            let keys = (0..lookups).map(|_| match rng.u8(0..5) {
                0 => (rng.u128(..), rng.u32(..)),
                _ => keys[rng.u64(0..HOT) as usize],
            });
            keys.collect()
        });
        Self {
            keys,
            others,
            churn,
            lookups,
        }
    }
}

/// Runs the same work on several threads at once; returns the mean of their times.
fn together(threads: usize, work: impl Fn(usize) -> Duration + Sync) -> Duration {
    if threads == 1 {
        return work(0);
    }
    let barrier = Barrier::new(threads);
    let one = |thread| {
        barrier.wait();
        work(thread)
    };
    let times: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn({
                    let one = &one;
                    move || one(t)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|h| h.join().expect("no thread panics"))
            .collect()
    });
    times.iter().sum::<Duration>() / threads as u32
}

/// A stop watch. It times one thread by the thread's own processor time, which other programs on
/// the machine disturb less. It times several threads by wall-clock time, so that waiting counts.
enum Watch {
    Alone(CpuClock),
    Together(Instant),
}

impl Watch {
    fn start(threads: usize) -> Self {
        match threads {
            1 => Watch::Alone(CpuClock::start()),
            _ => Watch::Together(Instant::now()),
        }
    }

    fn elapsed(&self) -> Duration {
        match self {
            Watch::Alone(clock) => clock.elapsed(),
            Watch::Together(start) => start.elapsed(),
        }
    }
}

/// The time per operation, as a measure.
fn each(metric: &'static str, time: Duration, count: usize) -> Measure {
    Measure::new(metric, time.as_secs_f64() * 1e9 / count as f64, "ns")
}

/// Runs `act` on each key, and advances the engine's clock.
#[inline]
fn bursts<E: CacheEngine>(thread: usize, keys: &[Key], mut act: impl FnMut(&Key)) {
    for burst in keys.chunks(BURST) {
        if thread == 0 {
            E::tick();
        }
        burst.iter().for_each(&mut act);
    }
}

fn filled<E: CacheEngine>(room: usize, keys: &[Key], threads: usize) -> E {
    let cache = E::new(room, false);
    for key in keys {
        // Where each thread has its own cache, all caches are filled.
        let owners = if E::SEVERAL { threads } else { 1 };
        (0..owners).for_each(|thread| cache.insert(thread, *key, value_of(key)));
    }
    cache.settle();
    cache
}

fn size<E: CacheEngine>(n: usize, threads: usize, lists: &Lists) -> Vec<Measure> {
    let keys = &lists.keys[..n];
    let cache = filled::<E>(2 * ROOM, keys, threads);
    let held: Vec<_> = keys
        .iter()
        .filter(|key| {
            (0..if E::SEVERAL { threads } else { 1 })
                .all(|t| cache.get(t, key) == Some(value_of(key)))
        })
        .copied()
        .collect();
    assert!(
        held.len() * 100 >= n * 99,
        "{}: {} of {n}",
        E::NAME,
        held.len()
    );
    let mut measures = vec![get(&cache, &held, threads, lists)];
    if !held.is_empty() {
        measures.push(refresh(&cache, &held, threads, lists.lookups / 2));
    }
    drop(cache);
    measures.push(insert::<E>(keys, threads, lists));
    measures
}

fn get<E: CacheEngine>(cache: &E, held: &[Key], threads: usize, lists: &Lists) -> Measure {
    let time = together(threads, |thread| {
        let mut rng = fastrand::Rng::with_seed(thread as u64);
        let keys: Vec<_> = (0..LIST)
            .map(|i| match held.len() {
                0 => lists.others[thread][i],
                n => held[rng.usize(0..n)],
            })
            .collect();
        let expected = match held {
            [] => 0,
            _ => keys
                .iter()
                .map(|key| sum_of(&value_of(key)))
                .fold(0, u64::wrapping_add),
        };
        let mut get = cache.reader(thread);
        // One pass without a clock, to warm up.
        let mut pass = || {
            let mut sum = 0u64;
            bursts::<E>(thread, &keys, |key| {
                if let Some(value) = get(key) {
                    sum = sum.wrapping_add(sum_of(&value));
                }
            });
            assert_eq!(sum, expected, "{}", E::NAME);
        };
        pass();
        let start = Watch::start(threads);
        (0..lists.lookups / LIST).for_each(|_| pass());
        start.elapsed()
    });
    each("get_ns", time, lists.lookups / LIST * LIST)
}

fn refresh<E: CacheEngine>(cache: &E, held: &[Key], threads: usize, count: usize) -> Measure {
    let time = together(threads, |thread| {
        let mut rng = fastrand::Rng::with_seed(thread as u64);
        let keys: Vec<_> = (0..LIST).map(|_| held[rng.usize(0..held.len())]).collect();
        let start = Watch::start(threads);
        for _ in 0..count / LIST {
            bursts::<E>(thread, &keys, |key| {
                cache.refresh(thread, *key, value_of(key))
            });
        }
        start.elapsed()
    });
    cache.settle();
    for key in held {
        assert_eq!(cache.get(0, key), Some(value_of(key)), "{}", E::NAME);
    }
    each("refresh_ns", time, count / LIST * LIST)
}

/// Inserts new keys in batches. Removes each batch again, unless the engine evicts entries by
/// itself.
fn insert<E: CacheEngine>(keys: &[Key], threads: usize, lists: &Lists) -> Measure {
    let full = keys.len() == ROOM;
    let cache = filled::<E>(ROOM, keys, threads);
    let time = together(threads, |thread| {
        let mut time = Duration::ZERO;
        for batch in lists.others[thread].chunks(BATCH) {
            let start = Watch::start(threads);
            bursts::<E>(thread, batch, |key| {
                cache.insert(thread, *key, value_of(key))
            });
            time += start.elapsed();
            let there = batch.iter().filter(|key| match cache.get(thread, key) {
                Some(value) => value == value_of(key),
                None => false,
            });
            let there = there.count();
            // A full cache may refuse a new key.
            assert!(
                there == batch.len() || full || there * 10 >= 9 * batch.len(),
                "{}: {there}",
                E::NAME
            );
            // Without removals, maps would grow without bound.
            batch.iter().for_each(|key| cache.remove(thread, key));
            if threads == 1 {
                cache.settle();
            }
            if full {
                // Removes some entries, so that the insertions reuse their room.
                let gone = keys.iter().skip(thread).step_by(7).take(2 * BATCH);
                gone.for_each(|key| cache.insert(thread, *key, value_of(key)));
            }
        }
        time
    });
    each("insert_ns", time, HOSTILE)
}

/// Runs one operation of `churn`; returns whether it hit.
#[inline]
fn ask<E: CacheEngine>(
    cache: &E,
    thread: usize,
    mut get: impl FnMut(&Key) -> Option<Value>,
    key: &Key,
) -> bool {
    match get(key) {
        Some(value) => {
            assert!(value == value_of(key), "{}", E::NAME);
            true
        }
        None => {
            cache.insert(thread, *key, value_of(key));
            false
        }
    }
}

fn churn<E: CacheEngine>(threads: usize, lists: &Lists) -> Measure {
    let cache = E::new(ROOM, true);
    let time = together(threads, |thread| {
        let (first, then) = lists.churn[thread].split_at(lists.lookups / 4);
        let mut get = cache.reader(thread);
        first.iter().for_each(|key| {
            ask(&cache, thread, &mut get, key);
        });
        let start = Watch::start(threads);
        bursts::<E>(thread, then, |key| {
            ask(&cache, thread, &mut get, key);
        });
        start.elapsed()
    });
    each("churn_ns", time, lists.lookups - lists.lookups / 4)
}

fn hostile<E: CacheEngine>(threads: usize, lists: &Lists) -> Measure {
    let cache = E::new(ROOM, true);
    let hits = std::sync::atomic::AtomicUsize::new(0);
    together(threads, |thread| {
        let mut get = cache.reader(thread);
        for key in &lists.others[thread] {
            assert!(!ask(&cache, thread, &mut get, key), "{}", E::NAME);
        }
        let keys = &lists.churn[thread];
        let hit = keys
            .iter()
            .filter(|key| ask(&cache, thread, &mut get, key))
            .count();
        hits.fetch_add(hit, std::sync::atomic::Ordering::Relaxed);
        Duration::ZERO
    });
    let rate = hits.into_inner() as f64 / (threads * lists.lookups) as f64;
    Measure::new("hit_rate", 100.0 * rate, "%")
}

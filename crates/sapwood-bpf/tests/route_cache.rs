//! The route cache that programs fill: BPF, C in user space and a naive model do the same and say the same; all processors at once with
//! sweeps and invalidations beside; memory that is damaged; processes that are killed. `SAPWOOD_SOAK` sets the seconds of the
//! threads' test.
#![cfg(feature = "kernel")]

mod route_model;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use route_model::{Model, Ticket};
use sapwood::route::{CacheStats, Lookup};
use sapwood_bpf::layout::route as at;
use sapwood_bpf::{BpfArena, KernelRouteCache, Loader, NextHop, Programs, RouteKey, RouteValue};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const SELFTEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/route.bpf.o"));
const MS: u64 = 1_000_000;
const FRESH: u64 = 100 * MS;
const KEEP: u64 = 1000 * MS;

/// `struct ask` of bpf/selftests/route_ask.h.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Ask {
    what: u32,
    window: u32,
    now: u64,
    flags: u32,
    budget: u32,
    result: i64,
    key: RouteKey,
    value: RouteValue,
    ticket: [u64; 4],
}

const GET: u32 = 0;
const PUT: u32 = 1;
const SWEEP: u32 = 2;
const INVALIDATE: u32 = 3;
const INVALIDATE_ALL: u32 = 4;
const NEGATIVE: u32 = 1;

/// `struct storm` of bpf/selftests/route.bpf.c.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Storm {
    window: u32,
    keys: u32,
    random: u64,
    rounds: u64,
    least: u64,
    hits: u64,
    misses: u64,
    failures: u64,
    stored: u64,
    overtaken: u64,
    refused: u64,
    wrong: u64,
    old: u64,
    longest: u64,
}

fn can() -> bool {
    match sapwood_bpf::check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

fn run<T: IntoBytes + FromBytes + Immutable + Copy>(programs: &Programs, name: &str, ask: T) -> T {
    let mut answer = ask;
    let input = ProgramInput {
        data_in: Some(ask.as_bytes()),
        data_out: Some(answer.as_mut_bytes()),
        ..ProgramInput::default()
    };
    let done = programs.program(name).unwrap().test_run(input).unwrap();
    assert_eq!(done.return_value, 2, "{name} is XDP_PASS");
    answer
}

fn key(n: u64) -> RouteKey {
    let mut key = RouteKey::default();
    key.address[..8].copy_from_slice(&n.to_le_bytes());
    key.flow = (n * 7) as u32;
    key
}

fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// What lies in the arena, byte by byte: where this process has it mapped.
struct Bytes {
    file: File,
    base: u64,
}

impl Bytes {
    fn of(programs: &Programs) -> Bytes {
        let map = programs.map("sw_arena").unwrap();
        let base = map.info().unwrap().info.map_extra;
        let file = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")
            .unwrap();
        Bytes { file, base }
    }

    fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(&mut bytes, self.base + at as u64)
            .unwrap();
        bytes
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.file
            .write_all_at(bytes, self.base + at as u64)
            .unwrap();
    }
}

fn agrees(stats: &CacheStats, model: &Model) {
    let counts = [
        ("hit", stats.hit),
        ("miss", stats.miss),
        ("refresh", stats.refresh),
        ("insert", stats.insert),
        ("evict", stats.evict),
        ("full", stats.full),
        ("stale", stats.stale),
        ("negative", stats.negative),
        ("error", stats.error),
        ("swept", stats.swept),
        ("invalidated", stats.invalidated),
        ("overtaken", stats.overtaken),
        ("busy", stats.busy),
        ("clock_back", stats.clock_back),
    ];
    for (name, count) in counts {
        assert_eq!(count, model.counted(name), "{name}");
    }
    assert_eq!(stats.occupancy, model.occupancy());
    assert_eq!(
        stats.insert,
        stats.evict + stats.swept + stats.invalidated + stats.occupancy as u64
    );
}

/// Random operations by a program, each answered as the model answers; returns questions and answers.
fn operate(
    cache: &KernelRouteCache,
    programs: &Programs,
    rng: &mut fastrand::Rng,
    steps: u64,
    keys: u64,
) -> Vec<(Ask, Ask)> {
    let negative = cache.negative_ttl().map(|time| time.as_nanos() as u64);
    let mut model = Model::new(cache.capacity(), FRESH, KEEP, negative);
    let (mut now, mut lookups, mut answers) = (5000 * MS, 0, 0);
    let mut tickets: Vec<(RouteKey, Ticket)> = Vec::new();
    let mut tape = Vec::new();
    for step in 0..steps {
        now += match rng.u8(0..20) {
            0 => rng.u64(0..3 * FRESH),
            1 if rng.bool() => rng.u64(0..2 * KEEP),
            _ => rng.u64(0..FRESH / 50),
        };
        if rng.u16(0..700) == 0 {
            now -= rng.u64(1..2 * KEEP).min(now);
        }
        let key = key(rng.u64(0..keys));
        let hash = cache.hash(&key);
        let mut ask = Ask {
            window: cache.window().number,
            now,
            key,
            ..Ask::default()
        };
        let mut asked = |ask: Ask| {
            let answer = run(programs, "sw_ask", ask);
            tape.push((ask, answer));
            answer
        };
        match rng.u16(0..500) {
            0 => {
                ask.what = INVALIDATE_ALL;
                model.generation += 1;
                assert_eq!(asked(ask).result, 0);
            }
            1..=10 => {
                ask.what = INVALIDATE;
                assert_eq!(asked(ask).result, model.invalidate(&key, hash));
            }
            11..=40 => {
                (ask.what, ask.budget) = (SWEEP, rng.u32(0..100));
                assert_eq!(asked(ask).result, model.sweep(now, ask.budget));
            }
            // An answer of before, that comes late.
            41..=55 if !tickets.is_empty() => {
                let (key, ticket) = tickets[rng.usize(0..tickets.len())];
                let value = RouteValue { words: [step; 4] };
                let Ticket {
                    generation,
                    disturbances,
                    hash,
                    ..
                } = ticket;
                ask = Ask {
                    what: PUT,
                    key,
                    value,
                    ticket: [ticket.now, generation, disturbances, hash],
                    ..ask
                };
                answers += 1;
                assert_eq!(asked(ask).result, model.put(&key, ticket, Some(value)));
            }
            _ => {
                lookups += 1;
                ask.what = GET;
                let wanted = if step % 5 == 0 {
                    // What this process sees is the same, and changes nothing.
                    Some(cache.lookup(&key, now))
                } else {
                    None
                };
                let answer = asked(ask);
                let (told, ticket) = model.get(&key, hash, now);
                let [at, generation, disturbances, hashed] = answer.ticket;
                let known = Ticket {
                    now: at,
                    generation,
                    disturbances,
                    hash: hashed,
                };
                assert_eq!(known, ticket, "step {step}");
                match told {
                    Ok(value) => assert_eq!((answer.result, answer.value), (0, value)),
                    Err(error) => assert_eq!(
                        (answer.result, answer.value),
                        (error, RouteValue::default()),
                        "step {step}"
                    ),
                }
                // A clock that stepped back is not known to who only looks.
                if let Some(wanted) = wanted.filter(|_| generation == 0 || step % 2 == 0) {
                    let seen = match told {
                        Ok(value) => Lookup::Value(value),
                        Err(route_model::EHOSTUNREACH) => Lookup::Negative,
                        Err(_) => Lookup::Absent,
                    };
                    let stepped = model.counted("clock_back") > 0;
                    assert!(wanted == seen || stepped, "{wanted:?} {seen:?}");
                }
                if told.is_ok() || told == Err(route_model::EHOSTUNREACH) {
                    continue;
                }
                if rng.u8(0..8) == 0 {
                    tickets.push((key, ticket));
                    tickets.truncate(50);
                    continue;
                }
                let fails = rng.u8(0..6) == 0;
                let value = RouteValue {
                    words: [step, now, hash, 3],
                };
                ask = Ask {
                    what: PUT,
                    flags: if fails { NEGATIVE } else { 0 },
                    value,
                    ticket: answer.ticket,
                    ..ask
                };
                answers += u64::from(!fails || negative.is_some());
                let stored = (!fails).then_some(value);
                assert_eq!(asked(ask).result, model.put(&key, ticket, stored));
            }
        }
        if tickets.len() == 50 {
            tickets.clear();
        }
        if step % 500 == 499 || step + 1 == steps {
            cache.verify().unwrap();
            let stats = cache.stats();
            agrees(&stats, &model);
            assert_eq!(stats.hit + stats.miss, lookups);
            if cache.capacity() > 0 {
                let stored = stats.refresh + stats.insert + stats.overtaken + stats.busy;
                assert_eq!(stored, answers);
            }
            let mut there: Vec<_> = cache
                .iter()
                .map(|entry| (entry.key.address, entry.time, entry.value.map(|v| v.words)))
                .collect();
            there.sort_unstable();
            assert_eq!(there, model.entries());
        }
    }
    let stats = cache.stats();
    if steps >= 4000 && cache.capacity() > 1 {
        assert!(stats.clock_back > 0 && stats.overtaken > 0 && stats.swept > 0);
        assert!(stats.hit > 0 && stats.stale > 0 && stats.invalidated > 0);
        assert_eq!(stats.negative > 0, negative.is_some());
        assert!(stats.evict > 0 || keys <= stats.capacity as u64);
    }
    tape
}

/// The driver in user space, by this compiler; `None` when there is no such compiler.
fn driver(compiler: &str, folder: &Path) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let program = folder.join(compiler);
    let done = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-I"])
        .arg(root.join("include"))
        .arg(root.join("selftests/user/route.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{compiler}: {said}");
    Some(program)
}

#[test]
fn three_ways_agree() {
    if !can() {
        return;
    }
    pin_to(0);
    let folder = tempfile::tempdir().unwrap();
    let drivers: Vec<PathBuf> = ["gcc", "clang-19", "clang", "cc"]
        .into_iter()
        .filter_map(|compiler| driver(compiler, folder.path()))
        .take(2)
        .collect();
    assert!(!drivers.is_empty(), "no compiler for C");
    let negative = Duration::from_nanos(7 * MS);
    let cases = [
        (8, 8, None, 4000),
        (16, 40, Some(negative), 4000),
        (13, 60, Some(negative), 4000),
        (100, 90, Some(negative), 4000),
        (200, 3000, None, 4000),
        (1, 3, Some(negative), 500),
        (0, 3, None, 100),
    ];
    for (seed, (capacity, keys, negative, steps)) in cases.into_iter().enumerate() {
        let arena = BpfArena::create(4 << 20).unwrap();
        let mut builder = KernelRouteCache::builder(&arena, "flows")
            .capacity(capacity)
            .seed(seed as u64);
        if let Some(time) = negative {
            builder = builder.negative_ttl(time);
        }
        let cache = builder.build().unwrap();
        assert_eq!(cache.capacity(), capacity);
        let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
        let bytes = Bytes::of(&programs);
        let len = cache.window().at + cache.window().len;
        let before = bytes.read(0, len);
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let tape = operate(&cache, &programs, &mut rng, steps, keys);
        let after = bytes.read(0, len);
        assert!(before != after);
        for driver in &drivers {
            let image = folder.path().join("image");
            let questions = folder.path().join("questions");
            let asked: Vec<u8> = tape
                .iter()
                .flat_map(|(ask, _)| ask.as_bytes())
                .copied()
                .collect();
            std::fs::write(&questions, asked).unwrap();
            let replay = |memory: &[u8]| {
                std::fs::write(&image, memory).unwrap();
                let done = Command::new(driver)
                    .arg(&image)
                    .arg(len.to_string())
                    .arg("0")
                    .stdin(File::open(&questions).unwrap())
                    .output()
                    .unwrap();
                assert!(done.status.success(), "{driver:?}: {:?}", done.status);
                assert_eq!(done.stdout.len(), tape.len() * size_of::<Ask>());
                done.stdout
            };
            let answers = replay(&before);
            let answers = answers.chunks_exact(size_of::<Ask>());
            for (step, (answer, (_, wanted))) in answers.zip(&tape).enumerate() {
                assert!(answer == wanted.as_bytes(), "{driver:?}, step {step}");
            }
            // Every byte that they left is the same.
            assert!(std::fs::read(&image).unwrap() == after, "{driver:?}");
            // With noise in the window, there are answers of some kind.
            let mut noise = before.clone();
            noise[cache.window().at + at::SETS..].fill_with(|| rng.u8(..));
            replay(&noise);
        }
    }
}

#[test]
fn what_people_do() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = KernelRouteCache::builder(&arena, "flows").build().unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let hop = NextHop {
        ifindex: 3,
        mtu: 1500,
        dmac: [2, 0, 0, 0, 0, 1],
        ..NextHop::default()
    };
    let key = RouteKey::new("2001:db8::1".parse().unwrap(), 9, 0);
    let now = KernelRouteCache::now();
    let ask = Ask {
        window: cache.window().number,
        now,
        key,
        ..Ask::default()
    };
    let nothing = run(&programs, "sw_ask", ask);
    assert_eq!(nothing.result, route_model::ENOENT);
    let ask = Ask {
        what: PUT,
        value: hop.into(),
        ticket: nothing.ticket,
        ..ask
    };
    assert_eq!(run(&programs, "sw_ask", ask).result, 0);
    let seen = cache.get(&key, now + FRESH - 1).unwrap();
    assert_eq!(NextHop::from(seen), hop);
    assert_eq!(hop.to_string(), "dev 3 lladdr 02:00:00:00:00:01 mtu 1500");
    assert_eq!(cache.get(&key, now + FRESH), None);
    // Another handle sees and does the same.
    let other = KernelRouteCache::open(&arena, "flows").unwrap();
    let entry = other.iter().next().unwrap();
    assert_eq!((entry.key, entry.value), (key, Some(hop.into())));
    assert_eq!(entry.age(now + 5), 5);
    assert_eq!(entry.key.destination(false).to_string(), "2001:db8::1");
    assert_eq!(other.sweep(now + KEEP - 1, usize::MAX).unwrap(), 0);
    assert!(other.invalidate(&key).unwrap());
    assert!(!other.invalidate(&key).unwrap());
    assert_eq!(cache.stats().invalidated, 1);
    // The answer that was under way when its key was invalidated.
    assert_eq!(run(&programs, "sw_ask", ask).result, route_model::ECANCELED);
    let again = run(&programs, "sw_ask", Ask { what: GET, ..ask });
    let ask = Ask {
        ticket: again.ticket,
        ..ask
    };
    assert_eq!(run(&programs, "sw_ask", ask).result, 0);
    cache.invalidate_all();
    assert_eq!((other.get(&key, now), other.iter().count()), (None, 0));
    assert_eq!(run(&programs, "sw_ask", ask).result, route_model::ECANCELED);
    assert_eq!(other.sweep(now, usize::MAX).unwrap(), 1);
    cache.verify().unwrap();
    assert_eq!(cache.occupancy(), 0);
    // Times of the kernel's clock, as programs read them.
    assert!(KernelRouteCache::now() - now < 60_000 * MS);
    drop(other);
    drop(cache.leave());
    let cache = KernelRouteCache::open(&arena, "flows").unwrap();
    assert_eq!(
        (cache.fresh().as_millis(), cache.keep().as_secs()),
        (100, 1)
    );
    let error = KernelRouteCache::builder(&arena, "flows")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("there is one of this name"));
    let error = KernelRouteCache::open(&arena, "other").unwrap_err();
    assert!(error.to_string().contains("\"flows\" (route)"), "{error}");
    let error = KernelRouteCache::builder(&arena, "huge")
        .capacity(usize::MAX)
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    // No such window, and a window that is gone.
    let ask = Ask { window: 9, ..ask };
    for what in [GET, PUT, SWEEP, INVALIDATE, INVALIDATE_ALL, 99] {
        assert_eq!(run(&programs, "sw_ask", Ask { what, ..ask }).result, -22);
    }
}

fn soak() -> Duration {
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(2.0, |s| s.parse().expect("seconds"));
    Duration::from_secs_f64(seconds)
}

/// Programs on all processors; beside them, sweeps, invalidations and readers in this process.
#[test]
fn all_processors_at_once() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = KernelRouteCache::builder(&arena, "flows")
        .capacity(150)
        .fresh(Duration::from_micros(300))
        .keep(Duration::from_millis(1))
        .negative_ttl(Duration::from_micros(50))
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let tell = |truth: u64| {
        let map = programs.map("truth").unwrap();
        map.update(&0u32.to_ne_bytes(), &truth.to_ne_bytes(), MapFlags::ANY)
            .unwrap();
    };
    tell(1);
    let (least, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let processors = std::thread::available_parallelism().unwrap().get();
    let storm = |processor: usize| {
        pin_to(processor);
        let mut sums = Storm {
            window: cache.window().number,
            keys: 200,
            random: processor as u64,
            ..Storm::default()
        };
        let mut rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            sums.rounds = 2000;
            sums.least = least.load(Ordering::SeqCst);
            sums = run(&programs, "sw_storm", sums);
            assert_eq!(sums.rounds, 2000);
            rounds += sums.rounds;
        }
        Storm { rounds, ..sums }
    };
    let storms: Vec<Storm> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors.max(2))
            .map(|n| scope.spawn(move || storm(n % processors)))
            .collect();
        let reader = scope.spawn(|| {
            let mut seen = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let now = KernelRouteCache::now();
                for entry in cache.iter() {
                    let Some(RouteValue {
                        words: [_, mixed, not, time],
                    }) = entry.value
                    else {
                        continue;
                    };
                    assert_eq!((mixed, entry.time), (!not, time));
                    seen += u64::from(cache.get(&entry.key, now).is_some());
                }
            }
            seen
        });
        let (end, mut truth) = (Instant::now() + soak(), 1);
        let mut rng = fastrand::Rng::with_seed(3);
        while Instant::now() < end {
            cache
                .sweep(KernelRouteCache::now(), rng.usize(1..200))
                .unwrap();
            if rng.u8(0..4) == 0 {
                truth += 1;
                tell(truth);
                cache.invalidate_all();
                // From here on, nobody who begins gets an older answer.
                least.store(truth, Ordering::SeqCst);
            }
            cache.invalidate(&key(rng.u64(0..200))).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    cache.verify().unwrap();
    let stats = cache.stats();
    println!("{storms:#?}\n{stats:#?}");
    let sum = |of: fn(&Storm) -> u64| storms.iter().map(of).sum::<u64>();
    assert_eq!((sum(|s| s.wrong), sum(|s| s.old)), (0, 0));
    assert_eq!(stats.hit, sum(|s| s.hits) + sum(|s| s.failures));
    assert_eq!(
        (stats.miss, stats.negative),
        (sum(|s| s.misses), sum(|s| s.failures))
    );
    assert_eq!(stats.hit + stats.miss, sum(|s| s.rounds));
    assert_eq!(stats.refresh + stats.insert, sum(|s| s.stored));
    assert_eq!(
        (stats.overtaken, stats.busy),
        (sum(|s| s.overtaken), sum(|s| s.refused))
    );
    assert!(stats.swept > 0 && stats.invalidated > 0 && stats.evict > 0 && stats.hit > 0);
    assert_eq!(stats.clock_back, 0);
    assert!(
        storms.iter().all(|s| s.longest < 300_000),
        "an answer was too old"
    );
}

/// Whatever lies in the window, nobody crashes, hangs, or reads outside.
#[test]
fn damaged_memory() {
    if !can() {
        return;
    }
    let began = Instant::now();
    for seed in 0..30u64 {
        let arena = BpfArena::create(2 << 20).unwrap();
        let cache = KernelRouteCache::builder(&arena, "flows")
            .capacity(300)
            .build()
            .unwrap();
        let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
        let bytes = Bytes::of(&programs);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (from, len) = (cache.window().at, cache.memory());
        let mut noise: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        match seed % 3 {
            // All of it, what the cache says about itself included.
            0 => bytes.write(from + at::SETS, &noise[at::SETS..]),
            // The sets alone.
            1 => bytes.write(from + 8192, &noise[8192..]),
            // One word of what the cache says about itself, which may be small or large.
            _ => {
                let word = at::SETS + 8 * rng.usize(0..15);
                noise[..8].copy_from_slice(&(rng.u64(..) >> rng.u32(0..64)).to_le_bytes());
                bytes.write(from + word, &noise[..8]);
            }
        }
        for step in 0..300 {
            let ask = Ask {
                what: rng.u32(0..5),
                window: cache.window().number,
                now: rng.u64(..),
                flags: rng.u32(0..2),
                budget: rng.u32(0..5000),
                key: key(rng.u64(0..50)),
                ticket: [rng.u64(..), rng.u64(0..3), rng.u64(0..3), rng.u64(..)],
                ..Ask::default()
            };
            let result = run(&programs, "sw_ask", ask).result;
            assert!((-133..=80_000).contains(&result), "{step}: {result}");
            let key = key(rng.u64(0..50));
            // Any answer will do.
            let _ = cache.lookup(&key, rng.u64(..));
        }
        let _ = (cache.iter().count(), cache.stats(), cache.occupancy());
        let _ = (cache.sweep(1, 1000), cache.invalidate(&key(1)));
        cache.invalidate_all();
        assert!(cache.verify().is_err() || seed % 3 == 2);
        let opened = KernelRouteCache::open(&arena, "flows");
        assert!(seed % 3 != 0 || opened.is_err(), "{opened:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(120));
}

const PATH: &str = "SAPWOOD_TEST_ROUTE_CACHE";

/// What the process does that is killed: nothing in an ordinary run of the tests.
#[test]
fn a_process_that_sweeps() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let arena = BpfArena::open(&path).unwrap();
    let cache = KernelRouteCache::open(&arena, "flows").unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let mut storm = Storm {
        window: cache.window().number,
        keys: 3000,
        ..Storm::default()
    };
    // Until it is killed, or a while when its parent has died.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        cache.sweep(KernelRouteCache::now(), usize::MAX).unwrap();
        storm = run(
            &programs,
            "sw_storm",
            Storm {
                rounds: 300,
                ..storm
            },
        );
        cache.invalidate(&key(1)).unwrap();
        if storm.random % 3 == 0 {
            cache.invalidate_all();
        }
        if storm.keys == 3000 {
            storm.keys = 3001;
            // On a line of its own.
            println!("\nat work");
            std::io::stdout().flush().unwrap();
        }
        assert_eq!(storm.wrong, 0);
    }
}

/// A pinned path and a child, both gone whatever happens.
struct Pinned(PathBuf);

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_in_a_sweep() {
    if !can() {
        return;
    }
    let pinned = Pinned(PathBuf::from(format!(
        "/sys/fs/bpf/sapwood-route-{}",
        std::process::id()
    )));
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = KernelRouteCache::builder(&arena, "flows")
        .capacity(2000)
        .fresh(Duration::from_micros(200))
        .keep(Duration::from_micros(400))
        .negative_ttl(Duration::from_micros(100))
        .build()
        .unwrap();
    arena.pin(&pinned.0).unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let mut rng = fastrand::Rng::new();
    for round in 0..8 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_sweeps", "--nocapture"])
            .env(PATH, &pinned.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == "at work");
        assert!(ready, "the child ended");
        std::thread::sleep(Duration::from_micros(rng.u64(0..20_000)));
        // SIGKILL.
        child.0.kill().unwrap();
        let status = child.0.wait().unwrap();
        assert!(!status.success());
        // Nothing is locked, nothing is lost, and all goes on.
        cache.verify().unwrap();
        let storm = run(
            &programs,
            "sw_storm",
            Storm {
                window: cache.window().number,
                keys: 2000,
                rounds: 5000,
                random: round,
                ..Storm::default()
            },
        );
        assert_eq!((storm.wrong, storm.refused), (0, 0));
        assert!(storm.stored > 0);
        cache.verify().unwrap();
    }
    assert!(cache.stats().swept > 0);
}

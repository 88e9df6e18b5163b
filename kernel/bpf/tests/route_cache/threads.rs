//! All processors at once, and damaged memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use sapwood_bpf::layout::route as at;
use sapwood_bpf::{BpfArena, Loader, ProgramRouteCache, RouteValue};

use crate::ask::*;

fn soak() -> Duration {
    let seconds = std::env::var("SAPWOOD_SOAK").map_or(2.0, |s| s.parse().expect("seconds"));
    Duration::from_secs_f64(seconds)
}

/// Programs on all processors, beside sweeps, invalidations and readers in this process.
#[test]
fn all_processors_at_once() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = ProgramRouteCache::builder(&arena, "flows")
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
                let now = ProgramRouteCache::now();
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
                .sweep(ProgramRouteCache::now(), rng.usize(1..200))
                .unwrap();
            if rng.u8(0..4) == 0 {
                truth += 1;
                tell(truth);
                cache.invalidate_all();
                // From here on, no new lookup returns an older answer.
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

/// Answers that are being resolved while all entries are invalidated again and again. Answers stay
/// fresh for long, so that a wrong one would be found.
#[test]
fn nothing_older_than_an_invalidation() {
    if !can() {
        return;
    }
    let arena = BpfArena::create(4 << 20).unwrap();
    let cache = ProgramRouteCache::builder(&arena, "flows")
        .capacity(64)
        .fresh(Duration::from_secs(3))
        .build()
        .unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let (least, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let processors = std::thread::available_parallelism().unwrap().get();
    let storm = |processor: usize| {
        pin_to(processor);
        let mut sums = Storm {
            window: cache.window().number,
            // There are more keys than slots, so that answers are stored all the time.
            keys: 100,
            random: processor as u64,
            ..Storm::default()
        };
        while !stop.load(Ordering::Relaxed) {
            sums.rounds = 100;
            sums.least = least.load(Ordering::SeqCst);
            sums = run(&programs, "sw_storm", sums);
        }
        sums
    };
    let (storms, truth) = std::thread::scope(|scope| {
        let (storm, programs) = (&storm, &programs);
        let threads: Vec<_> = (0..processors.max(2))
            .map(|n| scope.spawn(move || storm(n % processors)))
            .collect();
        let (end, mut truth) = (Instant::now() + soak() / 2, 0u64);
        let mut rng = fastrand::Rng::with_seed(4);
        while Instant::now() < end {
            truth += 1;
            let map = programs.map("truth").unwrap();
            map.update(&0u32.to_ne_bytes(), &truth.to_ne_bytes(), MapFlags::ANY)
                .unwrap();
            cache.invalidate_all();
            least.store(truth, Ordering::SeqCst);
            (0..rng.u32(0..3000)).for_each(|_| std::hint::spin_loop());
        }
        stop.store(true, Ordering::Relaxed);
        let storms = threads.into_iter().map(|t| t.join().unwrap());
        (storms.collect::<Vec<Storm>>(), truth)
    });
    cache.verify().unwrap();
    println!("{truth} invalidations: {storms:?}");
    assert!(truth > 10 && storms.iter().all(|s| s.hits > 0 && s.stored > 0));
    assert!(storms.iter().all(|s| (s.wrong, s.old) == (0, 0)));
}

/// Whatever bytes the window has, no operation crashes, hangs, or reads outside.
#[test]
fn damaged_memory() {
    if !can() {
        return;
    }
    for seed in 0..30u64 {
        let arena = BpfArena::create(2 << 20).unwrap();
        let cache = ProgramRouteCache::builder(&arena, "flows")
            .capacity(300)
            .build()
            .unwrap();
        let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
        let bytes = Bytes::of(&programs);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (from, len) = (cache.window().at, cache.memory());
        let mut noise: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        match seed % 3 {
            // The whole window, with the cache's header.
            0 => bytes.write(from + at::SETS, &noise[at::SETS..]),
            // The sets alone.
            1 => bytes.write(from + 8192, &noise[8192..]),
            // One word of the cache's header, which may be small or large.
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
            let began = Instant::now();
            let result = run(&programs, "sw_ask", ask).result;
            assert!(began.elapsed() < Duration::from_secs(20));
            assert!((-133..=80_000).contains(&result), "{step}: {result}");
            let key = key(rng.u64(0..50));
            // Any answer is right.
            let _ = cache.lookup(&key, rng.u64(..));
        }
        let _ = (cache.iter().count(), cache.stats(), cache.occupancy());
        let _ = (cache.sweep(1, 1000), cache.invalidate(&key(1)));
        cache.invalidate_all();
        assert!(cache.verify().is_err() || seed % 3 == 2);
        let opened = ProgramRouteCache::open(&arena, "flows");
        assert!(seed % 3 != 0 || opened.is_err(), "{opened:?}");
    }
}

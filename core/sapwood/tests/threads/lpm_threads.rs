//! Readers of a table beside its writer: each answer is that of the old table or of the new one.
//! `SAPWOOD_SOAK` sets the seconds that each test runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood::lpm::{Fib, Ipv4Fib, V4, V6};
use sapwood_model::oracle::Prefix;

use crate::support::lpm::{self as table, Kind, builder, steps};
use crate::support::progress::Progress;
use crate::support::script::{Script, ask_beside};

fn beside<F: Kind>(bits: u8, seed: u64, addresses: &[u128], lens: &[u8]) {
    let soak = std::env::var("SAPWOOD_SOAK")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = soak.map(|seconds: u64| Instant::now() + Duration::from_secs(seconds));
    for round in 0.. {
        let seed = seed + 1000 * round;
        let script = Script::new::<F>(seed, addresses, lens, steps(8_000));
        let fib: Fib<F, u32> = builder(bits).build().unwrap();
        let progress = Progress::default();
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (fib, script, progress) = (&fib, &script, &progress);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed + reader);
                    let mut handle = fib.reader("test").unwrap();
                    let mut asked = 0;
                    while progress.done() < script.steps.len() || asked < 10 {
                        let view = handle.view();
                        for _ in 0..8 {
                            ask_beside(fib, view, script, progress, &mut rng);
                            asked += 1;
                        }
                        handle.quiescent();
                    }
                });
            }
            for (i, step) in script.steps.iter().enumerate() {
                progress.step(i, || step.on_fib(&fib));
            }
        });
        fib.verify().unwrap();
        fib.reclaim(usize::MAX);
        assert_eq!(fib.memory().waiting.0, 0);
        if end.is_none_or(|end| Instant::now() > end) {
            break;
        }
    }
}

/// Addresses that differ in the root, in the first node, and in later nodes.
fn addresses(bits: u8) -> Vec<u128> {
    let b = u32::from(bits);
    let place = |at: u32| 1_u128 << (127 - at);
    let of = |at: &[u32]| at.iter().fold(0, |all, at| all | place(*at));
    vec![
        of(&[]),
        of(&[b - 1]),
        of(&[b + 1]),
        of(&[b + 5]),
        of(&[b + 6]),
        of(&[b + 5, b + 12]),
        of(&[0]),
    ]
}

#[test]
fn v4_beside_a_writer() {
    beside::<V4>(6, 1, &addresses(6), &[0, 3, 5, 6, 7, 9, 12, 13, 18, 32]);
}

#[test]
fn v4_with_kept_blocks_beside_a_writer() {
    beside::<V4>(
        12,
        2,
        &addresses(12),
        &[0, 11, 12, 13, 16, 18, 19, 24, 31, 32],
    );
}

#[test]
fn v6_beside_a_writer() {
    beside::<V6>(6, 3, &addresses(6), &[0, 5, 6, 8, 12, 20, 64, 65, 127, 128]);
}

/// A long prefix is inserted and a short one removed during one lookup. With nodes that change in
/// place, a lookup that carries its best match would then answer wrong.
#[test]
fn a_long_prefix_comes_and_a_short_one_goes() {
    let fib: Ipv4Fib<u32> = builder(6).build().unwrap();
    let (short, long) = (
        "10.0.0.0/8".parse().unwrap(),
        "10.1.2.0/24".parse().unwrap(),
    );
    fib.insert(short, 1).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut handle = fib.reader("test").unwrap();
            let mut seen = [0_u64; 3];
            while !over.load(Ordering::Relaxed) || seen[0] == 0 {
                let view = handle.view();
                for _ in 0..64 {
                    let value = view.lookup_value([10, 1, 2, 3].into());
                    // One of the two prefixes is present at all times.
                    seen[*value.expect("the old or the new table's") as usize] += 1;
                    seen[0] += 1;
                }
                handle.quiescent();
            }
            seen
        });
        for _ in 0..steps(20_000) {
            fib.insert(long, 2).unwrap();
            fib.remove(short).unwrap();
            fib.insert(short, 1).unwrap();
            fib.remove(long).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        assert_eq!(seen[0], seen[1] + seen[2]);
    });
}

/// Roots grow beside readers, one of which looks through one view for ever: every lookup finds the
/// old table or the new one, and what was inserted is found from then on.
#[test]
fn a_root_grows_beside_readers() {
    let filler = |i: u32| ipnet::Ipv4Net::new((11 << 24 | i << 8).into(), 24).unwrap();
    let (short, long) = (
        "10.0.0.0/8".parse().unwrap(),
        "10.1.2.0/24".parse().unwrap(),
    );
    for round in 0..steps(60) {
        let fib: Ipv4Fib<u32> = builder(0).build().unwrap();
        fib.insert(short, 1).unwrap();
        (0..250).for_each(|i| assert!(fib.insert(filler(i), 3).is_ok()));
        // The number of fillers that every later lookup finds.
        let there = std::sync::atomic::AtomicU32::new(250);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (fib, there, over) = (&fib, &there, &over);
                scope.spawn(move || {
                    let mut handle = fib.reader("test").unwrap();
                    let mut rng = fastrand::Rng::with_seed(round as u64 * 2 + reader);
                    loop {
                        let last = over.load(Ordering::Acquire);
                        let view = handle.view();
                        for _ in 0..if reader == 0 { 1 } else { usize::MAX } {
                            assert!(view.lookup_value([10, 1, 2, 3].into()).is_some());
                            assert!(view.lookup([10, 1, 2, 3].into()).is_some());
                            let i = rng.u32(0..there.load(Ordering::Acquire));
                            assert_eq!(view.get(filler(i)), Some(&3));
                            let addr = filler(i).addr();
                            let mut batch = [None; 3];
                            view.lookup_batch(&[addr, [10, 1, 2, 3].into(), addr], &mut batch);
                            assert_eq!((batch[0], batch[2]), (Some(&3), Some(&3)));
                            assert!(batch[1].is_some());
                            if over.load(Ordering::Acquire) {
                                break;
                            }
                        }
                        handle.quiescent();
                        if last {
                            break;
                        }
                    }
                });
            }
            for i in 250..300 {
                fib.insert(long, 2).unwrap();
                fib.remove(short).unwrap();
                fib.insert(filler(i), 3).unwrap();
                there.store(i + 1, Ordering::Release);
                fib.insert(short, 1).unwrap();
                fib.remove(long).unwrap();
            }
            over.store(true, Ordering::Release);
        });
        assert_eq!(fib.root_bits(), 12);
        fib.verify().unwrap();
        fib.reclaim(usize::MAX);
        assert_eq!(fib.memory().waiting.0, 0);
    }
}

/// A stalled reader holds memory back. A hard limit turns that into an error; the end of the reader
/// makes room again.
#[test]
fn a_stalled_reader_makes_an_error_and_no_harm() {
    use sapwood::lpm::Error;
    use sapwood::qsbr::Domain;
    let domain = Domain::builder().hard_limit(1 << 16).build();
    let fib: Ipv4Fib<u32> = Ipv4Fib::builder()
        .root_bits(6)
        .options(table::loud())
        .domain(&domain)
        .build()
        .unwrap();
    let mut stalled = fib.reader("stalled").unwrap();
    let net = "10.1.2.0/24".parse().unwrap();
    let mut refused = None;
    for i in 0..100_000_u32 {
        if let Err(no) = fib.insert(net, i) {
            refused = Some((i, no));
            break;
        }
    }
    let (i, no) = refused.expect("the limit is reached");
    assert!(no.value == i && matches!(no.error, Error::GarbageLimit(_)));
    assert_eq!(fib.get(net), Some(i - 1));
    assert!(fib.memory().waiting.1 <= 1 << 16);
    assert!(fib.remove(net).is_err() && fib.begin().insert(net, i).is_err());
    fib.verify().unwrap();
    stalled.quiescent();
    assert_eq!(fib.insert(net, i).unwrap(), Some(i - 1));
    drop(stalled);
    fib.reclaim(usize::MAX);
    fib.verify().unwrap();
    assert_eq!(fib.memory().waiting.0, 0);
}

/// Whether a walk is to find a prefix.
type Expected<'e> = Box<dyn Fn(&Prefix) -> bool + 'e>;

/// Walks over a view beside a writer find each prefix that stays, once and in order, and nothing
/// that never was there.
#[test]
fn walks_without_a_snapshot_find_what_stays() {
    let addresses = addresses(6);
    let lens = [0, 3, 6, 7, 9, 12, 13, 18, 24, 32];
    let mut all: Vec<_> = addresses
        .iter()
        .flat_map(|bits| lens.map(|len| Prefix::truncated(*bits, len)))
        .collect();
    all.sort_unstable();
    all.dedup();
    let (stays, goes): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(i, _)| i % 3 == 0);
    let [stays, goes] = [stays, goes].map(|of| of.into_iter().map(|(_, p)| *p).collect::<Vec<_>>());
    let fib: Fib<V4, u32> = builder(6).build().unwrap();
    for p in &stays {
        fib.insert(V4::net(*p), u32::from(p.len)).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(9);
            let mut handle = fib.reader("test").unwrap();
            let mut walks = 0;
            while !over.load(Ordering::Relaxed) || walks < 10 {
                let view = handle.view();
                let inside = all[rng.usize(0..all.len())];
                let net = V4::net(inside);
                let (found, expected): (Vec<_>, Expected<'_>) = match walks % 3 {
                    0 => (
                        view.covered_by(net).collect(),
                        Box::new(|p| inside.covers(*p)),
                    ),
                    1 => (view.iter_from(net).collect(), Box::new(|p| *p >= inside)),
                    _ => (view.covering(net).collect(), Box::new(|p| p.covers(inside))),
                };
                let found: Vec<_> = found
                    .iter()
                    .map(|(net, v)| (V4::prefix(*net), **v))
                    .collect();
                assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{net} {found:?}");
                for (p, value) in &found {
                    assert!(all.contains(p) && expected(p), "{net} {p:?}");
                    assert_eq!(*value, u32::from(p.len));
                }
                for p in stays.iter().filter(|p| expected(p)) {
                    assert!(found.iter().any(|(q, _)| q == p), "{net} lacks {p:?}");
                }
                walks += 1;
                handle.quiescent();
            }
        });
        let mut rng = fastrand::Rng::with_seed(10);
        for _ in 0..steps(8_000) {
            let p = goes[rng.usize(0..goes.len())];
            if rng.bool() {
                fib.insert(V4::net(p), u32::from(p.len)).unwrap();
            } else {
                fib.remove(V4::net(p)).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    fib.verify().unwrap();
}

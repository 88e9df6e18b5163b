//! A BPF program, C in user space and the model do the same operations, and give the same answers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sapwood::route::{CacheStats, Lookup};
use sapwood_bpf::layout::route as at;
use sapwood_bpf::{BpfArena, Loader, ProgramRouteCache, Programs, RouteKey, RouteValue};
use zerocopy::IntoBytes;

use crate::ask::*;
use crate::model::{self, Model, Ticket};

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

/// Random operations by a program, whose answers are compared with the model's. Returns the
/// questions and the answers.
fn operate(
    cache: &ProgramRouteCache,
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
            // A late answer to an earlier question.
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
                    // This process reads the same answer, and changes nothing.
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
                // A lookup by this process does not notice a clock that stepped back.
                if let Some(wanted) = wanted.filter(|_| generation == 0 || step % 2 == 0) {
                    let seen = match told {
                        Ok(value) => Lookup::Value(value),
                        Err(model::EHOSTUNREACH) => Lookup::Negative,
                        Err(_) => Lookup::Absent,
                    };
                    let stepped = model.counted("clock_back") > 0;
                    assert!(wanted == seen || stepped, "{wanted:?} {seen:?}");
                }
                if told.is_ok() || told == Err(model::EHOSTUNREACH) {
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

/// Compiles the driver in user space; `None` when there is no such compiler.
fn driver(compiler: &str, folder: &Path) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(compiler);
    let done = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-I"])
        .arg(root.join("bpf/include"))
        .arg(root.join("tests/bpf/user/route.c"))
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
        let mut builder = ProgramRouteCache::builder(&arena, "flows")
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
            // Both leave the same bytes.
            assert!(std::fs::read(&image).unwrap() == after, "{driver:?}");
            // With random bytes in the window, any answers are right.
            let mut noise = before.clone();
            noise[cache.window().at + at::SETS..].fill_with(|| rng.u8(..));
            replay(&noise);
        }
    }
}

//! Commits of a store, and whether programs see them whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sapwood_bpf::{BpfArena, Programs, UserStore};
use sapwood_programs as objects;

use crate::bpf::rig;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 1] = ["store"];

const OURS: &str = "sapwood-bpf";
const HASH: &str = "kernel-hash";

/// The number of keys of a commit, which sets all of them to the number of the commit.
const KEYS: u32 = 1_000;

/// Runs the case.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    for name in options.chosen(CASES) {
        measure(name, options, report)?;
    }
    Ok(())
}

/// The maps that programs read.
struct Maps {
    store: UserStore<u64>,
    hash: MapHandle,
}

impl Maps {
    /// Sets all keys to this value.
    fn change(&self, engine: &str, value: u64) -> Result<(), String> {
        if engine == OURS {
            let mut txn = self.store.begin();
            for key in 0..KEYS {
                txn.insert(key.to_be_bytes(), value)
                    .map_err(|e| e.to_string())?;
            }
            txn.commit();
            return Ok(());
        }
        let key = |key: u32| {
            let [a, b, c, d] = key.to_be_bytes();
            [4, a, b, c, d, 0, 0, 0]
        };
        let keys: Vec<u8> = (0..KEYS).flat_map(key).collect();
        let values = value.to_ne_bytes().repeat(KEYS as usize);
        self.hash
            .update_batch(&keys, &values, KEYS, MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| e.to_string())
    }
}

/// Runs the program; returns the value of the first key, and the number of keys with another value
/// or none.
fn look(programs: &Programs, engine: &str, window: u32) -> Result<(u64, u64), String> {
    let program = if engine == OURS {
        "sw_look_store"
    } else {
        "sw_look_hash"
    };
    let packet = [u64::from(window) | u64::from(KEYS) << 32, 0, 0, 0];
    let seen = rig::call(programs, program, &packet)?;
    match seen[3] {
        0 => Ok((seen[1], seen[2])),
        // A lookup beside a writer may miss a key of the kernel's table.
        missing if engine == HASH => Ok((seen[1], seen[2].max(missing))),
        missing => Err(format!("WRONG: {engine}: {missing} keys are missing")),
    }
}

fn measure(name: &'static str, options: &Options, report: &mut Report) -> Result<(), String> {
    report.begin(format!(
        "{name}: {KEYS} changes a commit, programs look at all of them beside it"
    ));
    let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
    let programs = rig::load(&arena, objects::BENCH_STORE, 8, KEYS as usize)?;
    let store = UserStore::builder(&arena, "store").bytes(256 << 20).build();
    let maps = Maps {
        store: store.map_err(|e| e.to_string())?,
        hash: rig::handle(&programs, "sw_hash")?,
    };
    let window = maps.store.window().number;
    let time = Duration::from_millis(options.size(500, 100) as u64);
    let mut samples = Samples::new(name, &[OURS, HASH]);
    let mut value = 0;
    for _ in options.rounds(&format!("bpf: {name}"), 1) {
        for engine in [OURS, HASH] {
            if !options.wants_engine(engine) {
                continue;
            }
            // Without other activity: the next run of a program must see the commit.
            let mut times = Vec::new();
            let begins = Instant::now();
            while begins.elapsed() < time {
                value += 1;
                let starts = Instant::now();
                maps.change(engine, value)?;
                times.push(starts.elapsed().as_nanos() as f64 / 1e3);
                let seen = look(&programs, engine, window)?;
                if seen != (value, 0) {
                    return Err(format!("WRONG: {engine}: {seen:?} after commit {value}"));
                }
            }
            times.sort_by(f64::total_cmp);
            let visible = times[times.len() / 2];
            samples.add(engine, &Measure::new("commit_visible_us", visible, "us"));
            // Beside programs that read without a pause.
            let stop = AtomicBool::new(false);
            let (runs, halves) = std::thread::scope(|scope| {
                let looks = scope.spawn(|| {
                    let (mut runs, mut halves) = (0u32, 0u32);
                    while !stop.load(Ordering::Relaxed) {
                        let (_, others) = look(&programs, engine, window)?;
                        runs += 1;
                        halves += u32::from(others > 0);
                    }
                    Ok::<_, String>((runs, halves))
                });
                let begins = Instant::now();
                let mut changed = Ok(());
                while changed.is_ok() && begins.elapsed() < time {
                    value += 1;
                    changed = maps.change(engine, value);
                }
                stop.store(true, Ordering::Relaxed);
                changed.and_then(|()| looks.join().expect("no panic"))
            })?;
            if engine == OURS && halves > 0 {
                return Err(format!("WRONG: {halves} of {runs} runs saw half a commit"));
            }
            let share = f64::from(halves) / f64::from(runs.max(1));
            samples.add(engine, &Measure::new("half_commits", share, "share"));
        }
    }
    report.end(samples, &[HASH]);
    Ok(())
}

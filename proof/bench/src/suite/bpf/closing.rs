//! The work of the kernel when a large map is closed.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use sapwood_bpf::{BpfArena, UserPointMap};
use sapwood_model::data;

use crate::bpf::held::Watch;
use crate::bpf::rig;
use crate::clock::CpuClock;
use crate::keylist::KeyList;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASES: [&str; 1] = ["drop-1m"];

const ENGINES: [&str; 3] = ["sapwood-bpf-index", "sapwood-bpf-at-once", "kernel-hash"];

/// Runs the case, with at most three rounds: filling a map takes far longer than closing it.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let [case] = CASES;
    if !options.wants_case(case) {
        return Ok(());
    }
    let set = data::domains(options.size(1_000_000, 30_000), 1);
    let how = format!("{} keys; {}", set.keys.len(), set.how);
    report.begin(format!("{case}: {how}"));
    let mut keys = KeyList::numbered(&set.keys).sorted();
    let short = (0..keys.len()).filter(|at| keys.key(*at).len() <= rig::KEY_MAX);
    keys = keys.picked(short.collect::<Vec<_>>());
    let mut samples = Samples::new(case, &ENGINES);
    let mut idle = [f64::INFINITY, 0.0];
    for _ in options.rounds(&format!("bpf: {case}"), 1).take(3) {
        for engine in ENGINES.into_iter().filter(|one| options.wants_engine(one)) {
            let map = || match engine {
                "kernel-hash" => theirs(&keys),
                "sapwood-bpf-at-once" => ours(&keys, false),
                _ => ours(&keys, true),
            };
            let millis = closing(map()?)?;
            samples.add(engine, &Measure::new("drop_ms", millis, "ms"));
            // A second map: the watching threads would add their own processor time.
            let held = watched(map()?);
            match held {
                Ok((closing, without)) => {
                    samples.add(engine, &Measure::new("held_us", closing, "us"));
                    idle = [idle[0].min(without), idle[1].max(without)];
                }
                Err(why) => {
                    report.note(format!("{case}: no held_us: {why}"));
                }
            }
        }
    }
    if idle[1] > 0.0 {
        let [least, most] = idle;
        report.note(format!(
            "{case}: in as much time without closing, a processor was held for {least:.0} to {most:.0} us"
        ));
    }
    report.end(samples, &[]);
    Ok(())
}

/// A function that closes a map.
type Close = Box<dyn FnOnce() -> Result<(), String>>;

fn ours(keys: &KeyList, in_pieces: bool) -> Result<Close, String> {
    let arena = BpfArena::create(1 << 30).map_err(|e| e.to_string())?;
    let map = UserPointMap::builder(&arena, "names").build();
    let map = map.map_err(|e| e.to_string())?;
    for (key, value) in keys.iter() {
        map.insert(key, value).map_err(|e| e.to_string())?;
    }
    Ok(Box::new(move || {
        drop(map);
        // This waits for running programs, and then frees the memory in pieces.
        if in_pieces {
            arena.reclaim().map_err(|e| e.to_string())?;
        }
        drop(arena);
        Ok(())
    }))
}

fn theirs(keys: &KeyList) -> Result<Close, String> {
    let longest = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let bytes = rig::hash_key(longest);
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        ..Default::default()
    };
    let (key, most) = (bytes as u32, keys.len() as u32);
    let map = MapHandle::create(MapType::Hash, Some("sw_hash"), key, 8, most, &options)
        .map_err(|e| e.to_string())?;
    let padded = rig::hash_keys(keys, bytes);
    let values: Vec<u8> = keys
        .iter()
        .flat_map(|(_, value)| value.to_ne_bytes())
        .collect();
    for (keys, values) in padded.chunks(4096 * bytes).zip(values.chunks(4096 * 8)) {
        let count = (values.len() / 8) as u32;
        map.update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| e.to_string())?;
    }
    Ok(Box::new(move || {
        drop(map);
        Ok(())
    }))
}

/// The length of the observation after closing.
const WHILE: Duration = Duration::from_millis(500);

/// The longest time that a processor was held in the second in which a map is closed, and in the
/// second before, in microseconds.
fn watched(close: Close) -> Result<(f64, f64), String> {
    let watch = Watch::start()?;
    thread::sleep(2 * WHILE);
    let without = watch.worst();
    let begin = Instant::now();
    close()?;
    thread::sleep((2 * WHILE).saturating_sub(begin.elapsed()).max(WHILE));
    let closing = watch.worst();
    watch.end()?;
    Ok((closing, without))
}

/// The processor time of closing in milliseconds: of this thread, and of the kernel's workers in
/// the time that follows, less their time in an equal period without closing.
fn closing(close: Close) -> Result<f64, String> {
    let begin = workers();
    thread::sleep(WHILE);
    let before = workers();
    let clock = CpuClock::start();
    close()?;
    let own = clock.elapsed().as_secs_f64() * 1e3;
    thread::sleep(WHILE);
    let after = workers();
    Ok(own + ((after - before) - (before - begin)).max(0.0))
}

/// The processor time that the kernel's workers have used so far, in milliseconds.
fn workers() -> f64 {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let worked = all.filter_map(|entry| {
        let folder = entry.path();
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let times = fs::read_to_string(folder.join("schedstat")).ok()?;
        let ns: f64 = times.split(' ').next()?.parse().ok()?;
        name.starts_with("kworker").then_some(ns / 1e6)
    });
    worked.sum()
}

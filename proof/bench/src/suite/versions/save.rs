//! Saves snapshots of a store to a file, beside the store's writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sapwood::qp::{QpFile, QpStore};

use super::work::Keys;
use crate::report::{Measure, Report, Samples};
use crate::suite::Options;

pub const CASE: &str = "save";
const ENGINE: &str = "sapwood";

/// Runs the case: saves files without a writer and beside a thread that commits without a pause.
/// Also measures that thread's commits during the saving and without it.
pub fn run(keys: &Keys, options: &Options, report: &mut Report) -> Result<(), String> {
    println!("\n## {CASE}: {} items", keys.len());
    let mut samples = Samples::new(CASE, &[ENGINE]);
    let window = Duration::from_millis(options.size(500, 50) as u64);
    let path = std::env::temp_dir().join(format!("sapwood-bench-{}.qp", std::process::id()));
    for _ in options.rounds(&format!("versions: {CASE}"), 1) {
        let measures = measure(keys, window, &path);
        let _ = std::fs::remove_file(&path);
        for measure in measures? {
            samples.add(ENGINE, &measure);
        }
    }
    report.end(samples, &[]);
    Ok(())
}

/// A writer's commits in a time.
struct Commits {
    count: usize,
    longest: Duration,
    wall: Duration,
}

impl Commits {
    fn rate(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64() / 1e6
    }

    fn longest_us(&self) -> f64 {
        self.longest.as_nanos() as f64 / 1e3
    }
}

/// Commits changes of one value each until told to stop. Values only grow.
fn commit(store: &QpStore<u64>, keys: &Keys, stop: &AtomicBool) -> Commits {
    let (mut count, mut longest) = (0, Duration::ZERO);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let key = keys.moving.key(count % keys.moving.len());
        let begins = Instant::now();
        let mut txn = store.begin();
        let value = 1 << 63 | count as u64;
        txn.insert(key, value).expect("it fits");
        txn.commit();
        longest = longest.max(begins.elapsed());
        count += 1;
    }
    Commits {
        count,
        longest,
        wall: start.elapsed(),
    }
}

/// Saves a snapshot over and over for a time; returns the milliseconds per save.
fn save(store: &QpStore<u64>, window: Duration, path: &std::path::Path) -> Result<f64, String> {
    let (begins, mut saved) = (Instant::now(), 0u32);
    while saved == 0 || begins.elapsed() < window {
        let snapshot = store.snapshot();
        snapshot.save(path).map_err(|e| e.to_string())?;
        saved += 1;
    }
    Ok(begins.elapsed().as_secs_f64() * 1e3 / f64::from(saved))
}

fn measure(keys: &Keys, window: Duration, path: &std::path::Path) -> Result<Vec<Measure>, String> {
    let store = QpStore::new().map_err(|e| e.to_string())?;
    let mut txn = store.begin();
    for (key, value) in keys.all.iter() {
        txn.insert(key, value).map_err(|e| e.to_string())?;
    }
    txn.commit();
    let alone = save(&store, window, path)?;
    let (stop, beside) = (AtomicBool::new(false), AtomicBool::new(false));
    let (undisturbed, saved, disturbed) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let first = commit(&store, keys, &stop);
            (first, commit(&store, keys, &beside))
        });
        std::thread::sleep(window);
        stop.store(true, Ordering::Relaxed);
        let saved = save(&store, window, path);
        beside.store(true, Ordering::Relaxed);
        let (first, second) = writer.join().expect("the writer does not panic");
        (first, saved, second)
    });
    // The file must be one whole version.
    let file = QpFile::<u64>::open(path).map_err(|e| e.to_string())?;
    assert_eq!(file.len(), keys.len());
    assert!(file.version().get() <= store.version().get());
    assert!(keys.all.iter().all(|(key, value)| {
        let there = file.get(key).copied();
        there == Some(value) || there.is_some_and(|there| there >> 63 == 1)
    }));
    Ok(vec![
        Measure::new("save_ms", alone, "ms"),
        Measure::new("save_beside_ms", saved?, "ms"),
        Measure::new("commit_wall_mops", undisturbed.rate(), "Mop/s"),
        Measure::new("commit_beside_wall_mops", disturbed.rate(), "Mop/s"),
        Measure::new("commit_max_us", undisturbed.longest_us(), "us"),
        Measure::new("commit_beside_max_us", disturbed.longest_us(), "us"),
    ])
}

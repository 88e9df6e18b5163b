//! Processes that are killed during sweeps, insertions and invalidations.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sapwood_bpf::{BpfArena, Loader, ProgramRouteCache};

use crate::ask::*;

const PATH: &str = "SAPWOOD_TEST_ROUTE_CACHE";

/// The part of the process that is killed. It does nothing in an ordinary run of the tests.
#[test]
fn a_process_that_sweeps() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let arena = BpfArena::open(&path).unwrap();
    let cache = ProgramRouteCache::open(&arena, "flows").unwrap();
    let programs = Loader::open(&arena, SELFTEST).unwrap().load().unwrap();
    let mut storm = Storm {
        window: cache.window().number,
        keys: 3000,
        ..Storm::default()
    };
    // Runs until it is killed, or for a minute if its parent has died.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        cache.sweep(ProgramRouteCache::now(), usize::MAX).unwrap();
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
            // The text must be on its own line.
            println!("\nat work");
            std::io::stdout().flush().unwrap();
        }
        assert_eq!(storm.wrong, 0);
    }
}

/// A pinned path, which the drop removes.
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
    let cache = ProgramRouteCache::builder(&arena, "flows")
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
            .args(["--exact", "killed::a_process_that_sweeps", "--nocapture"])
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
        // No set is locked, no entry is lost, and all operations work.
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

//! Event loops that read while a writer commits. Each loop announces a quiescent state once a turn,
//! and goes offline while it has nothing to do. Readers and the writer do not wait for each other,
//! and the memory of old versions is freed.
//!
//! `cargo run --release --example readers`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sapwood::Reader;
use sapwood::qp::QpStore;
use sapwood::qsbr::Domain;

/// Runs an event loop. A turn handles a batch of packets, and then announces a quiescent state.
fn event_loop(mut routes: Reader<QpStore<u64>>, stop: &AtomicBool, handled: &AtomicU64) {
    let mut packet = 0u32;
    let mut turns = 0u64;
    while !stop.load(Ordering::Relaxed) {
        // All packets of a turn see one version, also while the writer commits.
        let view = routes.view();
        for _ in 0..64 {
            packet = packet.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hop = view.get((packet % 10_000).to_be_bytes());
            assert!(hop.is_some(), "every route is always there");
            handled.fetch_add(1, Ordering::Relaxed);
        }
        // The compiler refuses references that live across this line.
        routes.quiescent();
        turns += 1;
        if turns % 1_000 == 0 {
            // A real loop would wait for events here. While the reader is offline, it delays no
            // grace period.
            let _offline = routes.offline();
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // At most 16 MiB of garbage may wait for readers. A write that would exceed this limit fails,
    // and can be tried again.
    let domain = Domain::builder()
        .soft_limit(4 << 20)
        .hard_limit(16 << 20)
        .build();
    let routes = QpStore::builder()
        .domain(&domain)
        .build_sorted((0..10_000u32).map(|i| (i.to_be_bytes(), 0u64)))?;
    let (stop, handled) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|s| -> Result<(), Box<dyn std::error::Error>> {
        for i in 0..2 {
            let reader = routes.reader(&format!("loop {i}"))?;
            s.spawn(|| event_loop(reader, &stop, &handled));
        }
        let begun = Instant::now();
        let mut commits = 0u64;
        let mut most = 0;
        while begun.elapsed() < Duration::from_millis(700) {
            let mut txn = routes.begin();
            for i in 0..10 {
                let key = ((commits * 10 + i) % 10_000) as u32;
                txn.insert(key.to_be_bytes(), commits)?;
            }
            txn.commit();
            commits += 1;
            most = most.max(domain.garbage());
        }
        stop.store(true, Ordering::Relaxed);
        println!(
            "{commits} commits of 10 changes; at most {} KiB waited for readers",
            most >> 10
        );
        for stall in domain.stalls() {
            println!("stalled: {stall}");
        }
        Ok(())
    })?;
    println!("{} lookups in that time", handled.load(Ordering::Relaxed));

    // The loops have ended, so all garbage can be freed.
    routes.reclaim(usize::MAX);
    assert_eq!(routes.memory().waiting, (0, 0));
    Ok(())
}

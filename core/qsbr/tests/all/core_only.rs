//! What works with `--no-default-features` too: no clock, locks that spin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sapwood_qsbr::{Domain, LimitPolicy, RetireQueue};

const TURNS: usize = if cfg!(miri) { 20 } else { 2_000 };

#[test]
fn threads_defer_poll_and_register_through_the_locks() {
    let domain = Domain::builder()
        .hard_limit(50)
        .policy(LimitPolicy::Block)
        .build();
    let ran = Arc::new(AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..TURNS {
                    let mut reader = domain.register("short").unwrap();
                    reader.guard();
                    reader.set_offline();
                    let ran = Arc::clone(&ran);
                    domain
                        .defer(10, move || _ = ran.fetch_add(1, Ordering::Relaxed))
                        .unwrap();
                    assert!(domain.garbage() <= 50);
                    domain.poll();
                }
            });
        }
    });
    domain.synchronize();
    domain.poll();
    assert_eq!(
        (
            ran.load(Ordering::Relaxed),
            domain.garbage(),
            domain.readers()
        ),
        (3 * TURNS, 0, 0)
    );
}

#[test]
fn a_stalled_reader_is_bounded_and_released() {
    let domain = Domain::builder().hard_limit(800).build();
    let mut reader = domain.register("stalled").unwrap();
    let mut queue = RetireQueue::new(&domain);
    let mut refused = 0;
    for item in 0..TURNS + 100 {
        match queue.make_room(8, |_: usize| panic!("too early")) {
            Ok(()) => {
                queue.push(item, 8);
                queue.seal();
            }
            Err(_) => refused += 1,
        }
    }
    assert_eq!((queue.len(), refused), (100, TURNS));
    reader.quiescent();
    assert_eq!(queue.reclaim(usize::MAX, drop), 100);
}

#[test]
#[cfg(not(feature = "std"))]
fn without_a_clock_the_report_counts_generations() {
    let domain = Domain::new();
    let mut reader = domain.register("behind").unwrap();
    domain.defer(9, || ()).unwrap();
    domain.advance();
    let stalls = domain.stalls();
    assert_eq!(
        (
            stalls.len(),
            stalls[0].name.as_str(),
            stalls[0].generations,
            stalls[0].bytes
        ),
        (1, "behind", 2, 9)
    );
    reader.quiescent();
    assert!(domain.stalls().is_empty());
    assert_eq!(domain.poll(), 1);
}

/// The rest of the queue must not be lost where no `std` catches the panic.
#[test]
fn a_panic_while_the_last_handle_goes_loses_no_closure() {
    let ran = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    for n in 0..5 {
        let ran = Arc::clone(&ran);
        let f = move || {
            ran.fetch_add(1, Ordering::Relaxed);
            if n == 1 {
                std::panic::resume_unwind(Box::new("stops here, or passes"));
            }
        };
        domain.defer(1, f).unwrap();
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(domain)));
    assert_eq!(
        (ran.load(Ordering::Relaxed), result.is_ok()),
        (5, cfg!(feature = "std"))
    );
}

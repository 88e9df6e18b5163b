//! Workers of a tokio runtime as readers: parked ones hold nothing back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sapwood_qsbr::{Domain, Generation, tokio_hooks};
use tokio::runtime::{Builder, Runtime};

fn runtime(domain: &Domain) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    tokio_hooks::install(builder.worker_threads(2), domain);
    builder.build().unwrap()
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

fn elapses(domain: &Domain, generation: Generation) {
    eventually("a grace period that nobody holds back", || {
        domain.elapsed(generation)
    });
}

#[test]
fn parked_workers_hold_nothing_back() {
    let domain = Domain::new();
    let runtime = runtime(&domain);
    eventually("workers register", || domain.readers() == 2);
    let reads = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (domain, reads) = (domain.clone(), Arc::clone(&reads));
                runtime.spawn(async move {
                    for _ in 0..10 {
                        tokio_hooks::with_guard(&domain, |outer| {
                            assert!(outer.belongs_to(&domain));
                            let generation = domain.advance();
                            tokio_hooks::with_guard(&domain, |_| {
                                reads.fetch_add(1, Ordering::Relaxed)
                            });
                            assert!(!domain.elapsed(generation), "this very guard holds it back");
                            assert!(
                                !tokio_hooks::quiescent(&domain) && !tokio_hooks::offline(&domain)
                            );
                        });
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let generation = domain.advance();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        elapses(&domain, generation);
        elapses(&domain, domain.advance());
    }
    assert_eq!(reads.load(Ordering::Relaxed), 50 * 8 * 10);
    drop(runtime);
    assert_eq!(domain.readers(), 0);
}

#[test]
fn threads_of_spawn_blocking_hold_nothing_back_between_guards() {
    let domain = Domain::new();
    let runtime = runtime(&domain);
    let theirs = domain.clone();
    let task = runtime.spawn_blocking(move || {
        tokio_hooks::with_guard(&theirs, |_| assert!(!theirs.elapsed(theirs.advance())));
        theirs.advance()
    });
    let generation = runtime.block_on(task).unwrap();
    elapses(&domain, generation);
}

#[test]
fn a_busy_worker_says_so_itself() {
    let domain = Domain::new();
    let runtime = runtime(&domain);
    let theirs = domain.clone();
    let task = runtime.spawn(async move {
        // The first park may still be to come on a fresh worker, hence pins; both kinds have to end
        // up quiescent.
        for _ in 0..100 {
            tokio_hooks::with_guard(&theirs, |_| ());
            let generation = theirs.advance();
            tokio_hooks::quiescent(&theirs);
            elapses(&theirs, generation);
            tokio_hooks::with_guard(&theirs, |_| ());
            tokio_hooks::offline(&theirs);
            elapses(&theirs, theirs.advance());
            tokio::task::yield_now().await;
        }
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn a_panic_inside_leaves_the_worker_usable() {
    let domain = Domain::new();
    let runtime = runtime(&domain);
    for _ in 0..10 {
        let theirs = domain.clone();
        let task = runtime.spawn(async move {
            tokio_hooks::with_guard(&theirs, |_| std::panic::resume_unwind(Box::new("inside")));
        });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
        elapses(&domain, domain.advance());
    }
}

#[test]
fn without_hooks_and_without_room_it_pins() {
    let full = Domain::builder().max_readers(0).build();
    let runtime = runtime(&full);
    let theirs = full.clone();
    let task = runtime
        .spawn(async move { tokio_hooks::with_guard(&theirs, |guard| guard.belongs_to(&theirs)) });
    assert!(runtime.block_on(task).unwrap());
    assert_eq!(tokio_hooks::with_guard(&full, |_| 7), 7);
    elapses(&full, full.advance());
}

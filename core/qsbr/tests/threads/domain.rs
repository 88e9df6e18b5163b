//! Registration, offline times, sources, pins, deferred closures, queues: one thread at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use sapwood_qsbr::{Domain, Generation, GraceSource, RetireQueue, StallKind};

#[test]
fn a_generation_elapses_when_every_online_reader_has_moved() {
    let domain = Domain::new();
    assert!(domain.elapsed(Generation::ZERO));
    let first = domain.advance();
    assert!(domain.elapsed(first), "nobody reads");
    let (mut a, mut b) = (domain.register("a").unwrap(), domain.register("b").unwrap());
    let second = domain.advance();
    assert!(first < second && domain.elapsed(first) && !domain.elapsed(second));
    a.quiescent();
    assert!(!domain.elapsed(second));
    b.quiescent();
    assert!(domain.elapsed(second));
    let third = domain.advance();
    drop(a);
    assert!(!domain.elapsed(third));
    b.set_offline();
    assert!(domain.elapsed(third));
    assert!(
        !domain.elapsed(Generation::from_raw(third.get() + 1)),
        "has not begun"
    );
}

#[test]
fn offline_and_online_in_every_way() {
    let domain = Domain::new();
    let mut reader = domain.register("r").unwrap();
    let held = |domain: &Domain| !domain.elapsed(domain.advance());
    assert!(held(&domain), "registered online");
    reader.set_offline();
    assert!(!held(&domain) && !reader.is_online());
    reader.quiescent();
    assert!(!reader.is_online(), "quiescent does not bring it online");
    reader.guard();
    assert!(reader.is_online() && held(&domain), "a guard does");
    let offline = reader.offline();
    assert!(!held(&domain));
    drop(offline);
    assert!(held(&domain));
    reader.set_offline();
    reader.set_online();
    assert!(held(&domain));
    let generation = domain.advance();
    reader.set_online();
    assert!(domain.elapsed(generation), "a quiescent state while online");
    std::mem::forget(reader.offline());
    assert!(!held(&domain));
    reader.guard();
    assert!(held(&domain));
    reader.synchronize();
    assert!(reader.is_online());
}

#[test]
fn readers_are_limited_and_slots_are_used_again() {
    let domain = Domain::builder().max_readers(3).build();
    for _ in 0..if cfg!(miri) { 20 } else { 10_000 } {
        let readers: Vec<_> = (0..3)
            .map(|n| domain.register(format!("r{n}")).unwrap())
            .collect();
        assert_eq!(domain.register("one too many").unwrap_err().max, 3);
        assert_eq!(domain.readers(), 3);
        drop(readers);
        assert_eq!(domain.readers(), 0);
    }
    assert_eq!(domain.reader_slots(), 3);
    let _pinned = domain.pin();
    assert_eq!(domain.readers(), 0, "pins are not counted");
}

#[test]
fn slots_are_used_again_by_many_threads() {
    let domain = Domain::new();
    for _ in 0..if cfg!(miri) { 3 } else { 100 } {
        thread::scope(|s| {
            let threads = [(); 4].map(|()| {
                s.spawn(|| {
                    drop(domain.pin());
                    domain.register("short").unwrap().quiescent();
                })
            });
            // The scope alone does not wait for thread-local destructors.
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
    // Of each thread one for its pin and one that it registers.
    assert!(domain.reader_slots() <= 8, "{}", domain.reader_slots());
    while !domain.elapsed(domain.advance()) {
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_panics_with_a_guard_is_unregistered() {
    let domain = Domain::new();
    for pin in [false, true] {
        let theirs = domain.clone();
        let result = thread::spawn(move || {
            let reader = theirs.register("doomed").unwrap();
            let _guard = reader.guard();
            let _pinned = pin.then(|| theirs.pin());
            assert!(!theirs.elapsed(theirs.advance()));
            std::panic::resume_unwind(Box::new("ends here"));
        })
        .join();
        assert!(result.is_err());
        assert_eq!(domain.readers(), 0);
        assert!(domain.elapsed(domain.advance()));
    }
}

#[test]
fn pins_nest_in_any_order() {
    let (domain, other) = (Domain::new(), Domain::new());
    let generation = domain.advance();
    let outer = domain.pin();
    let of_other = other.pin();
    assert!(of_other.guard().belongs_to(&other) && !of_other.guard().belongs_to(&domain));
    let inner = domain.pin();
    assert!(domain.elapsed(generation));
    let generation = domain.advance();
    drop(outer);
    assert!(!domain.elapsed(generation), "the inner one still holds it");
    let refused = catch_unwind(|| domain.synchronize());
    assert!(refused.is_err(), "would wait for itself");
    drop(inner);
    assert!(domain.elapsed(generation));
    assert!(!other.elapsed(other.advance()));
    drop(of_other);
    domain.synchronize();
    other.synchronize();
    assert_eq!((domain.reader_slots(), other.reader_slots()), (1, 1));
}

#[test]
fn pins_of_domains_that_come_and_go() {
    for n in 0..100 {
        let domain = Domain::new();
        let pinned = domain.pin();
        assert!(
            !domain.elapsed(domain.advance()),
            "domain {n} has a slot of its own"
        );
        drop(pinned);
        assert_eq!(domain.reader_slots(), 1);
    }
}

#[test]
fn pinning_while_thread_locals_are_destroyed() {
    struct PinsOnDrop(Domain);
    impl Drop for PinsOnDrop {
        fn drop(&mut self) {
            let pinned = self.0.pin();
            assert!(pinned.guard().belongs_to(&self.0));
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Option<PinsOnDrop>> = const { std::cell::RefCell::new(None) });
    for late_first in [true, false] {
        let domain = Domain::new();
        let theirs = domain.clone();
        thread::spawn(move || {
            let set = || LATE.with(|late| *late.borrow_mut() = Some(PinsOnDrop(theirs.clone())));
            if late_first {
                set();
            }
            drop(theirs.pin());
            set();
        })
        .join()
        .unwrap();
        assert!(domain.elapsed(domain.advance()));
    }
}

struct Switch {
    started: AtomicU64,
    done: AtomicU64,
}

impl GraceSource for Switch {
    fn start(&self) -> u64 {
        self.started.fetch_add(1, Ordering::SeqCst) + 1
    }
    fn elapsed(&self, token: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= token
    }
    fn name(&self) -> &str {
        "switch"
    }
}

#[test]
fn a_domain_waits_for_its_sources() {
    let sources = [0, 1].map(|_| {
        Arc::new(Switch {
            started: AtomicU64::new(0),
            done: AtomicU64::new(0),
        })
    });
    let domain = Domain::builder()
        .stall_after(std::time::Duration::ZERO)
        .source(sources[0].clone())
        .source(sources[1].clone())
        .build();
    let first = domain.advance();
    assert_eq!(
        sources[0].started.load(Ordering::SeqCst),
        1,
        "started at once"
    );
    let second = domain.advance();
    assert_eq!(
        sources[0].started.load(Ordering::SeqCst),
        1,
        "one in flight at most"
    );
    assert!(!domain.elapsed(first));
    sources[0].done.store(1, Ordering::SeqCst);
    assert!(!domain.elapsed(first), "the other one holds it back");
    domain.add_garbage(5);
    let stalls = domain.stalls();
    assert_eq!(
        (stalls.len(), stalls[0].name.as_str(), stalls[0].kind),
        (1, "switch", StallKind::Source)
    );
    domain.sub_garbage(5);
    sources[1].done.store(1, Ordering::SeqCst);
    assert!(domain.elapsed(first));
    assert!(
        !domain.elapsed(second),
        "began after the sources' first period did"
    );
    assert_eq!(
        sources[1].started.load(Ordering::SeqCst),
        2,
        "which is followed by the next"
    );
    let mut reader = domain.register("r").unwrap();
    let third = domain.advance();
    sources
        .iter()
        .for_each(|source| source.done.store(9, Ordering::SeqCst));
    assert!(domain.elapsed(second));
    assert!(!domain.elapsed(third), "and the readers count too");
    reader.quiescent();
    assert!(domain.elapsed(third));
}

#[test]
fn a_source_may_call_back_into_its_domain() {
    struct Meddler(Mutex<Option<Domain>>);
    impl GraceSource for Meddler {
        fn start(&self) -> u64 {
            if let Some(domain) = self.0.lock().unwrap().take() {
                domain.defer(1, || ()).unwrap();
                domain.poll();
                assert!(!domain.elapsed(domain.generation()));
            }
            0
        }
        fn elapsed(&self, _: u64) -> bool {
            true
        }
        fn name(&self) -> &str {
            "meddler"
        }
    }
    let source = Arc::new(Meddler(Mutex::new(None)));
    let domain = Domain::builder().source(source.clone()).build();
    *source.0.lock().unwrap() = Some(domain.clone());
    domain.synchronize();
    while domain.deferred() > 0 {
        domain.poll();
    }
}

#[test]
fn a_panic_in_a_source_leaves_the_books_right() {
    struct Fails;
    impl GraceSource for Fails {
        fn start(&self) -> u64 {
            std::panic::resume_unwind(Box::new("no grace"))
        }
        fn elapsed(&self, _: u64) -> bool {
            true
        }
        fn name(&self) -> &str {
            "fails"
        }
    }
    let domain = Domain::builder().source(Arc::new(Fails)).build();
    let mut queue = RetireQueue::new(&domain);
    queue.push((), 8);
    assert!(catch_unwind(|| domain.defer(5, || ())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.seal())).is_err());
    assert_eq!(
        (domain.garbage(), domain.deferred(), queue.open_len()),
        (8, 0, 1)
    );
}

#[test]
fn a_panic_in_a_closure_loses_nothing() {
    let domain = Domain::new();
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..10 {
        let ran = Arc::clone(&ran);
        let f = move || {
            ran.fetch_add(1, Ordering::Relaxed);
            if n % 3 == 0 {
                std::panic::resume_unwind(Box::new(n));
            }
        };
        domain.defer(10, f).unwrap();
    }
    let mut panics = 0;
    while domain.deferred() > 0 {
        panics += usize::from(catch_unwind(AssertUnwindSafe(|| domain.poll())).is_err());
        assert_eq!(domain.garbage(), domain.deferred() * 10);
    }
    assert_eq!(
        (panics, ran.load(Ordering::Relaxed), domain.garbage()),
        (4, 10, 0)
    );
    domain.defer(1, || ()).unwrap();
    assert_eq!(domain.poll(), 1);
}

#[test]
fn the_last_handle_runs_what_is_left() {
    let ran = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let reader = domain.register("last").unwrap();
    for n in 0..5 {
        let ran = Arc::clone(&ran);
        let f = move || {
            ran.fetch_add(1, Ordering::Relaxed);
            if n == 2 {
                std::panic::resume_unwind(Box::new("stops here"));
            }
        };
        domain.defer(1, f).unwrap();
    }
    drop(domain);
    assert_eq!(ran.load(Ordering::Relaxed), 0, "the reader has a handle");
    drop(reader);
    assert_eq!(ran.load(Ordering::Relaxed), 5);
}

#[test]
fn closures_may_use_the_domain() {
    let domain = Domain::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let (inner, counter) = (domain.clone(), Arc::clone(&ran));
    let f = move || {
        inner
            .defer(3, move || _ = counter.fetch_add(1, Ordering::Relaxed))
            .unwrap();
        inner.synchronize();
        inner.poll();
    };
    domain.defer(2, f).unwrap();
    domain.poll();
    assert_eq!(
        (
            ran.load(Ordering::Relaxed),
            domain.garbage(),
            domain.deferred()
        ),
        (1, 0, 0)
    );
}

#[test]
fn reclaiming_stops_at_the_budget_and_where_told() {
    let domain = Domain::new();
    let mut queue = RetireQueue::new(&domain);
    assert_eq!(queue.seal(), None);
    for version in 0..4_u64 {
        (0..5).for_each(|n| queue.push(version * 5 + n, 1));
        queue.seal_tagged(version).unwrap();
    }
    queue.push(99, 1);
    let mut out = Vec::new();
    assert_eq!(queue.reclaim(7, |item| out.push(item)), 7);
    assert_eq!((queue.len(), queue.bytes(), domain.garbage()), (14, 14, 14));
    let mut asked = Vec::new();
    let keep_going = |_, version| {
        asked.push(version);
        version < 3
    };
    assert_eq!(
        queue.reclaim_while(100, keep_going, |item| out.push(item)),
        8
    );
    assert_eq!(asked, [1, 2, 3], "each batch once");
    assert_eq!(queue.reclaim(100, |item| out.push(item)), 5);
    assert_eq!(
        queue.reclaim(100, |_| unreachable!("the open batch is not due")),
        0
    );
    assert_eq!(queue.open_len(), 1);
    assert_eq!(queue.drain(|item| out.push(item)), 1);
    assert_eq!(out, (0..20).chain([99]).collect::<Vec<_>>());
    assert_eq!(
        (
            queue.len(),
            queue.bytes(),
            queue.open_len(),
            domain.garbage()
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(queue.seal(), None);
}

#[test]
fn a_panic_while_reclaiming_keeps_the_books() {
    let domain = Domain::new();
    let mut queue = RetireQueue::new(&domain);
    for batch in 0..5 {
        (0..2).for_each(|n| queue.push(batch * 2 + n, 3));
        queue.seal();
    }
    queue.push(10, 3);
    let mut seen = Vec::new();
    while !queue.is_empty() {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let half_done = seen.len() >= 6;
            let take = |item| {
                seen.push(item);
                if item % 3 == 0 {
                    std::panic::resume_unwind(Box::new(item));
                }
            };
            if half_done {
                queue.drain(take)
            } else {
                queue.reclaim(100, take)
            }
        }));
        assert_eq!(
            (queue.bytes(), domain.garbage()),
            (queue.len() * 3, queue.len() * 3)
        );
        drop(result);
    }
    assert_eq!(seen, (0..=10).collect::<Vec<_>>());
}

#[test]
fn a_dropped_queue_drops_its_items_and_settles_its_account() {
    let domain = Domain::new();
    let _reader = domain.register("r").unwrap();
    let item = Arc::new(());
    let mut queue = RetireQueue::new(&domain);
    for _ in 0..10 {
        queue.push(Arc::clone(&item), 100);
    }
    queue.seal();
    queue.push(Arc::clone(&item), 100);
    domain.add_garbage(1);
    drop(queue);
    assert_eq!((Arc::strong_count(&item), domain.garbage()), (1, 1));
}

#[test]
fn things_move_between_threads_as_they_should() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Domain>();
    sync::<Domain>();
    send::<sapwood_qsbr::Reader>();
    send::<RetireQueue<u32>>();
    sync::<RetireQueue<u32>>();
    let domain = Domain::new();
    let mut reader = domain.register("moved").unwrap();
    let generation = domain.advance();
    let reader = thread::spawn(move || {
        reader.quiescent();
        reader
    });
    assert!(reader.join().unwrap().guard().belongs_to(&domain));
    assert!(domain.elapsed(generation));
}

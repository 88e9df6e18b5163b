//! Garbage limits, stalled readers and the reports about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sapwood_qsbr::{Domain, Hold, Holder, LimitPolicy, RetireQueue, StallKind};

const RETIREMENTS: usize = if cfg!(miri) { 2_000 } else { 1_000_000 };
const BYTES: usize = 40;

#[test]
fn everything_held_by_a_stalled_reader_is_freed_on_release() {
    let domain = Domain::new();
    let mut reader = domain.register("stalled").unwrap();
    let mut queue = RetireQueue::new(&domain);
    for item in 0..RETIREMENTS {
        queue.push(item, BYTES);
        if item % 10 == 9 {
            queue.seal();
            assert_eq!(queue.reclaim(100, |_| panic!("the reader may hold it")), 0);
        }
    }
    assert_eq!(
        (queue.len(), queue.bytes(), domain.garbage()),
        (RETIREMENTS, RETIREMENTS * BYTES, RETIREMENTS * BYTES)
    );
    reader.quiescent();
    let mut next = 0;
    while queue.reclaim(997, |item| {
        assert_eq!(item, next, "oldest first");
        next += 1;
    }) > 0
    {}
    assert_eq!(
        (next, queue.len(), queue.bytes(), domain.garbage()),
        (RETIREMENTS, 0, 0, 0)
    );
}

#[test]
fn garbage_never_crosses_the_hard_limit() {
    let limit = RETIREMENTS / 10 * BYTES + 7;
    let domain = Domain::builder()
        .soft_limit(limit / 2)
        .hard_limit(limit)
        .build();
    let mut reader = domain.register("stalled").unwrap();
    let mut queue = RetireQueue::new(&domain);
    let (mut retired, mut refused, mut freed) = (0_usize, 0_usize, 0_usize);
    for _ in 0..RETIREMENTS {
        match domain.admit(BYTES) {
            Ok(()) => {
                queue.push((), BYTES);
                queue.seal();
                retired += 1;
            }
            Err(full) => {
                assert_eq!(
                    (full.garbage, full.requested, full.limit),
                    (domain.garbage(), BYTES, limit)
                );
                refused += 1;
            }
        }
        assert!(domain.garbage() <= limit);
        assert_eq!(domain.over_soft_limit(), domain.garbage() > limit / 2);
    }
    assert_eq!(
        (retired, refused),
        (RETIREMENTS / 10, RETIREMENTS - RETIREMENTS / 10)
    );
    assert_eq!(domain.garbage(), retired * BYTES);

    reader.quiescent();
    freed += queue.reclaim(usize::MAX, |()| ());
    assert_eq!((freed, domain.garbage()), (retired, 0));
    domain.admit(limit).unwrap();
    assert_eq!(domain.admit(limit + 1).unwrap_err().garbage, 0);
    assert_eq!(domain.garbage(), 0, "to admit counts nothing");
}

#[test]
fn deferred_closures_respect_the_limit_among_many_writers() {
    const LIMIT: usize = 1_000;
    let each = if cfg!(miri) { 30 } else { 500 };
    let domain = Domain::builder().hard_limit(LIMIT).build();
    let mut reader = domain.register("stalled").unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let accepted: usize = thread::scope(|s| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(|| {
                    let attempts = (0..each).map(|_| {
                        let ran = Arc::clone(&ran);
                        let ok = domain
                            .defer(10, move || _ = ran.fetch_add(1, Ordering::Relaxed))
                            .is_ok();
                        assert!(domain.garbage() <= LIMIT);
                        usize::from(ok)
                    });
                    attempts.sum::<usize>()
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    assert_eq!((accepted, domain.deferred()), (LIMIT / 10, LIMIT / 10));
    assert_eq!(domain.poll(), 0);
    reader.quiescent();
    assert_eq!(domain.poll_budget(7), 7);
    assert_eq!(domain.poll(), accepted - 7);
    assert_eq!(
        (ran.load(Ordering::Relaxed), domain.garbage()),
        (accepted, 0)
    );
}

#[test]
fn the_blocking_policy_waits_for_the_reader() {
    let domain = Domain::builder()
        .hard_limit(100)
        .policy(LimitPolicy::Block)
        .build();
    let mut reader = domain.register("slow").unwrap();
    domain.defer(100, || ()).unwrap();
    let moved = AtomicBool::new(false);
    thread::scope(|s| {
        let (domain, moved) = (&domain, &moved);
        let writer = s.spawn(move || {
            domain.admit(60).unwrap();
            assert!(
                moved.load(Ordering::Acquire),
                "there was no room before the reader moved"
            );
            domain.defer(60, || ()).unwrap();
        });
        thread::sleep(Duration::from_millis(20));
        moved.store(true, Ordering::Release);
        reader.quiescent();
        writer.join().unwrap();
    });
    assert_eq!(domain.garbage(), 60);
    // More than the limit alone would wait for ever.
    assert_eq!(domain.admit(101).unwrap_err().requested, 101);
}

#[test]
fn the_blocking_policy_never_waits_for_its_own_pin() {
    let domain = Domain::builder()
        .hard_limit(100)
        .policy(LimitPolicy::Block)
        .build();
    let pinned = domain.pin();
    domain.defer(100, || ()).unwrap();
    assert!(domain.admit(1).is_err());
    assert!(domain.defer(1, || ()).is_err());
    drop(pinned);
    domain.admit(1).unwrap();
}

#[test]
fn a_queue_makes_room_for_itself() {
    for policy in [LimitPolicy::Error, LimitPolicy::Block] {
        let domain = Domain::builder()
            .soft_limit(40)
            .hard_limit(80)
            .policy(policy)
            .build();
        let mut queue = RetireQueue::new(&domain);
        let mut freed = 0;
        for item in 0..1_000 {
            queue.make_room(8, |_| freed += 1).unwrap();
            queue.push(item, 8);
            queue.seal();
            assert!(domain.garbage() <= 80);
        }
        assert!(freed >= 990 && freed + queue.len() == 1_000);
        // All in the open batch: waiting would never end, so the blocking policy says no too.
        queue.reclaim(usize::MAX, drop);
        queue.push(0, 80);
        queue.make_room(1, |_| ()).unwrap_err();
        queue.seal();
        queue.make_room(1, |_| ()).unwrap();
        assert!(queue.is_empty());
    }
}

#[test]
fn what_is_reserved_counts_once_and_goes_back() {
    let domain = Domain::builder().hard_limit(100).build();
    let mut queue = RetireQueue::new(&domain);
    queue.reserve(60).unwrap();
    queue.reserve(40).unwrap();
    assert_eq!(
        (queue.reserved(), domain.garbage()),
        (60, 60),
        "40 are part of 60"
    );
    let mut other: RetireQueue<()> = RetireQueue::new(&domain);
    let refused = other.reserve(41).unwrap_err();
    assert_eq!(
        (refused.requested, refused.garbage, refused.limit),
        (41, 60, 100)
    );
    other.reserve(40).unwrap();
    drop(other);
    assert_eq!(
        domain.garbage(),
        60,
        "a queue that goes gives back what it reserved"
    );
    queue.push('a', 10);
    queue.extend([('b', 20), ('c', 20)]);
    assert_eq!(
        (queue.reserved(), queue.bytes(), domain.garbage()),
        (10, 50, 60)
    );
    // More than was reserved is counted, too.
    queue.push('d', 15);
    assert_eq!(
        (queue.reserved(), queue.bytes(), domain.garbage()),
        (0, 65, 65)
    );
    queue.reserve(30).unwrap();
    queue.release(12);
    assert_eq!((queue.reserved(), domain.garbage()), (12, 77));
    queue.release(0);
    queue.seal();
    assert_eq!(queue.reclaim(usize::MAX, drop), 4);
    assert_eq!(domain.garbage(), 0);
    // Without a limit there is nothing to reserve.
    let domain = Domain::new();
    let mut queue = RetireQueue::new(&domain);
    queue.reserve(1 << 40).unwrap();
    assert_eq!((queue.reserved(), domain.garbage()), (0, 0));
    queue.push((), 8);
    queue.release(0);
    assert_eq!(domain.garbage(), 8);
}

#[test]
fn writers_that_reserve_never_pass_the_limit() {
    const LIMIT: usize = 1_000;
    for policy in [LimitPolicy::Error, LimitPolicy::Block] {
        let domain = Domain::builder().hard_limit(LIMIT).policy(policy).build();
        let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    most.fetch_max(domain.garbage(), Ordering::Relaxed);
                }
            });
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let domain = &domain;
                    scope.spawn(move || {
                        let mut queue = RetireQueue::new(domain);
                        for i in 0..rounds {
                            let bytes = 1 + (i * 31 + writer * 97) % 400;
                            // Of what a write may leave, it leaves a part.
                            if queue.make_room(bytes, drop).is_ok() {
                                queue.push(i, bytes / 2);
                                queue.seal();
                                queue.release(0);
                            }
                        }
                        queue.drain(drop);
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(most.into_inner() <= LIMIT);
        assert_eq!(domain.garbage(), 0);
    }
}

#[test]
fn the_stall_report_names_the_reader() {
    let domain = Domain::builder()
        .stall_after(Duration::from_secs(3600))
        .build();
    let mut slow = domain.register("slow").unwrap();
    domain.defer(1, || ()).unwrap();
    assert!(domain.stalls().is_empty(), "not long enough yet");
    slow.quiescent();

    let domain = Domain::builder()
        .stall_after(Duration::from_millis(20))
        .build();
    let mut good = domain.register("good").unwrap();
    let mut bad = domain.register("bad").unwrap();
    assert!(domain.stalls().is_empty(), "no garbage, no stall");
    domain.defer(123, || ()).unwrap();
    assert_eq!(domain.poll(), 0);
    let pinning = AtomicBool::new(true);
    let stalls = thread::scope(|s| {
        let pinner = || {
            let _pinned = domain.pin();
            domain.advance();
            // As a monitor would: notices who is behind.
            domain.stalls();
            while pinning.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let pinned = thread::Builder::new()
            .name("pinner".into())
            .spawn_scoped(s, pinner)
            .unwrap();
        let start = Instant::now();
        let stalls = loop {
            thread::sleep(Duration::from_millis(10));
            good.quiescent();
            let stalls = domain.stalls();
            // This thread may have to wait for a core just here: then the good one was rightly said
            // to stand still.
            let late = stalls.iter().any(|stall| stall.name == "good");
            if stalls.len() >= 2 && !late || start.elapsed() > Duration::from_secs(60) {
                break stalls;
            }
        };
        // Nothing is asserted in here: a failure would leave the scope waiting.
        pinning.store(false, Ordering::Release);
        pinned.join().unwrap();
        stalls
    });
    assert_eq!(stalls.len(), 2, "{stalls:?}");
    assert_eq!(
        (
            stalls[0].name.as_str(),
            stalls[0].kind,
            stalls[0].generations
        ),
        ("bad", StallKind::Reader, 2)
    );
    assert_eq!(stalls[0].bytes, 123);
    assert!(stalls[0].stood_for >= Duration::from_millis(20));
    assert_eq!(
        (stalls[1].name.as_str(), stalls[1].kind),
        ("pinner", StallKind::Pinned)
    );
    bad.quiescent();
    // On a busy machine the good one may have stood still since.
    good.quiescent();
    assert!(domain.stalls().is_empty());
    assert_eq!(domain.poll(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "leaks on purpose")]
fn a_forgotten_reader_holds_garbage_back_for_ever_and_is_named() {
    let domain = Domain::builder().stall_after(Duration::ZERO).build();
    std::mem::forget(domain.register("forgotten").unwrap());
    let mut queue = RetireQueue::new(&domain);
    queue.push((), 8);
    let generation = queue.seal().unwrap();
    for _ in 0..100 {
        assert_eq!(queue.reclaim(1, |()| panic!("too early")), 0);
    }
    assert!(!domain.elapsed(generation));
    assert_eq!(
        (domain.stalls()[0].name.as_str(), domain.readers()),
        ("forgotten", 1)
    );
    // The reader was leaked and its handle of the domain with it; the queue's item is a plain
    // value.
    drop(queue);
    assert_eq!(domain.garbage(), 0);
}

/// Holds back this many bytes, for this many milliseconds.
struct Kept(usize, u64);

impl Holder for Kept {
    fn holds(&self) -> Vec<Hold> {
        vec![Hold {
            name: format!("kept {}", self.0),
            age: Duration::from_millis(self.1),
            versions: 3,
            bytes: self.0,
        }]
    }
}

#[test]
fn the_stall_report_names_what_holds_garbage_back_as_long_as_it_lives() {
    let domain = Domain::builder()
        .stall_after(Duration::from_millis(10))
        .build();
    let [young, old, older, idle] = [(100, 9), (101, 10), (102, 11), (0, 99)]
        .map(|(bytes, age)| -> Arc<dyn Holder> { Arc::new(Kept(bytes, age)) });
    for holder in [&young, &old, &older, &idle] {
        domain.add_holder(Arc::downgrade(holder));
    }
    // Many that come and go leave nothing behind.
    for _ in 0..100 {
        let gone: Arc<dyn Holder> = Arc::new(Kept(1, 99));
        domain.add_holder(Arc::downgrade(&gone));
    }
    assert!(domain.stalls().is_empty(), "no garbage, no stall");
    domain.add_garbage(500);
    let stalls = domain.stalls();
    let names: Vec<_> = stalls.iter().map(|stall| stall.name.as_str()).collect();
    assert_eq!(names, ["kept 102", "kept 101"]);
    assert_eq!(
        (stalls[0].kind, stalls[0].generations, stalls[0].bytes),
        (StallKind::Snapshot, 3, 102)
    );
    assert_eq!(stalls[0].stood_for, Duration::from_millis(11));
    assert_eq!(
        stalls[0].to_string(),
        "snapshot of kept 102 for 0.011 s: 102 bytes wait"
    );
    drop(older);
    assert_eq!(domain.stalls().len(), 1);
    domain.sub_garbage(500);
}

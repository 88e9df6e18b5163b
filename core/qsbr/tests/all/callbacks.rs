//! What deferred closures may call, and threads that would wait for themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use sapwood_qsbr::{Domain, GarbageLimit, LimitPolicy};

/// The message of a panic.
#[track_caller]
fn refused<R>(call: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else {
        panic!("the call returned");
    };
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap()
}

/// How many closures of `closures` a domain refuses, and the most garbage that waited.
fn deferring(domain: &Domain, closures: usize) -> (usize, usize) {
    let (mut refused, mut most) = (0, 0);
    for _ in 0..closures {
        refused += usize::from(domain.defer(64, || ()).is_err());
        most = most.max(domain.garbage());
    }
    (refused, most)
}

#[test]
fn nothing_is_refused_that_could_be_freed() {
    let n = if cfg!(miri) { 2_000 } else { 100_000 };
    let limit = n * 64 / 6;
    let domain = Domain::builder().hard_limit(limit).build();
    let (refused, most) = deferring(&domain, n);
    assert_eq!(refused, 0);
    assert!(most <= limit);
    // A reader that has moved on does not stand in the way either, one that has not does.
    let mut reader = domain.register("reader").unwrap();
    domain.poll();
    assert_eq!(deferring(&domain, limit / 64).0, 0);
    assert_eq!(deferring(&domain, 10).0, 10);
    reader.quiescent();
    assert_eq!(deferring(&domain, 10).0, 0);
    // Room that is asked for, and not deferred.
    reader.quiescent();
    domain.poll();
    assert_eq!(deferring(&domain, limit / 64).0, 0);
    drop(reader);
    domain.admit(limit).unwrap();
    assert_eq!(domain.deferred(), 0);
}

#[test]
fn above_the_soft_limit_a_deferred_closure_frees_what_it_can() {
    let n = if cfg!(miri) { 2_000 } else { 100_000 };
    let domain = Domain::builder().soft_limit(64 << 10).build();
    let (refused, most) = deferring(&domain, n);
    assert_eq!(refused, 0);
    assert!(most <= (64 << 10) + 64, "{most}");
    // Held back, it waits; afterwards the next one frees it.
    let reader = domain.register("reader").unwrap();
    assert_eq!(deferring(&domain, 2_000), (0, domain.garbage()));
    assert!(domain.garbage() >= 2_000 * 64);
    drop(reader);
    domain.defer(64, || ()).unwrap();
    assert_eq!(domain.garbage(), 0);
}

#[test]
fn a_panic_at_the_soft_limit_leaves_the_new_closure_queued() {
    let domain = Domain::builder().soft_limit(100).build();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move || _ = ran.fetch_add(1, SeqCst)
    };
    domain.defer(64, || panic!("by the test")).unwrap();
    assert_eq!(
        refused(|| domain.defer(64, count(&ran)).unwrap()),
        "by the test"
    );
    assert_eq!((domain.deferred(), domain.garbage()), (1, 64));
    assert_eq!((domain.poll(), ran.load(SeqCst)), (1, 1));
}

#[test]
fn a_closure_that_defers_itself_again_does_not_make_a_poll_endless() {
    fn again(domain: Domain, ran: Arc<AtomicUsize>) {
        ran.fetch_add(1, SeqCst);
        let next = (domain.clone(), Arc::clone(&ran));
        if ran.load(SeqCst) < 100 {
            domain.defer(8, move || again(next.0, next.1)).unwrap();
        }
    }
    for builder in [
        Domain::builder(),
        Domain::builder().soft_limit(0),
        Domain::builder().hard_limit(8),
    ] {
        let domain = builder.build();
        let ran = Arc::new(AtomicUsize::new(0));
        again(domain.clone(), Arc::clone(&ran));
        while domain.poll() > 0 {}
        assert_eq!((ran.load(SeqCst), domain.garbage()), (100, 0));
    }
    let domain = Domain::new();
    let ran = Arc::new(AtomicUsize::new(0));
    again(domain.clone(), Arc::clone(&ran));
    assert_eq!((domain.poll(), domain.deferred()), (1, 1));
    while domain.poll() > 0 {}
}

/// A chain of closures, each of which meets the limit, does not take the whole stack.
#[test]
fn closures_that_meet_the_limit_do_not_nest_without_end() {
    let n = if cfg!(miri) { 500 } else { 20_000 };
    let domain = Domain::builder().hard_limit(n * 8).build();
    let reader = domain.register("reader").unwrap();
    for _ in 0..n {
        let inner = domain.clone();
        let nested = move || {
            let buffer = std::hint::black_box([0u8; 1000]);
            let _ = inner.defer(n * 8 - 4 + usize::from(buffer[0]), || ());
        };
        domain.defer(8, nested).unwrap();
    }
    drop(reader);
    while domain.poll() > 0 {}
    assert_eq!((domain.deferred(), domain.garbage()), (0, 0));
}

#[test]
fn what_a_deferred_closure_may_call() {
    let domain = Domain::builder().hard_limit(1 << 20).build();
    type Call = fn(&Domain);
    let calls: [(&str, Call); 9] = [
        ("defer", |domain| domain.defer(8, || ()).unwrap()),
        ("poll", |domain| _ = domain.poll()),
        ("admit", |domain| domain.admit(8).unwrap()),
        ("synchronize", |domain| domain.synchronize()),
        ("pin", |domain| drop(domain.pin())),
        ("register", |domain| drop(domain.register("inside"))),
        ("stalls", |domain| drop(domain.stalls())),
        ("a reader's synchronize", |domain| {
            domain.register("inside").unwrap().synchronize();
        }),
        ("the end of a domain", |_| {
            let other = Domain::new();
            other.defer(8, || ()).unwrap();
            drop(other);
        }),
    ];
    // In a poll of another domain, beside a reader of this one that ends inside the closure.
    for (name, call) in calls {
        let ran = Arc::new(AtomicUsize::new(0));
        let (inner, done) = (domain.clone(), Arc::clone(&ran));
        let reader = domain.register("ends inside").unwrap();
        let other = Domain::new();
        let closure = move || {
            drop(reader);
            call(&inner);
            done.fetch_add(1, SeqCst);
        };
        other.defer(8, closure).unwrap();
        assert_eq!(other.poll(), 1, "{name}");
        while domain.poll() > 0 {}
        assert_eq!((ran.load(SeqCst), domain.garbage()), (1, 0), "{name}");
    }
    // In a poll of the same domain.
    for (name, call) in calls {
        let (ran, inner) = (Arc::new(AtomicUsize::new(0)), domain.clone());
        let done = Arc::clone(&ran);
        let closure = move || {
            call(&inner);
            done.fetch_add(1, SeqCst);
        };
        domain.defer(8, closure).unwrap();
        while domain.poll() > 0 {}
        assert_eq!((ran.load(SeqCst), domain.garbage()), (1, 0), "{name}");
    }
    // A pin of this thread does not stop what does not wait.
    let inner = domain.clone();
    domain
        .defer(8, move || {
            let _pin = inner.pin();
            assert!(refused(|| inner.synchronize()).contains("a pin of the same domain"));
        })
        .unwrap();
    assert_eq!((domain.poll(), domain.garbage()), (1, 0));
}

#[test]
#[cfg_attr(miri, ignore = "it waits by the clock")]
fn a_thread_does_not_wait_for_its_own_reader() {
    let domain = Domain::builder()
        .hard_limit(100)
        .policy(LimitPolicy::Block)
        .build();
    let mut reader = domain.register("mine").unwrap();
    let message = refused(|| domain.synchronize());
    assert!(
        message.contains("reader \"mine\"") && message.contains("it would wait for itself"),
        "{message}"
    );
    let error = domain.try_synchronize().unwrap_err();
    assert_eq!(error.reader.as_deref(), Some("mine"));
    let pin = domain.pin();
    assert_eq!(domain.try_synchronize().unwrap_err().reader, None);
    drop(pin);
    // The domain, and the reader, are as usable as before.
    reader.synchronize();
    let away = reader.offline();
    domain.synchronize();
    drop(away);
    // A wait for room ends with the error.
    domain.defer(100, || ()).unwrap();
    let full = domain.defer(1, || ()).unwrap_err();
    assert_eq!((full.garbage, full.requested, full.limit), (100, 1, 100));
    reader.quiescent();
    domain.defer(1, || ()).unwrap();
}

/// Readers that were made here and are used elsewhere are waited for, however long it takes.
#[test]
#[cfg_attr(miri, ignore = "it waits by the clock")]
fn a_reader_that_went_to_another_thread_is_waited_for() {
    let domain = Domain::new();
    let mut reader = domain.register("elsewhere").unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let busy = std::thread::spawn({
        let domain = domain.clone();
        move || {
            domain.advance();
            reader.quiescent();
            send.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(3_600));
            drop(reader);
        }
    });
    receive.recv().unwrap();
    domain.synchronize();
    busy.join().unwrap();
}

#[test]
fn the_message_of_the_limit_promises_no_names() {
    let domain = Domain::builder().hard_limit(100).build();
    domain.add_garbage(90);
    let full: GarbageLimit = domain.try_admit(20).unwrap_err();
    assert!(domain.stalls().is_empty());
    assert_eq!(
        full.to_string(),
        "20 more bytes would cross the garbage limit: 90 of 100 bytes already wait for a grace \
         period. Readers, pins and snapshots that hold them back for long are in the domain's \
         `stalls()`"
    );
    let alone = domain.try_admit(101).unwrap_err().to_string();
    assert!(
        alone.ends_with("The request alone is more than the limit"),
        "{alone}"
    );
    domain.sub_garbage(90);
}

/// A source and a holder that call the domain that asks them.
#[test]
fn what_a_source_and_a_holder_may_call() {
    use sapwood_qsbr::{GraceSource, Hold, Holder};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Curious(Mutex<Option<Domain>>, AtomicUsize);

    impl Curious {
        fn calls(&self) {
            // The domain is there once it was built. The calls come back to the source.
            let Some(domain) = self.0.lock().unwrap().clone() else {
                return;
            };
            if self.1.fetch_add(1, SeqCst) % 7 == 0 {
                domain.advance();
                domain.poll();
                _ = domain.defer(8, || ());
                drop(domain.pin());
                drop(domain.register("inside"));
                drop(domain.stalls());
            }
        }
    }

    impl GraceSource for Curious {
        fn start(&self) -> u64 {
            self.calls();
            0
        }
        fn elapsed(&self, _: u64) -> bool {
            self.calls();
            true
        }
        fn name(&self) -> &str {
            "curious"
        }
    }

    impl Holder for Curious {
        fn holds(&self) -> Vec<Hold> {
            self.calls();
            Vec::new()
        }
    }

    let curious = Arc::new(Curious::default());
    let domain = Domain::builder().source(curious.clone()).build();
    let holder: Arc<dyn Holder> = curious.clone();
    domain.add_holder(Arc::downgrade(&holder));
    *curious.0.lock().unwrap() = Some(domain.clone());
    for _ in 0..100 {
        domain.defer(8, || ()).unwrap();
        domain.synchronize();
        domain.stalls();
    }
    assert!(curious.1.load(SeqCst) > 100);
    while domain.deferred() > 0 {
        domain.poll();
    }
    // The two no longer hold each other.
    *curious.0.lock().unwrap() = None;
}

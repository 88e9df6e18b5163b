//! Loom models of the protocol. Loom tries every schedule, and every value that a weak memory may
//! show, within the bounds.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test --lib -p sapwood-qsbr --release
//! ```
//!
//! The shared structure is one atomic index into a table of loom cells. A reader *reads* the cell
//! that it finds, and the writer frees a cell by *writing* it. Loom reports any pair of these that
//! no happens-before edge orders. So it finds a cell that is freed while a reader may hold it, even
//! in schedules where the values come out right.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, fence};
use loom::thread;

use crate::{Domain, Guard, RetireQueue};

const LIVE: u64 = 0x5EED;
const FREED: u64 = 0xDEAD;

/// One published object at a time, out of `N`.
struct World {
    domain: Domain,
    published: AtomicUsize,
    objects: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are read and written as the grace periods allow; that this holds is what the
// models check, and loom reports it when it does not.
unsafe impl Sync for World {}
// SAFETY: as above; the world does not belong to a thread.
unsafe impl Send for World {}

impl World {
    fn new(objects: usize) -> Arc<Self> {
        Arc::new(Self {
            domain: Domain::new(),
            published: AtomicUsize::new(0),
            objects: (0..objects).map(|_| UnsafeCell::new(LIVE)).collect(),
        })
    }

    /// The steps of a reader under a guard.
    fn read(&self, guard: Guard<'_>) -> usize {
        assert!(guard.belongs_to(&self.domain));
        let at = self.published.load(Acquire);
        self.touch(at);
        at
    }

    fn touch(&self, at: usize) {
        // SAFETY: loom checks it; see the module's note.
        self.objects[at].with(|object| assert_eq!(unsafe { *object }, LIVE, "read after free"));
    }

    /// Publishes `new` and returns what it has replaced.
    fn replace(&self, new: usize) -> usize {
        // A structure needs only this Release. The domain makes sure that later reads see the
        // store.
        let old = self.published.load(Relaxed);
        self.published.store(new, Release);
        old
    }

    fn free(&self, at: usize) {
        self.objects[at].with_mut(|object| {
            // SAFETY: loom checks it; see the module's note.
            let object = unsafe { &mut *object };
            assert_eq!(*object, LIVE, "freed twice");
            *object = FREED;
        });
    }

    fn freed(&self, at: usize) -> bool {
        // SAFETY: only called after all other threads were joined.
        self.objects[at].with(|object| unsafe { *object } == FREED)
    }
}

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(3);
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        f();
    });
    println!("{executions:?} executions");
}

/// The writer's side: it unlinks object 0, and frees it if its grace period is over within `tries`
/// checks.
fn unlink_and_free(world: &World, tries: usize) {
    let old = world.replace(1);
    let generation = world.domain.advance();
    if (0..tries).any(|_| world.domain.elapsed(generation)) {
        world.free(old);
    }
}

/// An online reader that passes quiescent states. Nothing is freed before the one that follows the
/// unlinking.
#[test]
fn quiescent_reader() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            shared.read(reader.guard());
            reader.quiescent();
            let guard = reader.guard();
            let held = shared.read(guard);
            shared.read(guard);
            shared.touch(held);
            reader.quiescent();
        });
        unlink_and_free(&world, 2);
        thread.join().unwrap();
    });
}

/// A reader that comes online while the writer scans: the two fences.
#[test]
fn coming_online() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        reader.set_offline();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            let guard = reader.guard();
            let held = shared.read(guard);
            shared.touch(held);
        });
        unlink_and_free(&world, 1);
        thread.join().unwrap();
    });
}

/// A reader that goes online, offline and online again within one scan.
#[test]
fn offline_and_back() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            shared.read(reader.guard());
            drop(reader.offline());
            shared.read(reader.guard());
            reader.set_offline();
            let held = shared.read(reader.guard());
            shared.touch(held);
        });
        unlink_and_free(&world, 2);
        thread.join().unwrap();
    });
}

/// Registration while a grace period runs, with a new slot: the list is pushed to during the scan.
#[test]
fn registration_during_scan() {
    model(|| {
        let world = World::new(2);
        let shared = world.clone();
        let thread = thread::spawn(move || {
            let reader = shared.domain.register("r").unwrap();
            let guard = reader.guard();
            let held = shared.read(guard);
            shared.touch(held);
        });
        unlink_and_free(&world, 1);
        thread.join().unwrap();
    });
}

/// Two registrations race for the list's head, and one of the slots is used again.
#[test]
fn slots_are_never_shared() {
    model(|| {
        let world = World::new(2);
        drop(world.domain.register("gone").unwrap());
        let threads = [0, 1].map(|_| {
            let shared = world.clone();
            thread::spawn(move || {
                let reader = shared.domain.register("r").unwrap();
                shared.read(reader.guard());
                drop(reader);
            })
        });
        unlink_and_free(&world, 1);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(world.domain.reader_slots() <= 3);
        let generation = world.domain.advance();
        assert!(world.domain.elapsed(generation), "nobody is left");
    });
}

/// A slot that one reader leaves and another takes, while the writer scans.
#[test]
fn slot_handed_over() {
    model(|| {
        let world = World::new(2);
        let first = world.domain.register("first").unwrap();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            shared.read(first.guard());
            drop(first);
            let second = shared.domain.register("second").unwrap();
            shared.read(second.guard());
        });
        unlink_and_free(&world, 2);
        thread.join().unwrap();
        assert_eq!(world.domain.reader_slots(), 1);
    });
}

/// Three threads unlink, ask and read. The answer is passed on by `known`.
#[test]
fn asked_by_another_thread() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        reader.set_offline();
        let reading = {
            let shared = world.clone();
            thread::spawn(move || {
                let held = shared.read(reader.guard());
                shared.touch(held);
                reader.quiescent();
            })
        };
        let asking = {
            let shared = world.clone();
            thread::spawn(move || {
                let generation = shared.domain.generation();
                shared.domain.elapsed(generation);
            })
        };
        unlink_and_free(&world, 1);
        asking.join().unwrap();
        reading.join().unwrap();
    });
}

/// Two writers retire through queues of their own. Each item comes back exactly once, and not too
/// early.
#[test]
fn two_writers_free_exactly_once() {
    model(|| {
        let world = World::new(3);
        let mut reader = world.domain.register("r").unwrap();
        let reading = {
            let shared = world.clone();
            thread::spawn(move || {
                let held = shared.read(reader.guard());
                shared.touch(held);
                reader.quiescent();
                shared.read(reader.guard());
            })
        };
        let write = |world: &World, new: usize| {
            let mut queue = RetireQueue::new(&world.domain);
            // An exchange, as two writers race here.
            queue.push(
                world
                    .published
                    .swap(new, loom::sync::atomic::Ordering::AcqRel),
                8,
            );
            queue.seal();
            queue.reclaim(1, |at| world.free(at));
            queue
        };
        let writing = {
            let shared = world.clone();
            thread::spawn(move || write(&shared, 1))
        };
        let mut ours = write(&world, 2);
        let mut theirs = writing.join().unwrap();
        reading.join().unwrap();
        ours.reclaim(1, |at| world.free(at));
        theirs.reclaim(1, |at| world.free(at));
        assert!(ours.is_empty() && theirs.is_empty());
        let live = world.published.load(Acquire);
        assert!((0..3).all(|at| world.freed(at) == (at != live)));
        assert_eq!(world.domain.garbage(), 0);
    });
}

/// Two threads poll the same deferred closures. Each closure runs once, and not too early.
#[test]
fn deferred_run_exactly_once() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        let reading = {
            let shared = world.clone();
            thread::spawn(move || {
                let held = shared.read(reader.guard());
                shared.touch(held);
                reader.quiescent();
                shared.domain.poll();
            })
        };
        let old = world.replace(1);
        let shared = world.clone();
        world.domain.defer(8, move || shared.free(old)).unwrap();
        world.domain.poll();
        reading.join().unwrap();
        // Also breaks the cycle from the domain through the closure to the world.
        world.domain.poll();
        assert_eq!((world.domain.deferred(), world.domain.garbage()), (0, 0));
        assert!(world.freed(old));
    });
}

/// Nested pins: the thread is online only within the outermost one, which has its own fence.
#[test]
fn pinning() {
    model(|| {
        let world = World::new(2);
        let shared = world.clone();
        let thread = thread::spawn(move || {
            let outer = shared.domain.pin();
            let held = shared.read(outer.guard());
            let inner = shared.domain.pin();
            shared.read(inner.guard());
            drop(inner);
            shared.touch(held);
            drop(outer);
            let again = shared.domain.pin();
            shared.read(again.guard());
        });
        unlink_and_free(&world, 2);
        thread.join().unwrap();
    });
}

/// `synchronize` returns, and keeps its promise.
#[test]
fn synchronizing() {
    model(|| {
        let world = World::new(2);
        let mut reader = world.domain.register("r").unwrap();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            shared.read(reader.guard());
            reader.quiescent();
            let held = shared.read(reader.guard());
            shared.touch(held);
        });
        let old = world.replace(1);
        world.domain.synchronize();
        world.free(old);
        thread.join().unwrap();
        assert!(world.freed(old));
    });
}

/// A reader whose thread unwinds while it holds a guard. It is unregistered, so it holds nothing
/// back.
#[test]
fn reader_lost_to_a_panic() {
    model(|| {
        let world = World::new(2);
        let reader = world.domain.register("r").unwrap();
        let shared = world.clone();
        let thread = thread::spawn(move || {
            let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let guard = reader.guard();
                shared.read(guard);
                std::panic::resume_unwind(Box::new(()));
            }));
            assert!(lost.is_err());
        });
        unlink_and_free(&world, 1);
        thread.join().unwrap();
        let generation = world.domain.advance();
        assert!(world.domain.elapsed(generation));
    });
}

/// The models can fail: the same reader and writer, but the reader forgets the fence that
/// `come_online` has.
#[test]
#[should_panic]
fn without_the_fence_it_fails() {
    model(|| {
        let world = World::new(2);
        let slot = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let (shared, theirs) = (world.clone(), slot.clone());
        let thread = thread::spawn(move || {
            theirs.store(1, Release);
            let held = shared.published.load(Acquire);
            shared.touch(held);
        });
        let old = world.replace(1);
        fence(loom::sync::atomic::Ordering::SeqCst);
        if slot.load(Acquire) == 0 {
            world.free(old);
        }
        thread.join().unwrap();
    });
}

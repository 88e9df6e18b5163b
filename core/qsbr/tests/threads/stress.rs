//! Threads against a canary: whatever is freed is poisoned first, whatever is read is checked.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use sapwood_qsbr::{Domain, Guard, RetireQueue};

const MAGIC: u64 = 0x5A9_0BA5_E5EE_D5ED;
const POISON: u64 = 0xDEAD_DEAD_DEAD_DEAD;
const WRITES: usize = if cfg!(miri) { 60 } else { 100_000 };
const WRITERS: usize = 2;

struct Canary {
    magic: AtomicU64,
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

fn hatch() -> *mut Canary {
    ALIVE.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(Canary {
        magic: AtomicU64::new(MAGIC),
    }))
}

/// # Safety
///
/// `canary` came from `hatch` and nobody else uses it any more.
unsafe fn free(canary: *mut Canary) {
    // SAFETY: the caller says that it is ours alone.
    let canary = unsafe { Box::from_raw(canary) };
    assert_eq!(
        canary.magic.swap(POISON, Ordering::Relaxed),
        MAGIC,
        "freed twice"
    );
    ALIVE.fetch_sub(1, Ordering::Relaxed);
}

fn read<'g>(published: &AtomicPtr<Canary>, _guard: Guard<'g>) -> &'g Canary {
    // SAFETY: what is published is freed a grace period after it was replaced; the guard's lifetime
    // ends before its reader's next quiescent state.
    let canary = unsafe { &*published.load(Ordering::Acquire) };
    assert_eq!(
        canary.magic.load(Ordering::Relaxed),
        MAGIC,
        "read after free"
    );
    canary
}

/// A pointer that may change threads on its way to be freed.
struct Retired(*mut Canary);
// SAFETY: a canary has no ties to a thread.
unsafe impl Send for Retired {}

impl Retired {
    fn free(self) {
        // SAFETY: handed over after its grace period, once.
        unsafe { free(self.0) }
    }
}

#[test]
fn nobody_reads_a_dead_canary() {
    let domain = Domain::new();
    let published = AtomicPtr::new(hatch());
    let running = AtomicUsize::new(WRITERS);
    let reads = AtomicUsize::new(0);
    let freed = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        let (domain, published, running, reads, freed, stop) =
            (&domain, &published, &running, &reads, &freed, &stop);
        // A loop with quiescent states, and offline times of every kind.
        s.spawn(move || {
            let mut reader = domain.register("loop").unwrap();
            for turn in 0_usize.. {
                // Once in any case, however late this thread begins.
                if turn > 0 && stop.load(Ordering::Acquire) {
                    break;
                }
                let guard = reader.guard();
                let first = read(published, guard);
                read(published, guard);
                assert_eq!(first.magic.load(Ordering::Relaxed), MAGIC);
                reads.fetch_add(1, Ordering::Relaxed);
                match turn % 16 {
                    3 => drop(reader.offline()),
                    7 => reader.set_offline(),
                    11 => thread::yield_now(),
                    _ => reader.quiescent(),
                }
            }
        });
        // Readers that come and go.
        s.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let reader = domain.register("short").unwrap();
                let first = read(published, reader.guard());
                thread::yield_now();
                assert_eq!(first.magic.load(Ordering::Relaxed), MAGIC);
            }
        });
        // Pins, nested too.
        s.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let outer = domain.pin();
                let first = read(published, outer.guard());
                read(published, domain.pin().guard());
                assert_eq!(first.magic.load(Ordering::Relaxed), MAGIC);
                drop(outer);
                thread::yield_now();
            }
        });
        for writer in 0..WRITERS {
            s.spawn(move || {
                let mut queue = RetireQueue::new(domain);
                for turn in 0..WRITES {
                    let old = Retired(published.swap(hatch(), Ordering::AcqRel));
                    if turn % 8 == writer {
                        domain.defer(8, move || old.free()).unwrap();
                        freed.fetch_add(domain.poll_budget(2), Ordering::Relaxed);
                    } else {
                        queue.push(old, 8);
                        queue.seal();
                    }
                    freed.fetch_add(queue.reclaim(3, Retired::free), Ordering::Relaxed);
                    if turn % 512 == 0 {
                        domain.synchronize();
                    }
                }
                while !queue.is_empty() {
                    freed.fetch_add(queue.reclaim(usize::MAX, Retired::free), Ordering::Relaxed);
                    thread::yield_now();
                }
                if running.fetch_sub(1, Ordering::AcqRel) == 1 {
                    stop.store(true, Ordering::Release);
                }
            });
        }
    });
    freed.fetch_add(domain.poll(), Ordering::Relaxed);
    assert_eq!(freed.into_inner(), WRITERS * WRITES);
    assert!(reads.into_inner() > 0);
    assert_eq!(
        (
            domain.garbage(),
            domain.deferred(),
            ALIVE.load(Ordering::Relaxed)
        ),
        (0, 0, 1)
    );
    // SAFETY: all threads have ended, and this one was never retired.
    unsafe { free(published.into_inner()) };
}

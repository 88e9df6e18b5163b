//! Readers for tokio's worker threads. Each worker has a [`Reader`] of its own, which is offline
//! while the worker is parked.
//!
//! [`install`] puts four hooks into a runtime's builder. Tasks then read through [`with_guard`],
//! which takes a closure, so that nothing read can be held across an `.await` (where the task might
//! move to another thread, or the thread might park):
//!
//! ```
//! use sapwood_qsbr::{Domain, tokio_hooks};
//!
//! let domain = Domain::new();
//! let mut builder = tokio::runtime::Builder::new_multi_thread();
//! tokio_hooks::install(builder.worker_threads(2), &domain);
//! let runtime = builder.build().unwrap();
//!
//! let handle = domain.clone();
//! let task = runtime.spawn(async move {
//!     let found = tokio_hooks::with_guard(&handle, |guard| {
//!         assert!(guard.belongs_to(&handle));
//!         42 // ... look something up, and copy or clone it ...
//!     });
//!     tokio::task::yield_now().await;
//!     found
//! });
//! assert_eq!(runtime.block_on(task).unwrap(), 42);
//! ```
//!
//! A guard cannot leave the closure:
//!
//! ```compile_fail
//! # let domain = sapwood_qsbr::Domain::new();
//! let guard = sapwood_qsbr::tokio_hooks::with_guard(&domain, |guard| guard); // error: lifetime may not live long enough
//! ```
//!
//! A closure that runs for long holds garbage back. So does a task that does not yield for long
//! after a `with_guard` on the same worker: it should call [`quiescent`], or [`offline`] before its
//! long work.

use alloc::format;
use alloc::vec::Vec;
use core::cell::RefCell;
use std::thread_local;

use tokio::runtime::Builder;

use crate::domain::Domain;
use crate::reader::{Guard, Reader};

struct Worker {
    reader: Reader,
    /// Whether the park hook has run on this thread. Until then nothing would take the reader
    /// offline: the start hook runs on the threads of `spawn_blocking` too, which do not call the
    /// park hook.
    parks: bool,
}

impl Worker {
    fn is_of(&self, domain: &Domain) -> bool {
        self.parks && self.reader.domain().ptr_eq(domain)
    }
}

thread_local! {
    static WORKERS: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// Installs the hooks for `domain`. Start registers a reader, park takes it offline, stop
/// unregisters it. After unpark the reader comes online with its first guard.
///
/// A builder has one hook of each kind: this replaces hooks that were set before, and hooks that
/// are set later replace it. To combine several domains, or with other hooks, call
/// [`thread_start`], [`thread_park`], [`thread_unpark`] and [`thread_stop`] from hooks of your own.
/// This works for the multi-threaded and the current-thread runtime. The latter has no start and
/// stop hooks for the thread that calls `block_on`: there [`with_guard`] pins.
pub fn install<'b>(builder: &'b mut Builder, domain: &Domain) -> &'b mut Builder {
    let domain = domain.clone();
    builder
        .on_thread_start(move || thread_start(&domain))
        .on_thread_park(thread_park)
        .on_thread_unpark(thread_unpark)
        .on_thread_stop(thread_stop)
}

/// Registers an offline reader for a runtime's thread. Call it when the thread starts.
///
/// If the domain has the most readers that it allows, the thread gets none, and [`with_guard`] pins
/// there.
pub fn thread_start(domain: &Domain) {
    let thread = std::thread::current();
    let name = format!("{} {:?}", thread.name().unwrap_or("tokio"), thread.id());
    if let Ok(mut reader) = domain.register(name) {
        reader.set_offline();
        with_workers_mut(|workers| {
            workers.push(Worker {
                reader,
                parks: false,
            })
        });
    }
}

/// Takes this thread's readers offline. Call it before a worker parks.
pub fn thread_park() {
    with_workers_mut(|workers| {
        for worker in workers {
            worker.parks = true;
            worker.reader.set_offline();
        }
    });
}

/// Notes that a worker has unparked. Call it then. The readers come online with their first guard,
/// since many turns read nothing.
pub fn thread_unpark() {
    with_workers_mut(|workers| workers.iter_mut().for_each(|worker| worker.parks = true));
}

/// Unregisters this thread's readers. Call it before a runtime's thread ends.
pub fn thread_stop() {
    // Dropped after the borrow has ended: the last handle of a domain runs its deferred closures,
    // which may call these functions.
    let mut workers = Vec::new();
    with_workers_mut(|all| workers = core::mem::take(all));
}

/// Calls `f`, but does nothing inside `with_guard`, which borrows the workers: there a guard lives,
/// so the thread is not quiescent. (`block_in_place` can run other tasks' hooks there.)
fn with_workers_mut(f: impl FnOnce(&mut Vec<Worker>)) -> bool {
    WORKERS
        .try_with(|workers| {
            workers
                .try_borrow_mut()
                .map(|mut workers| f(&mut workers))
                .is_ok()
        })
        .unwrap_or(false)
}

/// Calls `f` with a guard of `domain`.
///
/// On a worker with hooks that has parked once, it costs a look at a thread-local and a quiescent
/// state afterwards. On any other thread it pins (see [`Domain::pin`]). Calls may be nested; only
/// the outermost one ends with a quiescent state.
///
/// # Panics
///
/// When `f` panics. The reader stays usable.
pub fn with_guard<R>(domain: &Domain, f: impl for<'g> FnOnce(Guard<'g>) -> R) -> R {
    let mut f = Some(f);
    let read = WORKERS.try_with(|workers| {
        let workers = workers.try_borrow().ok()?;
        let worker = workers.iter().find(|worker| worker.is_of(domain))?;
        f.take().map(|f| f(worker.reader.guard()))
    });
    match (read, f) {
        (Ok(Some(result)), _) => {
            quiescent(domain);
            result
        }
        (_, Some(f)) => f(domain.pin().guard()),
        (_, None) => unreachable!("`f` is taken only where a result comes back"),
    }
}

/// Announces a quiescent state of this thread's reader, for long work between two awaits.
///
/// Returns whether it did: `false` inside [`with_guard`], and on threads where `with_guard` pins,
/// which hold nothing back between calls.
pub fn quiescent(domain: &Domain) -> bool {
    with_reader_mut(domain, Reader::quiescent)
}

/// Takes this thread's reader offline until its next guard, before long work without a guard.
///
/// Returns whether it did; see [`quiescent`].
pub fn offline(domain: &Domain) -> bool {
    with_reader_mut(domain, Reader::set_offline)
}

fn with_reader_mut(domain: &Domain, f: impl FnOnce(&mut Reader)) -> bool {
    let mut found = false;
    with_workers_mut(|workers| {
        if let Some(worker) = workers.iter_mut().find(|worker| worker.is_of(domain)) {
            f(&mut worker.reader);
            found = true;
        }
    });
    found
}

//! Grace periods of the kernel: the time until all programs that were running have ended.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use sapwood_qsbr::{Domain, GraceSource};

use crate::error::Error;
use crate::raw::arena::any_allows_sleepable;
use crate::raw::sleep::SleepableGrace;
use crate::support;

/// The method of waiting for the kernel's readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Replaces a map in a map of maps. The kernel guarantees that this system call returns only
    /// when all non-sleepable programs that were running have ended.
    MapInMap,
    /// Calls `membarrier(MEMBARRIER_CMD_GLOBAL)`, which waits for the kernel's RCU. Kernels that
    /// run with `nohz_full` do not offer it.
    Membarrier,
}

/// The kernel as a [`GraceSource`]. A domain with this source frees a removed block only when every
/// non-sleepable BPF program that was running at the removal has ended.
///
/// A separate thread waits for the kernel, and one wait covers all blocks that were retired before
/// it began. Writers do not wait for the kernel. A grace period takes 4 to 20 ms.
///
/// A period also waits for programs that may sleep when it begins while this process has an arena
/// that allows them ([`BpfArena::allow_sleepable`](crate::BpfArena::allow_sleepable)), whichever
/// arena it is for. It then takes some 30 to 300 ms, and longer while such a program sleeps.
/// [`Loader`](crate::Loader) refuses them in other arenas.
///
/// ```no_run
/// use sapwood_bpf::KernelGrace;
/// use sapwood_qsbr::Domain;
/// let domain = Domain::builder().source(KernelGrace::new()?).build();
/// # let _ = domain;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct KernelGrace {
    shared: Arc<Shared>,
    way: Way,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many grace periods were requested, and how many of them are over. A period that begins
    /// covers all earlier requests.
    asked: u64,
    over: u64,
    ends: bool,
    /// The kernel's error, if it refused. No grace period ends after that.
    failed: Option<String>,
    /// Whether the last period that began waits for sleepable programs, too.
    sleepable: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time between two questions whether a period for sleepable programs is over: it doubles.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

/// A method of waiting, with the resources that it needs.
enum Waiter {
    MapInMap { outer: MapHandle, inner: MapHandle },
    Membarrier,
}

impl Waiter {
    fn map_in_map() -> Result<Waiter, Error> {
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
            ..Default::default()
        };
        let inner = MapHandle::create(MapType::Array, Some("sw_grace_in"), 4, 4, 1, &options)
            .map_err(|error| Error::system("making a map", error))?;
        let options = sys::bpf_map_create_opts {
            inner_map_fd: inner.as_fd().as_raw_fd() as u32,
            ..options
        };
        let outer = MapHandle::create(MapType::ArrayOfMaps, Some("sw_grace"), 4, 4, 1, &options)
            .map_err(|error| Error::system("making a map of maps", error))?;
        let waiter = Waiter::MapInMap { outer, inner };
        waiter.wait()?;
        Ok(waiter)
    }

    fn membarrier() -> Result<Waiter, Error> {
        let supported = rustix::thread::membarrier_query();
        if !supported.contains(rustix::thread::MembarrierQuery::GLOBAL) {
            return Err(Error::NoGrace("membarrier is not to be had".into()));
        }
        Waiter::Membarrier.wait()?;
        Ok(Waiter::Membarrier)
    }

    /// Waits for all programs that are running now.
    fn wait(&self) -> Result<(), Error> {
        match self {
            Waiter::MapInMap { outer, inner } => {
                let fd = inner.as_fd().as_raw_fd() as u32;
                outer
                    .update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                    .map_err(|error| Error::system("updating a map of maps", error))
            }
            Waiter::Membarrier => {
                rustix::thread::membarrier(rustix::thread::MembarrierCommand::Global)
                    .map_err(|error| Error::io("membarrier", error.into()))
            }
        }
    }
}

impl KernelGrace {
    /// Makes a source of grace periods, by the first method that this kernel supports.
    ///
    /// # Errors
    /// [`Error::Capabilities`], [`Error::Kernel`], [`Error::NoGrace`].
    pub fn new() -> Result<Arc<KernelGrace>, Error> {
        match KernelGrace::by(Way::MapInMap) {
            Ok(grace) => Ok(grace),
            Err(first) => KernelGrace::by(Way::Membarrier)
                .map_err(|second| Error::NoGrace(format!("{first}; {second}"))),
        }
    }

    /// Makes a source of grace periods that uses this method.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn by(way: Way) -> Result<Arc<KernelGrace>, Error> {
        support::check()?;
        let waiter = match way {
            _ if cfg!(fuzzing) => Waiter::Membarrier,
            Way::MapInMap => Waiter::map_in_map()?,
            Way::Membarrier => Waiter::membarrier()?,
        };
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("sapwood-grace".into())
            .spawn(move || run(&theirs, &waiter))
            .map_err(|error| Error::io("starting a thread", error))?;
        Ok(Arc::new(KernelGrace {
            shared,
            way,
            thread: Some(thread),
        }))
    }

    /// The method of waiting for the kernel's readers.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Waits until every non-sleepable program that is running now has ended; also every sleepable
    /// one, when this process has an arena that allows them.
    ///
    /// # Errors
    /// [`Error::NoGrace`] when the kernel refuses.
    pub fn wait(&self) -> Result<(), Error> {
        let token = self.start();
        let mut state = self.shared.lock();
        while state.over < token {
            if let Some(why) = &state.failed {
                return Err(Error::NoGrace(why.clone()));
            }
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// The number of grace periods that are over.
    pub fn periods(&self) -> u64 {
        self.shared.lock().over
    }

    /// The kernel's error, if it refused. Blocks that are removed afterwards are never freed.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }
}

/// Makes a domain whose grace periods wait for the kernel's readers, too.
///
/// # Errors
/// As [`KernelGrace::new`].
pub fn kernel_domain() -> Result<Domain, Error> {
    Ok(Domain::builder().source(KernelGrace::new()?).build())
}

fn run(shared: &Shared, waiter: &Waiter) {
    let mut state = shared.lock();
    loop {
        if state.ends {
            return;
        }
        if state.asked == state.over {
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let covered = state.asked;
        drop(state);
        let waited = wait_for_all(shared, waiter);
        state = shared.lock();
        match waited {
            Ok(true) => state.over = covered,
            Ok(false) => return,
            Err(error) => {
                state.failed = Some(error.to_string());
                shared.changed.notify_all();
                return;
            }
        }
        shared.changed.notify_all();
    }
}

/// Waits for all programs that are running now. Returns `false` when the source was dropped before
/// the sleepable ones had ended.
fn wait_for_all(shared: &Shared, waiter: &Waiter) -> Result<bool, Error> {
    let sleepable = any_allows_sleepable();
    shared.lock().sleepable = sleepable;
    if !sleepable {
        waiter.wait()?;
        return Ok(true);
    }
    let period = SleepableGrace::begin()?;
    // A period of tasks-trace RCU need not be one of RCU.
    waiter.wait()?;
    let mut pause = PAUSES.0;
    while !period.is_over()? {
        let state = shared.lock();
        let (state, _) = shared
            .changed
            .wait_timeout_while(state, pause, |state| !state.ends)
            .unwrap_or_else(PoisonError::into_inner);
        if state.ends {
            return Ok(false);
        }
        pause = (pause * 2).min(PAUSES.1);
    }
    Ok(true)
}

impl GraceSource for KernelGrace {
    fn start(&self) -> u64 {
        // The waiting thread sees this thread's earlier stores, because both take the lock. The
        // system call is the barrier for the programs.
        let mut state = self.shared.lock();
        state.asked += 1;
        let token = state.asked;
        if cfg!(fuzzing) {
            // A fuzzer runs no programs.
            state.over = token;
        }
        drop(state);
        self.shared.changed.notify_all();
        token
    }

    fn elapsed(&self, token: u64) -> bool {
        self.shared.lock().over >= token
    }

    fn name(&self) -> &str {
        match (self.way, self.shared.lock().sleepable) {
            (Way::MapInMap, false) => "kernel (map in map)",
            (Way::MapInMap, true) => "kernel (map in map, sleepable programs)",
            (Way::Membarrier, false) => "kernel (membarrier)",
            (Way::Membarrier, true) => "kernel (membarrier, sleepable programs)",
        }
    }
}

impl Drop for KernelGrace {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for KernelGrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelGrace")
            .field("way", &self.way)
            .finish()
    }
}

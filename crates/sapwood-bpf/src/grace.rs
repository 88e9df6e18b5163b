//! The kernel's readers: when have all programs ended that were running?

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use sapwood_qsbr::{Domain, GraceSource};

use crate::error::Error;
use crate::support;

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Replacing a map in a map of maps: the system call returns when all non-sleepable programs
    /// that were running have ended. The kernel does so for this very purpose.
    MapInMap,
    /// `membarrier(MEMBARRIER_CMD_GLOBAL)`: waits for the kernel's RCU. Not on kernels that run
    /// `nohz_full`.
    Membarrier,
}

/// The kernel as a [`GraceSource`]: a domain with it frees what was removed only when every
/// non-sleepable BPF program that was running at the removal has ended.
///
/// A thread of its own asks the kernel, once for all that was retired meanwhile: writers never
/// wait. A grace period takes 4 to 20 ms. Programs that may sleep are not waited for;
/// [`Loader`](crate::Loader) refuses them.
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
    /// Grace periods asked for, begun, and over. A period that begins covers all that were asked
    /// for before.
    asked: u64,
    over: u64,
    ends: bool,
    /// What the kernel said when it refused; nothing ends after that.
    failed: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One way to wait, ready to be used.
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
    /// The kernel as a source of grace periods, in the best way that works here.
    ///
    /// # Errors
    /// [`Error::NotRoot`], [`Error::Kernel`], [`Error::NoGrace`].
    pub fn new() -> Result<Arc<KernelGrace>, Error> {
        match KernelGrace::by(Way::MapInMap) {
            Ok(grace) => Ok(grace),
            Err(first) => KernelGrace::by(Way::Membarrier)
                .map_err(|second| Error::NoGrace(format!("{first}; {second}"))),
        }
    }

    /// As [`new`](Self::new), in this way.
    ///
    /// # Errors
    /// As there.
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

    /// How the kernel is asked.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Waits until every non-sleepable program that is running now has ended.
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

    /// Grace periods that are over.
    pub fn periods(&self) -> u64 {
        self.shared.lock().over
    }

    /// Why the kernel refused, if it did: what was removed afterwards is never freed.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }
}

/// A domain whose grace periods wait for the kernel's readers too.
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
        let waited = waiter.wait();
        state = shared.lock();
        match waited {
            Ok(()) => state.over = covered,
            Err(error) => {
                state.failed = Some(error.to_string());
                shared.changed.notify_all();
                return;
            }
        }
        shared.changed.notify_all();
    }
}

impl GraceSource for KernelGrace {
    fn start(&self) -> u64 {
        // What this thread did before is seen by the one that asks the kernel: both hold the lock.
        // The system call is the barrier for the programs.
        let mut state = self.shared.lock();
        state.asked += 1;
        let token = state.asked;
        if cfg!(fuzzing) {
            // No program runs.
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
        match self.way {
            Way::MapInMap => "kernel (map in map)",
            Way::Membarrier => "kernel (membarrier)",
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

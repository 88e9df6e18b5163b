//! The service of a map that sleeps until a program wakes it.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{ProgramMap, ProgramMapService};
use crate::error::Error;
use crate::loader::Programs;

/// The name of the ring buffer that `doorbell.bpf.h` declares.
const RING: &str = "sw_doorbell_ring";

/// The steps without work after which a service rests.
const IDLE: u32 = 16;

/// Where programs ring when a map's memory is low (`sapwood/doorbell.bpf.h`).
///
/// ```no_run
/// use std::time::Duration;
/// use sapwood_bpf::{BpfArena, Doorbell, Loader, ProgramMap};
/// let arena = BpfArena::create(64 << 20)?;
/// let seen = ProgramMap::<u64>::builder(&arena, "seen").build()?;
/// let programs = Loader::open_file(&arena, "seen.bpf.o")?.load()?;
/// let bell = Doorbell::of(&programs)?;
/// let service = seen.spawn_service_at(bell, Duration::from_millis(1), Duration::from_secs(1))?;
/// # drop(service);
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
pub struct Doorbell {
    ring: RingBuffer<'static>,
    map: OwnedFd,
}

impl Doorbell {
    /// The doorbell of an object's programs. It wakes one service, so an object rings for one map.
    ///
    /// # Errors
    /// [`Error::Missing`] when the object does not include the header; the system's error.
    pub fn of(programs: &Programs) -> Result<Doorbell, Error> {
        let map = programs.map(RING)?;
        let fail = |error| Error::system("opening the doorbell", error);
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |_| 0).map_err(fail)?;
        let ring = builder.build().map_err(fail)?;
        let map = map.as_fd().try_clone_to_owned();
        let map = map.map_err(|error| Error::io("opening the doorbell", error))?;
        Ok(Doorbell { ring, map })
    }

    /// Waits until a program rings, or the time is over, or `wake` is written to.
    fn wait(&self, wake: &OwnedFd, time: Duration) -> Result<(), Error> {
        let both = [&self.map, wake].map(|fd| PollFd::new(fd, PollFlags::IN));
        wait(both, time)?;
        // From here on, programs ring anew.
        self.ring
            .consume()
            .map_err(|error| Error::system("answering the doorbell", error))
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").finish_non_exhaustive()
    }
}

/// Waits until one of these can be read, or the time is over.
fn wait<const N: usize>(mut fds: [PollFd<'_>; N], time: Duration) -> Result<(), Error> {
    let time = Timespec {
        tv_sec: time.as_secs().min(i64::MAX as u64) as _,
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::io("waiting for the doorbell", error.into())),
    }
}

impl<V> ProgramMap<V> {
    /// A thread that services the map as [`spawn_service`](Self::spawn_service) does, and rests
    /// when nothing happens: it then wakes up when a program rings, or after `rest`. While there is
    /// work, it takes a step every so often, and rings do not make it quicker. It ends when the
    /// handle is dropped.
    ///
    /// Programs must ring behind their insertions (`sw_doorbell`). Then a map whose service rests
    /// has the memory for the insertions of the next milliseconds, if it is made with all its
    /// memory at once: an eighth of it or more is left when the first program rings.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn_service_at(
        &self,
        doorbell: Doorbell,
        every: Duration,
        rest: Duration,
    ) -> Result<ProgramMapService, Error> {
        let shared = Arc::clone(&self.shared);
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("making an event", error.into()))?;
        let wake = Arc::new(wake);
        let woken = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("sapwood-service".into())
            .spawn(move || {
                let mut idle = 0;
                while !told.load(Ordering::Acquire) && !shared.ends.load(Ordering::Acquire) {
                    idle = match shared.step()?.is_idle() {
                        true => (idle + 1).min(IDLE),
                        false => 0,
                    };
                    wait([PollFd::new(&woken, PollFlags::IN)], every)?;
                    let more = match idle {
                        IDLE => rest.saturating_sub(every),
                        _ => every * idle,
                    };
                    doorbell.wait(&woken, more)?;
                }
                Ok(())
            })
            .map_err(|error| Error::io("starting a thread", error))?;
        Ok(ProgramMapService {
            ends,
            wake: Some(wake),
            thread: Some(thread),
        })
    }
}

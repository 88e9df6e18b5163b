//! The kernel's routes in tables that programs read.

mod dump;
mod netlink;
mod table;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ipnet::IpNet;
use netlink_sys::Socket;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use sapwood::lpm::FibMemory;
use sapwood_arena::ArenaFull;

use self::dump::asking;
use self::netlink::{Heard, everything, hear, listening};
use self::table::Model;
use crate::error::Error;
use crate::fib::IpMap;
use crate::layout::MirrorHop;

/// Bytes of the buffer for notifications, unless it is said otherwise: some thousand changes.
const BUFFER: usize = 1 << 20;

/// Datagrams that are read before what they say is written into the tables.
const AT_ONCE: usize = 256;

/// When something failed, it is tried again after so long.
const AGAIN: Duration = Duration::from_millis(20);

/// Follows the routes of a network namespace, and writes them into tables that programs forward by
/// (`sapwood/lpm.bpf.h`, `sapwood/hop.bpf.h`).
///
/// A thread of its own asks the kernel for all routes, neighbours and links, and then listens to
/// what changes. When the kernel had to say more than its buffer took, everything is asked for once
/// more, and what differs is written; routes that did not change are never missing meanwhile.
/// Followed are the main table and the local one, as the kernel does without rules of one's own.
/// What a program cannot do is marked as the kernel's ([`MirrorHop::KERNEL`]).
///
/// Next hops have their hardware addresses filled in. A neighbour on a network without a gateway is
/// a prefix of its own, of the address's full length; so the tables have a few entries more than
/// the kernel has routes.
///
/// ```no_run
/// use sapwood_bpf::{BpfArena, IpMap, RouteMirror};
/// let arena = BpfArena::create(256 << 20)?;
/// let mirror = RouteMirror::start(IpMap::new(&arena, "routes", 64 << 20)?)?;
/// println!("programs name them {} and {}", mirror.map().window4().number, mirror.map().window6().number);
/// println!("{:?}", mirror.map().lookup("192.0.2.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RouteMirror {
    shared: Arc<Shared>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// How a [`RouteMirror`] is made.
///
/// ```no_run
/// # use sapwood_bpf::{BpfArena, IpMap, RouteMirror};
/// # let arena = BpfArena::create(256 << 20)?;
/// let map = IpMap::new(&arena, "routes", 64 << 20)?;
/// let mirror = RouteMirror::builder(map).receive_buffer(4 << 20).start()?;
/// # let _ = mirror;
/// # Ok::<(), sapwood_bpf::Error>(())
/// ```
#[derive(Debug)]
pub struct RouteMirrorBuilder {
    map: IpMap<MirrorHop>,
    buffer: usize,
}

/// What a [`RouteMirror`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorStats {
    /// How often everything was asked for.
    pub dumps: u64,
    /// Notifications that were understood.
    pub notices: u64,
    /// How often the kernel dropped notifications because the buffer was full.
    pub lost: u64,
    /// Changes of the tables.
    pub changes: u64,
    /// Changes that had to be tried again, because the tables were full.
    pub refused: u64,
    /// Routes that the kernel has.
    pub routes: u64,
    /// What went wrong last, if nothing has gone right since. It is tried again all the time; the
    /// tables stay as they are meanwhile.
    pub failure: Option<String>,
}

impl fmt::Display for MirrorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [
            ("dumps", self.dumps),
            ("notices", self.notices),
            ("lost", self.lost),
            ("changes", self.changes),
            ("refused", self.refused),
            ("routes", self.routes),
        ] {
            writeln!(f, "{what:<16} {count:>16}")?;
        }
        match &self.failure {
            Some(why) => writeln!(f, "failure: {why}"),
            None => Ok(()),
        }
    }
}

struct Shared {
    map: IpMap<MirrorHop>,
    ends: AtomicBool,
    /// In the order of [`MirrorStats`].
    counts: [AtomicU64; 6],
    failure: Mutex<Option<String>>,
}

const DUMPS: usize = 0;
const NOTICES: usize = 1;
const LOST: usize = 2;
const CHANGES: usize = 3;
const REFUSED: usize = 4;
const ROUTES: usize = 5;

impl Shared {
    fn count(&self, which: usize, more: u64) {
        self.counts[which].fetch_add(more, Ordering::Relaxed);
    }

    fn failed(&self, why: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl RouteMirrorBuilder {
    /// Bytes of the kernel's buffer for notifications; it grants no more than `net.core.rmem_max`.
    /// Default: 1 MiB.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Starts it, for the network namespace of the calling thread. The tables have all routes when
    /// this returns.
    ///
    /// # Errors
    /// What the system says; [`Error::Map`] when the tables have no room for the routes.
    pub fn start(self) -> Result<RouteMirror, Error> {
        let net = |error| Error::io("following the kernel's routes", error);
        // In this order: what changes after the dump is heard of.
        let listen = listening(self.buffer).map_err(net)?;
        let ask = asking().map_err(net)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| net(error.into()))?;
        let theirs = wake.try_clone().map_err(net)?;
        let shared = Arc::new(Shared {
            map: self.map,
            ends: AtomicBool::new(false),
            counts: Default::default(),
            failure: Mutex::default(),
        });
        let mut follower = Follower {
            shared: Arc::clone(&shared),
            listen,
            ask,
            wake: theirs,
            model: Model::default(),
            stale: true,
        };
        follower.refresh().map_err(net)?;
        if let Some(error) = follower.write() {
            return Err(error.into());
        }
        let thread = std::thread::Builder::new()
            .name("sapwood-routes".into())
            .spawn(move || follower.run())
            .map_err(|error| Error::io("starting a thread", error))?;
        Ok(RouteMirror {
            shared,
            wake,
            thread: Some(thread),
        })
    }
}

impl RouteMirror {
    /// As [`RouteMirrorBuilder::start`].
    ///
    /// # Errors
    /// As there.
    pub fn start(map: IpMap<MirrorHop>) -> Result<RouteMirror, Error> {
        RouteMirror::builder(map).start()
    }

    /// A mirror made to measure. The tables should be empty and are its own: nobody else writes
    /// them.
    pub fn builder(map: IpMap<MirrorHop>) -> RouteMirrorBuilder {
        RouteMirrorBuilder {
            map,
            buffer: BUFFER,
        }
    }

    /// The tables.
    pub fn map(&self) -> &IpMap<MirrorHop> {
        &self.shared.map
    }

    /// What it has done.
    pub fn stats(&self) -> MirrorStats {
        let [dumps, notices, lost, changes, refused, routes] =
            std::array::from_fn(|which| self.shared.counts[which].load(Ordering::Relaxed));
        let failure = self.shared.failure.lock();
        MirrorStats {
            dumps,
            notices,
            lost,
            changes,
            refused,
            routes,
            failure: failure.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for RouteMirror {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for RouteMirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteMirror")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The thread.
struct Follower {
    shared: Arc<Shared>,
    listen: Socket,
    ask: Socket,
    wake: OwnedFd,
    model: Model,
    /// Everything must be asked for.
    stale: bool,
}

impl Follower {
    fn run(mut self) {
        let mut again = false;
        loop {
            if let Err(error) = self.wait(again) {
                self.shared.failed(Some(error.to_string()));
                std::thread::sleep(AGAIN);
            }
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            again = match self.step() {
                Ok(again) => again,
                Err(error) => {
                    self.shared.failed(Some(error.to_string()));
                    self.stale = true;
                    true
                }
            };
        }
    }

    /// Until the kernel says something, the mirror ends, or it is time to try again.
    fn wait(&self, again: bool) -> io::Result<()> {
        let mut both = [self.listen.as_fd(), self.wake.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = again.then_some(Timespec {
            tv_sec: 0,
            tv_nsec: AGAIN.as_nanos() as _,
        });
        match poll(&mut both, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in what the kernel said, and writes it into the tables. Whether something is left to
    /// be tried again.
    fn step(&mut self) -> io::Result<bool> {
        for _ in 0..AT_ONCE {
            match hear(&self.listen)? {
                Heard::Nothing => break,
                Heard::Lost => {
                    self.shared.count(LOST, 1);
                    self.stale = true;
                }
                Heard::Events(events) => {
                    self.shared.count(NOTICES, events.len() as u64);
                    for event in events {
                        self.stale |= !self.model.note(event);
                    }
                }
            }
        }
        if self.stale {
            self.refresh()?;
        }
        let refused = self.write();
        let again = refused.is_some();
        self.shared.failed(refused.map(|error| error.to_string()));
        Ok(again)
    }

    /// Asks for everything.
    fn refresh(&mut self) -> io::Result<()> {
        let events = everything(&self.ask)?;
        self.model.replace(events);
        self.stale = false;
        self.shared.count(DUMPS, 1);
        Ok(())
    }

    /// Writes what has changed into the tables. The first error, when some of it did not go.
    fn write(&mut self) -> Option<sapwood::Error> {
        let map = &self.shared.map;
        let (mut changes, mut left, mut refused) = (0, Vec::new(), None);
        let mut later = Vec::new();
        let mut done = |net: IpNet, result: Result<(), sapwood::Error>| match result {
            Ok(()) => changes += 1,
            Err(error) => {
                left.push(net);
                refused.get_or_insert(error);
            }
        };
        // What is withdrawn first: it makes room.
        for net in self.model.take_dirty() {
            match (map.get(net), self.model.wanted(net)) {
                (Some(_), None) => done(net, map.remove(net).map(drop)),
                (old, Some(hop)) if old != Some(hop) => later.push((net, hop, old.is_some())),
                _ => {}
            }
        }
        for (net, hop, known) in later {
            let room = match (known, net) {
                (true, _) => Ok(()),
                (false, IpNet::V4(_)) => has_room(&map.v4().memory()),
                (false, IpNet::V6(_)) => has_room(&map.v6().memory()),
            };
            let insert = || map.insert(net, hop).map(drop).map_err(|no| no.error);
            done(net, room.and_then(|()| insert()));
        }
        self.shared.count(CHANGES, changes);
        self.shared.count(REFUSED, left.len() as u64);
        self.shared.counts[ROUTES].store(self.model.len() as u64, Ordering::Relaxed);
        if refused.is_some() {
            // What waits for readers may be over by the next time.
            map.v4().reclaim(usize::MAX);
            map.v6().reclaim(usize::MAX);
        }
        self.model.put_back(left);
        refused
    }
}

/// Whether a table may take more routes. To take one away needs memory, too, for a moment: a
/// sixteenth is left for that.
fn has_room(memory: &FibMemory) -> Result<(), sapwood::Error> {
    let arena = &memory.arena;
    let spare = (arena.reserved / 16).min(256 << 10);
    if arena.live + arena.retired + spare < arena.reserved {
        return Ok(());
    }
    Err(sapwood::Error::ArenaFull(ArenaFull {
        requested: spare,
        limit: arena.reserved,
    }))
}

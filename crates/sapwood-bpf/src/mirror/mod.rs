//! A mirror of the kernel's routes in tables that programs read.

mod dump;
mod groups;
mod links;
mod netlink;
mod next_hops;
mod table;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink_sys::Socket;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use sapwood::lpm::FibMemory;
use sapwood_arena::ArenaFull;

use self::dump::asking;
use self::groups::Groups;
use self::links::LinkFollower;
pub(crate) use self::netlink::vlans;
use self::netlink::{Heard, everything, hear, listening, resolve};
use self::table::{Entry, GroupKey, KERNEL, Model};
use crate::error::Error;
use crate::fib::IpMap;
use crate::groups::GroupMap;
use crate::layout::MirrorHop;

/// The default bytes of the buffer for notifications, enough for some thousand changes.
const BUFFER: usize = 1 << 20;

/// The maximum number of datagrams that are read before their changes are written into the tables.
const AT_ONCE: usize = 256;

/// The time after which a failed operation is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// The time after which the kernel is asked again to resolve the neighbours of groups.
const RESOLVE: Duration = Duration::from_secs(1);

/// Follows the routes of a network namespace, and writes them into tables by which programs forward
/// packets (`sapwood/lpm.bpf.h`, `sapwood/hop.bpf.h`).
///
/// A separate thread requests all routes, neighbours and links of the kernel, and then listens to
/// notifications. When the kernel's buffer overflows, the thread requests everything again, and
/// writes the differences. Unchanged routes stay in the tables meanwhile. The mirror follows the
/// main table and the local table, as the kernel does without additional rules. It marks routes
/// that a program cannot follow as the kernel's ([`MirrorHop::KERNEL`]).
///
/// Routes with several gateways, and routes to groups of next-hop objects, become groups of a
/// [`GroupMap`], if there is one ([`RouteMirrorBuilder::groups`]); else they are the kernel's. A
/// member of a group is an interface with a gateway, and its link is the number of the interface.
/// Another thread clears the bit of a link when the interface goes down or loses its carrier, and
/// sets it when the interface is usable again, without a change of the tables: within a
/// millisecond, also while the routes are requested (test `a_link_of_three_goes_down`). The mirror
/// asks the kernel to resolve the gateways of groups.
///
/// Next hops include their hardware addresses. A neighbour on a directly connected network has its
/// own prefix, which is as long as the address. So the tables have a few more entries than the
/// kernel has routes.
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
    seed: u64,
    threads: Vec<JoinHandle<()>>,
}

/// Builds a [`RouteMirror`].
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
    groups: Option<GroupMap>,
    seed: u64,
    buffer: usize,
}

/// The counts of a [`RouteMirror`], and its last failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MirrorStats {
    /// How often the mirror requested everything.
    pub dumps: u64,
    /// Notifications that the mirror applied.
    pub notices: u64,
    /// How often the kernel dropped notifications because the buffer was full.
    pub lost: u64,
    /// Changes that the mirror made in the tables.
    pub changes: u64,
    /// Changes that the mirror has to repeat, because the tables were full.
    pub refused: u64,
    /// Routes of the kernel.
    pub routes: u64,
    /// Groups of next hops in use.
    pub groups: u64,
    /// Links that went down or up.
    pub links: u64,
    /// The last failure, until an attempt succeeds. The mirror repeats the attempt, and the tables
    /// stay as they are meanwhile.
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
            ("groups", self.groups),
            ("links", self.links),
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
    groups: Option<Arc<GroupMap>>,
    ends: AtomicBool,
    /// The counts, in the order of [`MirrorStats`].
    counts: [AtomicU64; 8],
    failure: Mutex<Option<String>>,
}

const DUMPS: usize = 0;
const NOTICES: usize = 1;
const LOST: usize = 2;
const CHANGES: usize = 3;
const REFUSED: usize = 4;
const ROUTES: usize = 5;
const IN_GROUPS: usize = 6;
const LINKS: usize = 7;

impl Shared {
    fn count(&self, which: usize, more: u64) {
        self.counts[which].fetch_add(more, Ordering::Relaxed);
    }

    fn failed(&self, why: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl RouteMirrorBuilder {
    /// Sets the bytes of the kernel's buffer for notifications, of which the kernel grants at most
    /// `net.core.rmem_max`. Default: 1 MiB.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Writes groups of next hops into this map, which should be empty. Only the mirror may write
    /// it; programs may take its links down, too. Routes with more members than a group may have,
    /// or with interfaces whose numbers are no links of the map, are left to the kernel, and so are
    /// those that come when all groups are in use.
    ///
    /// ```no_run
    /// # use sapwood_bpf::{BpfArena, GroupMap, IpMap, RouteMirror};
    /// # let arena = BpfArena::create(256 << 20)?;
    /// let map = IpMap::new(&arena, "routes", 64 << 20)?;
    /// let groups = GroupMap::builder(&arena, "groups").build()?;
    /// let mirror = RouteMirror::builder(map).groups(groups).start()?;
    /// # let _ = mirror;
    /// # Ok::<(), sapwood_bpf::Error>(())
    /// ```
    pub fn groups(mut self, groups: GroupMap) -> Self {
        self.groups = Some(groups);
        self
    }

    /// The seed of the hash of flows ([`FlowHasher`](sapwood::route::FlowHasher)) by which
    /// programs choose members of groups. Default: 0. Routers in a row should have different
    /// seeds: else each of them divides only the flows that the one before has sent its way.
    pub fn flow_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts the mirror for the network namespace of the calling thread. The tables have all
    /// routes when this returns.
    ///
    /// # Errors
    /// The system's error; [`Error::Map`] when the tables have no room for the routes.
    pub fn start(self) -> Result<RouteMirror, Error> {
        let net = |error| Error::io("following the kernel's routes", error);
        // The socket listens before the dump begins, so no later change is missed.
        let listen = listening(self.buffer, &netlink::GROUPS).map_err(net)?;
        let ask = asking().map_err(net)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| net(error.into()))?;
        let groups = self.groups.map(Arc::new);
        let shared = Arc::new(Shared {
            map: self.map,
            groups: groups.clone(),
            ends: AtomicBool::new(false),
            counts: Default::default(),
            failure: Mutex::default(),
        });
        let mut follower = Follower {
            shared: Arc::clone(&shared),
            listen,
            ask,
            poke: asking().map_err(net)?,
            poked: None,
            wake: wake.try_clone().map_err(net)?,
            model: Model::default(),
            groups: Groups::default(),
            stale: true,
        };
        follower.poke.set_non_blocking(true).map_err(net)?;
        let links = match groups {
            Some(groups) => Some(LinkFollower {
                shared: Arc::clone(&shared),
                groups,
                listen: listening(self.buffer, &links::GROUPS).map_err(net)?,
                ask: asking().map_err(net)?,
                wake: wake.try_clone().map_err(net)?,
            }),
            None => None,
        };
        if let Some(links) = &links {
            links.refresh().map_err(net)?;
        }
        follower.refresh().map_err(net)?;
        if let Some(error) = follower.write() {
            return Err(error);
        }
        // From here on, the drop of the mirror ends the threads.
        let mut mirror = RouteMirror {
            shared,
            wake,
            seed: self.seed,
            threads: Vec::new(),
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let no_thread = |error| Error::io("starting a thread", error);
        let routes = thread("sapwood-routes").spawn(move || follower.run());
        mirror.threads.push(routes.map_err(no_thread)?);
        if let Some(links) = links {
            let links = thread("sapwood-links").spawn(move || links.run());
            mirror.threads.push(links.map_err(no_thread)?);
        }
        Ok(mirror)
    }
}

impl RouteMirror {
    /// Starts a mirror with the defaults of [`RouteMirrorBuilder`].
    ///
    /// # Errors
    /// As [`RouteMirrorBuilder::start`].
    pub fn start(map: IpMap<MirrorHop>) -> Result<RouteMirror, Error> {
        RouteMirror::builder(map).start()
    }

    /// A builder of a mirror. The tables should be empty, and only the mirror may write them.
    pub fn builder(map: IpMap<MirrorHop>) -> RouteMirrorBuilder {
        RouteMirrorBuilder {
            map,
            groups: None,
            seed: 0,
            buffer: BUFFER,
        }
    }

    /// The tables.
    pub fn map(&self) -> &IpMap<MirrorHop> {
        &self.shared.map
    }

    /// The groups of next hops, if the mirror writes any.
    pub fn groups(&self) -> Option<&GroupMap> {
        self.shared.groups.as_deref()
    }

    /// The seed of the hash of flows.
    pub fn flow_seed(&self) -> u64 {
        self.seed
    }

    /// The mirror's counts.
    pub fn stats(&self) -> MirrorStats {
        let [
            dumps,
            notices,
            lost,
            changes,
            refused,
            routes,
            groups,
            links,
        ] = std::array::from_fn(|which| self.shared.counts[which].load(Ordering::Relaxed));
        let failure = self.shared.failure.lock();
        MirrorStats {
            dumps,
            notices,
            lost,
            changes,
            refused,
            routes,
            groups,
            links,
            failure: failure.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for RouteMirror {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
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

/// The state of the mirror's thread.
struct Follower {
    shared: Arc<Shared>,
    listen: Socket,
    ask: Socket,
    /// The socket for requests to resolve neighbours, and the time of the last ones.
    poke: Socket,
    poked: Option<Instant>,
    wake: OwnedFd,
    model: Model,
    groups: Groups,
    /// Whether everything must be requested again.
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

    /// Waits until the kernel sends something, the mirror ends, or it is time for another attempt.
    fn wait(&self, again: bool) -> io::Result<()> {
        let mut both = [self.listen.as_fd(), self.wake.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = match again {
            true => Some(AGAIN),
            false => self.groups.unresolved().next().map(|_| RESOLVE),
        };
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as _,
            tv_nsec: limit.subsec_nanos() as _,
        });
        match poll(&mut both, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the kernel's notifications, and writes their changes into the tables. Returns
    /// whether an attempt has to be repeated.
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

    /// Requests everything.
    fn refresh(&mut self) -> io::Result<()> {
        let events = everything(&self.ask)?;
        self.model.replace(events);
        self.stale = false;
        self.shared.count(DUMPS, 1);
        Ok(())
    }

    /// Writes the changes into the tables and the groups. Returns the first error of those that
    /// failed.
    fn write(&mut self) -> Option<Error> {
        let shared = Arc::clone(&self.shared);
        let (map, groups) = (&shared.map, shared.groups.as_deref());
        let (mut changes, mut left, mut refused) = (0, Vec::new(), None);
        let mut later = Vec::new();
        let mut nets = self.model.take_dirty();
        if let Some(groups) = groups
            && self.model.take_groups_dirty()
        {
            match self.groups.update(groups, &self.model) {
                Ok(lost) => nets.extend(lost),
                Err(error) => {
                    self.model.put_groups_back();
                    refused = Some(error);
                }
            }
        }
        let mut done = |net: IpNet, result: Result<(), Error>| match result {
            Ok(()) => {
                changes += 1;
                true
            }
            Err(error) => {
                left.push(net);
                refused.get_or_insert(error);
                false
            }
        };
        // Removals come first, because they make room.
        for net in nets {
            let old = map.get(net);
            let hop = match self.wanted(net) {
                Ok(None) => {
                    let gone = || map.remove(net).map(drop).map_err(Error::from);
                    if old.is_none() || done(net, gone()) {
                        self.groups.note(net, None);
                    }
                    continue;
                }
                Ok(Some((hop, key))) if old == Some(hop) => {
                    self.groups.note(net, key);
                    continue;
                }
                Ok(Some(wanted)) => wanted,
                Err(error) => {
                    done(net, Err(error));
                    continue;
                }
            };
            later.push((net, hop, old.is_some()));
        }
        for (net, (hop, key), known) in later {
            let room = match (known, net) {
                (true, _) => Ok(()),
                (false, IpNet::V4(_)) => has_room(&map.v4().memory()),
                (false, IpNet::V6(_)) => has_room(&map.v6().memory()),
            };
            let insert = || map.insert(net, hop).map(drop).map_err(|no| no.error);
            if done(net, room.and_then(|()| insert()).map_err(Error::from)) {
                self.groups.note(net, key);
            }
        }
        if let Some(groups) = groups
            && let Err(error) = self.groups.sweep(groups)
        {
            refused.get_or_insert(error);
        }
        shared.count(CHANGES, changes);
        shared.count(REFUSED, left.len() as u64);
        shared.counts[ROUTES].store(self.model.len() as u64, Ordering::Relaxed);
        shared.counts[IN_GROUPS].store(self.groups.len() as u64, Ordering::Relaxed);
        if refused.is_some() {
            // By the next call, the grace periods of these blocks may be over.
            map.v4().reclaim(usize::MAX);
            map.v6().reclaim(usize::MAX);
        }
        self.model.put_back(left);
        self.resolve();
        refused
    }

    /// The hop that the table must have for a prefix, and its group if it has one, which is
    /// written.
    fn wanted(&mut self, net: IpNet) -> Result<Option<(MirrorHop, Option<GroupKey>)>, Error> {
        let key = match self.model.wanted(net) {
            None => return Ok(None),
            Some(Entry::Hop(hop)) => return Ok(Some((hop, None))),
            Some(Entry::Group(key)) => key,
        };
        let Some(groups) = &self.shared.groups else {
            return Ok(Some((KERNEL, None)));
        };
        let hop = self.groups.hop(groups, &self.model, &key)?;
        let key = (hop.action == MirrorHop::GROUP).then_some(key);
        Ok(Some((hop, key)))
    }

    /// Asks the kernel to resolve the neighbours of groups. The kernel would choose a path by
    /// another hash, and so resolve another neighbour than the one that a flow waits for.
    fn resolve(&mut self) {
        if self.poked.is_some_and(|at| at.elapsed() < RESOLVE) {
            return;
        }
        // Refusals of former requests.
        while self.poke.recv_from_full().is_ok() {}
        for member in self.groups.unresolved() {
            self.poked = Some(Instant::now());
            // When this fails, the next attempt comes in a second.
            if let Some(gateway) = member.hop.gateway() {
                let _ = resolve(&self.poke, member.link, gateway);
            }
        }
    }
}

/// Whether a table has room for more routes. A removal needs memory for a moment, too, so a
/// sixteenth is kept free.
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

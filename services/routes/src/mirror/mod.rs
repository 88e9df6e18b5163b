//! A mirror of the kernel's routes, and of injected ones, in tables that forwarders read.

mod follower;
mod groups;
mod injected;
mod links;
#[cfg(feature = "bpf")]
pub(crate) mod mtus;
mod netlink;
mod next_hops;
mod table;
mod tables;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::event::{EventfdFlags, eventfd};

use self::follower::{Follower, State};
pub use self::injected::{Gateway, RouteInjector};
use self::links::LinkFollower;
use self::netlink::listening;
pub use self::netlink::vlans;
pub use self::tables::{GroupsError, MirrorGroups, MirrorTables};
use crate::MAIN_TABLE;
use crate::dump::asking;

/// The default bytes of the buffer for notifications, enough for some thousand changes.
const BUFFER: usize = 1 << 20;

/// The default time after which everything is requested without a notification.
const RECONCILE: Duration = Duration::from_secs(60);

/// The time after which a failed operation is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Follows the routes of a network namespace, and writes them into tables by which packets are
/// forwarded: an [`IpFib`](sapwood::lpm::IpFib) of hops, or, with the feature `bpf`,
/// tables that programs in the kernel read (`HopTables` of `sapwood-bpf`).
///
/// A separate thread requests all routes, neighbours and links of the kernel, and then listens to
/// notifications. When the kernel's buffer overflows, the thread requests everything again, and
/// writes the differences. Unchanged routes stay in the tables meanwhile. It does the same when a
/// link or an address changes, and once a minute ([`RouteMirrorBuilder::reconcile`]), because the
/// kernel removes the routes of dead next hops without a notification. [`MirrorStats`] says how far
/// behind the tables may be. The mirror follows the main table and the local table, as the kernel
/// does without additional rules, or another table ([`RouteMirrorBuilder::table`]). It marks routes
/// that a program cannot follow as the kernel's
/// ([`MirrorHop::KERNEL`](sapwood::route::MirrorHop::KERNEL)), with the reason
/// ([`MirrorHop::reason`](sapwood::route::MirrorHop::reason)): null routes are among them.
///
/// Routes with several gateways, and routes to groups of next-hop objects, become groups, if the
/// tables have any ([`MirrorTables::groups`]); else they are the kernel's. So are routes with more
/// members than a group may have, or with interfaces whose numbers are no links of the groups, and
/// those that come when all groups are in use. A member of a group is an interface with a gateway,
/// and its link is the number of the interface.
/// Another thread clears the bit of a link when the interface goes down or loses its carrier, and
/// sets it when the interface is usable again, without a change of the tables: within a
/// millisecond, also while the routes are requested (test `a_link_of_three_goes_down`). The mirror
/// asks the kernel to resolve the gateways of groups.
///
/// Beside the kernel's routes, the tables may have routes that this process gives
/// ([`injector`](Self::injector)): prefixes with the addresses of gateways, for which the mirror
/// finds interfaces and hardware addresses as it does for the kernel's. For the same prefix, this
/// machine's addresses and directly connected networks come first, then an injected route, then the
/// kernel's others. An injected route is left to the kernel while none of its gateways is a
/// neighbour whose hardware address is known, on a network that the kernel reaches directly
/// ([`MirrorStats::unresolved`] counts them). The mirror asks the kernel to resolve these
/// neighbours, and every few seconds whether they are still there, because the kernel itself may
/// have no packets for them (test `injected_routes_follow_their_neighbours`).
///
/// Next hops include their hardware addresses. A neighbour on a directly connected network has its
/// own prefix, which is as long as the address. So the tables have a few more entries than the
/// kernel has routes.
///
/// ```no_run
/// use std::sync::Arc;
/// use sapwood::lpm::IpFib;
/// use sapwood_routes::RouteMirror;
/// let mirror = RouteMirror::start(Arc::new(IpFib::new()?))?;
/// println!("{:?}", mirror.tables().lookup("192.0.2.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RouteMirror<T> {
    shared: Arc<Shared<T>>,
    injector: RouteInjector,
    wake: OwnedFd,
    threads: Vec<JoinHandle<()>>,
}

/// Builds a [`RouteMirror`].
///
/// ```no_run
/// # use std::sync::Arc;
/// # use sapwood::lpm::IpFib;
/// # use sapwood_routes::RouteMirror;
/// let tables = Arc::new(IpFib::new()?);
/// let mirror = RouteMirror::builder(tables).receive_buffer(4 << 20).start()?;
/// # let _ = mirror;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RouteMirrorBuilder<T> {
    tables: Arc<T>,
    buffer: usize,
    table: u32,
    reconcile: Duration,
}

/// The error of a mirror.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The error of the tables.
    #[error(transparent)]
    Table(#[from] sapwood::lpm::Error),
    /// The error of the groups.
    #[error(transparent)]
    Groups(GroupsError),
    /// The mirror has ended.
    #[error("injected routes: the mirror has ended")]
    Ended,
    /// A system call failed.
    #[error("{doing}: {error}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl MirrorError {
    fn io(doing: &'static str, error: io::Error) -> MirrorError {
        MirrorError::Io { doing, error }
    }
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
    /// Injected routes ([`RouteInjector::inject`]).
    pub injected: u64,
    /// Injected routes that are left to the kernel, because they have no gateway that is known.
    pub unresolved: u64,
    /// Groups of next hops in use.
    pub groups: u64,
    /// Links that went down or up.
    pub links: u64,
    /// How long notifications have been waiting at most that are not in the tables yet. Zero when
    /// there are none.
    pub behind: Duration,
    /// How long ago all routes were requested last. Routes that the kernel has removed silently
    /// since then may still be in the tables.
    pub unconfirmed: Duration,
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
            ("injected", self.injected),
            ("unresolved", self.unresolved),
            ("groups", self.groups),
            ("links", self.links),
        ] {
            writeln!(f, "{what:<16} {count:>16}")?;
        }
        for (what, time) in [("behind", self.behind), ("unconfirmed", self.unconfirmed)] {
            writeln!(f, "{what:<16} {:>14.3} s", time.as_secs_f64())?;
        }
        match &self.failure {
            Some(why) => writeln!(f, "failure: {why}"),
            None => Ok(()),
        }
    }
}

struct Shared<T> {
    tables: Arc<T>,
    ends: AtomicBool,
    /// The counts, by the constants below.
    counts: [AtomicU64; 10],
    failure: Mutex<Option<String>>,
    times: Mutex<Times>,
}

/// What the thread does, for those who ask how far behind the tables are.
#[derive(Default)]
struct Times {
    /// Since when the thread has had something to do; `None` while it waits for the kernel.
    busy: Option<Instant>,
    /// When everything was requested last.
    confirmed: Option<Instant>,
}

const DUMPS: usize = 0;
const NOTICES: usize = 1;
const LOST: usize = 2;
const CHANGES: usize = 3;
const REFUSED: usize = 4;
const ROUTES: usize = 5;
const IN_GROUPS: usize = 6;
const LINKS: usize = 7;
const INJECTED: usize = 8;
const UNRESOLVED: usize = 9;

impl<T> Shared<T> {
    fn count(&self, which: usize, more: u64) {
        self.counts[which].fetch_add(more, Ordering::Relaxed);
    }

    fn set(&self, which: usize, count: usize) {
        self.counts[which].store(count as u64, Ordering::Relaxed);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the thread waits for the kernel, or no longer does.
    fn is_idle(&self, idle: bool) {
        let mut times = self.times();
        times.busy = match idle {
            true => None,
            false => times.busy.or_else(|| Some(Instant::now())),
        };
    }

    /// Notes that a request of everything, begun at this time, has succeeded.
    fn confirmed(&self, begun: Instant) {
        self.times().confirmed = Some(begun);
    }

    fn failed(&self, why: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl<T: MirrorTables> RouteMirrorBuilder<T> {
    /// Sets the bytes of the kernel's buffer for notifications, of which the kernel grants at most
    /// `net.core.rmem_max`. Default: 1 MiB.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Sets the number of the kernel's table that is followed: 254 is the main one, and a VRF has
    /// its own. Addresses of this machine are in the tables with the main table only, or if the
    /// kernel has them in the table of a VRF. Default: [`MAIN_TABLE`].
    pub fn table(mut self, number: u32) -> Self {
        self.table = number;
        self
    }

    /// Sets the time after which all routes are requested and compared, although no notification
    /// has asked for it. Default: a minute.
    pub fn reconcile(mut self, after: Duration) -> Self {
        self.reconcile = after;
        self
    }

    /// Starts the mirror for the network namespace of the calling thread. The tables have all
    /// routes when this returns.
    ///
    /// # Errors
    /// The system's error; [`MirrorError::Table`] when the tables have no room for the routes.
    pub fn start(self) -> Result<RouteMirror<T>, MirrorError> {
        let net = |error| MirrorError::io("following the kernel's routes", error);
        // The socket listens before the dump begins, so no later change is missed.
        let listen = listening(self.buffer, &netlink::GROUPS).map_err(net)?;
        let ask = asking().map_err(net)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| net(error.into()))?;
        let shared = Arc::new(Shared {
            tables: self.tables,
            ends: AtomicBool::new(false),
            counts: Default::default(),
            failure: Mutex::default(),
            times: Mutex::default(),
        });
        let (injector, orders, ordered) = RouteInjector::new()?;
        let poke = asking().map_err(net)?;
        poke.set_non_blocking(true).map_err(net)?;
        let mut follower = Follower {
            shared: Arc::clone(&shared),
            listen,
            ask,
            poke,
            wake: wake.try_clone().map_err(net)?,
            table: self.table,
            reconcile: self.reconcile,
            orders,
            ordered,
            state: State::default(),
        };
        let links = match shared.tables.groups() {
            Some(_) => Some(LinkFollower {
                shared: Arc::clone(&shared),
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
            injector,
            wake,
            threads: Vec::new(),
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let no_thread = |error| MirrorError::io("starting a thread", error);
        let routes = thread("sapwood-routes").spawn(move || follower.run());
        mirror.threads.push(routes.map_err(no_thread)?);
        if let Some(links) = links {
            let links = thread("sapwood-links").spawn(move || links.run());
            mirror.threads.push(links.map_err(no_thread)?);
        }
        Ok(mirror)
    }
}

impl<T: MirrorTables> RouteMirror<T> {
    /// Starts a mirror with the defaults of [`RouteMirrorBuilder`].
    ///
    /// # Errors
    /// As [`RouteMirrorBuilder::start`].
    pub fn start(tables: Arc<T>) -> Result<RouteMirror<T>, MirrorError> {
        RouteMirror::builder(tables).start()
    }

    /// A builder of a mirror. The tables and their groups should be empty, and only the mirror may
    /// write them; others may take links down, too.
    pub fn builder(tables: Arc<T>) -> RouteMirrorBuilder<T> {
        RouteMirrorBuilder {
            tables,
            buffer: BUFFER,
            table: MAIN_TABLE,
            reconcile: RECONCILE,
        }
    }

    /// The tables.
    pub fn tables(&self) -> &Arc<T> {
        &self.shared.tables
    }

    /// What injects routes of this process beside the kernel's.
    pub fn injector(&self) -> RouteInjector {
        self.injector.clone()
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
            injected,
            unresolved,
        ] = std::array::from_fn(|which| self.shared.counts[which].load(Ordering::Relaxed));
        let failure = self.shared.failure.lock();
        let times = self.shared.times();
        let since = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| at.elapsed());
        let (behind, unconfirmed) = (since(times.busy), since(times.confirmed));
        MirrorStats {
            dumps,
            notices,
            lost,
            changes,
            refused,
            routes,
            injected,
            unresolved,
            groups,
            links,
            behind,
            unconfirmed,
            failure: failure.unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl<T> Drop for RouteMirror<T> {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<T: MirrorTables> fmt::Debug for RouteMirror<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteMirror")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_readable() {
        let stats = MirrorStats {
            failure: Some("no socket".into()),
            ..MirrorStats::default()
        };
        let text = stats.to_string();
        assert!(text.starts_with("dumps "), "{text}");
        assert!(text.ends_with("failure: no socket\n"), "{text}");
    }
}

//! The mirror's thread: it receives the kernel's notifications and injected routes, and writes
//! tables and groups.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink_sys::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sapwood::route::MirrorHop;

use super::groups::Groups;
use super::injected::{Change, Order};
use super::netlink::{Heard, everything, hear, resolve};
use super::table::{Entry, GroupKey, Model, SEVERAL};
use super::tables::MirrorTables;
use super::{
    AGAIN, CHANGES, DUMPS, IN_GROUPS, INJECTED, LOST, MirrorError, NOTICES, REFUSED, ROUTES,
    Shared, UNRESOLVED,
};

/// The maximum number of datagrams that are read before their changes are written into the tables.
const AT_ONCE: usize = 256;

/// The time after which the kernel is asked again to resolve neighbours that are not known.
const RESOLVE: Duration = Duration::from_secs(1);

/// The time after which the kernel is asked whether the gateways of injected routes are still
/// there.
const PROBE: Duration = Duration::from_secs(5);

/// The mirror's thread.
pub(super) struct Follower<T> {
    pub(super) shared: Arc<Shared<T>>,
    pub(super) listen: Socket,
    pub(super) ask: Socket,
    /// The socket for requests to resolve neighbours.
    pub(super) poke: Socket,
    pub(super) wake: OwnedFd,
    /// The table of the kernel that is followed.
    pub(super) table: u32,
    /// The time after which everything is requested, also without a notification.
    pub(super) reconcile: Duration,
    /// Changes of injected routes, and what says that there are any.
    pub(super) orders: Receiver<Order>,
    pub(super) ordered: Arc<OwnedFd>,
    pub(super) state: State,
}

/// What the thread knows.
#[derive(Default)]
pub(super) struct State {
    model: Model,
    groups: Groups,
    /// The injected routes that are left to the kernel.
    unresolved: HashSet<IpNet>,
    /// Whether everything has been requested, and need not be again.
    fresh: bool,
    /// When everything was requested last.
    requested: Option<Instant>,
    /// The times of the last requests to resolve neighbours, and for all gateways.
    poked: Option<Instant>,
    probed: Option<Instant>,
}

/// What the table has for a prefix: its hop, and its group if it has one. `None` for nothing.
type Wanted = Option<(MirrorHop, Option<GroupKey>)>;

impl<T: MirrorTables> Follower<T> {
    pub(super) fn run(mut self) {
        let mut again = false;
        loop {
            if let Err(error) = self.wait(again) {
                self.shared.failed(Some(error.to_string()));
                std::thread::sleep(AGAIN);
            }
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            self.take_orders();
            again = match self.step() {
                Ok(again) => again,
                Err(error) => {
                    self.shared.failed(Some(error.to_string()));
                    self.state.fresh = false;
                    true
                }
            };
        }
    }

    /// Waits until the kernel sends something, an order comes, the mirror ends, or it is time for
    /// another attempt.
    fn wait(&self, again: bool) -> io::Result<()> {
        let mut all = [self.listen.as_fd(), self.wake.as_fd(), self.ordered.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let asks = || {
            self.state.model.injected().len() > 0 || self.state.groups.unresolved().next().is_some()
        };
        let limit = match again {
            true => AGAIN,
            false if asks() => RESOLVE,
            false => Duration::MAX,
        };
        let limit = limit.min(self.until_reconcile());
        // A longer time than the system takes is cut, and the thread waits again.
        let limit = Timespec {
            tv_sec: limit.as_secs().min(1 << 30) as _,
            tv_nsec: limit.subsec_nanos() as _,
        };
        if !again {
            self.shared.is_idle(true);
        }
        let waited = poll(&mut all, Some(&limit));
        self.shared.is_idle(false);
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The time until everything is requested without a notification. The kernel removes some
    /// routes silently: those whose next hops are dead.
    fn until_reconcile(&self) -> Duration {
        let last = self.state.requested;
        let elapsed = last.map_or(Duration::MAX, |last| last.elapsed());
        self.reconcile.saturating_sub(elapsed)
    }

    /// Receives the kernel's notifications, and writes their changes into the tables. Returns
    /// whether an attempt has to be repeated.
    fn step(&mut self) -> io::Result<bool> {
        for _ in 0..AT_ONCE {
            match hear(&self.listen, self.table)? {
                Heard::Nothing => break,
                Heard::Lost => {
                    self.shared.count(LOST, 1);
                    self.state.fresh = false;
                }
                Heard::Events(events) => {
                    self.shared.count(NOTICES, events.len() as u64);
                    for event in events {
                        self.state.fresh &= self.state.model.note(event);
                    }
                }
            }
        }
        if !self.state.fresh || self.until_reconcile().is_zero() {
            self.refresh()?;
        }
        let refused = self.write();
        let again = refused.is_some();
        self.shared.failed(refused.map(|error| error.to_string()));
        Ok(again)
    }

    /// Requests everything.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let events = everything(&self.ask, self.table)?;
        self.state.model.replace(events);
        self.state.fresh = true;
        self.state.requested = Some(begun);
        self.shared.confirmed(begun);
        self.shared.count(DUMPS, 1);
        Ok(())
    }

    /// Writes the changes into the tables and the groups. Returns the first error of those that
    /// failed.
    pub(super) fn write(&mut self) -> Option<MirrorError> {
        let shared = Arc::clone(&self.shared);
        let (tables, groups) = (&shared.tables, shared.tables.groups());
        let (mut changes, mut left, mut refused) = (0, Vec::new(), None);
        let mut later = Vec::new();
        let mut nets = self.state.model.take_dirty();
        if let Some(groups) = groups
            && self.state.model.take_groups_dirty()
        {
            match self.state.groups.update(groups, &self.state.model) {
                Ok(lost) => nets.extend(lost),
                Err(error) => {
                    self.state.model.put_groups_back();
                    refused = Some(MirrorError::Groups(error));
                }
            }
        }
        let mut done = |net: IpNet, result: Result<(), MirrorError>| match result {
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
            let old = tables.get(net);
            let wanted = match self.wanted(net) {
                Ok(None) => {
                    let gone = || tables.remove(net).map_err(MirrorError::from);
                    if old.is_none() || done(net, gone()) {
                        self.note(net, None);
                    }
                    continue;
                }
                Ok(Some((hop, key))) if old == Some(hop) => {
                    self.note(net, Some((hop, key)));
                    continue;
                }
                Ok(Some(wanted)) => wanted,
                Err(error) => {
                    done(net, Err(error));
                    continue;
                }
            };
            later.push((net, wanted));
        }
        for (net, (hop, key)) in later {
            if done(net, tables.insert(net, hop).map_err(MirrorError::from)) {
                self.note(net, Some((hop, key)));
            }
        }
        if let Some(groups) = groups
            && let Err(error) = self.state.groups.sweep(groups)
        {
            refused.get_or_insert(MirrorError::Groups(error));
        }
        shared.count(CHANGES, changes);
        shared.count(REFUSED, left.len() as u64);
        if refused.is_some() {
            // By the next call, the grace periods of these blocks may be over.
            tables.reclaim();
        }
        self.state.model.put_back(left);
        self.count();
        self.resolve();
        refused
    }

    /// Publishes the counts of what the mirror has.
    fn count(&self) {
        let State {
            model,
            groups,
            unresolved,
            ..
        } = &self.state;
        self.shared.set(ROUTES, model.len());
        self.shared.set(IN_GROUPS, groups.len());
        self.shared.set(INJECTED, model.injected().len());
        self.shared.set(UNRESOLVED, unresolved.len());
    }

    /// Makes the changes of injected routes that have come.
    fn take_orders(&mut self) {
        // It counts how many wake-ups there were, which does not matter.
        let _ = rustix::io::read(&*self.ordered, &mut [0; 8]);
        while let Ok(Order { changes, done }) = self.orders.try_recv() {
            // Nobody may wait for the answer any more.
            let _ = done.send(self.inject(changes));
        }
    }

    /// Changes injected routes in one transaction. After an error, nothing has changed.
    fn inject(&mut self, changes: Vec<Change>) -> Result<(), MirrorError> {
        // What is still to be written for other reasons is not part of it.
        let before = self.state.model.take_dirty();
        let change = |(net, to)| (net, self.state.model.inject(net, to));
        let mut old: Vec<Change> = changes.into_iter().map(change).collect();
        let nets = self.state.model.take_dirty();
        let done = self.publish(nets);
        if done.is_err() {
            while let Some((net, to)) = old.pop() {
                self.state.model.inject(net, to);
            }
        }
        self.state.model.put_back(before);
        self.count();
        done
    }

    /// Writes the entries of these prefixes in one transaction.
    fn publish(&mut self, nets: Vec<IpNet>) -> Result<(), MirrorError> {
        let shared = Arc::clone(&self.shared);
        let tables = &shared.tables;
        let (mut removed, mut written, mut noted) = (Vec::new(), Vec::new(), Vec::new());
        for net in nets {
            let old = tables.get(net);
            let wanted = self.wanted(net)?;
            match &wanted {
                None => removed.extend(old.map(|_| net)),
                Some((hop, _)) => {
                    if old != Some(*hop) {
                        written.push((net, *hop));
                    }
                }
            }
            noted.push((net, wanted));
        }
        let changes = removed.len() + written.len();
        // Removals come first, because they make room.
        let published = tables.change(&removed, &written);
        match published {
            Ok(()) => {
                for (net, wanted) in noted {
                    self.note(net, wanted);
                }
                shared.count(CHANGES, changes as u64);
            }
            // By the next call, the grace periods of these blocks may be over.
            Err(_) => tables.reclaim(),
        }
        Ok(published?)
    }

    /// What the table must have for a prefix. If that is a group, it is written.
    fn wanted(&mut self, net: IpNet) -> Result<Wanted, MirrorError> {
        let wanted = self.state.model.wanted(net);
        let (hop, key) = match (wanted, self.shared.tables.groups()) {
            (None, _) => return Ok(None),
            (Some(Entry::Hop(hop)), _) => (hop, None),
            (Some(Entry::Group(_)), None) => (SEVERAL, None),
            (Some(Entry::Group(key)), Some(groups)) => {
                let hop = self.state.groups.hop(groups, &self.state.model, &key);
                let hop = hop.map_err(MirrorError::Groups)?;
                (hop, (hop.action == MirrorHop::GROUP).then_some(key))
            }
        };
        Ok(Some((hop, key)))
    }

    /// Notes what the table has for a prefix now.
    fn note(&mut self, net: IpNet, wanted: Wanted) {
        let State {
            model,
            groups,
            unresolved,
            ..
        } = &mut self.state;
        let (hop, key) = wanted.unzip();
        groups.note(net, key.flatten());
        let is_left = hop.is_some_and(|hop| !hop.is_forwarded() && hop.action != MirrorHop::GROUP);
        match is_left && model.is_injected(net) {
            true => unresolved.insert(net),
            false => unresolved.remove(&net),
        };
    }

    /// Asks the kernel to resolve neighbours. For those of groups, it would choose a path by
    /// another hash, and so resolve another neighbour than the one that a flow waits for. For those
    /// of injected routes, it may have no packet at all.
    fn resolve(&mut self) {
        let State {
            model,
            groups,
            poked,
            probed,
            ..
        } = &mut self.state;
        if poked.is_some_and(|at| at.elapsed() < RESOLVE) {
            return;
        }
        // Refusals of former requests.
        while self.poke.recv_from_full().is_ok() {}
        let members = groups.unresolved();
        let mut wanted: HashSet<_> = members
            .filter_map(|member| Some((member.link, member.hop.gateway()?)))
            .collect();
        let all = probed.is_none_or(|at| at.elapsed() >= PROBE);
        for address in model.injected().addresses() {
            if let Some(ifindex) = model.device(address)
                && (all || !model.is_neighbour(ifindex, address))
                && !model.is_fixed(ifindex, address)
            {
                wanted.insert((ifindex, address));
            }
        }
        let now = Instant::now();
        if all {
            *probed = Some(now);
        }
        for (ifindex, address) in wanted {
            *poked = Some(now);
            // When this fails, the next attempt comes in a second.
            let _ = resolve(&self.poke, ifindex, address);
        }
    }
}

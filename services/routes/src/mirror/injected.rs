//! Routes that the process itself gives to a mirror, beside the kernel's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use ipnet::IpNet;
use rustix::event::{EventfdFlags, eventfd};

use super::MirrorError;

/// A gateway of an injected route ([`RouteInjector::inject`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gateway {
    /// Its address, on a network that the kernel reaches directly.
    pub address: IpAddr,
    /// Its share of the flows, if the route has several gateways.
    pub weight: u32,
    /// Whether it gets flows only while no other gateway can.
    pub backup: bool,
}

/// A prefix with its gateways, or `None` for a removal. A route without a gateway is left to the
/// kernel.
pub(super) type Change = (IpNet, Option<Arc<[Gateway]>>);

/// Changes that the mirror's thread makes, and where it says what became of them.
pub(super) struct Order {
    pub(super) changes: Vec<Change>,
    pub(super) done: SyncSender<Result<(), MirrorError>>,
}

/// Injects routes into a [`RouteMirror`](crate::RouteMirror), from any thread. Clones are cheap.
#[derive(Clone, Debug)]
pub struct RouteInjector {
    orders: Sender<Order>,
    /// Wakes the mirror's thread.
    wake: Arc<OwnedFd>,
}

impl RouteInjector {
    /// An injector, and what the mirror's thread needs: the orders, and what wakes it.
    pub(super) fn new() -> Result<(Self, Receiver<Order>, Arc<OwnedFd>), MirrorError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags);
        let wake = wake.map_err(|error| MirrorError::io("making an eventfd", error.into()))?;
        let (orders, receiver) = channel();
        let wake = Arc::new(wake);
        let injector = RouteInjector {
            orders,
            wake: Arc::clone(&wake),
        };
        Ok((injector, receiver, wake))
    }

    /// Adds, replaces and removes injected routes, in one transaction of the tables. They are in
    /// the tables when this returns. A prefix with `None` is removed; of several changes of a
    /// prefix, the last one counts. Bits of an address after its prefix do not count.
    ///
    /// A program that looks an address up finds the routes before the transaction or after it,
    /// never a mixture. The root words of the tables are stored one after the other, IPv4 first, so
    /// a lookup of another address may still find the routes before, for as long as the stores
    /// take: see [`Fib`](sapwood::lpm::Fib).
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use sapwood::lpm::IpFib;
    /// use sapwood_routes::{Gateway, RouteMirror};
    /// let mirror = RouteMirror::start(Arc::new(IpFib::new()?))?;
    /// let gateway = Gateway { address: "192.0.2.1".parse()?, weight: 1, backup: false };
    /// mirror.injector().inject([("198.51.100.0/24".parse()?, Some(Arc::from([gateway])))])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`MirrorError::Table`] when the tables have no room, [`MirrorError::Ended`].
    /// Then nothing has changed.
    pub fn inject(
        &self,
        changes: impl IntoIterator<Item = (IpNet, Option<Arc<[Gateway]>>)>,
    ) -> Result<(), MirrorError> {
        let ended = || MirrorError::Ended;
        let (done, answer) = sync_channel(1);
        let changes = changes.into_iter().map(|(net, to)| (net.trunc(), to));
        let changes = changes.collect();
        self.orders
            .send(Order { changes, done })
            .map_err(|_| ended())?;
        rustix::io::write(&*self.wake, &1u64.to_ne_bytes())
            .map_err(|error| MirrorError::io("waking the mirror", error.into()))?;
        answer.recv().map_err(|_| ended())?
    }
}

/// The injected routes of a model.
#[derive(Debug, Default)]
pub(super) struct Injected {
    routes: HashMap<IpNet, Arc<[Gateway]>>,
    /// The prefixes of each list of gateways.
    nets: HashMap<Arc<[Gateway]>, HashSet<IpNet>>,
    /// The lists that have an address.
    lists: BTreeMap<IpAddr, HashSet<Arc<[Gateway]>>>,
}

impl Injected {
    pub(super) fn get(&self, net: &IpNet) -> Option<&Arc<[Gateway]>> {
        self.routes.get(net)
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// All prefixes.
    pub(super) fn nets(&self) -> impl Iterator<Item = &IpNet> {
        self.routes.keys()
    }

    /// The addresses of all gateways.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.lists.keys().copied()
    }

    /// The prefixes with a gateway whose address is in a range.
    pub(super) fn by(&self, addresses: RangeInclusive<IpAddr>) -> impl Iterator<Item = &IpNet> {
        let lists = self.lists.range(addresses).flat_map(|(_, lists)| lists);
        lists.filter_map(|list| self.nets.get(list)).flatten()
    }

    /// Changes the route of a prefix. Returns the route before.
    pub(super) fn set(&mut self, net: IpNet, to: Option<Arc<[Gateway]>>) -> Option<Arc<[Gateway]>> {
        // Equal lists are one list.
        let to = to.map(|to| match self.nets.get_key_value(&to) {
            Some((known, _)) => Arc::clone(known),
            None => to,
        });
        let old = match &to {
            Some(list) => self.routes.insert(net, Arc::clone(list)),
            None => self.routes.remove(&net),
        };
        if let Some(list) = &to {
            self.note(net, list);
        }
        if let Some(old) = old.as_ref().filter(|old| to.as_ref() != Some(*old)) {
            self.forget(net, old);
        }
        old
    }

    /// Notes that a prefix has a list of gateways.
    fn note(&mut self, net: IpNet, list: &Arc<[Gateway]>) {
        let users = self.nets.entry(Arc::clone(list)).or_default();
        users.insert(net);
        if users.len() == 1 {
            for gateway in list.iter() {
                let lists = self.lists.entry(gateway.address).or_default();
                lists.insert(Arc::clone(list));
            }
        }
    }

    /// Notes that a prefix no longer has a list of gateways.
    fn forget(&mut self, net: IpNet, list: &Arc<[Gateway]>) {
        let Some(users) = self.nets.get_mut(list) else {
            return;
        };
        users.remove(&net);
        if !users.is_empty() {
            return;
        }
        self.nets.remove(list);
        for gateway in list.iter() {
            if let Some(lists) = self.lists.get_mut(&gateway.address) {
                lists.remove(list);
                if lists.is_empty() {
                    self.lists.remove(&gateway.address);
                }
            }
        }
    }
}

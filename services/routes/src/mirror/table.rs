//! A model of the kernel's routes, neighbours and links, and of injected routes; and the entries
//! that a table of prefixes must have for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use sapwood::route::{GroupMember, KernelReason, MirrorHop};

use super::injected::{Gateway, Injected};

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A target that only the kernel can use.
    Kernel(KernelReason),
    /// An interface, with a gateway or directly connected.
    Via {
        ifindex: u32,
        gateway: Option<IpAddr>,
    },
    /// Several gateways, in the kernel's order.
    Paths(Arc<[Path]>),
    /// A next-hop object.
    Object(u32),
}

/// One of several gateways of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Path {
    pub(super) ifindex: u32,
    pub(super) gateway: IpAddr,
    pub(super) weight: u32,
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// An interface, with a gateway or directly connected.
    Path {
        ifindex: u32,
        gateway: Option<IpAddr>,
    },
    /// The numbers and the weights of other objects.
    Group(Vec<(u32, u32)>),
    /// An object that only the kernel can use.
    Other,
}

/// What the table has for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Hop(MirrorHop),
    Group(GroupKey),
}

/// The identity of a group of next hops. Routes with the same paths, or with the same object, use
/// the same group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum GroupKey {
    Paths(Arc<[Path]>),
    Object(u32),
    Injected(Arc<[Gateway]>),
}

/// A route for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The route with the least rank is used: the local table before the main one, routes for some
    /// packets before routes for all, then by metric.
    pub(super) rank: (bool, bool, u32),
    pub(super) target: Target,
}

/// The route of a prefix that counts.
enum Chosen<'a> {
    Kernel(&'a Target),
    Injected(&'a Arc<[Gateway]>),
}

/// How a route joins the other routes of its prefix and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    First,
    Last,
    Instead,
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// `None` when the link does not have hardware addresses of six bytes.
    pub(super) mac: Option<[u8; 6]>,
    pub(super) mtu: u32,
    pub(super) up: bool,
    /// Whether it has a carrier.
    pub(super) carrier: bool,
    /// The interface and the number, of a VLAN.
    pub(super) vlan: Option<(u32, u16)>,
}

impl Link {
    /// Whether a group's member can send on it.
    pub(super) fn is_usable(&self) -> bool {
        self.up && self.carrier
    }
}

/// A change of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Route(IpNet, Route, How),
    NoRoute(IpNet, Route),
    /// The interface, the address, its hardware address, and whether that was set by hand.
    Neighbour(u32, IpAddr, Option<[u8; 6]>, bool),
    Link(u32, Link),
    NoLink(u32),
    Object(u32, Object),
    /// A change whose consequences the kernel does not report. Everything must be requested.
    Everything,
}

/// The known routes, neighbours and links.
#[derive(Debug, Default)]
pub(super) struct Model {
    routes: HashMap<IpNet, Vec<Route>>,
    neighbours: BTreeMap<(IpAddr, u32), [u8; 6]>,
    /// Those that were set by hand. A request to resolve one would make the kernel forget it.
    fixed: HashSet<(IpAddr, u32)>,
    links: HashMap<u32, Link>,
    objects: HashMap<u32, Object>,
    injected: Injected,
    /// The prefixes whose routes use each object or did use it, as `users`.
    object_users: HashMap<u32, HashSet<IpNet>>,
    /// Whether the members of groups may have changed.
    groups_dirty: bool,
    /// The prefixes that each gateway reaches or did reach. A former one costs one check at most,
    /// and goes with the next dump.
    users: HashMap<(u32, IpAddr), HashSet<IpNet>>,
    /// Prefixes whose entries in the table may have to change.
    dirty: HashSet<IpNet>,
}

impl Model {
    /// Applies a change. False when the model cannot follow it and everything must be requested.
    #[must_use]
    pub(super) fn note(&mut self, event: Event) -> bool {
        match event {
            Event::Route(net, route, how) => {
                // In IPv6, the routes of a rank may be one route with several next hops.
                // Notifications are then about that route or about one next hop.
                let all = self.routes.get(&net).into_iter().flatten();
                let same = all.filter(|other| other.rank == route.rank).count();
                let alone = same == 0 || (how == How::Instead && same == 1);
                if net.addr().is_ipv6() && !alone {
                    return false;
                }
                self.put(net, route, how);
            }
            Event::NoRoute(net, route) => {
                let Some(all) = self.routes.get_mut(&net) else {
                    return false;
                };
                let Some(at) = all.iter().position(|other| *other == route) else {
                    return false;
                };
                let same = all.iter().filter(|other| other.rank == route.rank).count();
                let one = matches!(route.target, Target::Via { .. } | Target::Object(_));
                if net.addr().is_ipv6() && (same > 1 || !one) {
                    return false;
                }
                all.remove(at);
                if all.is_empty() {
                    self.routes.remove(&net);
                }
                self.touch(net);
            }
            Event::Neighbour(ifindex, address, mac, fixed) => {
                let key = (address, ifindex);
                match fixed {
                    true => self.fixed.insert(key),
                    false => self.fixed.remove(&key),
                };
                let old = match mac {
                    Some(mac) => self.neighbours.insert(key, mac),
                    None => self.neighbours.remove(&key),
                };
                if old != mac {
                    self.dirty.insert(address.into());
                    let users = self.users.get(&(ifindex, address));
                    self.dirty.extend(users.into_iter().flatten());
                    self.dirty.extend(self.injected.by(address..=address));
                    self.groups_dirty = true;
                }
            }
            Event::Object(id, object) => {
                if self.objects.get(&id) != Some(&object) {
                    self.objects.insert(id, object);
                    let users = self.object_users.get(&id);
                    self.dirty.extend(users.into_iter().flatten());
                    self.groups_dirty = true;
                    // The path to a gateway may be by the object.
                    let users: Vec<_> = users.into_iter().flatten().copied().collect();
                    users.into_iter().for_each(|net| self.touch_gateways(net));
                }
            }
            Event::Link(ifindex, link) => {
                // When a link goes down, the kernel removes routes without a notification.
                return self.links.insert(ifindex, link) == Some(link);
            }
            Event::NoLink(_) | Event::Everything => return false,
        }
        true
    }

    fn put(&mut self, net: IpNet, route: Route, how: How) {
        let all = self.routes.entry(net).or_default();
        // The routes of this rank are adjacent.
        let begin = all.partition_point(|other| other.rank < route.rank);
        let end = all.partition_point(|other| other.rank <= route.rank);
        match how {
            How::Instead if begin < end => all[begin] = route,
            How::First | How::Instead => all.insert(begin, route),
            How::Last => all.insert(end, route),
        }
        self.touch(net);
    }

    /// Marks what depends on the routes of a prefix, because they have changed.
    fn touch(&mut self, net: IpNet) {
        self.dirty.insert(net);
        for route in self.routes.get(&net).into_iter().flatten() {
            match route.target {
                Target::Via {
                    ifindex,
                    gateway: Some(gateway),
                } => {
                    let users = self.users.entry((ifindex, gateway)).or_default();
                    users.insert(net);
                }
                Target::Object(id) => {
                    self.object_users.entry(id).or_default().insert(net);
                }
                _ => (),
            }
        }
        self.touch_neighbours(net);
        self.touch_gateways(net);
    }

    /// Marks the neighbours inside a prefix, because the path to them may have changed.
    fn touch_neighbours(&mut self, net: IpNet) {
        let inside = (net.network(), 0)..=(net.broadcast(), u32::MAX);
        let neighbours = self.neighbours.range(inside);
        self.dirty
            .extend(neighbours.map(|((address, _), _)| IpNet::from(*address)));
    }

    /// Marks the injected routes with a gateway inside a prefix, because the path to it may have
    /// changed.
    fn touch_gateways(&mut self, net: IpNet) {
        let gateways = net.network()..=net.broadcast();
        let mut nets = self.injected.by(gateways).peekable();
        self.groups_dirty |= nets.peek().is_some();
        self.dirty.extend(nets);
    }

    /// Changes the injected route of a prefix, and returns the one before.
    pub(super) fn inject(
        &mut self,
        net: IpNet,
        to: Option<Arc<[Gateway]>>,
    ) -> Option<Arc<[Gateway]>> {
        self.dirty.insert(net);
        self.touch_neighbours(net);
        self.injected.set(net, to)
    }

    /// The injected routes.
    pub(super) fn injected(&self) -> &Injected {
        &self.injected
    }

    /// Whether the entry of a prefix is that of an injected route.
    pub(super) fn is_injected(&self, net: IpNet) -> bool {
        matches!(self.chosen(net), Some(Chosen::Injected(_)))
    }

    /// Replaces what the model has of the kernel by the contents of a dump. All prefixes of the old
    /// and the new model are marked.
    pub(super) fn replace(&mut self, events: impl IntoIterator<Item = Event>) {
        let mut new = Model::default();
        for event in events {
            match event {
                Event::Route(net, route, how) => new.put(net, route, how),
                // In a dump, no other event needs a new dump.
                other => drop(new.note(other)),
            }
        }
        new.dirty.extend(self.dirty.drain());
        new.dirty.extend(self.routes.keys());
        let hosts = self.neighbours.keys().chain(new.neighbours.keys());
        new.dirty
            .extend(hosts.map(|(address, _)| IpNet::from(*address)));
        new.dirty.extend(new.routes.keys());
        new.injected = std::mem::take(&mut self.injected);
        new.dirty.extend(new.injected.nets());
        new.groups_dirty = true;
        *self = new;
    }

    /// The number of known routes of the kernel.
    pub(super) fn len(&self) -> usize {
        self.routes.values().map(Vec::len).sum()
    }

    /// Takes the prefixes whose entries in the table may have to change since the last call.
    pub(super) fn take_dirty(&mut self) -> Vec<IpNet> {
        self.dirty.drain().collect()
    }

    /// Marks prefixes again that could not be written.
    pub(super) fn put_back(&mut self, nets: impl IntoIterator<Item = IpNet>) {
        self.dirty.extend(nets);
    }

    /// Whether the members of groups may have changed since the last call.
    pub(super) fn take_groups_dirty(&mut self) -> bool {
        std::mem::take(&mut self.groups_dirty)
    }

    /// Marks the groups again.
    pub(super) fn put_groups_back(&mut self) {
        self.groups_dirty = true;
    }

    /// The entry that the table must have for exactly this prefix.
    pub(super) fn wanted(&self, net: IpNet) -> Option<Entry> {
        match self.chosen(net) {
            Some(Chosen::Kernel(target)) => return Some(self.entry(net, target)),
            Some(Chosen::Injected(gateways)) => return Some(self.injected_entry(net, gateways)),
            None => (),
        }
        // A neighbour on a directly connected network.
        let address = net.addr();
        if net.prefix_len() != net.max_prefix_len() || is_link_local(net) {
            return None;
        }
        let range = (address, 0)..=(address, u32::MAX);
        self.neighbours.range(range).next()?;
        let Chosen::Kernel(target) = self.longest(address, |net| self.chosen(net))? else {
            return None;
        };
        let (ifindex, None) = self.way(target)? else {
            return None;
        };
        let hop = self.hop(net, ifindex, None);
        hop.is_forwarded().then_some(Entry::Hop(hop))
    }

    /// The route that counts for exactly this prefix. This machine's addresses and directly
    /// connected networks come before an injected route, and that one before the kernel's others.
    fn chosen(&self, net: IpNet) -> Option<Chosen<'_>> {
        let all = self.routes.get(&net).map_or(&[][..], Vec::as_slice);
        let kernel = best(net, all).map(Chosen::Kernel);
        let Some(gateways) = self.injected.get(&net) else {
            return kernel;
        };
        let first = all.iter().take_while(|route| route.rank == all[0].rank);
        let mut targets = first.map(|route| (route.rank, &route.target));
        let is_near = targets
            .any(|((is_main, ..), target)| !is_main || matches!(self.way(target), Some((_, None))));
        match is_near {
            true => kernel,
            false => Some(Chosen::Injected(gateways)),
        }
    }

    fn injected_entry(&self, net: IpNet, gateways: &Arc<[Gateway]>) -> Entry {
        if let [gateway] = gateways[..]
            && gateway.weight > 0
        {
            let hop = self.device(gateway.address);
            let hop = hop.map(|ifindex| self.hop(net, ifindex, Some(gateway.address)));
            return Entry::Hop(hop.unwrap_or(UNRESOLVED));
        }
        let key = GroupKey::Injected(Arc::clone(gateways));
        match !is_link_local(net) && self.members(&key).is_some() {
            true => Entry::Group(key),
            false => Entry::Hop(UNRESOLVED),
        }
    }

    /// The interface behind which a gateway is, if the kernel reaches it directly.
    pub(super) fn device(&self, gateway: IpAddr) -> Option<u32> {
        let target = self.longest(gateway, |net| best(net, self.routes.get(&net)?))?;
        match self.way(target)? {
            (ifindex, None) => Some(ifindex),
            (_, Some(_)) => None,
        }
    }

    /// Whether a neighbour was set by hand.
    pub(super) fn is_fixed(&self, ifindex: u32, address: IpAddr) -> bool {
        self.fixed.contains(&(address, ifindex))
    }

    /// Whether the hardware address of a neighbour is known.
    pub(super) fn is_neighbour(&self, ifindex: u32, address: IpAddr) -> bool {
        self.neighbours.contains_key(&(address, ifindex))
    }

    fn entry(&self, net: IpNet, target: &Target) -> Entry {
        let key = match target {
            Target::Paths(paths) => Some(GroupKey::Paths(Arc::clone(paths))),
            Target::Object(id) => match self.objects.get(id) {
                Some(Object::Group(_)) => Some(GroupKey::Object(*id)),
                _ => None,
            },
            _ => None,
        };
        // A link-local address depends on the link, so routers do not forward to it.
        let key = key.filter(|key| !is_link_local(net) && self.members(key).is_some());
        match (key, self.way(target)) {
            (Some(key), _) => Entry::Group(key),
            (None, Some((ifindex, gateway))) => Entry::Hop(self.hop(net, ifindex, gateway)),
            (None, None) => Entry::Hop(MirrorHop::kernel(match target {
                Target::Kernel(reason) => *reason,
                _ if is_link_local(net) => KernelReason::LinkLocal,
                Target::Object(id) if !self.is_group(*id) => KernelReason::Object,
                _ => KernelReason::Several,
            })),
        }
    }

    fn is_group(&self, id: u32) -> bool {
        matches!(self.objects.get(&id), Some(Object::Group(_)))
    }

    /// The interface and the gateway of a target that has one path.
    fn way(&self, target: &Target) -> Option<(u32, Option<IpAddr>)> {
        match target {
            Target::Via { ifindex, gateway } => Some((*ifindex, *gateway)),
            Target::Object(id) => match self.objects.get(id) {
                Some(Object::Path { ifindex, gateway }) => Some((*ifindex, *gateway)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The members that a group must have, in the order of their identities. `None` for a group
    /// with a path that programs cannot follow, or without a path.
    pub(super) fn members(&self, key: &GroupKey) -> Option<Vec<GroupMember>> {
        let mut members: Vec<GroupMember> = Vec::new();
        let mut add = |ifindex, gateway, weight, backup| {
            let hop = self.member_hop(ifindex, gateway)?;
            let id = identity(ifindex, gateway);
            match members.iter_mut().find(|member| member.id == id) {
                // The identities of two addresses of IPv6 may be the same.
                Some(same) if same.hop != hop => return None,
                // It is a member already.
                Some(same) if backup && !same.backup => (),
                Some(same) => same.weight = same.weight.saturating_add(weight),
                None => members.push(GroupMember {
                    id,
                    weight,
                    link: ifindex,
                    backup,
                    hop,
                }),
            }
            Some(())
        };
        match key {
            GroupKey::Paths(paths) => {
                for path in paths.iter() {
                    add(path.ifindex, path.gateway, path.weight, false)?;
                }
            }
            GroupKey::Object(id) => {
                let Some(Object::Group(all)) = self.objects.get(id) else {
                    return None;
                };
                for (id, weight) in all {
                    match self.objects.get(id)? {
                        Object::Path {
                            ifindex,
                            gateway: Some(gateway),
                        } => add(*ifindex, *gateway, *weight, false)?,
                        _ => return None,
                    }
                }
            }
            // The kernel need not have this route, so flows go by known neighbours only.
            GroupKey::Injected(gateways) => {
                for Gateway {
                    address,
                    weight,
                    backup,
                } in gateways.iter()
                {
                    let device = self.device(*address);
                    let known = device.filter(|device| self.is_neighbour(*device, *address));
                    if let Some(ifindex) = known {
                        add(ifindex, *address, *weight, *backup)?;
                    }
                }
            }
        }
        members.sort_by_key(|member| member.id);
        (!members.is_empty()).then_some(members)
    }

    /// The hop of a group's member, also when its link is down.
    fn member_hop(&self, ifindex: u32, gateway: IpAddr) -> Option<MirrorHop> {
        let link = self.links.get(&ifindex)?;
        let dmac = self.neighbours.get(&(gateway, ifindex));
        hop(ifindex, link, Some(gateway), dmac)
    }

    /// What `of` finds for the longest prefix of an address.
    fn longest<T>(&self, address: IpAddr, of: impl Fn(IpNet) -> Option<T>) -> Option<T> {
        let lengths = (0..=IpNet::from(address).max_prefix_len()).rev();
        let mut nets = lengths.filter_map(|len| Some(IpNet::new(address, len).ok()?.trunc()));
        nets.find_map(of)
    }

    fn hop(&self, net: IpNet, ifindex: u32, gateway: Option<IpAddr>) -> MirrorHop {
        // A link-local address depends on the link, so routers do not forward to it.
        if is_link_local(net) {
            return MirrorHop::kernel(KernelReason::LinkLocal);
        }
        let Some(link) = self.links.get(&ifindex).filter(|link| link.up) else {
            return MirrorHop::kernel(KernelReason::Link);
        };
        let host = net.prefix_len() == net.max_prefix_len();
        let neighbour = gateway.or(host.then_some(net.addr()));
        let dmac = neighbour.and_then(|address| self.neighbours.get(&(address, ifindex)));
        hop(ifindex, link, gateway, dmac).unwrap_or(MirrorHop::kernel(KernelReason::Link))
    }
}

/// The hop of injected routes that are left to the kernel.
const UNRESOLVED: MirrorHop = MirrorHop::kernel(KernelReason::Unresolved);

/// The hop of routes with several next hops for which there is no group.
pub(super) const SEVERAL: MirrorHop = MirrorHop::kernel(KernelReason::Several);

/// A hop that programs follow when its neighbour is known. `None` for a link without hardware
/// addresses.
fn hop(
    ifindex: u32,
    link: &Link,
    gateway: Option<IpAddr>,
    dmac: Option<&[u8; 6]>,
) -> Option<MirrorHop> {
    let (family, address) = match gateway {
        None => (0, [0; 16]),
        Some(IpAddr::V4(four)) => {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&four.octets());
            (2, address)
        }
        Some(IpAddr::V6(six)) => (10, six.octets()),
    };
    Some(MirrorHop {
        ifindex,
        mtu: link.mtu.try_into().unwrap_or(0),
        action: match (dmac, link.vlan) {
            (None, _) => MirrorHop::RESOLVE,
            (Some(_), None) => MirrorHop::FORWARD,
            (Some(_), Some(_)) => MirrorHop::TAGGED,
        },
        family,
        smac: link.mac?,
        dmac: dmac.copied().unwrap_or_default(),
        gateway: address,
    })
}

/// The identity of a group's member: for IPv4 the interface and the gateway; for IPv6 a number that
/// is probably of no other gateway.
fn identity(ifindex: u32, gateway: IpAddr) -> u64 {
    let interface = u64::from(ifindex) << 32;
    match gateway {
        IpAddr::V4(four) => interface | u64::from(u32::from(four)),
        IpAddr::V6(six) => {
            let six = u128::from(six);
            let high = (six >> 64) as u64;
            interface ^ six as u64 ^ (high ^ high >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
    }
}

/// The target of the best route of a prefix.
fn best(net: IpNet, all: &[Route]) -> Option<&Target> {
    match all {
        // The kernel prefers a neighbour that it knows to be reachable.
        [first, second, ..] if first.rank == second.rank && net.addr().is_ipv6() => {
            Some(&Target::Kernel(KernelReason::Equal))
        }
        [first, ..] => Some(&first.target),
        [] => None,
    }
}

fn is_link_local(net: IpNet) -> bool {
    const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
    match net {
        IpNet::V4(_) => false,
        IpNet::V6(net) => {
            net.prefix_len() >= 10 && net.addr().segments()[0] & 0xffc0 == LINK_LOCAL.segments()[0]
        }
    }
}

#[cfg(test)]
mod tests;

//! A model of the kernel's routes, neighbours and links, and the entries that a table of prefixes
//! must have for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::groups::GroupMember;
use crate::layout::MirrorHop;

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A target that only the kernel can use.
    Kernel,
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
}

/// A route for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The route with the least rank is used: the local table before the main one, routes for some
    /// packets before routes for all, then by metric.
    pub(super) rank: (bool, bool, u32),
    pub(super) target: Target,
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
    Neighbour(u32, IpAddr, Option<[u8; 6]>),
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
    links: HashMap<u32, Link>,
    objects: HashMap<u32, Object>,
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
            Event::Neighbour(ifindex, address, mac) => {
                let key = (address, ifindex);
                let old = match mac {
                    Some(mac) => self.neighbours.insert(key, mac),
                    None => self.neighbours.remove(&key),
                };
                if old != mac {
                    self.dirty.insert(address.into());
                    let users = self.users.get(&(ifindex, address));
                    self.dirty.extend(users.into_iter().flatten());
                    self.groups_dirty = true;
                }
            }
            Event::Object(id, object) => {
                if self.objects.get(&id) != Some(&object) {
                    self.objects.insert(id, object);
                    let users = self.object_users.get(&id);
                    self.dirty.extend(users.into_iter().flatten());
                    self.groups_dirty = true;
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
        // The path to neighbours inside the prefix may have changed.
        let inside = (net.network(), 0)..=(net.broadcast(), u32::MAX);
        let neighbours = self.neighbours.range(inside);
        self.dirty
            .extend(neighbours.map(|((address, _), _)| IpNet::from(*address)));
    }

    /// Replaces the model by the contents of a dump. All prefixes of the old and the new model are
    /// marked.
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
        new.groups_dirty = true;
        *self = new;
    }

    /// The number of known routes.
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
        if let Some(target) = self.routes.get(&net).and_then(|all| best(net, all)) {
            return Some(self.entry(net, target));
        }
        // A neighbour on a directly connected network.
        let address = net.addr();
        if net.prefix_len() != net.max_prefix_len() || is_link_local(net) {
            return None;
        }
        let range = (address, 0)..=(address, u32::MAX);
        self.neighbours.range(range).next()?;
        let (ifindex, None) = self.way(self.longest(address)?)? else {
            return None;
        };
        let hop = self.hop(net, ifindex, None);
        hop.is_forwarded().then_some(Entry::Hop(hop))
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
            (None, None) => Entry::Hop(KERNEL),
        }
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
        let mut add = |ifindex, gateway, weight| {
            let hop = self.member_hop(ifindex, gateway)?;
            let id = identity(ifindex, gateway);
            match members.iter_mut().find(|member| member.id == id) {
                // The identities of two addresses of IPv6 may be the same.
                Some(same) if same.hop != hop => return None,
                Some(same) => same.weight = same.weight.saturating_add(weight),
                None => members.push(GroupMember {
                    id,
                    weight,
                    link: ifindex,
                    backup: false,
                    hop,
                }),
            }
            Some(())
        };
        match key {
            GroupKey::Paths(paths) => {
                for path in paths.iter() {
                    add(path.ifindex, path.gateway, path.weight)?;
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
                        } => add(*ifindex, *gateway, *weight)?,
                        _ => return None,
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

    /// The target of the best route of the longest prefix of an address.
    fn longest(&self, address: IpAddr) -> Option<&Target> {
        let net = IpNet::from(address);
        (0..=net.max_prefix_len()).rev().find_map(|len| {
            let net = IpNet::new(address, len).ok()?.trunc();
            best(net, self.routes.get(&net)?)
        })
    }

    fn hop(&self, net: IpNet, ifindex: u32, gateway: Option<IpAddr>) -> MirrorHop {
        // A link-local address depends on the link, so routers do not forward to it.
        let link = self.links.get(&ifindex).filter(|link| link.up);
        let Some(link) = link.filter(|_| !is_link_local(net)) else {
            return KERNEL;
        };
        let host = net.prefix_len() == net.max_prefix_len();
        let neighbour = gateway.or(host.then_some(net.addr()));
        let dmac = neighbour.and_then(|address| self.neighbours.get(&(address, ifindex)));
        hop(ifindex, link, gateway, dmac).unwrap_or(KERNEL)
    }
}

/// The hop of routes that are left to the kernel.
pub(super) const KERNEL: MirrorHop = MirrorHop {
    ifindex: 0,
    mtu: 0,
    action: MirrorHop::KERNEL,
    family: 0,
    smac: [0; 6],
    dmac: [0; 6],
    gateway: [0; 16],
};

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
            Some(&Target::Kernel)
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
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(metric: u32, ifindex: u32, gateway: &str) -> Route {
        Route {
            rank: (true, true, metric),
            target: Target::Via {
                ifindex,
                gateway: gateway.parse().ok(),
            },
        }
    }

    fn model() -> Model {
        let mut model = Model::default();
        let link = |last| Link {
            mac: Some([2, 0, 0, 0, 1, last]),
            mtu: 1500,
            up: true,
            carrier: true,
            vlan: None,
        };
        model.replace([
            Event::Link(
                1,
                Link {
                    mac: None,
                    ..link(1)
                },
            ),
            Event::Link(2, link(2)),
            Event::Link(3, link(3)),
            Event::Route(net("10.1.0.0/16"), route(0, 2, ""), How::First),
            Event::Route(net("0.0.0.0/0"), route(0, 2, "10.1.0.1"), How::First),
        ]);
        model
    }

    fn asked(model: &Model, text: &str) -> Option<(u8, u32, [u8; 6])> {
        let Entry::Hop(hop) = model.wanted(net(text))? else {
            panic!("{text} has a group");
        };
        Some((hop.action, hop.ifindex, hop.dmac))
    }

    #[test]
    fn gateways_become_known_and_are_forgotten() {
        let mut model = model();
        model.take_dirty();
        assert_eq!(
            asked(&model, "0.0.0.0/0"),
            Some((MirrorHop::RESOLVE, 2, [0; 6]))
        );
        assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC))));
        let mut dirty = model.take_dirty();
        dirty.sort();
        assert_eq!(dirty, [net("0.0.0.0/0"), net("10.1.0.1/32")]);
        assert_eq!(
            asked(&model, "0.0.0.0/0"),
            Some((MirrorHop::FORWARD, 2, MAC))
        );
        // The gateway is a neighbour itself.
        assert_eq!(
            asked(&model, "10.1.0.1/32"),
            Some((MirrorHop::FORWARD, 2, MAC))
        );
        assert_eq!(asked(&model, "10.1.0.2/32"), None);
        assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC))));
        assert!(model.take_dirty().is_empty());
        assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), None)));
        assert_eq!(
            asked(&model, "0.0.0.0/0"),
            Some((MirrorHop::RESOLVE, 2, [0; 6]))
        );
        assert_eq!(asked(&model, "10.1.0.1/32"), None);
    }

    #[test]
    fn a_neighbour_is_reached_as_its_longest_prefix_says() {
        let mut model = model();
        let known = Event::Neighbour(2, address("10.1.2.3"), Some(MAC));
        assert!(model.note(known));
        assert_eq!(
            asked(&model, "10.1.2.3/32"),
            Some((MirrorHop::FORWARD, 2, MAC))
        );
        model.take_dirty();
        // A longer prefix with another path: the neighbour does not belong to it.
        let other = route(0, 3, "10.9.9.9");
        let add = |route: &Route| Event::Route(net("10.1.2.0/24"), route.clone(), How::First);
        assert!(model.note(add(&other)));
        assert!(model.take_dirty().contains(&net("10.1.2.3/32")));
        assert_eq!(asked(&model, "10.1.2.3/32"), None);
        // The same network on another interface.
        assert!(model.note(Event::NoRoute(net("10.1.2.0/24"), other)));
        let other = route(0, 3, "");
        assert!(model.note(add(&other)));
        assert_eq!(asked(&model, "10.1.2.3/32"), None);
        assert!(model.note(Event::NoRoute(net("10.1.2.0/24"), other)));
        assert_eq!(
            asked(&model, "10.1.2.3/32"),
            Some((MirrorHop::FORWARD, 2, MAC))
        );
    }

    #[test]
    fn the_best_of_several_routes() {
        let mut model = model();
        let prefix = net("10.2.0.0/16");
        let (near, far) = (route(10, 2, "10.1.0.1"), route(20, 3, "10.1.0.1"));
        let add = |route: &Route, how| Event::Route(prefix, route.clone(), how);
        let gone = |route: &Route| Event::NoRoute(prefix, route.clone());
        assert!(model.note(add(&far, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 3);
        assert!(model.note(add(&near, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
        // It replaces only the route with the same metric.
        let again = route(10, 3, "10.1.0.2");
        assert!(model.note(add(&again, How::Instead)));
        assert!(!model.note(gone(&near)));
        assert!(model.note(add(&near, How::Last)));
        let wanted = model.wanted(prefix);
        assert!(matches!(wanted, Some(Entry::Hop(hop)) if hop.gateway[3] == 2));
        assert!(model.note(gone(&again)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
        // Addresses of this machine come before all others.
        let local = Route {
            rank: (false, true, 0),
            target: Target::Kernel,
        };
        assert!(model.note(add(&local, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().0, MirrorHop::KERNEL);
        for route in [local, near, far] {
            assert!(model.note(gone(&route)));
        }
        assert_eq!(asked(&model, "10.2.0.0/16"), None);
    }

    #[test]
    fn what_programs_cannot_do_is_the_kernels() {
        let mut model = model();
        let prefix = net("10.3.0.0/16");
        for ifindex in [1, 9] {
            assert!(model.note(Event::Route(prefix, route(0, ifindex, ""), How::Instead)));
            assert_eq!(asked(&model, "10.3.0.0/16").unwrap().0, MirrorHop::KERNEL);
        }
        let local = net("fe80::/64");
        assert!(model.note(Event::Route(local, route(0, 2, ""), How::First)));
        assert!(model.note(Event::Neighbour(2, address("fe80::1"), Some(MAC))));
        assert_eq!(asked(&model, "fe80::/64").unwrap().0, MirrorHop::KERNEL);
        assert_eq!(asked(&model, "fe80::1/128"), None);
        let by = Event::Route(net("::/0"), route(0, 2, "fe80::1"), How::First);
        assert!(model.note(by));
        assert_eq!(asked(&model, "::/0"), Some((MirrorHop::FORWARD, 2, MAC)));
        // A link that goes down.
        let down = Link {
            up: false,
            ..model.links[&2]
        };
        assert!(!model.note(Event::Link(2, down)));
        assert_eq!(asked(&model, "::/0").unwrap().0, MirrorHop::KERNEL);
    }

    fn path(ifindex: u32, gateway: &str, weight: u32) -> Path {
        Path {
            ifindex,
            gateway: address(gateway),
            weight,
        }
    }

    fn to(target: Target) -> Route {
        Route {
            rank: (true, true, 0),
            target,
        }
    }

    fn group(model: &Model, text: &str) -> Option<(GroupKey, Vec<GroupMember>)> {
        match model.wanted(net(text))? {
            Entry::Group(key) => Some((key.clone(), model.members(&key).unwrap())),
            Entry::Hop(_) => None,
        }
    }

    #[test]
    fn several_paths_are_a_group() {
        let mut model = model();
        let paths = [path(2, "10.1.0.1", 1), path(3, "10.9.0.1", 2)];
        let several = to(Target::Paths(paths.into()));
        let add = |route: &Route, text| Event::Route(net(text), route.clone(), How::First);
        assert!(model.note(add(&several, "10.5.0.0/16")));
        assert!(model.note(add(&several, "fd05::/16")));
        let (key, members) = group(&model, "10.5.0.0/16").unwrap();
        // Routes with the same paths share a group.
        assert_eq!(group(&model, "fd05::/16").unwrap().0, key);
        let seen: Vec<_> = members
            .iter()
            .map(|m| (m.link, m.weight, m.hop.action))
            .collect();
        let unknown = [(2, 1, MirrorHop::RESOLVE), (3, 2, MirrorHop::RESOLVE)];
        assert_eq!(seen, unknown);
        assert!(model.take_groups_dirty() && !model.take_groups_dirty());
        assert!(model.note(Event::Neighbour(3, address("10.9.0.1"), Some(MAC))));
        assert!(model.take_groups_dirty());
        let members = model.members(&key).unwrap();
        assert_eq!(
            (members[1].hop.action, members[1].hop.dmac),
            (MirrorHop::FORWARD, MAC)
        );
        // A member stays while its link is down.
        let down = Link {
            up: false,
            ..model.links[&2]
        };
        assert!(!model.note(Event::Link(2, down)));
        assert_eq!(model.members(&key).unwrap().len(), 2);
        // The same path twice has both weights.
        let twice = GroupKey::Paths([path(2, "10.1.0.1", 3), path(2, "10.1.0.1", 4)].into());
        assert_eq!(model.members(&twice).unwrap()[0].weight, 7);
        // The loopback has no hardware address, and there is no interface 9.
        for other in [1, 9] {
            let paths = [path(2, "10.1.0.1", 1), path(other, "10.9.0.1", 2)];
            let several = to(Target::Paths(paths.into()));
            assert!(model.note(Event::Route(net("10.5.0.0/16"), several, How::Instead)));
            assert_eq!(asked(&model, "10.5.0.0/16").unwrap().0, MirrorHop::KERNEL);
        }
        let link_local = add(&several, "fe80::/64");
        assert!(model.note(link_local));
        assert_eq!(asked(&model, "fe80::/64").unwrap().0, MirrorHop::KERNEL);
    }

    #[test]
    fn objects_change_without_their_routes() {
        let mut model = model();
        let object = |ifindex, gateway: &str| Object::Path {
            ifindex,
            gateway: gateway.parse().ok(),
        };
        assert!(model.note(Event::Object(1, object(2, "10.1.0.1"))));
        assert!(model.note(Event::Object(2, object(3, "10.9.0.1"))));
        assert!(model.note(Event::Object(9, Object::Group(vec![(1, 1), (2, 5)]))));
        let (one, both) = (to(Target::Object(1)), to(Target::Object(9)));
        let add = |route: &Route, text| Event::Route(net(text), route.clone(), How::First);
        assert!(model.note(add(&one, "10.5.0.0/16")));
        assert!(model.note(add(&both, "10.6.0.0/16")));
        assert_eq!(asked(&model, "10.5.0.0/16").unwrap().1, 2);
        let (key, members) = group(&model, "10.6.0.0/16").unwrap();
        assert_eq!(key, GroupKey::Object(9));
        assert_eq!(members.iter().map(|m| m.weight).collect::<Vec<_>>(), [1, 5]);
        model.take_dirty();
        model.take_groups_dirty();
        // The objects change, and no route is announced.
        assert!(model.note(Event::Object(1, object(3, "10.9.0.7"))));
        assert_eq!(model.take_dirty(), [net("10.5.0.0/16")]);
        assert!(model.take_groups_dirty());
        assert_eq!(asked(&model, "10.5.0.0/16").unwrap().1, 3);
        let links: Vec<_> = model
            .members(&key)
            .unwrap()
            .iter()
            .map(|m| m.link)
            .collect();
        assert_eq!(links, [3, 3]);
        assert!(model.note(Event::Object(9, object(2, "10.1.0.1"))));
        assert_eq!(asked(&model, "10.6.0.0/16").unwrap().1, 2);
        for other in [
            Object::Other,
            Object::Group(vec![(77, 1)]),
            Object::Group(vec![]),
        ] {
            assert!(model.note(Event::Object(9, other)));
            assert_eq!(asked(&model, "10.6.0.0/16").unwrap().0, MirrorHop::KERNEL);
        }
        // An object that is not known.
        assert!(model.note(add(&to(Target::Object(8)), "10.7.0.0/16")));
        assert_eq!(asked(&model, "10.7.0.0/16").unwrap().0, MirrorHop::KERNEL);
    }

    #[test]
    fn everything_anew_looks_at_old_and_new() {
        let mut model = model();
        assert!(model.note(Event::Neighbour(2, address("10.1.0.1"), Some(MAC))));
        model.take_dirty();
        model.replace([Event::Route(
            net("10.4.0.0/16"),
            route(0, 2, ""),
            How::First,
        )]);
        let mut dirty = model.take_dirty();
        dirty.sort();
        let all = ["0.0.0.0/0", "10.1.0.0/16", "10.1.0.1/32", "10.4.0.0/16"];
        assert_eq!(dirty, all.map(net));
        assert_eq!(model.len(), 1);
    }
}

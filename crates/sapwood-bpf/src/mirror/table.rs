//! A model of the kernel's routes, neighbours and links, and the entries that a table of prefixes
//! must have for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use crate::layout::MirrorHop;

/// The target of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A target that only the kernel can use.
    Kernel,
    /// An interface, with a gateway or directly connected.
    Via {
        ifindex: u32,
        gateway: Option<IpAddr>,
    },
}

/// A route for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// A change of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Route(IpNet, Route, How),
    NoRoute(IpNet, Route),
    Neighbour(u32, IpAddr, Option<[u8; 6]>),
    Link(u32, Link),
    /// A change whose consequences the kernel does not report. Everything must be requested.
    Everything,
}

/// The known routes, neighbours and links.
#[derive(Debug, Default)]
pub(super) struct Model {
    routes: HashMap<IpNet, Vec<Route>>,
    neighbours: BTreeMap<(IpAddr, u32), [u8; 6]>,
    links: HashMap<u32, Link>,
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
                if net.addr().is_ipv6() && (same > 1 || route.target == Target::Kernel) {
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
                }
            }
            Event::Link(ifindex, link) => {
                // When a link goes down, the kernel removes routes without a notification.
                return self.links.insert(ifindex, link) == Some(link);
            }
            Event::Everything => return false,
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
        for key in gateways(self.routes.get(&net)) {
            self.users.entry(key).or_default().insert(net);
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

    /// The entry that the table must have for exactly this prefix.
    pub(super) fn wanted(&self, net: IpNet) -> Option<MirrorHop> {
        if let Some(target) = self.routes.get(&net).and_then(|all| best(net, all)) {
            return Some(self.hop(net, target));
        }
        // A neighbour on a directly connected network.
        let address = net.addr();
        if net.prefix_len() != net.max_prefix_len() || is_link_local(net) {
            return None;
        }
        let range = (address, 0)..=(address, u32::MAX);
        self.neighbours.range(range).next()?;
        match self.longest(address)? {
            target @ Target::Via { gateway: None, .. } => {
                let hop = self.hop(net, target);
                (hop.action == MirrorHop::FORWARD).then_some(hop)
            }
            _ => None,
        }
    }

    /// The target of the best route of the longest prefix of an address.
    fn longest(&self, address: IpAddr) -> Option<Target> {
        let net = IpNet::from(address);
        (0..=net.max_prefix_len()).rev().find_map(|len| {
            let net = IpNet::new(address, len).ok()?.trunc();
            best(net, self.routes.get(&net)?)
        })
    }

    fn hop(&self, net: IpNet, target: Target) -> MirrorHop {
        let kernel = MirrorHop {
            action: MirrorHop::KERNEL,
            ..MirrorHop::default()
        };
        let Target::Via { ifindex, gateway } = target else {
            return kernel;
        };
        // A link-local address depends on the link, so routers do not forward to it.
        let Some(Link {
            mac: Some(smac),
            mtu,
            up: true,
        }) = self
            .links
            .get(&ifindex)
            .filter(|_| !is_link_local(net))
            .copied()
        else {
            return kernel;
        };
        let host = net.prefix_len() == net.max_prefix_len();
        let neighbour = gateway.or(host.then_some(net.addr()));
        let dmac = neighbour.and_then(|address| self.neighbours.get(&(address, ifindex)));
        let (family, address) = match gateway {
            None => (0, [0; 16]),
            Some(IpAddr::V4(four)) => {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&four.octets());
                (2, address)
            }
            Some(IpAddr::V6(six)) => (10, six.octets()),
        };
        MirrorHop {
            ifindex,
            mtu: mtu.try_into().unwrap_or(0),
            action: match dmac {
                Some(_) => MirrorHop::FORWARD,
                None => MirrorHop::RESOLVE,
            },
            family,
            smac,
            dmac: dmac.copied().unwrap_or_default(),
            gateway: address,
        }
    }
}

/// The target of the best route of a prefix.
fn best(net: IpNet, all: &[Route]) -> Option<Target> {
    match all {
        // In IPv6 these are one route with several next hops, or the kernel prefers a neighbour
        // that it knows to be reachable.
        [first, second, ..] if first.rank == second.rank && net.addr().is_ipv6() => {
            Some(Target::Kernel)
        }
        [first, ..] => Some(first.target),
        [] => None,
    }
}

fn gateways(routes: Option<&Vec<Route>>) -> impl Iterator<Item = (u32, IpAddr)> + use<'_> {
    let all = routes.into_iter().flatten();
    all.filter_map(|route| match route.target {
        Target::Via {
            ifindex,
            gateway: Some(gateway),
        } => Some((ifindex, gateway)),
        _ => None,
    })
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
        let hop = model.wanted(net(text))?;
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
        assert!(model.note(Event::Route(net("10.1.2.0/24"), other, How::First)));
        assert!(model.take_dirty().contains(&net("10.1.2.3/32")));
        assert_eq!(asked(&model, "10.1.2.3/32"), None);
        // The same network on another interface.
        assert!(model.note(Event::NoRoute(net("10.1.2.0/24"), other)));
        let other = route(0, 3, "");
        assert!(model.note(Event::Route(net("10.1.2.0/24"), other, How::First)));
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
        assert!(model.note(Event::Route(prefix, far, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 3);
        assert!(model.note(Event::Route(prefix, near, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
        // It replaces only the route with the same metric.
        let again = route(10, 3, "10.1.0.2");
        assert!(model.note(Event::Route(prefix, again, How::Instead)));
        assert!(!model.note(Event::NoRoute(prefix, near)));
        assert!(model.note(Event::Route(prefix, near, How::Last)));
        assert_eq!(model.wanted(prefix).unwrap().gateway[3], 2);
        assert!(model.note(Event::NoRoute(prefix, again)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().1, 2);
        // Addresses of this machine come before all others.
        let local = Route {
            rank: (false, true, 0),
            target: Target::Kernel,
        };
        assert!(model.note(Event::Route(prefix, local, How::First)));
        assert_eq!(asked(&model, "10.2.0.0/16").unwrap().0, MirrorHop::KERNEL);
        for gone in [local, near, far] {
            assert!(model.note(Event::NoRoute(prefix, gone)));
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

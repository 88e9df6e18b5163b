//! Reads the routes of the running kernel by rtnetlink.

use ipnet::IpNet;

use crate::hop::Hop;
use crate::{Error, Route, RouteSource};

/// The number of the kernel's main table.
pub const MAIN_TABLE: u32 = 254;

/// The kernel's routes at the time of [`kernel_routes`].
#[derive(Debug)]
pub struct KernelRoutes {
    routes: std::vec::IntoIter<(IpNet, Hop)>,
    current: Option<Hop>,
    special: u64,
    dead: u64,
}

impl RouteSource for KernelRoutes {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        let Some((net, hop)) = self.routes.next() else {
            return Ok(None);
        };
        let hop = self.current.insert(hop).as_saved();
        Ok(Some(Route { net, hop }))
    }

    fn remarks(&self) -> Vec<(u64, String)> {
        let special = "routes that are not unicast, or for one type of service only";
        let dead = "routes whose next hops are all dead";
        vec![(self.special, special.into()), (self.dead, dead.into())]
    }
}

/// Reads the unicast routes and the null routes of a table of the kernel, of both families. The
/// main table is [`MAIN_TABLE`]; `ip link show type vrf` and `ip rule` show the others.
///
/// Of several routes for one prefix it takes the one with the least metric, as the kernel does. A
/// next hop is the address of the gateway, or `dev` and the device if there is no gateway. A
/// link-local address has `%` and the device after it. Several next hops are a group, in the order
/// of their texts. Next hops that the kernel knows to be dead are left out, and so is a route that
/// has no others. Blackhole, unreachable, prohibit and throw are null routes.
///
/// # Errors
///
/// When the kernel does not answer, or the system is not Linux.
#[cfg(target_os = "linux")]
pub fn kernel_routes(table: u32) -> std::io::Result<KernelRoutes> {
    let linux::Found {
        routes,
        special,
        dead,
    } = linux::routes(table)?;
    Ok(KernelRoutes {
        routes: routes.into_iter(),
        current: None,
        special,
        dead,
    })
}

/// Fails, because only Linux has rtnetlink.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn kernel_routes(_: u32) -> std::io::Result<KernelRoutes> {
    let what = "the routes of the system can be read on Linux only";
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, what))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::btree_map::Entry;
    use std::collections::{BTreeMap, HashMap};
    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use ipnet::IpNet;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use netlink_packet_route::route::{
        RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType,
        RouteVia,
    };
    use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
    use sapwood::lpm::NullRoute;

    use crate::dump::{asking, dump};
    use crate::hop::{Hop, hop_name};

    /// What a table has.
    pub struct Found {
        /// In the order of prefixes.
        pub routes: Vec<(IpNet, Hop)>,
        /// Routes that no table of prefixes has.
        pub special: u64,
        /// Routes without a next hop that is alive.
        pub dead: u64,
    }

    /// All routes of a table.
    pub fn routes(table: u32) -> io::Result<Found> {
        let socket = asking()?;
        let mut names = HashMap::new();
        for message in dump(
            &socket,
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
        )? {
            if let RouteNetlinkMessage::NewLink(link) = message {
                let name = link
                    .attributes
                    .into_iter()
                    .find_map(|attribute| match attribute {
                        LinkAttribute::IfName(name) => Some(name),
                        _ => None,
                    });
                names.extend(name.map(|name| (link.header.index, name)));
            }
        }
        let mut best: BTreeMap<IpNet, (u32, Hop)> = BTreeMap::new();
        let (mut special, mut dead) = (0, 0);
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut ask = RouteMessage::default();
            ask.header.address_family = family;
            for message in dump(&socket, RouteNetlinkMessage::GetRoute(ask))? {
                let RouteNetlinkMessage::NewRoute(route) = message else {
                    continue;
                };
                if table_of(&route) != table || route.header.flags.contains(RouteFlags::Cloned) {
                    continue;
                }
                let Some((net, metric)) = for_all(&route) else {
                    special += 1;
                    continue;
                };
                let Some(hop) = hop(&route, &names) else {
                    dead += 1;
                    continue;
                };
                match best.entry(net) {
                    Entry::Occupied(known) if known.get().0 <= metric => {}
                    Entry::Occupied(mut known) => drop(known.insert((metric, hop))),
                    Entry::Vacant(free) => drop(free.insert((metric, hop))),
                }
            }
        }
        let routes = best.into_iter().map(|(net, (_, hop))| (net, hop));
        let routes = routes.collect();
        Ok(Found {
            routes,
            special,
            dead,
        })
    }

    /// The number of a route's table: the attribute, or the header's field of 8 bits.
    fn table_of(route: &RouteMessage) -> u32 {
        let number = route
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Table(number) => Some(*number),
                _ => None,
            });
        number.unwrap_or(route.header.table.into())
    }

    /// The null route that a type is.
    fn null_of(kind: RouteType) -> Option<NullRoute> {
        Some(match kind {
            RouteType::BlackHole => NullRoute::Blackhole,
            RouteType::Unreachable => NullRoute::Unreachable,
            RouteType::Prohibit => NullRoute::Prohibit,
            RouteType::Throw => NullRoute::Throw,
            _ => return None,
        })
    }

    /// The prefix and the metric of a unicast or null route for all traffic; `None` for other
    /// routes.
    fn for_all(route: &RouteMessage) -> Option<(IpNet, u32)> {
        let kind = route.header.kind;
        if (kind != RouteType::Unicast && null_of(kind).is_none())
            || route.header.tos != 0
            || route.header.source_prefix_length != 0
        {
            return None;
        }
        let mut address: IpAddr = match route.header.address_family {
            AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
            AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        };
        let mut metric = 0;
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(to)) => address = (*to).into(),
                RouteAttribute::Destination(RouteAddress::Inet6(to)) => address = (*to).into(),
                RouteAttribute::Priority(number) => metric = *number,
                _ => {}
            }
        }
        let net = IpNet::new(address, route.header.destination_prefix_length).ok()?;
        Some((net.trunc(), metric))
    }

    /// What a route leads to; `None` if all its next hops are dead.
    fn hop(route: &RouteMessage, names: &HashMap<u32, String>) -> Option<Hop> {
        if let Some(null) = null_of(route.header.kind) {
            return Some(Hop::Null(null));
        }
        let attributes = &route.attributes;
        let many = attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops),
            _ => None,
        });
        let Some(hops) = many else {
            let alive = !route.header.flags.contains(RouteFlags::Dead);
            return alive.then(|| Hop::Name(one_hop(attributes, None, names)));
        };
        let alive = hops
            .iter()
            .filter(|hop| !hop.flags.contains(RouteNextHopFlags::Dead));
        Hop::of_members(alive.map(|hop| {
            let member = one_hop(&hop.attributes, Some(hop.interface_index), names);
            // The kernel's number is the weight less one.
            (member, u32::from(hop.hops) + 1)
        }))
    }

    fn one_hop(
        attributes: &[RouteAttribute],
        device: Option<u32>,
        names: &HashMap<u32, String>,
    ) -> String {
        let mut gateway: Option<IpAddr> = None;
        let (mut device, mut object) = (device, None);
        for attribute in attributes {
            match attribute {
                RouteAttribute::Gateway(RouteAddress::Inet(to)) => gateway = Some((*to).into()),
                RouteAttribute::Gateway(RouteAddress::Inet6(to)) => gateway = Some((*to).into()),
                RouteAttribute::Via(RouteVia::Inet(to)) => gateway = Some((*to).into()),
                RouteAttribute::Via(RouteVia::Inet6(to)) => gateway = Some((*to).into()),
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::NhId(number) => object = Some(*number),
                _ => {}
            }
        }
        let name = |index: u32| {
            let known = names.get(&index).cloned();
            known.unwrap_or_else(|| format!("if{index}"))
        };
        match (gateway, device.map(name), object) {
            (None, None, Some(number)) => format!("nhid {number}"),
            (gateway, device, _) => hop_name(gateway, device.as_deref()),
        }
    }

    #[cfg(test)]
    mod tests {
        use netlink_packet_route::route::{RouteHeader, RouteNextHop};

        use super::*;

        fn names() -> HashMap<u32, String> {
            [(1, "lo"), (2, "eth0")]
                .map(|(i, name)| (i, name.to_owned()))
                .into()
        }

        fn hop_by(address: [u8; 4], device: u32, weight: u8) -> RouteNextHop {
            let mut hop = RouteNextHop::default();
            hop.hops = weight - 1;
            hop.interface_index = device;
            if address != [0; 4] {
                hop.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(address.into()))];
            }
            hop
        }

        fn route(attributes: Vec<RouteAttribute>) -> RouteMessage {
            let mut route = RouteMessage::default();
            route.header.address_family = AddressFamily::Inet;
            route.header.kind = RouteType::Unicast;
            route.attributes = attributes;
            route
        }

        #[test]
        fn next_hops_in_text() {
            let local: Ipv6Addr = "fe80::1".parse().unwrap();
            let far: Ipv6Addr = "2001:db8::1".parse().unwrap();
            let via = |to| RouteAttribute::Gateway(RouteAddress::Inet6(to));
            let dead = |mut hop: RouteNextHop| {
                hop.flags = RouteNextHopFlags::Dead;
                hop
            };
            for (attributes, text) in [
                (vec![RouteAttribute::Oif(2)], "dev eth0"),
                (vec![RouteAttribute::Oif(9)], "dev if9"),
                (vec![RouteAttribute::Oif(2), via(local)], "fe80::1%eth0"),
                (vec![RouteAttribute::Oif(2), via(far)], "2001:db8::1"),
                (
                    vec![RouteAttribute::Via(RouteVia::Inet6(far))],
                    "2001:db8::1",
                ),
                (vec![RouteAttribute::NhId(7)], "nhid 7"),
                (vec![], ""),
                (
                    vec![RouteAttribute::MultiPath(vec![
                        hop_by([192, 0, 2, 9], 2, 1),
                        hop_by([192, 0, 2, 1], 2, 3),
                        hop_by([0; 4], 1, 1),
                    ])],
                    "192.0.2.1 weight 3, 192.0.2.9 weight 1, dev lo weight 1",
                ),
                (
                    vec![RouteAttribute::MultiPath(vec![
                        hop_by([192, 0, 2, 9], 2, 1),
                        dead(hop_by([192, 0, 2, 1], 2, 3)),
                    ])],
                    "192.0.2.9",
                ),
            ] {
                let hop = hop(&route(attributes), &names()).unwrap();
                assert_eq!(hop.as_saved().to_string(), text);
            }
        }

        #[test]
        fn routes_whose_next_hops_are_dead_are_none() {
            let mut one = route(vec![RouteAttribute::Oif(2)]);
            one.header.flags = RouteFlags::Dead;
            assert_eq!(hop(&one, &names()), None);
            let mut gone = hop_by([192, 0, 2, 1], 2, 3);
            gone.flags = RouteNextHopFlags::Dead;
            let many = route(vec![RouteAttribute::MultiPath(vec![gone.clone(), gone])]);
            assert_eq!(hop(&many, &names()), None);
        }

        #[test]
        fn unicast_and_null_routes_for_all_traffic_count() {
            let mut route = route(Vec::new());
            route.header.table = RouteHeader::RT_TABLE_MAIN;
            assert_eq!(for_all(&route), Some(("0.0.0.0/0".parse().unwrap(), 0)));
            assert_eq!(table_of(&route), super::super::MAIN_TABLE);
            route.attributes = vec![
                RouteAttribute::Destination(RouteAddress::Inet([10, 0, 0, 0].into())),
                RouteAttribute::Priority(100),
                RouteAttribute::Table(1000),
            ];
            route.header.destination_prefix_length = 8;
            let right = Some(("10.0.0.0/8".parse().unwrap(), 100));
            assert_eq!(for_all(&route), right);
            assert_eq!(table_of(&route), 1000);
            route.header.destination_prefix_length = 33;
            assert_eq!(for_all(&route), None);
            route.header.destination_prefix_length = 8;
            route.header.tos = 4;
            assert_eq!(for_all(&route), None);
            route.header.tos = 0;
            for (kind, null) in [
                (RouteType::BlackHole, NullRoute::Blackhole),
                (RouteType::Unreachable, NullRoute::Unreachable),
                (RouteType::Prohibit, NullRoute::Prohibit),
                (RouteType::Throw, NullRoute::Throw),
            ] {
                route.header.kind = kind;
                assert_eq!(for_all(&route), right);
                assert_eq!(hop(&route, &names()), Some(Hop::Null(null)));
            }
            for kind in [RouteType::Local, RouteType::Multicast, RouteType::Broadcast] {
                route.header.kind = kind;
                assert_eq!(for_all(&route), None);
            }
        }

        #[test]
        fn the_kernel_answers() {
            match routes(super::super::MAIN_TABLE) {
                Ok(Found { routes, .. }) => {
                    assert!(routes.is_sorted_by(|a, b| a.0 < b.0), "{routes:?}");
                    assert!(routes.iter().all(|(net, _)| net.addr() == net.network()));
                }
                Err(error) => {
                    eprintln!("skipped: this system does not allow netlink: {error}")
                }
            }
        }
    }
}

//! Reads the routes of the running kernel by rtnetlink.

use ipnet::IpNet;

use crate::{Error, Route, RouteSource};

/// The kernel's routes at the time of [`kernel_routes`].
#[derive(Debug)]
pub struct KernelRoutes {
    routes: std::vec::IntoIter<(IpNet, String)>,
    current: String,
    special: u64,
}

impl RouteSource for KernelRoutes {
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error> {
        let Some((net, next_hop)) = self.routes.next() else {
            return Ok(None);
        };
        self.current = next_hop;
        let next_hop = &self.current;
        Ok(Some(Route { net, next_hop }))
    }

    fn remarks(&self) -> Vec<(u64, &'static str)> {
        vec![(
            self.special,
            "routes that are not unicast, or for one type of service only",
        )]
    }
}

/// Reads the unicast routes of the kernel's main table, of both families.
///
/// Of several routes for one prefix it takes the one with the least metric, as the kernel does. A
/// next hop is the address of the gateway, or `dev` and the device if there is no gateway. A
/// link-local address has `%` and the device after it. Several next hops are sorted, with commas
/// between them, and `weight N` after each whose weight is not one.
///
/// # Errors
///
/// When the kernel does not answer, or the system is not Linux.
#[cfg(target_os = "linux")]
pub fn kernel_routes() -> std::io::Result<KernelRoutes> {
    let (routes, special) = linux::routes()?;
    Ok(KernelRoutes {
        routes: routes.into_iter(),
        current: String::new(),
        special,
    })
}

/// Fails, because only Linux has rtnetlink.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn kernel_routes() -> std::io::Result<KernelRoutes> {
    let what = "the routes of the system can be read on Linux only";
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, what))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, HashMap};
    use std::io;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use ipnet::IpNet;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use netlink_packet_route::route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia,
    };
    use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

    use crate::dump::{asking, dump};

    /// All routes in order of prefixes, and how many were skipped.
    pub fn routes() -> io::Result<(Vec<(IpNet, String)>, u64)> {
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
        let mut best: BTreeMap<IpNet, (u32, String)> = BTreeMap::new();
        let mut special = 0;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut ask = RouteMessage::default();
            ask.header.address_family = family;
            for message in dump(&socket, RouteNetlinkMessage::GetRoute(ask))? {
                let RouteNetlinkMessage::NewRoute(route) = message else {
                    continue;
                };
                if table_of(&route) != u32::from(RouteHeader::RT_TABLE_MAIN) {
                    continue;
                }
                let Some((net, metric)) = unicast(&route) else {
                    special += 1;
                    continue;
                };
                let next_hop = next_hop(&route.attributes, &names);
                let known = best.get(&net).is_none_or(|(least, _)| metric < *least);
                if known {
                    best.insert(net, (metric, next_hop));
                }
            }
        }
        let routes = best.into_iter().map(|(net, (_, next_hop))| (net, next_hop));
        Ok((routes.collect(), special))
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

    /// The prefix and the metric of a unicast route for all traffic; `None` for other routes.
    fn unicast(route: &RouteMessage) -> Option<(IpNet, u32)> {
        if route.header.kind != RouteType::Unicast
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

    /// The text of the next hops of a route, as `kernel_routes` describes it.
    fn next_hop(attributes: &[RouteAttribute], names: &HashMap<u32, String>) -> String {
        let many = attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops),
            _ => None,
        });
        let Some(hops) = many else {
            return one_hop(attributes, None, names);
        };
        let mut members: Vec<String> = hops
            .iter()
            .map(|hop| {
                let member = one_hop(&hop.attributes, Some(hop.interface_index), names);
                // The kernel's number is the weight less one.
                match hop.hops {
                    0 => member,
                    more => format!("{member} weight {}", u32::from(more) + 1),
                }
            })
            .collect();
        members.sort();
        members.join(", ")
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
            names
                .get(&index)
                .cloned()
                .unwrap_or_else(|| format!("if{index}"))
        };
        let local = |to: IpAddr| matches!(to, IpAddr::V6(to) if to.is_unicast_link_local());
        match (gateway, device, object) {
            (Some(to), Some(index), _) if local(to) => format!("{to}%{}", name(index)),
            (Some(to), ..) => to.to_string(),
            (None, Some(index), _) => format!("dev {}", name(index)),
            (None, None, Some(number)) => format!("nhid {number}"),
            (None, None, None) => String::new(),
        }
    }

    #[cfg(test)]
    mod tests {
        use netlink_packet_route::route::RouteNextHop;

        use super::*;

        fn names() -> HashMap<u32, String> {
            [(1, "lo"), (2, "eth0")]
                .map(|(i, name)| (i, name.to_owned()))
                .into()
        }

        fn hop(address: [u8; 4], device: u32, weight: u8) -> RouteNextHop {
            let mut hop = RouteNextHop::default();
            hop.hops = weight - 1;
            hop.interface_index = device;
            if address != [0; 4] {
                hop.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(address.into()))];
            }
            hop
        }

        #[test]
        fn next_hops_in_text() {
            let local: Ipv6Addr = "fe80::1".parse().unwrap();
            let far: Ipv6Addr = "2001:db8::1".parse().unwrap();
            let via = |to| RouteAttribute::Gateway(RouteAddress::Inet6(to));
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
                        hop([192, 0, 2, 9], 2, 1),
                        hop([192, 0, 2, 1], 2, 3),
                        hop([0; 4], 1, 1),
                    ])],
                    "192.0.2.1 weight 3, 192.0.2.9, dev lo",
                ),
            ] {
                assert_eq!(next_hop(&attributes, &names()), text);
            }
        }

        #[test]
        fn only_unicast_routes_for_all_traffic_count() {
            let mut route = RouteMessage::default();
            route.header.address_family = AddressFamily::Inet;
            route.header.kind = RouteType::Unicast;
            route.header.table = RouteHeader::RT_TABLE_MAIN;
            assert_eq!(unicast(&route), Some(("0.0.0.0/0".parse().unwrap(), 0)));
            assert_eq!(table_of(&route), 254);
            route.attributes = vec![
                RouteAttribute::Destination(RouteAddress::Inet([10, 0, 0, 0].into())),
                RouteAttribute::Priority(100),
                RouteAttribute::Table(1000),
            ];
            route.header.destination_prefix_length = 8;
            assert_eq!(unicast(&route), Some(("10.0.0.0/8".parse().unwrap(), 100)));
            assert_eq!(table_of(&route), 1000);
            route.header.destination_prefix_length = 33;
            assert_eq!(unicast(&route), None);
            route.header.destination_prefix_length = 8;
            route.header.tos = 4;
            assert_eq!(unicast(&route), None);
            route.header.tos = 0;
            route.header.kind = RouteType::BlackHole;
            assert_eq!(unicast(&route), None);
        }

        #[test]
        fn the_kernel_answers() {
            match routes() {
                Ok((routes, _)) => {
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

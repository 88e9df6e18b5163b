//! The routes that have an MTU of their own, for programs that ask the kernel's table.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteMetric};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;

use super::netlink::listening;
use crate::dump::{asking, dump, each};

/// The groups of notifications about routes of IPv4 and of IPv6.
const GROUPS: [u32; 2] = [7, 11];

/// Bytes of the socket's buffer.
const BUFFER: usize = 1 << 20;

/// The least MTU of the routes of each prefix that have one, in all tables of the kernel.
#[derive(Debug)]
pub(crate) struct RouteMtus {
    socket: Socket,
    known: BTreeMap<IpNet, u16>,
}

impl RouteMtus {
    /// Reads the routes of the namespace of the calling thread.
    pub(crate) fn new() -> io::Result<RouteMtus> {
        // Changes during the dump are heard afterwards.
        let socket = listening(BUFFER, &GROUPS)?;
        let known = read()?;
        Ok(RouteMtus { socket, known })
    }

    /// The prefixes, each with an MTU.
    pub(crate) fn known(&self) -> &BTreeMap<IpNet, u16> {
        &self.known
    }

    /// Reads the routes again, if a change may concern them. Returns whether it did.
    pub(crate) fn update(&mut self) -> io::Result<bool> {
        /// The socket's buffer was full, and the kernel dropped notifications.
        const ENOBUFS: i32 = 105;
        let mut concerns = false;
        loop {
            let datagram = match self.socket.recv_from_full() {
                Ok((datagram, _)) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                    concerns = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            each(&datagram, |message| {
                let NetlinkPayload::InnerMessage(
                    RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route),
                ) = message.payload
                else {
                    return;
                };
                // A route without an MTU may replace one with it.
                concerns |= mtu_of(&route).is_some()
                    || prefix_of(&route).is_some_and(|net| self.known.contains_key(&net));
            })?;
        }
        if concerns {
            self.known = read()?;
        }
        Ok(concerns)
    }
}

/// All routes with an MTU.
fn read() -> io::Result<BTreeMap<IpNet, u16>> {
    let socket = asking()?;
    let mut all = BTreeMap::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family;
        for message in dump(&socket, RouteNetlinkMessage::GetRoute(ask))? {
            let RouteNetlinkMessage::NewRoute(route) = message else {
                continue;
            };
            if let Some((net, mtu)) = prefix_of(&route).zip(mtu_of(&route)) {
                let least = all.entry(net).or_insert(mtu);
                *least = mtu.min(*least);
            }
        }
    }
    Ok(all)
}

fn prefix_of(route: &RouteMessage) -> Option<IpNet> {
    let mut address: IpAddr = match route.header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(to)) => address = (*to).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => address = (*to).into(),
            _ => {}
        }
    }
    IpNet::new(address, route.header.destination_prefix_length).ok()
}

/// The MTU of a route, if it has one of its own.
fn mtu_of(route: &RouteMessage) -> Option<u16> {
    let metrics = route.attributes.iter().find_map(|one| match one {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    });
    metrics?.iter().find_map(|metric| match metric {
        // No packet has more bytes than 65,535.
        RouteMetric::Mtu(mtu) => Some(u16::try_from(*mtu).unwrap_or(u16::MAX)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_their_mtus() {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        assert_eq!(prefix_of(&route), Some("0.0.0.0/0".parse().unwrap()));
        assert_eq!(mtu_of(&route), None);
        route.header.destination_prefix_length = 8;
        route.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet([10, 0, 0, 0].into())),
            RouteAttribute::Metrics(vec![RouteMetric::Lock(4), RouteMetric::Mtu(1300)]),
        ];
        assert_eq!(prefix_of(&route), Some("10.0.0.0/8".parse().unwrap()));
        assert_eq!(mtu_of(&route), Some(1300));
        route.attributes[1] = RouteAttribute::Metrics(vec![RouteMetric::Mtu(70_000)]);
        assert_eq!(mtu_of(&route), Some(65_535));
        route.attributes[1] = RouteAttribute::Metrics(vec![RouteMetric::Advmss(9)]);
        assert_eq!(mtu_of(&route), None);
    }
}

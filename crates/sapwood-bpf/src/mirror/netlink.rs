//! The kernel's messages about routes, neighbours and links.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteType,
    RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};

use super::dump::{dump, each};
use super::table::{Event, How, Link, Route, Target};

/// Groups of notifications: links, neighbours, IPv4 addresses and routes, IPv6 addresses and
/// routes.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// The table of the machine's own addresses.
const LOCAL: u32 = 255;

/// States of neighbours whose hardware address may be used: reachable, stale, delay, probe, no ARP,
/// permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Opens a socket that receives notifications without blocking.
pub(super) fn listening(buffer: usize) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    let bytes = i32::try_from(buffer).unwrap_or(i32::MAX);
    socket.set_rx_buf_sz(bytes)?;
    socket.bind_auto()?;
    for group in GROUPS {
        socket.add_membership(group)?;
    }
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// The result of one attempt to receive.
pub(super) enum Heard {
    Events(Vec<Event>),
    /// No notification is waiting.
    Nothing,
    /// The kernel dropped notifications.
    Lost,
}

/// Receives a datagram of notifications.
pub(super) fn hear(socket: &Socket) -> io::Result<Heard> {
    /// The socket's buffer was full, and the kernel dropped notifications.
    const ENOBUFS: i32 = 105;
    let (datagram, sender) = match socket.recv_from_full() {
        Ok(got) => got,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Heard::Nothing),
        Err(error) if error.raw_os_error() == Some(ENOBUFS) => return Ok(Heard::Lost),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Ok(Heard::Events(Vec::new()));
        }
        Err(error) => return Err(error),
    };
    let mut events = Vec::new();
    // Only messages of the kernel count.
    if sender.port_number() == 0 {
        each(&datagram, |message| {
            if let NetlinkPayload::InnerMessage(inner) = message.payload {
                events.extend(event(inner, Some(message.header.flags)));
            }
        })?;
    }
    Ok(Heard::Events(events))
}

/// Requests everything: links first, then neighbours and routes.
pub(super) fn everything(socket: &Socket) -> io::Result<Vec<Event>> {
    let mut all = Vec::new();
    let links = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let neighbours = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let routes = |family| {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family;
        RouteNetlinkMessage::GetRoute(ask)
    };
    let [four, six] = [AddressFamily::Inet, AddressFamily::Inet6].map(routes);
    for ask in [links, neighbours, four, six] {
        for message in dump(socket, ask)? {
            all.extend(event(message, None).filter(|event| *event != Event::Everything));
        }
    }
    Ok(all)
}

/// The event of a message, if it matters for forwarding. `flags` are those of a notification; for
/// answers they are `None`.
fn event(message: RouteNetlinkMessage, flags: Option<u16>) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewRoute(message) => {
            let dead = RouteFlags::Dead | RouteFlags::Cloned;
            if message.header.flags.intersects(dead) {
                return None;
            }
            let (net, route) = route(&message)?;
            let has = |flag| flags.is_some_and(|flags| flags & flag != 0);
            let how = match () {
                () if has(NLM_F_REPLACE) => How::Instead,
                // Answers come in the kernel's order.
                () if has(NLM_F_APPEND) || flags.is_none() => How::Last,
                () => How::First,
            };
            Some(Event::Route(net, route, how))
        }
        RouteNetlinkMessage::DelRoute(message) => {
            let (net, route) = route(&message)?;
            Some(Event::NoRoute(net, route))
        }
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(&message, true),
        RouteNetlinkMessage::DelNeighbour(message) => neighbour(&message, false),
        RouteNetlinkMessage::NewLink(message) => {
            // Messages of bridges about their ports.
            if message.header.interface_family != AddressFamily::Unspec {
                return None;
            }
            let (mut mac, mut mtu) = (None, 0);
            for attribute in &message.attributes {
                match attribute {
                    LinkAttribute::Address(bytes) => mac = bytes.as_slice().try_into().ok(),
                    LinkAttribute::Mtu(bytes) => mtu = *bytes,
                    _ => {}
                }
            }
            let flags = message.header.flags;
            let link = Link {
                mac: mac.filter(|_| !flags.contains(LinkFlags::Loopback)),
                mtu,
                up: flags.contains(LinkFlags::Up),
            };
            Some(Event::Link(message.header.index, link))
        }
        RouteNetlinkMessage::DelLink(_) | RouteNetlinkMessage::DelAddress(_) => {
            Some(Event::Everything)
        }
        _ => None,
    }
}

fn neighbour(message: &NeighbourMessage, there: bool) -> Option<Event> {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => {
                address = Some(IpAddr::from(*to));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(to)) => {
                address = Some(IpAddr::from(*to));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let usable = there && u16::from(message.header.state) & USABLE != 0;
    let mac = mac.filter(|_| usable);
    Some(Event::Neighbour(message.header.ifindex, address?, mac))
}

/// The prefix and the route of a message, if forwarding uses its table.
fn route(message: &RouteMessage) -> Option<(IpNet, Route)> {
    let header = &message.header;
    let mut address: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    if header
        .flags
        .intersects(RouteFlags::Dead | RouteFlags::Cloned)
    {
        return None;
    }
    let (mut table, mut metric) = (u32::from(header.table), 0);
    let (mut gateway, mut device, mut simple) = (None, None, true);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(to)) => address = (*to).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => address = (*to).into(),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Gateway(RouteAddress::Inet(to)) => gateway = Some((*to).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(to)) => gateway = Some((*to).into()),
            RouteAttribute::Via(RouteVia::Inet(to)) => gateway = Some((*to).into()),
            RouteAttribute::Via(RouteVia::Inet6(to)) => gateway = Some((*to).into()),
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::MultiPath(_)
            | RouteAttribute::NhId(_)
            | RouteAttribute::EncapType(_)
            | RouteAttribute::Encap(_) => simple = false,
            // The route may have a smaller MTU than the interface.
            RouteAttribute::Metrics(metrics) => {
                simple &= !metrics.iter().any(|one| matches!(one, RouteMetric::Mtu(_)));
            }
            _ => {}
        }
    }
    if table != LOCAL && table != u32::from(RouteHeader::RT_TABLE_MAIN) {
        return None;
    }
    // Routes that are not for all packets are left to the kernel.
    let for_all = header.tos == 0 && header.source_prefix_length == 0;
    let target = match device {
        Some(ifindex) if simple && for_all && header.kind == RouteType::Unicast => {
            Target::Via { ifindex, gateway }
        }
        _ => Target::Kernel,
    };
    let net = IpNet::new(address, header.destination_prefix_length).ok()?;
    let rank = (table != LOCAL, for_all, metric);
    Some((net.trunc(), Route { rank, target }))
}

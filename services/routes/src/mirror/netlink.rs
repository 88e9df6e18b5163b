//! The kernel's messages about routes, neighbours and links.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkPayload,
};
use netlink_packet_route::link::{
    InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, VlanProtocol,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop, RouteType,
    RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use sapwood::route::{KernelReason, Vlan};

use super::next_hops::Message;
use super::table::{Event, How, Link, Path, Route, Target};
use crate::MAIN_TABLE;
use crate::dump::{asking, dump, each, request};

/// Groups of notifications: links, neighbours, IPv4 addresses and routes, IPv6 addresses and
/// routes, next-hop objects.
pub(super) const GROUPS: [u32; 7] = [1, 3, 5, 7, 9, 11, 32];

/// The table of the machine's own addresses.
const LOCAL: u32 = 255;

/// States of neighbours whose hardware address may be used: reachable, stale, delay, probe, no ARP,
/// permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// States of neighbours that were set by hand, or that need no ARP.
const FIXED: u16 = 0x40 | 0x80;

/// Opens a socket that receives notifications of these groups without blocking.
pub(super) fn listening(buffer: usize, groups: &[u32]) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    let bytes = i32::try_from(buffer).unwrap_or(i32::MAX);
    socket.set_rx_buf_sz(bytes)?;
    socket.bind_auto()?;
    for group in groups {
        socket.add_membership(*group)?;
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
pub(super) fn hear(socket: &Socket, table: u32) -> io::Result<Heard> {
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
                events.extend(event(inner, Some(message.header.flags), table));
            }
        })?;
    }
    Ok(Heard::Events(events))
}

/// Requests all links.
pub(super) fn all_links(socket: &Socket) -> io::Result<Vec<Event>> {
    let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let answers = dump(socket, Message::from(ask))?.into_iter();
    let event = |answer| event(answer, None, MAIN_TABLE);
    Ok(answers.filter_map(event).collect())
}

/// Requests everything: links first, then neighbours, next-hop objects and the routes of a table.
pub(super) fn everything(socket: &Socket, table: u32) -> io::Result<Vec<Event>> {
    let mut all = all_links(socket)?;
    let neighbours = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let routes = |family| {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family;
        RouteNetlinkMessage::GetRoute(ask)
    };
    let [four, six] = [AddressFamily::Inet, AddressFamily::Inet6].map(routes);
    let [neighbours, four, six] = [neighbours, four, six].map(Message::from);
    for ask in [neighbours, Message::GetNextHops, four, six] {
        for message in dump(socket, ask)? {
            let event = event(message, None, table);
            all.extend(event.filter(|event| *event != Event::Everything));
        }
    }
    Ok(all)
}

/// The event of a message, if it matters for forwarding. `flags` are those of a notification; for
/// answers they are `None`. Routes are those of one table.
fn event(message: Message, flags: Option<u16>, table: u32) -> Option<Event> {
    let message = match message {
        Message::Route(message) => *message,
        Message::NewNextHop(id, object) => return Some(Event::Object(id, object)),
        // The kernel removes routes with it.
        Message::NoNextHop => return Some(Event::Everything),
        Message::GetNextHops => return None,
    };
    match message {
        RouteNetlinkMessage::NewRoute(message) => {
            let dead = RouteFlags::Dead | RouteFlags::Cloned;
            if message.header.flags.intersects(dead) {
                return None;
            }
            let (net, route) = route(&message, table)?;
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
            let (net, route) = route(&message, table)?;
            Some(Event::NoRoute(net, route))
        }
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(&message, true),
        RouteNetlinkMessage::DelNeighbour(message) => neighbour(&message, false),
        RouteNetlinkMessage::NewLink(message) => {
            // Messages of bridges about their ports.
            if message.header.interface_family != AddressFamily::Unspec {
                return None;
            }
            let (mut mac, mut mtu, mut of, mut vlan) = (None, 0, None, None);
            for attribute in &message.attributes {
                match attribute {
                    LinkAttribute::Address(bytes) => mac = bytes.as_slice().try_into().ok(),
                    LinkAttribute::Mtu(bytes) => mtu = *bytes,
                    LinkAttribute::Link(index) => of = Some(*index),
                    LinkAttribute::LinkInfo(info) => vlan = info.iter().find_map(vlan_of),
                    _ => {}
                }
            }
            let flags = message.header.flags;
            let link = Link {
                mac: mac.filter(|_| !flags.contains(LinkFlags::Loopback)),
                mtu,
                up: flags.contains(LinkFlags::Up),
                carrier: flags.contains(LinkFlags::LowerUp),
                vlan: of.zip(vlan),
            };
            Some(Event::Link(message.header.index, link))
        }
        RouteNetlinkMessage::DelLink(message) => Some(Event::NoLink(message.header.index)),
        RouteNetlinkMessage::DelAddress(_) => Some(Event::Everything),
        _ => None,
    }
}

/// The number of a VLAN of IEEE 802.1Q; 0, which no frame of a VLAN has, for one of another
/// protocol.
fn vlan_of(info: &LinkInfo) -> Option<u16> {
    let LinkInfo::Data(InfoData::Vlan(data)) = info else {
        return None;
    };
    let other = data.iter().any(
        |one| matches!(one, InfoVlan::Protocol(protocol) if *protocol != VlanProtocol::Ieee8021Q),
    );
    let id = data.iter().find_map(|one| match one {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    });
    id.map(|id| if other { 0 } else { id })
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
    let is = |states| there && u16::from(message.header.state) & states != 0;
    let (mac, fixed) = (mac.filter(|_| is(USABLE)), is(FIXED));
    Some(Event::Neighbour(
        message.header.ifindex,
        address?,
        mac,
        fixed,
    ))
}

/// The prefix and the route of a message, if it is of this table. The local table is a part of the
/// main one here.
fn route(message: &RouteMessage, wanted: u32) -> Option<(IpNet, Route)> {
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
    let (mut paths, mut object) = (None, None);
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
            RouteAttribute::MultiPath(all) => paths = Some(all),
            RouteAttribute::NhId(id) => object = Some(*id),
            RouteAttribute::EncapType(_) | RouteAttribute::Encap(_) => simple = false,
            // The route may have a smaller MTU than the interface.
            RouteAttribute::Metrics(metrics) => {
                simple &= !metrics.iter().any(|one| matches!(one, RouteMetric::Mtu(_)));
            }
            _ => {}
        }
    }
    if table != wanted && (table != LOCAL || wanted != MAIN_TABLE) {
        return None;
    }
    // Routes that are not for all packets are left to the kernel.
    let for_all = header.tos == 0 && header.source_prefix_length == 0;
    let left = match header.kind {
        _ if !for_all => Some(KernelReason::SomePackets),
        RouteType::Unicast if simple => None,
        RouteType::Unicast => Some(KernelReason::Tunnel),
        RouteType::BlackHole => Some(KernelReason::Blackhole),
        RouteType::Unreachable => Some(KernelReason::Unreachable),
        RouteType::Prohibit => Some(KernelReason::Prohibit),
        RouteType::Throw => Some(KernelReason::Throw),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            Some(KernelReason::Local)
        }
        _ => Some(KernelReason::Other),
    };
    let target = match (left, object, paths, device) {
        (Some(reason), ..) => Target::Kernel(reason),
        // The other attributes repeat what the object has.
        (None, Some(id), _, _) => Target::Object(id),
        (None, None, Some(paths), _) => match paths.iter().map(path).collect::<Option<Vec<_>>>() {
            Some(paths) => Target::Paths(paths.into()),
            None => Target::Kernel(KernelReason::Several),
        },
        (None, None, None, Some(ifindex)) => Target::Via { ifindex, gateway },
        (None, None, None, None) => Target::Kernel(KernelReason::Other),
    };
    let net = IpNet::new(address, header.destination_prefix_length).ok()?;
    let rank = (table != LOCAL, for_all, metric);
    Some((net.trunc(), Route { rank, target }))
}

/// A path of a route with several. `None` for a path without a gateway or with more than a gateway,
/// which programs cannot follow.
fn path(hop: &RouteNextHop) -> Option<Path> {
    let mut gateway = None;
    for attribute in &hop.attributes {
        gateway = Some(match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(to)) => IpAddr::from(*to),
            RouteAttribute::Gateway(RouteAddress::Inet6(to)) => (*to).into(),
            RouteAttribute::Via(RouteVia::Inet(to)) => (*to).into(),
            RouteAttribute::Via(RouteVia::Inet6(to)) => (*to).into(),
            _ => return None,
        });
    }
    Some(Path {
        ifindex: hop.interface_index,
        gateway: gateway?,
        // The message has the weight less one.
        weight: u32::from(hop.hops) + 1,
    })
}

/// Asks the kernel to resolve a neighbour, as if a packet for it had come.
pub(super) fn resolve(socket: &Socket, ifindex: u32, address: IpAddr) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    let (family, destination) = match address {
        IpAddr::V4(four) => (AddressFamily::Inet, NeighbourAddress::Inet(four)),
        IpAddr::V6(six) => (AddressFamily::Inet6, NeighbourAddress::Inet6(six)),
    };
    message.header.family = family;
    message.header.ifindex = ifindex;
    message.header.flags = NeighbourFlags::Use;
    message
        .attributes
        .push(NeighbourAttribute::Destination(destination));
    let ask = RouteNetlinkMessage::NewNeighbour(message);
    socket.send(&request(ask, NLM_F_REQUEST | NLM_F_CREATE), 0)?;
    Ok(())
}

/// The VLANs of the network namespace of the calling thread, for forwarders that read frames with
/// tags.
///
/// # Errors
/// When the kernel does not answer.
pub fn vlans() -> io::Result<Vec<Vlan>> {
    let all = all_links(&asking()?)?.into_iter();
    let vlan = |event| match event {
        Event::Link(ifindex, link) => Some((ifindex, link.up, link.vlan?)),
        _ => None,
    };
    let all: Vec<_> = all.filter_map(vlan).collect();
    let is_vlan = |index| all.iter().any(|(ifindex, ..)| *ifindex == index);
    let plain = |(ifindex, up, (under, id))| {
        let usable = up && id > 0 && !is_vlan(under);
        Vlan {
            interface: ifindex,
            under: usable.then_some((under, id)),
        }
    };
    Ok(all.iter().copied().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(of: Option<u32>, data: Vec<InfoVlan>) -> Option<(u32, u16)> {
        let mut message = LinkMessage::default();
        message.header.index = 5;
        message.header.flags = LinkFlags::Up | LinkFlags::LowerUp;
        message.attributes.extend(of.map(LinkAttribute::Link));
        let data = LinkInfo::Data(InfoData::Vlan(data));
        message.attributes.push(LinkAttribute::LinkInfo(vec![data]));
        match event(
            RouteNetlinkMessage::NewLink(message).into(),
            None,
            MAIN_TABLE,
        ) {
            Some(Event::Link(5, link)) if link.is_usable() => link.vlan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn routes_of_one_table() {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.kind = RouteType::BlackHole;
        message.attributes.push(RouteAttribute::Table(1000));
        let of = |message: &RouteMessage, table| {
            let (net, route) = route(message, table)?;
            Some((net.to_string(), route.target))
        };
        let right = (
            "0.0.0.0/0".to_owned(),
            Target::Kernel(KernelReason::Blackhole),
        );
        assert_eq!(of(&message, 1000), Some(right));
        assert_eq!(of(&message, MAIN_TABLE), None);
        // The machine's own addresses count for the main table.
        message.attributes[0] = RouteAttribute::Table(LOCAL);
        message.header.kind = RouteType::Local;
        assert_eq!(of(&message, 1000), None);
        let target = of(&message, MAIN_TABLE).unwrap().1;
        assert_eq!(target, Target::Kernel(KernelReason::Local));
        for (kind, reason) in [
            (RouteType::Unreachable, KernelReason::Unreachable),
            (RouteType::Prohibit, KernelReason::Prohibit),
            (RouteType::Throw, KernelReason::Throw),
            (RouteType::Nat, KernelReason::Other),
        ] {
            message.header.kind = kind;
            assert_eq!(of(&message, LOCAL).unwrap().1, Target::Kernel(reason));
        }
        message.header.tos = 4;
        let target = of(&message, LOCAL).unwrap().1;
        assert_eq!(target, Target::Kernel(KernelReason::SomePackets));
    }

    #[test]
    fn links_of_vlans() {
        let id = InfoVlan::Id(7);
        let of = |protocol| vec![InfoVlan::Protocol(protocol), id.clone()];
        assert_eq!(link(Some(2), of(VlanProtocol::Ieee8021Q)), Some((2, 7)));
        assert_eq!(link(Some(2), vec![id.clone()]), Some((2, 7)));
        assert_eq!(link(Some(2), of(VlanProtocol::Ieee8021Ad)), Some((2, 0)));
        assert_eq!(link(None, vec![id.clone()]), None);
        assert_eq!(link(Some(2), Vec::new()), None);
    }
}

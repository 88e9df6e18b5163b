//! The kernel's next-hop objects (`ip nexthop`): their messages, which `netlink-packet-route` does
//! not have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable,
    NlaBuffer, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;

use super::table::Object;

/// Types of messages.
const NEW: u16 = 104;
const DELETED: u16 = 105;
const GET: u16 = 106;

/// Bytes of `struct nhmsg`: family, scope, protocol, a byte, flags.
const HEAD: usize = 8;

/// Bytes of an element of a group: `struct nexthop_grp`.
const MEMBER: usize = 8;

/// Types of attributes. Of the others, [`PLAIN`] change nothing about where packets go.
const ID: u16 = 1;
const GROUP: u16 = 2;
const LINK: u16 = 5;
const GATEWAY: u16 = 6;
/// A group's type, the settings of resilient groups, flags of requests, and statistics.
const PLAIN: [u16; 6] = [3, 12, 14, 15, 16, 17];

/// A message about routes, neighbours, links or next-hop objects.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// All kinds that `netlink-packet-route` has.
    Route(Box<RouteNetlinkMessage>),
    /// An object is new or changed.
    NewNextHop(u32, Object),
    /// An object is gone.
    NoNextHop,
    /// The request for all objects.
    GetNextHops,
}

impl From<RouteNetlinkMessage> for Message {
    fn from(message: RouteNetlinkMessage) -> Self {
        Message::Route(Box::new(message))
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        NetlinkPayload::InnerMessage(message)
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Message::Route(message) => message.message_type(),
            Message::NewNextHop(..) => NEW,
            Message::NoNextHop => DELETED,
            Message::GetNextHops => GET,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Message::Route(message) => NetlinkSerializable::buffer_len(&**message),
            _ => HEAD,
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Message::Route(message) => NetlinkSerializable::serialize(&**message, buffer),
            _ => buffer[..HEAD].fill(0),
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            NEW => object(payload).map(|(id, object)| Message::NewNextHop(id, object)),
            DELETED => Ok(Message::NoNextHop),
            _ => RouteNetlinkMessage::deserialize(header, payload).map(Message::from),
        }
    }
}

/// Reads an object and its number.
fn object(payload: &[u8]) -> Result<(u32, Object), DecodeError> {
    let attributes = payload
        .get(HEAD..)
        .ok_or_else(|| DecodeError::from("a next-hop object ends early"))?;
    let (mut id, mut link, mut gateway, mut group) = (None, None, None, None);
    let mut other = false;
    for attribute in NlasIterator::new(attributes) {
        let attribute: NlaBuffer<_> = attribute?;
        let value = attribute.value();
        match attribute.kind() {
            ID => id = number(value),
            LINK => link = number(value),
            GATEWAY => gateway = address(value),
            GROUP => group = Some(value.chunks_exact(MEMBER).map(member).collect()),
            kind => other |= !PLAIN.contains(&kind),
        }
    }
    let id = id.ok_or_else(|| DecodeError::from("a next-hop object without a number"))?;
    let object = match (link, group) {
        // Blackholes, tunnels, and objects of bridges.
        _ if other => Object::Other,
        (_, Some(members)) => Object::Group(members),
        (Some(ifindex), None) => Object::Path { ifindex, gateway },
        (None, None) => Object::Other,
    };
    Ok((id, object))
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value)
            .ok()
            .map(|four| Ipv4Addr::from(four).into()),
        _ => <[u8; 16]>::try_from(value)
            .ok()
            .map(|six| Ipv6Addr::from(six).into()),
    }
}

/// The number and the weight of a group's member. The message has the weight less one, in a low
/// and a high byte.
fn member(value: &[u8]) -> (u32, u32) {
    let id = u32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
    (id, (u32::from(value[4]) | u32::from(value[5]) << 8) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of these attributes.
    fn read(attributes: &[(u16, &[u8])]) -> Result<(u32, Object), DecodeError> {
        let mut payload = vec![0; HEAD];
        for (kind, value) in attributes {
            payload.extend((4 + value.len() as u16).to_ne_bytes());
            payload.extend(kind.to_ne_bytes());
            payload.extend(*value);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
        object(&payload)
    }

    #[test]
    fn objects_are_read() {
        let id = &7u32.to_ne_bytes()[..];
        let link = &3u32.to_ne_bytes()[..];
        let path = Object::Path {
            ifindex: 3,
            gateway: Some([10, 0, 0, 1].into()),
        };
        let read_path = read(&[(ID, id), (LINK, link), (GATEWAY, &[10, 0, 0, 1])]);
        assert_eq!(read_path.unwrap(), (7, path));
        let six: Ipv6Addr = "fd00::1".parse().unwrap();
        let read_six = read(&[(ID, id), (LINK, link), (GATEWAY, &six.octets())]).unwrap();
        assert!(
            matches!(read_six.1, Object::Path { gateway: Some(IpAddr::V6(a)), .. } if a == six)
        );
        let mut members = Vec::new();
        for (id, low, high) in [(5u32, 0u8, 0u8), (6, 255, 1)] {
            members.extend(id.to_ne_bytes());
            members.extend([low, high, 0, 0]);
        }
        let group = read(&[(ID, id), (GROUP, &members), (3, &[0, 0])]).unwrap();
        assert_eq!(group.1, Object::Group(vec![(5, 1), (6, 512)]));
        // A blackhole, a tunnel, and what is not known.
        for kind in [4, 7, 8, 11, 99] {
            let other = read(&[(ID, id), (LINK, link), (kind, &[])]).unwrap();
            assert_eq!(other.1, Object::Other, "{kind}");
        }
        assert_eq!(read(&[(ID, id)]).unwrap().1, Object::Other);
    }

    #[test]
    fn damaged_messages_are_refused() {
        assert!(object(&[0; HEAD - 1]).is_err());
        assert!(read(&[(LINK, &[3, 0, 0, 0])]).is_err());
        let mut cut = vec![0; HEAD];
        cut.extend([40, 0, 1, 0, 1, 2]);
        assert!(object(&cut).is_err());
    }
}

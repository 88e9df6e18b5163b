//! The entries of a RIB record: where they are in its bytes, and what their attributes say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bgpkit_parser::models::{Afi, AsnLength, Attributes, NetworkPrefix, NextHopAddress, Safi};
use bgpkit_parser::parser::bgp::attributes::parse_attributes;
use ipnet::IpNet;

/// The next hop and the origin that the attributes of a RIB entry have. Other attributes than those
/// that are needed are not parsed.
pub(super) fn path_of(
    net: IpNet,
    attributes: &[u8],
    paths: bool,
) -> Result<(Option<IpAddr>, u32), String> {
    /// The path, the next hop, the announced prefixes, and the path with numbers of four bytes.
    const NEEDED: [u8; 4] = [2, 3, 14, 17];
    let wrong = |what: &dyn std::fmt::Display| format!("attributes of {net}: {what}");
    let mut needed = Vec::new();
    let mut cursor = Cursor {
        body: attributes,
        at: 0,
    };
    while cursor.at < attributes.len() {
        let from = cursor.at;
        let mut read = || {
            let head = cursor.take(2)?;
            let (is_long, kind) = (head[0] & 0x10 != 0, head[1]);
            let len = match is_long {
                true => usize::from(cursor.u16()?),
                false => usize::from(cursor.take(1)?[0]),
            };
            cursor.take(len)?;
            Ok::<_, String>(kind)
        };
        let kind = read().map_err(|what| wrong(&what))?;
        if NEEDED.contains(&kind) {
            needed.extend(&attributes[from..cursor.at]);
        }
    }
    let afi = match net {
        IpNet::V4(_) => Afi::Ipv4,
        IpNet::V6(_) => Afi::Ipv6,
    };
    let prefix = NetworkPrefix::new(net, None);
    let attributes = parse_attributes(
        needed.into(),
        &AsnLength::Bits32,
        paths,
        Some(afi),
        Some(Safi::Unicast),
        Some(&[prefix]),
    );
    let attributes = attributes.map_err(|error| wrong(&error))?;
    Ok(of_attributes(&attributes, net))
}

/// The next hop of a prefix, if it has a usable one, and the autonomous system at the end of its
/// path, or 0.
pub(super) fn of_attributes(attributes: &Attributes, net: IpNet) -> (Option<IpAddr>, u32) {
    let announced = || usable(attributes.get_reachable_nlri()?.next_hop?);
    let plain = || attributes.next_hop().filter(|hop| !hop.is_unspecified());
    // An IPv6 entry may also have the old attribute, which has no meaning there.
    let next_hop = match net {
        IpNet::V4(_) => plain().or_else(announced),
        IpNet::V6(_) => announced().or_else(plain),
    };
    let path = attributes.as_path();
    let origin = path.and_then(|path| path.get_origin_opt()).map(u32::from);
    (next_hop, origin.unwrap_or(0))
}

/// The address of a next hop. `::` stands for none, and the link-local address beside it counts.
fn usable(hop: NextHopAddress) -> Option<IpAddr> {
    let address = hop.global_addr();
    if !address.is_unspecified() {
        return Some(address);
    }
    match hop {
        NextHopAddress::Ipv6LinkLocal(_, local) if !local.is_unspecified() => Some(local.into()),
        _ => None,
    }
}

/// A place in the body of a record.
pub(super) struct Cursor<'a> {
    pub(super) body: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let bytes = self.body.get(self.at..self.at + len);
        self.at += len;
        bytes.ok_or_else(|| {
            format!(
                "{} bytes of the record are missing",
                self.at - self.body.len()
            )
        })
    }

    pub(super) fn u16(&mut self) -> Result<u16, String> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads a prefix: its length in bits, and as many bytes as it needs. Further bits of the last
    /// byte have no meaning.
    pub(super) fn prefix(&mut self, v4: bool) -> Result<IpNet, String> {
        let length = self.take(1)?[0];
        let whole = if v4 { 32 } else { 128 };
        if length > whole {
            return Err(format!("a prefix of {length} bits"));
        }
        let bytes = self.take(usize::from(length).div_ceil(8))?;
        let mut octets = [0; 16];
        octets[..bytes.len()].copy_from_slice(bytes);
        let address: IpAddr = match v4 {
            true => Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into(),
            false => Ipv6Addr::from(octets).into(),
        };
        let net = IpNet::new(address, length).map_err(|error| error.to_string())?;
        Ok(net.trunc())
    }
}

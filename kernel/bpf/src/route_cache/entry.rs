//! Keys, answers and entries, which programs and this process share.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The key of an answer: `struct sw_route_key`. Keys are compared by all of their bytes, so unused
/// bytes must be 0.
///
/// ```
/// use sapwood_bpf::RouteKey;
/// let key = RouteKey::new("192.0.2.1".parse().unwrap(), 7, 0);
/// assert_eq!(&key.address[..5], &[192, 0, 2, 1, 0]);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RouteKey {
    /// The destination. An IPv4 address takes the first four bytes.
    pub address: [u8; 16],
    /// A hash of the flow, if flows to one destination may have different answers.
    pub flow: u32,
    /// Other parts of the key, for example the address family, the table or the incoming interface.
    pub other: u32,
}

impl RouteKey {
    /// The key of a destination.
    pub fn new(destination: IpAddr, flow: u32, other: u32) -> RouteKey {
        let mut address = [0; 16];
        match destination {
            IpAddr::V4(v4) => address[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => address = v6.octets(),
        }
        RouteKey {
            address,
            flow,
            other,
        }
    }

    /// The destination: an IPv4 address if `is_v4`, else an IPv6 address.
    pub fn destination(&self, is_v4: bool) -> IpAddr {
        let [a, b, c, d, ..] = self.address;
        match is_v4 {
            true => Ipv4Addr::new(a, b, c, d).into(),
            false => Ipv6Addr::from(self.address).into(),
        }
    }

    pub(super) fn words(&self) -> [u64; 3] {
        zerocopy::transmute!(*self)
    }

    pub(super) fn from_words(words: [u64; 3]) -> RouteKey {
        zerocopy::transmute!(words)
    }
}

/// An answer: 32 bytes that the program chooses (`struct sw_route_value`). [`NextHop`] is one use
/// of them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RouteValue {
    /// The bytes, as words.
    pub words: [u64; 4],
}

/// A next hop, with all that a program needs to forward a packet: `struct sw_route_hop`.
///
/// ```
/// use sapwood_bpf::{NextHop, RouteValue};
/// let hop = NextHop { ifindex: 3, mtu: 1500, dmac: [2, 0, 0, 0, 0, 1], ..NextHop::default() };
/// assert_eq!(NextHop::from(RouteValue::from(hop)), hop);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct NextHop {
    /// The interface's index; 0 for none.
    pub ifindex: u32,
    /// The maximum bytes of an IP packet; 0 when unknown.
    pub mtu: u16,
    /// The program's action, which the cache does not interpret.
    pub action: u8,
    /// The address family: 2 or 10.
    pub family: u8,
    /// The source link address of forwarded packets.
    pub smac: [u8; 6],
    /// The destination link address of forwarded packets.
    pub dmac: [u8; 6],
    /// Bytes for the program's own use.
    pub extra: [u8; 12],
}

impl From<NextHop> for RouteValue {
    fn from(hop: NextHop) -> RouteValue {
        zerocopy::transmute!(hop)
    }
}

impl From<RouteValue> for NextHop {
    fn from(value: RouteValue) -> NextHop {
        zerocopy::transmute!(value)
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.dmac;
        write!(
            f,
            "dev {} lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} mtu {}",
            self.ifindex, self.mtu
        )
    }
}

/// A copy of the cache's entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteEntry {
    /// The key.
    pub key: RouteKey,
    /// The answer; `None` for a kept failure.
    pub value: Option<RouteValue>,
    /// The time at which the answer was requested: nanoseconds, modulo 2^63.
    pub time: u64,
}

impl RouteEntry {
    /// A placeholder where the set has no slot.
    pub(super) const NONE: RouteEntry = RouteEntry {
        key: RouteKey {
            address: [0; 16],
            flow: 0,
            other: 0,
        },
        value: None,
        time: 0,
    };

    /// The entry's age at `now`, in nanoseconds; 0 when it was requested later than `now`.
    pub fn age(&self, now: u64) -> u64 {
        let age = now.wrapping_sub(self.time) & (u64::MAX >> 1);
        if age < 1 << 62 { age } else { 0 }
    }
}

//! The properties of a family that the measurements need, and the rival of `Fib`: a hash map for
//! each prefix length.

use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use hashbrown::HashMap;
use ipnet::{Ipv4Net, Ipv6Net};
use sapwood::lpm::{Family, V4, V6};
use sapwood_model::oracle::Prefix;

/// A family whose addresses convert to 128 bits, left-aligned.
pub trait Kind: Family {
    /// The name of the family.
    const NAME: &'static str;
    /// The first bits of an address, the rest cleared.
    type Bits: Copy + Eq + Hash;

    /// The address with these bits.
    fn address(left: u128) -> Self::Addr;
    /// The bits of an address.
    fn left(address: Self::Addr) -> u128;
    /// The prefix with these bits.
    fn join(prefix: Prefix) -> Self::Net;
    /// The bits of a prefix.
    fn split(net: Self::Net) -> Prefix;
    /// The first `len` bits of an address, the rest cleared.
    fn first(address: Self::Addr, len: u8) -> Self::Bits;
}

impl Kind for V4 {
    const NAME: &'static str = "IPv4";
    type Bits = u32;

    fn address(left: u128) -> Ipv4Addr {
        Ipv4Addr::from_bits((left >> 96) as u32)
    }

    fn left(address: Ipv4Addr) -> u128 {
        u128::from(address.to_bits()) << 96
    }

    fn join(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new_assert(Self::address(prefix.bits), prefix.len)
    }

    fn split(net: Ipv4Net) -> Prefix {
        Prefix::v4(net.addr(), net.prefix_len())
    }

    #[inline]
    fn first(address: Ipv4Addr, len: u8) -> u32 {
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        address.to_bits() & mask
    }
}

impl Kind for V6 {
    const NAME: &'static str = "IPv6";
    type Bits = u128;

    fn address(left: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(left)
    }

    fn left(address: Ipv6Addr) -> u128 {
        address.to_bits()
    }

    fn join(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new_assert(Self::address(prefix.bits), prefix.len)
    }

    fn split(net: Ipv6Net) -> Prefix {
        Prefix::v6(net.addr(), net.prefix_len())
    }

    #[inline]
    fn first(address: Ipv6Addr, len: u8) -> u128 {
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        address.to_bits() & mask
    }
}

type Map<K> = HashMap<K, u32, foldhash::fast::RandomState>;

/// A hash map for each length that has prefixes. A lookup asks the maps one after the other, the
/// longest length first.
pub struct PerLength<F: Kind>(Vec<(u8, Map<F::Bits>)>);

impl<F: Kind> PerLength<F> {
    /// A table of these routes.
    pub fn new(routes: &[(F::Net, u32)]) -> Self {
        let mut maps: [Option<Map<F::Bits>>; 129] = [const { None }; 129];
        for (net, hop) in routes {
            let prefix = F::split(*net);
            let bits = F::first(F::address(prefix.bits), prefix.len);
            let map = maps[usize::from(prefix.len)].get_or_insert_default();
            map.insert(bits, *hop);
        }
        let lengths = (0..=128).zip(maps).rev();
        PerLength(lengths.filter_map(|(len, map)| Some((len, map?))).collect())
    }

    /// The length of the longest prefix that covers an address, and its next hop.
    #[inline]
    pub fn lookup(&self, address: F::Addr) -> Option<(u8, u32)> {
        self.matches(address).next()
    }

    /// The lengths of all prefixes that cover an address and their next hops, longest first.
    #[inline]
    pub fn matches(&self, address: F::Addr) -> impl Iterator<Item = (u8, u32)> {
        let found = move |(len, map): &(u8, Map<F::Bits>)| {
            Some((*len, *map.get(&F::first(address, *len))?))
        };
        self.0.iter().filter_map(found)
    }

    /// Bytes that the maps have allocated.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, map)| map.allocation_size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_find_the_longest_prefix() {
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        let table = PerLength::<V4>::new(&[
            (net("0.0.0.0/0"), 1),
            (net("10.0.0.0/8"), 2),
            (net("10.1.2.3/32"), 3),
        ]);
        assert_eq!(table.lookup([10, 1, 2, 3].into()), Some((32, 3)));
        assert_eq!(table.lookup([10, 1, 2, 4].into()), Some((8, 2)));
        assert_eq!(table.lookup([11, 1, 2, 4].into()), Some((0, 1)));
        assert!(
            table
                .matches([10, 1, 2, 3].into())
                .eq([(32, 3), (8, 2), (0, 1)])
        );
        assert!(table.bytes() > 0);
        let table = PerLength::<V6>::new(&[]);
        assert_eq!(table.lookup(Ipv6Addr::LOCALHOST), None);
    }
}

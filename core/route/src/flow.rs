//! Hashes of flows. Five numbers say which flow a packet belongs to.

use core::net::{IpAddr, SocketAddr};

use super::hash::Secrets;
use crate::Plain;

/// The five-tuple of a packet.
///
/// ```
/// use sapwood::route::FlowKey;
///
/// let key = FlowKey::new("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:80".parse().unwrap(), FlowKey::TCP);
/// assert_eq!(key.reversed().source_port, 80);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The IP protocol number.
    pub protocol: u8,
    /// The source port, or 0 where there is none.
    pub source_port: u16,
    /// The destination port, or 0 where there is none.
    pub destination_port: u16,
}

impl FlowKey {
    /// The protocol number of TCP.
    pub const TCP: u8 = 6;
    /// The protocol number of UDP.
    pub const UDP: u8 = 17;

    /// A flow between two sockets.
    ///
    /// O(1).
    pub fn new(source: SocketAddr, destination: SocketAddr, protocol: u8) -> Self {
        Self {
            source: source.ip(),
            destination: destination.ip(),
            protocol,
            source_port: source.port(),
            destination_port: destination.port(),
        }
    }

    /// A flow between two addresses without ports: of a protocol that has none, or of fragments.
    ///
    /// O(1).
    pub fn without_ports(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self::new((source, 0).into(), (destination, 0).into(), protocol)
    }

    /// The flow of the answers.
    ///
    /// O(1).
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }
}

impl Plain for FlowKey {
    type Words = <(IpAddr, IpAddr, u64) as Plain>::Words;

    #[inline]
    fn to_words(self) -> Self::Words {
        let ports = u64::from(self.source_port) | u64::from(self.destination_port) << 16;
        (
            self.source,
            self.destination,
            ports | u64::from(self.protocol) << 32,
        )
            .to_words()
    }

    #[inline]
    fn from_words(words: Self::Words) -> Self {
        let (source, destination, rest) = <(IpAddr, IpAddr, u64)>::from_words(words);
        Self {
            source,
            destination,
            protocol: (rest >> 32) as u8,
            source_port: rest as u16,
            destination_port: (rest >> 16) as u16,
        }
    }
}

/// A hasher of flows with a seed. Without the seed, an attacker cannot choose packets that all take
/// one path.
///
/// The hash is the same on every machine, and in C by `sapwood/flow.bpf.h` of sapwood-bpf (test
/// `golden`).
///
/// ```
/// use sapwood::route::{FlowHasher, FlowKey};
///
/// let key = FlowKey::new("[2001:db8::1]:4000".parse().unwrap(), "[2001:db8::2]:80".parse().unwrap(), FlowKey::TCP);
/// let hasher = FlowHasher::random();
/// assert_eq!(hasher.hash(&key), hasher.hash(&key));
/// assert_eq!(hasher.hash_symmetric(&key), hasher.hash_symmetric(&key.reversed()));
/// ```
#[derive(Clone)]
pub struct FlowHasher(Secrets);

impl FlowHasher {
    /// A hasher with this seed. Machines that must agree on the path of a flow share a seed.
    ///
    /// O(1).
    pub fn new(seed: u64) -> Self {
        Self(Secrets::new(seed))
    }

    /// A hasher with a random seed. Without `std`, the seed is made of addresses and counters.
    ///
    /// O(1).
    pub fn random() -> Self {
        Self::new(crate::seed::seed())
    }

    /// The hash of a flow.
    ///
    /// O(1).
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        self.0.hash(&key.to_words())
    }

    /// The same hash for both directions of a conversation.
    ///
    /// O(1).
    #[inline]
    pub fn hash_symmetric(&self, key: &FlowKey) -> u64 {
        let forward = (key.source, key.source_port) <= (key.destination, key.destination_port);
        self.hash(&if forward { *key } else { key.reversed() })
    }
}

impl core::fmt::Debug for FlowHasher {
    /// Leaves out the seed.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlowHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u16) -> FlowKey {
        FlowKey::new(
            ([10, 0, 0, 1], n).into(),
            ([10, 0, 0, 2], 443).into(),
            FlowKey::TCP,
        )
    }

    #[test]
    fn every_part_counts() {
        let hasher = FlowHasher::new(1);
        let base = key(1000);
        let mut others = [base; 5];
        others[0].source = [10, 0, 0, 3].into();
        others[1].destination = [10, 0, 0, 4].into();
        others[2].protocol = FlowKey::UDP;
        others[3].source_port = 1001;
        others[4].destination_port = 444;
        for other in others {
            assert_ne!(hasher.hash(&other), hasher.hash(&base));
            assert_ne!(hasher.hash_symmetric(&other), hasher.hash_symmetric(&base));
            assert_eq!(FlowKey::from_words(other.to_words()), other);
        }
        assert_ne!(FlowHasher::new(2).hash(&base), hasher.hash(&base));
    }

    /// Hashes that must be the same on every machine, and in `sapwood/flow.bpf.h`. A program in
    /// another language made them.
    #[test]
    fn golden() {
        let hasher = FlowHasher::new(1);
        assert_eq!(hasher.hash(&key(4000)), 0xc90a_fb2e_98a6_5bf7);
        let (from, to) = ("[2001:db8::1]:4000", "[2001:db8::2]:53");
        let six = FlowKey::new(from.parse().unwrap(), to.parse().unwrap(), FlowKey::UDP);
        assert_eq!(hasher.hash(&six), 0x3bfd_aaf2_5e80_1fdd);
        assert_eq!(
            hasher.hash_symmetric(&six.reversed()),
            0x3bfd_aaf2_5e80_1fdd
        );
    }

    #[test]
    fn directions() {
        let hasher = FlowHasher::new(1);
        for n in 0..100 {
            let key = key(n * 7);
            assert_ne!(hasher.hash(&key), hasher.hash(&key.reversed()));
            let both = hasher.hash_symmetric(&key.reversed());
            assert_eq!(hasher.hash_symmetric(&key), both);
            assert_eq!(key.reversed().reversed(), key);
        }
    }

    #[test]
    fn ports_alone_spread_flows() {
        let hasher = FlowHasher::new(3);
        let mut buckets = [0; 16];
        for n in 0..16_000 {
            buckets[crate::hash::scaled(hasher.hash(&key(n)), 16)] += 1;
        }
        assert!(
            buckets.iter().all(|n| (850..1150).contains(n)),
            "{buckets:?}"
        );
    }
}

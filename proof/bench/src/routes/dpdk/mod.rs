//! DPDK's tables, where `libdpdk` and a C compiler are installed: `rte_fib` (DIR-24-8), `rte_fib6`
//! (a trie of 24, then 8 bits) and `rte_lpm6`.
//!
//! Addresses are looked up in bulk, [`BURST`] a call, by the fastest code that DPDK has for the
//! machine. DPDK gets no reserved huge pages, but asks for transparent ones. Each table is created
//! with one eighth more second-level tables than the routes need, and with next hops of four bytes.
//! A table that is changed while others read it stands behind a lock, like the other peers.

mod raw;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use sapwood_model::oracle::Prefix;
use sapwood_model::oracle::lpm::v4_address;

use super::{BURST, Engine, Family, V4, V6};
use raw::{Kind, Table};

/// `rte_fib`, of type DIR-24-8.
pub struct Fib(Table<u32>);

/// `rte_fib6`, of type trie.
pub struct Fib6(Table<[u8; 16]>);

/// `rte_lpm6`.
pub struct Lpm6(Table<[u8; 16]>);

/// The number of routes, and the number of tables of 256 entries, to make room for. There is one
/// such table for each prefix of 24, 32, 40… bits that contains a longer one. `rte_fib6` needs more
/// than it uses: it reserves some for each route, even where another route needs the same ones.
/// With less room it refuses routes.
fn room<F: Family>(kind: Kind, routes: &[(F::Net, u32)]) -> (usize, usize) {
    let mut inner = HashSet::new();
    let mut apart = 0;
    for (net, _) in routes {
        let (addr, len) = F::split(*net);
        let bits = match addr.into() {
            IpAddr::V4(addr) => v4_address(addr),
            IpAddr::V6(addr) => addr.to_bits(),
        };
        for cut in (24..len).step_by(8) {
            inner.insert(Prefix::truncated(bits, cut));
            apart += 1;
        }
    }
    let tables = match kind {
        Kind::Fib6 => apart,
        Kind::Fib | Kind::Lpm6 => inner.len(),
    };
    let more = |count: usize| count + count / 8 + 256;
    (more(routes.len()), more(tables))
}

fn bulk<T: Copy, A: raw::Address>(
    table: &Table<A>,
    addrs: &[T],
    convert: impl Fn(T) -> A,
    mut each: impl FnMut(Option<u32>),
) {
    const { assert!(BURST <= raw::MOST) };
    let mut burst = [A::default(); BURST];
    for addrs in addrs.chunks(BURST) {
        let burst = &mut burst[..addrs.len()];
        for (slot, addr) in burst.iter_mut().zip(addrs) {
            *slot = convert(*addr);
        }
        table.lookup(burst, &mut each);
    }
}

impl Engine<V4> for Fib {
    const NAME: &'static str = "dpdk-fib";

    fn empty(routes: &[(Ipv4Net, u32)]) -> Result<Self, String> {
        let (routes, tables) = room::<V4>(Kind::Fib, routes);
        Table::new(Kind::Fib, routes, tables).map(Self)
    }

    fn insert(&mut self, net: Ipv4Net, hop: u32) {
        self.0.add(net.addr().to_bits(), net.prefix_len(), hop);
    }

    fn remove(&mut self, net: Ipv4Net) {
        self.0.delete(net.addr().to_bits(), net.prefix_len());
    }

    fn lookups(&self, addrs: &[Ipv4Addr], each: impl FnMut(Option<u32>)) {
        bulk(&self.0, addrs, Ipv4Addr::to_bits, each);
    }

    fn mapped_bytes(&self) -> Option<usize> {
        Some(self.0.bytes())
    }
}

/// The two types for IPv6 differ only in name and kind.
macro_rules! v6 {
    ($type:ident, $kind:expr, $name:literal) => {
        impl Engine<V6> for $type {
            const NAME: &'static str = $name;

            fn empty(routes: &[(Ipv6Net, u32)]) -> Result<Self, String> {
                let (routes, tables) = room::<V6>($kind, routes);
                Table::new($kind, routes, tables).map(Self)
            }

            fn insert(&mut self, net: Ipv6Net, hop: u32) {
                self.0.add(net.addr().octets(), net.prefix_len(), hop);
            }

            fn remove(&mut self, net: Ipv6Net) {
                self.0.delete(net.addr().octets(), net.prefix_len());
            }

            fn lookups(&self, addrs: &[Ipv6Addr], each: impl FnMut(Option<u32>)) {
                bulk(&self.0, addrs, |addr| addr.octets(), each);
            }

            fn mapped_bytes(&self) -> Option<usize> {
                Some(self.0.bytes())
            }
        }
    };
}

v6!(Fib6, Kind::Fib6, "dpdk-fib6");
v6!(Lpm6, Kind::Lpm6, "dpdk-lpm6");

//! What the tests of the tables have in common: families as the oracle sees them, and comparison.
#![allow(dead_code)] // Each test uses its part.

use std::net::{Ipv4Addr, Ipv6Addr};

use sapwood::arena::{ArenaOptions, Backing, DebugMode};
use sapwood::lpm::ipnet::{Ipv4Net, Ipv6Net};
use sapwood::lpm::{Family, Fib, FibBuilder, FibSnapshot, V4, V6};
use sapwood_model::oracle::{Lpm, Prefix};

#[allow(unused_imports)]
pub use super::steps::steps;

/// A family, with its addresses as the oracle has them: left-aligned in 128 bits.
pub trait Kind: Family {
    fn addr(bits: u128) -> Self::Addr;
    fn net(prefix: Prefix) -> Self::Net;
    fn prefix(net: Self::Net) -> Prefix;
}

impl Kind for V4 {
    fn addr(bits: u128) -> Ipv4Addr {
        Ipv4Addr::from((bits >> 96) as u32)
    }

    fn net(prefix: Prefix) -> Ipv4Net {
        Ipv4Net::new(Self::addr(prefix.bits), prefix.len).unwrap()
    }

    fn prefix(net: Ipv4Net) -> Prefix {
        assert_eq!(net, net.trunc());
        Prefix::v4(net.addr(), net.prefix_len())
    }
}

impl Kind for V6 {
    fn addr(bits: u128) -> Ipv6Addr {
        bits.into()
    }

    fn net(prefix: Prefix) -> Ipv6Net {
        Ipv6Net::new(Self::addr(prefix.bits), prefix.len).unwrap()
    }

    fn prefix(net: Ipv6Net) -> Prefix {
        assert_eq!(net, net.trunc());
        Prefix::v6(net.addr(), net.prefix_len())
    }
}

/// Options that make mistakes loud: freed memory is poisoned.
pub fn loud() -> ArenaOptions {
    small().debug(DebugMode::Poison)
}

/// Options with address space for a test.
pub fn small() -> ArenaOptions {
    ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 26 })
}

/// A table; with the smallest root one that makes mistakes loud, with others one that keeps free blocks.
pub fn builder<F: Kind>(bits: u8) -> FibBuilder<F, u32> {
    let options = if bits == 6 { loud() } else { small() };
    Fib::builder().root_bits(bits).options(options)
}

/// Prefixes that meet: few bits vary, at the places where strides begin and end, and at both ends.
pub fn prefix<F: Kind>(rng: &mut fastrand::Rng) -> Prefix {
    const PLACES: [u8; 24] = [
        0, 1, 5, 6, 11, 12, 16, 17, 18, 19, 22, 23, 24, 25, 29, 30, 31, 36, 47, 63, 64, 65, 126,
        127,
    ];
    let len = match rng.u8(0..4) {
        0 => rng.u8(0..=F::WIDTH),
        1 => rng.u8(0..=F::WIDTH.min(33)),
        2 => PLACES[rng.usize(0..PLACES.len())].min(F::WIDTH),
        _ => [F::WIDTH, F::WIDTH - 1, 24, 18, 12][rng.usize(0..5)],
    };
    Prefix::truncated(address(rng), len)
}

/// Addresses that meet the prefixes.
pub fn address(rng: &mut fastrand::Rng) -> u128 {
    let mut bits = 0;
    for at in [0, 1, 5, 11, 12, 17, 18, 23, 24, 28, 31, 47, 64, 127] {
        if rng.u8(0..3) == 0 {
            bits |= 1 << (127 - at);
        }
    }
    bits
}

/// What a table holds, as the oracle gives it.
pub fn entries<F: Kind>(snapshot: &FibSnapshot<F, u32>) -> Vec<(Prefix, u32)> {
    snapshot
        .iter()
        .map(|(net, value)| (F::prefix(net), *value))
        .collect()
}

fn listed<'a>(found: impl IntoIterator<Item = (Prefix, &'a u32)>) -> Vec<(Prefix, u32)> {
    found.into_iter().map(|(p, v)| (p, *v)).collect()
}

/// Every question about one address and one prefix, to the table, a snapshot and the oracle.
pub fn ask<F: Kind>(fib: &Fib<F, u32>, oracle: &Lpm<u32>, address: u128, prefix: Prefix) {
    let (addr, net) = (F::addr(address), F::net(prefix));
    let snapshot = fib.snapshot();
    let longest = oracle.lookup(address).map(|(p, v)| (p, *v));
    let found = |f: Option<(F::Net, &u32)>| f.map(|(net, v)| (F::prefix(net), *v));
    let list = |f: &mut dyn Iterator<Item = (F::Net, &u32)>| -> Vec<(Prefix, u32)> {
        f.map(|(net, v)| (F::prefix(net), *v)).collect()
    };
    let matches = listed(oracle.matches(address));
    fib.read(|view| {
        assert_eq!(found(view.lookup(addr)), longest);
        assert_eq!(view.lookup_value(addr).copied(), longest.map(|f| f.1));
        assert_eq!(view.get(net), oracle.get(prefix));
        assert_eq!(list(&mut view.matches(addr)), matches);
    });
    assert_eq!(found(snapshot.lookup(addr)), longest);
    assert_eq!(snapshot.get(net), oracle.get(prefix));
    let covered = list(&mut snapshot.covered_by(net));
    assert_eq!(covered, listed(oracle.covered_by(prefix)), "{net}");
    let children = list(&mut snapshot.children(net));
    assert_eq!(children, listed(oracle.children(prefix)), "{net}");
}

/// The whole table against the oracle, and its invariants.
pub fn agree<F: Kind>(fib: &Fib<F, u32>, oracle: &Lpm<u32>) {
    if let Err(wrong) = fib.verify() {
        panic!("{wrong}");
    }
    assert_eq!(fib.len(), oracle.len());
    assert_eq!(entries(&fib.snapshot()), listed(oracle.iter()));
}

//! Routing tables: the real one of a file, and generated ones of its make.
//!
//! [`routes_v4`] and [`routes_v6`] make tables after the global one of January 2024 (901,899 IPv4
//! and 160,147 IPv6 prefixes; the list `prefixes.txt.gz` in the test data of the Go package bart).
//! Lengths come in its proportions, to within one prefix each. Full size and seed 1 (the example
//! `routes` counts this): of IPv4, 456,919 prefixes lie inside another (real: 457,209), 382,622
//! /24s stand directly before another (371,706), and 77,568 blocks of /18 have something longer in
//! them (64,989). Of IPv6, 91,090 lie inside another (91,091), 45,855 /48s stand before another
//! (43,758), and at /24, /36 and /42 there are 6,076, 19,821 and 26,225 blocks with something
//! longer (7,224, 14,590 and 25,062).
//!
//! Prefixes and addresses are left-aligned in 128 bits, as in [`oracle::lpm`](crate::oracle::lpm).
//! All tables come in the order of address and length.

mod global;
mod model;
mod read;

use std::collections::HashSet;

use fastrand::Rng;

use crate::oracle::Prefix;

pub use read::{RouteFile, read_prefixes, routes_gz};

/// A table of `count` IPv4 prefixes made after the global one.
///
/// The model, in the order in which prefixes are drawn:
///
/// 1. *Lengths*: as many of each as in the global table, scaled to `count`; short ones are placed
///    first.
/// 2. *Place*: for each length, the share that is covered by a shorter prefix in the real table is
///    put inside one that is already there (larger ones get more; a few get very many), the others
///    where nothing covers them. Those up to /16 lie anywhere in the 222 usable /8s, which are
///    unequally busy; longer ones in a number of busy /16s.
/// 3. *Runs*: about half of the time a prefix is followed by a few direct neighbours of the same
///    length.
///
/// # Panics
///
/// If `count` is above two million: the space would run short.
#[must_use]
pub fn routes_v4(count: usize, seed: u64) -> Vec<Prefix> {
    model::table(&global::V4, count, seed)
}

/// A table of `count` IPv6 prefixes made after the global one: as [`routes_v4`], with the blocks of
/// the regional registries in 2000::/3 in place of /8s, and busy /32s in place of busy /16s.
///
/// # Panics
///
/// If `count` is above two million.
#[must_use]
pub fn routes_v6(count: usize, seed: u64) -> Vec<Prefix> {
    model::table(&global::V6, count, seed)
}

/// 100,000 distinct IPv4 prefixes of random bits, the length of each drawn evenly from 8 to 32,
/// drawn again when the prefix is there already: the table that kernel lookups are compared on.
/// Hardly anything nests, and nearly all /8s are there.
#[must_use]
pub fn random_v4_100k(seed: u64) -> Vec<Prefix> {
    random_v4(100_000, seed)
}

/// As [`random_v4_100k`], with `count` prefixes.
///
/// # Panics
///
/// If `count` is above a million: short prefixes would run out.
#[must_use]
pub fn random_v4(count: usize, seed: u64) -> Vec<Prefix> {
    assert!(count <= 1_000_000, "at most a million prefixes");
    let mut rng = Rng::with_seed(seed);
    let mut seen = HashSet::with_capacity(count);
    while seen.len() < count {
        let len = rng.u8(8..=32);
        seen.insert(Prefix::truncated(rng.u128(..), len));
    }
    let mut prefixes: Vec<_> = seen.into_iter().collect();
    prefixes.sort_unstable();
    prefixes
}

/// How many different next hops there are.
pub const NEXT_HOPS: u32 = 64;

/// A next hop below [`NEXT_HOPS`] for each of `count` prefixes, each drawn by itself: number `n`
/// with a probability that falls as `1 / (n + 1)`, so that the first gets a fifth of them and the
/// last one in 300.
#[must_use]
pub fn next_hops(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|_| skewed(&mut rng)).collect()
}

/// Next hops for the prefixes of a sorted table where neighbours often share one: a prefix takes
/// that of the one before it with a probability of 70 %, and one drawn as by [`next_hops`]
/// otherwise.
#[must_use]
pub fn next_hops_clustered(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::with_seed(seed);
    let mut last = skewed(&mut rng);
    let hops = (0..count).map(|_| {
        if rng.u8(0..10) >= 7 {
            last = skewed(&mut rng);
        }
        last
    });
    hops.collect()
}

/// A number below [`NEXT_HOPS`] by Zipf's law with exponent 1.
fn skewed(rng: &mut Rng) -> u32 {
    let total: f64 = (1..=NEXT_HOPS).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut left = rng.f64() * total;
    for hop in 0..NEXT_HOPS {
        left -= 1.0 / f64::from(hop + 1);
        if left < 0.0 {
            return hop;
        }
    }
    // Rounding may leave a crumb.
    NEXT_HOPS - 1
}

/// `count` random addresses out of all of `width` bits, left-aligned.
#[must_use]
pub fn random_addresses(width: u8, count: usize, seed: u64) -> Vec<u128> {
    let mut rng = Rng::with_seed(seed);
    (0..count)
        .map(|_| Prefix::truncated(rng.u128(..), width).bits)
        .collect()
}

/// `count` addresses of `width` bits inside the table: each in a prefix drawn evenly, with random
/// bits after it.
///
/// # Panics
///
/// If there are no prefixes.
#[must_use]
pub fn addresses_within(prefixes: &[Prefix], width: u8, count: usize, seed: u64) -> Vec<u128> {
    let mut rng = Rng::with_seed(seed);
    let inside = (0..count).map(|_| {
        let prefix = prefixes[rng.usize(..prefixes.len())];
        let random = Prefix::truncated(rng.u128(..), width).bits;
        // The prefix's own bits are kept, those after them are taken from the random address.
        prefix.bits | (random ^ Prefix::truncated(random, prefix.len).bits)
    });
    inside.collect()
}

#[cfg(test)]
mod tests;

//! Routing tables: the real one of a file, and generated ones like it.
//!
//! [`routes_v4`] and [`routes_v6`] generate tables like the global one of January 2024 (901,899
//! IPv4 and 160,147 IPv6 prefixes; the list `prefixes.txt.gz` in the test data of the Go package
//! bart). The lengths have the proportions of that table, to within one prefix each. The example
//! `routes` counts the rest at full size with seed 1. Figures of the real table are in parentheses.
//! Of the IPv4 prefixes, 456,919 are inside another one (457,209). 382,622 /24s are directly before
//! another /24 (371,706). 77,568 blocks of /18 have a longer prefix in them (64,989). Of the IPv6
//! prefixes, 91,090 are inside another one (91,091). 45,855 /48s are directly before another /48
//! (43,758). 6,076, 19,821 and 26,225 blocks of /24, /36 and /42 have a longer prefix in them
//! (7,224, 14,590 and 25,062).
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

/// Generates a table of `count` IPv4 prefixes like the global one.
///
/// The model, in the order in which prefixes are drawn:
///
/// 1. *Lengths*: as many of each as in the global table, scaled to `count`. Short prefixes are
///    placed first.
/// 2. *Place*: the share of each length that a shorter prefix covers in the real table is placed
///    inside prefixes of the new table. Larger prefixes get more, and a few get very many. The
///    other prefixes are placed where no prefix covers them: those up to /16 anywhere in the 222
///    usable /8s, which have unequal shares, and longer ones in a number of busy /16s.
/// 3. *Runs*: in about half of the cases a few direct neighbours of the same length follow.
///
/// # Panics
///
/// If `count` is above two million, for which there is too little space.
#[must_use]
pub fn routes_v4(count: usize, seed: u64) -> Vec<Prefix> {
    model::table(&global::V4, count, seed)
}

/// Generates a table of `count` IPv6 prefixes like the global one. The model is that of
/// [`routes_v4`], with the blocks of the regional registries in 2000::/3 instead of /8s, and busy
/// /32s instead of busy /16s.
///
/// # Panics
///
/// If `count` is above two million.
#[must_use]
pub fn routes_v6(count: usize, seed: u64) -> Vec<Prefix> {
    model::table(&global::V6, count, seed)
}

/// Generates 100,000 distinct IPv4 prefixes of random bits, with lengths drawn evenly from 8 to 32.
/// A prefix that is in the table already is drawn again. Lookups in the kernel are compared on this
/// table. Few of its prefixes nest, and it has nearly all /8s.
#[must_use]
pub fn random_v4_100k(seed: u64) -> Vec<Prefix> {
    random_v4(100_000, seed)
}

/// As [`random_v4_100k`], with `count` prefixes.
///
/// # Panics
///
/// If `count` is above a million, for which there are too few short prefixes.
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

/// The number of different next hops.
pub const NEXT_HOPS: u32 = 64;

/// Draws a next hop below [`NEXT_HOPS`] for each of `count` prefixes, independent of each other.
/// The probability of number `n` is in proportion to `1 / (n + 1)`, so that the first gets a fifth
/// of the prefixes and the last gets one in 300.
#[must_use]
pub fn next_hops(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|_| skewed(&mut rng)).collect()
}

/// Draws next hops for the prefixes of a sorted table, such that neighbours often share one. A
/// prefix has the next hop of the prefix before it with a probability of 70 %, and otherwise one
/// drawn as by [`next_hops`].
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
    // Rounding errors may leave a small rest.
    NEXT_HOPS - 1
}

/// Generates `count` random addresses of `width` bits, left-aligned.
#[must_use]
pub fn random_addresses(width: u8, count: usize, seed: u64) -> Vec<u128> {
    let mut rng = Rng::with_seed(seed);
    (0..count)
        .map(|_| Prefix::truncated(rng.u128(..), width).bits)
        .collect()
}

/// Generates `count` addresses of `width` bits inside the table: each has a prefix that is drawn
/// evenly, and random bits after it.
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
        // The bits of the prefix are kept, and those after them are from the random address.
        prefix.bits | (random ^ Prefix::truncated(random, prefix.len).bits)
    });
    inside.collect()
}

#[cfg(test)]
mod tests;

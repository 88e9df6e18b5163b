//! Ordered maps whose readers never lock, in one flat memory.
//!
//! | you have | take |
//! |---|---|
//! | a map of your own, changed through `&mut` | [`qp::QpMap`] |
//! | a map of your own with lookups nearly as quick as a hash map's | [`qp::QpMap::with_index`] |
//! | readers on many threads, one writer at a time, transactions, snapshots | [`qp::QpStore`] |
//! | readers and writers on many threads | [`qp::QpShared`] |
//! | the same for lookups of whole keys only, without order | [`qp::PointMap`] |
//! | a table made once, read by many programs | [`qp::QpMap::save`] and [`qp::QpFile`] |
//! | routes, looked up by address | [`lpm::Ipv4Fib`], [`lpm::Ipv6Fib`], [`lpm::IpFib`] |
//! | prefixes of other strings of bits | [`lpm::BitFib`] |
//! | several next hops for a prefix, by flow | [`route::RouteTable`] |
//! | next hops that must be asked for | [`route::RouteCache`] |
//! | ranges of numbers: memory, extents, identifiers, and the gaps between them | [`maple::MapleMap`]; changed through `&mut`: [`maple::RangeMap`] |
//!
//! Keys are byte strings of 0 to 65,535 bytes, in lexicographic order; [`key`] makes such keys from
//! domain names, numbers and tuples. Trade-offs first:
//!
//! - A point lookup goes down branches to a cluster of leaves. It takes two to eight times a hash
//!   map's time, with a point index 0.5 to 1.4 times. Memory beyond the keys is a third to a half
//!   of a hash map's, with the index half to seven tenths (`docs/figures.md`, lookups and memory of
//!   names).
//! - A map of integers only, looked up one by one and never in order, is better kept in a hash map.
//! - Changing a [`qp::QpStore`] copies the path to the key, which costs a few times an owned
//!   insertion.
//!
//! ```
//! use sapwood::qp::QpMap;
//!
//! let mut map = QpMap::new();
//! for name in ["org", "org.example", "org.example.www", "net"] {
//!     map.insert(name, name.len())?;
//! }
//! assert_eq!(map.get("org.example"), Some(&11));
//! let below: Vec<_> = map.prefix("org.").map(|(k, _)| k.to_vec()).collect();
//! assert_eq!(below, [b"org.example".to_vec(), b"org.example.www".to_vec()]);
//! let (zone, _) = map.longest_prefix("org.example.mail").unwrap();
//! assert_eq!(zone, b"org.example");
//! # Ok::<(), sapwood::Error>(())
//! ```

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

mod error;
#[cfg(feature = "std")]
pub mod published;

pub use error::Error;
pub use sapwood_arena as arena;
pub use sapwood_common::{
    Buildable, Builder, Configure, OldestSnapshot, Readable, Reader, Rejected, key,
};
#[cfg(feature = "std")]
pub use sapwood_common::{Pin, TableError};
pub use sapwood_lpm as lpm;
pub use sapwood_maple as maple;
pub use sapwood_qp as qp;
pub use sapwood_qsbr as qsbr;

/// Next-hop choice: groups by flow hash, and a bounded, expiring route cache.
pub mod route {
    #[cfg(feature = "std")]
    pub use sapwood_cache::CacheReader;
    pub use sapwood_cache::{
        CacheHooks, CacheStats, Error as CacheError, Lookup, NoHooks, Plain, RouteCache,
        RouteCacheBuilder, Unresolved, Words,
    };
    #[doc(hidden)]
    pub use sapwood_cache::{Choices, cache_choices};
    pub use sapwood_route::*;
}

/// The programs of the page on guards compile and run.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../../../docs/guards.md")]
struct Guards;

/// The example of the project's README compiles and runs.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Readers of routes: lines of text, MRT table dumps (`TABLE_DUMP_V2`), the kernel's table. With
//! the feature `mirror`, `RouteMirror` follows the kernel's routes into tables by which a process
//! forwards packets, and with the feature `bpf` also into those of programs in the kernel.
//!
//! A reader of a file returns one [`Route`] at a time and keeps only the record that it reads.
//! Files are not trusted: every fault in them is an [`Error`] with its place, never a panic.
//!
//! ```
//! use sapwood_routes::{RouteSource, TextRoutes};
//!
//! let mut routes = TextRoutes::new(&b"10.0.0.0/8 192.0.2.1\n2001:db8::/32\n"[..], false);
//! let route = routes.next_route()?.unwrap();
//! assert_eq!((route.net.to_string(), route.next_hop), ("10.0.0.0/8".into(), "192.0.2.1"));
//! let route = routes.next_route()?.unwrap();
//! assert_eq!((route.net.to_string(), route.next_hop), ("2001:db8::/32".into(), ""));
//! assert!(routes.next_route()?.is_none());
//! # Ok::<(), sapwood_routes::Error>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod dump;
mod input;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(all(feature = "mirror", target_os = "linux"))]
mod mirror;
mod mrt;
#[cfg(all(feature = "bpf", target_os = "linux"))]
mod router;
mod text;

use std::io;

use ipnet::IpNet;

pub use input::{Format, format_of};
#[cfg(feature = "kernel")]
pub use kernel::{KernelRoutes, kernel_routes};
#[cfg(all(feature = "mirror", target_os = "linux"))]
pub use mirror::{
    Gateway, GroupsError, MirrorError, MirrorGroups, MirrorStats, MirrorTables, RouteInjector,
    RouteMirror, RouteMirrorBuilder, vlans,
};
pub use mrt::{MrtRoutes, Peer};
#[cfg(all(feature = "bpf", target_os = "linux"))]
pub use router::XdpRouter;
pub use sapwood_input::decompressed;
pub use text::{MAX_LINE, TextRoutes, parse_prefix, show_route, without_comment, without_mark};

/// A prefix and its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The prefix. No bits are set after its length.
    pub net: IpNet,
    /// The text of the next hop; empty if the route has none.
    pub next_hop: &'a str,
}

/// A reader of routes.
pub trait RouteSource {
    /// Reads the next route; `None` at the end.
    ///
    /// # Errors
    ///
    /// After [`Error::Bad`] the next call reads the next record. After any other error nothing can
    /// be read.
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error>;

    /// Counts of records that were skipped or changed without an error, each with its text for a
    /// summary.
    fn remarks(&self) -> Vec<(u64, &'static str)>;
}

/// The error of a reader.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line or record is no route; the next one may be.
    #[error("{0}")]
    Bad(Place),
    /// Nothing can be read from this place on.
    #[error("{0}")]
    Broken(Place),
}

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{unit} {number}: {what}")]
pub struct Place {
    /// `line` or `record`.
    pub unit: &'static str,
    /// The number of the line or record, from 1.
    pub number: u64,
    /// The fault.
    pub what: String,
}

/// The README, so that its example is compiled.
#[cfg(all(doctest, feature = "mirror", target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Readers of routes: lines of text, the texts and the JSON of `ip route`, `route -n`, FRR and
//! BIRD, MRT dumps and updates, the kernel's table. [`Reading`] tells them apart. With the feature
//! `mirror`, `RouteMirror` follows the kernel's routes into tables by which a process forwards
//! packets, and with the feature `bpf` also into those of programs in the kernel.
//!
//! A reader of a file returns one [`Route`] at a time. Files are not trusted: every fault in them
//! is an [`Error`] with its place, never a panic.
//!
//! ```
//! use sapwood::lpm::{NullRoute, SavedHop};
//! use sapwood_routes::{RouteSource, TextRoutes};
//!
//! let mut routes = TextRoutes::new(&b"10.0.0.0/8 192.0.2.1\n2001:db8::/32 throw\n"[..], false);
//! let route = routes.next_route()?.unwrap();
//! assert_eq!((route.net.to_string(), route.hop), ("10.0.0.0/8".into(), SavedHop::Name("192.0.2.1")));
//! let route = routes.next_route()?.unwrap();
//! assert_eq!(route.hop, SavedHop::Null(NullRoute::Throw));
//! assert!(routes.next_route()?.is_none());
//! # Ok::<(), sapwood_routes::Error>(())
//! ```

#![forbid(unsafe_code)]

mod best;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod dump;
mod foreign;
mod formats;
mod hop;
mod input;
#[cfg(feature = "kernel")]
mod kernel;
mod lines;
#[cfg(all(feature = "mirror", target_os = "linux"))]
mod mirror;
mod mrt;
#[cfg(all(feature = "bpf", target_os = "linux"))]
mod router;
mod text;

use std::io;

use ipnet::IpNet;
use sapwood::lpm::SavedHop;

pub use hop::parse_hop;
pub use input::{Format, Reading, format_of};
#[cfg(feature = "kernel")]
pub use kernel::{KernelRoutes, MAIN_TABLE, kernel_routes};
pub use lines::{MAX_LINE, without_comment, without_mark};
#[cfg(all(feature = "mirror", target_os = "linux"))]
pub use mirror::{
    Gateway, GroupsError, MirrorError, MirrorGroups, MirrorStats, MirrorTables, RouteInjector,
    RouteMirror, RouteMirrorBuilder, vlans,
};
pub use mrt::{MrtChange, MrtRoutes, Peer};
#[cfg(all(feature = "bpf", target_os = "linux"))]
pub use router::XdpRouter;
pub use sapwood_input::decompressed;
pub use text::{PLAIN_TEXT, TextRoutes, parse_prefix, show_route};

/// A prefix and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The prefix. No bits are set after its length.
    pub net: IpNet,
    /// The name of the next hop, a group of them, or a null route. The name is empty if the route
    /// has no next hop.
    pub hop: SavedHop<'a>,
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
    fn remarks(&self) -> Vec<(u64, String)>;
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
    /// The input is a file of another kind, which has no routes.
    #[error("{0}, and no file of routes")]
    Foreign(String),
}

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{unit} {number}: {what}")]
pub struct Place {
    /// `line`, `record`, or `element` of a JSON document.
    pub unit: &'static str,
    /// The number of the line, record or element, from 1.
    pub number: u64,
    /// The fault.
    pub what: String,
}

/// The README, so that its example is compiled.
#[cfg(all(doctest, feature = "mirror", target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Readers of routes: lines of text, MRT table dumps (`TABLE_DUMP_V2`), the kernel's own table.
//!
//! A reader hands out one [`Route`] at a time and keeps nothing but the record that it reads. What
//! it meets in a file is somebody else's: every mistake in it is an [`Error`] that says where,
//! never a panic.
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
#[path = "../../sapwood-bpf/src/mirror/dump.rs"]
mod dump;
mod input;
#[cfg(feature = "kernel")]
mod kernel;
mod mrt;
mod text;

use std::io;

use ipnet::IpNet;

pub use input::{Format, decompressed, format_of};
#[cfg(feature = "kernel")]
pub use kernel::{KernelRoutes, kernel_routes};
pub use mrt::{MrtRoutes, Peer};
pub use text::{MAX_LINE, TextRoutes, parse_prefix, show_route, without_comment};

/// Where to, and by which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// All addresses below this prefix. No bits are set behind its length.
    pub net: IpNet,
    /// The next hop in text; empty, if none was given.
    pub next_hop: &'a str,
}

/// Something that holds routes.
pub trait RouteSource {
    /// The next route; nothing at the end.
    ///
    /// # Errors
    ///
    /// Behind [`Error::Bad`] one may go on with the next record, behind the others there is nothing
    /// more.
    fn next_route(&mut self) -> Result<Option<Route<'_>>, Error>;

    /// What was passed over or changed without being an error, for a summary: how many, and of
    /// what.
    fn remarks(&self) -> Vec<(u64, &'static str)>;
}

/// Why there is no next route.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// This line or record is no route; the next one may be.
    #[error("{0}")]
    Bad(Place),
    /// From here on nothing can be made out.
    #[error("{0}")]
    Broken(Place),
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{unit} {number}: {what}")]
pub struct Place {
    /// `line` or `record`.
    pub unit: &'static str,
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub what: String,
}

//! Sapwood's maps inside the kernel: the memory of eBPF programs, a loader, the kernel's grace periods.
//!
//! A [`BpfArena`] is plain memory that BPF programs and this process share (Linux 6.9 and newer). Maps lie in it as they lie
//! anywhere: Rust writes them with no system call, and programs read them at once, by the headers in `bpf/include/sapwood`.
//!
//! `docs/bpf.md` leads from nothing to a working program.
//!
//! # Features
//!
//! `kernel`: all of this. It needs clang 19, libelf and zlib when it is built, and root when it runs. Without it, the crate is
//! the [`layout`] alone.

#![deny(unsafe_code)]

pub mod layout;

pub use layout::MirrorHop;

#[cfg(feature = "kernel")]
mod arena;
#[cfg(feature = "kernel")]
mod counts;
#[cfg(feature = "kernel")]
mod error;
#[cfg(feature = "kernel")]
mod fib;
#[cfg(feature = "kernel")]
mod foreign;
#[cfg(feature = "kernel")]
mod grace;
#[cfg(feature = "kernel")]
mod kernel_map;
#[cfg(feature = "kernel")]
mod loader;
#[cfg(feature = "kernel")]
mod mirror;
#[cfg(feature = "kernel")]
mod name_rules;
#[cfg(feature = "kernel")]
mod names;
#[cfg(feature = "kernel")]
pub mod objects;
#[cfg(feature = "kernel")]
mod own_window;
#[cfg(feature = "kernel")]
mod owner;
#[cfg(feature = "kernel")]
mod pinned;
#[cfg(feature = "kernel")]
mod raw;
#[cfg(feature = "kernel")]
mod route_cache;
#[cfg(feature = "kernel")]
mod support;
#[cfg(feature = "kernel")]
mod window_map;
#[cfg(feature = "kernel")]
mod words;
#[cfg(feature = "kernel")]
mod xdp;
#[cfg(feature = "kernel")]
mod xdp_names;
#[cfg(feature = "kernel")]
mod xdp_route;

#[cfg(feature = "kernel")]
pub use arena::{BpfArena, WindowInfo};
#[cfg(feature = "kernel")]
pub use counts::{PacketCounts, Verdict};
#[cfg(feature = "kernel")]
pub use error::Error;
#[cfg(feature = "kernel")]
pub use fib::{FibMap, FibMapBuilder, IpMap, Ipv4Map, Ipv6Map};
#[cfg(feature = "kernel")]
pub use foreign::{Bytes, Foreign, ForeignEntries, ForeignIter, ForeignValue};
#[cfg(feature = "kernel")]
pub use grace::{KernelGrace, Way, kernel_domain};
#[cfg(feature = "kernel")]
pub use kernel_map::{
    KernelMap, KernelMapBuilder, KernelMapMemory, KernelMapService, KernelMapShape, Serviced,
};
#[cfg(feature = "kernel")]
pub use loader::{Loader, Programs};
#[cfg(feature = "kernel")]
pub use mirror::{MirrorStats, RouteMirror, RouteMirrorBuilder};
#[cfg(feature = "kernel")]
pub use name_rules::{NameRule, NameRules};
#[cfg(feature = "kernel")]
pub use names::{NameMap, NameMapBuilder, PointNameMap, PointNameMapBuilder};
#[cfg(feature = "kernel")]
pub use pinned::{PinKind, Pinned, PinnedProgram};
#[cfg(feature = "kernel")]
pub use route_cache::{
    KernelRouteCache, KernelRouteCacheBuilder, NextHop, RouteEntry, RouteKey, RouteValue,
};
#[cfg(feature = "kernel")]
pub use support::check;
#[cfg(feature = "kernel")]
pub use window_map::{MapInWindow, NamesInWindow, WindowMap, WindowMapBuilder};
#[cfg(feature = "kernel")]
pub use words::Words;
#[cfg(feature = "kernel")]
pub use xdp::{XdpLink, XdpMode, interface_index};
#[cfg(feature = "kernel")]
pub use xdp_names::{NamesCounts, PinnedNames, XdpNames};
#[cfg(feature = "kernel")]
pub use xdp_route::{RouteCounts, RouteMode, XdpRoute};

/// The examples of the pages compile.
#[cfg(all(doctest, feature = "kernel"))]
#[doc = include_str!("../../../docs/bpf.md")]
#[doc = include_str!("../../../docs/bpf-maps.md")]
#[doc = include_str!("../../../docs/bpf-programs.md")]
struct Pages;

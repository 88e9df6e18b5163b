//! Programs for packets, with the maps of `sapwood-bpf`: a filter of DNS queries by name
//! (`XdpNames`), a forwarder (`XdpRoute`), and links of programs to network interfaces (`XdpLink`,
//! `TcxLink`).
//!
//! # Features
//!
//! `kernel`: everything. The build needs clang 19, libelf and zlib; the process needs capabilities.

#![deny(unsafe_code)]

cfg_if::cfg_if! {
    if #[cfg(feature = "kernel")] {
        mod counts;
        mod name_rules;
        mod raw;
        mod tcx;
        mod xdp;
        mod xdp_names;
        mod xdp_route;

        pub use counts::{PacketCounts, Verdict};
        pub use name_rules::{EntryRules, NameRule, NameRules, closest_rule};
        pub use sapwood_bpf::layout::route::RouteVerdict;
        pub use sapwood_bpf::layout::xdp_names::NamesVerdict;
        pub use tcx::{TcxHook, TcxLink};
        pub use xdp::{XdpLink, XdpMode, interface_index};
        pub use xdp_names::{NamesCounts, PinnedNames, StoreRooms, XdpNames};
        pub use xdp_route::{RouteCounts, RouteMode, XdpRoute};
    }
}

/// The documentation page, so that its examples are compiled.
#[cfg(all(doctest, feature = "kernel"))]
#[doc = include_str!("../../../docs/bpf-programs.md")]
struct Pages;

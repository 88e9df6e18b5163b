//! Sapwood's maps inside the kernel: the memory of eBPF programs, a loader, and the kernel's grace
//! periods.
//!
//! A `BpfArena` is plain memory that BPF programs and this process share (Linux 6.9 and newer).
//! Maps have the same layout there as in any other memory. Rust writes them without system calls,
//! and programs see each change at once. Programs read them with the headers in
//! `bpf/include/sapwood`.
//!
//! The guide `docs/guides/ebpf.md` begins with an empty directory and ends with a working program.
//!
//! # Features
//!
//! `kernel`: everything but [`layout`]. The build needs clang 19, libelf and zlib; the process
//! needs capabilities ([`check`]). Without this feature, the crate has only [`layout`].

#![deny(unsafe_code)]

pub mod layout;

pub use sapwood::route::MirrorHop;

cfg_if::cfg_if! {
    if #[cfg(feature = "kernel")] {
        mod arena;
        mod counts;
        mod error;
        mod fib;
        mod checked;
        mod grace;
        mod groups;
        mod hop_tables;
        mod program_map;
        mod loader;
        mod names;
        mod own_window;
        mod owner;
        mod pinned;
        mod ranges;
        mod raw;
        mod route_cache;
        mod support;
        mod window_map;
        mod words;

        pub use arena::{BpfArena, WindowInfo};
        pub use counts::add_counts;
        pub use error::Error;
        pub use fib::{FibMap, FibMapBuilder, IpMap, Ipv4Map, Ipv6Map};
        pub use checked::{Bytes, CheckedEntries, CheckedIter, CheckedReader, CheckedValue, StoredValue, WindowMemory, WindowSource};
        pub use hop_tables::HopTables;
        pub use grace::{KernelGrace, Way, kernel_domain};
        pub use groups::{GroupMap, GroupMapBuilder};
        pub use sapwood::route::GroupMember;
        pub use program_map::{
            Doorbell, ProgramMap, ProgramMapBuilder, ProgramMapDrops, ProgramMapMemory, ProgramMapService, ProgramMapShape,
            Serviced, Taken, Write, WriteError, Written,
        };
        pub use loader::{Loader, Programs};
        pub use names::{BitFibMap, UserMap, UserMapBuilder, UserPointMap, UserPointMapBuilder, UserStore};
        pub use sapwood::published::PublishedValue as WindowValue;
        pub use pinned::{PinKind, Pinned, PinnedProgram};
        pub use ranges::{UserRanges, UserRangesBuilder};
        pub use route_cache::{
            ProgramRouteCache, ProgramRouteCacheBuilder, NextHop, RouteEntry, RouteKey, RouteValue,
        };
        pub use support::{check, pin};
        pub use window_map::{CountedInWindow, MapInWindow, NamesInWindow, WindowMap, WindowMapBuilder};
        pub use words::Words;
    }
}

/// The documentation pages, so that their examples are compiled.
#[cfg(all(doctest, feature = "kernel"))]
#[doc = include_str!("../../../docs/guides/ebpf.md")]
#[doc = include_str!("../../../docs/bpf.md")]
#[doc = include_str!("../../../docs/bpf-maps.md")]
struct Pages;

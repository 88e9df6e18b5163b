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

#[cfg(feature = "kernel")]
mod arena;
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
mod names;
#[cfg(feature = "kernel")]
pub mod objects;
#[cfg(feature = "kernel")]
mod raw;
#[cfg(feature = "kernel")]
mod scratch;
#[cfg(feature = "kernel")]
mod support;
#[cfg(feature = "kernel")]
mod words;

#[cfg(feature = "kernel")]
pub use arena::{BpfArena, WindowInfo};
#[cfg(feature = "kernel")]
pub use error::Error;
#[cfg(feature = "kernel")]
pub use fib::{FibMap, FibMapBuilder, IpMap, Ipv4Map, Ipv6Map};
#[cfg(feature = "kernel")]
pub use foreign::{Bytes, Foreign, ForeignIter, ForeignValue};
#[cfg(feature = "kernel")]
pub use grace::{KernelGrace, Way, kernel_domain};
#[cfg(feature = "kernel")]
pub use kernel_map::{
    KernelMap, KernelMapBuilder, KernelMapMemory, KernelMapService, KernelMapShape, Serviced,
};
#[cfg(feature = "kernel")]
pub use loader::{Loader, Programs};
#[cfg(feature = "kernel")]
pub use names::{NameMap, NameMapBuilder};
#[cfg(feature = "kernel")]
pub use scratch::Scratch;
#[cfg(feature = "kernel")]
pub use support::check;
#[cfg(feature = "kernel")]
pub use words::Words;

/// The example of the guide compiles.
#[cfg(all(doctest, feature = "kernel"))]
#[doc = include_str!("../../../docs/bpf.md")]
struct Guide;

//! Longest-prefix match over IPv4, IPv6 and any bit string.
//!
//! | you have | take |
//! |---|---|
//! | routes of one family, full tables or small ones | [`Ipv4Fib`], [`Ipv6Fib`] |
//! | routes of both families | [`IpFib`] |
//! | prefixes of other strings of bits: a network number and an address, an address and a port | [`BitFib`] |
//! | routes in a file, read by many programs in several languages | [`FibFile`] |
//! | a table of other bit strings in a file | [`BitFile`] |
//! | a set of addresses, without values: block lists, what a table covers | [`IpSet`] |
//!
//! The tables in memory have one writer at a time and readers that never wait. A lookup answers as
//! the table did before a change or after it. Trade-offs first:
//!
//! - A full IPv4 table takes about 14 bytes a prefix, 2 MiB of them for a root that answers most
//!   lookups with one or two loads. The root of a small table is small, and grows with it, so that
//!   a process can have many tables.
//! - [`Fib`] and [`IpFib`] store equal values once, so values must be comparable, and cheap to
//!   compare: next hops, not counters.
//! - A change copies the nodes on its path. It takes 2.2 to 4.3 times as long as in a tree without
//!   concurrent readers (prefix-trie, in `docs/figures.md`: most for random prefixes).
//!
//! Without the feature `std` there are [`Fib`] and [`IpFib`] with their transactions and snapshots;
//! files, `BitFib` and methods that pin a thread need it. `docs/lpm.md` has the layout and the
//! measurements.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod aggregate;
#[cfg(feature = "std")]
mod bits;
mod both;
mod changes;
mod error;
mod family;
mod fib;
#[cfg(feature = "std")]
mod fib_file;
mod ip;
mod memory;
mod null;
mod published;
mod raw;
#[cfg(feature = "std")]
mod saved;
mod set;
mod snapshot;
mod txn;
mod view;

pub use aggregate::aggregate;
#[cfg(feature = "std")]
pub use bits::{
    AsBits, BitChildren, BitFib, BitFile, BitFileBuilder, BitIter, BitMatches, BitPrefix,
    BitSnapshot, BitString, BitTxn, BitView, MAX_BITS,
};
pub use both::{IpSnapshot, IpTxn};
pub use changes::{Diff, FibChange};
pub use family::{Family, V4, V6};
#[doc(hidden)]
pub use fib::FibChoices;
pub use fib::{Fib, Ipv4Fib, Ipv6Fib, NextHop};
#[cfg(feature = "std")]
#[doc(hidden)]
pub use fib_file::FIB_FILE_LAYOUT;
#[cfg(feature = "std")]
pub use fib_file::{FibFile, FibFileBuilder, HopRef, SavedHop};
pub use ip::{IpFib, IpFibMemory, IpFibView};
pub use ipnet;
pub use memory::FibMemory;
pub use null::NullRoute;
pub use set::{AddrSet, IpSet, Ipv4Set, Ipv6Set, Prefixes, SetError, supernet};
pub use snapshot::{Children, FibSnapshot, Iter};
pub use txn::FibTxn;
#[doc(hidden)]
pub use view::FibParts;
pub use view::{FibView, Matches, ViewIter};

pub use error::{Error, Rejected};
#[cfg(feature = "std")]
pub use sapwood_common::{OpenCause, OpenError, SaveCause, SaveError, TableError};

// Parts that all structures share.
use sapwood_common::raw::{figures, garbage, kept, seed, sync};
use sapwood_common::{Buildable, OldestSnapshot, Readable};

sapwood_common::builder!();

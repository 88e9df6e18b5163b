//! Next-hop choice: prefixes to groups of weighted next hops, by flow hash.
//!
//! [`RouteTable`] has a group for each prefix, and chooses one of its members for each flow,
//! without state for flows. [`FlowHasher`] makes the hash of a packet's flow that it takes.
//! [`HopSet`] is a plain value of a few next hops, for caches. Files need the feature `std`.
//! `docs/route.md` has the layout, the rules and the measurements.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod decision;
mod flow;
mod group;
mod hop;
mod hop_set;
mod packed;
mod places;
mod raw;
mod rendezvous;
#[cfg(feature = "std")]
mod saved;
mod table;
mod versions;
mod view;

#[doc(hidden)]
pub use decision::RouteChoices;
pub use decision::{Decision, VoidGroups};
pub use flow::{FlowHasher, FlowKey};
pub use group::Group;
pub use hop::{GroupMember, KernelReason, MirrorHop, Vlan};
pub use hop_set::HopSet;
pub use packed::PackedGroup;
pub use sapwood_common::{Plain, Words};
pub use sapwood_lpm::{Error, NullRoute, Rejected};
pub use table::{RouteTable, RouteTableMemory};
pub use versions::{RouteSnapshot, RouteTxn};
pub use view::{FamilyRoutes, RouteView};

// Parts that all structures share.
use sapwood_common::raw::seed::State;
use sapwood_common::raw::{hash, seed, sync};
use sapwood_common::{Buildable, OldestSnapshot, Readable};

sapwood_common::builder!();

/// A hash map whose order nobody outside can guess.
type HashMap<K, V> = hashbrown::HashMap<K, V, State>;

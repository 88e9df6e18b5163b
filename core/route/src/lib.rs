//! Next-hop choice: prefixes to groups of weighted next hops, by flow hash.
//!
//! [`RouteTable`] has a group for each prefix, and chooses one of its members for each flow,
//! without state for flows. [`FlowHasher`] makes the hash of a packet's flow that it takes.
//! `docs/route.md` has the layout, the rules and the measurements.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(feature = "std")]
mod decision;
mod flow;
#[cfg(feature = "std")]
mod group;
mod hop;
#[cfg(feature = "std")]
mod packed;
#[cfg(feature = "std")]
mod places;
#[cfg(feature = "std")]
mod raw;
#[cfg(feature = "std")]
mod rendezvous;
#[cfg(feature = "std")]
mod table;
#[cfg(feature = "std")]
mod versions;
#[cfg(feature = "std")]
mod view;

#[cfg(feature = "std")]
#[doc(hidden)]
pub use decision::RouteChoices;
#[cfg(feature = "std")]
pub use decision::{Decision, VoidGroups};
pub use flow::{FlowHasher, FlowKey};
#[cfg(feature = "std")]
pub use group::Group;
pub use hop::{GroupMember, MirrorHop, Vlan};
#[cfg(feature = "std")]
pub use packed::PackedGroup;
pub use sapwood_common::{Plain, Words};
#[cfg(feature = "std")]
pub use sapwood_lpm::{Error, NullRoute, Rejected};
#[cfg(feature = "std")]
pub use table::{RouteTable, RouteTableMemory};
#[cfg(feature = "std")]
pub use versions::{RouteSnapshot, RouteTxn};
#[cfg(feature = "std")]
pub use view::{FamilyRoutes, RouteView};

// Parts that all structures share.
#[cfg(feature = "std")]
use sapwood_common::raw::sync;
use sapwood_common::raw::{hash, seed};
#[cfg(feature = "std")]
use sapwood_common::{Buildable, OldestSnapshot, Readable};

#[cfg(feature = "std")]
sapwood_common::builder!();

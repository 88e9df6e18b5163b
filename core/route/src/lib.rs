//! Next-hop choice: groups by flow hash, and a bounded, expiring route cache.
//!
//! | you have | take |
//! |---|---|
//! | a routing table, each route with one or several weighted next hops | [`RouteTable`]: without state for flows |
//! | a slow resolver of next hops | [`RouteCache`]: its answers for a short time, in fixed memory |
//!
//! [`FlowHasher`] makes the hash of a packet's flow that [`RouteTable`] takes. `docs/route.md` has
//! the layout, the rules and the measurements.

mod answer;
mod cache;
mod config;
mod counters;
#[cfg(feature = "std")]
mod flight;
mod flow;
#[cfg(feature = "std")]
mod group;
mod hash;
#[cfg(feature = "std")]
mod packed;
#[cfg(feature = "std")]
mod places;
mod plain;
pub(crate) mod raw;
#[cfg(feature = "std")]
mod rendezvous;
mod stamp;
#[cfg(feature = "std")]
mod table;
#[cfg(feature = "std")]
mod thread;
#[cfg(feature = "std")]
mod versions;
#[cfg(feature = "std")]
mod view;

pub use answer::{Lookup, Unresolved};
pub use cache::RouteCache;
pub use config::RouteCacheBuilder;
pub use counters::CacheStats;
pub use flow::{FlowHasher, FlowKey};
#[cfg(feature = "std")]
pub use group::Group;
#[cfg(feature = "std")]
pub use packed::PackedGroup;
pub use plain::{Plain, Words};
#[cfg(feature = "std")]
pub use table::{RouteTable, RouteTableMemory};
#[cfg(feature = "std")]
pub use versions::{RouteSnapshot, RouteTxn};
#[cfg(feature = "std")]
pub use view::{FamilyRoutes, RouteView};

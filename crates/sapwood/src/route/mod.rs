//! Next-hop choice: groups by flow hash, and a bounded, expiring route cache.
//!
//! | you have | take |
//! |---|---|
//! | a routing table, each route with one or several weighted next hops | `RouteTable`: no state for a flow at all |
//! | next hops that must be asked for, which is slow | [`RouteCache`]: answers for a short time, in fixed memory |
//!
//! Both want a hash of the packet's flow: [`FlowHasher`] makes one. `docs/route.md` has the layout, the rules and what
//! was measured.

mod cache;
mod config;
mod counters;
#[cfg(feature = "std")]
mod flight;
mod flow;
mod hash;
mod plain;
mod raw;
#[cfg(feature = "std")]
mod thread;

pub use cache::{Lookup, RouteCache, Unresolved};
pub use config::RouteCacheBuilder;
pub use counters::CacheStats;
pub use flow::{FlowHasher, FlowKey};
pub use plain::{Plain, Words};

//! A bounded, expiring cache of routes.
//!
//! [`RouteCache`] keeps the answers of a slow resolver of next hops for a short time, in fixed
//! memory. It uses neither arenas nor grace periods. `docs/route.md` has the layout, the rules and
//! the measurements.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(test)]
mod allocations;
mod answer;
mod cache;
mod choices;
mod config;
mod counters;
mod error;
#[cfg(feature = "std")]
mod flight;
mod hooks;
mod raw;
#[cfg(feature = "std")]
mod reader;
mod stamp;
#[cfg(feature = "std")]
mod thread;

pub use answer::{Lookup, Unresolved};
pub use cache::RouteCache;
#[doc(hidden)]
pub use choices::Choices;
pub use config::RouteCacheBuilder;
pub use counters::CacheStats;
pub use error::Error;
pub use hooks::{CacheHooks, NoHooks};
#[cfg(feature = "std")]
pub use reader::CacheReader;
pub use sapwood_common::{Plain, Words};

// Parts that all structures share.
#[cfg(feature = "std")]
use sapwood_common::raw::sync;
use sapwood_common::raw::{figures, hash, seed};

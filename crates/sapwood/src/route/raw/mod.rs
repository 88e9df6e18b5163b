//! The core of the route cache: sets of slots under sequence locks, and probes; and of the
//! route table: the slots of its groups.
//!
//! Everything that the cache's threads share is an atomic word, so nothing there races; the unsafe
//! blocks leave out bounds checks, and make probes. The obligations:
//!
//! - A set's number is below the count of sets, a way below the ways of the largest set. The only
//!   ones to make such numbers are `Table::place`, and loops over `0..sets` and over ways.

#![allow(unsafe_code)]

#[cfg(test)]
pub(crate) mod allocations;
pub(crate) mod pair;
pub(crate) mod probe;
#[cfg(feature = "std")]
pub(crate) mod slot;
pub(crate) mod sync;
pub(crate) mod table;
mod tags;

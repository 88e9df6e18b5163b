//! The core of the route cache, which is sets of slots under sequence locks, and of the route
//! table, which is the slots of its groups.
//!
//! The cache's threads share only atomic words, so there are no data races. The unsafe blocks leave
//! out bounds checks, and make probes. The obligations:
//!
//! - A set's number is below the count of sets, and a way below the ways of the largest set. Only
//!   `Table::place`, and loops over `0..sets` and over ways, make such numbers.

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

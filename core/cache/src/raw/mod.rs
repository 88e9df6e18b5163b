//! The core of the route cache: sets of slots under sequence locks.
//!
//! The cache's threads share only atomic words, so there are no data races. The unsafe blocks leave
//! out bounds checks, and make probes. The obligations:
//!
//! - A set's number is below the count of sets, and a way below the ways of the largest set. Only
//!   `Table::place`, and loops over `0..sets` and over ways, make such numbers.

#![allow(unsafe_code)]

pub(crate) mod probe;
pub(crate) mod sync;
pub(crate) mod table;
mod tags;

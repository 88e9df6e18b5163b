//! The tests of the crate with threads: those that the thread sanitizer runs.
#![cfg(feature = "std")]

mod domain;
mod stress;

//! A counting allocator.

#![allow(unsafe_code)]

pub mod allocations;

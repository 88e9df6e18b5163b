//! The tests of the crate from outside, in one program, so that they are linked once.

#[cfg(not(miri))]
#[path = "../support/counted.rs"]
mod counted;
mod files;
#[cfg(not(miri))]
mod giving_back;
mod protect;

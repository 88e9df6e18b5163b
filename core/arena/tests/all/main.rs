//! The tests of the crate from outside, in one program, so that they are linked once.

#[path = "../support/counted.rs"]
mod counted;
mod files;
mod giving_back;
mod protect;

//! The tests of the crate from outside, in one program, so that they are linked once.

mod files;
mod protect;

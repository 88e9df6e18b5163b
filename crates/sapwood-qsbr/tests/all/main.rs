//! The tests of the crate from outside, in one program, so that they are linked once.

mod core_only;
#[cfg(feature = "std")]
mod domain;
#[cfg(feature = "std")]
mod limits;
#[cfg(feature = "std")]
mod stress;
#[cfg(feature = "tokio")]
mod tokio_hooks;

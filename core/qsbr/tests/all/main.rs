//! The tests of the crate from outside, in one program, so that they are linked once; others are in
//! `tests/threads`.

#[cfg(feature = "std")]
mod callbacks;
mod core_only;
#[cfg(feature = "std")]
mod limits;
#[cfg(feature = "tokio")]
mod tokio_hooks;

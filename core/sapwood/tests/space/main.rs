//! The address space and the memory that maps take from the system. A program of its own, since
//! these tests limit and measure whole processes.
//!
//! `cargo test -p sapwood --test space emptied::` runs one of the modules.

mod address_space;
#[cfg(not(miri))]
#[path = "../../../arena/tests/support/counted.rs"]
mod counted;
mod emptied;
#[cfg(not(miri))]
mod giving_back;
mod limits;
#[cfg(all(target_os = "linux", not(miri)))]
mod process;

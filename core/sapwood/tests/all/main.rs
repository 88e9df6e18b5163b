//! The library's tests from outside, in one program, so that they are compiled and linked once.
//! Each subject is a module: `cargo test -p sapwood --test all differential::` runs one.
//!
//! Tests with threads are in `tests/threads`. Tests that need the whole process (a global
//! allocator, the environment) have files of their own beside these folders.

mod batches;
mod bitfib;
mod bitfile;
mod byte_values;
mod callbacks;
mod closest;
mod compaction;
mod damage;
mod differential;
mod drops;
mod files;
mod full;
mod liars;
mod limits;
mod lpm;
mod lpm_published;
mod maple;
mod maple_behaviours;
mod memory;
mod memory_limits;
mod names_in_messages;
mod order;
mod route_cache;
mod same_thread;
mod saved_routes;
mod saved_stores;
mod shared;
mod surface;
mod unwinding;

#[allow(dead_code)] // Each program uses only a part of it.
#[path = "../support"]
mod support {
    #[cfg(all(unix, not(miri)))]
    #[path = "raw/attached.rs"]
    pub mod attached;
    pub mod bitfile;
    pub mod bits;
    pub mod folder;
    pub mod ledger;
    pub mod lpm;
    pub mod maple;
    // The fuzz targets include this module by its file name.
    #[path = "mod.rs"]
    pub mod maps;
    pub mod ranges;
    pub mod route_cache;
    pub mod shared;
    pub mod steps;
    pub mod values;
    pub mod words;
    pub mod writers;
}

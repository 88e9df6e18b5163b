//! The tests of the library from outside, in one program, so that they are compiled and linked once. Each subject is a
//! module: `cargo test -p sapwood --test all differential::` runs one.
//!
//! Tests that need the whole process (a global allocator, the environment) get a file of their own beside this folder.

mod batches;
mod bitfib;
mod bitfile;
mod compaction;
mod damage;
mod differential;
mod drops;
mod files;
mod full;
mod garbage;
mod histories;
mod limits;
mod lpm;
mod lpm_published;
mod lpm_threads;
mod maple;
mod maple_behaviours;
mod maple_threads;
mod memory;
mod order;
mod route_cache;
mod route_table;
mod route_threads;
mod shared;
mod shared_threads;
mod surface;
mod threads;
mod unwinding;
mod versions;

#[path = "../support"]
mod support {
    pub mod bitfile;
    pub mod bits;
    pub mod folder;
    pub mod ledger;
    pub mod lpm;
    pub mod maple;
    // The fuzz targets know this one by its file's name.
    #[path = "mod.rs"]
    pub mod maps;
    pub mod ranges;
    pub mod ranges_script;
    pub mod route_cache;
    pub mod route_table;
    pub mod script;
    pub mod shared;
    pub mod steps;
    pub mod writers;
}

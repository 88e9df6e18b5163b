//! The tests of all structures together, in one program, so that they are compiled and linked once.
//! Each subject is a module: `cargo test -p sapwood --test all liars::` runs one. The tests of one
//! structure are in its own crate.
//!
//! Tests with threads are in `tests/threads`. Tests that need the whole process (a global
//! allocator, the environment) have files of their own beside these folders.

mod callbacks;
mod fib_file;
mod liars;
mod memory;
mod memory_limits;
mod names_in_messages;
mod same_thread;
mod saved_files;
mod saved_routes;
mod saved_stores;
mod surface;
mod unwinding;

#[allow(dead_code, unused_imports)] // Each program uses only a part of it.
#[path = "../support"]
mod support {
    pub mod fibfile;
    pub mod folder;
    pub mod ledger;
    pub mod lpm;
    pub mod shared;
    pub mod steps;
    pub mod values;
}

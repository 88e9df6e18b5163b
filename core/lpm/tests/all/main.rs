//! The tests of tables of prefixes from outside, in one program.
//! Each subject is a module: `cargo test -p sapwood-lpm --test all bitfib::` runs one.
//! Tests with threads, and tests of all structures, are in `core/sapwood/tests`.

mod aggregate;
mod bitfib;
mod bitfile;
mod changes;
mod lpm;
mod lpm_published;
mod sets;

#[allow(dead_code, unused_imports)] // Each program uses only a part of it.
#[path = "../../../sapwood/tests/support"]
mod support {
    pub mod bitfile;
    pub mod bits;
    pub mod folder;
    pub mod lpm;
    pub mod steps;
}

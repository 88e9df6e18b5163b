//! The tests of maps of byte strings from outside, in one program.
//! Each subject is a module: `cargo test -p sapwood-qp --test all batches::` runs one.
//! Tests with threads, and tests of all structures, are in `core/sapwood/tests`.

mod batches;
mod byte_values;
mod closest;
mod compaction;
mod damage;
mod differential;
mod drops;
mod files;
mod full;
mod inline_stores;
mod limits;
mod order;
mod ordered_read;
mod shared;

#[allow(dead_code, unused_imports)] // Each program uses only a part of it.
#[path = "../../../sapwood/tests/support"]
mod support {
    pub mod folder;
    pub mod ledger;
    // The fuzz targets include this module by its file name.
    #[path = "mod.rs"]
    pub mod maps;
    pub mod shared;
    pub mod steps;
    pub mod values;
    pub mod writers;
}

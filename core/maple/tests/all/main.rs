//! The tests of range maps from outside, in one program.
//! Each subject is a module: `cargo test -p sapwood-maple --test all maple::` runs one.
//! Tests with threads, and tests of all structures, are in `core/sapwood/tests`.

mod maple;
mod maple_behaviours;
mod owned;
mod placements;
mod sets;
mod spaces;

#[allow(dead_code, unused_imports)] // Each program uses only a part of it.
#[path = "../../../sapwood/tests/support"]
mod support {
    #[cfg(all(unix, not(miri)))]
    #[path = "raw/attached.rs"]
    pub mod attached;
    pub mod folder;
    pub mod ledger;
    pub mod maple;
    pub mod owned;
    pub mod ranges;
    pub mod spaces;
    pub mod steps;
    pub mod words;
}

//! Sapwood for C: the functions of `libsapwood`, which `include/sapwood.h` declares.
//!
//! The header is the documentation: it says for each function who owns what, from which thread it
//! may be called, and which errors it returns. It is generated of this crate: each module declares
//! what C sees in one [`c_api!`](c_api), whose docs become the header's comments, and [`HEADER`] is
//! the order of the modules. With the feature `bpf` there is a second header, `sapwood_bpf.h`, of
//! the modules of `BPF_HEADER`. Rust programs use the crate `sapwood`.
//!
//! The whole crate is a border: each function takes pointers from C. What all functions share:
//!
//! - [`call::call`] runs the body, catches panics and records the message of a failure.
//! - [`handle`] makes, checks and frees what C holds pointers to.
//! - [`input`] makes slices and structures of C's arguments.
//!
//! `// SAFETY: C.` refers to this contract, which the header states: each pointer is NULL, or it
//! points to what its type says, for as many items as its length says, until the call returns; a
//! handle is one that this library made and that was not freed; it is used from the threads that
//! the header allows; and what a function hands out is used only as long as the header says.

// The tests of this crate are the program `capi`. `cargo test --lib` would compile the crate once
// more, for no test.
#![cfg(not(test))]
// The names are C's.
#![allow(non_camel_case_types)]

#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(feature = "bpf")]
pub mod bpf_map;
#[cfg(feature = "bpf")]
pub mod bpf_object;
#[cfg(feature = "bpf")]
pub mod bpf_reader;
#[cfg(feature = "bpf")]
pub mod bpf_windows;
#[cfg(feature = "bpf")]
pub mod bpf_words;
pub mod c_api;
pub mod cache;
pub mod call;
pub mod closest;
pub mod domain;
pub mod error;
pub mod fib;
pub mod fib_covers;
pub mod fib_file;
pub mod fib_versions;
pub mod file;
pub mod flow;
pub mod handle;
pub mod input;
pub mod ip_set;
pub mod iter;
pub mod key;
pub mod lists;
#[cfg(target_os = "linux")]
pub mod lists_live;
#[cfg(target_os = "linux")]
pub mod live;
#[cfg(target_os = "linux")]
pub mod live_lookups;
#[cfg(target_os = "linux")]
pub mod live_read;
#[cfg(target_os = "linux")]
pub mod live_reader;
#[cfg(target_os = "linux")]
pub mod live_writers;
pub mod map;
pub mod maps;
pub mod ordered;
pub mod output;
pub mod point_map;
pub mod prefix;
pub mod process;
pub mod ranges;
pub mod ranges_changes;
pub mod ranges_plans;
pub mod ranges_read;
pub mod ranges_versions;
pub mod reader;
pub mod retire;
pub mod routes;
pub mod routes_versions;
pub mod shared;
pub mod shared_map;
pub mod snapshot;
pub mod store;
pub mod turn;
pub mod txn;
pub mod value;
pub mod versions;
pub mod view;

/// What the header `sapwood.h` declares, in its order.
pub const HEADER: &[&[c_api::Item]] = &[
    error::API,
    value::API,
    domain::API,
    reader::API,
    maps::API,
    map::API,
    store::API,
    txn::API,
    snapshot::API,
    shared::API,
    shared_map::API,
    point_map::API,
    file::API,
    view::API,
    closest::API,
    iter::API,
    key::API,
    prefix::API,
    fib::API,
    fib_versions::API,
    fib_covers::API,
    ip_set::API,
    fib_file::API,
    routes::API,
    routes_versions::API,
    flow::API,
    cache::API,
    ranges::API,
    ranges_read::API,
    ranges_versions::API,
    ranges_plans::API,
    #[cfg(target_os = "linux")]
    live::API,
    #[cfg(target_os = "linux")]
    live_writers::API,
    #[cfg(target_os = "linux")]
    live_reader::API,
    #[cfg(target_os = "linux")]
    live_read::API,
    lists::API,
    #[cfg(target_os = "linux")]
    lists_live::API,
];

/// What the header `sapwood_bpf.h` declares, in its order.
#[cfg(feature = "bpf")]
pub const BPF_HEADER: &[&[c_api::Item]] = &[
    bpf::API,
    bpf_windows::API,
    bpf_map::API,
    bpf_words::API,
    bpf_reader::API,
    bpf_object::API,
];

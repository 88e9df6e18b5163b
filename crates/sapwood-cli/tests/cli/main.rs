//! The tests of `sapwood` in one binary, so that they are linked once.

#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "bpf")]
mod bpf_route;
mod build;
mod common;
mod damage;
mod live;
mod live_kinds;
mod maps;
mod program;
mod queries;
mod ranges;
mod routes;
mod server;
mod sync;

#[cfg(feature = "bpf")]
#[path = "../../../sapwood-bpf/tests/common/netns.rs"]
#[allow(dead_code)]
mod netns;

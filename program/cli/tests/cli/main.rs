//! The tests of `sapwood` in one binary, so that they are linked once.

mod batches;
#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "bpf")]
mod bpf_maps;
#[cfg(feature = "bpf")]
mod bpf_route;
#[cfg(feature = "bpf")]
mod bpf_service;
#[cfg(feature = "bpf")]
mod bpf_sync;
#[cfg(feature = "bpf")]
mod bpf_sync_routes;
mod browser;
mod build;
mod closest;
mod common;
mod damage;
mod edges;
mod lists;
mod lists_trouble;
mod live;
mod live_doors;
mod live_kinds;
mod log;
mod name_lists;
mod notify;
mod operations;
mod page;
mod program;
mod queries;
mod ranges;
mod report;
mod report_browser;
mod routes;
mod server;
mod service;
mod shared_files;
mod sync;
#[cfg(feature = "etcd")]
mod sync_etcd;
mod sync_lost;
mod sync_service;

#[cfg(any(feature = "bpf", feature = "etcd"))]
#[path = "../../../../kernel/bpf/tests/common/netns.rs"]
#[allow(dead_code)]
mod netns;

// Nodes of etcd, as the tests of the log start them.
#[cfg(feature = "etcd")]
#[path = "../../../../services/sync/tests/sync/cluster.rs"]
#[allow(dead_code)]
mod cluster;
#[cfg(feature = "etcd")]
#[path = "../../../../services/sync/tests/sync/net.rs"]
#[allow(dead_code)]
mod net;

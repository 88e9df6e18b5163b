//! Tests of logs, publishers and followers.

mod broken;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod cluster;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod etcd;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod faults;
mod following;
mod full;
mod history;
mod kinds;
mod lab;
mod lost;
mod lost_soak;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod net;
#[cfg(all(feature = "etcd", target_os = "linux"))]
#[path = "../../../../kernel/bpf/tests/common/netns.rs"]
#[allow(dead_code)] // another crate's tests use the rest
mod netns;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod players;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod refusals;
mod strict;
mod support;

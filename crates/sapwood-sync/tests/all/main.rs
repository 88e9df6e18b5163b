//! Tests of logs, publishers and followers.

mod broken;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod cluster;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod etcd;
mod following;
#[cfg(all(feature = "etcd", target_os = "linux"))]
mod refusals;
mod support;

//! One writer's ordered maps on many machines.
//!
//! A publisher writes commits into a log, in etcd or in a directory. Each follower applies them,
//! one commit at a time, to a map of its own, which its readers read without locks. So readers of
//! all machines see the leader's versions, in order, and no others.

#![forbid(unsafe_code)]

mod applied;
mod changes;
mod digest;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod folder;
mod follower;
mod frame;
mod kind;
mod log;
mod lost;
pub mod numbers;
mod overlay;
mod publisher;
pub mod ranges;
mod restored;
pub mod routes;
mod snapshots;
mod targets;

pub use changes::{Change, Changes};
pub use digest::Digest;
pub use error::Error;
#[cfg(feature = "etcd")]
pub use etcd::{EtcdLog, EtcdOptions};
pub use folder::FolderLog;
pub use follower::{Follower, FollowerOptions, FollowerStatus};
pub use frame::{Assembler, Commit, Frame};
pub use kind::Kind;
pub use log::{Head, Leadership, Log, LogId, Report, Tail, Term};
pub use publisher::{Publisher, PublisherOptions, PublisherStatus, Slowest, Submitted};
pub use snapshots::{Manifest, Snapshots};
pub use targets::{
    Each, FeedTarget, FibTarget, GroupTarget, Hop, LiveFibTarget, LiveGroupTarget,
    LiveRangesTarget, NumberTarget, RouteFeed, StoreTarget, Target,
};

/// The README, so that its example is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! How a publisher behaves, and how far it is.

use crate::{Digest, LogId};

/// What a leader does about a follower that is too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slowest {
    /// It publishes nothing until the follower is nearer, or its report has expired.
    Wait,
    /// It evicts the follower, which must then start from a snapshot.
    Evict,
}

/// How a publisher behaves.
#[derive(Debug, Clone)]
pub struct PublisherOptions {
    /// How it calls itself.
    pub name: String,
    /// Whether it waits while another process leads.
    pub wait: bool,
    /// Whether it begins a new history when the log cannot be gone on with: when it cannot be read
    /// as a whole, or is not what followers and snapshots had before, because it was removed,
    /// emptied or put back to an earlier state. Without this, such a log is an error.
    ///
    /// The map is empty then, and its first commit should have all of it
    /// ([`replace`](crate::Publisher::replace)): followers have the old map until this commit, and
    /// then become what it says.
    /// [`PublisherStatus::anew`] tells that it happened.
    pub anew: bool,
    /// The most commits that a follower may be behind.
    pub max_lag: u64,
    /// What happens to a follower that is further behind.
    pub slowest: Slowest,
    /// The commits after which a snapshot is saved.
    pub snapshot_commits: u64,
    /// The bytes of log entries after which a snapshot is saved.
    pub snapshot_bytes: u64,
    /// The commits that may wait for the log. Further ones wait in
    /// [`commit`](crate::Publisher::commit).
    pub queue: usize,
}

impl PublisherOptions {
    /// The usual ones: it waits to lead, evicts followers that are 50,000 commits behind, and saves
    /// a snapshot after 10,000 commits or 32 MiB.
    pub fn new(name: impl Into<String>) -> Self {
        PublisherOptions {
            name: name.into(),
            wait: true,
            anew: false,
            max_lag: 50_000,
            slowest: Slowest::Evict,
            snapshot_commits: 10_000,
            snapshot_bytes: 32 << 20,
            queue: 4096,
        }
    }
}

/// How far a publisher is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublisherStatus {
    /// The term.
    pub epoch: u64,
    /// The log.
    pub log: Option<LogId>,
    /// Why this term has begun a new history ([`PublisherOptions::anew`]).
    pub anew: Option<String>,
    /// The newest commit in the log.
    pub commit: u64,
    /// The digest of the map.
    pub digest: Digest,
    /// The entries of the map.
    pub entries: u64,
    /// Commits written in this term.
    pub commits: u64,
    /// Bytes of log entries written in this term.
    pub bytes: u64,
    /// The newest snapshot's commit.
    pub snapshot: u64,
    /// The furthest that a living follower is behind, in commits.
    pub lag: u64,
    /// The living followers.
    pub followers: usize,
    /// Followers evicted in this term.
    pub evicted: u64,
    /// What is wrong: no room in the log, a snapshot that could not be saved, a follower for which
    /// it waits.
    pub trouble: Option<String>,
}

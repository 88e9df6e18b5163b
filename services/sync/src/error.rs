//! What can go wrong between machines.

use std::path::PathBuf;

/// A failure of a log, of its snapshots, or of a map that follows one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process leads now, or this one's lease has ended: nothing more can be published.
    #[error("{map}: this publisher does not lead any more{}", .what.as_deref().map(|what| format!(": {what}")).unwrap_or_default())]
    Deposed {
        /// The map.
        map: String,
        /// What showed it.
        what: Option<String>,
    },
    /// Another process leads, and this one does not wait.
    #[error("{map}: {leader} leads")]
    Led {
        /// The map.
        map: String,
        /// How the leader calls itself.
        leader: String,
    },
    /// The log does not go back to the commit that was asked for.
    #[error("{map}: the log does not have commit {wanted} any more")]
    Gap {
        /// The map.
        map: String,
        /// The commit.
        wanted: u64,
    },
    /// The log is not the one that was followed or written: it is gone, empty, an earlier state of
    /// it, or another one.
    #[error("{map}: {what}")]
    Lost {
        /// The map.
        map: String,
        /// What was found.
        what: String,
    },
    /// A record, a manifest or a snapshot is not what was written.
    #[error("{place}: {what}")]
    Damaged {
        /// Where it lies.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// A record or a manifest has a format that this version does not know.
    #[error("{place}: format {found}, and this version knows formats up to {known}: update it")]
    Newer {
        /// Where it lies.
        place: String,
        /// The format that was found.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// The map has other contents than its leader's after the same commits.
    #[error(
        "{map}: after commit {commit}, the digest is {found:032x}, but the leader's {wanted:032x}"
    )]
    Digest {
        /// The map.
        map: String,
        /// The commit.
        commit: u64,
        /// The digest of this map.
        found: u128,
        /// The leader's.
        wanted: u128,
    },
    /// The log holds a map of another kind.
    #[error("{map}: this is a map of {found}, not of {wanted}")]
    Kind {
        /// The map.
        map: String,
        /// The kind that was asked for.
        wanted: crate::Kind,
        /// The kind that the log has.
        found: crate::Kind,
    },
    /// A change that cannot be published: a key that is too long, or one that is no prefix.
    #[error("{0}")]
    Change(String),
    /// The follower was evicted, because it was too far behind.
    #[error("{map}: follower {follower} was evicted at commit {at}: {why}")]
    Evicted {
        /// The map.
        map: String,
        /// The follower.
        follower: String,
        /// The commit that it had.
        at: u64,
        /// Why.
        why: String,
    },
    /// The service does not let this user do that: wrong password, wrong certificate, no right.
    #[error("{place}: {what}")]
    Denied {
        /// The address.
        place: String,
        /// What it said.
        what: String,
    },
    /// The service has no room for more: etcd's quota, or a full disk.
    ///
    /// etcd 3.4 can do a refused write after a crash, unless a key is written when the alarm has
    /// ended: see docs/sync.md.
    #[error("{place}: no space: {what}")]
    NoSpace {
        /// The address.
        place: String,
        /// What it said.
        what: String,
    },
    /// The service does not answer, or it answered with an error that may pass.
    #[error("{place}: {what}")]
    Unavailable {
        /// The address.
        place: String,
        /// What it said.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The map that follows could not be changed.
    #[error("the following map: {0}")]
    Map(String),
    /// Options that do not fit together, or do not fit the service.
    #[error("{0}")]
    Options(String),
    /// The publisher or the follower has been closed.
    #[error("{0}: closed")]
    Closed(String),
}

impl Error {
    /// Whether the same call may succeed later without anybody's help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::NoSpace { .. })
    }

    /// The error of a file.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Error::NoSpace {
                place: path.display().to_string(),
                what: source.to_string(),
            },
            _ => Error::Io { path, source },
        }
    }

    /// The log is not the one that it was.
    pub(crate) fn lost(map: &str, what: impl Into<String>) -> Self {
        Error::Lost {
            map: map.into(),
            what: what.into(),
        }
    }

    /// A position beyond the end of a log.
    pub(crate) fn beyond(map: &str, head: u64, wanted: u64) -> Self {
        let what = format!("the log ends with commit {head}, and commit {wanted} was there before");
        Self::lost(map, what)
    }

    /// Whether this says that a log, or what it has, is not what was written there.
    pub(crate) fn is_about_history(&self) -> bool {
        matches!(
            self,
            Error::Lost { .. } | Error::Gap { .. } | Error::Damaged { .. } | Error::Digest { .. }
        )
    }

    /// The error of the map that follows.
    pub(crate) fn map(error: impl std::fmt::Display) -> Self {
        Error::Map(error.to_string())
    }

    /// Something that is not what was written.
    pub(crate) fn damaged(place: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Damaged {
            place: place.into(),
            what: what.into(),
        }
    }
}

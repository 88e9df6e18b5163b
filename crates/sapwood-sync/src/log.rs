//! What a log must do: the traits of its engines, in etcd and in a folder.

use std::time::Duration;

use async_trait::async_trait;

use crate::frame::{FORMAT, Frame};
use crate::{Error, Kind};

/// The newest commit of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The leader's term in which it was written.
    pub epoch: u64,
    /// Its number; 0 when nothing was published yet.
    pub commit: u64,
}

/// What a follower tells about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Its name, unique among the followers of a map.
    pub follower: String,
    /// The newest commit that its readers see.
    pub commit: u64,
    /// What holds it back, in words; `None` while it follows.
    pub trouble: Option<String>,
}

/// The log of one map, in whatever keeps it.
///
/// Entries are [`Frame`]s. Those of a commit become visible at once, when the last of them is
/// written. Commits are numbered from 1 without gaps, over the terms of all leaders.
#[async_trait]
pub trait Log: Send + Sync {
    /// The name of the map.
    fn map(&self) -> &str;

    /// What is in the map, or `None` before its first leader.
    async fn kind(&self) -> Result<Option<Kind>, Error>;

    /// Becomes the leader, in a term of its own.
    ///
    /// It waits while another process leads; with `wait` false it fails then.
    ///
    /// # Errors
    /// [`Error::Led`], [`Error::Kind`] when the log has a map of another kind, and those of the
    /// service.
    async fn lead(&self, kind: Kind, name: &str, wait: bool) -> Result<Box<dyn Leadership>, Error>;

    /// How the present leader calls itself, or `None` if nobody leads.
    async fn leader(&self) -> Result<Option<String>, Error>;

    /// The newest commit.
    async fn head(&self) -> Result<Head, Error>;

    /// The frames of all commits after `commit`, and then those to come.
    ///
    /// # Errors
    /// [`Error::Gap`] when the log does not go back so far.
    async fn follow(&self, commit: u64) -> Result<Box<dyn Tail>, Error>;

    /// Tells how far a follower is. The report goes when none follows for `life`.
    ///
    /// # Errors
    /// [`Error::Evicted`] when the leader has evicted this follower since its last report; the next
    /// report brings it back.
    async fn report(&self, report: &Report, life: Duration) -> Result<(), Error>;

    /// The reports of the living followers, ordered by name.
    async fn followers(&self) -> Result<Vec<Report>, Error>;

    /// Tells a follower that the log waits for it no longer, and forgets its report.
    async fn evict(&self, follower: &str, at: u64, why: &str) -> Result<(), Error>;
}

/// A term as leader, which ends when this is dropped.
#[async_trait]
pub trait Leadership: Send {
    /// The number of the term. Each leader has a higher one than those before.
    fn epoch(&self) -> u64;

    /// The most bytes of a frame that [`append`](Self::append) takes.
    fn frame_limit(&self) -> usize;

    /// Appends a frame: returns when it is stored for good.
    ///
    /// A term that has ended appends nothing. When the service's answer is lost, this asks what
    /// became of the frame, until it knows or the term has ended.
    ///
    /// # Errors
    /// [`Error::Deposed`]; [`Error::NoSpace`], after which nothing was appended.
    async fn append(&mut self, frame: &Frame) -> Result<(), Error>;

    /// Deletes the frames of commits up to `commit`.
    async fn trim(&mut self, commit: u64) -> Result<(), Error>;

    /// Whether the term goes on, as far as this process knows without asking.
    fn leads(&self) -> bool;

    /// Ends the term, so that the next leader need not wait for the lease.
    async fn resign(self: Box<Self>) -> Result<(), Error>;
}

/// The frames after a commit, in order.
#[async_trait]
pub trait Tail: Send {
    /// The next frame; waits for it. Dropping the future loses no frame.
    ///
    /// # Errors
    /// [`Error::Gap`] when frames were deleted before they were read, [`Error::Damaged`],
    /// [`Error::Newer`], and those of the service. After an error, the tail is used no more.
    async fn next(&mut self) -> Result<Frame, Error>;
}

/// What a log says about itself, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Meta {
    format: u32,
    kind: Kind,
}

impl Meta {
    pub(crate) fn new(kind: Kind) -> Self {
        Meta {
            format: FORMAT.into(),
            kind,
        }
    }

    /// The kind of the map, if this version knows the format.
    pub(crate) fn kind(&self, place: &str) -> Result<Kind, Error> {
        match self.format <= FORMAT.into() {
            true => Ok(self.kind),
            false => Err(Error::Newer {
                place: place.into(),
                found: self.format,
                known: FORMAT.into(),
            }),
        }
    }
}

/// Refuses names of maps and followers that could not be names of files or keys.
pub(crate) fn checked_name(name: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(Error::Change(format!(
            "{name:?} cannot be a name: 1 to 100 of a-z, A-Z, 0-9, '.', '_' and '-', no '.' first"
        )));
    }
    Ok(())
}

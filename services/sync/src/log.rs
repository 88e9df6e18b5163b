//! What a log must do: the traits of its engines, in etcd and in a directory.

use std::time::Duration;

use async_trait::async_trait;

use crate::frame::{FORMAT, Frame};
use crate::{Error, Kind};

/// The identity of a log: a random number that it gets from the leader who begins it.
///
/// A log that is removed and made anew has another one, and so has one that is copied from
/// elsewhere. It is shown as sixteen hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

impl LogId {
    pub(crate) fn random() -> Self {
        LogId(random())
    }
}

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::str::FromStr for LogId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(LogId)
    }
}

impl serde::Serialize for LogId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for LogId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A random number.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "the kernel gives eight random bytes");
    u64::from_le_bytes(bytes)
}

/// A leader's term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Term {
    /// Its number, the epoch. Each leader of a log has a higher one than those before.
    pub number: u64,
    /// A random number. A log that is put back to an earlier state has terms of the same numbers a
    /// second time, and this tells them apart.
    pub mark: u64,
}

impl Term {
    /// A term of this number.
    pub(crate) fn begin(number: u64) -> Self {
        Term {
            number,
            mark: random(),
        }
    }
}

/// How far a log is, and which one it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The log's identity; `None` before its first leader.
    pub log: Option<LogId>,
    /// The newest term, whether it has written a commit or not.
    pub term: Term,
    /// The number of the term in which the newest commit was written.
    pub epoch: u64,
    /// The newest commit; 0 when nothing was published yet.
    pub commit: u64,
}

/// What a follower tells about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Its name, unique among the followers of a map.
    pub follower: String,
    /// The newest commit that its readers see.
    pub commit: u64,
    /// The term in which that was written.
    #[serde(default)]
    pub epoch: u64,
    /// The log from which it came.
    #[serde(default)]
    pub log: Option<LogId>,
    /// What holds it back, in words; `None` while it follows.
    pub trouble: Option<String>,
    /// Whether an entry of the log, or a snapshot, is missing or damaged for it. A leader that has
    /// all of it saves a snapshot then, from which the follower goes on.
    #[serde(default)]
    pub needs_snapshot: bool,
}

impl Report {
    /// What this follower has and a log with this head, read after the report, has not: the log was
    /// emptied, put back to an earlier state, or written anew from one. `None` for a follower that
    /// is behind, and for one of another log.
    pub fn beyond(&self, head: &Head) -> Option<String> {
        let is_same = self.log.is_some() && self.log == head.log;
        let is_beyond = match self.commit {
            0 => false,
            commit if head.commit == 0 => commit > 0,
            commit => {
                let is_other = self.epoch > head.epoch && commit == head.commit;
                is_same && (commit > head.commit || is_other)
            }
        };
        is_beyond.then(|| {
            format!(
                "follower {} has commit {} of term {}, and the log {}",
                self.follower,
                self.commit,
                self.epoch,
                match head.commit {
                    0 => "is empty".into(),
                    commit => format!("ends with commit {commit} of term {}", head.epoch),
                }
            )
        })
    }

    /// Whether this follower has another log than the one with this head.
    pub fn is_of_another(&self, head: &Head) -> bool {
        self.commit > 0 && self.log.is_some() && head.log.is_some() && self.log != head.log
    }
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

    /// The newest commit, and which log it is in. A log that is gone has an empty head.
    async fn head(&self) -> Result<Head, Error>;

    /// The frames of all commits after `commit`, and then those to come.
    ///
    /// # Errors
    /// [`Error::Gap`] when the log does not go back so far; [`Error::Lost`] when it ends before
    /// `commit`.
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

    /// Begins a new history: the log has no commit then, and another identity; the term has a
    /// number above its own and above `epoch`. Followers do not take the empty log for an empty
    /// map, but wait for its first commit, which should have all of the map.
    ///
    /// # Errors
    /// [`Error::Deposed`], [`Error::NoSpace`], and those of the service.
    async fn renew(&mut self, epoch: u64) -> Result<(), Error>;

    /// Whether the term goes on, as far as this process knows without asking.
    fn leads(&self) -> bool;

    /// Asks what has ended the term, besides the end of a lease: the log that it writes to is gone,
    /// or another one. `None` also when nobody answers.
    async fn look(&mut self) -> Option<String> {
        None
    }

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
    pub(crate) kind: Kind,
    /// Its identity.
    #[serde(default)]
    pub(crate) log: Option<LogId>,
}

impl Meta {
    /// A new log.
    pub(crate) fn new(kind: Kind) -> Self {
        Meta {
            format: FORMAT.into(),
            kind,
            log: Some(LogId::random()),
        }
    }

    /// Reads one, if this version knows the format.
    ///
    /// # Errors
    /// [`Error::Newer`], [`Error::Damaged`].
    pub(crate) fn parse(json: &[u8], place: &str) -> Result<Self, Error> {
        let damaged = |error: serde_json::Error| Error::damaged(place, error.to_string());
        // A later format has this field, whatever else it has.
        #[derive(serde::Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_slice(json).map_err(damaged)?;
        if format > FORMAT.into() {
            return Err(Error::Newer {
                place: place.into(),
                found: format,
                known: FORMAT.into(),
            });
        }
        serde_json::from_slice(json).map_err(damaged)
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

//! A log in a directory, for one machine: no service is needed.
//!
//! | file | what |
//! |---|---|
//! | `MAP/meta.json` | the format, the kind of the map, and the identity of the log |
//! | `MAP/leader` | the leader's name; the leader holds its lock (`flock`) |
//! | `MAP/epoch` | the newest term: its number, and a random one |
//! | `MAP/log/FIRST.EPOCH.PIECE.LAST` | a frame; the numbers are hexadecimal |
//! | `MAP/followers/NAME` | a follower's report |
//! | `MAP/evicted/NAME` | an evicted follower, until it reads that |
//!
//! Each file is written beside, made durable, and renamed. So a frame is there when its name is.

mod files;
mod lead;
mod tail;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::log::{Meta, checked_name};
use crate::{Error, Head, Kind, Leadership, Log, Report, Tail, Term};
use files::{FrameName, read, read_json, write_json};
use lead::FolderLeadership;
use tail::FolderTail;

/// The directory of the frames.
const LOG: &str = "log";
/// The most bytes of a frame.
const FRAME: usize = 1 << 20;
/// The time between two attempts to lead.
const AGAIN: Duration = Duration::from_millis(50);

/// The log of a map in a directory.
#[derive(Debug, Clone)]
pub struct FolderLog {
    map: String,
    folder: PathBuf,
}

impl FolderLog {
    /// The log of the map of this name below a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Change`] for a name that cannot be one, [`Error::Io`].
    pub fn new(folder: impl AsRef<Path>, map: &str) -> Result<Self, Error> {
        checked_name(map)?;
        let log = FolderLog {
            map: map.into(),
            folder: folder.as_ref().join(map),
        };
        match log.make() {
            // One that others write, or on a disk that cannot be written, is read all the same.
            Err(_) if log.path(LOG).is_dir() => Ok(log),
            made => made.map(|()| log),
        }
    }

    /// Makes the directories that are missing.
    fn make(&self) -> Result<(), Error> {
        for part in [LOG, "followers", "evicted"] {
            let part = self.path(part);
            fs::create_dir_all(&part).map_err(Error::io(&part))?;
        }
        Ok(())
    }

    /// The path of a frame.
    fn frame(&self, name: &FrameName) -> PathBuf {
        self.path(LOG).join(name.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn meta(&self) -> Result<Option<Meta>, Error> {
        let path = self.path("meta.json");
        let place = path.display().to_string();
        let json = read(&path)?;
        json.map(|json| Meta::parse(&json, &place)).transpose()
    }

    /// The newest term.
    fn term(&self) -> Result<Term, Error> {
        Ok(read_json(&self.path("epoch"))?.unwrap_or_default())
    }

    /// The frames that are there, in order; none when there is no log.
    fn names(&self) -> Result<Vec<FrameName>, Error> {
        let folder = self.path(LOG);
        let mut names = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(names),
            entries => entries.map_err(Error::io(&folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&folder))?;
            names.extend(entry.file_name().to_str().and_then(FrameName::parse));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The frame with which the newest commit is whole.
    fn newest(names: &[FrameName]) -> Option<FrameName> {
        let whole = names.iter().filter(|name| name.is_whole());
        whole.max_by_key(|name| (name.last, name.epoch)).copied()
    }

    fn head_now(&self) -> Result<Head, Error> {
        loop {
            let before = self.meta()?;
            let newest = Self::newest(&self.names()?);
            let term = self.term()?;
            // A new history may have begun meanwhile.
            let after = self.meta()?;
            if before == after {
                return Ok(Head {
                    log: after.and_then(|meta| meta.log),
                    term,
                    epoch: newest.map_or(0, |name| name.epoch),
                    commit: newest.map_or(0, |name| name.last),
                });
            }
        }
    }
}

#[async_trait]
impl Log for FolderLog {
    fn map(&self) -> &str {
        &self.map
    }

    async fn kind(&self) -> Result<Option<Kind>, Error> {
        Ok(self.meta()?.map(|meta| meta.kind))
    }

    async fn lead(&self, kind: Kind, name: &str, wait: bool) -> Result<Box<dyn Leadership>, Error> {
        loop {
            if let Some(leadership) = FolderLeadership::begin(self, kind, name)? {
                return Ok(Box::new(leadership));
            }
            if !wait {
                let leader = self.leader().await?;
                return Err(Error::Led {
                    map: self.map.clone(),
                    leader: leader.unwrap_or_else(|| "another process".into()),
                });
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn leader(&self) -> Result<Option<String>, Error> {
        let path = self.path("leader");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path)(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => {
                let name = fs::read_to_string(&path).map_err(Error::io(&path))?;
                Ok(Some(name))
            }
            Err(error) => Err(Error::io(&path)(error.into())),
        }
    }

    async fn head(&self) -> Result<Head, Error> {
        self.head_now()
    }

    async fn follow(&self, commit: u64) -> Result<Box<dyn Tail>, Error> {
        Ok(Box::new(FolderTail::begin(self, commit)?))
    }

    async fn report(&self, report: &Report, life: Duration) -> Result<(), Error> {
        checked_name(&report.follower)?;
        let evicted = self.path("evicted").join(&report.follower);
        if let Some(Eviction { at, why }) = read_json(&evicted)? {
            fs::remove_file(&evicted).map_err(Error::io(&evicted))?;
            return Err(Error::Evicted {
                map: self.map.clone(),
                follower: report.follower.clone(),
                at,
                why,
            });
        }
        let folder = self.path("followers");
        if !self.folder.exists() {
            return Err(Error::lost(&self.map, "the log is gone"));
        }
        if !folder.exists() {
            fs::create_dir(&folder).map_err(Error::io(&folder))?;
        }
        let kept = Kept {
            until: (since_1970() + life).as_millis() as u64,
            report: report.clone(),
        };
        write_json(&folder.join(&report.follower), &kept)
    }

    async fn followers(&self) -> Result<Vec<Report>, Error> {
        let folder = self.path("followers");
        let now = since_1970().as_millis() as u64;
        let mut reports = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(reports),
            entries => entries.map_err(Error::io(&folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::io(&folder))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            // A report that has just gone is none.
            match read_json::<Kept>(&entry.path())? {
                Some(kept) if kept.until > now => reports.push(kept.report),
                Some(_) => drop(fs::remove_file(entry.path())),
                None => {}
            }
        }
        reports.sort_by(|one, other| one.follower.cmp(&other.follower));
        Ok(reports)
    }

    async fn evict(&self, follower: &str, at: u64, why: &str) -> Result<(), Error> {
        checked_name(follower)?;
        let why = why.to_owned();
        write_json(&self.path("evicted").join(follower), &Eviction { at, why })?;
        let path = self.path("followers").join(follower);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(&path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// A report, and the time until which it counts, in milliseconds since 1970.
#[derive(Serialize, Deserialize)]
struct Kept {
    until: u64,
    report: Report,
}

#[derive(Serialize, Deserialize)]
struct Eviction {
    at: u64,
    why: String,
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

//! A log in a folder, for one machine: no service is needed.
//!
//! | file | what |
//! |---|---|
//! | `MAP/meta.json` | the format, and the kind of the map |
//! | `MAP/leader` | the leader's name; the leader holds its lock (`flock`) |
//! | `MAP/epoch` | the number of the newest term |
//! | `MAP/log/FIRST.EPOCH.PIECE.LAST` | a frame; the numbers are hexadecimal |
//! | `MAP/followers/NAME` | a follower's report |
//! | `MAP/evicted/NAME` | an evicted follower, until it reads that |
//!
//! Each file is written beside, made durable, and renamed. So a frame is there when its name is.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::StreamExt;
use inotify::{Event, EventMask, EventStream, Inotify, WatchMask};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::log::{Meta, checked_name};
use crate::{Error, Frame, Head, Kind, Leadership, Log, Report, Tail};

/// The most bytes of a frame.
const FRAME: usize = 1 << 20;
/// The time between two attempts to lead.
const AGAIN: Duration = Duration::from_millis(50);

/// The log of a map in a folder.
#[derive(Debug, Clone)]
pub struct FolderLog {
    map: String,
    folder: PathBuf,
}

impl FolderLog {
    /// The log of the map of this name below a folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Change`] for a name that cannot be one, [`Error::Io`].
    pub fn new(folder: impl AsRef<Path>, map: &str) -> Result<Self, Error> {
        checked_name(map)?;
        let folder = folder.as_ref().join(map);
        for part in ["log", "followers", "evicted"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(Error::io(&part))?;
        }
        Ok(FolderLog {
            map: map.into(),
            folder,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn meta(&self) -> Result<Option<Kind>, Error> {
        let path = self.path("meta.json");
        let meta: Option<Meta> = read_json(&path)?;
        meta.map(|meta| meta.kind(&path.display().to_string()))
            .transpose()
    }

    /// The frames that are there, in order.
    fn names(&self) -> Result<Vec<FrameName>, Error> {
        let folder = self.path("log");
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let entry = entry.map_err(Error::io(&folder))?;
            names.extend(entry.file_name().to_str().and_then(FrameName::parse));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn head_now(&self) -> Result<Head, Error> {
        let newest = self.names()?.into_iter().filter(|name| name.is_whole());
        let newest = newest.max_by_key(|name| name.last);
        Ok(newest.map_or(
            Head {
                epoch: 0,
                commit: 0,
            },
            |name| Head {
                epoch: name.epoch,
                commit: name.last,
            },
        ))
    }

    /// Tries to become the leader once.
    fn try_lead(&self, kind: Kind, name: &str) -> Result<Option<FolderLeadership>, Error> {
        if let Some(found) = self.meta()?.filter(|found| *found != kind) {
            return Err(Error::Kind {
                map: self.map.clone(),
                wanted: kind,
                found,
            });
        }
        let path = self.path("leader");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.open(&path).map_err(Error::io(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(Error::io(&path)(error.into())),
        }
        lock.set_len(0).map_err(Error::io(&path))?;
        lock.write_all(name.as_bytes()).map_err(Error::io(&path))?;
        // Written by the leader alone, whose kind nobody else can have changed meanwhile.
        if self.meta()?.is_none() {
            write_json(&self.path("meta.json"), &Meta::new(kind))?;
        }
        let path = self.path("epoch");
        let before = read_json::<u64>(&path)?.unwrap_or(0);
        let epoch = before.max(self.head_now()?.epoch) + 1;
        write_json(&path, &epoch)?;
        Ok(Some(FolderLeadership {
            log: self.clone(),
            epoch,
            _lock: lock,
        }))
    }
}

#[async_trait]
impl Log for FolderLog {
    fn map(&self) -> &str {
        &self.map
    }

    async fn kind(&self) -> Result<Option<Kind>, Error> {
        self.meta()
    }

    async fn lead(&self, kind: Kind, name: &str, wait: bool) -> Result<Box<dyn Leadership>, Error> {
        loop {
            if let Some(leadership) = self.try_lead(kind, name)? {
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
        let folder = self.path("log");
        // The notice comes before the list, so no frame is missed.
        let notice = Inotify::init().map_err(Error::io(&folder))?;
        let mut watches = notice.watches();
        let watched = watches.add(&folder, WatchMask::MOVED_TO);
        watched.map_err(Error::io(&folder))?;
        let notice = notice.into_event_stream(vec![0; 16 << 10]);
        let mut tail = FolderTail {
            log: self.clone(),
            notice: notice.map_err(Error::io(&folder))?,
            waiting: VecDeque::new(),
            passed: None,
            commit,
        };
        let head = self.head_now()?;
        if head.commit < commit {
            return Err(tail.gap());
        }
        tail.list()?;
        let is_next = |name: &FrameName| name.first <= commit + 1;
        if head.commit > commit && !tail.waiting.front().is_some_and(is_next) {
            return Err(tail.gap());
        }
        Ok(Box::new(tail))
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
        let kept = Kept {
            until: (since_1970() + life).as_millis() as u64,
            report: report.clone(),
        };
        write_json(&self.path("followers").join(&report.follower), &kept)
    }

    async fn followers(&self) -> Result<Vec<Report>, Error> {
        let folder = self.path("followers");
        let now = since_1970().as_millis() as u64;
        let mut reports = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::io(&folder))? {
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

/// A term as leader of a log in a folder.
struct FolderLeadership {
    log: FolderLog,
    epoch: u64,
    /// The lock goes with the process, however it ends.
    _lock: File,
}

#[async_trait]
impl Leadership for FolderLeadership {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn frame_limit(&self) -> usize {
        FRAME
    }

    async fn append(&mut self, frame: &Frame) -> Result<(), Error> {
        let path = self.log.path("log").join(FrameName::of(frame).to_string());
        let bytes = frame.bytes().to_vec();
        tokio::task::spawn_blocking(move || write(&path, &bytes))
            .await
            .map_err(|_| Error::Closed(self.log.map.clone()))?
    }

    async fn trim(&mut self, commit: u64) -> Result<(), Error> {
        let names = self.log.names()?;
        // The newest one stays: it says how far the log is.
        let newest = names.iter().map(|name| name.last).max().unwrap_or(0);
        for name in names {
            if name.last <= commit && name.first <= commit && name.last < newest {
                let path = self.log.path("log").join(name.to_string());
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }

    fn leads(&self) -> bool {
        true
    }

    async fn resign(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// The frames of a folder after a commit.
struct FolderTail {
    log: FolderLog,
    notice: EventStream<Vec<u8>>,
    waiting: VecDeque<FrameName>,
    passed: Option<FrameName>,
    /// The newest commit whose frames have all been passed on.
    commit: u64,
}

impl FolderTail {
    /// Lists the frames that are there.
    fn list(&mut self) -> Result<(), Error> {
        for name in self.log.names()? {
            self.push(name);
        }
        Ok(())
    }

    /// Notes a frame, unless it has been passed on.
    fn push(&mut self, name: FrameName) {
        let newest = self.waiting.back().copied().or(self.passed);
        let is_new = newest.is_none_or(|newest| name > newest);
        if is_new && name.last.max(name.first) > self.commit {
            self.waiting.push_back(name);
        }
    }

    fn gap(&self) -> Error {
        Error::Gap {
            map: self.log.map.clone(),
            wanted: self.commit + 1,
        }
    }

    /// Notes what the kernel gives notice of.
    fn note(&mut self, event: &Event<OsString>) -> Result<(), Error> {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return self.list();
        }
        let name = event.name.as_deref().and_then(OsStr::to_str);
        if let Some(name) = name.and_then(FrameName::parse) {
            self.push(name);
        }
        Ok(())
    }
}

#[async_trait]
impl Tail for FolderTail {
    async fn next(&mut self) -> Result<Frame, Error> {
        while self.waiting.is_empty() {
            let event = match self.notice.next().await {
                Some(event) => event.map_err(Error::io(self.log.path("log")))?,
                None => return Err(Error::Closed(self.log.map.clone())),
            };
            self.note(&event)?;
        }
        let name = self.waiting[0];
        if name.first > self.commit + 1 {
            return Err(self.gap());
        }
        let path = self.log.path("log").join(name.to_string());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(self.gap()),
            Err(error) => return Err(Error::io(&path)(error)),
        };
        let place = path.display().to_string();
        let frame = Frame::from_bytes(bytes, &place)?;
        if FrameName::of(&frame) != name {
            return Err(Error::damaged(place, "the name belongs to another frame"));
        }
        self.waiting.pop_front();
        self.passed = Some(name);
        self.commit = self.commit.max(name.last);
        Ok(frame)
    }
}

/// The name of a frame's file. Names are ordered as frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FrameName {
    first: u64,
    epoch: u64,
    piece: u16,
    last: u64,
}

impl FrameName {
    fn of(frame: &Frame) -> Self {
        FrameName {
            first: frame.first(),
            epoch: frame.epoch(),
            piece: frame.piece(),
            last: frame.last(),
        }
    }

    /// Whether a commit is whole with this frame.
    fn is_whole(&self) -> bool {
        self.last >= self.first
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        let mut number = || u64::from_str_radix(numbers.next()?, 16).ok();
        let name = FrameName {
            first: number()?,
            epoch: number()?,
            piece: u16::try_from(number()?).ok()?,
            last: number()?,
        };
        (name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for FrameName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FrameName {
            first,
            epoch,
            piece,
            last,
        } = self;
        write!(f, "{first:016x}.{epoch:x}.{piece:04x}.{last:016x}")
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

/// Writes a file beside, makes it durable, and renames it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().expect("a file in a folder");
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(Error::io(folder))?;
    file.write_all(bytes).map_err(Error::io(path))?;
    file.as_file().sync_data().map_err(Error::io(path))?;
    file.persist(path)
        .map_err(|failed| Error::io(path)(failed.error))?;
    // The name is durable with the folder.
    let folder_file = File::open(folder).map_err(Error::io(folder))?;
    folder_file.sync_all().map_err(Error::io(folder))
}

fn write_json(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    write(path, &serde_json::to_vec(what).expect("plain data"))
}

/// Reads a file; `None` when there is none.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path)(error)),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::damaged(path.display().to_string(), error.to_string()))
}

//! The frames of a directory after a commit: those that are there, and those that come.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use futures_util::StreamExt;
use inotify::{Event, EventMask, EventStream, Inotify, WatchMask};
use tokio::time::timeout;

use super::files::{FrameName, node};
use super::{FolderLog, LOG};
use crate::{Error, Frame, Log, Tail};

/// The time between two looks at a directory from which no notice comes.
const LOOK: Duration = Duration::from_millis(500);
/// How often the first list is made anew when a frame seems to be missing.
const TRIES: usize = 3;

/// When a directory was changed last.
fn changed(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder).and_then(|found| found.modified()).ok()
}

/// The frames of a directory after a commit.
pub(super) struct FolderTail {
    log: FolderLog,
    notice: EventStream<Vec<u8>>,
    /// The directory that is watched, which may lose its name; `None` when there was none.
    watched: Option<(u64, u64)>,
    /// When the directory was looked at last, and when it was changed before that.
    looked: Instant,
    changed: Option<SystemTime>,
    /// The commit that was missing in the last list, which had later ones.
    missing: Option<u64>,
    waiting: VecDeque<FrameName>,
    passed: Option<FrameName>,
    /// The newest commit whose frames have all been passed on.
    commit: u64,
}

impl FolderTail {
    /// The frames after a commit, which the log has or is about to have.
    pub(super) fn begin(log: &FolderLog, commit: u64) -> Result<Self, Error> {
        let folder = log.path(LOG);
        // The notice comes before the list, so no frame is missed.
        let notice = Inotify::init().map_err(Error::io(&folder))?;
        let mask = WatchMask::MOVED_TO | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
        match notice.watches().add(&folder, mask) {
            Ok(_) => {}
            // It is looked for now and then.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&folder)(error)),
        }
        let notice = notice.into_event_stream(vec![0; 16 << 10]);
        let mut tail = FolderTail {
            log: log.clone(),
            notice: notice.map_err(Error::io(&folder))?,
            watched: node(&folder)?,
            looked: Instant::now(),
            changed: changed(&folder),
            missing: None,
            waiting: VecDeque::new(),
            passed: None,
            commit,
        };
        // A list that is made while frames come may lack one and have the next.
        for _ in 0..TRIES {
            let names = log.names()?;
            let head = FolderLog::newest(&names).map_or(0, |name| name.last);
            if head < commit {
                return Err(Error::beyond(log.map(), head, commit));
            }
            tail.missing = tail.push_all(names);
            if tail.missing.is_none() {
                return Ok(tail);
            }
        }
        Err(tail.gap())
    }

    /// Lists the frames that are there.
    fn list(&mut self) -> Result<(), Error> {
        self.missing = self.push_all(self.log.names()?);
        Ok(())
    }

    /// Notes the frames that follow on what has been noted; returns the commit that is missing
    /// before others.
    fn push_all(&mut self, names: Vec<FrameName>) -> Option<u64> {
        let known = self.waiting.back().map_or(0, |name| name.last);
        let mut next = known.max(self.commit) + 1;
        for name in names {
            if name.first > next {
                return Some(next);
            }
            next = next.max(name.last.saturating_add(1));
            self.push(name);
        }
        None
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
            map: self.log.map().into(),
            wanted: self.missing.unwrap_or(self.commit + 1),
        }
    }

    /// The directory that is watched has another name now, or none.
    fn replaced(&self) -> Error {
        Error::Unavailable {
            place: self.log.path(LOG).display().to_string(),
            what: "the directory of the log was removed or replaced".into(),
        }
    }

    /// Looks at the directory, of which nothing has been heard for a while.
    fn look(&mut self) -> Result<(), Error> {
        self.looked = Instant::now();
        let folder = self.log.path(LOG);
        if node(&folder)? != self.watched {
            return Err(self.replaced());
        }
        // Frames that were copied here have their names before they are whole, and no notice.
        let now = changed(&folder);
        let was_missing = self.missing;
        if std::mem::replace(&mut self.changed, now) != now || was_missing.is_some() {
            self.list()?;
        }
        match self.waiting.is_empty() && self.missing.is_some() && self.missing == was_missing {
            true => Err(self.gap()),
            false => Ok(()),
        }
    }

    /// Notes what the kernel gives notice of.
    fn note(&mut self, event: &Event<OsString>) -> Result<(), Error> {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return self.list();
        }
        let ends = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED;
        if event.mask.intersects(ends) {
            return Err(self.replaced());
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
            // A wait that is dropped goes on with what is left.
            let left = LOOK.saturating_sub(self.looked.elapsed());
            match timeout(left, self.notice.next()).await {
                Ok(Some(event)) => {
                    let event = event.map_err(Error::io(self.log.path(LOG)))?;
                    self.note(&event)?;
                }
                Ok(None) => return Err(Error::Closed(self.log.map().into())),
                Err(_) => self.look()?,
            }
        }
        let name = self.waiting[0];
        if name.first > self.commit + 1 {
            return Err(self.gap());
        }
        let path = self.log.path(LOG).join(name.to_string());
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

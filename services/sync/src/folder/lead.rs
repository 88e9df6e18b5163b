//! A term as leader of a log in a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::files::{FrameName, node, sweep, write, write_json};
use super::{FRAME, FolderLog, LOG};
use crate::log::Meta;
use crate::{Error, Frame, Kind, Leadership, Log, LogId, Term};

/// How the name of a log begins that a new history has taken the place of.
const OLD: &str = ".old-";

/// A term as leader of a log in a directory.
pub(super) struct FolderLeadership {
    log: FolderLog,
    kind: Kind,
    id: Option<LogId>,
    term: Term,
    /// The newest frame, which stays in the directory.
    newest: Option<FrameName>,
    /// The lock goes with the process, however it ends.
    lock: File,
    /// What the files of the identity and of the term looked like when they were read last.
    stamps: [Option<Stamp>; 2],
}

/// What changes when a file is replaced or written: its device, number, size and time of change.
type Stamp = (u64, u64, u64, (i64, i64));

fn stamp(path: &Path) -> Result<Option<Stamp>, Error> {
    let of = |found: fs::Metadata| {
        let changed = (found.ctime(), found.ctime_nsec());
        (found.dev(), found.ino(), found.size(), changed)
    };
    match fs::metadata(path) {
        Ok(found) => Ok(Some(of(found))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path)(error)),
    }
}

impl FolderLeadership {
    /// Tries to become the leader once; `None` while another process leads.
    pub(super) fn begin(log: &FolderLog, kind: Kind, name: &str) -> Result<Option<Self>, Error> {
        log.make()?;
        if let Some(found) = log.meta()?.filter(|found| found.kind != kind) {
            return Err(Error::Kind {
                map: log.map().into(),
                wanted: kind,
                found: found.kind,
            });
        }
        let path = log.path("leader");
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
        let folder = log.path(LOG);
        sweep(&folder);
        for entry in fs::read_dir(log.path("")).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(OLD) {
                // What cannot be deleted only takes room.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        // Written by the leader alone, whose kind nobody else can have changed meanwhile.
        let meta = match log.meta()?.filter(|meta| meta.log.is_some()) {
            Some(meta) => meta,
            None => {
                let meta = Meta::new(kind);
                write_json(&log.path("meta.json"), &meta)?;
                meta
            }
        };
        let newest = FolderLog::newest(&log.names()?);
        let before = log.term()?.number;
        let term = Term::begin(before.max(newest.map_or(0, |name| name.epoch)) + 1);
        write_json(&log.path("epoch"), &term)?;
        Ok(Some(FolderLeadership {
            log: log.clone(),
            kind,
            id: meta.log,
            term,
            newest,
            lock,
            stamps: [None; 2],
        }))
    }

    /// What shows that the log is not the one that this term writes to; `None` while it is.
    fn lost(&mut self) -> Result<Option<&'static str>, Error> {
        let path = self.log.path("leader");
        let own = self.lock.metadata().map_err(Error::io(&path))?;
        if node(&path)? != Some((own.dev(), own.ino())) {
            return Ok(Some("the log was removed or replaced"));
        }
        let now = [
            stamp(&self.log.path("meta.json"))?,
            stamp(&self.log.path("epoch"))?,
        ];
        if now != self.stamps || now.contains(&None) {
            let id = self.log.meta()?.and_then(|meta| meta.log);
            if id != self.id {
                return Ok(Some("another log has taken the place of this one"));
            }
            if self.log.term()? != self.term {
                return Ok(Some("the log was put back to an earlier state"));
            }
            self.stamps = now;
        }
        let newest = self.newest.map(|name| self.log.frame(&name));
        match newest.map(|path| node(&path)).transpose()? {
            Some(None) => Ok(Some("the newest commit is not in the log any more")),
            _ => Ok(None),
        }
    }

    fn still(&mut self) -> Result<(), Error> {
        match self.lost()? {
            None => Ok(()),
            Some(what) => Err(Error::Deposed {
                map: self.log.map().into(),
                what: Some(what.into()),
            }),
        }
    }
}

#[async_trait]
impl Leadership for FolderLeadership {
    fn epoch(&self) -> u64 {
        self.term.number
    }

    fn frame_limit(&self) -> usize {
        FRAME
    }

    async fn append(&mut self, frame: &Frame) -> Result<(), Error> {
        self.still()?;
        let name = FrameName::of(frame);
        let path = self.log.frame(&name);
        let bytes = frame.bytes().to_vec();
        tokio::task::spawn_blocking(move || write(&path, &bytes))
            .await
            .map_err(|_| Error::Closed(self.log.map().into()))??;
        self.newest = Some(name);
        Ok(())
    }

    async fn trim(&mut self, commit: u64) -> Result<(), Error> {
        let names = self.log.names()?;
        // The newest one stays: it says how far the log is.
        let newest = names.iter().map(|name| name.last).max().unwrap_or(0);
        for name in names {
            if name.last <= commit && name.first <= commit && name.last < newest {
                let path = self.log.frame(&name);
                fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }

    async fn renew(&mut self, epoch: u64) -> Result<(), Error> {
        self.still()?;
        let (folder, meta) = (self.log.path(LOG), Meta::new(self.kind));
        let term = Term::begin(self.term.number.max(epoch) + 1);
        // Whoever reads meanwhile finds no log, or an empty one.
        let old = self.log.path(&format!("{OLD}{:016x}", term.mark));
        fs::rename(&folder, &old).map_err(Error::io(&folder))?;
        fs::create_dir(&folder).map_err(Error::io(&folder))?;
        (self.term, self.newest) = (term, None);
        write_json(&self.log.path("epoch"), &term)?;
        self.id = meta.log;
        write_json(&self.log.path("meta.json"), &meta)?;
        fs::remove_dir_all(&old).map_err(Error::io(&old))
    }

    fn leads(&self) -> bool {
        true
    }

    async fn look(&mut self) -> Option<String> {
        // What cannot be read now shows when something is written.
        self.lost().ok().flatten().map(String::from)
    }

    async fn resign(self: Box<Self>) -> Result<(), Error> {
        // A process that this one starts just now has the lock, too, until it calls `exec`.
        let path = self.log.path("leader");
        flock(&self.lock, FlockOperation::Unlock).map_err(|error| Error::io(&path)(error.into()))
    }
}

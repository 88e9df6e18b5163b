//! The directory of a live map, and the locks of its files.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::Error;

/// The attempts at a lock, a millisecond apart, that others may have for a moment.
const TRIES: u32 = 20;

/// The directory of a live map.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The directory's descriptor, if the path leads through it.
    _folder: Option<Arc<OwnedFd>>,
}

impl Place {
    pub(crate) fn new(path: &Path) -> Place {
        Place {
            path: path.to_owned(),
            _folder: None,
        }
    }

    /// The directory of a descriptor.
    pub(crate) fn at(folder: OwnedFd) -> Place {
        Place {
            path: format!("/proc/self/fd/{}", folder.as_raw_fd()).into(),
            _folder: Some(Arc::new(folder)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    pub(crate) fn data(&self, number: u64, part: usize) -> PathBuf {
        self.path.join(format!("data-{number}-{part}"))
    }

    pub(crate) fn readers(&self) -> PathBuf {
        self.path.join("readers")
    }

    /// Checks that only this user and root can write the directory, the control page and the data.
    pub(crate) fn belongs_to_us(&self) -> Result<(), Error> {
        let user = rustix::process::geteuid().as_raw();
        let foreign = |path: PathBuf, why: &str| {
            let why = why.to_owned();
            Err(Error::Foreign { path, why })
        };
        let mut all = vec![self.path.clone(), self.control()];
        for entry in std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().as_encoded_bytes().starts_with(b"data-") {
                all.push(entry.path());
            }
        }
        for (at, path) in all.into_iter().enumerate() {
            let meta = match std::fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // A new owner may remove old data meanwhile.
                    if at >= 2 {
                        continue;
                    }
                    return Err(self.not_yet());
                }
                other => other.map_err(Error::io("looking at", &path))?,
            };
            if meta.uid() != user && meta.uid() != 0 {
                return foreign(path, "another user owns it");
            }
            if meta.mode() & 0o022 != 0 {
                return foreign(path, "other users can write it");
            }
        }
        Ok(())
    }

    /// The error for a directory that has no live map yet, or no more.
    pub(crate) fn not_yet(&self) -> Error {
        Error::NotYet {
            path: self.path.clone(),
        }
    }

    /// The error for a file `control` that cannot be mapped.
    pub(crate) fn no_page(&self, error: std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::InvalidData => self.no_map("control is no file of a live map"),
            _ => Error::io("mapping", &self.control())(error),
        }
    }

    /// Whether nobody writes what is here of a map.
    pub(crate) fn is_left(&self) -> bool {
        File::open(self.control()).map_or(true, |control| !is_locked(&control))
    }

    /// The error for a directory with something else than a live map.
    pub(crate) fn no_map(&self, why: impl Into<String>) -> Error {
        Error::NoMap {
            path: self.path.clone(),
            why: why.into(),
        }
    }
}

/// Takes a lock on a file that ends with its descriptor. Returns whether it could be had.
pub(crate) fn try_lock(file: &File) -> std::io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// As [`try_lock`], for a lock that others may have for the moment in which they look at it.
pub(crate) fn try_lock_for_a_while(file: &File) -> std::io::Result<bool> {
    for _ in 1..TRIES {
        if try_lock(file)? {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    try_lock(file)
}

/// What tells a file apart from all others, also from later ones with its name.
pub(crate) fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// A number that no other process has, for a file's name.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// Whether another descriptor has the lock of a file. If none has it, this one takes it for a
/// moment, together with others that look.
pub(crate) fn is_locked(file: &File) -> bool {
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err();
    if !locked {
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }
    locked
}

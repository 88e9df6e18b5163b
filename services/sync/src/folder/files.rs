//! The files of a log in a directory: their names, and how they are written and read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Frame};

/// How the names of files begin that are not whole yet.
const NEW: &str = ".new-";

/// The name of a frame's file. Names are ordered as frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrameName {
    pub(super) first: u64,
    pub(super) epoch: u64,
    pub(super) piece: u16,
    pub(super) last: u64,
}

impl FrameName {
    pub(super) fn of(frame: &Frame) -> Self {
        FrameName {
            first: frame.first(),
            epoch: frame.epoch(),
            piece: frame.piece(),
            last: frame.last(),
        }
    }

    /// Whether a commit is whole with this frame.
    pub(super) fn is_whole(&self) -> bool {
        self.last >= self.first
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
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

/// The system's error, without the random name of a file.
fn bare(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|error| error.source());
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    let code = cause.and_then(io::Error::raw_os_error);
    code.map_or(error, io::Error::from_raw_os_error)
}

/// Writes a file beside, makes it durable, and renames it.
///
/// # Errors
/// [`Error::NoSpace`], after which nothing has changed; [`Error::Io`].
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().expect("a file in a folder");
    let mut file = tempfile::Builder::new()
        .prefix(NEW)
        // Who may read it is for the directory, and for the process's mask, to say.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| Error::io(folder)(bare(error)))?;
    file.write_all(bytes).map_err(Error::io(path))?;
    file.as_file().sync_data().map_err(Error::io(path))?;
    file.persist(path)
        .map_err(|failed| Error::io(path)(failed.error))?;
    // The name is durable with the directory. When this fails, the file is there all the same, so
    // that no error may say that nothing was written.
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::Io {
        path: folder.into(),
        source,
    })
}

pub(super) fn write_json(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    write(path, &serde_json::to_vec(what).expect("plain data"))
}

/// Reads a file; `None` when there is none.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::damaged(path.display().to_string(), error.to_string()))
}

/// The bytes of a file; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path)(error)),
    }
}

/// The device and the number of what has this name; `None` when there is nothing.
pub(super) fn node(path: &Path) -> Result<Option<(u64, u64)>, Error> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path)(error)),
    }
}

/// Deletes what a dead process has left in a directory: files that it had not renamed yet.
pub(super) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(NEW) {
            // What cannot be deleted only takes room.
            let _ = fs::remove_file(entry.path());
        }
    }
}

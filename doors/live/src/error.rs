//! The errors of live maps.

use sapwood::arena::ArenaFull;
use std::io;
use std::path::{Path, PathBuf};

use crate::status::kind_name;

/// The error of a live map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system's error.
    #[error("{what} {}: {error}", .path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The directory has a live map already.
    #[error("{} has a live map; open it to take it over", .path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Another process writes the map, and lives.
    #[error("another process writes the live map in {}", .path.display())]
    Owned {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has no live map yet, or no more. Whoever comes too early may wait:
    /// [`LiveReader::open_within`](crate::LiveReader::open_within).
    #[error("{} has no live map yet", .path.display())]
    NotYet {
        /// The directory.
        path: PathBuf,
    },
    /// The map that this reader reads was removed. What it reads stays as it is, until it moves to
    /// the map that may have been made in its place, by
    /// [`reopen`](crate::LiveReader::reopen).
    #[error("the live map in {} was removed", .path.display())]
    Removed {
        /// The directory.
        path: PathBuf,
    },
    /// The file system has no space left for the map, or for the file of a reader, or a quota is
    /// used up. Nothing is left of what was begun.
    #[error("no space left on device: {what} {}", .path.display())]
    NoSpace {
        /// What was attempted.
        what: &'static str,
        /// The file or the directory.
        path: PathBuf,
    },
    /// The writer cannot know of this reader: the process may not make a file in the directory
    /// `readers`. A reader that checks what it reads needs none:
    /// [`CheckedLiveReader::open_unregistered`](crate::CheckedLiveReader::open_unregistered).
    #[error("this process cannot register as a reader of the live map in {}: {error}", .path.display())]
    Unregistered {
        /// The directory.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The directory has something else than a live map of this library.
    #[error("{} has no live map: {why}", .path.display())]
    NoMap {
        /// The directory.
        path: PathBuf,
        /// What is not as it should be.
        why: String,
    },
    /// The map is another structure than the one that was asked for.
    #[error("the live map in {} is no {wanted}, but a {}", .path.display(), kind_name(*.found))]
    Kind {
        /// The directory.
        path: PathBuf,
        /// The number of its kind.
        found: u64,
        /// The structure that was asked for.
        wanted: &'static str,
    },
    /// The map has other values than those that were asked for, or a later version of this library
    /// made it, whose maps this version does not know.
    #[error("the live map in {} has other values or another layout, perhaps of a later version of \
             the library ({found:#018x}, not {wanted:#018x})", .path.display())]
    Layout {
        /// The directory.
        path: PathBuf,
        /// The layout that the map has.
        found: u64,
        /// The layout that was asked for.
        wanted: u64,
    },
    /// Other users can write the map, so it is not to be trusted.
    #[error("the live map is not to be trusted: {}: {why}", .path.display())]
    Foreign {
        /// The file or the directory.
        path: PathBuf,
        /// What others can do.
        why: String,
    },
    /// What the dead writer left is no valid map. It stays as it is.
    #[error("the live map in {} is damaged: {why}", .path.display())]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Changes disturbed each attempt of a checked reader.
    #[error("the live map in {} was changed during each attempt to read it", .path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The writer has evicted this checked reader, and what it has read may be wrong. It goes on
    /// after [`quiescent`](crate::CheckedLiveReader::quiescent).
    #[error("the writer of the live map in {} has evicted this reader", .path.display())]
    Evicted {
        /// The directory.
        path: PathBuf,
    },
    /// This process is a child of `fork`, and its parent opened the map or the reader.
    #[error("this process is a child of fork, and its parent opened the live map in {}: a child \
             opens it anew", .path.display())]
    Forked {
        /// The directory.
        path: PathBuf,
    },
    /// The error of the map, such as that there is no memory.
    #[error(transparent)]
    Map(#[from] sapwood::Error),
}

sapwood::from_structures!(Error::Map);

impl Error {
    /// Adds what was attempted to the system's error.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| {
            let path = path.to_owned();
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Error::NoSpace { what, path }
                }
                _ => Error::Io { what, path, error },
            }
        }
    }

    /// Whether the cause is that a file system has no space left.
    ///
    /// ```
    /// use sapwood_live::Error;
    /// let full = Error::NoSpace { what: "making", path: "/dev/shm/map".into() };
    /// assert!(full.is_no_space());
    /// assert_eq!(full.to_string(), "no space left on device: making /dev/shm/map");
    /// ```
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Map(error) => error.arena_full().is_some_and(ArenaFull::is_no_space),
            _ => false,
        }
    }
}

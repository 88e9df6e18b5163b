//! The errors of live maps.

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
    /// The folder has a live map already.
    #[error("{} has a live map; open it to take it over", .path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes the map, and lives.
    #[error("another process writes the live map in {}", .path.display())]
    Owned {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has no live map.
    #[error("{} has no live map: {why}", .path.display())]
    NoMap {
        /// The folder.
        path: PathBuf,
        /// What is not as it should be.
        why: String,
    },
    /// The map is another structure than the one that was asked for.
    #[error("the live map in {} is no {wanted}, but a {}", .path.display(), kind_name(*.found))]
    Kind {
        /// The folder.
        path: PathBuf,
        /// The number of its kind.
        found: u64,
        /// The structure that was asked for.
        wanted: &'static str,
    },
    /// The map has other values than those that were asked for.
    #[error("the live map in {} has other values or another layout ({found:#018x}, not {wanted:#018x})", .path.display())]
    Layout {
        /// The folder.
        path: PathBuf,
        /// The layout that the map has.
        found: u64,
        /// The layout that was asked for.
        wanted: u64,
    },
    /// Other users can write the map, so it is not to be trusted.
    #[error("the live map is not to be trusted: {}: {why}", .path.display())]
    Foreign {
        /// The file or the folder.
        path: PathBuf,
        /// What others can do.
        why: String,
    },
    /// What the dead writer left is no valid map. It stays as it is.
    #[error("the live map in {} is damaged: {why}", .path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Changes disturbed each attempt of a checked reader.
    #[error("the live map in {} was changed during each attempt to read it", .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The writer has evicted this checked reader, and what it has read may be wrong. It goes on
    /// after [`quiescent`](crate::CheckedLiveReader::quiescent).
    #[error("the writer of the live map in {} has evicted this reader", .path.display())]
    Evicted {
        /// The folder.
        path: PathBuf,
    },
    /// This process is a child of `fork`, and its parent opened the map or the reader.
    #[error("this process is a child of fork, and its parent opened the live map in {}: a child \
             opens it anew", .path.display())]
    Forked {
        /// The folder.
        path: PathBuf,
    },
    /// The error of the map, such as that there is no memory.
    #[error(transparent)]
    Map(#[from] sapwood::Error),
}

impl Error {
    /// Adds what was attempted to the system's error.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::Io {
            what,
            path: path.to_owned(),
            error,
        }
    }
}

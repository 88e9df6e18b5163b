//! Live maps: directories that a process with `serve` keeps, and that others read.

pub mod changes;
pub mod metrics;
pub mod names;
pub mod ranges;
pub mod routes;
pub mod serve;
pub mod serve_lists;
pub mod serve_names;
pub mod serve_ranges;
pub mod serve_routes;
mod status;
pub mod watch;

use std::path::Path;
use std::time::Duration;

#[cfg(feature = "bpf")]
pub use metrics::set_stalls;
use rustix::fs::{Access, access};
use sapwood_live::{CheckedLiveReader, CheckedMap, Error as LiveError, LiveStatus};
pub use status::status;

use crate::errors::Error;

/// Opens a live map by a reader that trusts the memory and that the writer knows. Where this user
/// may not write, on a read-only mount or in a directory of another user, `checked` opens it by a
/// reader that checks what it reads and writes nothing.
pub fn known_or_checked<R>(
    path: &Path,
    known: impl FnOnce() -> Result<R, LiveError>,
    checked: impl FnOnce() -> Result<R, LiveError>,
) -> Result<R, LiveError> {
    match known() {
        Err(LiveError::Unregistered { .. }) => checked(),
        Err(LiveError::Foreign { .. }) if !may_write(path) => checked(),
        done => done,
    }
}

/// Whether this user may write a live map.
fn may_write(path: &Path) -> bool {
    access(path.join("control"), Access::WRITE_OK).is_ok()
}

/// Opens a live map by a reader that checks what it reads, and that the writer knows where it can.
pub fn checked<M: CheckedMap>(
    path: &Path,
    wait: Duration,
) -> Result<CheckedLiveReader<M>, LiveError> {
    match CheckedLiveReader::open_within(path, wait) {
        Err(LiveError::Unregistered { .. }) => CheckedLiveReader::open_unregistered(path),
        done => done,
    }
}

/// Whether a path is the directory of a live map.
pub fn is_live(path: &Path) -> bool {
    path.join("control").is_file()
}

/// The bytes of memory or disk that a live map takes.
pub fn data_bytes(path: &Path) -> Result<usize, Error> {
    let bytes = LiveStatus::read(path)?.data_bytes;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

//! Live maps: folders that a process with `serve` keeps, and that others read.

pub mod changes;
pub mod metrics;
pub mod names;
pub mod ranges;
pub mod routes;
pub mod serve;
pub mod serve_names;
pub mod serve_ranges;
pub mod serve_routes;
mod status;
pub mod watch;

use std::path::Path;

#[cfg(feature = "bpf")]
pub use metrics::set_stalls;
use sapwood_live::LiveStatus;
pub use status::status;

use crate::errors::Error;

/// Whether a path is the folder of a live map.
pub fn is_live(path: &Path) -> bool {
    path.join("control").is_file()
}

/// The bytes of memory or disk that a live map takes.
pub fn data_bytes(path: &Path) -> Result<usize, Error> {
    let bytes = LiveStatus::read(path)?.data_bytes;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

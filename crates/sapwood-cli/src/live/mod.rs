//! Live maps: folders that a process with `serve` keeps, and that others read.

mod metrics;
pub mod names;
mod serve;
pub mod serve_names;
mod status;
mod watch;

use std::path::Path;

pub use status::status;

/// Whether a path is the folder of a live map.
pub fn is_live(path: &Path) -> bool {
    path.join("control").is_file()
}

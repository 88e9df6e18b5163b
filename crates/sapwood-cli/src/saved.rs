//! What kind of saved file one is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sapwood::arena::MAGIC;
use sapwood::lpm::BitFile;

use crate::names::Map;
use crate::ranges::table::looks_like_ranges;

/// Whether the file begins as all saved ones do. One that cannot be read does not; reading it says why.
pub fn is_saved(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    // A pipe would be missing what was read of it here.
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == MAGIC
}

/// What the file is, by its header; nothing, if it is of no kind that this program writes.
pub fn kind(path: &Path) -> Option<&'static str> {
    if Map::open_unverified(path).is_ok() {
        Some("a map of names")
    } else if BitFile::<u32>::open_unverified(path).is_ok() {
        Some("a table of routes")
    } else if looks_like_ranges(path) {
        Some("a map of ranges")
    } else {
        None
    }
}

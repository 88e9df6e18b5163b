//! The tables of recorded results in the documents, and where their records are. `tables.txt`
//! describes the tables.
//!
//! They are made only from the records under `proof/bench/record`, and are the same each time. The
//! records' reader and the pictures are in [`crate::records`].

mod figure;
pub mod pages;
mod tables;

use std::path::PathBuf;

/// The folder of the repository's records.
pub fn records() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("record")
}

#[cfg(test)]
/// The root folder of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

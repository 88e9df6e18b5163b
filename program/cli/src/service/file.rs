//! Metrics in a file, for the collector of text files of Prometheus's node exporter.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::errors::Error;

/// Writes a text into a new file beside the old one, and renames it.
pub fn write(file: &Path, text: &[u8]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let beside = beside(file)?;
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
        written.inspect_err(|_| drop(fs::remove_file(&beside)))
    };
    write().map_err(Error::write(file))
}

/// Checks that metrics can be written beside a file.
pub fn check(file: &Path) -> Result<(), Error> {
    let check = || -> io::Result<()> {
        if file.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let beside = beside(file)?;
        fs::write(&beside, "")?;
        fs::remove_file(beside)
    };
    check().map_err(Error::write(file))
}

/// The path of the new file: a hidden one, which collectors of metrics leave alone.
fn beside(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let name = name.to_string_lossy();
    Ok(file.with_file_name(format!(".{name}.{}", std::process::id())))
}

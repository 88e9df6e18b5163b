//! Finds, checks and replaces the file that a command writes.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::errors::Error;
use crate::signals::HeldSignals;

/// Returns the path of the file to write: the output, or the file that it links to. An output that
/// cannot be written is an error here, before a long text is read.
pub fn target(output: &Path, input: Option<&Path>) -> Result<PathBuf, Error> {
    if output == Path::new("-") {
        let what = "the output cannot be standard output: -o must name a file";
        return Err(Error::Usage(what.into()));
    }
    let refuse = Error::write(output);
    let metadata = match fs::metadata(output) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = output.parent().filter(|p| !p.as_os_str().is_empty());
            return match fs::metadata(folder.unwrap_or(Path::new("."))) {
                _ if output.is_symlink() => Err(refuse(io::Error::other(
                    "it is a link to something that is not there",
                ))),
                Ok(folder) if !folder.is_dir() => Err(refuse(ErrorKind::NotADirectory.into())),
                Ok(_) if output.file_name().is_none() => {
                    Err(refuse(ErrorKind::IsADirectory.into()))
                }
                Ok(_) => Ok(output.into()),
                Err(error) => Err(refuse(error)),
            };
        }
        Err(error) => return Err(refuse(error)),
    };
    if metadata.is_dir() {
        return Err(refuse(ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() {
        // A rename over a device or a pipe would remove it.
        return Err(refuse(io::Error::other("not a regular file")));
    }
    if let Some(Ok(text)) = input.map(fs::metadata)
        && (text.dev(), text.ino()) == (metadata.dev(), metadata.ino())
    {
        return Err(refuse(io::Error::other("it is the input")));
    }
    fs::canonicalize(output).map_err(refuse)
}

/// Writes a new file beside `target` and renames it: `target` is the old file or the whole new one
/// at any time. After an error nothing is left beside it.
pub fn replace(target: &Path, contents: &[u8]) -> io::Result<()> {
    let _held = HeldSignals::begin();
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty());
    // The user's mask applies, as to every new file.
    let mut file = tempfile::Builder::new()
        .prefix(".sapwood-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

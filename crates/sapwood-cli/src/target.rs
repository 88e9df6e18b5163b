//! Finds and checks the file that a command writes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::errors::Error;

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
                _ if output.is_symlink() => Err(refuse(std::io::Error::other(
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
        return Err(refuse(std::io::Error::other("not a regular file")));
    }
    if let Some(Ok(text)) = input.map(fs::metadata)
        && (text.dev(), text.ino()) == (metadata.dev(), metadata.ino())
    {
        return Err(refuse(std::io::Error::other("it is the input")));
    }
    fs::canonicalize(output).map_err(refuse)
}

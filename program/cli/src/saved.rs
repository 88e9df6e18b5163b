//! Tells the kinds of saved files apart, and reports whether a file is sound.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use sapwood::arena::MAGIC;
use sapwood::maple::is_range_file;
use sapwood::qp::{AnyFile, OpenCause};
use serde_json::json;

use crate::errors::{Answer, Error, Outcome};
use crate::names::open_error;
use crate::output::document;
use crate::routes::table;

/// Whether the file begins with the magic number of saved files. A file that cannot be read does
/// not; the command that reads it reports why.
pub fn is_saved(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    // Bytes that this read from a pipe would be lost.
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == MAGIC
}

/// The kind of the file by its header; `None` for kinds that this program does not write.
pub fn kind(path: &Path) -> Option<&'static str> {
    if AnyFile::open_any_unverified(path).is_ok() {
        Some("a map of names")
    } else if table::is_one(path) {
        Some("a table of routes")
    } else if is_range_file(path) {
        Some("a map of ranges")
    } else {
        None
    }
}

/// The kind of the file, if it begins as saved files do.
pub fn saved_kind(path: &Path) -> Option<&'static str> {
    is_saved(path).then(|| kind(path).unwrap_or("a saved file"))
}

/// The figures of a sound file.
pub struct Sound {
    /// The number of entries.
    pub count: usize,
    /// The word for entries in texts and documents.
    pub what: &'static str,
    /// The length of the file in bytes.
    pub file_bytes: usize,
    /// The parts that were checked.
    pub checked: &'static [&'static str],
}

/// Prints whether a file of a kind is sound, for `verify` of all kinds. A file that cannot be read
/// is an error.
pub fn report_soundness(
    path: &Path,
    kind: &str,
    json: bool,
    opened: Result<Sound, OpenCause>,
) -> Outcome {
    let file = path.to_string_lossy();
    let problem = match opened {
        Ok(sound) => {
            if json {
                return document(&json!({
                    "file": file,
                    "ok": true,
                    "checked": sound.checked,
                    sound.what: sound.count,
                    "file_bytes": sound.file_bytes,
                }));
            }
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{}: ok: {} {} in {} bytes; checked {}",
                path.display(),
                sound.count,
                sound.what,
                sound.file_bytes,
                sound.checked.join(", ")
            )?;
            out.flush()?;
            return Ok(Answer::Yes);
        }
        Err(
            error @ (OpenCause::Image(sapwood::arena::OpenError::Header(_))
            | OpenCause::Corrupt(_)
            | OpenCause::OldFile { .. }),
        ) => open_error(path, kind, error),
        Err(error) if error.is_other_layout() => open_error(path, kind, error),
        Err(error) => return Err(open_error(path, kind, error)),
    };
    if json {
        let what = match &problem {
            Error::NotAMap { what, .. } => what.clone(),
            other => other.to_string(),
        };
        document(&json!({ "file": file, "ok": false, "error": what }))?;
    } else {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{problem}")?;
        out.flush()?;
    }
    Ok(Answer::No)
}

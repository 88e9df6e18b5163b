//! `sapwood names`: maps of names to numbers, in files.

mod build;
mod diff;
mod query;
mod stats;

use std::path::Path;

use sapwood::qp::{OpenCause, QpFile};

use crate::cli::NamesCommand;
use crate::errors::{Error, Outcome};
use crate::saved;

/// A saved map.
pub type Map = QpFile<u64>;

/// Does what was asked.
pub fn run(command: NamesCommand) -> Outcome {
    match command {
        NamesCommand::Build(args) => build::run(&args),
        NamesCommand::Get(args) => query::get(&args),
        NamesCommand::Has(args) => query::has(&args),
        NamesCommand::Prefix(args) => query::prefix(&args),
        NamesCommand::Range(args) => query::range(&args),
        NamesCommand::Next(args) => query::next(&args),
        NamesCommand::Prev(args) => query::prev(&args),
        NamesCommand::Longest(args) => query::longest(&args),
        NamesCommand::Count(args) => query::count(&args),
        NamesCommand::Stats(args) => stats::stats(&args),
        NamesCommand::Verify(args) => stats::verify(&args),
        NamesCommand::Diff(args) => diff::run(&args),
    }
}

/// Opens a map, after checking all of it or only its header.
pub fn open(path: &Path, verify: bool) -> Result<Map, Error> {
    let opened = if verify {
        Map::open(path)
    } else {
        Map::open_unverified(path)
    };
    opened.map_err(|error| open_error(path, "map", error.cause))
}

/// What is wrong with a file that does not open, and is no sound `kind`.
pub fn open_error(path: &Path, kind: &str, error: OpenCause) -> Error {
    use sapwood::arena;
    let what = match error {
        OpenCause::Image(arena::OpenError::Io(source)) => return Error::read(path)(source),
        OpenCause::Image(arena::OpenError::NotAFile) if path.is_dir() => {
            return Error::read(path)(std::io::ErrorKind::IsADirectory.into());
        }
        OpenCause::Image(arena::OpenError::NotAFile) => "not a regular file".to_owned(),
        OpenCause::Image(error @ arena::OpenError::Header(arena::HeaderError::Layout { .. })) => {
            match saved::kind(path) {
                Some(other) => format!("not a sound {kind}: it is {other}"),
                None => format!("not a sound {kind}: {error}"),
            }
        }
        OpenCause::Image(error) => format!("not a sound {kind}: {error}"),
        OpenCause::Corrupt(what) => format!("not a sound {kind}: {what}"),
        error => error.to_string(),
    };
    Error::NotAMap {
        path: path.into(),
        what,
    }
}

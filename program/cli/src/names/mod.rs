//! `sapwood names`: maps of names to numbers or texts, in files.

mod build;
mod closest;
mod diff;
pub mod list;
mod query;
mod stats;
pub mod view;

use std::borrow::Cow;
use std::path::Path;

use sapwood::arena;
use sapwood::qp::{OpenCause, OpenError, QpFile, QpShape, Value};
use sapwood_live::LiveValue;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::cli::{NamesCommand, Query};
use crate::errors::{Error, Outcome, lasting};
use crate::keys::KeyForm;
use crate::live;
use crate::saved;
use view::Source;

/// The type of the values of a saved map.
pub trait SavedValue: Value + FromBytes + IntoBytes + Immutable + PartialEq + LiveValue {
    /// The value as a field of a line.
    fn text(&self) -> Cow<'_, [u8]>;

    /// The value as a part of a document.
    fn json(&self) -> serde_json::Value;
}

impl SavedValue for u64 {
    fn text(&self) -> Cow<'_, [u8]> {
        self.to_string().into_bytes().into()
    }

    fn json(&self) -> serde_json::Value {
        (*self).into()
    }
}

impl SavedValue for [u8] {
    fn text(&self) -> Cow<'_, [u8]> {
        self.into()
    }

    fn json(&self) -> serde_json::Value {
        KeyForm::Bytes.json(self).unwrap_or_default()
    }
}

/// A saved map of either kind.
pub enum Map {
    /// A map of names to numbers.
    Numbers(QpFile<u64>),
    /// A map of names to texts.
    Texts(QpFile<[u8]>),
}

/// A map of either kind that is open for queries: a saved map, or a live one.
pub enum Opened {
    /// A map of names to numbers.
    Numbers(Box<dyn Source<u64>>),
    /// A map of names to texts.
    Texts(Box<dyn Source<[u8]>>),
}

/// Evaluates an expression with the map inside an [`Opened`].
macro_rules! either {
    ($map:expr, mut $it:ident => $done:expr) => {
        match $map {
            $crate::names::Opened::Numbers(mut $it) => $done,
            $crate::names::Opened::Texts(mut $it) => $done,
        }
    };
    ($map:expr, $it:ident => $done:expr) => {
        match $map {
            $crate::names::Opened::Numbers($it) => $done,
            $crate::names::Opened::Texts($it) => $done,
        }
    };
}
use either;

impl From<Map> for Opened {
    fn from(map: Map) -> Self {
        match map {
            Map::Numbers(map) => Opened::Numbers(Box::new(map)),
            Map::Texts(map) => Opened::Texts(Box::new(map)),
        }
    }
}

impl Opened {
    /// The word for the values.
    pub fn values(&self) -> &'static str {
        match self {
            Opened::Numbers(_) => NUMBERS,
            Opened::Texts(_) => TEXTS,
        }
    }
}

/// The words for values.
const NUMBERS: &str = "numbers";
const TEXTS: &str = "texts";

impl Map {
    /// Opens a map of either kind, after checking all of it.
    pub fn open(path: &Path) -> Result<Map, OpenError> {
        Map::either_kind(QpFile::open(path), || QpFile::open(path))
    }

    /// Opens a map of either kind, after checking its header.
    pub fn open_unverified(path: &Path) -> Result<Map, OpenError> {
        Map::either_kind(QpFile::open_unverified(path), || {
            QpFile::open_unverified(path)
        })
    }

    /// The map of numbers; if the file has another layout than such a map, the map of texts.
    pub fn either_kind(
        numbers: Result<QpFile<u64>, OpenError>,
        texts: impl FnOnce() -> Result<QpFile<[u8]>, OpenError>,
    ) -> Result<Map, OpenError> {
        let is_other = |error: &OpenError| is_other_layout(&error.cause);
        match numbers {
            Ok(map) => Ok(Map::Numbers(map)),
            Err(error) if is_other(&error) => match texts() {
                Ok(map) => Ok(Map::Texts(map)),
                Err(other) if is_other(&other) => Err(error),
                Err(other) => Err(other),
            },
            Err(error) => Err(error),
        }
    }

    /// The word for the values.
    pub fn values(&self) -> &'static str {
        match self {
            Map::Numbers(_) => NUMBERS,
            Map::Texts(_) => TEXTS,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Map::Numbers(map) => map.len(),
            Map::Texts(map) => map.len(),
        }
    }

    /// The length of the file in bytes.
    pub fn file_bytes(&self) -> usize {
        match self {
            Map::Numbers(map) => map.file_bytes(),
            Map::Texts(map) => map.file_bytes(),
        }
    }

    /// The shape of the trie.
    pub fn shape(&self) -> Result<QpShape, String> {
        match self {
            Map::Numbers(map) => map.shape(),
            Map::Texts(map) => map.shape(),
        }
    }
}

/// Runs a command.
pub fn run(command: NamesCommand) -> Outcome {
    match command {
        NamesCommand::Build(args) => build::run(&args),
        NamesCommand::Serve(args) => lasting(live::serve_names::run(&args)),
        NamesCommand::Get(args) => query::get(&args),
        NamesCommand::Has(args) => query::has(&args),
        NamesCommand::Prefix(args) => query::prefix(&args),
        NamesCommand::Range(args) => query::range(&args),
        NamesCommand::Next(args) => query::next(&args),
        NamesCommand::Prev(args) => query::prev(&args),
        NamesCommand::Longest(args) => query::longest(&args),
        NamesCommand::Closest(args) => closest::run(&args),
        NamesCommand::Count(args) => query::count(&args),
        NamesCommand::Stats(args) => stats::stats(&args),
        NamesCommand::Verify(args) => stats::verify(&args),
        NamesCommand::Diff(args) => diff::run(&args),
    }
}

/// Opens a map for queries: a file, after checking all of it or only its header, or a live map.
pub fn open(path: &Path, query: &Query) -> Result<Opened, Error> {
    match query.live.wait() {
        Some(wait) => live::names::open(path, wait),
        None => open_file(path, query),
    }
}

/// Opens a file for queries.
pub fn open_file(path: &Path, query: &Query) -> Result<Opened, Error> {
    let opened = match query.no_verify {
        true => Map::open_unverified(path),
        false => Map::open(path),
    };
    opened
        .map(Opened::from)
        .map_err(|error| open_error(path, "map", error.cause))
}

/// Whether the cause is another layout: the file is sound, but of another kind or with other
/// values.
pub fn is_other_layout(cause: &OpenCause) -> bool {
    use arena::{HeaderError, OpenError};
    matches!(
        cause,
        OpenCause::Image(OpenError::Header(HeaderError::Layout { .. }))
            | OpenCause::Values { .. }
            | OpenCause::ByteStrings { .. }
            | OpenCause::NotByteStrings { .. }
    )
}

/// The error of a file that does not open as a `kind`.
pub fn open_error(path: &Path, kind: &str, error: OpenCause) -> Error {
    let what = match error {
        _ if path == Path::new("-") => {
            let what = format!(
                "standard input cannot be a {kind}: it is read in place, so it must be a file"
            );
            return Error::Usage(what);
        }
        OpenCause::Image(arena::OpenError::Io(source)) => return Error::read(path)(source),
        OpenCause::Image(arena::OpenError::NotAFile) if live::is_live(path) => {
            "it is a directory with a live map; --live reads it".to_owned()
        }
        OpenCause::Image(arena::OpenError::NotAFile) if path.is_dir() => {
            return Error::read(path)(std::io::ErrorKind::IsADirectory.into());
        }
        OpenCause::Image(arena::OpenError::NotAFile) => "not a regular file".to_owned(),
        error if is_other_layout(&error) => match saved::kind(path) {
            Some(other) => format!("not a sound {kind}: it is {other}"),
            None => format!("not a sound {kind}: {error}"),
        },
        OpenCause::Image(error) => format!("not a sound {kind}: {error}"),
        OpenCause::Corrupt(what) => format!("not a sound {kind}: {what}"),
        error => error.to_string(),
    };
    Error::NotAMap {
        path: path.into(),
        what,
    }
}

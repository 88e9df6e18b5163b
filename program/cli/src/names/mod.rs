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
use sapwood::qp::{AnyFile, AnyValues, OpenCause, Value};
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

impl From<AnyFile> for Opened {
    fn from(file: AnyFile) -> Self {
        match file {
            AnyValues::Numbers(map) => Opened::Numbers(Box::new(map)),
            AnyValues::Bytes(map) => Opened::Texts(Box::new(map)),
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

/// The word for the values of a file.
pub fn values_of(file: &AnyFile) -> &'static str {
    match file {
        AnyValues::Numbers(_) => NUMBERS,
        AnyValues::Bytes(_) => TEXTS,
    }
}

/// Runs the same expression with a file of either kind.
macro_rules! with_file {
    ($file:expr, $map:ident => $done:expr) => {
        match $file {
            sapwood::qp::AnyValues::Numbers($map) => $done,
            sapwood::qp::AnyValues::Bytes($map) => $done,
        }
    };
}
pub(crate) use with_file;

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
        true => AnyFile::open_any_unverified(path),
        false => AnyFile::open_any(path),
    };
    opened
        .map(Opened::from)
        .map_err(|error| open_error(path, "map", error.cause))
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
        error if error.is_other_layout() => match saved::kind(path) {
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

//! `sapwood lists`: maps of block lists and response policies.

mod ask;
mod build;
mod diff;
pub mod load;
mod stats;
pub mod zones;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sapwood::qp::OrderedRead;
use sapwood_lists::{FINGERPRINTS_MAGIC, Fingerprints, Meta, NotRules, OpenListError};

use crate::cli::lists::ListsCommand;
use crate::cli::live::LiveArgs;
use crate::errors::{Error, Outcome, lasting};
use crate::live;
use crate::names::view::Source;
use crate::names::{self, open_error};

/// Runs a command.
pub fn run(command: &ListsCommand) -> Outcome {
    match command {
        ListsCommand::Build(args) => build::run(args),
        ListsCommand::Serve(args) => lasting(live::serve_lists::run(args)),
        ListsCommand::Ask(args) => ask::run(args),
        ListsCommand::Stats(args) => stats::run(args),
        ListsCommand::Diff(args) => diff::run(args),
        ListsCommand::Check(args) => build::check(args),
    }
}

/// A map of rules that is open for questions.
pub enum Opened {
    /// A file or a live map.
    Map(Box<dyn Source<[u8]>>),
    /// A table of fingerprints.
    Small(Box<Fingerprints>),
}

/// The error of a map that has no rules.
pub fn no_rules(path: &Path, error: NotRules) -> Error {
    Error::NotAMap {
        path: path.into(),
        what: format!("not a map of \"lists build\": {error}"),
    }
}

/// Opens a map of rules, of which all is checked if it is a file.
pub fn open(path: &Path, live: &LiveArgs) -> Result<Opened, Error> {
    if let Some(wait) = live.wait_for(path) {
        return match live::names::open(path, wait)? {
            names::Opened::Texts(mut map) => {
                read(&mut *map, path, |_, _| Ok(()))?;
                Ok(Opened::Map(map))
            }
            names::Opened::Numbers(_) => Err(no_rules(path, NotRules)),
        };
    }
    let mut start = [0; FINGERPRINTS_MAGIC.len()];
    // Bytes that this read from a pipe would be lost.
    let is_small = path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == FINGERPRINTS_MAGIC;
    if is_small {
        let bytes = std::fs::read(path).map_err(Error::read(path))?;
        let small = Fingerprints::from_bytes(&bytes).map_err(|error| Error::NotAMap {
            path: path.into(),
            what: error.to_string(),
        })?;
        return Ok(Opened::Small(Box::new(small)));
    }
    match sapwood_lists::open(path) {
        Ok((file, _)) => Ok(Opened::Map(Box::new(file))),
        Err(OpenListError::NotRules(error)) => Err(no_rules(path, error)),
        Err(OpenListError::Open(error)) => Err(open_error(path, "map of rules", error.cause)),
        Err(error) => Err(Error::Usage(format!("{}: {error}", path.display()))),
    }
}

/// Calls `work` with a map and what it knows of its lists.
pub fn read<R>(
    map: &mut dyn Source<[u8]>,
    path: &Path,
    work: impl FnOnce(&dyn OrderedRead<[u8]>, &Meta) -> Result<R, Error>,
) -> Result<R, Error> {
    let (mut work, mut done) = (Some(work), None);
    map.read(&mut |map| {
        let meta = Meta::of(map).map_err(|error| no_rules(path, error))?;
        if let Some(work) = work.take() {
            done = Some(work(map, &meta)?);
        }
        Ok(())
    })?;
    done.ok_or_else(|| Error::Usage(format!("{} was not read", path.display())))
}

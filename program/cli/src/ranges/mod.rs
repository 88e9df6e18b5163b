//! `sapwood ranges`: maps of ranges of numbers, in files.

mod alloc;
pub mod build;
mod change;
mod forms;
pub mod query;
mod stats;
pub mod table;
pub mod text;

use std::ops::RangeInclusive;

use crate::cli::ranges::{RangesCommand, Window};
use crate::errors::{Error, Outcome, lasting};
use crate::live::serve_ranges;

/// Runs a command.
pub fn run(command: &RangesCommand) -> Outcome {
    match command {
        RangesCommand::Build(args) => build::run(args),
        RangesCommand::Serve(args) => lasting(serve_ranges::run(args)),
        RangesCommand::Get(args) => query::get(args),
        RangesCommand::List(args) => query::list(args),
        RangesCommand::Gaps(args) => query::gaps(args),
        RangesCommand::Alloc(args) => alloc::run(args),
        RangesCommand::Store(args) => change::store(args),
        RangesCommand::Remove(args) => change::remove(args),
        RangesCommand::Diff(args) => change::diff(args),
        RangesCommand::Merge(args) => change::merge(args),
        RangesCommand::Stats(args) => stats::stats(args),
        RangesCommand::Verify(args) => stats::verify(args),
        RangesCommand::Export(args) => query::export(args),
    }
}

impl Window {
    /// The range of numbers from `--from` to `--to`.
    fn range(&self) -> Result<RangeInclusive<u64>, Error> {
        let (from, to) = (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX));
        if from > to {
            let what = format!("--from {from} is after --to {to}");
            return Err(Error::Usage(what));
        }
        Ok(from..=to)
    }
}

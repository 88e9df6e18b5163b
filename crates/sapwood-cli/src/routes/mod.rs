//! `sapwood routes`: tables of routes, in files.

pub mod bench;
mod build;
mod diff;
pub mod family;
pub mod load;
pub mod lookups;
mod query;
mod source;
mod stats;
mod table;
mod updates;

use crate::cli::routes::RoutesCommand;
use crate::errors::Outcome;

/// Does what was asked.
pub fn run(command: &RoutesCommand) -> Outcome {
    match command {
        RoutesCommand::Build(args) => build::run(args),
        RoutesCommand::Lookup(args) => query::lookup(args),
        RoutesCommand::Stats(args) => stats::stats(args),
        RoutesCommand::Verify(args) => stats::verify(args),
        RoutesCommand::Diff(args) => diff::run(args),
        RoutesCommand::Export(args) => query::export(args),
        RoutesCommand::Bench(args) => bench::run(args),
    }
}

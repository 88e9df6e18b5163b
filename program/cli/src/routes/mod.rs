//! `sapwood routes`: tables of routes, in files.

mod aggregate;
mod build;
mod diff;
pub mod load;
pub mod query;
mod source;
mod stats;
pub(crate) mod table;

use crate::cli::routes::RoutesCommand;
use crate::errors::{Outcome, lasting};
use crate::live::serve_routes;

/// Runs a command.
pub fn run(command: &RoutesCommand) -> Outcome {
    match command {
        RoutesCommand::Build(args) => build::run(args),
        RoutesCommand::Serve(args) => lasting(serve_routes::run(args)),
        RoutesCommand::Lookup(args) => query::lookup(args),
        RoutesCommand::Covering(args) => query::covering(args),
        RoutesCommand::Covered(args) => query::covered(args),
        RoutesCommand::Aggregate(args) => aggregate::run(args),
        RoutesCommand::Stats(args) => stats::stats(args),
        RoutesCommand::Verify(args) => stats::verify(args),
        RoutesCommand::Diff(args) => diff::run(args),
        RoutesCommand::Export(args) => query::export(args),
    }
}

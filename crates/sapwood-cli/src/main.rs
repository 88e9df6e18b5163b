//! The program `sapwood` builds, queries, checks and measures Sapwood tables.
//!
//! The exit code is 0 for success and for "yes". It is 1 for "no": a key is absent, no gap has
//! room, maps differ, a file is damaged, or the tour or the bench met a wrong answer. It is 2 for
//! an error.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use sapwood_cli::cli::Cli;
use sapwood_cli::service::log;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let begun = log::begin(&cli.log);
    sapwood_cli::exit(begun.and_then(|()| sapwood_cli::run(cli.command)))
}

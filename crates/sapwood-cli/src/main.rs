//! The program `sapwood` builds, queries, checks and measures Sapwood tables.
//!
//! The exit code is 0 for success and for "yes". It is 1 for "no": a key is absent, no gap has
//! room, maps differ, a file is damaged, or the tour or the bench met a wrong answer. It is 2 for
//! an error.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use sapwood_cli::cli::Cli;

fn main() -> ExitCode {
    sapwood_cli::exit(sapwood_cli::run(Cli::parse().command))
}

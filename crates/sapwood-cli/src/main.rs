//! The program `sapwood`: builds, queries, checks and measures Sapwood tables.
//!
//! Exit codes: 0 for success and for "yes", 1 for "no" (a key is absent, there is no room, maps
//! differ, a file is damaged, the tour or a bench met a wrong answer), 2 for an error.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use sapwood_cli::cli::Cli;

fn main() -> ExitCode {
    sapwood_cli::exit(sapwood_cli::run(Cli::parse().command))
}

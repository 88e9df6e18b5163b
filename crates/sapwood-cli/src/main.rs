//! The program `sapwood`: builds, queries, checks and measures Sapwood tables.
//!
//! Exit codes: 0 for success and for "yes", 1 for "no" (a key is absent, there is no room, maps differ, a file is damaged, the
//! tour or a bench met a wrong answer), 2 for an error.

#![forbid(unsafe_code)]

#[cfg(feature = "bpf")]
mod bpf;
mod cli;
mod errors;
mod figures;
mod keys;
mod manual;
mod maps;
mod names;
mod numbers;
mod output;
mod progress;
mod ranges;
mod records;
mod routes;
mod saved;
mod signals;
mod target;
mod tour;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use errors::{Answer, Error};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Names { command } => names::run(command),
        Command::Routes { command } => routes::run(&command),
        Command::Ranges { command } => ranges::run(&command),
        Command::Maps(args) => maps::run(&args),
        #[cfg(feature = "bpf")]
        Command::Bpf { command } => bpf::run(&command),
        Command::Tour(args) => tour::run(&args),
        Command::MeasureMemory(args) => tour::measure::run(&args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out, page } => manual::man(out.as_deref(), &page),
    };
    let (code, error) = match outcome {
        Ok(Answer::Yes) => return ExitCode::SUCCESS,
        Ok(Answer::No) => return ExitCode::from(1),
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => return ExitCode::SUCCESS,
        Err(error @ Error::Wrong(_)) => (1, error),
        Err(error) => (2, error),
    };
    // When stderr is gone too, the exit code is all that is left to say.
    let _ = writeln!(std::io::stderr(), "sapwood: {error}");
    ExitCode::from(code)
}

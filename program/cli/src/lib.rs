//! The commands of the program `sapwood`, which builds, queries and checks Sapwood's maps. The tour
//! of Sapwood is a program of its own, with the same arguments, input and output.

#![forbid(unsafe_code)]

#[cfg(feature = "bpf")]
mod bpf;
pub mod cli;
mod commands;
mod diff;
pub mod errors;
mod keys;
mod lists;
mod live;
mod manual;
mod names;
pub mod numbers;
pub mod output;
pub mod progress;
mod queries;
mod ranges;
pub mod records;
pub mod report;
pub mod routes;
mod saved;
pub mod service;
mod signals;
mod sync;
pub mod target;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cli::Command;
use cli::sync::SyncCommand;
use errors::{Answer, Error, Outcome, lasting};

/// Runs a command.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Names { command } => names::run(command),
        Command::Routes { command } => routes::run(&command),
        Command::Ranges { command } => ranges::run(&command),
        Command::Lists { command } => lists::run(&command),
        Command::Live { command } => match command {
            cli::live::LiveCommand::Status(args) => live::status(&args),
        },
        Command::Sync { command } => match *command {
            SyncCommand::Publish { .. } | SyncCommand::Follow(_) => lasting(sync::run(&command)),
            SyncCommand::Status(_) | SyncCommand::Snapshot(_) => sync::run(&command),
        },
        Command::Report(args) => report::run(&args),
        #[cfg(feature = "bpf")]
        Command::Bpf { command } => bpf::run(&command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out, page } => manual::man(out.as_deref(), &page),
    }
}

/// Parses the arguments of the program. The error is the exit code: after a fault of the arguments,
/// which stderr tells, and after `--help` and `--version`.
///
/// # Errors
///
/// The exit code.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|asked| {
        let printed = asked.print().and_then(|()| io::stdout().flush());
        match printed {
            // If stderr cannot be written, the exit code alone reports the error.
            _ if asked.use_stderr() => ExitCode::from(2),
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit(Err(error.into())),
        }
    })
}

/// Returns the exit code of a command's outcome, and writes an error to stderr.
pub fn exit(outcome: Outcome) -> ExitCode {
    let (code, error) = match outcome {
        Ok(Answer::Yes) => return ExitCode::SUCCESS,
        Ok(Answer::No) => return ExitCode::from(1),
        // The reader of the output has closed the pipe, so the rest is not needed.
        Err(error) if error.is_broken_pipe() => return ExitCode::SUCCESS,
        Err(error @ Error::Wrong(_)) => (1, error),
        Err(error) => (2, error),
    };
    // If stderr cannot be written either, the exit code alone reports the error.
    errors::complain(&error.to_string());
    ExitCode::from(code)
}

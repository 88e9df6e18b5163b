//! The program that `cargo run` starts: `tour`, and all commands of `sapwood`. It links the oracles
//! and the rival maps, which `sapwood` does not.

#![forbid(unsafe_code)]

mod beside;
mod figures;
mod prefixes;
mod tour;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sapwood_cli::cli::{self, service::LogArgs};
use sapwood_cli::{errors, numbers, output, progress, records, routes};

use tour::{TourArgs, measure};

/// The tour of Sapwood, and the commands of the program `sapwood`.
#[derive(Debug, Parser)]
#[command(name = "sapwood", version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows what the library does on data of this machine, next to std's maps, and checks every
    /// answer
    Tour(TourArgs),
    #[command(flatten)]
    Program(Box<cli::Command>),
}

fn main() -> ExitCode {
    if let Some(args) = measure::asked() {
        return sapwood_cli::exit(measure::run(&args));
    }
    let Arguments { command, log } = match sapwood_cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let begun = sapwood_cli::service::log::begin(&log);
    sapwood_cli::exit(begun.and_then(|()| match command {
        Command::Tour(args) => tour::run(&args),
        Command::Program(command) => sapwood_cli::run(*command),
    }))
}

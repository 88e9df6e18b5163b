//! The program `sapwood` builds, queries and checks Sapwood's maps.
//!
//! The exit code is 0 for success and for "yes". It is 1 for "no": a key is absent, no gap has
//! room, maps differ, or a file is damaged. It is 2 for an error. When the reader of the output
//! closes the pipe, the program ends, which is a success.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use sapwood_cli::cli::Cli;
use sapwood_cli::service::log;

fn main() -> ExitCode {
    let cli: Cli = match sapwood_cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let begun = log::begin(&cli.log);
    sapwood_cli::exit(begun.and_then(|()| sapwood_cli::run(cli.command)))
}

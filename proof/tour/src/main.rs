//! The program `sapwood-tour` measures for `sapwood`, which starts it for `tour` and `routes
//! bench`. It links the oracles and the rival maps, which `sapwood` does not. All other commands
//! are those of `sapwood`.

#![forbid(unsafe_code)]

mod bench;
mod beside;
mod tour;

use std::process::ExitCode;

use sapwood_cli::cli::Command;
use sapwood_cli::cli::routes::RoutesCommand;
use sapwood_cli::{cli, errors, figures, maps, numbers, output, progress, records, routes};

use tour::measure;

fn main() -> ExitCode {
    if let Some(args) = measure::asked() {
        return sapwood_cli::exit(measure::run(&args));
    }
    let cli = match sapwood_cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Err(error) = sapwood_cli::service::log::begin(&cli.log) {
        return sapwood_cli::exit(Err(error));
    }
    sapwood_cli::exit(match cli.command {
        Command::Tour(args) => tour::run(&args),
        Command::Routes {
            command: RoutesCommand::Bench(args),
        } => bench::run(&args),
        other => sapwood_cli::run(other),
    })
}

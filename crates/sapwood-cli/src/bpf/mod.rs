//! `sapwood bpf`: maps in the kernel, and the programs that use them.

mod arenas;
mod list;
mod names;
mod route;

use crate::cli::bpf::{BpfCommand, NamesCommand, RouteCommand};
use crate::errors::Outcome;

/// Does what the arguments say.
pub fn run(command: &BpfCommand) -> Outcome {
    match command {
        BpfCommand::Names { command } => match command {
            NamesCommand::Run(args) => names::run(args),
            NamesCommand::Load(args) => names::load(args),
            NamesCommand::Stats(args) => names::stats(args),
            NamesCommand::Unload(args) => names::unload(args),
        },
        BpfCommand::Route { command } => match command {
            RouteCommand::Run(args) => route::run(args),
        },
        BpfCommand::List(args) => arenas::list(args),
        BpfCommand::Dump(args) => arenas::dump(args),
        BpfCommand::Verify(args) => arenas::verify(args),
    }
}

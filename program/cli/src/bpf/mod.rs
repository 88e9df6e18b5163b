//! `sapwood bpf`: maps in the kernel, and the programs that use them.

mod arenas;
mod follow;
mod list;
mod load;
mod maps;
pub(crate) mod metrics;
mod names;
mod owner;
mod route;
mod serve;
mod served;

use crate::cli::bpf::{BpfCommand, MapCommand, NamesCommand, RouteCommand};
use crate::errors::{Outcome, lasting};
use names::Change;

/// Runs a command.
pub fn run(command: &BpfCommand) -> Outcome {
    match command {
        BpfCommand::Names { command } => match command {
            NamesCommand::Run(args) => lasting(names::run(args)),
            NamesCommand::Load(args) => names::load(args),
            NamesCommand::Block(args) => names::change(args, Change::Block),
            NamesCommand::Allow(args) => names::change(args, Change::Allow),
            NamesCommand::Free(args) => names::change(args, Change::Free),
            NamesCommand::Rule(args) => names::rule(args),
            NamesCommand::Stats(args) => names::stats(args),
            NamesCommand::Unload(args) => names::unload(args),
        },
        BpfCommand::Route { command } => match command {
            RouteCommand::Run(args) => lasting(route::run(args)),
        },
        BpfCommand::Map { command } => match command {
            MapCommand::Create(args) => maps::create(args),
            MapCommand::List(args) => arenas::list(args),
            MapCommand::Get(args) => maps::get(args),
            MapCommand::Set(args) => maps::set(args),
            MapCommand::Delete(args) => maps::delete(args),
            MapCommand::Dump(args) => arenas::dump(args),
            MapCommand::Verify(args) => arenas::verify(args),
            MapCommand::Drop(args) => maps::drop_map(args),
        },
        BpfCommand::Serve(args) => lasting(serve::run(args)),
        BpfCommand::List(args) => arenas::list(args),
        BpfCommand::Dump(args) => arenas::dump(args),
        BpfCommand::Verify(args) => arenas::verify(args),
        BpfCommand::Load(args) => load::load(args),
        BpfCommand::Unload(args) => arenas::unload(args),
    }
}

//! `sapwood sync`: one writer's maps on many machines.

mod draft;
mod follow;
mod lists;
mod metrics;
mod place;
mod publish;
mod snapshot;
mod status;
#[cfg(feature = "bpf")]
mod xdp;
#[cfg(feature = "bpf")]
mod xdp_routes;

use crate::cli::ValueKind;
use crate::cli::sync::{PublishCommand, SyncCommand};
use crate::errors::Outcome;
use crate::keys::KeyForm;

/// Runs a command.
pub fn run(command: &SyncCommand) -> Outcome {
    match command {
        SyncCommand::Publish { command } => match command {
            PublishCommand::Names(args) => {
                let (form, quiet) = (args.list.form(), args.list.quiet);
                match args.list.values {
                    ValueKind::Numbers => {
                        let list = lists::Names::<u64>::new(&args.list);
                        publish::run(list, &args.publish, form, quiet)
                    }
                    ValueKind::Text => {
                        let list = lists::Names::<[u8]>::new(&args.list);
                        publish::run(list, &args.publish, form, quiet)
                    }
                }
            }
            PublishCommand::Routes(args) => publish::run(
                lists::Routes(args),
                &args.publish,
                KeyForm::Bytes,
                args.quiet,
            ),
            PublishCommand::Ranges(args) => {
                let list = lists::Ranges(&args.list);
                publish::run(list, &args.publish, KeyForm::Bytes, args.list.quiet)
            }
        },
        SyncCommand::Follow(args) => follow::run(args),
        SyncCommand::Status(args) => status::run(args),
        SyncCommand::Snapshot(args) => snapshot::run(args),
    }
}

//! Starts the program `sapwood-tour`, which has the measurements, the oracles and the rival maps.
//! This program does not link them.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::errors::{Error, Outcome};

/// The folder of this package at build time.
const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// The name of the program to start.
const NAME: &str = "sapwood-tour";

/// Replaces this process by `sapwood-tour` with the same arguments. Returns only an error.
pub fn start() -> Outcome {
    let Some(mut command) = by_cargo().or_else(beside) else {
        let what = format!(
            "there is no program {NAME} beside this one; in a checkout, \
             \"cargo install --path crates/{NAME}\" installs it"
        );
        return Err(Error::Usage(what));
    };
    let error = command.args(env::args_os().skip(1)).exec();
    Err(Error::Usage(format!("cannot start {NAME}: {error}")))
}

/// The command that builds and runs `sapwood-tour` by cargo, if cargo runs this program in its
/// checkout. So the started program is never older than the sources.
fn by_cargo() -> Option<Command> {
    let cargo = env::var_os("CARGO")?;
    let manifest = Path::new(HERE).with_file_name(NAME).join("Cargo.toml");
    if env::var_os("CARGO_MANIFEST_DIR")? != *HERE || !manifest.is_file() {
        return None;
    }
    let mut command = Command::new(cargo);
    command.args(["run", "--package", NAME, "--manifest-path"]);
    command.arg(manifest);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    if cfg!(feature = "bpf") {
        command.args(["--features", "bpf"]);
    }
    command.arg("--");
    Some(command)
}

/// The command that runs the `sapwood-tour` that is installed next to this program.
fn beside() -> Option<Command> {
    let program = env::current_exe().ok()?.with_file_name(NAME);
    program.is_file().then(|| Command::new(program))
}

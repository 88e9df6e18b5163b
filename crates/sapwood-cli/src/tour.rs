//! Starts `sapwood-tour`, which has the measurements, the oracles and the rivals that this program
//! does without.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::errors::{Error, Outcome};

/// The folder of this package when it was built.
const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// What the program is called.
const NAME: &str = "sapwood-tour";

/// Becomes `sapwood-tour` with the same arguments; returns only why it cannot.
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

/// Where cargo runs this program in its checkout: cargo once more, so that what it runs is of
/// today.
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

/// The one that was installed with this program.
fn beside() -> Option<Command> {
    let program = env::current_exe().ok()?.with_file_name(NAME);
    program.is_file().then(|| Command::new(program))
}

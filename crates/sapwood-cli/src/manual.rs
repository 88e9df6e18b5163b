//! Completions and manual pages, generated from the descriptions of the arguments.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::errors::{Answer, Error, Outcome};

/// Writes a shell's completions to stdout.
pub fn completions(shell: Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sapwood", &mut text);
    print(&text)
}

/// Writes the manual page of a command to stdout, or all manual pages into a folder.
pub fn man(out: Option<&Path>, page: &[String]) -> Outcome {
    if let Some(folder) = out {
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        clap_mangen::generate_to(Cli::command(), folder).map_err(Error::write(folder))?;
        return Ok(Answer::Yes);
    }
    let mut root = Cli::command();
    // Gives the pages of subcommands their full names.
    root.build();
    let mut command = &root;
    for name in page {
        command = command.find_subcommand(name).ok_or_else(|| {
            Error::Usage(format!("no manual page: there is no command \"{name}\""))
        })?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    print(&text)
}

fn print(text: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(Answer::Yes)
}

//! Completions and manual pages, generated from the descriptions of the arguments.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::errors::{Answer, Error, Outcome};
use crate::signals::HeldSignals;

/// Writes a shell's completions to stdout.
pub fn completions(shell: Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sapwood", &mut text);
    print(&text)
}

/// Writes the manual page of a command to stdout, or all manual pages into a directory.
pub fn man(out: Option<&Path>, page: &[String]) -> Outcome {
    if let Some(folder) = out {
        let is_new = !folder.exists();
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        return pages(folder).map(|()| Answer::Yes).map_err(|error| {
            if is_new {
                // A directory that others have put something into meanwhile stays.
                let _ = fs::remove_dir(folder);
            }
            Error::write(folder)(error)
        });
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

/// Writes all pages, and moves them into the directory when they are whole.
fn pages(folder: &Path) -> io::Result<()> {
    let _held = HeldSignals::begin();
    let beside = tempfile::Builder::new()
        .prefix(".sapwood-")
        .tempdir_in(folder)?;
    clap_mangen::generate_to(Cli::command(), &beside)?;
    for page in fs::read_dir(&beside)? {
        let page = page?;
        fs::rename(page.path(), folder.join(page.file_name()))?;
    }
    beside.close()
}

fn print(text: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(Answer::Yes)
}

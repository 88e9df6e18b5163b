//! What can go wrong, each with the file it is about.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a command that did not fail has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, found, equal, sound: exit code 0.
    Yes,
    /// Absent, different, damaged: exit code 1.
    No,
}

impl Answer {
    /// `Yes` when it is so.
    pub fn from_bool(yes: bool) -> Self {
        if yes { Answer::Yes } else { Answer::No }
    }
}

/// How a command ends.
pub type Outcome = Result<Answer, Error>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An input cannot be opened or read.
    #[error("cannot read {}: {source}", name(path))]
    Read {
        /// The input, `-` for stdin.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// An output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not a map or a table, or is damaged.
    #[error("{}: {what}", path.display())]
    NotAMap {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A record of the input is unacceptable, and it was asked to be strict.
    #[error("{}: {unit} {number}: {what}", name(path))]
    Record {
        /// The input, `-` for stdin.
        path: PathBuf,
        /// `line` or `record`.
        unit: &'static str,
        /// Its number, from 1.
        number: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The map or table itself refused, for want of memory.
    #[error("cannot build the map: {0}")]
    Map(#[from] sapwood::Error),
    /// Something about the kernel cannot be done.
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Bpf(#[from] sapwood_bpf::Error),
    /// An argument makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Stdout(#[from] io::Error),
    /// The tour met an answer that is wrong.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// Something that the tour needs is not to be had.
    #[error("the tour cannot go on: {0}")]
    Tour(String),
}

impl Error {
    /// For `map_err` on an input.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Read {
            path: path.into(),
            source,
        }
    }

    /// For `map_err` on an output.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Write {
            path: path.into(),
            source,
        }
    }

    /// Whether whoever read standard output has gone.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn name(path: &Path) -> std::path::Display<'_> {
    if path == Path::new("-") {
        Path::new("standard input").display()
    } else {
        path.display()
    }
}

/// An input in messages.
pub fn shown(input: &Path) -> String {
    name(input).to_string()
}

/// One line on stderr.
pub fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "sapwood: {what}");
}

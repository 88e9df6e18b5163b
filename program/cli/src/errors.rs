//! The outcomes of commands, and their errors with the files that they are about.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The answer of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, found, equal or sound: exit code 0.
    Yes,
    /// Absent, different or damaged: exit code 1.
    No,
}

impl Answer {
    /// `Yes` for true.
    pub fn from_bool(yes: bool) -> Self {
        if yes { Answer::Yes } else { Answer::No }
    }
}

/// The result of a command.
pub type Outcome = Result<Answer, Error>;

/// The error of a command that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An input cannot be opened or read.
    #[error("cannot read {}: {source}", name(path))]
    Read {
        /// The input, `-` for stdin.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is not the expected kind of map or table, or is damaged.
    #[error("{}: {what}", path.display())]
    NotAMap {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A record of the input is bad, and the command does not leave bad records out.
    #[error("{}: {unit} {number}: {what}", name(path))]
    Record {
        /// The input, `-` for stdin.
        path: PathBuf,
        /// `line` or `record`.
        unit: &'static str,
        /// The number of the record, from 1.
        number: u64,
        /// The fault.
        what: String,
    },
    /// A map or table has no memory left for its entries.
    #[error("cannot build the map: {0}")]
    Map(#[from] sapwood::Error),
    /// A live map cannot be made, read or changed.
    #[error(transparent)]
    Live(#[from] sapwood_live::Error),
    /// A log, its snapshots, or a map that follows one.
    #[error(transparent)]
    Sync(#[from] sapwood_sync::Error),
    /// A step inside the kernel failed.
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Bpf(#[from] sapwood_bpf::Error),
    /// The kernel's routes cannot be followed.
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Mirror(#[from] sapwood_routes::MirrorError),
    /// Lists of rules cannot become a map.
    #[error(transparent)]
    Rules(#[from] sapwood_lists::ListError),
    /// Most lines of a list of domain names were refused.
    #[error("{}: {what}{}", name(path), hint(what))]
    List {
        /// The list, `-` for stdin.
        path: PathBuf,
        /// What it is like.
        what: sapwood_lists::names::NotAList,
    },
    /// Some queries were bad. Each was reported, and the others were answered.
    #[error("bad queries: {bad} of {all}")]
    Queries {
        /// How many were bad.
        bad: u64,
        /// How many there were.
        all: u64,
    },
    /// An argument or an input cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Stdout(#[from] io::Error),
    /// A metric cannot be registered or written as text.
    #[error("cannot export metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The tour met a wrong answer.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// The tour cannot get something that it needs.
    #[error("the tour cannot go on: {0}")]
    Tour(String),
}

sapwood::from_structures!(Error::Map);

impl Error {
    /// Makes a [`Error::Read`] of an error of the system, for `map_err`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Read {
            path: path.into(),
            source,
        }
    }

    /// Makes a [`Error::Write`] of an error of the system, for `map_err`.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Error::Write {
            path: path.into(),
            source,
        }
    }

    /// Whether the reader of standard output has closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The outcome of a command that runs until a signal. It has not done its work when it ends because
/// nobody reads its answers.
pub fn lasting(outcome: Outcome) -> Outcome {
    outcome.map_err(|error| match error.is_broken_pipe() {
        true => Error::Usage(format!("the command has ended: {error}")),
        false => error,
    })
}

fn name(path: &Path) -> std::path::Display<'_> {
    if path == Path::new("-") {
        Path::new("standard input").display()
    } else {
        path.display()
    }
}

/// What reads a list that is not plain.
fn hint(what: &sapwood_lists::names::NotAList) -> &'static str {
    use sapwood_lists::names::ListFormat::*;
    match what.looks_like {
        Some(Hosts | AdBlock | Dnsmasq | Unbound | Rpz) => "; \"lists build\" reads it",
        _ => "",
    }
}

/// The name of an input in messages.
pub fn shown(input: &Path) -> String {
    name(input).to_string()
}

/// Writes one line to stderr.
pub fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "sapwood: {what}");
}

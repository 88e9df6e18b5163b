//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why something about the kernel could not be done. Nothing was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Only root (or who may do what root may with BPF) makes arenas and loads programs.
    #[error("needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    NotRoot,
    /// The kernel has no arenas.
    #[error("Linux {found} has no BPF arenas; 6.9 and newer have")]
    Kernel {
        /// What runs.
        found: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no BTF ({0} is not there); it must be built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf(PathBuf),
    /// An arena has two pages at least and 4 GiB at most.
    #[error("an arena has whole pages, 8 KiB to 4 GiB, not {bytes} bytes")]
    Size {
        /// What was asked for.
        bytes: usize,
    },
    /// Something else is mapped where the arena must lie in this process.
    #[error(
        "the arena must be mapped at {at:#x}, where this process has something else (the same arena, perhaps: a process maps it once)"
    )]
    Address {
        /// Where.
        at: u64,
    },
    /// Not a memory of ours.
    #[error("not an arena of Sapwood's: {what}")]
    NotAnArena {
        /// What it is.
        what: String,
    },
    /// Made by another version of this library.
    #[error("the arena has layout version {found}, this program knows {expected}")]
    Version {
        /// The arena's.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The arena has no room for another window.
    #[error("the arena has no room for {name}: {bytes} bytes wanted, {left} left")]
    NoRoom {
        /// The window.
        name: String,
        /// What it wants.
        bytes: usize,
        /// What there is.
        left: usize,
    },
    /// All entries for windows are taken.
    #[error("the arena has {0} windows already, which is all that it can have")]
    TooManyWindows(usize),
    /// A window that is not there, or of another kind.
    #[error("the arena has no {kind} named {name:?}; {there}")]
    NoWindow {
        /// What was asked for.
        name: String,
        /// As what.
        kind: &'static str,
        /// What there is.
        there: String,
    },
    /// A name that is too long, empty or taken.
    #[error("{name:?} is no name for a window: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// What should be a domain name and is none.
    #[error("{name:?} is no domain name: {error}")]
    DnsName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        #[source]
        error: sapwood::key::DnsNameError,
    },
    /// The system has no memory for the arena's pages.
    #[error("no memory for {bytes} bytes of the arena")]
    NoMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// A program that may sleep does not keep what it reads: grace periods do not wait for it.
    #[error(
        "the program {0:?} may sleep, and grace periods do not wait for such programs; see Loader::allow_sleepable"
    )]
    Sleepable(String),
    /// The object has no such program, map or variable.
    #[error("the object has no {what} {name:?}")]
    Missing {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The kernel refused a program. What its verifier said is behind it.
    #[error("the kernel refuses the program: {0}")]
    Refused(String),
    /// What is read cannot be what it should be.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A map whose values are not of the type that was asked for.
    #[error("the values of {name:?} are of another type: {why}")]
    Value {
        /// The map.
        name: String,
        /// What they are.
        why: String,
    },
    /// A folder that pins cannot be in.
    #[error("{} is not in a BPF file system; one is mounted at /sys/fs/bpf, or by: mount -t bpf bpf {}", .0.display(), .0.display())]
    NoBpffs(PathBuf),
    /// A folder that does not hold what this library pins, and nothing else.
    #[error("{} is not taken down: {why}", folder.display())]
    NotPins {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// Another process writes the arena's maps.
    #[error(
        "the arena is owned by the process {pid}, which lives (or may: see BpfArena::forget_owner); one process writes, others read"
    )]
    Owned {
        /// The owner.
        pid: u32,
    },
    /// A map is changed faster than it can be read from outside.
    #[error(
        "{0:?} is changed faster than it can be read from outside its owner's process; try again"
    )]
    Busy(String),
    /// Neither way to wait for the kernel's readers works here.
    #[error("the kernel's readers cannot be waited for: {0}")]
    NoGrace(String),
    /// A map cannot be made so.
    #[error("{what}: {why}")]
    Setting {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// A map's error.
    #[error(transparent)]
    Map(#[from] sapwood::Error),
    /// What the system said.
    #[error("{doing}: {error}")]
    Io {
        /// What was tried.
        doing: String,
        /// What came of it.
        #[source]
        error: io::Error,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>, error: io::Error) -> Error {
        Error::Io {
            doing: doing.into(),
            error,
        }
    }

    /// What the last system call of this thread said.
    pub(crate) fn last(doing: impl Into<String>) -> Error {
        Error::io(doing, io::Error::last_os_error())
    }

    pub(crate) fn system(doing: impl Into<String>, error: libbpf_rs::Error) -> Error {
        let kind = match error.kind() {
            libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
            libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            libbpf_rs::ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            libbpf_rs::ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            _ => io::ErrorKind::Other,
        };
        Error::io(doing, io::Error::new(kind, format!("{error:#}")))
    }

    pub(crate) fn pinned(path: &Path, error: libbpf_rs::Error) -> Error {
        Error::system(format!("opening {}", path.display()), error)
    }
}

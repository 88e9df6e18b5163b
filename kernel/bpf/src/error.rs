//! The errors of this crate. Where there is a remedy, the message names it.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on arenas, programs or the kernel failed. A failed operation changed nothing,
/// unless its documentation says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks capabilities: those for arenas and programs, or those that the programs of
    /// an object need.
    #[error(
        "this process lacks {}: run it as root, or give them to it (AmbientCapabilities= of a unit \
         of systemd, setcap, setpriv --ambient-caps)",
        missing.join(", ")
    )]
    Capabilities {
        /// Their names, of `CAP_BPF` (arenas and programs), `CAP_PERFMON` (programs that trace) and
        /// `CAP_NET_ADMIN` (programs for packets).
        missing: Vec<&'static str>,
    },
    /// The kernel has no arenas.
    #[error("Linux {found} has no BPF arenas; 6.9 and newer have")]
    Kernel {
        /// The release of the running kernel.
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
        /// The bytes that the caller asked for.
        bytes: usize,
    },
    /// Something else is mapped where the arena must lie in this process.
    #[error(
        "the arena must be mapped at {at:#x}, where this process has something else (the same arena, perhaps: a process maps it once)"
    )]
    Address {
        /// The address.
        at: u64,
    },
    /// The map is not an arena that this library made.
    #[error("not an arena of Sapwood's: {what}")]
    NotAnArena {
        /// What the map is instead.
        what: String,
    },
    /// Another version of this library made the arena.
    #[error("the arena has layout version {found}, this program knows {expected}")]
    Version {
        /// The arena's layout version.
        found: u32,
        /// The layout version that this program knows.
        expected: u32,
    },
    /// The arena has no room for another window.
    #[error(
        "the arena has no room for {name}: {} bytes of addresses wanted, {left} left in one piece \
         (maps for which no size was said took them)",
        (*bytes).max(1)
    )]
    NoRoom {
        /// The window's name.
        name: String,
        /// The bytes that the window needs.
        bytes: usize,
        /// The bytes of the largest free piece.
        left: usize,
    },
    /// The arena's list of windows is full.
    #[error("the arena has {0} windows already, which is all that it can have")]
    TooManyWindows(usize),
    /// The arena has no window of this name, or the window is of another kind.
    #[error("the arena has no {kind} named {name:?}; {there}")]
    NoWindow {
        /// The name that the caller asked for.
        name: String,
        /// The kind that the caller asked for.
        kind: &'static str,
        /// What the arena has instead.
        there: String,
    },
    /// The window's name is too long, empty or taken.
    #[error("{name:?} is no name for a window: {why}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The text is not a domain name.
    #[error("{name:?} is no domain name: {error}")]
    DnsName {
        /// The text.
        name: String,
        /// What is wrong with the text.
        #[source]
        error: sapwood::key::DnsNameError,
    },
    /// The system has no memory for the arena's pages.
    #[error("no memory for {bytes} bytes of the arena")]
    NoMemory {
        /// The bytes that the operation needed.
        bytes: usize,
    },
    /// The program may sleep. Grace periods do not wait for such programs, so the memory that one
    /// reads may be freed meanwhile.
    #[error(
        "the program {0:?} may sleep, and grace periods do not wait for such programs in this arena; call BpfArena::allow_sleepable first"
    )]
    Sleepable(String),
    /// A program that may sleep calls a function that such programs must not call.
    #[error(
        "the program {program:?} may sleep, and calls {function}, which needs a processor for itself: such programs write maps by qp_write_sleepable.bpf.h, and must not use route caches, or make long keys by key.bpf.h"
    )]
    SleepableCalls {
        /// The program.
        program: String,
        /// The function.
        function: String,
    },
    /// The object has variables of its own in the arena (`__arena` globals, which the compiler puts
    /// into the section `.addr_space.1`). Several objects share an arena, and each of its pages
    /// belongs to a window, so nothing keeps room for them.
    #[error(
        "the object has variables of its own in the arena ({bytes} bytes in the section .addr_space.1), for which an arena of Sapwood's has no place: make them variables of the object (.bss, .data), or keep them in a window of words (Words::create, sapwood_bpf_words_create; sw_window with SW_KIND_WORDS)"
    )]
    ArenaVariables {
        /// The bytes of the section.
        bytes: usize,
    },
    /// The object has no such program, map or variable.
    #[error("the object has no {what} {name:?}")]
    Missing {
        /// The kind of item.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The kernel refused a program. The field has the end of the verifier's log.
    #[error("the kernel refuses the program: {0}")]
    Refused(String),
    /// The bytes in the arena or in a map break the format.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The map's values are not of the type that the caller asked for.
    #[error("the values of {name:?} are of another type: {why}")]
    Value {
        /// The map.
        name: String,
        /// How the values differ.
        why: String,
    },
    /// The directory is not in a BPF file system, so it cannot hold pins.
    #[error("{} is not in a BPF file system; one is usually at /sys/fs/bpf (mount -t bpf bpf /sys/fs/bpf)", .0.display())]
    NoBpffs(PathBuf),
    /// The directory holds something other than this library's pins, or no arena.
    #[error("{} is not taken down: {why}", folder.display())]
    NotPins {
        /// The directory.
        folder: PathBuf,
        /// The reason.
        why: String,
    },
    /// Another process owns the arena, and alone writes its maps.
    #[error(
        "the arena is owned by the process {pid}, which lives (or may: see BpfArena::forget_owner); one process writes, others read"
    )]
    Owned {
        /// The owner's process number.
        pid: u32,
    },
    /// A writer changes the map faster than a reader outside its process can read it.
    #[error(
        "{0:?} is changed faster than it can be read from outside its owner's process; try again"
    )]
    Busy(String),
    /// This kernel offers no method of waiting for its readers.
    #[error("the kernel's readers cannot be waited for: {0}")]
    NoGrace(String),
    /// The map does not allow this setting or operation.
    #[error("{what}: {why}")]
    Setting {
        /// The setting or operation.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The error of a map.
    #[error(transparent)]
    Map(#[from] sapwood::Error),
    /// A system call failed.
    #[error("{doing}: {error}")]
    Io {
        /// The operation that failed.
        doing: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl Error {
    /// The error of a system call.
    pub fn io(doing: impl Into<String>, error: io::Error) -> Error {
        Error::Io {
            doing: doing.into(),
            error,
        }
    }

    /// The error of this thread's last system call.
    pub(crate) fn last(doing: impl Into<String>) -> Error {
        Error::io(doing, io::Error::last_os_error())
    }

    /// The error of a call of `libbpf`.
    pub fn system(doing: impl Into<String>, error: libbpf_rs::Error) -> Error {
        let kind = match error.kind() {
            libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
            libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            libbpf_rs::ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            libbpf_rs::ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            _ => io::ErrorKind::Other,
        };
        Error::io(doing, io::Error::new(kind, format!("{error:#}")))
    }

    /// The error of opening a pin.
    pub fn pinned(path: &Path, error: libbpf_rs::Error) -> Error {
        match crate::pinned::is_bpffs(path) {
            // Of a file elsewhere, the kernel only says that it is not permitted.
            Err(elsewhere @ Error::NoBpffs(_)) => elsewhere,
            _ => Error::system(format!("opening {}", path.display()), error),
        }
    }
}

sapwood::from_structures!(Error::Map);

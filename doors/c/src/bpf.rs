//! Arenas: memory that BPF programs and this process share, and the windows in it.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;

use sapwood_bpf::{BpfArena, Error, WindowInfo, check};

use crate::c_api::c_api;
use crate::domain::{SAPWOOD_CHECKED, known_flags};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules, free};
use crate::input::{path, place, text};
use crate::output::{as_int, hand_out, put};

/// The inside of the handle of an arena.
pub struct ArenaBody {
    /// The arena.
    pub arena: BpfArena,
}

impl Body for ArenaBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swBa");
    const NAME: &'static str = "arena";
}

/// A name of a window, a program or a section.
///
/// # Safety
/// As for [`text`].
pub unsafe fn name<'a>(at: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(at, what) }?;
    text.to_str()
        .map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// The window of this name, whatever it holds.
pub fn window(arena: &BpfArena, name: &str) -> Outcome<Option<WindowInfo>> {
    let all = arena.windows()?;
    Ok(all.into_iter().find(|info| info.name == name))
}

/// A failure if a window has the name already.
pub fn must_be_new(arena: &BpfArena, name: &str) -> Outcome<()> {
    match window(arena, name)? {
        None => Ok(()),
        Some(there) => Err(Failure::new(
            libc::EEXIST,
            format!(
                "the arena has a window {name:?} already ({})",
                there.kind.name()
            ),
        )),
    }
}

/// Makes the handle of an arena.
unsafe fn arena(
    flags: c_uint,
    out: *mut *mut sapwood_bpf_arena,
    make: impl FnOnce() -> Result<BpfArena, Error>,
) -> Outcome {
    let out = place(out, "out")?;
    known_flags(flags, SAPWOOD_CHECKED)?;
    let rules = Rules::of_this_process(flags & SAPWOOD_CHECKED != 0);
    let body = ArenaBody { arena: make()? };
    // SAFETY: C.
    unsafe { hand_out(out, body, rules) }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let code = match error {
            Error::Capabilities { .. } => libc::EACCES,
            Error::Kernel { .. } | Error::NoBtf(_) | Error::NoGrace(_) => libc::ENOSYS,
            Error::Address { .. } | Error::Owned { .. } => libc::EBUSY,
            Error::NotAnArena { .. } | Error::Version { .. } => libc::EPROTO,
            Error::Damaged(_) | Error::Value { .. } => libc::EPROTO,
            Error::NoRoom { .. } | Error::TooManyWindows(_) => libc::ENOSPC,
            Error::NoWindow { .. } | Error::Missing { .. } => libc::ENOENT,
            Error::NoMemory { .. } => libc::ENOMEM,
            Error::Refused(_) | Error::ArenaVariables { .. } => libc::ENOEXEC,
            Error::Sleepable(_) | Error::SleepableCalls { .. } => libc::ENOEXEC,
            Error::Busy(_) => libc::EAGAIN,
            Error::Setting {
                what: "order" | "reader" | "compare_exchange",
                ..
            } => libc::ENOTSUP,
            Error::Map(error) => return error.into(),
            Error::Io { error, .. } => match (error.raw_os_error(), error.kind()) {
                (Some(number), _) => number,
                (None, ErrorKind::NotFound) => libc::ENOENT,
                (None, ErrorKind::PermissionDenied) => libc::EACCES,
                (None, ErrorKind::AlreadyExists) => libc::EEXIST,
                (None, ErrorKind::OutOfMemory) => libc::ENOMEM,
                (None, _) => libc::EIO,
            },
            _ => libc::EINVAL,
        };
        Failure::new(code, message)
    }
}

c_api!(
    /// An arena is memory that BPF programs and processes share. It is divided into windows, of
    /// which each holds one map. Programs name a window by its number, processes by its name.
    /// Programs read and write the maps by the headers in sapwood/, for example sapwood/qp.bpf.h.
    /// docs/guides/ebpf.md has a whole program.
    ///
    /// Failures of the functions of this header:
    ///   -ENOSYS  the kernel has no arenas (Linux 6.9 and newer have), or no BTF
    ///   -EACCES  the process lacks capabilities; the message names them
    ///   -EBUSY   another process owns the arena, or the arena is mapped in this process already
    ///   -ENOENT  there is no such window, program, section or file
    ///   -EEXIST  there is a window, or a pin, of this name
    ///   -ENOSPC  the arena has no room, or 32 windows
    ///   -EPROTO  it is no arena of this library or of this version; or its windows, or a map in
    ///            it, are damaged; or the map has values of another kind
    ///   -ENOEXEC the kernel, or this library, refuses the program; the message has the end of the
    ///            verifier's log
    /// and those of the system. A child of fork may not use what this header makes: it does not
    /// have the memory.
    const SECTION: &str = "Arenas of BPF programs";

    pub type sapwood_bpf_arena = Handle<ArenaBody>;

    /// Whether this process can make arenas and load programs: 0, or the first thing that is
    /// missing (-ENOSYS, -EACCES). Any thread. A few system calls.
    fn sapwood_bpf_check() -> c_int {
        check()?;
        Ok(0)
    }

    /// Makes an arena with this many bytes of address space: whole pages, 8 KiB to 4 GiB. Maps take
    /// memory as they grow. Flags: SAPWOOD_CHECKED, also for what is made in it. The kernel keeps
    /// the arena while a process or a program has it, or it is pinned.
    fn sapwood_bpf_arena_create(
        bytes: usize,
        flags: c_uint,
        out: *mut *mut sapwood_bpf_arena,
    ) -> c_int {
        arena(flags, out, || BpfArena::create(bytes))
    }

    /// Opens an arena that is pinned at this path. A process opens it once (-EBUSY).
    fn sapwood_bpf_arena_open(
        pin: *const c_char,
        flags: c_uint,
        out: *mut *mut sapwood_bpf_arena,
    ) -> c_int {
        let pin = path(pin)?;
        arena(flags, out, || BpfArena::open(pin))
    }

    /// Frees the handle. What was made in the arena goes on, and keeps the arena in this process.
    /// One thread at a time.
    fn sapwood_bpf_arena_free(arena: *mut sapwood_bpf_arena) {
        free(arena)
    }

    /// Pins the arena at a path of a BPF file system, for other processes. It then stays until the
    /// path is removed. Any thread.
    fn sapwood_bpf_arena_pin(arena: *const sapwood_bpf_arena, pin: *const c_char) -> c_int {
        Handle::shared(arena)?.arena.pin(path(pin)?)?;
        Ok(0)
    }

    /// Returns the descriptor of the kernel's map, which stays the library's. A skeleton of libbpf
    /// gets it before it is loaded: bpf_map__reuse_fd(skeleton->maps.sw_arena, fd). Any thread.
    fn sapwood_bpf_arena_fd(arena: *const sapwood_bpf_arena) -> c_int {
        Ok(Handle::shared(arena)?.arena.fd().as_raw_fd())
    }

    /// Stores the bytes of address space of the largest map that the arena has room for.
    fn sapwood_bpf_arena_left(arena: *const sapwood_bpf_arena, bytes: *mut usize) -> c_int {
        put(bytes, "bytes", Handle::shared(arena)?.arena.bytes_left())
    }

    /// Returns the process that owns the arena: it makes windows and writes maps, until it frees
    /// its last handle or ends. -ENOENT: nobody does. The first process that makes a map becomes
    /// the owner; others get -EBUSY meanwhile. Any thread.
    fn sapwood_bpf_arena_owner(arena: *const sapwood_bpf_arena) -> c_int {
        let owner = Handle::shared(arena)?.arena.owner()?;
        Ok(owner.map_or(-libc::ENOENT, |pid| pid as c_int))
    }

    /// Forgets an owner that is known to be dead and ran in another PID namespace, where this
    /// process cannot see its death. Two living owners damage each other's maps.
    fn sapwood_bpf_arena_forget_owner(arena: *const sapwood_bpf_arena) -> c_int {
        Handle::shared(arena)?.arena.forget_owner();
        Ok(0)
    }

    /// Allows programs that may sleep to read the arena, for all owners and for ever. Memory is
    /// then used again a quarter of a second later. Any thread.
    fn sapwood_bpf_arena_allow_sleepable(arena: *const sapwood_bpf_arena) -> c_int {
        Handle::shared(arena)?.arena.allow_sleepable()?;
        Ok(0)
    }

    /// Gives the memory of closed windows back to the system. A new window that needs it does so by
    /// itself. It waits up to 20 ms for programs that run. Any thread.
    fn sapwood_bpf_arena_reclaim(arena: *const sapwood_bpf_arena) -> c_int {
        Handle::shared(arena)?.arena.reclaim()?;
        Ok(0)
    }

    /// Returns the number of a window, by which programs name it. -ENOENT: there is none of this
    /// name. Any thread.
    fn sapwood_bpf_arena_number(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
    ) -> c_int {
        let arena = &Handle::shared(arena)?.arena;
        let found = window(arena, name(window_name, "the name")?)?;
        Ok(found.map_or(-libc::ENOENT, |info| info.number as c_int))
    }

    /// Removes a window that a dead owner left, with the map in it. Programs no longer find it.
    /// -EINVAL: the window is this process's own. Any thread.
    fn sapwood_bpf_arena_remove(
        arena: *const sapwood_bpf_arena,
        window_name: *const c_char,
    ) -> c_int {
        let arena = &Handle::shared(arena)?.arena;
        arena.remove_window(name(window_name, "the name")?)?;
        Ok(0)
    }

    #[derive(Debug)]
    pub struct sapwood_bpf_window_info {
        pub size: usize,
        /// valid until the callback returns, like kind
        pub name: *const c_char,
        /// what it holds: "qp" (a map that a process writes), "kernel-qp" (one that programs
        /// write), "words", "ranges", ...
        pub kind: *const c_char,
        /// by which programs name it
        pub number: u32,
        /// 0
        pub reserved: u32,
        /// its place, in bytes from the arena's beginning
        pub at: u64,
        /// its bytes of address space
        pub len: u64,
    }

    pub type sapwood_bpf_window_fn =
        Option<unsafe extern "C" fn(info: *const sapwood_bpf_window_info, ctx: *mut c_void)>;

    /// Calls each(info, ctx) for each window in order of their numbers, and returns how many there
    /// are. each may be NULL. Any thread.
    fn sapwood_bpf_arena_windows(
        arena: *const sapwood_bpf_arena,
        each: sapwood_bpf_window_fn,
        ctx: *mut c_void,
    ) -> c_int {
        let windows = Handle::shared(arena)?.arena.windows()?;
        let count = as_int(windows.len());
        let Some(each) = each else { return Ok(count) };
        for window in windows {
            let name = CString::new(window.name).unwrap_or_default();
            let kind = CString::new(window.kind.name()).unwrap_or_default();
            let info = sapwood_bpf_window_info {
                size: size_of::<sapwood_bpf_window_info>(),
                name: name.as_ptr(),
                kind: kind.as_ptr(),
                number: window.number,
                reserved: 0,
                at: window.at as u64,
                len: window.len as u64,
            };
            // C gave both for this.
            each(&raw const info, ctx);
        }
        Ok(count)
    }
);

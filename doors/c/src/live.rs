//! The folders of live maps, for their writers: options, readers in other processes, the end.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use ::sapwood_live::{Error, Live, LiveBuilder, LiveMap, LiveReaderInfo, ReadBy};
use sapwood::qsbr::Domain;

use crate::call::{call, call_void};
use crate::domain::{self, DomainBody, sapwood_domain, sapwood_domain_options};
use crate::error::{Failure, Outcome};
use crate::handle::{Body, Handle, Rules, free};
use crate::input::{self, Extensible, extensible, place};

/// A live map of any structure, beside the structure's own handle.
trait AnyLive: Send + Sync {
    fn readers(&self) -> Vec<LiveReaderInfo>;
    fn generation(&self) -> u64;
    fn remove(self: Box<Self>) -> Result<(), Error>;
}

impl<M: LiveMap + Send + Sync> AnyLive for Live<M> {
    fn readers(&self) -> Vec<LiveReaderInfo> {
        Live::readers(self)
    }

    fn generation(&self) -> u64 {
        Live::generation(self)
    }

    fn remove(self: Box<Self>) -> Result<(), Error> {
        (*self).remove_map()
    }
}

/// The inside of the handle of a live map's folder.
pub struct LiveBody {
    live: Box<dyn AnyLive>,
    domain: Domain,
    checked: bool,
}

impl Body for LiveBody {
    const MAGIC: u32 = u32::from_be_bytes(*b"swLi");
    const NAME: &'static str = "live map";

    fn leave(self) {
        // `Live` knows of forks, and lets go of the writer's lock. The domain's clone is not the
        // last: the map has one, which is not dropped here.
        drop(self);
    }
}

/// C's `sapwood_live`.
pub type sapwood_live = Handle<LiveBody>;

/// The choices for a live map, beside those of its structure.
#[repr(C)]
#[derive(Debug)]
pub struct sapwood_live_options {
    /// `sizeof` this structure.
    pub size: usize,
    /// The choices for the domain that is made for it; NULL: the defaults.
    pub domain: *const sapwood_domain_options,
    /// Milliseconds after which a checked reader is evicted; 0: never.
    pub evict_after_ms: u64,
    /// C's `enum sapwood_live_read_by`.
    pub read_by: u32,
    /// The number of the group that may read.
    pub group: u32,
}

impl Default for sapwood_live_options {
    fn default() -> Self {
        sapwood_live_options {
            size: size_of::<Self>(),
            domain: std::ptr::null(),
            evict_after_ms: 0,
            read_by: 0,
            group: 0,
        }
    }
}

// SAFETY: integers and a pointer; the size is first.
unsafe impl Extensible for sapwood_live_options {
    const NAME: &'static str = "sapwood_live_options";
}

/// What a writer's functions have in common: the folder, the choices, and what is to be done.
pub struct Plan<'a> {
    folder: &'a Path,
    options: sapwood_live_options,
    domain: sapwood_domain_options,
    take_over: bool,
    /// Whether the handles are checked.
    pub checked: bool,
}

impl<'a> Plan<'a> {
    /// The plan of C. `take_over`: the map of a writer that has ended. `checked`: the flag of the
    /// structure's own options.
    ///
    /// # Safety
    /// C.
    pub unsafe fn new(
        folder: *const c_char,
        options: *const sapwood_live_options,
        take_over: bool,
        checked: bool,
    ) -> Outcome<Plan<'a>> {
        // SAFETY: C.
        unsafe {
            let folder = input::path(folder)?;
            let options: sapwood_live_options = extensible(options)?;
            let domain: sapwood_domain_options = extensible(options.domain)?;
            Ok(Plan {
                folder,
                checked: checked || domain.flags & domain::CHECKED != 0,
                options,
                domain,
                take_over,
            })
        }
    }

    /// Makes the map, or takes it over, with at most this many bytes for each part; 0: as many as
    /// there may be.
    pub fn make<M>(
        &self,
        bytes: usize,
        choose: impl FnOnce(M::Builder) -> M::Builder,
    ) -> Outcome<Live<M>>
    where
        M: LiveMap,
    {
        let mut builder: LiveBuilder<M> = Live::builder();
        builder = builder.domain(self.domain.builder()?).map(choose);
        if bytes != 0 {
            builder = builder.bytes(bytes);
        }
        builder = match self.options.read_by {
            0 => builder,
            1 => builder.read_by(ReadBy::Owner),
            2 => builder.read_by(ReadBy::Group(self.options.group)),
            3 => builder.read_by(ReadBy::Everybody),
            other => {
                let text = format!("{other} is no reader: see enum sapwood_live_read_by");
                return Err(Failure::invalid(text));
            }
        };
        if self.options.evict_after_ms != 0 {
            builder = builder.evict_after(Duration::from_millis(self.options.evict_after_ms));
        }
        Ok(match self.take_over {
            false => builder.create(self.folder)?,
            true => builder.open(self.folder)?,
        })
    }

    /// The rules for the handles of the map.
    pub fn rules(&self) -> Rules {
        Rules::of_this_process(self.checked)
    }

    /// The handle of a map that was made.
    pub fn handle<M: LiveMap + Send + Sync>(
        &self,
        live: Live<M>,
        domain: &Domain,
    ) -> *mut sapwood_live {
        let body = LiveBody {
            live: Box::new(live),
            domain: domain.clone(),
            checked: self.checked,
        };
        Handle::into_c(body, self.rules())
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let code = match error {
            Error::Io { error, .. } | Error::Unregistered { error, .. } => {
                match (error.raw_os_error(), error.kind()) {
                    (Some(number), _) => number,
                    (None, ErrorKind::OutOfMemory) => libc::ENOMEM,
                    (None, ErrorKind::InvalidData) => libc::EPROTO,
                    (None, _) => libc::EIO,
                }
            }
            Error::Exists { .. } => libc::EEXIST,
            Error::Owned { .. } => libc::EBUSY,
            Error::NotYet { .. } | Error::Removed { .. } | Error::NoMap { .. } => libc::ENOENT,
            Error::NoSpace { .. } => libc::ENOSPC,
            Error::Kind { .. } | Error::Layout { .. } | Error::Damaged { .. } => libc::EPROTO,
            Error::Foreign { .. } => libc::EACCES,
            Error::Busy { .. } => libc::EAGAIN,
            Error::Evicted { .. } => libc::ESTALE,
            Error::Forked { .. } => libc::EPERM,
            Error::Map(error) => return error.into(),
            _ => libc::EIO,
        };
        Failure::new(code, message)
    }
}

/// Frees the handle of a live map's folder.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_free(live: *mut sapwood_live) {
    // SAFETY: C.
    call_void("sapwood_live_free", || unsafe { free(live) });
}

/// A handle of the domain of a live map.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_domain(
    live: *const sapwood_live,
    out: *mut *mut sapwood_domain,
) -> c_int {
    call("sapwood_live_domain", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(live) }?;
        let out = place(out, "out")?;
        let domain = DomainBody {
            domain: body.domain.clone(),
            checked: body.checked,
        };
        // SAFETY: C.
        unsafe { *out = Handle::into_c(domain, Handle::rules(live)) };
        Ok(0)
    })
}

/// How many times processes have taken the map over.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_generation(
    live: *const sapwood_live,
    generation: *mut u64,
) -> c_int {
    call("sapwood_live_generation", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(live) }?;
        let generation = place(generation, "generation")?;
        // SAFETY: C.
        unsafe { *generation = body.live.generation() };
        Ok(0)
    })
}

/// A reader of a live map in some process.
#[repr(C)]
#[derive(Debug)]
pub struct sapwood_live_reader_info {
    /// `sizeof` this structure.
    pub size: usize,
    /// The name of its file; valid until the callback returns.
    pub name: *const c_char,
    /// The newest grace period that it has announced; 0 while it is offline.
    pub seen: u64,
    /// Its process, as it says.
    pub pid: u32,
    /// `SAPWOOD_LIVE_HOLDS_BACK`, `SAPWOOD_LIVE_CHECKED`, `SAPWOOD_LIVE_EVICTED`.
    pub flags: c_uint,
}

/// C's function that is told of a reader.
pub type sapwood_live_reader_fn =
    Option<unsafe extern "C" fn(info: *const sapwood_live_reader_info, ctx: *mut c_void)>;

/// The flag of a reader that has not announced the newest period.
const HOLDS_BACK: c_uint = 1;
/// The flag of a reader that the writer does not wait for any more.
const EVICTED: c_uint = 2;
/// The flag of a reader that checks what it reads, which is also one of `sapwood_live_reader_open`.
pub const LIVE_CHECKED: c_uint = 32;
/// The flag of `sapwood_live_reader_open` for a reader that the writer does not know of.
pub const LIVE_UNREGISTERED: c_uint = 64;

/// Calls a function with each reader in all processes.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_readers(
    live: *const sapwood_live,
    each: sapwood_live_reader_fn,
    ctx: *mut c_void,
) -> c_int {
    call("sapwood_live_readers", || {
        // SAFETY: C.
        let body = unsafe { Handle::shared(live) }?;
        let readers = body.live.readers();
        let count = c_int::try_from(readers.len()).unwrap_or(c_int::MAX);
        let Some(each) = each else { return Ok(count) };
        for reader in readers {
            let flag = |set: bool, flag: c_uint| if set { flag } else { 0 };
            let name = CString::new(reader.name.replace('\0', "?")).unwrap_or_default();
            let info = sapwood_live_reader_info {
                size: size_of::<sapwood_live_reader_info>(),
                name: name.as_ptr(),
                seen: reader.seen,
                pid: reader.pid,
                flags: flag(reader.holds_back, HOLDS_BACK)
                    | flag(reader.evicted, EVICTED)
                    | flag(reader.checked, LIVE_CHECKED),
            };
            // SAFETY: C gave both for this.
            unsafe { each(&raw const info, ctx) };
        }
        Ok(count)
    })
}

/// Deletes a live map's folder, and frees the handle.
///
/// # Safety
/// As `sapwood.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sapwood_live_remove(live: *mut sapwood_live) -> c_int {
    call("sapwood_live_remove", || {
        // SAFETY: C.
        let body = match unsafe { Handle::take(live) } {
            Ok(body) => body,
            Err(failure) => {
                // The copy of a child of `fork` is freed; the map stays the parent's.
                // SAFETY: C.
                unsafe { Handle::leave(live) };
                return Err(failure);
            }
        };
        body.live.remove()?;
        Ok(0)
    })
}

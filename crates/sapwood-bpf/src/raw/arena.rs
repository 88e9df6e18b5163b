//! A BPF arena as this process sees it: a map of the kernel, mapped whole at its fixed address.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use libbpf_rs::MapHandle;
#[cfg(not(fuzzing))]
use libbpf_rs::MapType;
use libbpf_rs::libbpf_sys as sys;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::Error;
use crate::layout::{BYTES_MAX, MAP_EXTRA, page};

/// Pages as the kernel's arenas count them.
pub(crate) const PAGE: usize = 4096;

/// Bytes that are given back at once: the kernel lets nobody else have the processor meanwhile.
const PIECE: usize = 64 * PAGE;

/// A map of the kernel for an arena of `len` bytes at this address.
#[cfg(not(fuzzing))]
fn new_map(len: usize, at: u64) -> Result<OwnedFd, Error> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        map_flags: sys::BPF_F_MMAPABLE,
        map_extra: at,
        ..Default::default()
    };
    let pages = (len / PAGE) as u32;
    let map = MapHandle::create(MapType::Arena, Some("sw_arena"), 0, 0, pages, &options);
    let map = map.map_err(|error| Error::system("making an arena", error))?;
    let map = map.as_fd().try_clone_to_owned();
    map.map_err(|error| Error::io("copying a descriptor", error))
}

/// Plain memory in its place: fuzzers have no kernel.
#[cfg(fuzzing)]
fn new_map(len: usize, _: u64) -> Result<OwnedFd, Error> {
    let made = || {
        let map = rustix::fs::memfd_create("sw_arena", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&map, len as u64)?;
        Ok(map)
    };
    made().map_err(|error: rustix::io::Errno| Error::io("making an arena", error.into()))
}

/// The map and its mapping.
pub(crate) struct Memory {
    map: OwnedFd,
    base: NonNull<u8>,
    len: usize,
    /// What this process has cut.
    pub(crate) held: Mutex<Vec<Held>>,
    /// What this process wrote as the owner's name; 0: it is not the owner.
    pub(crate) claimed: AtomicU64,
    /// The program that gives pages back, once it was asked for.
    pub(crate) freer: OnceLock<OwnedFd>,
}

/// A window that this process has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) number: u32,
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Somebody uses its memory as a region.
    pub(crate) region: bool,
    /// It is, or will be, in the list of windows.
    pub(crate) listed: bool,
}

// SAFETY: a mapping belongs to the process; what lies in it is only reached through atomics, or by
// the owner of a window.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        let claimed = self.claimed.load(Ordering::Relaxed);
        if claimed != 0 {
            let owner = self.u64(page::OWNER_AT);
            let _ = owner.compare_exchange(claimed, 0, Ordering::Release, Ordering::Relaxed);
        }
        // SAFETY: the mapping is ours, and whoever used it held this.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Memory {
    /// A new arena of `len` bytes, whole pages, mapped at a free place.
    pub(crate) fn create(len: usize) -> Result<Memory, Error> {
        if !(2 * PAGE..=BYTES_MAX).contains(&len) || len % PAGE != 0 {
            return Err(Error::Size { bytes: len });
        }
        // Where other arenas of this process lie, and where nothing does.
        for slot in 0..1024u64 {
            let at = MAP_EXTRA + (slot << 32);
            let map = new_map(len, at)?;
            match Memory::map(map, len, at) {
                Err(Error::Address { .. }) => continue,
                other => return other,
            }
        }
        Err(Error::Address { at: MAP_EXTRA })
    }

    /// An arena that is pinned at a path.
    pub(crate) fn open_pinned(path: &Path) -> Result<Memory, Error> {
        let map = MapHandle::from_pinned_path(path).map_err(|error| Error::pinned(path, error))?;
        Memory::adopt(map)
    }

    /// An arena whose map this process holds already.
    pub(crate) fn adopt(map: MapHandle) -> Result<Memory, Error> {
        let mut info = sys::bpf_map_info::default();
        let mut size = size_of::<sys::bpf_map_info>() as u32;
        // SAFETY: `info` has `size` bytes for the kernel to fill.
        let code = unsafe {
            sys::bpf_obj_get_info_by_fd(
                map.as_fd().as_raw_fd(),
                (&raw mut info).cast(),
                &raw mut size,
            )
        };
        if code != 0 {
            return Err(Error::last("asking for the arena's size"));
        }
        if info.type_ != sys::BPF_MAP_TYPE_ARENA {
            return Err(Error::NotAnArena {
                what: format!("a map of type {}", info.type_),
            });
        }
        let len = info.max_entries as usize * PAGE;
        let map = map.as_fd().try_clone_to_owned();
        let map = map.map_err(|error| Error::io("copying a descriptor", error))?;
        Memory::map(map, len, info.map_extra)
    }

    fn map(map: OwnedFd, len: usize, at: u64) -> Result<Memory, Error> {
        // The kernel wants whole arenas at their own address. Without MAP_FIXED nothing is unmapped
        // to make room. SAFETY: a shared mapping at a place where the kernel puts nothing on top of
        // what is there.
        let mapped = unsafe {
            rustix::mm::mmap(
                at as *mut core::ffi::c_void,
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED_NOREPLACE,
                &map,
                0,
            )
        };
        match mapped {
            Ok(p) if p.addr() as u64 == at => {
                let base = NonNull::new(p.cast::<u8>()).ok_or(Error::Address { at })?;
                Ok(Memory {
                    map,
                    base,
                    len,
                    held: Mutex::default(),
                    claimed: AtomicU64::new(0),
                    freer: OnceLock::new(),
                })
            }
            Ok(p) => {
                // SAFETY: just mapped, by us.
                let _ = unsafe { rustix::mm::munmap(p, len) };
                Err(Error::Address { at })
            }
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::BUSY) => Err(Error::Address { at }),
            Err(error) => Err(Error::io("mapping the arena", error.into())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    pub(crate) fn handle(&self) -> Result<OwnedFd, Error> {
        self.fd()
            .try_clone_to_owned()
            .map_err(|error| Error::io("copying a descriptor", error))
    }

    /// Makes sure that these bytes have memory behind them, so that no store to them can fail.
    pub(crate) fn populate(&self, from: usize, to: usize) -> bool {
        let from = from / PAGE * PAGE;
        let to = to.next_multiple_of(PAGE).min(self.len);
        if from >= to {
            return true;
        }
        // SAFETY: inside the mapping; populating changes no contents.
        unsafe {
            let p = self.base.as_ptr().add(from).cast();
            rustix::mm::madvise(p, to - from, Advice::LinuxPopulateWrite).is_ok()
        }
    }

    /// Gives these bytes back to the kernel, whole pages, which are zeros from then on; whether it
    /// did. No program may be about to use what is there. Those who read it all the same find
    /// zeros.
    pub(crate) fn free_pages(&self, from: usize, to: usize) -> bool {
        let (from, to) = (from.next_multiple_of(PAGE), to.min(self.len) / PAGE * PAGE);
        let Some(program) = self.freer.get().filter(|_| from < to) else {
            return false;
        };
        (from..to).step_by(PIECE).all(|at| {
            let mut pages = [at as u64, (PIECE.min(to - at) / PAGE) as u64];
            let mut options = sys::bpf_test_run_opts {
                sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
                ctx_in: pages.as_mut_ptr().cast(),
                ctx_size_in: size_of_val(&pages) as u32,
                ..Default::default()
            };
            // SAFETY: the context has the size that is given.
            let done =
                unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
            done == 0 && options.retval == 0
        })
    }

    /// A word of the arena. Words are only used as atomics by those who do not own the window that
    /// they are in.
    ///
    /// # Panics
    /// When it is not inside, or not aligned.
    pub(crate) fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at < self.len, "a word of the arena");
        // SAFETY: inside, aligned, and alive as long as the mapping.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// As [`u64`](Self::u64).
    ///
    /// # Panics
    /// As there.
    pub(crate) fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at % 4 == 0 && at < self.len, "a word of the arena");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// A field of a window's entry in the list.
    pub(crate) fn entry(&self, number: u32, field: usize) -> &AtomicU64 {
        self.u64(page::WINDOWS_AT + number as usize * page::WINDOW_BYTES + field)
    }

    /// What a window of this number holds: a [`Kind`](crate::layout::Kind).
    pub(crate) fn entry_kind(&self, number: u32) -> &AtomicU32 {
        self.u32(page::WINDOWS_AT + number as usize * page::WINDOW_BYTES + page::WINDOW_KIND)
    }

    /// Writes the header page of a new arena.
    pub(crate) fn write_page(&self) -> Result<(), Error> {
        if !self.populate(0, PAGE) {
            return Err(Error::NoMemory { bytes: PAGE });
        }
        self.u32(page::VERSION_AT)
            .store(page::VERSION, Ordering::Relaxed);
        self.u64(page::BYTES_AT)
            .store(self.len as u64, Ordering::Relaxed);
        self.u64(page::USED_AT)
            .store(PAGE as u64, Ordering::Relaxed);
        self.u64(page::GENERATION_AT).store(0, Ordering::Relaxed);
        self.u64(0).store(page::MAGIC, Ordering::Release);
        Ok(())
    }

    /// Whether this is an arena of ours, of this version.
    pub(crate) fn check_page(&self) -> Result<(), Error> {
        let magic = self.u64(0).load(Ordering::Acquire);
        if magic != page::MAGIC {
            return Err(Error::NotAnArena {
                what: format!("an arena that begins with {magic:#018x}"),
            });
        }
        let version = self.u32(page::VERSION_AT).load(Ordering::Relaxed);
        if version != page::VERSION {
            return Err(Error::Version {
                found: version,
                expected: page::VERSION,
            });
        }
        let stated = self.u64(page::BYTES_AT).load(Ordering::Relaxed);
        if stated != self.len as u64 {
            return Err(Error::NotAnArena {
                what: format!("an arena of {} bytes that says it has {stated}", self.len),
            });
        }
        Ok(())
    }
}

/// Pins a map, program or link at a path of a BPF file system.
pub(crate) fn pin(fd: std::os::fd::RawFd, path: &std::ffi::CStr) -> std::io::Result<()> {
    // SAFETY: a descriptor and a string that ends in 0.
    match unsafe { sys::bpf_obj_pin(fd, path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Runs a program on a packet, and gives what it returns; `out` gets the packet as it leaves.
pub(crate) fn run(fd: BorrowedFd<'_>, packet: &[u8], out: &mut [u8]) -> std::io::Result<u32> {
    let mut options = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        ..Default::default()
    };
    // SAFETY: both buffers have the sizes that are given.
    match unsafe { sys::bpf_prog_test_run_opts(fd.as_raw_fd(), &raw mut options) } {
        0 => Ok(options.retval),
        _ => Err(std::io::Error::last_os_error()),
    }
}

//! A BPF arena in this process: a map of the kernel, all of which is mapped at a fixed address.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use libbpf_rs::MapHandle;
#[cfg(not(fuzzing))]
use libbpf_rs::MapType;
use libbpf_rs::libbpf_sys as sys;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::Error;
use crate::layout::{BYTES_MAX, MAP_EXTRA, page};

/// Bytes of a page of the kernel's arenas.
pub(crate) const PAGE: usize = 4096;

/// The addresses that arenas may have, 4 GiB apart.
const SLOTS: u64 = 8192;

/// Bytes that one call frees. The kernel runs nothing else on the processor meanwhile.
const PIECE: usize = 64 * PAGE;

/// Makes a map of the kernel for an arena of `len` bytes at this address.
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

/// Makes plain memory instead, because fuzzers have no kernel.
#[cfg(fuzzing)]
fn new_map(len: usize, _: u64) -> Result<OwnedFd, Error> {
    let made = || {
        let map = rustix::fs::memfd_create("sw_arena", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&map, len as u64)?;
        Ok(map)
    };
    made().map_err(|error: rustix::io::Errno| Error::io("making an arena", error.into()))
}

/// What the kernel says of a map.
fn info(map: BorrowedFd<'_>) -> Result<sys::bpf_map_info, Error> {
    let mut info = sys::bpf_map_info::default();
    let mut size = size_of::<sys::bpf_map_info>() as u32;
    // SAFETY: `info` has `size` bytes for the kernel to fill.
    let code = unsafe {
        sys::bpf_obj_get_info_by_fd(map.as_raw_fd(), (&raw mut info).cast(), &raw mut size)
    };
    match code {
        0 => Ok(info),
        _ => Err(Error::last("asking for the size of a map")),
    }
}

/// The map and its mapping.
pub(crate) struct Memory {
    map: OwnedFd,
    base: NonNull<u8>,
    len: usize,
    /// The windows that this process holds.
    pub(crate) held: Mutex<Vec<Held>>,
    /// The owner's word that this process wrote; 0 when it is not the owner.
    pub(crate) claimed: AtomicU64,
    /// The program that frees pages, once it was loaded.
    pub(crate) freer: OnceLock<OwnedFd>,
    /// Whether this process knows that sleepable programs may use the arena.
    sleepable: Arc<AtomicBool>,
}

/// An arena that this process has mapped.
struct Mapped {
    base: NonNull<u8>,
    /// Whether this process knows that sleepable programs may use the arena.
    sleepable: Arc<AtomicBool>,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Whether sleepable programs may use the arena. Once this was true, it stays true in this
    /// process, whatever is written to the arena.
    fn allows_sleepable(&self) -> bool {
        // SAFETY: the word is in the header page, which is mapped while `self` is in the list; it
        // is aligned, and all accesses to it are atomic.
        let word = unsafe {
            &*self
                .base
                .as_ptr()
                .add(page::SLEEPABLE_AT)
                .cast::<AtomicU64>()
        };
        let allowed = self.sleepable.load(Ordering::Relaxed) || word.load(Ordering::Acquire) != 0;
        if allowed {
            self.sleepable.store(true, Ordering::Relaxed);
        }
        allowed
    }
}

/// The arenas that this process has mapped.
static MAPPED: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());

fn mapped_arenas() -> MutexGuard<'static, Vec<Mapped>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether sleepable programs may use any arena that this process has mapped.
///
/// What the caller did before happens before the reads of programs that begin after a `false`.
pub(crate) fn any_allows_sleepable() -> bool {
    // With the fence of `allow_sleepable`: either this sees the word, or the programs that are
    // loaded afterwards see the caller's stores.
    fence(Ordering::SeqCst);
    // Not `any`, which would stop at the first one: each arena's answer is remembered.
    mapped_arenas()
        .iter()
        .fold(false, |any, one| one.allows_sleepable() | any)
}

/// A window that this process holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) number: u32,
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Whether a map uses its memory as a region.
    pub(crate) region: bool,
    /// Whether the window is, or will be, in the list of windows.
    pub(crate) listed: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread. Its memory is accessed only through
// atomics, or by the owner of a window.
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
        mapped_arenas().retain(|one| one.base != self.base);
        // SAFETY: this value made the mapping, and every user of the mapping held this value. The
        // list of mapped arenas has it no more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Memory {
    /// Makes an arena of `len` bytes, whole pages, and maps it at a free address.
    pub(crate) fn create(len: usize) -> Result<Memory, Error> {
        if !(2 * PAGE..=BYTES_MAX).contains(&len) || len % PAGE != 0 {
            return Err(Error::Size { bytes: len });
        }
        // A process can open arenas of different makers only if they lie at different addresses.
        let first = RandomState::new().build_hasher().finish();
        // Some of these addresses have other arenas of this process.
        for slot in 0..1024u64 {
            let at = MAP_EXTRA + ((first.wrapping_add(slot) % SLOTS) << 32);
            let map = new_map(len, at)?;
            match Memory::map(map, len, at) {
                Err(Error::Address { .. }) => continue,
                other => return other,
            }
        }
        Err(Error::Address { at: MAP_EXTRA })
    }

    /// Opens an arena that is pinned at a path.
    pub(crate) fn open_pinned(path: &Path) -> Result<Memory, Error> {
        let map = MapHandle::from_pinned_path(path).map_err(|error| Error::pinned(path, error))?;
        Memory::adopt(map)
    }

    /// Whether the map that is pinned at a path is this one.
    pub(crate) fn is_pinned_at(&self, path: &Path) -> Result<bool, Error> {
        let there =
            MapHandle::from_pinned_path(path).map_err(|error| Error::pinned(path, error))?;
        Ok(info(there.as_fd())?.id == info(self.fd())?.id)
    }

    /// Maps an arena whose map this process holds already.
    pub(crate) fn adopt(map: MapHandle) -> Result<Memory, Error> {
        let info = info(map.as_fd())?;
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
        // The kernel maps only whole arenas at their own address. Without MAP_FIXED it unmaps
        // nothing to make room. SAFETY: a shared mapping, which the kernel does not place over an
        // existing mapping.
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
                let sleepable = Arc::<AtomicBool>::default();
                mapped_arenas().push(Mapped {
                    base,
                    sleepable: Arc::clone(&sleepable),
                });
                Ok(Memory {
                    map,
                    base,
                    len,
                    held: Mutex::default(),
                    claimed: AtomicU64::new(0),
                    freer: OnceLock::new(),
                    sleepable,
                })
            }
            Ok(p) => {
                // SAFETY: the call above made this mapping.
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

    /// Takes memory for these bytes, so that no store to them can fail. Returns whether there was
    /// enough.
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

    /// Frees these bytes, whole pages, and returns whether the kernel did so. The pages read as
    /// zeros afterwards. No program may use the old contents any more.
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

    /// A word of the arena. Only the owner of a window may access its words without atomics.
    ///
    /// # Panics
    /// When the word is outside the arena, or not aligned.
    pub(crate) fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at < self.len, "a word of the arena");
        // SAFETY: inside, aligned, and alive as long as the mapping.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// A word of 4 bytes of the arena, as [`u64`](Self::u64).
    ///
    /// # Panics
    /// As [`u64`](Self::u64).
    pub(crate) fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at % 4 == 0 && at < self.len, "a word of the arena");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// A field of a window's entry in the list.
    pub(crate) fn entry(&self, number: u32, field: usize) -> &AtomicU64 {
        self.u64(page::WINDOWS_AT + number as usize * page::WINDOW_BYTES + field)
    }

    /// The kind of the window with this number: a [`Kind`](crate::layout::Kind).
    pub(crate) fn entry_kind(&self, number: u32) -> &AtomicU32 {
        self.u32(page::WINDOWS_AT + number as usize * page::WINDOW_BYTES + page::WINDOW_KIND)
    }

    /// Allows sleepable programs to use the arena.
    pub(crate) fn allow_sleepable(&self) {
        self.sleepable.store(true, Ordering::Relaxed);
        self.u64(page::SLEEPABLE_AT).store(1, Ordering::Release);
        // Before any such program is loaded: see `any_allows_sleepable`.
        fence(Ordering::SeqCst);
    }

    /// Whether sleepable programs may use the arena.
    pub(crate) fn allows_sleepable(&self) -> bool {
        mapped_arenas()
            .iter()
            .find(|one| one.base == self.base)
            .is_some_and(Mapped::allows_sleepable)
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

    /// Checks that this is an arena of this library and this version.
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

/// Runs a program on a packet, and returns the program's result. `out` receives the packet that
/// leaves the program.
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

//! Mappings of files.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of a file, shared with other processes. It needs no descriptor.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, and its memory is accessed by atomics, or as the
// protocol of live maps says.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file, more than it has if it may grow.
    pub(crate) fn new(file: &File, len: usize, write: bool) -> io::Result<Mapping> {
        let access = match write {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        // SAFETY: a fresh mapping at an address of the system's choice disturbs nothing.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// Maps at least `least` bytes of a file, and more where the addresses are to be had, since the
    /// file may grow: eight times as much, or 64 MiB.
    pub(crate) fn roomy(file: &File, least: usize) -> io::Result<Mapping> {
        let least = least.max(Page::BYTES).next_multiple_of(Page::BYTES);
        let mut len = least.saturating_mul(8).clamp(ROOM, MOST.max(least));
        loop {
            match Mapping::new(file, len, false) {
                Err(_) if len > least => len = (len / 4).max(least),
                done => return done,
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Puts zeros in the place of the file. The mapping holds the open file, and with it a lock: a
    /// child of `fork` lets go of its parent's by this, and the parent keeps it.
    pub(crate) fn let_go(&self) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: it takes the place of what this value mapped, whose words are still there for
        // those who refer to them. A failure leaves the mapping.
        let _ = unsafe {
            rustix::mm::mmap_anonymous(self.base.as_ptr().cast(), self.len, access, flags)
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and whoever used it borrowed this value.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The bytes of addresses that a reader takes for a part at least, if they are to be had.
pub(crate) const ROOM: usize = 64 << 20;
/// The most bytes of a part: all that references can reach.
pub(crate) const MOST: usize = 8 << 30;

/// Checks that a file has a page.
pub(crate) fn is_page(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() < Page::BYTES as u64 {
        let why = "it is no file of a live map";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(())
}

/// A page of words, which is mapped.
#[derive(Debug)]
pub(crate) struct Page(Mapping);

impl Page {
    pub(crate) const BYTES: usize = 4096;

    /// Maps a file of at least one page.
    pub(crate) fn map(file: &File, write: bool) -> io::Result<Page> {
        is_page(file)?;
        Mapping::new(file, Page::BYTES, write).map(Page)
    }

    /// See [`Mapping::let_go`].
    pub(crate) fn let_go(&self) {
        self.0.let_go();
    }

    /// The word of this number.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < Page::BYTES / 8);
        // SAFETY: inside the page, which is mapped as long as `self` lives; aligned; and every
        // process accesses it by atomics only.
        unsafe { AtomicU64::from_ptr(self.0.base().as_ptr().cast::<u64>().add(at)) }
    }
}

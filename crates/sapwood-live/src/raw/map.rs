//! Mappings of files.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of a file, shared with other processes.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Its lock lasts as long as the mapping, unless it was closed before.
    file: Mutex<Option<File>>,
}

// SAFETY: a mapping belongs to the process, and its memory is accessed by atomics, or as the
// protocol of live maps says.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file, more than it has if it may grow.
    pub(crate) fn new(file: File, len: usize, write: bool) -> io::Result<Mapping> {
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
                &file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping {
            base,
            len,
            file: Mutex::new(Some(file)),
        })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Closes the file, in whose place there are zeros from now on. A child of `fork` lets go of a
    /// lock of its parent by this; the parent keeps it.
    pub(crate) fn close(&self) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // The mapping, too, holds the open file, and with it the lock.
        // SAFETY: it takes the place of what this value mapped, whose words are still there for
        // those who refer to them.
        let zeros = unsafe {
            rustix::mm::mmap_anonymous(self.base.as_ptr().cast(), self.len, access, flags)
        };
        // Nobody waits here for a thread that the fork has left behind.
        if let (Ok(_), Ok(mut file)) = (zeros, self.file.try_lock()) {
            *file = None;
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and whoever used it borrowed this value.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

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
    pub(crate) fn map(file: File, write: bool) -> io::Result<Page> {
        is_page(&file)?;
        Mapping::new(file, Page::BYTES, write).map(Page)
    }

    /// See [`Mapping::close`].
    pub(crate) fn close(&self) {
        self.0.close();
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

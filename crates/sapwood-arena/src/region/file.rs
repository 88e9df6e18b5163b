//! Files, and memory files without a name, shared with every process that maps them.

use super::mmap::{Space, next_len};
use super::{PAGE, Region, whole_pages};
use crate::header::{HEADER_LEN, Header, HeaderError};
use crate::image::OpenError;
use crate::reference::MAX_BYTES;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// A file mapped for writing over a reservation of address space. The base does not move.
///
/// The region takes space from the disk as the file grows, so a full disk is an error of `grow`,
/// not a signal later. The file stays when the region is dropped.
///
/// Nobody else may shorten the file while it is mapped: `SIGBUS` would end every process that reads
/// the missing part.
#[derive(Debug)]
pub struct FileRegion {
    space: Space,
    file: File,
    len: usize,
    /// Whether the file is in memory only.
    nameless: bool,
}

impl FileRegion {
    /// Creates a file. It does not touch an existing one.
    ///
    /// # Errors
    ///
    /// The system's error, such as that the file exists.
    ///
    /// ```
    /// use sapwood_arena::{Arena, ArenaOptions, Area, Backing, HeaderMode, Kind};
    /// # let dir = std::env::temp_dir().join(format!("sapwood-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// let path = dir.join("shared");
    /// let options = ArenaOptions::default().backing(Backing::File(path)).header(HeaderMode::Page);
    /// let mut arena = Arena::create(options)?;
    /// arena.alloc(100, Kind(0), Area::Nodes)?;
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>) -> io::Result<FileRegion> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        FileRegion::over(file, false)
    }

    /// Creates a file without a name, in memory. Other processes open it by its
    /// [descriptor](FileRegion::as_fd).
    ///
    /// # Errors
    ///
    /// The system's error; `Unsupported` on systems without such files.
    pub fn memfd(name: &str) -> io::Result<FileRegion> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
            FileRegion::over(File::from(fd), true)
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let _ = name;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn over(file: File, nameless: bool) -> io::Result<FileRegion> {
        let mut want = MAX_BYTES;
        let space = loop {
            match Space::reserve(want, PAGE) {
                Ok(space) => break space,
                Err(_) if want > 1 << 20 => want /= 2,
                Err(error) => return Err(error.into()),
            }
        };
        Ok(FileRegion {
            space,
            file,
            len: 0,
            nameless,
        })
    }

    /// The file's descriptor, to pass to another process.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn extend_file(&self, len: usize) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            match fallocate(
                &self.file,
                FallocateFlags::empty(),
                self.len as u64,
                (len - self.len) as u64,
            ) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                other => return Ok(other?),
            }
        }
        self.file.set_len(len as u64)
    }
}

// SAFETY: the region owns the space, which is page aligned; `len` of it is mapped to a file that is
// at least as long. The base does not change. Other processes may read the file. The documented
// condition is that nobody else shortens or writes it.
unsafe impl Region for FileRegion {
    fn base(&self) -> NonNull<u8> {
        self.space.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.space.len
    }

    fn extend(&mut self, min_len: usize) -> bool {
        let page = PAGE.max(rustix::param::page_size());
        // The file takes space up to its length, unlike anonymous memory, so it grows by a
        // sixteenth.
        let len = min_len
            .max(self.len + self.len / 16)
            .next_multiple_of(page)
            .min(self.space.len);
        let len = len.min(next_len(self.len, min_len, self.space.len));
        if self.extend_file(len).is_err() {
            // The file may be longer by now: shorten it again.
            let _ = self.file.set_len(self.len as u64);
            return false;
        }
        // SAFETY: a part of our own reservation that is not in use yet; the file is that long.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            rustix::mm::mmap(
                self.space.at(self.len),
                len - self.len,
                access,
                flags,
                &self.file,
                self.len as u64,
            )
        };
        if mapped.is_err() {
            let _ = self.file.set_len(self.len as u64);
            return false;
        }
        self.len = len;
        true
    }

    fn is_stable(&self) -> bool {
        true
    }

    fn release(&mut self, range: Range<usize>) -> bool {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            // The system must fill a hole in a file on disk when its pages are used again, and a
            // full disk means SIGBUS then. Files in memory do not have this problem.
            if !self.nameless {
                return false;
            }
            let Some(range) = whole_pages(range) else {
                return false;
            };
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, flags, range.start as u64, range.len() as u64).is_ok()
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let _ = (range, self.nameless);
            false
        }
    }

    fn protect(&mut self, range: Range<usize>, forbid: bool) -> bool {
        self.space.protect(range, forbid)
    }

    fn reserved(&self) -> usize {
        self.space.len
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.len > 0 {
            // SAFETY: our own mapping.
            unsafe { rustix::mm::msync(self.space.at(0), self.len, MsyncFlags::SYNC)? };
        }
        self.file.sync_all()
    }
}

/// A file that a [`FileRegion`] writes or has written, mapped for reading only.
///
/// While its owner lives, the structure's own rules say how to read the blocks that the roots
/// reach. The mapping has the length that the file had when it was opened; see
/// [`refresh`](FileMap::refresh).
#[derive(Debug)]
pub struct FileMap {
    space: Space,
    file: File,
    layout_hash: u64,
}

impl FileMap {
    /// Maps the file after checking magic, version, layout and length, and the header's checksum if
    /// it is sealed.
    ///
    /// References inside are not checked: the structure must compare each with
    /// [`len`](FileMap::len).
    ///
    /// # Errors
    ///
    /// [`OpenError`] says which check failed.
    pub fn open(path: impl AsRef<Path>, layout_hash: u64) -> Result<FileMap, OpenError> {
        // This check comes before opening, because opening a pipe would wait for its writer.
        if !std::fs::metadata(path.as_ref())?.is_file() {
            return Err(OpenError::NotAFile);
        }
        FileMap::from_file(File::open(path)?, layout_hash)
    }

    /// Maps an open file, for example a memfd that was passed by its owner.
    ///
    /// # Errors
    ///
    /// As for [`open`](FileMap::open).
    pub fn from_file(file: File, layout_hash: u64) -> Result<FileMap, OpenError> {
        let space = map_for_reading(&file)?;
        let map = FileMap {
            space,
            file,
            layout_hash,
        };
        map.header()?;
        Ok(map)
    }

    /// The address of the first byte.
    pub fn base(&self) -> *const u8 {
        self.space.base.as_ptr()
    }

    /// The number of bytes that are mapped.
    pub fn len(&self) -> usize {
        self.space.len
    }

    /// Returns false, as there is always a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the header as it is now.
    ///
    /// # Errors
    ///
    /// If it is not a header of this layout, or not any more, or if the memory is longer than the
    /// mapping: then call [`refresh`](FileMap::refresh).
    pub fn header(&self) -> Result<Header, HeaderError> {
        let mut page = [0; HEADER_LEN];
        for (i, word) in page.chunks_exact_mut(8).enumerate() {
            // SAFETY: within the first page, which is mapped and aligned. The owner may be writing:
            // atomic loads.
            let value = unsafe {
                let p = self.space.base.as_ptr().cast::<AtomicU64>().add(i);
                (*p).load(Ordering::Acquire)
            };
            word.copy_from_slice(&value.to_ne_bytes());
        }
        Header::decode_parts(&page, self.len() as u64, self.layout_hash)
    }

    /// Maps the file anew at its present length. The base changes.
    ///
    /// # Errors
    ///
    /// As for [`open`](FileMap::open); then the old mapping remains.
    pub fn refresh(&mut self) -> Result<(), OpenError> {
        let new = FileMap::from_file(self.file.try_clone()?, self.layout_hash)?;
        *self = new;
        Ok(())
    }
}

/// Maps the whole of a regular file that has at least a header, read-only and shared.
pub(crate) fn map_for_reading(file: &File) -> Result<Space, OpenError> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(OpenError::NotAFile);
    }
    if meta.len() < HEADER_LEN as u64 {
        return Err(HeaderError::TooShort {
            len: meta.len() as usize,
        }
        .into());
    }
    let len =
        usize::try_from(meta.len()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // SAFETY: a fresh mapping at an address of the system's choice disturbs nothing.
    let p = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            0,
        )
        .map_err(io::Error::from)?
    };
    let base = NonNull::new(p.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(Space { base, len })
}

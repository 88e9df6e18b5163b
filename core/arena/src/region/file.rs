//! Files, and memory files without a name, shared with every process that maps them.

use super::mmap::{Space, next_len};
use super::{ArenaFull, PAGE, Region, whole_pages};
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
use std::os::unix::fs::OpenOptionsExt;
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
        FileRegion::create_at_most(path, MAX_BYTES)
    }

    /// As [`create`](FileRegion::create), with addresses for no more than this many bytes.
    ///
    /// # Errors
    ///
    /// As [`create`](FileRegion::create).
    pub fn create_at_most(path: impl AsRef<Path>, bytes: usize) -> io::Result<FileRegion> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)?;
        FileRegion::over(file, false, bytes)
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
            FileRegion::over(File::from(fd), true, MAX_BYTES)
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let _ = name;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn over(file: File, nameless: bool, most: usize) -> io::Result<FileRegion> {
        let mut want = most
            .clamp(PAGE, MAX_BYTES)
            .next_multiple_of(PAGE.max(rustix::param::page_size()));
        let space = loop {
            match Space::reserve(want, PAGE) {
                Ok(space) => break space,
                Err(_) if want > 1 << 20 => want = (want / 2).next_multiple_of(1 << 20),
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

    /// Lengthens the file and what is mapped of it. If that fails, both are as they were.
    fn lengthen(&mut self, len: usize) -> io::Result<()> {
        let longer = allocate(&self.file, self.len as u64..len as u64).and_then(|()| {
            // SAFETY: a part of our own reservation that is not in use yet; the file is that long.
            unsafe {
                rustix::mm::mmap(
                    self.space.at(self.len),
                    len - self.len,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED,
                    &self.file,
                    self.len as u64,
                )?;
            }
            Ok(())
        });
        match longer {
            Ok(()) => self.len = len,
            // The file may be longer by now, or have blocks behind its end: it gives them back.
            Err(_) => drop(self.file.set_len(self.len as u64)),
        }
        longer
    }

    /// As [`Region::extend`].
    fn try_extend(&mut self, min_len: usize) -> io::Result<()> {
        let page = PAGE.max(rustix::param::page_size());
        // The file takes space up to its length, unlike anonymous memory, so it grows by a
        // sixteenth.
        let least = min_len.next_multiple_of(page).min(self.space.len);
        let len = (self.len + self.len / 16)
            .next_multiple_of(page)
            .min(next_len(self.len, min_len, self.space.len))
            .max(least);
        match self.lengthen(len) {
            // There may be room for what is needed now.
            Err(_) if len > least => self.lengthen(least),
            done => done,
        }
    }
}

/// The attempts at an allocation that signals interrupt.
#[cfg(any(target_os = "linux", target_os = "android"))]
const TRIES: usize = 16;

/// Makes a part of a file have space on its device, and lengthens the file to the end of the part.
/// Whoever maps the file can then write there: a full device is an error of this function, not a
/// signal (`SIGBUS`) at the first store. What the part has stays; new bytes are zeros.
///
/// Where the file system cannot allocate space ahead, zeros are written behind the file's end. A
/// file system that copies what is written (Btrfs, ZFS) may need space at a later store even so.
///
/// # Errors
///
/// The system's error: [`StorageFull`](io::ErrorKind::StorageFull) if the device has no space left,
/// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded). The file may be longer then.
pub fn allocate(file: &File, part: Range<u64>) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    for _ in 0..TRIES {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let len = part.end.saturating_sub(part.start);
        match fallocate(file, FallocateFlags::empty(), part.start, len) {
            // Files in memory give up when a signal waits.
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            other => return Ok(other?),
        }
    }
    write_zeros(file, part)
}

/// Writes zeros into what a part of a file has behind the file's end.
fn write_zeros(file: &File, part: Range<u64>) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let zeros = [0; 1 << 16];
    let mut at = part.start.max(file.metadata()?.len());
    while at < part.end {
        let some = zeros.len().min((part.end - at) as usize);
        file.write_all_at(&zeros[..some], at)?;
        at += some as u64;
    }
    Ok(())
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
        self.try_extend(min_len).is_ok()
    }

    fn grow(&mut self, min_len: usize) -> Result<(), ArenaFull> {
        let limit = self.space.len;
        if min_len <= self.len {
            return Ok(());
        }
        if min_len > limit {
            return Err(ArenaFull::new(min_len, limit));
        }
        let more = min_len - self.len;
        self.try_extend(min_len)
            .map_err(|error| ArenaFull::refused(more, limit, &error))
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

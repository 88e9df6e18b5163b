//! Saved images: written whole or not at all, and checked before they are read.

use crate::header::{HEADER_LEN, Header, HeaderError};
use crate::region::{HeapRegion, Region};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::Xxh3;

/// The reason why a saved memory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path names a directory, a device, or another thing that is not a file.
    #[error("not a regular file")]
    NotAFile,
    /// The file is not such a memory, or it is damaged.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

#[derive(Debug)]
enum Bytes {
    Heap(HeapRegion),
    #[cfg(all(unix, not(miri)))]
    Mapped(crate::region::Mapping),
}

/// A saved, sealed memory, mapped for reading; without `mmap`, read into memory.
///
/// The file must not be changed in place while it is mapped. [`write_image`] does not do that: it
/// replaces the file, and a mapping keeps the old one. Where other programs may change the file,
/// use [`ImageMap::read`].
///
/// ```
/// use sapwood_arena::{HEADER_LEN, Header, ImageMap, write_image};
/// # let path = std::env::temp_dir().join(format!("sapwood-doc-image-{}", std::process::id()));
/// let mut header = Header::new(7);
/// header.roots[0] = 512;
/// write_image(&path, &[b"abc", b"defgh"], header)?;
/// let image = ImageMap::open(&path, 7, true)?;
/// assert_eq!(image.header().roots[0], 512);
/// assert_eq!(&image.bytes()[HEADER_LEN..], b"abcdefgh");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ImageMap {
    bytes: Bytes,
    header: Header,
}

impl ImageMap {
    /// Opens a saved memory after checking magic, version, layout, length and the header's
    /// checksum. With `verify_body` it also checks the checksum of the contents, and reads all of
    /// them.
    ///
    /// References inside are not checked. Without `verify_body`, or for a file that is not trusted,
    /// the structure must compare each of them with [`len`](ImageMap::len).
    ///
    /// # Errors
    ///
    /// [`OpenError`] says which check failed.
    pub fn open(
        path: impl AsRef<Path>,
        layout_hash: u64,
        verify_body: bool,
    ) -> Result<ImageMap, OpenError> {
        #[cfg(all(unix, not(miri)))]
        {
            let file = open_regular(path.as_ref())?;
            let bytes = Bytes::Mapped(crate::region::map_for_reading(&file)?);
            ImageMap::check(bytes, layout_hash, verify_body)
        }
        #[cfg(not(all(unix, not(miri))))]
        {
            ImageMap::load(path.as_ref(), layout_hash, verify_body)
        }
    }

    /// Reads a saved memory into memory of this process, and checks all of it. Later changes of the
    /// file have no effect.
    ///
    /// # Errors
    ///
    /// As for [`open`](ImageMap::open).
    pub fn read(path: impl AsRef<Path>, layout_hash: u64) -> Result<ImageMap, OpenError> {
        ImageMap::load(path.as_ref(), layout_hash, true)
    }

    fn load(path: &Path, layout_hash: u64, verify_body: bool) -> Result<ImageMap, OpenError> {
        let mut file = open_regular(path)?;
        let len = file.metadata()?.len();
        if len < HEADER_LEN as u64 {
            return Err(HeaderError::TooShort { len: len as usize }.into());
        }
        let too_large = || OpenError::Io(io::ErrorKind::OutOfMemory.into());
        let len = usize::try_from(len).map_err(|_| too_large())?;
        let heap = HeapRegion::fixed(len).map_err(|_| too_large())?;
        // SAFETY: the region is `len` zeroed bytes that nothing else knows yet.
        let target = unsafe { core::slice::from_raw_parts_mut(heap.base().as_ptr(), len) };
        file.read_exact(target)?;
        ImageMap::check(Bytes::Heap(heap), layout_hash, verify_body)
    }

    fn check(bytes: Bytes, layout_hash: u64, verify_body: bool) -> Result<ImageMap, OpenError> {
        let mut image = ImageMap {
            bytes,
            header: Header::new(layout_hash),
        };
        image.header = Header::decode(image.bytes(), layout_hash)?;
        if verify_body {
            image.header.check_body(&image.bytes()[HEADER_LEN..])?;
        }
        Ok(image)
    }

    /// The address of the first byte.
    pub fn base(&self) -> *const u8 {
        match &self.bytes {
            Bytes::Heap(region) => region.base().as_ptr(),
            #[cfg(all(unix, not(miri)))]
            Bytes::Mapped(space) => space.base.as_ptr(),
        }
    }

    /// The number of bytes, the header page included.
    pub fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Heap(region) => region.len(),
            #[cfg(all(unix, not(miri)))]
            Bytes::Mapped(space) => space.len,
        }
    }

    /// Returns false, as there is always a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` readable bytes from `base` on, as long as `self` lives. The documented
        // condition of `open` is that nobody changes the file in place.
        unsafe { core::slice::from_raw_parts(self.base(), self.len()) }
    }
}

fn open_regular(path: &Path) -> Result<File, OpenError> {
    // This check comes before opening, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(OpenError::NotAFile);
    }
    Ok(File::open(path)?)
}

/// Removes a file when dropped, unless it has been renamed.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Saves a memory: the header page, and `parts` in their order. Fills in length, frontier and
/// checksums of `header`.
///
/// The file is written beside `path`, flushed to the disk, and renamed, so `path` always names the
/// whole old file or the whole new one. On an error the old file remains and no other file is left
/// behind.
///
/// # Errors
///
/// The system's error, for example that the disk is full.
pub fn write_image(path: impl AsRef<Path>, parts: &[&[u8]], header: Header) -> io::Result<()> {
    let path = path.as_ref();
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    refuse_special(path)?;
    let mut hash = Xxh3::new();
    let mut length = HEADER_LEN as u64;
    for part in parts {
        hash.update(part);
        length += part.len() as u64;
    }
    let sealed = Header {
        sealed: true,
        length,
        frontier: length,
        body_checksum: hash.digest(),
        ..header
    };
    let (mut file, mut temporary) = create_beside(path)?;
    file.write_all(&sealed.encode())?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()?;
    drop(file);
    if let Some(from) = &temporary.0 {
        std::fs::rename(from, path)?;
    }
    temporary.0 = None;
    sync_folder(path);
    Ok(())
}

/// Refuses a path that names a device, a pipe or a directory, which renaming would replace.
fn refuse_special(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path names something that is not a regular file",
        )),
        _ => Ok(()),
    }
}

/// Creates a file in the same directory, so that renaming stays within one file system.
fn create_beside(path: &Path) -> io::Result<(File, Temporary)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        // The name is not made of the target's name, which may have the greatest length.
        let beside = format!(
            ".sapwood-{}-{}.tmp",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let beside = path.with_file_name(beside);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)
        {
            Ok(file) => return Ok((file, Temporary(Some(beside)))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Flushes the directory, so that the new name lasts. Not every file system can do that; the
/// contents are flushed already.
fn sync_folder(path: &Path) {
    #[cfg(unix)]
    {
        let folder = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

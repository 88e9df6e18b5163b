//! Maps in files: saved as sorted ranges and values, opened checked.
//!
//! ```text
//! header page: layout (bytes and alignment of a value), word 0: number of entries
//! starts and ends, inclusive: two 64-bit numbers for each entry, little-endian, in order
//! values, in the same order
//! ```
//!
//! A file has no references that could be wrong. Opening it checks entry by entry, and puts the
//! entries into nodes that this process makes.

use alloc::format;
use core::fmt;
use std::path::Path;

use sapwood_arena::{HEADER_LEN, Header, HeaderError, ImageMap, write_image};
use sapwood_format::header;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::header::asked;
use super::map::MapleMap;
use super::snapshot::MapleSnapshot;
use super::view::MapleView;
use crate::Error;
use crate::{OpenCause, OpenError, SaveCause, SaveError};

/// Bytes of a start and an end.
const RANGE: usize = 16;

fn layout_hash<V>() -> u64 {
    header::ranges_hash(size_of::<V>(), align_of::<V>())
}

impl<V: IntoBytes + Immutable + Send + Sync + 'static> MapleSnapshot<V> {
    /// Saves the version for [`MapleFile::open`]. The file is written beside `path`, flushed, and
    /// renamed, so `path` always names the whole old file or the whole new one. The bytes depend on
    /// the entries only. The map may be changed meanwhile.
    ///
    /// Values are plain bytes without padding (checked when compiled). A file has a header page,
    /// and 16 bytes and the value for each entry. Saving takes linear time, and as much memory as
    /// the file has bytes.
    ///
    /// O(entries), and the writing of the file. It takes no lock.
    ///
    /// ```
    /// use sapwood::maple::{MapleFile, MapleMap};
    /// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.maple", std::process::id()));
    /// let map = MapleMap::from_iter([(5..=9, 1_u64), (20..=29, 2)]);
    /// map.snapshot().save(&path)?;
    /// let file = MapleFile::<u64>::open(&path)?;
    /// assert_eq!(file.view().get(25), Some(&2));
    /// assert_eq!(file.view().find_gap(10, 0..=99), Some(10..=19));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        let path = path.as_ref();
        let view = self.view();
        let mut ranges = Vec::with_capacity(view.len() * RANGE);
        let mut values = Vec::with_capacity(view.len() * size_of::<V>());
        for (range, value) in view {
            ranges.extend_from_slice(&range.start().to_le_bytes());
            ranges.extend_from_slice(&range.end().to_le_bytes());
            values.extend_from_slice(value.as_bytes());
        }
        let mut header = Header::new(layout_hash::<V>());
        header.roots[0] = view.len() as u64;
        write_image(path, &[&ranges, &values], header)
            .map_err(SaveCause::Io)
            .map_err(SaveError::at(path))
    }
}

/// A saved map, read into memory and checked. Any thread may read it, and it may be sent to any
/// thread.
///
/// The file may be changed or removed while this is open: [`open`](Self::open) has read all of it.
pub struct MapleFile<V: Send + Sync + 'static> {
    kept: MapleSnapshot<V>,
}

impl<V: FromBytes + Clone + Send + Sync + 'static> MapleFile<V> {
    /// Opens a file that [`MapleSnapshot::save`] wrote with values of the same size and alignment;
    /// the file has nothing more about their type. This reads the whole file, checks the header,
    /// the checksums and the order of the entries, and stores each entry in memory: O(n log n).
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        read(path).map_err(OpenError::at(path))
    }
}

impl<V: Send + Sync + 'static> MapleFile<V> {
    /// The saved map, for reading.
    ///
    /// O(1).
    #[inline]
    pub fn view(&self) -> MapleView<'_, V> {
        self.kept.view()
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for MapleFile<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

fn read<V: FromBytes + Clone + Send + Sync + 'static>(
    path: &Path,
) -> Result<MapleFile<V>, OpenCause> {
    let image = ImageMap::read(path, layout_hash::<V>()).map_err(|error| match error {
        sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. }) => {
            let other = OpenCause::other_values(found, asked::<V>(), header::ranges_hash);
            other.unwrap_or(OpenCause::Image(error))
        }
        error => OpenCause::Image(error),
    })?;
    let body = &image.bytes()[HEADER_LEN..];
    let count = image.header().roots[0];
    let wrong = |what: &str| OpenCause::Corrupt(format!("{what} of {count} entries"));
    let entries = usize::try_from(count).map_err(|_| wrong("too large a number"))?;
    let bytes = entries.checked_mul(RANGE + size_of::<V>());
    if bytes != Some(body.len()) {
        return Err(wrong(&format!("{} bytes are not those", body.len())));
    }
    let (ranges, values) = body.split_at(entries * RANGE);
    let map = MapleMap::new();
    let mut writer = map.write();
    // The first index that no entry has yet; `None` after an entry that ends at the highest.
    let mut free = Some(0);
    for (i, range) in ranges.chunks_exact(RANGE).enumerate() {
        let (start, end) = range.split_at(RANGE / 2);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let (start, end) = (number(start), number(end));
        if start > end || free.is_none_or(|free| start < free) {
            let entry = format!("entry {i}, {start}..={end}, is out of order");
            return Err(OpenCause::Corrupt(entry));
        }
        let value = &values[i * size_of::<V>()..(i + 1) * size_of::<V>()];
        let value = V::read_from_bytes(value).map_err(|_| wrong("a short value"))?;
        let stored = writer.store(start..=end, value);
        stored.map_err(|rejected| refused(&rejected.error))?;
        free = end.checked_add(1);
    }
    let kept = writer.snapshot();
    drop(writer);
    Ok(MapleFile { kept })
}

/// The cause when there is no memory for the file's entries.
fn refused(error: &Error) -> OpenCause {
    let error = std::io::Error::new(std::io::ErrorKind::OutOfMemory, error.to_string());
    OpenCause::Image(error.into())
}

//! Maps in files: saved as sorted ranges and values, opened checked.
//!
//! ```text
//! header page: layout (bytes and alignment of a value; 1 and 8 for byte strings),
//!     word 0: number of entries
//! starts and ends, inclusive: two 64-bit numbers for each entry, little-endian, in order
//! values, in the same order; for byte strings: the 64-bit numbers, little-endian, of the bytes of
//!     all strings up to the end of the entry's own, and then the strings
//! ```
//!
//! A file has no references that could be wrong. Opening it checks entry by entry, and puts the
//! entries into nodes that this process makes.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use std::path::Path;

use sapwood_arena::{HEADER_LEN, Header, HeaderError, ImageMap, write_image};
use sapwood_common::raw::asked::{Asked, BYTE_STRINGS};
use sapwood_format::header;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Range;
use super::header::asked;
use super::map::MapleMap;
use super::snapshot::MapleSnapshot;
use super::view::MapleView;
use crate::Error;
use crate::{OpenCause, OpenError, SaveCause, SaveError};

/// Bytes of a start and an end.
const RANGE: usize = 16;
/// Bytes of the number that says where a byte string ends.
const END: usize = 8;

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
        let view = self.view();
        let mut ranges = Vec::with_capacity(view.len() * RANGE);
        let mut values = Vec::with_capacity(view.len() * size_of::<V>());
        for (range, value) in view {
            push_range(&mut ranges, &range);
            values.extend_from_slice(value.as_bytes());
        }
        write(path.as_ref(), layout_hash::<V>(), &[&ranges, &values])
    }
}

fn push_range(ranges: &mut Vec<u8>, range: &Range) {
    ranges.extend_from_slice(&range.start().to_le_bytes());
    ranges.extend_from_slice(&range.end().to_le_bytes());
}

/// Writes a file; the first of its parts has the ranges.
fn write(path: &Path, layout: u64, parts: &[&[u8]]) -> Result<(), SaveError> {
    let mut header = Header::new(layout);
    header.roots[0] = (parts[0].len() / RANGE) as u64;
    write_image(path, parts, header)
        .map_err(SaveCause::Io)
        .map_err(SaveError::at(path))
}

fn layout_of_strings() -> u64 {
    header::ranges_hash(BYTE_STRINGS.0, BYTE_STRINGS.1)
}

/// Saves ranges whose values are byte strings, for [`MapleFile::open_strings`]: those of a map
/// whose values stand for strings, in the order of a walk. The file is written as
/// [`MapleSnapshot::save`] does.
///
/// A file has a header page, and 24 bytes and the string for each entry.
///
/// O(entries, and bytes of the strings), and the writing of the file.
///
/// ```
/// use sapwood::maple::{MapleFile, MapleMap, save_strings};
/// # let path = std::env::temp_dir().join(format!("sapwood-doc-{}.texts", std::process::id()));
/// let map = MapleMap::from_iter([(5..=9, "left"), (20..=29, "right")]);
/// save_strings(map.snapshot().view(), &path)?;
/// let file = MapleFile::<Vec<u8>>::open_strings(&path, <[u8]>::to_vec)?;
/// assert_eq!(file.view().get(25), Some(&b"right".to_vec()));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SaveError`]; a file that was there before is untouched.
///
/// # Panics
/// When a range is empty, or does not lie behind the one before it.
pub fn save_strings(
    entries: impl IntoIterator<Item = (Range, impl AsRef<[u8]>)>,
    path: impl AsRef<Path>,
) -> Result<(), SaveError> {
    let (mut ranges, mut ends, mut strings) = (Vec::new(), Vec::new(), Vec::new());
    let mut free = Free(Some(0));
    for (range, string) in entries {
        assert!(
            free.takes(*range.start(), *range.end()),
            "{range:?} is out of order"
        );
        push_range(&mut ranges, &range);
        strings.extend_from_slice(string.as_ref());
        ends.extend_from_slice(&(strings.len() as u64).to_le_bytes());
    }
    let parts = [&ranges[..], &ends, &strings];
    write(path.as_ref(), layout_of_strings(), &parts)
}

/// The first index that no entry has yet; `None` behind an entry that ends at the highest.
struct Free(Option<u64>);

impl Free {
    /// Whether an entry may be the next one.
    fn takes(&mut self, start: u64, end: u64) -> bool {
        let behind = self.0.is_some_and(|free| start >= free);
        self.0 = end.checked_add(1);
        behind && start <= end
    }
}

/// Whether the header of a file is that of saved ranges, with values of any kind.
///
/// The file's length does not matter.
pub fn is_range_file(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    match ImageMap::open(path, layout_of_strings(), false) {
        Ok(_) => true,
        Err(sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. })) => {
            let values = OpenCause::other_values(found, asked::<()>(), header::ranges_hash);
            values.is_some() && ImageMap::open(path, found, false).is_ok()
        }
        Err(_) => false,
    }
}

/// A saved map, read into memory and checked. Any thread may read it, and it may be sent to any
/// thread.
///
/// The file may be changed or removed while this is open: [`open`](Self::open) has read all of it.
pub struct MapleFile<V: Send + Sync + 'static> {
    kept: MapleSnapshot<V>,
    bytes: usize,
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
        let open = || {
            let body = Body::read(path, layout_hash::<V>(), asked::<V>())?;
            let values = body.values(size_of::<V>())?;
            let value = |i: usize| {
                let value = &values[i * size_of::<V>()..(i + 1) * size_of::<V>()];
                let value = V::read_from_bytes(value);
                value.map_err(|_| body.wrong("a short value"))
            };
            body.filled(value)
        };
        open().map_err(OpenError::at(path))
    }
}

impl<V: Clone + Send + Sync + 'static> MapleFile<V> {
    /// Opens a file of byte strings, as [`save_strings`] writes it, with a check as that of
    /// [`open`](Self::open). `value` makes the value of a string, in the order of the entries.
    ///
    /// O(n log n), and the bytes of the strings.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong.
    pub fn open_strings(
        path: impl AsRef<Path>,
        mut value: impl FnMut(&[u8]) -> V,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let mut open = || {
            let strings = Asked {
                name: "[u8]",
                values: None,
            };
            let body = Body::read(path, layout_of_strings(), strings)?;
            let rest = body.behind_ranges()?;
            let ends = rest.get(..body.entries * END);
            let ends = ends.ok_or_else(|| body.wrong("too few bytes are not those"))?;
            let strings = &rest[ends.len()..];
            let mut begin = 0;
            let last = ends.last_chunk::<END>().map_or(0, |end| number(end)) as usize;
            if last != strings.len() {
                let what = format!("{} bytes of strings are not those", strings.len());
                return Err(body.wrong(&what));
            }
            body.filled(|i| {
                let end = number(&ends[i * END..(i + 1) * END]) as usize;
                let string = strings.get(begin..end);
                let string = string.ok_or_else(|| body.wrong("an end of a string is wrong"))?;
                begin = end;
                Ok(value(string))
            })
        };
        open().map_err(OpenError::at(path))
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

    /// Bytes of the file.
    ///
    /// O(1).
    pub fn file_bytes(&self) -> usize {
        self.bytes
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for MapleFile<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// A 64-bit number of a file.
fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A file that was read, with right checksums.
struct Body {
    image: ImageMap,
    entries: usize,
}

impl Body {
    fn read(path: &Path, layout: u64, asked: Asked) -> Result<Self, OpenCause> {
        let image = ImageMap::read(path, layout).map_err(|error| match error {
            sapwood_arena::OpenError::Header(HeaderError::Layout { found, .. }) => {
                OpenCause::other_values(found, asked, header::ranges_hash)
                    .or_else(|| old_file(path, found))
                    .unwrap_or_else(|| OpenCause::of_image(error))
            }
            error => OpenCause::Image(error),
        })?;
        // More entries than a file can have are refused as too many for its bytes.
        let entries = usize::try_from(image.header().roots[0]).unwrap_or(usize::MAX);
        Ok(Body { image, entries })
    }

    fn bytes(&self) -> &[u8] {
        &self.image.bytes()[HEADER_LEN..]
    }

    fn wrong(&self, what: &str) -> OpenCause {
        OpenCause::Corrupt(format!(
            "{what} of {} entries",
            self.image.header().roots[0]
        ))
    }

    /// What lies behind the starts and ends.
    fn behind_ranges(&self) -> Result<&[u8], OpenCause> {
        let ranges = self.entries.checked_mul(RANGE);
        let rest = ranges.and_then(|ranges| self.bytes().get(ranges..));
        rest.ok_or_else(|| self.wrong(&format!("{} bytes are not those", self.bytes().len())))
    }

    /// The values, which have this size.
    fn values(&self, size: usize) -> Result<&[u8], OpenCause> {
        let values = self.behind_ranges()?;
        match self.entries.checked_mul(size) == Some(values.len()) {
            true => Ok(values),
            false => Err(self.wrong(&format!("{} bytes are not those", self.bytes().len()))),
        }
    }

    /// The map whose entries have these values.
    fn filled<V: Clone + Send + Sync + 'static>(
        &self,
        mut value: impl FnMut(usize) -> Result<V, OpenCause>,
    ) -> Result<MapleFile<V>, OpenCause> {
        let map = MapleMap::new();
        let mut writer = map.write();
        let mut free = Free(Some(0));
        let ranges = self.bytes().chunks_exact(RANGE).take(self.entries);
        for (i, range) in ranges.enumerate() {
            let (start, end) = range.split_at(RANGE / 2);
            let (start, end) = (number(start), number(end));
            if !free.takes(start, end) {
                let entry = format!("entry {i}, {start}..={end}, is out of order");
                return Err(OpenCause::Corrupt(entry));
            }
            let stored = writer.store(start..=end, value(i)?);
            stored.map_err(|rejected| refused(&rejected.error))?;
        }
        let kept = writer.snapshot();
        drop(writer);
        let bytes = self.image.len();
        Ok(MapleFile { kept, bytes })
    }
}

/// The cause for a file in which an earlier version of the program put ranges: a trie with a mark
/// among its keys, and the values of 8 bytes, aligned to 4, that only such files had.
fn old_file(path: &Path, found: u64) -> Option<OpenCause> {
    const MARK: &[u8] = b"ranges1";
    if found != header::layout_hash(8, 4, header::FORMAT) {
        return None;
    }
    let image = ImageMap::open(path, found, false).ok()?;
    let mut bytes = image.bytes()[HEADER_LEN..].windows(MARK.len());
    bytes
        .any(|bytes| bytes == MARK)
        .then_some(OpenCause::OldFile {
            file: "a map of ranges in format 1 of the program `sapwood`",
            remedy: "build it anew by `sapwood ranges build`",
        })
}

/// The cause when there is no memory for the file's entries.
fn refused(error: &Error) -> OpenCause {
    let error = std::io::Error::new(std::io::ErrorKind::OutOfMemory, error.to_string());
    OpenCause::Image(error.into())
}

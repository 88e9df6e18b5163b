//! Maps of ranges in memory, and their files.
//!
//! In memory the value of a range is the number of its text. A file is a saved trie with one entry
//! for each range: the key is the range's start (8 bytes, big-endian) followed by its text, and the
//! value is the range's end. One more entry is the mark, whose key is too short for a range. Values
//! are two words of 32 bits. Their alignment differs from the values of maps of names, and their
//! size from the values of tables of routes, so that no kind of file opens as another one.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use sapwood::maple::MapleMap;
use sapwood::qp::{OpenCause, QpFile, QpMap, QpShape, SaveCause};

use crate::errors::Error;
use crate::names::open_error;
use crate::progress::Progress;
use crate::signals::HeldSignals;
use crate::span;

/// The end of a range, most significant word first.
type End = [u32; 2];

/// The key of the mark, whose value is the number of ranges.
const MARK: &[u8] = b"ranges1";
/// Bytes of a key before the text.
const TEXT_AT: usize = size_of::<u64>();

/// The kind of the file in errors.
pub const KIND: &str = "map of ranges";

fn end_of(end: u64) -> End {
    [(end >> 32) as u32, end as u32]
}

fn number_of(end: End) -> u64 {
    u64::from(end[0]) << 32 | u64::from(end[1])
}

/// Ranges and their texts.
#[derive(Default)]
pub struct Ranges {
    map: MapleMap<u32>,
    texts: Vec<Box<str>>,
}

impl Ranges {
    /// The map; its values are numbers of texts.
    pub fn map(&self) -> &MapleMap<u32> {
        &self.map
    }

    /// The text with this number.
    pub fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    /// Adds a text and returns its number.
    pub fn push(&mut self, text: &str) -> Result<u32, sapwood::qp::Error> {
        let number = u32::try_from(self.texts.len()).map_err(|_| sapwood::qp::Error::Full {
            max_entries: self.texts.len(),
        })?;
        self.texts.push(text.into());
        Ok(number)
    }

    /// Opens a file after checking all of it; returns the map and the bytes of the file.
    pub fn open(path: &Path) -> Result<(Self, usize), Error> {
        Self::open_checked(path).map_err(|error| open_error(path, KIND, error))
    }

    /// As [`open`](Self::open), with the cause of an error.
    pub fn open_checked(path: &Path) -> Result<(Self, usize), OpenCause> {
        let file = QpFile::<End>::open(path).map_err(|error| error.cause)?;
        let ranges = Self::read(&file).map_err(OpenCause::Corrupt)?;
        Ok((ranges, file.file_bytes()))
    }

    /// As [`open`](Self::open), with the shape of the file's trie, in which the mark is an entry,
    /// too.
    pub fn open_with_shape(path: &Path) -> Result<(Self, QpShape, usize), Error> {
        let open = || {
            let file = QpFile::<End>::open(path).map_err(|error| error.cause)?;
            let ranges = Self::read(&file).map_err(OpenCause::Corrupt)?;
            let shape = file.shape().map_err(OpenCause::Corrupt)?;
            Ok((ranges, shape, file.file_bytes()))
        };
        open().map_err(|error| open_error(path, KIND, error))
    }

    fn read(file: &QpFile<End>) -> Result<Self, String> {
        let mark = file.get(MARK).copied().map(number_of);
        let mark = mark.ok_or("it does not have the mark of a map of ranges")?;
        let mut ranges = Ranges::default();
        let mut progress = Progress::new("reading ranges", Some(mark), false);
        let mut before: Option<u64> = None;
        for (key, end) in file.iter().filter(|(key, _)| *key != MARK) {
            let Some((start, text)) = key.split_first_chunk::<TEXT_AT>() else {
                return Err(format!("{key:?} is not a key of a map of ranges"));
            };
            let (start, end) = (u64::from_be_bytes(*start), number_of(*end));
            if start > end {
                return Err(format!("a range ends at {end}, before its start {start}"));
            }
            if before.is_some_and(|before| start <= before) {
                return Err(format!(
                    "the range {start}..={end} overlaps the one before it"
                ));
            }
            let text = std::str::from_utf8(text)
                .map_err(|_| format!("the value of {start}..={end} is not UTF-8"))?;
            let number = ranges.push(text).map_err(|e| e.to_string())?;
            let stored = ranges.map.store(start..=end, number);
            stored.map_err(|rejected| rejected.error.to_string())?;
            before = Some(end);
            if ranges.texts.len() % 4096 == 0 {
                progress.at(ranges.texts.len() as u64);
            }
        }
        if ranges.texts.len() as u64 != mark {
            let found = ranges.texts.len();
            return Err(format!("it has {found} ranges, but its mark says {mark}"));
        }
        Ok(ranges)
    }

    /// Calls `each` with all ranges that overlap a window, in order.
    pub fn each(
        &self,
        window: RangeInclusive<u64>,
        mut each: impl FnMut(RangeInclusive<u64>, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.map.read(|view| {
            view.range(window)
                .try_for_each(|(range, number)| each(range, self.text(*number)))
        })
    }

    /// Writes a new file and renames it to `target`. `output` is its name in errors.
    pub fn save(&self, target: &Path, output: &Path) -> Result<(), Error> {
        let _save = span!(INFO, "save", file = %output.display(), entries = self.map.len());
        let mut trie = self.map.read(|view| {
            let entries = view.iter().map(|(range, number)| {
                let key = [&range.start().to_be_bytes(), self.text(*number).as_bytes()].concat();
                (key, end_of(*range.end()))
            });
            QpMap::from_sorted_iter(entries)
        })?;
        let count = trie.len() as u64;
        trie.insert(MARK, end_of(count))
            .map_err(sapwood::Error::from)?;
        let _held = HeldSignals::begin();
        trie.save(target).map_err(|error| match error.cause {
            SaveCause::Io(source) => Error::write(output)(source),
            cause => Error::write(output)(io::Error::other(cause)),
        })
    }
}

/// Whether the header of the file is that of a map of ranges.
pub fn looks_like_ranges(path: &Path) -> bool {
    QpFile::<End>::open_unverified(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(entries: &[(&[u8], u64)]) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let mut trie = QpMap::new();
        for (key, value) in entries {
            trie.insert(key, end_of(*value)).unwrap();
        }
        trie.save(&path).unwrap();
        match Ranges::open_checked(&path) {
            Ok((ranges, _)) => Ok(ranges.map.len()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn saved_maps_open_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let mut ranges = Ranges::default();
        let all = [
            (0..=0, ""),
            (5..=9, "five"),
            (10..=10, "\u{e4}"),
            (1 << 32..=u64::MAX, "rest"),
        ];
        for (range, text) in &all {
            let number = ranges.push(text).unwrap();
            ranges.map.store(range.clone(), number).unwrap();
        }
        ranges.save(&path, &path).unwrap();
        assert!(looks_like_ranges(&path));
        let (again, bytes) = Ranges::open(&path).unwrap();
        assert_eq!(bytes as u64, std::fs::metadata(&path).unwrap().len());
        let mut found = Vec::new();
        again
            .each(0..=u64::MAX, |range, text| {
                found.push((range, text.to_owned()));
                Ok(())
            })
            .unwrap();
        assert!(
            found
                .iter()
                .map(|(range, text)| (range.clone(), &**text))
                .eq(all)
        );
    }

    #[test]
    fn other_files_are_refused() {
        let key = |start: u64, text: &str| [&start.to_be_bytes()[..], text.as_bytes()].concat();
        let (five, seven, odd) = (
            key(5, "five"),
            key(7, ""),
            [&key(9, "")[..], b"\xff"].concat(),
        );
        assert_eq!(saved(&[(MARK, 0)]), Ok(0));
        assert_eq!(saved(&[(MARK, 2), (&five, 6), (&seven, 7)]), Ok(2));
        for (entries, why) in [
            (&[][..], "not have the mark"),
            (&[(&five[..], 6)], "not have the mark"),
            (&[(MARK, 2), (&five, 6)], "1 ranges, but its mark says 2"),
            (
                &[(MARK, 2), (&five, 7), (&seven, 7)],
                "7..=7 overlaps the one before it",
            ),
            (&[(MARK, 2), (&five, 5), (&key(5, "fiver"), 5)], "overlaps"),
            (&[(MARK, 1), (&five, 4)], "ends at 4, before its start 5"),
            (&[(MARK, 1), (&odd, 9)], "the value of 9..=9 is not UTF-8"),
            (
                &[(MARK, 1), (b"short", 9)],
                "is not a key of a map of ranges",
            ),
        ] {
            let error = saved(entries).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}

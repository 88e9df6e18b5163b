//! Maps of ranges in memory, and their files.
//!
//! In memory the value of a range is the number of its text. The files are the library's: ranges
//! with byte strings. The numbers of a file of numbers are read as texts.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use sapwood::maple::{MapleFile, MapleMap, save_strings};
use sapwood::qp::{OpenCause, SaveCause};

use crate::errors::Error;
use crate::names::open_error;
use crate::progress::Progress;
use crate::signals::HeldSignals;
use crate::span;

/// The kind of the file in errors.
pub const KIND: &str = "map of ranges";

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
        let mut texts = Vec::new();
        let strings = MapleFile::<u32>::open_strings(path, |text| {
            texts.push(text.to_vec());
            texts.len() as u32 - 1
        });
        match strings.map_err(|error| error.cause) {
            Ok(file) => {
                let all = file.view().iter();
                let all = all.map(|(range, number)| {
                    let text = std::str::from_utf8(&texts[*number as usize]);
                    let text = text.map_err(|_| {
                        let (start, end) = (range.start(), range.end());
                        OpenCause::Corrupt(format!("the value of {start}..={end} is not UTF-8"))
                    });
                    Ok((range, text?))
                });
                Ok((Self::filled(file.view().len(), all)?, file.file_bytes()))
            }
            Err(OpenCause::NotByteStrings { .. }) => {
                let file = MapleFile::<u64>::open(path).map_err(|error| error.cause)?;
                let all = file.view().iter();
                let all = all.map(|(range, number)| Ok((range, number.to_string())));
                Ok((Self::filled(file.view().len(), all)?, file.file_bytes()))
            }
            Err(cause) => Err(cause),
        }
    }

    /// The ranges of a file.
    fn filled(
        count: usize,
        all: impl Iterator<Item = Result<(RangeInclusive<u64>, impl AsRef<str>), OpenCause>>,
    ) -> Result<Self, OpenCause> {
        let mut ranges = Ranges::default();
        let mut progress = Progress::new("reading ranges", Some(count as u64), false);
        for entry in all {
            let (range, text) = entry?;
            let number = ranges
                .push(text.as_ref())
                .map_err(|error| OpenCause::Table(error.into()))?;
            let stored = ranges.map.store(range, number);
            stored.map_err(|rejected| OpenCause::Table(rejected.error.into()))?;
            if ranges.texts.len() % 4096 == 0 {
                progress.at(ranges.texts.len() as u64);
            }
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
        let _held = HeldSignals::begin();
        let saved = self.map.read(|view| {
            let entries = view.iter();
            let entries = entries.map(|(range, number)| (range, self.text(*number).as_bytes()));
            save_strings(entries, target)
        });
        saved.map_err(|error| match error.cause {
            SaveCause::Io(source) => Error::write(output)(source),
            cause => Error::write(output)(io::Error::other(cause)),
        })
    }
}

#[cfg(test)]
mod tests {
    use sapwood::maple::is_range_file;

    use super::*;

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
        assert!(is_range_file(&path));
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
    fn numbers_are_read_as_texts_and_other_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        let numbers = MapleMap::from_iter([(0..=9, 7u64), (20..=29, u64::MAX)]);
        numbers.snapshot().save(&path).unwrap();
        let (ranges, _) = Ranges::open(&path).unwrap();
        let texts = [5, 25].map(|index| ranges.text(ranges.map.get(index).unwrap()));
        assert_eq!(texts, ["7", "18446744073709551615"]);
        save_strings([(5..=6, &b"five"[..]), (9..=9, b"\xff")], &path).unwrap();
        let error = Ranges::open_checked(&path).err().unwrap().to_string();
        assert!(error.contains("the value of 9..=9 is not UTF-8"), "{error}");
        let narrow = MapleMap::from_iter([(0..=9, 7u32)]);
        narrow.snapshot().save(&path).unwrap();
        let error = Ranges::open_checked(&path).err().unwrap().to_string();
        assert!(error.contains("the file has values of 4 bytes"), "{error}");
    }
}

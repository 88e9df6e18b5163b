//! Live maps of ranges, for the queries.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use sapwood::maple::MapleMap;
use sapwood::qp::OpenCause;
use sapwood_live::{CheckedLiveReader, Error as LiveError, LiveIdle, LiveReader, LiveTextReader};

use super::{checked, data_bytes, known_or_checked};
use crate::errors::Error;
use crate::ranges::table::Ranges;

/// The attempts to check a map in front of a writer.
const TRIES: usize = 100;

/// A reader of a live map, whose values are the numbers of its texts.
pub struct LiveRanges {
    map: Map,
    texts: LiveTextReader,
}

enum Map {
    Known(Box<LiveIdle<MapleMap<u32>>>),
    Checked(CheckedLiveReader<MapleMap<u32>>),
}

type Range = RangeInclusive<u64>;

impl Map {
    /// The range that has a number, and its value; or the gap that has it.
    fn locate(&mut self, index: u64) -> Result<(Range, Option<u32>), LiveError> {
        match self {
            Map::Known(map) => map.read(|view| {
                let (range, number) = view.locate(index);
                (range, number.copied())
            }),
            Map::Checked(map) => map.read(|view| {
                if let Some((range, number)) = view.get(index)? {
                    return Ok((range, Some(number)));
                }
                let (mut start, mut end) = (0, u64::MAX);
                for entry in view.iter() {
                    let (range, _) = entry?;
                    if *range.start() > index {
                        end = range.start() - 1;
                        break;
                    }
                    // No gap is behind the last number, so the index would be in this range.
                    start = range.end().saturating_add(1);
                }
                Ok((start..=end, None))
            }),
        }
    }

    /// All ranges with their values.
    fn all(&mut self) -> Result<Vec<(Range, u32)>, LiveError> {
        match self {
            Map::Known(map) => map.read(|view| {
                let all = view.iter();
                all.map(|(range, number)| (range, *number)).collect()
            }),
            Map::Checked(map) => map.read(|view| view.iter().collect()),
        }
    }
}

impl LiveRanges {
    /// Opens the live map in a directory.
    pub fn open(path: &Path, wait: Duration) -> Result<Self, Error> {
        let known = || {
            Ok(LiveRanges {
                map: Map::Known(Box::new(LiveReader::open_within(path, wait)?.idle())),
                texts: LiveTextReader::open(path)?,
            })
        };
        let checked = || {
            Ok(LiveRanges {
                map: Map::Checked(CheckedLiveReader::open_unregistered(path)?),
                texts: LiveTextReader::open_unregistered(path)?,
            })
        };
        Ok(known_or_checked(path, known, checked)?)
    }

    /// The range that has a number, and its text; or the gap that has it.
    pub fn locate(&mut self, index: u64) -> Result<(Range, Option<String>), Error> {
        let map = &mut self.map;
        self.texts.find(|text| {
            let (range, number) = map.locate(index)?;
            Ok(match number {
                None => Some((range, None)),
                Some(number) => text(number).map(|text| (range, Some(text))),
            })
        })
    }
}

/// A copy of a live map. Beside a writer, each range was there at some time.
pub fn whole(path: &Path, wait: Duration) -> Result<Ranges, Error> {
    let mut live = LiveRanges::open(path, wait)?;
    let map = &mut live.map;
    live.texts.find(|text| {
        let mut ranges = Ranges::default();
        for (range, number) in map.all()? {
            let Some(text) = text(number) else {
                return Ok(None);
            };
            let number = ranges.push(&text)?;
            let stored = ranges.map().store(range, number);
            stored.map_err(sapwood::Error::from)?;
        }
        Ok(Some(ranges))
    })
}

/// Checks all of a live map; returns the number of ranges and the bytes that they take, or what is
/// wrong. A map that changes meanwhile is checked again.
pub fn verified(path: &Path, wait: Duration) -> Result<Result<(usize, usize), OpenCause>, Error> {
    let mut map = checked::<MapleMap<u32>>(path, wait)?;
    let mut tries = TRIES;
    loop {
        map.quiescent()?;
        let checked = map.view().and_then(|view| view.verify());
        tries -= 1;
        match checked {
            Ok(count) => return Ok(Ok((count, data_bytes(path)?))),
            Err(LiveError::Damaged { why, .. }) if tries == 0 || !map.has_writer()? => {
                return Ok(Err(OpenCause::Corrupt(why)));
            }
            Err(error) if tries == 0 => return Err(error.into()),
            Err(_) => {}
        }
    }
}

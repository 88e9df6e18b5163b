//! Live maps of ranges, for the queries.

use std::ops::RangeInclusive;
use std::path::Path;

use sapwood::maple::MapleMap;
use sapwood::qp::OpenCause;
use sapwood_live::{CheckedLiveReader, Error as LiveError, LiveIdle, LiveReader, LiveTextReader};

use super::data_bytes;
use crate::errors::Error;
use crate::ranges::table::Ranges;

/// The attempts to check a map in front of a writer.
const TRIES: usize = 100;

/// A reader of a live map, whose values are the numbers of its texts.
pub struct LiveRanges {
    map: LiveIdle<MapleMap<u32>>,
    texts: LiveTextReader,
}

impl LiveRanges {
    /// Opens the live map in a folder.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(LiveRanges {
            map: LiveReader::open(path)?.idle(),
            texts: LiveTextReader::open(path)?,
        })
    }

    /// The range that has a number, and its text; or the gap that has it.
    pub fn locate(&mut self, index: u64) -> Result<(RangeInclusive<u64>, Option<String>), Error> {
        let map = &mut self.map;
        self.texts.find(|text| {
            let (range, number) = map.read(|view| {
                let (range, number) = view.locate(index);
                (range, number.copied())
            })?;
            Ok(match number {
                None => Some((range, None)),
                Some(number) => text(number).map(|text| (range, Some(text))),
            })
        })
    }
}

/// A copy of a live map. Beside a writer, each range was there at some time.
pub fn whole(path: &Path) -> Result<Ranges, Error> {
    let mut live = LiveRanges::open(path)?;
    let map = &mut live.map;
    live.texts.find(|text| {
        let all: Vec<_> = map.read(|view| {
            let all = view.iter();
            all.map(|(range, number)| (range, *number)).collect()
        })?;
        let mut ranges = Ranges::default();
        for (range, number) in all {
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
pub fn verified(path: &Path) -> Result<Result<(usize, usize), OpenCause>, Error> {
    let mut map = CheckedLiveReader::<MapleMap<u32>>::open(path)?;
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

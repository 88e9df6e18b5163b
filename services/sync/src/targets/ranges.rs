//! Maps of ranges that follow.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use sapwood::maple::MapleMap;
use sapwood_live::{Live, LiveTexts};

use super::names::BUDGET;
use super::{Each, Target};
use crate::ranges::{entry, key, start, value};
use crate::{Changes, Error};

/// A live map of ranges that follows, and the texts of its values, as `sapwood ranges serve` keeps
/// them. A range that overlaps one that the commit does not change is an [`Error::Change`].
///
/// A commit changes range by range: readers may see a part of it for a moment, but they find at any
/// time a range that is there before and after it, with the old text or the new one. When there is
/// no memory left, a part of the commit may stay: the follower then compares the whole map.
pub struct LiveRangesTarget {
    map: Live<MapleMap<u32>>,
    texts: LiveTexts,
}

impl LiveRangesTarget {
    /// A map and its texts, which this process has made or taken over.
    pub fn new(map: Live<MapleMap<u32>>, mut texts: LiveTexts) -> Self {
        for (_, number) in map.iter() {
            texts.used(number);
        }
        LiveRangesTarget { map, texts }
    }

    /// The map.
    pub fn map(&self) -> &Live<MapleMap<u32>> {
        &self.map
    }

    /// Deletes the map and its texts.
    ///
    /// # Errors
    /// As [`Live::remove_map`].
    pub fn remove_map(self) -> Result<(), sapwood_live::Error> {
        // The directory of the texts lies in that of the map.
        self.map.remove_map()
    }

    fn value(&self, range: &RangeInclusive<u64>, number: u32) -> Option<Vec<u8>> {
        Some(value(*range.end(), self.texts.text(number)?))
    }

    /// The range that begins at a number.
    fn at(&self, start: u64) -> Option<(RangeInclusive<u64>, u32)> {
        let found = self.map.get_entry(start)?;
        (*found.0.start() == start).then_some(found)
    }
}

/// The ranges that a commit changes, each once, by their starts; `None` removes a range.
type Wanted<'c> = BTreeMap<u64, Option<(u64, &'c str)>>;

fn wanted(changes: &Changes) -> Result<Wanted<'_>, Error> {
    let mut wanted = BTreeMap::new();
    for change in changes.iter() {
        let range = match change.value {
            Some(value) => {
                let (range, text) = entry(change.key, value)?;
                Some((*range.end(), text))
            }
            None => None,
        };
        wanted.insert(start(change.key)?, range);
    }
    let mut before: Option<(u64, u64)> = None;
    for (&start, range) in &wanted {
        let Some((end, _)) = range else { continue };
        if let Some((from, to)) = before.filter(|(_, to)| *to >= start) {
            return Err(overlap(start..=*end, from..=to));
        }
        before = Some((start, *end));
    }
    Ok(wanted)
}

fn overlap(new: RangeInclusive<u64>, old: RangeInclusive<u64>) -> Error {
    Error::Change(format!(
        "the range {} to {} overlaps {} to {}",
        new.start(),
        new.end(),
        old.start(),
        old.end()
    ))
}

impl Target for LiveRangesTarget {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (range, number) = self.at(start(key).ok()?)?;
        self.value(&range, number)
    }

    fn for_each(&self, each: &mut Each<'_>) -> Result<(), Error> {
        let all: Vec<_> = self.map.iter().collect();
        for (range, number) in all {
            // What a new owner finds without a text differs from any range, and is replaced.
            let value = self.value(&range, number).unwrap_or_default();
            each(&key(*range.start()), &value)?;
        }
        Ok(())
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        let wanted = wanted(changes)?;
        let mut olds = Vec::new();
        for (&start, range) in &wanted {
            olds.extend(self.at(start));
            let Some((end, _)) = range else { continue };
            for (old, _) in self.map.range(start..=*end) {
                if !wanted.contains_key(old.start()) {
                    return Err(overlap(start..=*end, old));
                }
            }
        }
        let texts = wanted.values().flatten().map(|(_, text)| *text);
        let numbers = self.texts.numbers(texts).map_err(Error::map)?;
        let puts = wanted.iter().filter_map(|(&start, range)| {
            let (end, _) = range.as_ref()?;
            Some(start..=*end)
        });
        let mut writer = self.map.write();
        for (range, &number) in puts.zip(&numbers) {
            let stored = writer.store(range, number);
            stored.map_err(|rejected| Error::map(rejected.error))?;
            self.texts.used(number);
        }
        // What is left of old ranges: parts that no new range has taken.
        for (old, number) in olds {
            let rest: Vec<_> = writer.view().range(old).map(|(range, _)| range).collect();
            for range in rest {
                let is_new = wanted.get(range.start()).is_some_and(Option::is_some);
                if !is_new {
                    writer.remove(*range.start()).map_err(Error::map)?;
                }
            }
            self.texts.left(number);
        }
        Ok(())
    }

    fn reclaim(&mut self) {
        self.map.reclaim(BUDGET);
        self.texts.tidy(BUDGET);
    }
}

//! `ranges serve`: keeps a live map of ranges.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;

use sapwood::maple::MapleMap;
use sapwood_live::{Live, LiveTexts, Unpublished};
use serde_json::Value;

use super::changes::{Asked, Change, Difference, Made};
use super::metrics::State;
use super::serve::{self, BUDGET, Served, Signals};
use crate::cli::ranges::ServeArgs;
use crate::errors::{Error, Outcome, complain};
use crate::numbers::{Base, number};
use crate::output::Output;
use crate::ranges::build;
use crate::ranges::query::entry_json;
use crate::ranges::table::Ranges;
use crate::ranges::text::{overlap, parse_entry, parse_index};
use crate::span;

/// A live map of ranges.
struct Map<'a> {
    map: Live<MapleMap<u32>>,
    texts: LiveTexts,
    args: &'a ServeArgs,
}

/// Serves a map.
pub fn run(args: &ServeArgs) -> Outcome {
    let _serve = span!(INFO, "serve", map = %args.keep.live.display());
    let begun = serve::begin(&[&args.list.input], &args.keep)?;
    let ranges = build::list(&args.list)?;
    let signals = Signals::begin()?;
    let folder = &args.keep.live;
    let (map, texts, made) = serve::keep_with_texts(folder, &args.keep)?;
    let is_new = made.is_some();
    let mut map = Map { map, texts, args };
    for (_, number) in map.map.iter() {
        map.texts.used(number);
    }
    let difference = map.adopt(&ranges)?;
    made.map_or(Ok(()), Unpublished::publish)?;
    let count = ranges.map().len();
    let quiet = args.list.quiet;
    serve::report(
        folder,
        &format!("{count} ranges, live"),
        is_new,
        difference,
        quiet,
    );
    if count == 0 {
        complain(&format!("{}: warning: no ranges", folder.display()));
    }
    drop(ranges);
    let out = Output::lines(args.keep.json);
    serve::serve(map, &args.keep, out, (signals, begun), difference)
}

impl Map<'_> {
    /// Stores a range in place of all that it overlaps; returns whether there was anything.
    fn store(&mut self, range: RangeInclusive<u64>, number: u32) -> Result<bool, sapwood::Error> {
        let over: Vec<_> = self.map.range(range.clone()).collect();
        self.map
            .store(range.clone(), number)
            .map_err(sapwood::Error::from)?;
        self.texts.used(number);
        for (old, number) in &over {
            // What reaches out of the new range stays.
            for _ in
                0..usize::from(old.start() < range.start()) + usize::from(old.end() > range.end())
            {
                self.texts.used(*number);
            }
            self.texts.left(*number);
        }
        Ok(!over.is_empty())
    }

    /// Removes the range that has a number; returns whether there was one.
    fn remove_at(&mut self, index: u64) -> Result<bool, sapwood::Error> {
        let old = self.map.remove(index)?;
        old.iter().for_each(|(_, number)| self.texts.left(*number));
        Ok(old.is_some())
    }

    /// Makes the map what the ranges say, range by range.
    fn adopt(&mut self, ranges: &Ranges) -> Result<Difference, Error> {
        let span = Difference::span();
        let mut wanted = Vec::new();
        ranges.each(0..=u64::MAX, |range, text| {
            wanted.push((range, text.to_owned()));
            Ok(())
        })?;
        let numbers = self.texts.numbers(wanted.iter().map(|(_, text)| &**text))?;
        let mut wanted: HashMap<_, _> = wanted
            .into_iter()
            .map(|(range, _)| range)
            .zip(numbers)
            .collect();
        let mut difference = Difference::default();
        let old: Vec<_> = self.map.iter().collect();
        for (range, old) in old {
            match wanted.get(&range) {
                Some(new) if *new == old => {
                    wanted.remove(&range);
                }
                Some(_) => difference.changed += 1,
                None => {
                    self.remove_at(*range.start())?;
                    difference.removed += 1;
                }
            }
        }
        difference.added = wanted.len() as u64 - difference.changed;
        difference.note_in(&span);
        let _commit = span!(INFO, "commit", map = %self.args.keep.live.display());
        for (range, number) in wanted {
            self.store(range, number)?;
        }
        Ok(difference)
    }

    /// Makes one change.
    fn change(&mut self, asked: &Asked<Entry>) -> Result<Made, Error> {
        let Change::Add((range, text)) = &asked.change else {
            let index = String::from_utf8_lossy(&asked.key);
            let index = number(&index).map_err(Error::Usage)?;
            return Ok(Made::new(false, self.remove_at(index)?));
        };
        let other = self.map.range(range.clone()).find(|(old, _)| old != range);
        if let Some((old, _)) = other
            && !self.args.list.overwrite
        {
            return Err(Error::Usage(overlap(range, &old)));
        }
        let numbers = self.texts.numbers([&**text])?;
        Ok(Made::new(true, self.store(range.clone(), numbers[0])?))
    }
}

/// A range and its text.
type Entry = (RangeInclusive<u64>, String);

impl Served for Map<'_> {
    type Value = Entry;

    fn list(&self) -> &Path {
        &self.args.list.input
    }

    fn parse_entry(&self, text: &[u8]) -> Result<(Vec<u8>, Entry), String> {
        let (range, text) = parse_entry(text)?;
        let key = Base::Ten.span(&range).into_bytes();
        Ok((key, (range, text.to_owned())))
    }

    fn parse_key(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        parse_index(text)
    }

    fn make(&mut self, changes: &[Asked<Entry>]) -> Result<Vec<Made>, Error> {
        changes.iter().map(|asked| self.change(asked)).collect()
    }

    fn reload(&mut self) -> Result<Difference, Error> {
        let ranges = build::list(&self.args.list)?;
        self.adopt(&ranges)
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, Value)> {
        let index = number(std::str::from_utf8(key).ok()?).ok()?;
        let (range, number) = self.map.get_entry(index)?;
        let text = self.texts.text(number)?;
        let line = format!("{}\t{}\t{text}", range.start(), range.end());
        Some((line.into_bytes(), entry_json(&range, text)))
    }

    fn state(&self) -> State {
        let (memory, (text_bytes, text_garbage)) = (self.map.memory(), self.texts.bytes());
        let mut state = State {
            entries: self.map.len(),
            bytes: memory.total() + text_bytes,
            memory: vec![
                ("leaves", memory.leaves.1),
                ("inner", memory.inner.1),
                ("values", memory.values.1),
                ("reserved", memory.reserved.1),
                ("pooled", memory.pooled),
                ("free", memory.arena.free),
                ("texts", text_bytes),
            ],
            garbage: memory.waiting.1 + text_garbage,
            generation: self.map.generation(),
            readers: self.map.readers(),
            ..State::default()
        };
        state.note(self.map.domain());
        state
    }

    fn reclaim(&mut self) {
        self.map.reclaim(BUDGET);
        self.texts.tidy(BUDGET);
    }

    fn remove(self) -> Result<(), Error> {
        // The directory of the texts lies in that of the map.
        Ok(self.map.remove_map()?)
    }
}

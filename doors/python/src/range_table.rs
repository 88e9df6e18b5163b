//! What the methods of `RangeMap` are made of: ranges in a map, and their objects by number.

use std::path::Path;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sapwood::maple::{MapleFile, MapleMap, save_strings};
use sapwood::qp::OpenCause;

use crate::address::shown;
use crate::errors::{not_opened, not_saved, refused, wrong_file};
use crate::numbers::whole;
use crate::objects::{Objects, SharedObjects};
use crate::pairs::pairs;
use crate::range_keys::{Key, Range, place, range_or_index};
use crate::range_reader::{Entry, Ranges, View, clipped, wide};
use crate::range_txn::{Draft, Held, Turn};
use crate::ranges::RangeMap;
use crate::snapshot_iter::{Kind, Numbered, Place, SnapshotIter};

/// Ranges with the numbers of their objects.
#[derive(Default)]
pub struct RangeTable {
    pub map: MapleMap<u32>,
    pub objects: SharedObjects,
    /// Who may change the map.
    pub turn: Turn,
    /// Of the copy that a transaction changes.
    draft: Option<Draft>,
}

/// An entry with the object of its number.
pub fn of_entry(
    py: Python<'_>,
    objects: &Objects,
    (range, number): Entry,
) -> Option<(Range, Py<PyAny>)> {
    let object = objects.get(number as u32)?;
    Some((range, object.clone_ref(py)))
}

/// The numbers of objects, each of which gets one more entry.
fn taken(objects: &mut Objects, values: &[Bound<'_, PyAny>]) -> PyResult<Vec<u32>> {
    let mut numbers = Vec::with_capacity(values.len());
    for value in values {
        match objects.take(value) {
            Ok(number) => numbers.push(number),
            Err(error) => {
                given_back(objects, &numbers);
                return Err(error);
            }
        }
    }
    Ok(numbers)
}

fn given_back(objects: &mut Objects, numbers: &[u32]) {
    for number in numbers {
        objects.give_back(*number);
    }
}

impl Ranges for RangeTable {
    fn read(&self, f: &mut dyn FnMut(View<'_>)) -> PyResult<()> {
        self.open()?;
        self.map.read(|view| f(View::Names(view)));
        Ok(())
    }

    fn at(&self, index: u64) -> PyResult<Option<Entry>> {
        self.open()?;
        let found = self.map.get_entry(index);
        Ok(found.map(|(range, number)| (range, number.into())))
    }

    fn one(
        &self,
        py: Python<'_>,
        find: &dyn Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<(Range, Py<PyAny>)>> {
        self.objects.with(py, |objects| {
            Ok(find()?.and_then(|entry| of_entry(py, objects, entry)))
        })
    }

    fn all(&self, py: Python<'_>, within: &Range) -> PyResult<Vec<(Range, Py<PyAny>)>> {
        self.open()?;
        Ok(self.objects.with(py, |objects| {
            self.map.read(|view| {
                let entries = view.range(within.clone()).map(wide);
                entries
                    .filter_map(|entry| of_entry(py, objects, entry))
                    .collect()
            })
        }))
    }
}

impl RangeTable {
    /// An error when this is the copy of a transaction that has ended.
    pub fn open(&self) -> PyResult<()> {
        self.draft.as_ref().map_or(Ok(()), Draft::open)
    }

    /// Ends the transaction whose copy this is.
    pub fn end(&self) {
        if let Some(draft) = &self.draft {
            draft.end();
        }
    }

    /// Lets go of the objects of a copy that nobody asks any more, except of those that iterators
    /// and snapshots read.
    pub fn let_go(&self, py: Python<'_>) {
        self.objects.with(py, Objects::give_all_back);
    }

    /// Another table with the same ranges and the same objects.
    pub fn copied(&self, py: Python<'_>, draft: Option<Draft>) -> PyResult<RangeTable> {
        self.open()?;
        self.objects.with(py, |objects| {
            Ok(RangeTable {
                map: self.map.dup().map_err(refused)?,
                objects: objects.duplicate(py).into(),
                turn: Turn::default(),
                draft,
            })
        })
    }

    /// Calls a function that changes the map, when nobody else has the map for himself. It calls no
    /// code of users.
    pub fn changing<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Objects) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut f = Some(f);
        loop {
            let done = self.objects.with(py, |objects| {
                self.open()?;
                match self.turn.is_mine()? {
                    true => f.take().map(|f| f(objects)).transpose(),
                    false => Ok(None),
                }
            })?;
            match done {
                Some(done) => return Ok(done),
                None => self.turn.wait(py)?,
            }
        }
    }

    /// Stores all items, and the named arguments, one after the other.
    pub fn update(
        &self,
        items: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        for pair in pairs(items, others)? {
            let (range, value) = pair?;
            self.put(range_or_index(&range)?, &value, false)?;
        }
        Ok(())
    }

    /// The numbers of the entries that a change within ranges may touch: also those beside them.
    fn touched(&self, ranges: &[Range]) -> Vec<u32> {
        let mut found = Vec::new();
        for range in ranges {
            let wider = range.start().saturating_sub(1)..=range.end().saturating_add(1);
            let entries = self.map.range(wider);
            found.extend(entries.map(|(range, number)| (*range.start(), number)));
        }
        if ranges.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found.into_iter().map(|(_, number)| number).collect()
    }

    /// Changes entries within ranges, and counts how often each number is there before and after.
    pub(crate) fn change<R>(
        &self,
        objects: &mut Objects,
        ranges: &[Range],
        f: impl FnOnce(&MapleMap<u32>) -> Result<R, sapwood::maple::Error>,
    ) -> PyResult<R> {
        let before = self.touched(ranges);
        let result = f(&self.map).map_err(refused)?;
        self.note(ranges);
        for number in self.touched(ranges) {
            objects.again(number);
        }
        given_back(objects, &before);
        Ok(result)
    }

    /// Remembers what a transaction has changed.
    fn note(&self, ranges: &[Range]) {
        if let Some(draft) = &self.draft {
            draft.note(ranges);
        }
    }

    /// Gives the parts of entries in a range the values that a function makes of theirs.
    pub fn modify(
        self: &Arc<Self>,
        py: Python<'_>,
        range: Range,
        f: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let held = Held::new(py, self)?;
        let mut values = Vec::new();
        for entry in self.all(py, &range)? {
            let (part, value) = clipped(entry, &range);
            values.push(f.call1((place(py, &part)?, value))?);
        }
        self.objects.with(py, |objects| {
            // Objects that are let go at the end may change the map.
            let _held = held;
            self.open()?;
            let numbers = taken(objects, &values)?;
            let mut next = numbers.iter();
            let done = self.change(objects, std::slice::from_ref(&range), |map| {
                map.modify_range(range.clone(), |_, old| *next.next().unwrap_or(old))
            });
            given_back(objects, &numbers);
            done
        })
    }

    /// Moves what is in a range to another one, which begins at an index.
    pub fn move_range(&self, py: Python<'_>, range: Range, to: u64) -> PyResult<()> {
        let last = to.saturating_add(range.end() - range.start());
        self.changing(py, |objects| {
            self.change(objects, &[range.clone(), to..=last], |map| {
                map.move_range(range, to)
            })
        })
    }

    /// Clears a range and returns the parts of entries that were there.
    pub fn take(&self, py: Python<'_>, range: Range) -> PyResult<Vec<(Range, Py<PyAny>)>> {
        self.changing(py, |objects| {
            let removed = self.change(objects, std::slice::from_ref(&range), |map| {
                map.take_range(range.clone())
            })?;
            // The numbers keep their objects until the lock is released.
            let parts = removed.into_iter();
            let parts = parts.map(|(range, number)| (range, number.into()));
            Ok(parts
                .filter_map(|part| of_entry(py, objects, part))
                .collect())
        })
    }

    /// Puts what the copy of a transaction has changed into the map, which the transaction has for
    /// itself.
    pub fn take_over(&self, py: Python<'_>, copy: &RangeTable, held: Held) -> PyResult<()> {
        let changed = copy.draft.as_ref().map(Draft::changed).unwrap_or_default();
        if changed.is_empty() {
            return Ok(());
        }
        let entries = changed
            .iter()
            .flat_map(|range| copy.map.range(range.clone()));
        let mut entries: Vec<_> = entries.collect();
        entries.dedup();
        let values: Vec<_> = copy.objects.with(py, |objects| {
            let object = |(_, number): &(Range, u32)| Some(objects.get(*number)?.bind(py).clone());
            entries.iter().filter_map(object).collect()
        });
        self.objects.with(py, |objects| {
            // Objects that are let go at the end may change the map.
            let _held = held;
            self.open()?;
            let numbers = taken(objects, &values)?;
            let ranges: Vec<_> = entries.into_iter().map(|(range, _)| range).collect();
            let touched = [&changed[..], &ranges].concat();
            let done = self.change(objects, &touched, |map| {
                let mut txn = map.begin();
                for range in changed {
                    txn.clear_range(range)?;
                }
                for (range, number) in ranges.into_iter().zip(&numbers) {
                    txn.store(range, *number)?;
                }
                txn.commit();
                Ok(())
            });
            given_back(objects, &numbers);
            done
        })
    }

    /// Makes a range one entry; returns its range.
    pub(crate) fn put(
        &self,
        range: Range,
        value: &Bound<'_, PyAny>,
        coalesce: bool,
    ) -> PyResult<Range> {
        self.changing(value.py(), |objects| {
            self.put_in(objects, range, value, coalesce)
        })
    }

    pub(crate) fn put_in(
        &self,
        objects: &mut Objects,
        range: Range,
        value: &Bound<'_, PyAny>,
        coalesce: bool,
    ) -> PyResult<Range> {
        let number = objects.take(value)?;
        let stored = self.change(
            objects,
            std::slice::from_ref(&range),
            |map| match coalesce {
                true => Ok(map.store_coalescing(range.clone(), number)?),
                false => {
                    map.store(range.clone(), number)?;
                    Ok(range.clone())
                }
            },
        );
        // The entry has been counted, too.
        objects.give_back(number);
        stored
    }

    /// Stores a value where nothing else is changed.
    pub(crate) fn add(
        &self,
        value: &Bound<'_, PyAny>,
        f: impl FnOnce(&MapleMap<u32>, u32) -> Result<Range, sapwood::maple::Error>,
    ) -> PyResult<Range> {
        self.changing(value.py(), |objects| {
            let number = objects.take(value)?;
            match f(&self.map, number) {
                Ok(range) => {
                    self.note(std::slice::from_ref(&range));
                    Ok(range)
                }
                Err(error) => {
                    objects.give_back(number);
                    Err(refused(error))
                }
            }
        })
    }

    pub(crate) fn erase(&self, py: Python<'_>, range: &Range) -> PyResult<()> {
        self.changing(py, |objects| {
            self.change(objects, std::slice::from_ref(range), |map| {
                map.clear_range(range.clone())
            })
        })
    }

    pub(crate) fn entries(&self, range: Range) -> Vec<(Place, u32)> {
        let entries = self.map.range(range);
        let place = |range: Range| Place::Range(*range.start(), *range.end());
        entries
            .map(|(range, number)| (place(range), number))
            .collect()
    }

    #[inline]
    pub(crate) fn number(&self, key: &Key) -> Option<u32> {
        match key {
            Key::Index(index) => self.map.get(*index),
            Key::Range(_) => {
                let found = self.map.get_entry(key.first());
                found
                    .filter(|(range, _)| key.fits(range))
                    .map(|(_, number)| number)
            }
        }
    }

    /// The entry that `remove` removes, as objects.
    pub(crate) fn removed<'py>(
        &self,
        py: Python<'py>,
        remove: impl FnOnce(&MapleMap<u32>) -> Result<Option<(Range, u32)>, sapwood::maple::Error>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        let removed = self.changing(py, |objects| {
            let Some((range, number)) = remove(&self.map).map_err(refused)? else {
                return Ok(None);
            };
            self.note(std::slice::from_ref(&range));
            let value = objects.get(number).map(|value| value.clone_ref(py));
            objects.give_back(number);
            Ok(value.map(|value| (range, value)))
        })?;
        removed
            .map(|(range, value)| Ok((place(py, &range)?, value)))
            .transpose()
    }
}

impl RangeMap {
    pub(crate) fn iter(
        slf: &Bound<'_, Self>,
        range: Range,
        kind: Kind,
        back: bool,
    ) -> PyResult<SnapshotIter> {
        slf.get().table.open()?;
        let map = Numbered::Ranges(slf.clone().unbind());
        let entries = || slf.get().table.entries(range);
        Ok(SnapshotIter::new(slf.py(), map, kind, back, entries))
    }
}

/// Saves a map with integers or texts for values.
pub fn save(map: &Bound<'_, RangeMap>, path: &Path) -> PyResult<()> {
    let py = map.py();
    let mut all = RangeMap::iter(map, 0..=u64::MAX, Kind::Items, false)?;
    let (numbers, mut texts) = (MapleMap::<u64>::new(), Vec::new());
    while let Some((place, value)) = all.next_pair(py) {
        let Place::Range(start, end) = place else {
            continue;
        };
        let value = value.bind(py);
        if let (Ok(text), true) = (value.cast::<PyString>(), numbers.is_empty()) {
            texts.push((start..=end, text.to_str()?.to_owned()));
            continue;
        }
        let number: Option<u64> = whole(value)?;
        let number = number.filter(|_| texts.is_empty()).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{} cannot be saved: a file has values that are all int from 0 to 2**64 - 1, or \
                 all str",
                shown(value)
            ))
        })?;
        let stored = numbers.store(start..=end, number);
        stored.map_err(|rejected| refused(rejected.error))?;
    }
    py.detach(|| match texts.is_empty() {
        true => numbers.snapshot().save(path),
        false => save_strings(texts, path),
    })
    .map_err(|error| not_saved(&error))
}

/// A map of the entries of a file of numbers or of texts.
pub fn load(py: Python<'_>, path: &Path) -> PyResult<RangeTable> {
    let map = RangeTable::default();
    let file = match py.detach(|| MapleFile::<u64>::open(path)) {
        Ok(file) => file,
        Err(error) if matches!(error.cause, OpenCause::ByteStrings { .. }) => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
            let file = py.detach(|| MapleFile::open_strings(path, text));
            for (range, text) in file.map_err(|error| not_opened(&error))?.view() {
                let Some(text) = text else {
                    let (start, end) = (range.start(), range.end());
                    let what = format!("the value of {start} to {end} is not UTF-8");
                    return Err(wrong_file(path, what));
                };
                map.put(range, PyString::new(py, text).as_any(), false)?;
            }
            return Ok(map);
        }
        Err(error) => return Err(not_opened(&error)),
    };
    for (range, value) in file.view() {
        map.put(range, value.into_pyobject(py)?.as_any(), false)?;
    }
    Ok(map)
}

//! What the methods of `RangeMap` are made of: ranges in a map, and their objects by number.

use std::path::Path;

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
use crate::range_reader::{Entry, Ranges, View};
use crate::ranges::RangeMap;
use crate::snapshot_iter::{Kind, Numbered, Place, SnapshotIter};

/// Ranges with the numbers of their objects.
#[derive(Default)]
pub struct RangeTable {
    pub map: MapleMap<u32>,
    pub objects: SharedObjects,
}

impl Ranges for RangeTable {
    fn read(&self, f: &mut dyn FnMut(View<'_>)) -> PyResult<()> {
        self.map.read(|view| f(View::Names(view)));
        Ok(())
    }

    fn at(&self, index: u64) -> PyResult<Option<Entry>> {
        let found = self.map.get_entry(index);
        Ok(found.map(|(range, number)| (range, number.into())))
    }

    fn one(
        &self,
        py: Python<'_>,
        find: &dyn Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<(Range, Py<PyAny>)>> {
        self.objects.with(py, |objects| {
            let object = |(range, number): Entry| {
                let object = objects.get(number as u32)?;
                Some((range, object.clone_ref(py)))
            };
            Ok(find()?.and_then(object))
        })
    }
}

impl RangeTable {
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

    /// The numbers of the entries that a change within a range may touch: also those beside it.
    pub(crate) fn touched(&self, range: &Range) -> Vec<u32> {
        let wider = range.start().saturating_sub(1)..=range.end().saturating_add(1);
        self.map.range(wider).map(|(_, number)| number).collect()
    }

    /// Changes entries within a range, and counts how often each number is there before and after.
    pub(crate) fn change<R>(
        &self,
        objects: &mut Objects,
        range: &Range,
        f: impl FnOnce(&MapleMap<u32>) -> Result<R, sapwood::maple::Error>,
    ) -> PyResult<R> {
        let before = self.touched(range);
        let result = f(&self.map).map_err(refused)?;
        for number in self.touched(range) {
            objects.again(number);
        }
        for number in before {
            objects.give_back(number);
        }
        Ok(result)
    }

    /// Makes a range one entry; returns its range.
    pub(crate) fn put(
        &self,
        range: Range,
        value: &Bound<'_, PyAny>,
        coalesce: bool,
    ) -> PyResult<Range> {
        self.objects.with(value.py(), |objects| {
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
        let stored = self.change(objects, &range, |map| match coalesce {
            true => Ok(map.store_coalescing(range.clone(), number)?),
            false => {
                map.store(range.clone(), number)?;
                Ok(range.clone())
            }
        });
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
        self.objects.with(value.py(), |objects| {
            let number = objects.take(value)?;
            f(&self.map, number).map_err(|error| {
                objects.give_back(number);
                refused(error)
            })
        })
    }

    pub(crate) fn erase(&self, py: Python<'_>, range: &Range) -> PyResult<()> {
        self.objects.with(py, |objects| {
            self.change(objects, range, |map| map.clear_range(range.clone()))
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
        let removed = self.objects.with(py, |objects| {
            let Some((range, number)) = remove(&self.map).map_err(refused)? else {
                return Ok(None);
            };
            let value = objects.get(number).map(|value| value.clone_ref(py));
            objects.give_back(number);
            Ok::<_, PyErr>(value.map(|value| (range, value)))
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
    ) -> SnapshotIter {
        let map = Numbered::Ranges(slf.clone().unbind());
        SnapshotIter::new(slf.py(), map, kind, back, || slf.get().table.entries(range))
    }
}

/// Saves a map with integers or texts for values.
pub fn save(map: &Bound<'_, RangeMap>, path: &Path) -> PyResult<()> {
    let py = map.py();
    let mut all = RangeMap::iter(map, 0..=u64::MAX, Kind::Items, false);
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

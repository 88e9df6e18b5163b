//! `RangeMap`: ranges of indices to any objects, and the gaps between them.

use std::path::PathBuf;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use sapwood::maple::MapleMap;

use crate::batch;
use crate::errors::refused;
use crate::fib_table::absent;
use crate::objects::SharedObjects;
use crate::pairs::{at_most_one, pairs};
use crate::range_keys;
use crate::range_keys::{Key, between, index, range_if, range_or_index, window};
use crate::range_table::{self, place};
use crate::snapshot_iter::{Kind, Place, SnapshotIter};

/// A map of ranges of indices, which do not overlap, to any objects.
///
/// An index is an int from 0 to 2**64 - 1. A range is a slice or a `range` with the step 1; None is
/// the beginning or the end of all indices, and a stop of 2**64 is allowed. `items` is a mapping,
/// or an iterable of pairs of a range and a value, stored one after the other. Ranges are returned
/// as `range`.
///
/// map[index] is the value at an index, map[range(a, b)] that of the entry with exactly this range;
/// `in`, get() and pop() do the same. So it is a collections.abc.MutableMapping of ranges, with
/// what a dict has, too: |, |=, fromkeys(), copy(). Two mappings are equal when dicts of their
/// items are. popitem() takes the last entry. `del map[range(a, b)]` clears these indices, whatever
/// entries they belong to.
///
/// >>> from sapwood import RangeMap
/// >>> memory = RangeMap()
/// >>> memory[0x1000:0x2000] = "text"
/// >>> memory[0x3000:0x5000] = "heap"
/// >>> memory[0x1234], 0x2000 in memory
/// ('text', False)
/// >>> memory[0x4000:0x4800] = "guard"  # cuts the entry
/// >>> list(memory.items(0x3000))
/// [(range(12288, 16384), 'heap'), (range(16384, 18432), 'guard'), (range(18432, 20480), 'heap')]
/// >>> memory.alloc(0x800, "stack", start=0x1000)
/// range(8192, 10240)
/// >>> memory.gaps(0x1000, 0x6000)
/// [range(10240, 12288), range(20480, 24576)]
#[pyclass(frozen, generic, mapping, weakref, module = "sapwood")]
pub struct RangeMap {
    pub(crate) map: MapleMap<u32>,
    pub(crate) objects: SharedObjects,
}

impl AsRef<SharedObjects> for &RangeMap {
    fn as_ref(&self) -> &SharedObjects {
        &self.objects
    }
}

#[pymethods]
impl RangeMap {
    #[new]
    #[pyo3(signature = (items=None))]
    fn new(items: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let map = Self::empty();
        map.update(items, None)?;
        Ok(map)
    }

    /// Stores all items of a mapping or of an iterable of pairs of a range and a value, one after
    /// the other. An error leaves the items before it stored.
    #[pyo3(signature = (items=None, /, **others))]
    fn update(
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

    fn __len__(&self) -> usize {
        self.map.len()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.find(key.py(), &Key::of(key)?);
        found.ok_or_else(|| absent(key))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(range_or_index(key)?, value, false).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if range_if(key)?.is_none() && !self.map.contains(index(key)?) {
            return Err(absent(key));
        }
        self.erase(key.py(), &range_or_index(key)?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.number(&Key::of(key)?).is_some())
    }

    /// The value at an index, or of the entry with exactly this range; `default` when there is
    /// none.
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(key.py(), &Key::of(key)?).or(default))
    }

    /// Removes the entry with exactly this range, or one index from the entry that holds it, and
    /// returns the value. When there is none, returns `default` or raises KeyError.
    #[pyo3(signature = (key, /, *default))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let default = at_most_one("pop", default)?;
        let at = Key::of(key)?;
        let value = self.objects.with(key.py(), |objects| {
            let Some(number) = self.number(&at) else {
                return Ok(None);
            };
            let value = objects.get(number).map(|value| value.clone_ref(key.py()));
            let range = at.range();
            self.change(objects, &range, |map| map.clear_range(range.clone()))?;
            Ok::<_, PyErr>(value)
        })?;
        value.or(default).ok_or_else(|| absent(key))
    }

    /// Removes the last entry and returns its range and its value; KeyError when there is none.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        let removed = self.removed(py, |map| match map.last() {
            Some((range, _)) => map.remove(*range.start()),
            None => Ok(None),
        });
        removed?.ok_or_else(|| PyKeyError::new_err("the map is empty"))
    }

    /// The value at an index, or of the entry with exactly this range; stores `default` there when
    /// there is none.
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let at = Key::of(key)?;
        let py = key.py();
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        self.objects.with(py, |objects| {
            if let Some(number) = self.number(&at)
                && let Some(value) = objects.get(number)
            {
                return Ok(value.clone_ref(py));
            }
            self.put_in(objects, at.range(), &default, false)?;
            Ok(default.clone().unbind())
        })
    }

    /// The range of the entry that holds an index, and its value; None in a gap.
    #[pyo3(name = "entry", signature = (index, /))]
    fn entry_at<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        let at = range_keys::index(index)?;
        self.entry(index.py(), |map| map.get_entry(at))
    }

    /// The range and the value of the first entry, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        self.entry(py, |map| map.first())
    }

    /// The range and the value of the last entry, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        self.entry(py, |map| map.last())
    }

    /// The first entry that starts after an index, or None.
    #[pyo3(signature = (index, /))]
    fn next_after<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        let at = range_keys::index(index)?;
        self.entry(index.py(), |map| map.next_after(at))
    }

    /// The last entry that ends before an index, or None.
    #[pyo3(signature = (index, /))]
    fn prev_before<'py>(
        &self,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Py<PyAny>)>> {
        let at = range_keys::index(index)?;
        self.entry(index.py(), |map| map.prev_before(at))
    }

    /// Makes a range one entry, as [] does; entries that it overlaps keep the indices outside it.
    /// With coalesce=True, joins it with neighbours that touch it and have the same value: equal
    /// str, bytes or int, or the same object. Returns the range of the entry.
    ///
    /// >>> free = RangeMap([(range(0, 10), "free"), (range(20, 30), "free")])
    /// >>> free.store(range(10, 20), "free", coalesce=True)
    /// range(0, 30)
    #[pyo3(signature = (range, value, /, *, coalesce=false))]
    fn store<'py>(
        &self,
        range: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        coalesce: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let stored = self.put(range_or_index(range)?, value, coalesce)?;
        place(&stored).object(range.py())
    }

    /// As store(), if no entry has an index of the range; otherwise OccupiedError.
    #[pyo3(signature = (range, value, /))]
    fn insert(&self, range: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let range = range_or_index(range)?;
        let added = self.add(value, |map, number| {
            map.insert_new(range.clone(), number)?;
            Ok(range)
        });
        added.map(drop)
    }

    /// Removes the whole entry that holds an index; returns its range and its value. KeyError in a
    /// gap.
    #[pyo3(signature = (index, /))]
    fn remove<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        let at = range_keys::index(index)?;
        let removed = self.removed(index.py(), |map| map.remove(at))?;
        removed.ok_or_else(|| absent(index))
    }

    /// Removes all entries.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.erase(py, &(0..=u64::MAX))
    }

    /// A list of the gaps from `start` to before `stop`, clipped to it.
    #[pyo3(signature = (start=None, stop=None, /))]
    fn gaps<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let gaps = self.map.gaps(between(start, stop)?);
        let gaps = gaps.map(|gap| place(&gap).object(py));
        PyList::new(py, gaps.collect::<PyResult<Vec<_>>>()?)
    }

    /// The lowest `size` indices in a window that no entry has and that begin at a multiple of
    /// `align`, a power of two; with from_end=True the highest. With `near`, places at or after
    /// that index come first. None when there is no such place.
    #[pyo3(signature = (size, /, *, start=None, stop=None, align=1, from_end=false, near=None))]
    #[allow(clippy::too_many_arguments)]
    fn find_gap<'py>(
        &self,
        py: Python<'py>,
        size: u64,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        align: u64,
        from_end: bool,
        near: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let window = window(start, stop, align, from_end, near)?;
        if size == 0 || !align.is_power_of_two() {
            let error = match size {
                0 => sapwood::maple::Error::ZeroSize,
                _ => sapwood::maple::Error::Alignment { align },
            };
            return Err(refused(error));
        }
        let found = self.map.find_gap(size, window);
        found.map(|range| place(&range).object(py)).transpose()
    }

    /// Stores at the place that find_gap() finds, and returns its range; NoGapError when there is
    /// none.
    #[pyo3(signature = (size, value, /, *, start=None, stop=None, align=1, from_end=false, near=None))]
    #[allow(clippy::too_many_arguments)]
    fn alloc<'py>(
        &self,
        size: u64,
        value: &Bound<'py, PyAny>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        align: u64,
        from_end: bool,
        near: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let window = window(start, stop, align, from_end, near)?;
        let range = self.add(value, |map, number| {
            Ok(map.alloc_range(size, window, number)?)
        })?;
        place(&range).object(value.py())
    }

    /// Looks up many indices, without the interpreter's lock: an array of uint64, uint32 or int64,
    /// a column, or any iterable, in which what is missing is no index, as in Fib.lookup_many().
    /// Returns the numbers of the values as an array of int32, -1 in gaps;
    /// values_by_number()[number] is the value as long as an entry has it.
    #[pyo3(signature = (indices, /))]
    fn lookup_many<'py>(&self, indices: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = indices.py();
        let indices = batch::Indices::of(indices)?;
        batch::filled(py, indices.len(), batch::I32, |out| {
            indices.numbers(&self.map, out.as_chunks_mut().0);
        })
    }

    /// The different values by number; None for a number that no entry has.
    fn values_by_number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<Option<Py<PyAny>>> = self.objects.with(py, |objects| {
            let all = objects.all();
            all.map(|object| object.map(|object| object.clone_ref(py)))
                .collect()
        });
        PyList::new(py, all)
    }

    fn __iter__(slf: &Bound<'_, Self>) -> SnapshotIter {
        Self::iter(slf, 0..=u64::MAX, Kind::Keys, false)
    }

    /// An iterator for views, over the entries that have an index in a range.
    #[pyo3(signature = (kind, back, within=None))]
    fn _walk(
        slf: &Bound<'_, Self>,
        kind: &str,
        back: bool,
        within: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SnapshotIter> {
        let within = within.map_or(Ok(0..=u64::MAX), range_or_index)?;
        Ok(Self::iter(slf, within, Kind::of(kind)?, back))
    }

    /// An empty map.
    fn _like(&self) -> Self {
        Self::empty()
    }

    /// Another map with the same ranges and the same objects.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let copy = Self::empty();
        self.objects.with(py, |from| {
            copy.objects.with(py, |to| {
                let mut writer = copy.map.write();
                for (range, number) in &self.map {
                    let none = py.None();
                    let number = to.take(from.get(number).unwrap_or(&none).bind(py))?;
                    writer
                        .store(range, number)
                        .map_err(|rejected| refused(rejected.error))?;
                }
                Ok::<_, PyErr>(())
            })
        })?;
        Ok(copy)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let mut all = Self::iter(slf, 0..=u64::MAX, Kind::Items, false);
        while let Some((place, value)) = all.next_pair(py) {
            if let Place::Range(start, end) = place {
                bytes.push(start);
                bytes.push(end);
                values.push(value);
            }
        }
        let state = (PyList::new(py, bytes)?, PyList::new(py, values)?);
        (slf.get_type(), PyTuple::empty(py), state).into_pyobject(py)
    }

    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let wrong = || PyValueError::new_err("this is not the state of a pickled RangeMap");
        let (ends, values): (Vec<u64>, Vec<Bound<'_, PyAny>>) =
            state.extract().map_err(|_| wrong())?;
        let (ranges, rest) = ends.as_chunks::<2>();
        if ranges.len() != values.len() || !rest.is_empty() {
            return Err(wrong());
        }
        for ([start, end], value) in ranges.iter().zip(values) {
            self.put(*start..=*end, &value, false)?;
        }
        Ok(())
    }

    /// What the map takes, in bytes: a dict with "total", "map" and "objects", the table of values
    /// without the values themselves.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (map, objects) = self
            .objects
            .with(py, |objects| (self.map.memory().total(), objects.bytes()));
        let dict = PyDict::new(py);
        dict.set_item("total", map + objects)?;
        dict.set_item("map", map)?;
        dict.set_item("objects", objects)?;
        Ok(dict)
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        self.objects.with(py, |objects| {
            self.map.memory().total() + objects.bytes() + size_of::<Self>()
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let values = self.objects.with(py, |objects| objects.len());
        let entries = self.map.len();
        format!("<sapwood.RangeMap: {entries} entries, {values} different values>")
    }

    /// Checks every invariant of the map and the counts of its values; ValueError says what is
    /// wrong. For tests.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.objects.with(py, |objects| {
            self.map.verify().map_err(PyValueError::new_err)?;
            let mut found = vec![0; objects.uses().count()];
            for (_, number) in &self.map {
                found[number as usize] += 1;
            }
            match objects.uses().eq(found) {
                true => Ok(()),
                false => Err(PyValueError::new_err("the counts of the values are wrong")),
            }
        })
    }

    /// Saves the map for load(), and for the program `sapwood`. All values are int from 0 to
    /// 2**64 - 1, or all are str. The file is written beside `path` and then renamed.
    #[pyo3(signature = (path, /))]
    fn save(slf: &Bound<'_, Self>, path: PathBuf) -> PyResult<()> {
        range_table::save(slf, &path)
    }

    /// A map of the entries of a file that save() wrote, or that the program `sapwood` did. The
    /// whole file is checked.
    #[classmethod]
    #[pyo3(signature = (path, /))]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        range_table::load(py, &path)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.objects.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.objects.clear(py);
    }
}

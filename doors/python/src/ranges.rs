//! `RangeMap`: ranges of indices to any objects, and the gaps between them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::batch;
use crate::fib_table::absent;
use crate::pairs::at_most_one;
use crate::range_keys::{self, Key, Search, between, place, range_or_index};
use crate::range_reader::{RangeReader, Ranges, listed};
use crate::range_snapshot::RangeSnapshot;
use crate::range_table::{self, RangeTable};
use crate::range_txn::RangeTransaction;
use crate::snapshot_iter::{Kind, Place, SnapshotIter};

/// A map of ranges of indices, which do not overlap, to any objects.
///
/// An index is an int from 0 to 2**64 - 1, or an IPv4 address (a str, 4 bytes or an object of
/// ipaddress), which is read as its number. A range is half open, as everywhere in Python: it goes
/// from its start to before its stop. It is a slice, a `range` with the step 1, or an IPv4 prefix;
/// None is the beginning or the end of all indices, and a stop of 2**64 is allowed. `items` is a
/// mapping, or an iterable of pairs of a range and a value, stored one after the other. Ranges are
/// returned as `range`.
///
/// map[index] is the value at an index, map[range(a, b)] that of the entry with exactly this range;
/// `in`, get() and pop() do the same. So it is a collections.abc.MutableMapping of ranges, with
/// what a dict has, too: |, |=, fromkeys(), copy(). Two mappings are equal when dicts of their
/// items are. popitem() takes the last entry.
///
/// A slice means indices, whatever entries they belong to: map[a:b] is a list of pairs of a range
/// and a value, the parts of entries from a to before b; map[a:b] = value makes these indices one
/// entry; `del map[a:b]` clears them, as `del map[range(a, b)]` does.
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
/// >>> memory[0x1f00:0x2100]
/// [(range(7936, 8192), 'text'), (range(8192, 8448), 'stack')]
/// >>> hosts = RangeMap({"10.0.0.0/24": "lan"})
/// >>> hosts["10.0.0.128":"10.0.0.255"] = "guests"
/// >>> hosts["10.0.0.130"], hosts["10.0.0.255"]
/// ('guests', 'lan')
#[pyclass(frozen, extends = RangeReader, generic, module = "sapwood")]
pub struct RangeMap {
    pub(crate) table: Arc<RangeTable>,
}

impl RangeMap {
    pub(crate) fn of(table: RangeTable) -> PyClassInitializer<Self> {
        let table = Arc::new(table);
        PyClassInitializer::from(RangeReader(table.clone())).add_subclass(RangeMap { table })
    }
}

#[pymethods]
impl RangeMap {
    #[new]
    #[pyo3(signature = (items=None))]
    fn new(items: Option<&Bound<'_, PyAny>>) -> PyResult<PyClassInitializer<Self>> {
        let table = RangeTable::default();
        table.update(items, None)?;
        Ok(Self::of(table))
    }

    /// Stores all items of a mapping or of an iterable of pairs of a range and a value, one after
    /// the other. An error leaves the items before it stored.
    #[pyo3(signature = (items=None, /, **others))]
    fn update(
        &self,
        items: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.table.update(items, others)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.table.put(range_or_index(key)?, value, false).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let at = Key::or_slice(key)?;
        if matches!(at, Key::Index(_)) && self.table.at(at.first())?.is_none() {
            return Err(absent(key));
        }
        self.table.erase(key.py(), &at.range())
    }

    /// Removes the entry with exactly this range, or one index from the entry that holds it, and
    /// returns the value. When there is none, returns `default` or raises KeyError.
    #[pyo3(signature = (key, /, *default))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let default = at_most_one("pop", default)?;
        let at = Key::of(key)?;
        let value = self.table.changing(key.py(), |objects| {
            let Some(number) = self.table.number(&at) else {
                return Ok(None);
            };
            let value = objects.get(number).map(|value| value.clone_ref(key.py()));
            let range = at.range();
            self.table
                .change(objects, std::slice::from_ref(&range), |map| {
                    map.clear_range(range.clone())
                })?;
            Ok(value)
        })?;
        value.or(default).ok_or_else(|| absent(key))
    }

    /// Removes the last entry and returns its range and its value; KeyError when there is none.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        let removed = self.table.removed(py, |map| match map.last() {
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
        self.table.changing(py, |objects| {
            if let Some(number) = self.table.number(&at)
                && let Some(value) = objects.get(number)
            {
                return Ok(value.clone_ref(py));
            }
            self.table.put_in(objects, at.range(), &default, false)?;
            Ok(default.clone().unbind())
        })
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
        let stored = self.table.put(range_or_index(range)?, value, coalesce)?;
        place(range.py(), &stored)
    }

    /// As store(), if no entry has an index of the range; otherwise OccupiedError.
    #[pyo3(signature = (range, value, /))]
    fn insert(&self, range: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let range = range_or_index(range)?;
        let added = self.table.add(value, |map, number| {
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
        let removed = self.table.removed(index.py(), |map| map.remove(at))?;
        removed.ok_or_else(|| absent(index))
    }

    /// Removes what is from `start` to before `stop`, as `del map[start:stop]` does. Returns a list
    /// of pairs of a range and a value, in order. Entries that are cut keep their other indices.
    /// The list has the parts that were removed. update() puts them back.
    ///
    /// >>> map = RangeMap({range(0, 10): "a", range(20, 30): "b"})
    /// >>> map.take(5, 25), list(map)
    /// ([(range(5, 10), 'a'), (range(20, 25), 'b')], [range(0, 5), range(25, 30)])
    #[pyo3(signature = (start=None, stop=None, /))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        listed(py, self.table.take(py, between(start, stop)?)?)
    }

    /// Moves what is from `start` to before `stop`, entries and gaps, to the indices from `to` on,
    /// as mremap() does. What was there is cleared. Both ranges may overlap. Entries that the range
    /// cuts keep their other indices. ValueError when the place ends behind 2**64: then nothing has
    /// changed.
    ///
    /// >>> map = RangeMap({range(0, 10): "a", range(20, 30): "b"})
    /// >>> map.move_range(5, 25, 100)
    /// >>> list(map)
    /// [range(0, 5), range(25, 30), range(100, 105), range(115, 120)]
    #[pyo3(signature = (start, stop, to, /))]
    fn move_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (range, to) = (between(start, stop)?, range_keys::index(to)?);
        self.table.move_range(py, range, to)
    }

    /// Gives the entries from `start` to before `stop` the values that f(range, value) returns, as
    /// mprotect() does. An entry that is cut is changed only inside; f gets the range of that part.
    /// Neighbours that touch and have the same value then are joined, as store(coalesce=True) does.
    ///
    /// All values are changed together, after the last call of f; an exception of f changes
    /// nothing. Meanwhile other threads that change the map wait, and f cannot change it
    /// (RuntimeError).
    ///
    /// >>> map = RangeMap({range(0, 10): "rw", range(10, 20): "r"})
    /// >>> map.modify(5, 15, lambda range, value: "r")
    /// >>> list(map.items())
    /// [(range(0, 5), 'rw'), (range(5, 20), 'r')]
    #[pyo3(signature = (start, stop, f, /))]
    fn modify(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        f: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.table.modify(py, between(start, stop)?, f)
    }

    /// A transaction: `with map.transaction() as txn:`. In the block, `txn` is a RangeMap of the
    /// same entries. At its end, what was changed there is changed here, so that others see all of
    /// it or nothing. An exception that leaves the block changes nothing. Then `txn` has ended, and
    /// raises ValueError.
    ///
    /// During the block, readers find the map as it was, and other threads that change it wait. The
    /// thread of the block changes `txn` only (otherwise RuntimeError). `txn` may have transactions
    /// itself. The block begins with a copy of the map, O(entries). Its end takes time for what was
    /// changed.
    ///
    /// Plans and reservations of the Rust library are not here. They are for programs that take
    /// memory before a change. Here an object takes memory at any time; a block that ends in
    /// MemoryError has changed nothing. Places that alloc() finds in a block stay free until its
    /// end, since nobody else changes the map.
    ///
    /// >>> map = RangeMap({range(0, 10): "a"})
    /// >>> with map.transaction() as txn:
    /// ...     del txn[0:5]
    /// ...     place = txn.alloc(20, "b", start=100)
    /// ...     print(list(map), list(txn))
    /// [range(0, 10)] [range(5, 10), range(100, 120)]
    /// >>> list(map)
    /// [range(5, 10), range(100, 120)]
    fn transaction(slf: &Bound<'_, Self>) -> RangeTransaction {
        RangeTransaction::new(slf.clone().unbind())
    }

    /// The map as it is now, without a copy: O(1). No later change reaches it.
    fn snapshot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, RangeSnapshot>> {
        Bound::new(slf.py(), RangeSnapshot::of(slf)?)
    }

    /// Removes all entries.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.table.erase(py, &(0..=u64::MAX))
    }

    /// Stores at the place that find_gap() finds, and returns its range; NoGapError when there is
    /// none.
    #[pyo3(signature = (size, value, /, *, start=None, stop=None, align=1, rest=None, guard=0,
        tightest=false, highest=false, near=None, starting_at=None))]
    #[allow(clippy::too_many_arguments)]
    fn alloc<'py>(
        &self,
        size: u64,
        value: &Bound<'py, PyAny>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        align: u64,
        rest: Option<u64>,
        guard: u64,
        tightest: bool,
        highest: bool,
        near: Option<&Bound<'py, PyAny>>,
        starting_at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let search = Search {
            start,
            stop,
            align,
            rest,
            guard,
            tightest,
            highest,
            near,
            starting_at,
        };
        let window = search.window(size)?;
        let range = self.table.add(value, |map, number| {
            Ok(map.alloc_range(size, window, number)?)
        })?;
        place(value.py(), &range)
    }

    /// Looks up many indices, without the interpreter's lock: an array of uint64, uint32 or int64,
    /// a column, or any iterable, in which what is missing is no index, as in Fib.lookup_many().
    /// Returns the numbers of the values as an array of int32, -1 in gaps;
    /// values_by_number()[number] is the value as long as an entry has it.
    #[pyo3(signature = (indices, /))]
    fn lookup_many<'py>(&self, indices: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = indices.py();
        let indices = batch::Indices::of(indices)?;
        self.table.open()?;
        batch::filled(py, indices.len(), batch::I32, |out| {
            indices.numbers(&self.table.map, out.as_chunks_mut().0);
        })
    }

    /// The different values by number; None for a number that no entry has.
    fn values_by_number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<Option<Py<PyAny>>> = self.table.objects.with(py, |objects| {
            let all = objects.all();
            all.map(|object| object.map(|object| object.clone_ref(py)))
                .collect()
        });
        PyList::new(py, all)
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<SnapshotIter> {
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
        Self::iter(slf, within, Kind::of(kind)?, back)
    }

    /// An empty map.
    fn _like(&self, py: Python<'_>) -> PyResult<Py<Self>> {
        Py::new(py, Self::of(RangeTable::default()))
    }

    /// Another map with the same ranges and the same objects.
    fn copy(&self, py: Python<'_>) -> PyResult<Py<Self>> {
        let copy = self.table.copied(py, None)?;
        Py::new(py, Self::of(copy))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let mut all = Self::iter(slf, 0..=u64::MAX, Kind::Items, false)?;
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
            self.table.put(*start..=*end, &value, false)?;
        }
        Ok(())
    }

    /// What the map takes, in bytes: a dict with "total", "map" and "objects", the table of values
    /// without the values themselves.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (map, objects) = self.table.objects.with(py, |objects| {
            (self.table.map.memory().total(), objects.bytes())
        });
        let dict = PyDict::new(py);
        dict.set_item("total", map + objects)?;
        dict.set_item("map", map)?;
        dict.set_item("objects", objects)?;
        Ok(dict)
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        self.table.objects.with(py, |objects| {
            self.table.map.memory().total() + objects.bytes() + size_of::<Self>()
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let values = self.table.objects.with(py, |objects| objects.len());
        let entries = self.table.map.len();
        format!("<sapwood.RangeMap: {entries} entries, {values} different values>")
    }

    /// Checks every invariant of the map and the counts of its values; ValueError says what is
    /// wrong. For tests.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.table.open()?;
        self.table.objects.with(py, |objects| {
            self.table.map.verify().map_err(PyValueError::new_err)?;
            let mut found = vec![0; objects.uses().count()];
            for (_, number) in &self.table.map {
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
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Py<Self>> {
        Py::new(py, Self::of(range_table::load(py, &path)?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.table.objects.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.table.objects.clear(py);
    }
}

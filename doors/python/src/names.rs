//! `NameMap`: an ordered map of texts, bytes or domain names to any objects.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use sapwood::qp::{OrderedRead, QpMap, Rejected};

use crate::address::shown;
use crate::errors::{not_saved, refused};
use crate::fib_table::absent;
use crate::name_iter::Entry;
use crate::name_keys::{Edges, Keys};
use crate::name_reader::{AnyNames, NameReader, Names};
use crate::numbers::{int_of, whole};
use crate::pairs::{at_most_one, pairs};

/// An ordered map of names to any objects: a dict whose keys are in order, with prefixes, ranges
/// and neighbours.
///
/// Keys are str (key=str, the default) or bytes (key=bytes), which do not mix. The order is that of
/// code points or bytes. With dns=True, keys are domain names: they are compared without regard to
/// ASCII case and to a trailing dot, ordered as DNSSEC orders them (a zone before the names below
/// it), and prefix(), longest_prefix() and ancestors() go by labels. A key has at most 65,535
/// bytes.
///
/// It is a collections.abc.MutableMapping with what a dict has, too: |, |=, fromkeys(), copy(). Two
/// mappings are equal when dicts of their items are. An iterator raises RuntimeError when keys were
/// inserted or removed since it was made, as a dict's does. popitem() takes the greatest key.
///
/// >>> from sapwood import NameMap
/// >>> trees = NameMap({"elm": 1, "ash": 2, "oak": 3, "elder": 4})
/// >>> list(trees), trees.first(), trees.successor("f")
/// (['ash', 'elder', 'elm', 'oak'], ('ash', 2), ('oak', 3))
/// >>> list(trees.prefix("el")), list(trees.range("b", "elm"))
/// ([('elder', 4), ('elm', 1)], [('elder', 4)])
/// >>> zones = NameMap({"org": 1, "example.org": 2}, dns=True)
/// >>> zones.longest_prefix("www.Example.ORG")
/// ('example.org', 2)
/// >>> list(zones)
/// ['org', 'example.org']
#[pyclass(frozen, extends = NameReader, generic, module = "sapwood")]
pub struct NameMap {
    entries: Arc<Locked>,
    keys: Keys,
}

/// The entries behind a lock that is held for moments only.
#[derive(Default)]
struct Locked(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    map: QpMap<Py<PyAny>>,
    changes: u64,
    writes: u64,
}

impl Locked {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Entries> {
        self.0
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names<Py<PyAny>> for Locked {
    fn read(&self, py: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<Py<PyAny>>)) -> PyResult<()> {
        f(&self.lock(py).map);
        Ok(())
    }

    fn changes(&self, py: Python<'_>) -> (u64, u64) {
        let entries = self.lock(py);
        (entries.changes, entries.writes)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let entries = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        crate::drops::let_go(std::mem::take(&mut entries.map));
    }
}

impl Entries {
    /// Inserts; what is refused comes back, to be dropped when the map is not locked.
    fn put(
        &mut self,
        key: &[u8],
        value: Py<PyAny>,
    ) -> Result<Option<Py<PyAny>>, Rejected<Py<PyAny>>> {
        let old = self.map.insert(key, value)?;
        match old {
            None => self.changes += 1,
            Some(_) => self.writes += 1,
        }
        Ok(old)
    }

    fn pop(
        &mut self,
        take: impl FnOnce(&mut QpMap<Py<PyAny>>) -> Option<(Box<[u8]>, Py<PyAny>)>,
    ) -> Option<(Box<[u8]>, Py<PyAny>)> {
        let entry = take(&mut self.map);
        self.changes += u64::from(entry.is_some());
        entry
    }

    fn take(&mut self, key: &[u8]) -> Option<Py<PyAny>> {
        let old = self.map.remove(key);
        self.changes += u64::from(old.is_some());
        old
    }
}

/// The values of a map that is saved.
enum Saved {
    Numbers(Vec<(Box<[u8]>, u64)>),
    Bytes(Vec<(Box<[u8]>, Vec<u8>)>),
}

impl NameMap {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Entries> {
        self.entries.lock(py)
    }

    /// A map, and the reader that it is as well.
    fn of(map: QpMap<Py<PyAny>>, keys: Keys) -> (Self, NameReader) {
        let entries = Arc::new(Locked(Mutex::new(Entries {
            map,
            ..Entries::default()
        })));
        let reader = NameReader {
            names: AnyNames::Objects(entries.clone()),
            counted: true,
            keys,
            text: false,
            path: PathBuf::new(),
        };
        (NameMap { entries, keys }, reader)
    }

    fn all(slf: &Bound<'_, Self>) -> PyResult<Vec<Entry>> {
        let reader = slf.as_super().get();
        let all = reader.chunk(slf.py(), &Edges::all(), false, usize::MAX)?;
        Ok(all.entries.into())
    }

    fn put(&self, key: &Bound<'_, PyAny>, value: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let bytes = self.keys.bytes(key)?;
        let put = self.lock(key.py()).put(&bytes, value);
        put.map_err(|rejected| refused(rejected.error))
    }

    /// Removes the entry that `take` takes, or KeyError.
    fn popped<'py>(
        &self,
        py: Python<'py>,
        take: impl FnOnce(&mut QpMap<Py<PyAny>>) -> Option<(Box<[u8]>, Py<PyAny>)>,
    ) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        let entry = self.lock(py).pop(take);
        let (key, value) = entry.ok_or_else(|| PyKeyError::new_err("the map is empty"))?;
        Ok((self.keys.object(py, &key), value))
    }

    fn saved(slf: &Bound<'_, Self>) -> PyResult<Saved> {
        let (py, entries) = (slf.py(), Self::all(slf)?);
        let refuse = |value: &Bound<'_, PyAny>| {
            PyValueError::new_err(format!(
                "{} cannot be saved: a file has values that are all int from 0 to 2**64 - 1, all \
                 bytes, or all str",
                shown(value)
            ))
        };
        let first = entries.first().map(|(_, value)| int_of(value.bind(py)));
        if first.transpose()?.is_none_or(|int| int.is_some()) {
            let number = |(key, value): Entry| {
                let value = value.into_bound(py);
                Ok((key, whole(&value)?.ok_or_else(|| refuse(&value))?))
            };
            let all = entries.into_iter().map(number);
            return Ok(Saved::Numbers(all.collect::<PyResult<_>>()?));
        }
        let texts = entries[0].1.bind(py).is_instance_of::<PyString>();
        let bytes = |(key, value): Entry| {
            let value = value.into_bound(py);
            let bytes = match (value.cast::<PyString>(), value.cast::<PyBytes>()) {
                (Ok(text), _) if texts => text.to_str()?.as_bytes().to_vec(),
                (_, Ok(bytes)) if !texts => bytes.as_bytes().to_vec(),
                _ => return Err(refuse(&value)),
            };
            Ok((key, bytes))
        };
        let all = entries.into_iter().map(bytes);
        Ok(Saved::Bytes(all.collect::<PyResult<_>>()?))
    }
}

#[pymethods]
impl NameMap {
    #[new]
    #[pyo3(signature = (items=None, *, key=None, dns=false))]
    fn new(
        items: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (map, reader) = Self::of(QpMap::new(), Keys::of(key, dns)?);
        map.update(items, None)?;
        Ok(PyClassInitializer::from(reader).add_subclass(map))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: Py<PyAny>) -> PyResult<()> {
        self.put(key, value).map(drop)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.keys.bytes(key)?;
        let old = self.lock(key.py()).take(&bytes);
        old.map(drop).ok_or_else(|| absent(key))
    }

    /// Inserts a key or replaces its value; returns the old value, or None.
    #[pyo3(signature = (key, value, /))]
    fn insert(&self, key: &Bound<'_, PyAny>, value: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        self.put(key, value)
    }

    /// Removes a key and returns its value. When it is not there, returns `default` or raises
    /// KeyError.
    #[pyo3(signature = (key, /, *default))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let default = at_most_one("pop", default)?;
        let bytes = self.keys.bytes(key)?;
        let old = self.lock(key.py()).take(&bytes);
        old.or(default).ok_or_else(|| absent(key))
    }

    /// Removes the entry with the least key and returns it; KeyError when there is none.
    fn pop_first<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        self.popped(py, QpMap::pop_first)
    }

    /// Removes the entry with the greatest key and returns it; KeyError when there is none.
    fn pop_last<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        self.popped(py, QpMap::pop_last)
    }

    /// As pop_last().
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyAny>)> {
        self.pop_last(py)
    }

    /// The value of a key; inserts `default` when the key is not there.
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = key.py();
        let bytes = self.keys.bytes(key)?;
        let default = default.unwrap_or_else(|| py.None());
        let mut names = self.lock(py);
        if let Some(value) = names.map.get(&bytes) {
            return Ok(value.clone_ref(py));
        }
        let put = names.put(&bytes, default.clone_ref(py));
        drop(names);
        match put {
            Ok(_) => Ok(default),
            Err(rejected) => Err(refused(rejected.error)),
        }
    }

    /// Inserts all items of a mapping or of an iterable of pairs, and the named arguments. An error
    /// leaves the items before it inserted.
    #[pyo3(signature = (items=None, /, **others))]
    fn update(
        &self,
        items: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        for pair in pairs(items, others)? {
            let (key, value) = pair?;
            drop(self.put(&key, value.unbind())?);
        }
        Ok(())
    }

    /// Removes all entries.
    fn clear(&self, py: Python<'_>) {
        let mut names = self.lock(py);
        names.changes += 1;
        let all = std::mem::take(&mut names.map);
        drop(names);
        drop(all);
    }

    /// Removes the entries whose keys start with a prefix; with dns=True, those at and below a
    /// name. Returns their number.
    #[pyo3(signature = (prefix, /))]
    fn remove_prefix(&self, prefix: &Bound<'_, PyAny>) -> PyResult<usize> {
        let bytes = self.keys.bytes(prefix)?;
        let mut names = self.lock(prefix.py());
        let below = names.map.prefix(&bytes);
        let keys: Vec<Vec<u8>> = below.map(|(key, _)| key.to_vec()).collect();
        let gone: Vec<_> = keys.iter().map(|key| names.take(key)).collect();
        drop(names);
        Ok(gone.len())
    }

    /// An empty map with such keys.
    fn _like(&self, py: Python<'_>) -> PyResult<Py<Self>> {
        Py::new(py, Self::of(QpMap::new(), self.keys))
    }

    /// Another map with the same keys and the same objects.
    fn copy(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let copy = QpMap::from_sorted_iter(Self::all(slf)?).map_err(refused)?;
        Py::new(slf.py(), Self::of(copy, slf.get().keys))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let (keys, values): (Vec<_>, Vec<_>) = Self::all(slf)?.into_iter().unzip();
        let keys: Vec<_> = keys.iter().map(|key| PyBytes::new(py, key)).collect();
        let state = (PyList::new(py, keys)?, PyList::new(py, values)?);
        let make = slf.get_type().getattr("_empty")?;
        (make, (slf.get().keys.word(),), state).into_pyobject(py)
    }

    #[classmethod]
    fn _empty(class: &Bound<'_, PyType>, keys: &str) -> PyResult<Py<Self>> {
        Py::new(class.py(), Self::of(QpMap::new(), Keys::of_word(keys)?))
    }

    fn __setstate__(&self, py: Python<'_>, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let wrong = |_| PyValueError::new_err("this is not the state of a pickled NameMap");
        let (keys, values): (Vec<Bound<'_, PyBytes>>, Vec<Py<PyAny>>) =
            state.extract().map_err(wrong)?;
        let keys = keys.iter().map(|key| key.as_bytes());
        let map = QpMap::from_sorted_iter(keys.zip(values)).map_err(refused)?;
        let mut names = self.lock(py);
        names.changes += 1;
        let old = std::mem::replace(&mut names.map, map);
        drop(names);
        drop(old);
        Ok(())
    }

    /// What the map takes, in bytes, without the values themselves: a dict with "total", "keys" and
    /// "entries", the number of entries.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let names = self.lock(py);
        let keys = names.map.iter().map(|(key, _)| key.len()).sum::<usize>();
        let memory = names.map.memory();
        drop(names);
        let dict = PyDict::new(py);
        dict.set_item("total", memory.total())?;
        dict.set_item("keys", keys)?;
        dict.set_item("entries", memory.entries)?;
        Ok(dict)
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        self.lock(py).map.memory().total() + size_of::<Self>()
    }

    /// Checks every invariant of the map; ValueError says what is wrong. For tests.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py).map.verify().map_err(PyValueError::new_err)
    }

    /// Copies the map into fresh memory in order: scans are quicker afterwards, and free memory is
    /// given back.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py).map.compact().map_err(refused)
    }

    /// Saves the map for NameFile.open(). All values are int from 0 to 2**64 - 1, or all are bytes,
    /// or all are str, which are saved as UTF-8. The file is written beside `path` and then
    /// renamed. The program `sapwood` reads it, too.
    #[pyo3(signature = (path, /))]
    fn save(slf: &Bound<'_, Self>, path: PathBuf) -> PyResult<()> {
        let saved = Self::saved(slf)?;
        slf.py().detach(|| match saved {
            Saved::Numbers(all) => {
                let map = QpMap::<u64>::from_sorted_iter(all).map_err(refused)?;
                map.save(&path).map_err(|error| not_saved(&error))
            }
            Saved::Bytes(all) => {
                let all = all.iter().map(|(key, value)| (key, value.as_slice()));
                let map = QpMap::<[u8]>::from_sorted_iter(all).map_err(refused)?;
                map.save(&path).map_err(|error| not_saved(&error))
            }
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let names = match self.entries.0.try_lock() {
            Ok(names) => names,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // This thread has it: what the map holds is then not collected.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        for value in names.map.values() {
            visit.call(value)?;
        }
        Ok(())
    }

    fn __clear__(&self, py: Python<'_>) {
        self.clear(py);
    }
}

//! `LiveNames`: a map of names that another process writes, and `LiveNamesWriter`, which writes
//! one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyTuple, PyType};
use sapwood::qp::Error as MapError;
use sapwood::qp::{QpStore, QpTxn};
use sapwood_live::{Error, LiveValue};

use crate::address::shown;
use crate::errors::refused;
use crate::live::{self, Pool, Writer, builder, not_live, patiently};
use crate::name_keys::Keys;
use crate::name_reader::{Either, NameReader, Names, Shown};
use crate::numbers::whole;
use crate::pairs::{at_most_one, pairs};

/// A map of names that another process writes, read in place: readers take no lock, and each call
/// sees what was committed last.
///
/// The map is a folder, which LiveNames.create() makes, or the program `sapwood` (`names serve`).
/// The reader holds nothing back between two calls. Threads may share it, and children of a fork
/// may go on reading.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveNames
/// >>> path = os.path.join(tempfile.mkdtemp(), "blocked")
/// >>> writer = LiveNames.create(path, dns=True)
/// >>> blocked = LiveNames.open(path, dns=True)  # in any process
/// >>> writer.update({"ads.example": 1, "example.org": 2})
/// >>> blocked.longest_prefix("pixel.Ads.example"), len(blocked), blocked.has_writer()
/// (('ads.example', 1), 2, True)
/// >>> writer.remove_map()
#[pyclass(frozen, extends = NameReader, generic, subclass, module = "sapwood")]
pub struct LiveNames;

/// Opens a store of numbers or of byte strings, or else a shared map of either.
macro_rules! opened {
    ($path:expr, $wait:expr, $store:ident, $shared:ident) => {{
        let (path, wait) = ($path, $wait);
        let store = match Pool::open(path, wait) {
            Err(Error::Layout { .. }) => {
                Pool::open(path, wait).map(|pool| Either::Bytes(Names::$store(pool)))
            }
            numbers => numbers.map(|pool| Either::Numbers(Names::$store(pool))),
        };
        let Err(first @ Error::Kind { .. }) = store else {
            return store;
        };
        match Pool::open(path, wait) {
            Err(Error::Kind { .. }) => Err(first),
            Err(Error::Layout { .. }) => {
                Pool::open(path, wait).map(|pool| Either::Bytes(Names::$shared(pool)))
            }
            numbers => numbers.map(|pool| Either::Numbers(Names::$shared(pool))),
        }
    }};
}

fn opened(path: &Path, wait: Duration) -> Result<Either, Error> {
    opened!(path, wait, Store, Shared)
}

fn opened_unregistered(path: &Path, wait: Duration) -> Result<Either, Error> {
    opened!(path, wait, CheckedStore, CheckedShared)
}

/// What makes a reader again from a pickle, with its arguments: path, keys, whether values are
/// texts, and whether the writer knows of it.
type Pickled<'py> = (Bound<'py, PyAny>, (PathBuf, &'static str, bool, bool));

impl LiveNames {
    fn of(
        py: Python<'_>,
        path: PathBuf,
        keys: Keys,
        text: bool,
        (wait, registered): (Option<f64>, bool),
    ) -> PyResult<Py<Self>> {
        let reader = NameReader {
            names: match registered {
                true => patiently(py, wait, |wait| opened(&path, wait)),
                false => patiently(py, wait, |wait| opened_unregistered(&path, wait)),
            }?,
            keys,
            text,
            path,
        };
        Py::new(py, PyClassInitializer::from(reader).add_subclass(LiveNames))
    }
}

/// What the pool of a reader or the writer says, whichever the values are.
macro_rules! reading {
    ($names:expr, $pool:ident => $read:expr, $writer:ident => $write:expr) => {
        match $names {
            Either::Numbers(Names::Store($pool)) => $read.map_err(not_live),
            Either::Numbers(Names::Shared($pool)) => $read.map_err(not_live),
            Either::Bytes(Names::Store($pool)) => $read.map_err(not_live),
            Either::Bytes(Names::Shared($pool)) => $read.map_err(not_live),
            Either::Numbers(Names::CheckedStore($pool)) => $read.map_err(not_live),
            Either::Numbers(Names::CheckedShared($pool)) => $read.map_err(not_live),
            Either::Bytes(Names::CheckedStore($pool)) => $read.map_err(not_live),
            Either::Bytes(Names::CheckedShared($pool)) => $read.map_err(not_live),
            Either::Numbers(Names::Writer($writer)) => $write,
            Either::Bytes(Names::Writer($writer)) => $write,
            _ => Err(PyTypeError::new_err("these names are in no live map")),
        }
    };
}

#[pymethods]
impl LiveNames {
    /// Opens the live map in a folder; `key`, `dns` and `text` are as for NameFile.open(). With
    /// wait=seconds, it waits so long for a map that is not there yet. Only maps are read that no
    /// other user than root can write.
    ///
    /// With registered=False the reader writes nothing, and may read maps on read-only mounts and
    /// those of other users: it checks what it reads. The writer does not know of it, so one call
    /// may read two versions, and ValueError says when a busy writer disturbed each attempt.
    #[classmethod]
    #[pyo3(signature = (
        path, /, *, key=None, dns=false, text=false, wait=None, registered=true
    ))]
    fn open(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
        text: bool,
        wait: Option<f64>,
        registered: bool,
    ) -> PyResult<Py<Self>> {
        let how = (wait, registered);
        Self::of(class.py(), path, Keys::of(key, dns)?, text, how)
    }

    /// Makes an empty live map in a folder, which is made if it is not there, and returns its
    /// writer. `values` is int (from 0 to 2**64 - 1), bytes or str: all values are of this type.
    /// `read_by` says who may register as a reader beside root: "owner" (as without it),
    /// "everybody", or the number of a group. FileExistsError when the folder has a live map.
    #[classmethod]
    #[pyo3(signature = (path, /, *, key=None, dns=false, values=None, read_by=None))]
    fn create(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
        values: Option<&Bound<'_, PyAny>>,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveNamesWriter>> {
        let py = class.py();
        let who = live::read_by(read_by)?;
        let keys = Keys::of(key, dns)?;
        let is = |class: &Bound<'_, PyType>| values.is_some_and(|values| values.is(class));
        let (is_text, is_bytes) = (
            is(&py.get_type::<PyString>()),
            is(&py.get_type::<PyBytes>()),
        );
        let names = match values {
            Some(_) if is_text || is_bytes => py
                .detach(|| builder(who).create(&path))
                .map(|live| Either::Bytes(Names::Writer(Writer::new(live, |map| map.verify())))),
            Some(other) if !is(&py.get_type::<PyInt>()) => {
                let text = format!("values is int, bytes or str, not {}", shown(other));
                return Err(PyTypeError::new_err(text));
            }
            _ => py
                .detach(|| builder(who).create(&path))
                .map(|live| Either::Numbers(Names::Writer(Writer::new(live, |map| map.verify())))),
        };
        LiveNamesWriter::of(py, names.map_err(not_live)?, keys, is_text, path)
    }

    /// Takes over the live map of a writer that has ended, however it ended, and returns a writer.
    /// Everything that was committed is there. Readers go on meanwhile, and then move to the new
    /// writer's data. `read_by` is as for create(); without it, the map keeps its modes.
    /// BlockingIOError when the map has a writer; ValueError when the map is damaged.
    #[classmethod]
    #[pyo3(signature = (path, /, *, key=None, dns=false, text=false, read_by=None))]
    fn take_over(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
        text: bool,
        read_by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<LiveNamesWriter>> {
        let py = class.py();
        let keys = Keys::of(key, dns)?;
        let who = live::read_by(read_by)?;
        let names = py.detach(|| match builder(who).open(&path) {
            Err(Error::Layout { .. }) => {
                let live = builder(who).open(&path);
                live.map(|live| Either::Bytes(Names::Writer(Writer::new(live, |map| map.verify()))))
            }
            numbers => numbers
                .map(|live| Either::Numbers(Names::Writer(Writer::new(live, |map| map.verify())))),
        });
        LiveNamesWriter::of(py, names.map_err(not_live)?, keys, text, path)
    }

    /// How many times processes have taken the map over.
    #[getter]
    fn generation(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let names = &slf.as_super().get().names;
        reading!(names, pool => pool.generation(), writer => writer.with(|map| map.generation()))
    }

    /// Whether the map's writer lives. Without one, the map stays as it is until a process takes it
    /// over.
    fn has_writer(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let names = &slf.as_super().get().names;
        reading!(names, pool => pool.has_writer(), writer => writer.with(|_| true))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let map = slf.as_super().get();
        if let Either::Numbers(Names::Writer(_)) | Either::Bytes(Names::Writer(_)) = &map.names {
            return Err(PyTypeError::new_err("a writer cannot be pickled"));
        }
        let again = slf.get_type().getattr("_again")?;
        let registered = map.names.is_registered();
        Ok((
            again,
            (map.path.clone(), map.keys.word(), map.text, registered),
        ))
    }

    #[classmethod]
    fn _again(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        keys: &str,
        text: bool,
        registered: bool,
    ) -> PyResult<Py<Self>> {
        let how = (None, registered);
        Self::of(class.py(), path, Keys::of_word(keys)?, text, how)
    }
}

/// The values of a live map, as a transaction takes them.
trait Storable: LiveValue + Shown {
    /// A value of its own.
    type Kept: Send + Sync;

    /// The value of an object.
    fn of_object(object: &Bound<'_, PyAny>, text: bool) -> PyResult<Self::Kept>;

    fn keep(&self) -> Self::Kept;

    fn shown(kept: &Self::Kept) -> &Self;

    fn insert<'t>(
        txn: &'t mut QpTxn<'_, Self>,
        key: &[u8],
        value: &Self::Kept,
    ) -> Result<Option<&'t Self>, MapError>;
}

impl Storable for u64 {
    type Kept = u64;

    fn of_object(object: &Bound<'_, PyAny>, _text: bool) -> PyResult<u64> {
        whole(object)?.ok_or_else(|| {
            let shown = shown(object);
            let text = format!("{shown} is no value of this map: they are int from 0 to 2**64 - 1");
            PyValueError::new_err(text)
        })
    }

    fn keep(&self) -> u64 {
        *self
    }

    fn shown(kept: &u64) -> &u64 {
        kept
    }

    fn insert<'t>(
        txn: &'t mut QpTxn<'_, u64>,
        key: &[u8],
        value: &u64,
    ) -> Result<Option<&'t u64>, MapError> {
        Ok(txn.insert(key, *value)?)
    }
}

impl Storable for [u8] {
    type Kept = Vec<u8>;

    fn of_object(object: &Bound<'_, PyAny>, text: bool) -> PyResult<Vec<u8>> {
        match (object.cast::<PyString>(), object.cast::<PyBytes>()) {
            (Ok(object), _) if text => Ok(object.to_str()?.as_bytes().to_vec()),
            (_, Ok(object)) if !text => Ok(object.as_bytes().to_vec()),
            _ => {
                let all = if text { "str" } else { "bytes" };
                let text = format!("{} is no value of this map: they are {all}", shown(object));
                Err(PyValueError::new_err(text))
            }
        }
    }

    fn keep(&self) -> Vec<u8> {
        self.to_vec()
    }

    fn shown(kept: &Vec<u8>) -> &[u8] {
        kept
    }

    fn insert<'t>(
        txn: &'t mut QpTxn<'_, [u8]>,
        key: &[u8],
        value: &Vec<u8>,
    ) -> Result<Option<&'t [u8]>, MapError> {
        Ok(txn.insert(key, value.as_slice())?)
    }
}

/// Changes a store in one commit, without the interpreter's lock. An error changes nothing.
fn commit<V: ?Sized + Storable, R: Send>(
    py: Python<'_>,
    writer: &Writer<QpStore<V>>,
    change: impl FnOnce(&mut QpTxn<'_, V>) -> Result<R, MapError> + Send,
) -> PyResult<R> {
    let result: Result<R, MapError> = writer.with(|map| {
        py.detach(|| {
            let mut txn = map.begin();
            let result = change(&mut txn)?;
            txn.commit();
            Ok(result)
        })
    })?;
    result.map_err(refused)
}

fn put<V: ?Sized + Storable>(
    map: &NameReader,
    writer: &Writer<QpStore<V>>,
    key: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<Py<PyAny>>> {
    let py = key.py();
    let (key, value) = (map.keys.bytes(key)?, V::of_object(value, map.text)?);
    let old = commit(py, writer, |txn| {
        Ok(V::insert(txn, &key, &value)?.map(V::keep))
    })?;
    Ok(old.map(|old| V::shown(&old).object(py, map.text)))
}

fn take<V: ?Sized + Storable>(
    map: &NameReader,
    writer: &Writer<QpStore<V>>,
    key: &Bound<'_, PyAny>,
) -> PyResult<Option<Py<PyAny>>> {
    let bytes = map.keys.bytes(key)?;
    let old = commit(key.py(), writer, |txn| Ok(txn.remove(&bytes)?.map(V::keep)))?;
    Ok(old.map(|old| V::shown(&old).object(key.py(), map.text)))
}

fn change<V: ?Sized + Storable>(
    py: Python<'_>,
    map: &NameReader,
    writer: &Writer<QpStore<V>>,
    items: Option<&Bound<'_, PyAny>>,
    remove: Option<&Bound<'_, PyAny>>,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let (mut new, mut gone) = (Vec::new(), Vec::new());
    for pair in pairs(items, others)? {
        let (key, value) = pair?;
        let value = V::of_object(&value, map.text)?;
        new.push((map.keys.bytes(&key)?.into_owned(), value));
    }
    if let Some(remove) = remove {
        for key in remove.try_iter()? {
            gone.push(map.keys.bytes(&key?)?.into_owned());
        }
    }
    commit(py, writer, |txn| {
        for key in gone {
            txn.remove(key)?;
        }
        for (key, value) in new {
            V::insert(txn, &key, &value)?;
        }
        Ok(())
    })
}

/// The writer of a live map of names, which other processes read with LiveNames.open().
///
/// LiveNames.create() and LiveNames.take_over() make it. It is also a reader, and a
/// collections.abc.MutableMapping. Each change is one commit: readers see all of it, or nothing
/// yet. The map has a writer until close(), or until the process ends; it stays in its folder until
/// remove_map(). A child of a fork cannot write it.
///
/// >>> import os, tempfile
/// >>> from sapwood import LiveNames
/// >>> path = os.path.join(tempfile.mkdtemp(), "trees")
/// >>> with LiveNames.create(path, values=str) as trees:
/// ...     trees["elm"] = "Ulmus"
/// ...     trees.update({"ash": "Fraxinus", "oak": "Quercus"}, remove=["elm"])
/// ...     list(trees.items())
/// [('ash', 'Fraxinus'), ('oak', 'Quercus')]
/// >>> trees = LiveNames.take_over(path, text=True)
/// >>> trees.generation, trees.pop("oak"), len(trees)
/// (1, 'Quercus', 1)
/// >>> trees.remove_map()
#[pyclass(frozen, extends = LiveNames, generic, module = "sapwood")]
pub struct LiveNamesWriter;

/// Evaluates an expression for the writer, whichever its values are.
macro_rules! writing {
    ($map:expr, $writer:ident => $answer:expr) => {
        match &$map.names {
            Either::Numbers(Names::Writer($writer)) => $answer,
            Either::Bytes(Names::Writer($writer)) => $answer,
            _ => Err(PyTypeError::new_err("these names have no writer here")),
        }
    };
}

impl LiveNamesWriter {
    fn of(
        py: Python<'_>,
        names: Either,
        keys: Keys,
        text: bool,
        path: PathBuf,
    ) -> PyResult<Py<Self>> {
        let reader = NameReader {
            names,
            keys,
            text,
            path,
        };
        let class = PyClassInitializer::from(reader).add_subclass(LiveNames);
        Py::new(py, class.add_subclass(LiveNamesWriter))
    }
}

#[pymethods]
impl LiveNamesWriter {
    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Self::insert(slf, key, value).map(drop)
    }

    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let map = slf.as_super().as_super().get();
        let old = writing!(map, writer => take(map, writer, key))?;
        old.map(drop)
            .ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Inserts a key or replaces its value; returns the old value, or None.
    #[pyo3(signature = (key, value, /))]
    fn insert(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let map = slf.as_super().as_super().get();
        writing!(map, writer => put(map, writer, key, value))
    }

    /// Removes a key and returns its value. When it is not there, returns `default` or raises
    /// KeyError.
    #[pyo3(signature = (key, /, *default))]
    fn pop(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        default: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        let default = at_most_one("pop", default)?;
        let map = slf.as_super().as_super().get();
        let old = writing!(map, writer => take(map, writer, key))?;
        old.or(default)
            .ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Removes the keys of an iterable, as far as they are there, and then inserts all items of a
    /// mapping or of an iterable of pairs, and the other named arguments, in one commit. An error
    /// changes nothing.
    #[pyo3(signature = (items=None, /, *, remove=None, **others))]
    fn update(
        slf: &Bound<'_, Self>,
        items: Option<&Bound<'_, PyAny>>,
        remove: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let map = slf.as_super().as_super().get();
        writing!(map, writer => change(slf.py(), map, writer, items, remove, others))
    }

    /// Removes all entries in one commit.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        let map = slf.as_super().as_super().get();
        writing!(map, writer => commit(slf.py(), writer, |txn| txn.clear().map(drop)))
    }

    /// Removes the entries whose keys start with a prefix, in one commit; with dns=True, those at
    /// and below a name. Returns their number.
    #[pyo3(signature = (prefix, /))]
    fn remove_prefix(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<usize> {
        let map = slf.as_super().as_super().get();
        let bytes = map.keys.bytes(prefix)?;
        writing!(map, writer => commit(slf.py(), writer, |txn| txn.remove_prefix(&bytes)))
    }

    /// What LiveWriting in python/sapwood/_mapping.py asks the writer for.
    fn _writer<'py>(slf: &Bound<'py, Self>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        writing!(slf.as_super().as_super().get(), writer => writer.asked(slf.py(), what))
    }
}

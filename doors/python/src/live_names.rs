//! `LiveNames`: a map of names that another process writes, and `LiveNamesWriter`, which writes
//! one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyType};
use sapwood::qp::Error as MapError;
use sapwood::qp::{AnyValues, QpShared, QpStore, QpTxn};
use sapwood_live::{CheckedNames, Error, Live, LiveIdle, LiveValue, ReadBy};

use crate::address::shown;
use crate::errors::refused;
use crate::live::{self, Pool, Pooled, ToChange, Writer, not_live, patiently};
use crate::name_keys::Keys;
use crate::name_reader::{AnyNames, NameReader, Names, Shown};
use crate::numbers::whole;

/// A map of names that another process writes, read in place: readers take no lock, and each call
/// sees what was committed last.
///
/// The map is a directory, which LiveNames.create() makes, or the program `sapwood`
/// (`names serve`). The reader holds nothing back between two calls. Threads may share it, and
/// children of a fork may go on reading.
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

/// Whether a map has values of another kind.
fn other_values(error: &Error) -> bool {
    matches!(error, Error::Layout { .. })
}

/// Opens a map of numbers or of byte strings, for one kind of reader.
fn opened_as<N, B>(path: &Path, wait: Duration) -> Result<AnyNames, Error>
where
    N: Pooled,
    B: Pooled,
    Pool<N>: Names<u64> + 'static,
    Pool<B>: Names<[u8]> + 'static,
{
    let names = AnyValues::open(
        || Pool::<N>::open(path, wait).map(Arc::new),
        || Pool::<B>::open(path, wait).map(Arc::new),
        other_values,
    )?;
    Ok(names.into())
}

/// Opens a store, or else a shared map. Also returns whether it counts its entries.
fn opened(path: &Path, wait: Duration, registered: bool) -> Result<(AnyNames, bool), Error> {
    type Asked<M> = CheckedNames<M>;
    let store = match registered {
        true => opened_as::<LiveIdle<QpStore<u64>>, LiveIdle<QpStore<[u8]>>>(path, wait),
        false => opened_as::<Asked<QpStore<u64>>, Asked<QpStore<[u8]>>>(path, wait),
    };
    let Err(first @ Error::Kind { .. }) = store else {
        return store.map(|names| (names, true));
    };
    let shared = match registered {
        true => opened_as::<LiveIdle<QpShared<u64>>, LiveIdle<QpShared<[u8]>>>(path, wait),
        false => opened_as::<Asked<QpShared<u64>>, Asked<QpShared<[u8]>>>(path, wait),
    };
    match shared {
        Err(Error::Kind { .. }) => Err(first),
        names => names.map(|names| (names, false)),
    }
}

#[pymethods]
impl LiveNames {
    /// Opens the live map in a directory; `key`, `dns` and `text` are as for NameFile.open(). With
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
        let (py, keys) = (class.py(), Keys::of(key, dns)?);
        let (names, counted) = patiently(py, wait, |wait| opened(&path, wait, registered))?;
        let reader = NameReader {
            names,
            counted,
            keys,
            text,
            path,
        };
        Py::new(py, PyClassInitializer::from(reader).add_subclass(LiveNames))
    }

    /// Makes an empty live map in a directory, which is made if it is not there, and returns its
    /// writer. `values` is int (from 0 to 2**64 - 1), bytes or str: all values are of this type.
    /// `read_by` says who may register as a reader beside root: "owner" (as without it),
    /// "everybody", or the number of a group. FileExistsError when the directory has a live map.
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
        let (py, who, keys) = (class.py(), live::read_by(read_by)?, Keys::of(key, dns)?);
        let is = |class: Bound<'_, PyType>| values.is_some_and(|values| values.is(&class));
        let is_text = is(py.get_type::<PyString>());
        let place = (&*path, false);
        let writer = if is_text || is(py.get_type::<PyBytes>()) {
            writer(py, place, who).map(Writers::Bytes)
        } else if values.is_none() || is(py.get_type::<PyInt>()) {
            writer(py, place, who).map(Writers::Numbers)
        } else {
            let other = values.map(shown).unwrap_or_default();
            let text = format!("values is int, bytes or str, not {other}");
            return Err(PyTypeError::new_err(text));
        };
        LiveNamesWriter::of(py, writer.map_err(not_live)?, keys, is_text, path)
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
        let (py, who, keys) = (class.py(), live::read_by(read_by)?, Keys::of(key, dns)?);
        let take_over = (&*path, true);
        let writer = Writers::open(
            || writer(py, take_over, who),
            || writer(py, take_over, who),
            other_values,
        );
        LiveNamesWriter::of(py, writer.map_err(not_live)?, keys, text, path)
    }

    /// What LiveReading and LiveWriting in python/sapwood/_mapping.py ask for.
    fn _live<'py>(slf: &Bound<'py, Self>, what: &str) -> PyResult<Bound<'py, PyAny>> {
        let live = slf.as_super().get().live();
        let none = || PyTypeError::new_err("these names are in no live map");
        live.ok_or_else(none)?.asked(slf.py(), what)
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
    changes: &ToChange<'_>,
) -> PyResult<()> {
    let key = |key: &Bound<'_, PyAny>| Ok(map.keys.bytes(key)?.into_owned());
    let value = |value: &Bound<'_, PyAny>| V::of_object(value, map.text);
    let changes = changes.read(key, value)?;
    commit(py, writer, |txn| {
        for key in changes.gone {
            txn.remove(key)?;
        }
        for (key, value) in changes.new {
            V::insert(txn, &key, &value)?;
        }
        Ok(())
    })
}

/// The writer of a live map of names, which other processes read with LiveNames.open().
///
/// LiveNames.create() and LiveNames.take_over() make it. It is also a reader, and a
/// collections.abc.MutableMapping. Each change is one commit: readers see all of it, or nothing
/// yet. The map has a writer until close(), or until the process ends; it stays in its directory
/// until remove_map(). A child of a fork cannot write it.
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
pub struct LiveNamesWriter {
    writer: Writers,
}

/// The writer of a store with values of either kind.
type Writers = AnyValues<Arc<Writer<QpStore<u64>>>, Arc<Writer<QpStore<[u8]>>>>;

/// Evaluates an expression for the writer, whichever its values are.
macro_rules! writing {
    ($slf:expr, $map:ident, $writer:ident => $answer:expr) => {{
        let $map = $slf.as_super().as_super().get();
        match &$slf.get().writer {
            Writers::Numbers($writer) => $answer,
            Writers::Bytes($writer) => $answer,
        }
    }};
}

/// The writer of a store that is made, or taken over.
fn writer<V: ?Sized + LiveValue>(
    py: Python<'_>,
    place: (&Path, bool),
    read_by: Option<ReadBy>,
) -> Result<Arc<Writer<QpStore<V>>>, Error> {
    Writer::<QpStore<V>>::new(py, place, read_by, Live::builder(), |map| map.verify())
}

impl LiveNamesWriter {
    fn of(
        py: Python<'_>,
        writer: Writers,
        keys: Keys,
        text: bool,
        path: PathBuf,
    ) -> PyResult<Py<Self>> {
        let reader = NameReader {
            names: writer.clone().into(),
            counted: true,
            keys,
            text,
            path,
        };
        let class = PyClassInitializer::from(reader).add_subclass(LiveNames);
        Py::new(py, class.add_subclass(LiveNamesWriter { writer }))
    }
}

#[pymethods]
impl LiveNamesWriter {
    /// Inserts a key or replaces its value; returns the old value, or None.
    #[pyo3(signature = (key, value, /))]
    fn insert(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        writing!(slf, map, writer => put(map, writer, key, value))
    }

    fn _take(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        writing!(slf, map, writer => take(map, writer, key))
    }

    fn _change(slf: &Bound<'_, Self>, changes: ToChange<'_>) -> PyResult<()> {
        writing!(slf, map, writer => change(slf.py(), map, writer, &changes))
    }

    /// Removes all entries in one commit.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        writing!(slf, _map, writer => commit(slf.py(), writer, |txn| txn.clear().map(drop)))
    }

    /// Removes the entries whose keys start with a prefix, in one commit; with dns=True, those at
    /// and below a name. Returns their number.
    #[pyo3(signature = (prefix, /))]
    fn remove_prefix(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<usize> {
        writing!(slf, map, writer => {
            let bytes = map.keys.bytes(prefix)?;
            commit(slf.py(), writer, |txn| txn.remove_prefix(&bytes))
        })
    }
}

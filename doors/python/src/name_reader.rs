//! `NameReader`: what all maps of names have in common.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use sapwood::qp::{AnyValues, OrderedRead, QpFile, ReadEntry, Value};

use crate::closest::{Closest, closest, needs_dns, with_cuts};
use crate::name_iter::{Chunk, NameIter};
use crate::name_keys::{Edges, Keys};
use crate::snapshot_iter::Kind;

#[cfg(target_os = "linux")]
use crate::live::Standing;

/// Names with values of one kind, wherever they lie.
pub trait Names<V: ?Sized + Value>: Send + Sync {
    /// Calls `f` with the names: in one read, so for one version of a store, unless the writer does
    /// not know of the reader. Python runs no code of users in it, since it makes only int, str and
    /// bytes.
    fn read(&self, py: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<V>)) -> PyResult<()>;

    /// How often keys, and how often values were changed, where that ends iterators.
    fn changes(&self, _: Python<'_>) -> (u64, u64) {
        (0, 0)
    }

    /// The live map, if they are in one.
    #[cfg(target_os = "linux")]
    fn live(&self) -> Option<&dyn Standing> {
        None
    }
}

impl<V: ?Sized + Value> Names<V> for QpFile<V>
where
    Self: OrderedRead<V> + Send + Sync,
{
    fn read(&self, _: Python<'_>, f: &mut dyn FnMut(&dyn OrderedRead<V>)) -> PyResult<()> {
        f(self);
        Ok(())
    }
}

impl<V: ?Sized + Value> dyn Names<V> {
    /// What `f` finds in the names.
    pub fn find<R>(
        &self,
        py: Python<'_>,
        mut f: impl FnMut(&dyn OrderedRead<V>) -> R,
    ) -> PyResult<R> {
        let mut found = None;
        self.read(py, &mut |names| found = Some(f(names)))?;
        Ok(found.expect("read has called the function"))
    }
}

/// Names with values of any kind.
pub enum AnyNames {
    Numbers(Arc<dyn Names<u64>>),
    Bytes(Arc<dyn Names<[u8]>>),
    Objects(Arc<dyn Names<Py<PyAny>>>),
}

impl<N: Names<u64> + 'static, B: Names<[u8]> + 'static> From<AnyValues<Arc<N>, Arc<B>>>
    for AnyNames
{
    fn from(any: AnyValues<Arc<N>, Arc<B>>) -> Self {
        match any {
            AnyValues::Numbers(names) => AnyNames::Numbers(names),
            AnyValues::Bytes(names) => AnyNames::Bytes(names),
        }
    }
}

/// Evaluates an expression for names with values of any kind.
macro_rules! each {
    ($this:expr, $names:ident => $answer:expr) => {
        match &$this.names {
            AnyNames::Numbers($names) => $answer,
            AnyNames::Bytes($names) => $answer,
            AnyNames::Objects($names) => $answer,
        }
    };
}

/// Evaluates an expression in one read of the names.
macro_rules! on {
    ($this:expr, $py:expr, $names:ident => $answer:expr) => {
        each!($this, names => names.find($py, |$names| $answer))
    };
}

/// A value as an object.
pub trait Shown {
    fn object(&self, py: Python<'_>, text: bool) -> Py<PyAny>;
}

impl Shown for u64 {
    fn object(&self, py: Python<'_>, _text: bool) -> Py<PyAny> {
        let Ok(number) = self.into_pyobject(py);
        number.into_any().unbind()
    }
}

impl Shown for Py<PyAny> {
    fn object(&self, py: Python<'_>, _text: bool) -> Py<PyAny> {
        self.clone_ref(py)
    }
}

impl Shown for [u8] {
    fn object(&self, py: Python<'_>, text: bool) -> Py<PyAny> {
        match text {
            true => PyString::new(py, &String::from_utf8_lossy(self))
                .into_any()
                .unbind(),
            false => PyBytes::new(py, self).into_any().unbind(),
        }
    }
}

/// What NameMap, NameFile, LiveNames and LiveNamesWriter have in common. Each call reads the newest
/// names; an iterator reads some dozens of entries at once. It is a collections.abc.Mapping.
#[pyclass(frozen, generic, mapping, subclass, weakref, module = "sapwood")]
pub struct NameReader {
    pub(crate) names: AnyNames,
    /// Whether the number of entries is known without a walk.
    pub(crate) counted: bool,
    pub(crate) keys: Keys,
    pub(crate) text: bool,
    /// Empty for one that lies in no file.
    pub(crate) path: PathBuf,
}

type Pair<'py> = Option<(Bound<'py, PyAny>, Py<PyAny>)>;

impl NameReader {
    /// Up to `most` entries between the edges, from the end with `back`.
    pub(crate) fn chunk(
        &self,
        py: Python<'_>,
        edges: &Edges,
        back: bool,
        most: usize,
    ) -> PyResult<Chunk> {
        let changes = self.changes(py);
        let entries = on!(self, py, names => {
            let range = names.range(edges.as_bounds());
            let entry = |(key, value): ReadEntry<'_, _>| {
                (Box::from(&*key), Shown::object(value, py, self.text))
            };
            match back {
                true => range.rev().take(most).map(entry).collect(),
                false => range.take(most).map(entry).collect(),
            }
        })?;
        Ok(Chunk { entries, changes })
    }

    /// How often keys, and how often values were changed, where that ends iterators.
    pub(crate) fn changes(&self, py: Python<'_>) -> (u64, u64) {
        each!(self, names => names.changes(py))
    }

    /// Number of entries, if the map counts them.
    fn count(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.counted
            .then(|| on!(self, py, names => names.entries()))
            .transpose()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn live(&self) -> Option<&dyn Standing> {
        each!(self, names => names.live())
    }

    fn pair<'py, V: ?Sized + Shown + Value>(
        &self,
        py: Python<'py>,
        entry: Option<ReadEntry<'_, V>>,
    ) -> Pair<'py> {
        let (key, value) = entry?;
        Some((self.keys.object(py, &key), value.object(py, self.text)))
    }

    pub(crate) fn find(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Py<PyAny>>> {
        on!(self, py, names => names.get(key).map(|value| Shown::object(value, py, self.text)))
    }

    fn iter(slf: &Bound<'_, Self>, edges: Edges, kind: Kind, back: bool) -> NameIter {
        NameIter::new(slf.py(), slf.clone().unbind(), edges, kind, back)
    }
}

#[pymethods]
impl NameReader {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.count(py)?.ok_or_else(|| {
            let text = "this live map has many writers and no len(); sum(1 for _ in it) counts";
            PyTypeError::new_err(text)
        })
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        on!(self, py, names => names.first_key_value().is_some())
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let bytes = self.keys.bytes(key)?;
        let found = self.find(key.py(), &bytes)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = self.keys.bytes(key)?;
        on!(self, key.py(), names => names.get(&bytes).is_some())
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let bytes = self.keys.bytes(key)?;
        Ok(self.find(key.py(), &bytes)?.or(default))
    }

    /// The entry with the least key, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Pair<'py>> {
        on!(self, py, names => self.pair(py, names.first_key_value()))
    }

    /// The entry with the greatest key, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Pair<'py>> {
        on!(self, py, names => self.pair(py, names.last_key_value()))
    }

    /// The entry with the greatest key less than this one, or None.
    #[pyo3(signature = (key, /))]
    fn predecessor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        on!(self, key.py(), names => self.pair(key.py(), names.predecessor(&bytes)))
    }

    /// The entry with the least key greater than this one, or None.
    #[pyo3(signature = (key, /))]
    fn successor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        on!(self, key.py(), names => self.pair(key.py(), names.successor(&bytes)))
    }

    /// The entry with the longest key that is a prefix of this one (itself included), or None; with
    /// dns=True, the closest name at or above this one that has an entry.
    #[pyo3(signature = (key, /))]
    fn longest_prefix<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        on!(self, key.py(), names => self.pair(key.py(), names.longest_prefix(&bytes)))
    }

    /// A list of all entries whose keys are prefixes of this one (itself included), shortest first.
    #[pyo3(signature = (key, /))]
    fn ancestors<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = key.py();
        let bytes = self.keys.bytes(key)?;
        let found: Vec<_> = on!(self, py, names => {
            let found = names.ancestors(&bytes).into_iter();
            found.filter_map(|entry| self.pair(py, Some(entry))).collect()
        })?;
        PyList::new(py, found)
    }

    /// An iterator over the entries whose keys start with a prefix (itself included), in order;
    /// with dns=True, over those at and below a name.
    #[pyo3(signature = (prefix, /))]
    fn prefix(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>) -> PyResult<NameIter> {
        let edges = Edges::below(&slf.get().keys.bytes(prefix)?);
        Ok(Self::iter(slf, edges, Kind::Items, false))
    }

    /// An iterator over the entries with keys from `start` to before `stop`, in order. None is no
    /// limit.
    #[pyo3(signature = (start=None, stop=None, /))]
    fn range(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<NameIter> {
        let edges = slf.get().keys.range(start, stop)?;
        Ok(Self::iter(slf, edges, Kind::Items, false))
    }

    /// What a name server needs to answer for a name, in one descent: its own entry, its closest
    /// encloser, the wildcard there, and the entry before it. For maps with dns=True.
    ///
    /// >>> zone = NameMap({"org": 1, "*.org": 2, "www.example.org": 3}, dns=True)
    /// >>> found = zone.closest("mail.org")
    /// >>> found.exact, found.encloser, found.wildcard
    /// (None, 'org', ('*.org', 2))
    /// >>> zone.closest("example.org").exists  # a name lies below it
    /// True
    ///
    /// is_cut(name, value) says whether an entry is a zone cut. Then `cut` is the topmost one at or
    /// above the name, and predecessors are the last entries that lie below none.
    ///
    /// >>> zone = NameMap({"org": 1, "sub.org": 2, "ns.sub.org": 3}, dns=True)
    /// >>> zone.closest("t.org", is_cut=lambda name, value: value == 2).predecessor
    /// ('sub.org', 2)
    #[pyo3(signature = (name, /, *, is_cut=None))]
    fn closest(
        &self,
        name: &Bound<'_, PyAny>,
        is_cut: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Closest> {
        needs_dns(self.keys)?;
        let py = name.py();
        let bytes = self.keys.bytes(name)?;
        with_cuts(py, self.keys, is_cut, |cuts| {
            on!(self, py, names => {
                let found = names.denial(&bytes, 0, &mut |key, value| {
                    cuts(key, &|| Shown::object(value, py, self.text))
                });
                closest(py, self.keys, &bytes, found, |value| Shown::object(value, py, self.text))
            })
        })
    }

    fn __iter__(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Keys, false)
    }

    /// An iterator for views.
    fn _walk(slf: &Bound<'_, Self>, kind: &str, back: bool) -> PyResult<NameIter> {
        Ok(Self::iter(slf, Edges::all(), Kind::of(kind)?, back))
    }

    /// What opens the map again, for pickles: its path, and named arguments of open().
    fn _opened<'py>(&self, py: Python<'py>) -> PyResult<(&PathBuf, Bound<'py, PyDict>)> {
        let how = PyDict::new(py);
        if self.keys == Keys::Bytes {
            how.set_item("key", py.get_type::<PyBytes>())?;
        }
        how.set_item("dns", self.keys == Keys::Dns)?;
        how.set_item("text", self.text)?;
        #[cfg(target_os = "linux")]
        if let Some(live) = self.live() {
            how.set_item("registered", live.registered()?)?;
        }
        Ok((&self.path, how))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let this = slf.get();
        let (class, word) = (slf.get_type().name()?, this.keys.word());
        let path = match this.path.as_os_str().is_empty() {
            true => String::new(),
            false => format!(" {:?}", this.path),
        };
        let entries = match this.count(slf.py())? {
            Some(entries) => format!(": {entries} entries"),
            None => String::new(),
        };
        Ok(format!("<sapwood.{class}{path} of {word} keys{entries}>"))
    }
}

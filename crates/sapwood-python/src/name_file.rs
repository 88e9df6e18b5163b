//! `NameFile`: a saved map of names, read where it lies.

use std::path::PathBuf;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};
use sapwood::qp::{OpenCause, QpFile};

use crate::closest::{Closest, closest, needs_dns};
use crate::errors::not_opened;
use crate::name_iter::{Chunk, NameIter, Source};
use crate::name_keys::{Edges, Keys};
use crate::snapshot_iter::Kind;

/// A file with values of one kind.
enum File {
    Numbers(QpFile<u64>),
    Bytes(QpFile<[u8]>),
}

/// Evaluates an expression for the file, whichever its values are.
macro_rules! on {
    ($this:expr, $file:ident => $answer:expr) => {
        match &$this.file {
            File::Numbers($file) => $answer,
            File::Bytes($file) => $answer,
        }
    };
}

/// A value of a file as an object.
trait Shown {
    fn object(&self, py: Python<'_>, text: bool) -> Py<PyAny>;
}

impl Shown for u64 {
    fn object(&self, py: Python<'_>, _text: bool) -> Py<PyAny> {
        let Ok(number) = self.into_pyobject(py);
        number.into_any().unbind()
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

/// A map of names in a file, read where it lies: it opens at once, and processes that open the same
/// file share its memory.
///
/// NameMap.save() writes such files, and so does the program `sapwood`. The file must not be
/// changed in place while it is open; saving again replaces it.
///
/// >>> import os, tempfile
/// >>> from sapwood import NameFile, NameMap
/// >>> path = os.path.join(tempfile.mkdtemp(), "blocked")
/// >>> NameMap({"ads.example": 1, "example.org": 2}, dns=True).save(path)
/// >>> blocked = NameFile.open(path, dns=True)
/// >>> blocked.longest_prefix("pixel.Ads.example"), "example" in blocked
/// (('ads.example', 1), False)
#[pyclass(frozen, module = "sapwood")]
pub struct NameFile {
    file: File,
    pub(crate) keys: Keys,
    text: bool,
    path: PathBuf,
}

type Pair<'py> = Option<(Bound<'py, PyAny>, Py<PyAny>)>;

impl NameFile {
    /// Up to `most` entries between the edges, from the end with `back`.
    pub(crate) fn chunk(&self, py: Python<'_>, edges: &Edges, back: bool, most: usize) -> Chunk {
        let entries = on!(self, file => {
            let range = file.range::<[u8], _>(edges.as_bounds());
            let entry = |(key, value)| (Box::from(key), Shown::object(value, py, self.text));
            match back {
                true => range.rev().take(most).map(entry).collect(),
                false => range.take(most).map(entry).collect(),
            }
        });
        Chunk {
            entries,
            changes: 0,
            writes: 0,
        }
    }

    fn pair<'py, V: ?Sized + Shown>(
        &self,
        py: Python<'py>,
        entry: Option<(&[u8], &V)>,
    ) -> Pair<'py> {
        let (key, value) = entry?;
        Some((self.keys.object(py, key), value.object(py, self.text)))
    }

    fn find(&self, py: Python<'_>, key: &[u8]) -> Option<Py<PyAny>> {
        on!(self, file => file.get(key).map(|value| Shown::object(value, py, self.text)))
    }

    fn iter(slf: &Bound<'_, Self>, edges: Edges, kind: Kind, back: bool) -> NameIter {
        let source = Source::File(slf.clone().unbind());
        NameIter::new(slf.py(), source, edges, kind, back)
    }
}

#[pymethods]
impl NameFile {
    /// Opens a file that NameMap.save() wrote; `key` and `dns` are as for that map, which the file
    /// does not say. With text=True, values that were saved as bytes or str are returned as str.
    /// With verify=True, reads all of the file and checks its checksums and every invariant. With
    /// verify=False, checks the header only, in a time that does not depend on the size; damage
    /// then shows as wrong answers.
    #[classmethod]
    #[pyo3(signature = (path, /, *, key=None, dns=false, text=false, verify=true))]
    fn open(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
        text: bool,
        verify: bool,
    ) -> PyResult<Self> {
        let keys = Keys::of(key, dns)?;
        let file = py.detach(|| {
            let numbers = match verify {
                true => QpFile::<u64>::open(&path),
                false => QpFile::<u64>::open_unverified(&path),
            };
            match numbers {
                Err(error) if matches!(error.cause, OpenCause::ByteStrings { .. }) => {
                    match verify {
                        true => QpFile::<[u8]>::open(&path).map(File::Bytes),
                        false => QpFile::<[u8]>::open_unverified(&path).map(File::Bytes),
                    }
                }
                numbers => numbers.map(File::Numbers),
            }
        });
        Ok(NameFile {
            file: file.map_err(|error| not_opened(&error))?,
            keys,
            text,
            path,
        })
    }

    fn __len__(&self) -> usize {
        on!(self, file => file.len())
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let bytes = self.keys.bytes(key)?;
        let found = self.find(key.py(), &bytes);
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = self.keys.bytes(key)?;
        Ok(on!(self, file => file.contains_key(&bytes)))
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let bytes = self.keys.bytes(key)?;
        Ok(self.find(key.py(), &bytes).or(default))
    }

    /// The entry with the least key, or None.
    fn first<'py>(&self, py: Python<'py>) -> Pair<'py> {
        on!(self, file => self.pair(py, file.first_key_value()))
    }

    /// The entry with the greatest key, or None.
    fn last<'py>(&self, py: Python<'py>) -> Pair<'py> {
        on!(self, file => self.pair(py, file.last_key_value()))
    }

    /// The entry with the greatest key less than this one, or None.
    #[pyo3(signature = (key, /))]
    fn predecessor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        Ok(on!(self, file => self.pair(key.py(), file.predecessor(&bytes))))
    }

    /// The entry with the least key greater than this one, or None.
    #[pyo3(signature = (key, /))]
    fn successor<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        Ok(on!(self, file => self.pair(key.py(), file.successor(&bytes))))
    }

    /// The entry with the longest key that is a prefix of this one (itself included), or None; with
    /// dns=True, the closest name at or above this one that has an entry.
    #[pyo3(signature = (key, /))]
    fn longest_prefix<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
        let bytes = self.keys.bytes(key)?;
        Ok(on!(self, file => self.pair(key.py(), file.longest_prefix(&bytes))))
    }

    /// A list of all entries whose keys are prefixes of this one (itself included), shortest first.
    #[pyo3(signature = (key, /))]
    fn ancestors<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = key.py();
        let bytes = self.keys.bytes(key)?;
        let found: Vec<_> = on!(self, file => {
            let found = file.ancestors(&bytes).into_iter();
            found.filter_map(|entry| self.pair(py, Some(entry))).collect()
        });
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

    /// What a name server needs to answer for a name; see NameMap.closest().
    #[pyo3(signature = (name, /))]
    fn closest(&self, name: &Bound<'_, PyAny>) -> PyResult<Closest> {
        needs_dns(self.keys)?;
        let py = name.py();
        let bytes = self.keys.bytes(name)?;
        Ok(on!(self, file => {
            let found = file.closest(&bytes, 0, |_, _| false);
            closest(py, self.keys, &bytes, found, |value| Shown::object(value, py, self.text))
        }))
    }

    fn __iter__(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Keys, false)
    }

    fn __reversed__(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Keys, true)
    }

    /// An iterator over all keys, in order. reversed() reverses it.
    fn keys(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Keys, false)
    }

    /// An iterator over all values, in the order of their keys. reversed() reverses it.
    fn values(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Values, false)
    }

    /// An iterator over pairs of key and value, in order. reversed() reverses it.
    fn items(slf: &Bound<'_, Self>) -> NameIter {
        Self::iter(slf, Edges::all(), Kind::Items, false)
    }

    fn __repr__(&self) -> String {
        let (word, entries) = (self.keys.word(), self.__len__());
        let path = &self.path;
        format!("<sapwood.NameFile {path:?} of {word} keys: {entries} entries>")
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (PathBuf, &'static str, bool))> {
        let file = slf.get();
        let again = slf.get_type().getattr("_again")?;
        Ok((again, (file.path.clone(), file.keys.word(), file.text)))
    }

    #[classmethod]
    fn _again(
        class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        keys: &str,
        text: bool,
    ) -> PyResult<Self> {
        let keys = Keys::of_word(keys)?;
        let mut file = Self::open(class, py, path, None, false, text, true)?;
        file.keys = keys;
        Ok(file)
    }
}

//! Iterators over a `Fib` or a `RangeMap`: over the entries that it had when they began.

use ipnet::IpNet;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange, PyString};

use crate::fib::Fib;
use crate::objects::{Reading, SharedObjects};
use crate::ranges::RangeMap;

/// What an iterator yields.
#[derive(Clone, Copy)]
pub enum Kind {
    Keys,
    Values,
    Items,
}

impl Kind {
    /// The kind of a word: the name of the method that shows it.
    pub fn of(word: &str) -> PyResult<Self> {
        match word {
            "keys" => Ok(Kind::Keys),
            "values" => Ok(Kind::Values),
            "items" => Ok(Kind::Items),
            other => Err(PyValueError::new_err(format!("no such view: {other:?}"))),
        }
    }
}

/// An iterator over entries that are there already.
pub fn listed<'py>(
    py: Python<'py>,
    kind: Kind,
    back: bool,
    entries: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let entries = entries.into_iter();
    let parts = entries.map(|(key, value)| match kind {
        Kind::Keys => Ok(key),
        Kind::Values => Ok(value),
        Kind::Items => Ok((key, value).into_pyobject(py)?.into_any()),
    });
    let mut parts = parts.collect::<PyResult<Vec<_>>>()?;
    if back {
        parts.reverse();
    }
    Ok(PyList::new(py, parts)?.try_iter()?.into_any())
}

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Net(IpNet),
    /// From the first index to the last.
    Range(u64, u64),
}

impl Place {
    /// The key as an object: a text, or a range.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Place::Net(net) => Ok(PyString::new(py, &net.to_string()).into_any()),
            Place::Range(start, end) => {
                let stop = u128::from(*end) + 1;
                py.get_type::<PyRange>().call1((*start, stop))
            }
        }
    }
}

/// A map that has numbers for its objects.
pub enum Numbered {
    Fib(Py<Fib>),
    Ranges(Py<RangeMap>),
}

impl AsRef<SharedObjects> for Numbered {
    fn as_ref(&self) -> &SharedObjects {
        match self {
            Numbered::Fib(fib) => &fib.get().objects,
            Numbered::Ranges(ranges) => &ranges.get().table.objects,
        }
    }
}

/// An iterator over the entries of a Fib or a RangeMap, as it was when the iterator was made.
#[pyclass(generic, module = "sapwood")]
pub struct SnapshotIter {
    /// Keeps the objects of removed entries; none at the end.
    reading: Option<Reading<Numbered>>,
    entries: std::vec::IntoIter<(Place, u32)>,
    kind: Kind,
}

impl SnapshotIter {
    /// An iterator over the entries that `entries` finds.
    pub fn new(
        py: Python<'_>,
        map: Numbered,
        kind: Kind,
        back: bool,
        entries: impl FnOnce() -> Vec<(Place, u32)>,
    ) -> Self {
        let reading = SharedObjects::read(py, map);
        let mut entries = entries();
        if back {
            entries.reverse();
        }
        SnapshotIter {
            reading: Some(reading),
            entries: entries.into_iter(),
            kind,
        }
    }

    /// The next entry.
    pub fn next_pair(&mut self, py: Python<'_>) -> Option<(Place, Py<PyAny>)> {
        let Some((place, number)) = self.entries.next() else {
            self.reading = None;
            return None;
        };
        let objects = self.reading.as_ref()?.objects.as_ref();
        let object = objects.with(py, |objects| {
            objects.get(number).map(|object| object.clone_ref(py))
        });
        Some((place, object.unwrap_or_else(|| py.None())))
    }
}

#[pymethods]
impl SnapshotIter {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((place, value)) = self.next_pair(py) else {
            return Ok(None);
        };
        Ok(Some(match self.kind {
            Kind::Keys => place.object(py)?,
            Kind::Values => value.into_bound(py),
            Kind::Items => (place.object(py)?, value).into_pyobject(py)?.into_any(),
        }))
    }

    fn __length_hint__(&self) -> usize {
        self.entries.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.reading.as_ref().map(|reading| &reading.objects) {
            Some(Numbered::Fib(fib)) => visit.call(fib),
            Some(Numbered::Ranges(ranges)) => visit.call(ranges),
            None => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.reading = None;
    }
}

//! Iterators over a `Fib`: over the prefixes that it had when they began.

use ipnet::IpNet;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::fib::Fib;
use crate::objects::{Reading, SharedObjects};

/// What an iterator yields.
#[derive(Clone, Copy)]
pub enum Kind {
    Keys,
    Values,
    Items,
}

struct Held(Py<Fib>);

impl AsRef<SharedObjects> for Held {
    fn as_ref(&self) -> &SharedObjects {
        &self.0.get().objects
    }
}

/// An iterator over the prefixes of a Fib, as it was when the iterator was made.
#[pyclass(module = "sapwood")]
pub struct FibIter {
    /// Keeps the objects of removed prefixes; none at the end.
    reading: Option<Reading<Held>>,
    entries: std::vec::IntoIter<(IpNet, u32)>,
    kind: Kind,
}

impl FibIter {
    pub fn new(fib: &Bound<'_, Fib>, kind: Kind) -> Self {
        let reading = SharedObjects::read(fib.py(), Held(fib.clone().unbind()));
        FibIter {
            reading: Some(reading),
            entries: fib.get().entries().into_iter(),
            kind,
        }
    }

    /// The next prefix and its value.
    pub fn next_pair(&mut self, py: Python<'_>) -> Option<(IpNet, Py<PyAny>)> {
        let Some((net, number)) = self.entries.next() else {
            self.reading = None;
            return None;
        };
        let objects = self.reading.as_ref()?.objects.as_ref();
        let object = objects.with(py, |objects| {
            objects.get(number).map(|object| object.clone_ref(py))
        });
        Some((net, object.unwrap_or_else(|| py.None())))
    }

    /// All that is left, as an iterator of Rust.
    pub fn pairs(mut self, py: Python<'_>) -> impl Iterator<Item = (IpNet, Py<PyAny>)> {
        std::iter::from_fn(move || self.next_pair(py))
    }
}

#[pymethods]
impl FibIter {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((net, value)) = self.next_pair(py) else {
            return Ok(None);
        };
        let text = || PyString::new(py, &net.to_string()).into_any();
        Ok(Some(match self.kind {
            Kind::Keys => text(),
            Kind::Values => value.into_bound(py),
            Kind::Items => (text(), value).into_pyobject(py)?.into_any(),
        }))
    }

    fn __length_hint__(&self) -> usize {
        self.entries.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.reading {
            Some(reading) => visit.call(&reading.objects.0),
            None => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.reading = None;
    }
}

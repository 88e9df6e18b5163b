//! Iterators over names: in maps, in files, and in live maps.

use std::collections::VecDeque;
use std::ops::Bound as Edge;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::name_keys::Edges;
use crate::name_reader::NameReader;
use crate::snapshot_iter::Kind;

/// Entries that are read at once.
const CHUNK: usize = 64;

/// The bytes of a key, and a value.
pub type Entry = (Box<[u8]>, Py<PyAny>);

/// Entries that were read at one moment.
pub struct Chunk {
    pub entries: VecDeque<Entry>,
    /// How often keys were inserted or removed before, and how often values were replaced.
    pub changes: (u64, u64),
}

/// An iterator over entries of a NameMap, a NameFile or a live map, in order.
#[pyclass(generic, module = "sapwood")]
pub struct NameIter {
    /// None at the end.
    source: Option<Py<NameReader>>,
    edges: Edges,
    back: bool,
    kind: Kind,
    chunk: Chunk,
    begun: bool,
    last: Option<Box<[u8]>>,
}

impl NameIter {
    /// An iterator over the keys between the edges.
    pub fn new(
        py: Python<'_>,
        source: Py<NameReader>,
        edges: Edges,
        kind: Kind,
        back: bool,
    ) -> Self {
        let changes = source.get().changes(py);
        NameIter {
            source: Some(source),
            edges,
            back,
            kind,
            chunk: Chunk {
                entries: VecDeque::new(),
                changes,
            },
            begun: false,
            last: None,
        }
    }

    fn next_entry(&mut self, py: Python<'_>) -> PyResult<Option<Entry>> {
        let Some(source) = self.source.as_ref().map(Py::get) else {
            return Ok(None);
        };
        let changes = source.changes(py);
        if changes.0 != self.chunk.changes.0 {
            self.source = None;
            return Err(PyRuntimeError::new_err("map changed during iteration"));
        }
        if self.chunk.entries.is_empty() || changes != self.chunk.changes {
            if let Some(last) = &self.last {
                let edge = Edge::Excluded(last.to_vec());
                match self.back {
                    true => self.edges.end = edge,
                    false => self.edges.start = edge,
                }
            }
            self.chunk = source.chunk(py, &self.edges, self.back, CHUNK)?;
        }
        self.begun = true;
        match self.chunk.entries.pop_front() {
            Some(entry) => {
                self.last = Some(entry.0.clone());
                Ok(Some(entry))
            }
            None => {
                self.source = None;
                Ok(None)
            }
        }
    }
}

#[pymethods]
impl NameIter {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The same entries in descending order, before the first one was taken.
    fn __reversed__(&self, py: Python<'_>) -> PyResult<Self> {
        let source = match &self.source {
            Some(source) if !self.begun => source.clone_ref(py),
            _ => {
                let text = "an iterator that has begun cannot be reversed";
                return Err(PyRuntimeError::new_err(text));
            }
        };
        Ok(Self::new(
            py,
            source,
            self.edges.clone(),
            self.kind,
            !self.back,
        ))
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(keys) = self.source.as_ref().map(|source| source.get().keys) else {
            return Ok(None);
        };
        let Some((key, value)) = self.next_entry(py)? else {
            return Ok(None);
        };
        Ok(Some(match self.kind {
            Kind::Keys => keys.object(py, &key),
            Kind::Values => value.into_bound(py),
            Kind::Items => (keys.object(py, &key), value).into_pyobject(py)?.into_any(),
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.source)?;
        for (_, value) in &self.chunk.entries {
            visit.call(value)?;
        }
        Ok(())
    }

    fn __clear__(&mut self) {
        self.source = None;
        self.chunk.entries.clear();
    }
}

//! `RangeSnapshot`: what a `RangeMap` was at one time.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sapwood::maple::MapleSnapshot;

use crate::objects::{Reading, SharedObjects};
use crate::range_keys::{Range, place, range_or_index};
use crate::range_reader::{Entry, RangeReader, Ranges, View, wide};
use crate::range_table::of_entry;
use crate::ranges::RangeMap;
use crate::snapshot_iter::{Kind, Numbered, listed};

/// A version of a map, and its objects, which stay as long as somebody reads.
struct Version {
    snapshot: MapleSnapshot<u32>,
    reading: Reading<Numbered>,
}

impl Version {
    fn objects(&self) -> &SharedObjects {
        self.reading.objects.as_ref()
    }
}

impl Ranges for Version {
    fn read(&self, f: &mut dyn FnMut(View<'_>)) -> PyResult<()> {
        f(View::Names(self.snapshot.view()));
        Ok(())
    }

    fn at(&self, index: u64) -> PyResult<Option<Entry>> {
        let found = self.snapshot.view().get_entry(index);
        Ok(found.map(|(range, number)| (range, (*number).into())))
    }

    fn one(
        &self,
        py: Python<'_>,
        find: &dyn Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<(Range, Py<PyAny>)>> {
        let entry = find()?;
        Ok(self
            .objects()
            .with(py, |objects| of_entry(py, objects, entry?)))
    }

    fn all(&self, py: Python<'_>, within: &Range) -> PyResult<Vec<(Range, Py<PyAny>)>> {
        let view = self.snapshot.view();
        Ok(self.objects().with(py, |objects| {
            let entries = view.range(within.clone()).map(wide);
            entries
                .filter_map(|entry| of_entry(py, objects, entry))
                .collect()
        }))
    }
}

/// A piece of two versions: its indices, and the value in each, if there is one.
type Piece = (Range, Option<Py<PyAny>>, Option<Py<PyAny>>);

/// A RangeMap as it was when RangeMap.snapshot() was called: a collections.abc.Mapping with the
/// keys and the lookups of the map, which no change reaches.
///
/// It takes no copy. As long as it lives, it keeps the values that the map had, and the memory of
/// what was replaced since. RangeMap(snapshot) is a map of the same entries.
///
/// >>> from sapwood import RangeMap
/// >>> map = RangeMap({range(0, 100): "a"})
/// >>> before = map.snapshot()
/// >>> map[40:50] = "b"
/// >>> del map[90:]
/// >>> before[45], before.diff(map.snapshot())
/// ('a', [(range(40, 50), 'a', 'b'), (range(90, 100), 'a', None)])
#[pyclass(frozen, extends = RangeReader, generic, module = "sapwood")]
pub struct RangeSnapshot {
    version: Arc<Version>,
}

impl RangeSnapshot {
    pub fn of(map: &Bound<'_, RangeMap>) -> PyResult<PyClassInitializer<Self>> {
        let py = map.py();
        let table = &map.get().table;
        table.open()?;
        // What has an object now keeps it.
        let reading = SharedObjects::read(py, Numbered::Ranges(map.clone().unbind()));
        let snapshot = table.map.snapshot();
        let version = Arc::new(Version { snapshot, reading });
        let reader = RangeReader(version.clone());
        Ok(PyClassInitializer::from(reader).add_subclass(RangeSnapshot { version }))
    }

    /// The pieces of this snapshot beside another one; those with the same number in both are left
    /// out if only `changes` are wanted.
    fn pieces(&self, py: Python<'_>, other: &Self, changes: bool) -> Vec<Piece> {
        let (left, right) = (&self.version, &other.version);
        // Numbers of different maps cannot be compared.
        let one_map = std::ptr::eq(left.objects(), right.objects());
        let (left_view, right_view) = (left.snapshot.view(), right.snapshot.view());
        let pieces = left_view.overlay(&right_view);
        let pieces = pieces.filter(|(_, left, right)| !(changes && one_map && left == right));
        let pieces: Vec<_> = pieces
            .map(|(range, left, right)| (range, left.copied(), right.copied()))
            .collect();
        // One table is locked at a time: both may be the same.
        let of = |objects: &SharedObjects, number: &dyn Fn(usize) -> Option<u32>| {
            objects.with(py, |objects| {
                let object = |at| Some(objects.get(number(at)?)?.clone_ref(py));
                (0..pieces.len()).map(object).collect::<Vec<_>>()
            })
        };
        let lefts = of(left.objects(), &|at| pieces[at].1);
        let rights = of(right.objects(), &|at| pieces[at].2);
        let ranges = pieces.into_iter().map(|(range, ..)| range);
        ranges
            .zip(lefts.into_iter().zip(rights))
            .map(|(range, (left, right))| (range, left, right))
            .collect()
    }
}

/// Pieces as a list of tuples, with `default` for no value.
fn tuples<'py>(
    py: Python<'py>,
    pieces: Vec<Piece>,
    default: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let default = default.unwrap_or_else(|| py.None());
    let or_default = |value: Option<Py<PyAny>>| value.unwrap_or_else(|| default.clone_ref(py));
    let tuple = |(range, left, right): Piece| {
        let range = place(py, &range)?.unbind();
        PyTuple::new(py, [range, or_default(left), or_default(right)])
    };
    PyList::new(
        py,
        pieces
            .into_iter()
            .map(tuple)
            .collect::<PyResult<Vec<_>>>()?,
    )
}

fn same(py: Python<'_>, left: &Option<Py<PyAny>>, right: &Option<Py<PyAny>>) -> PyResult<bool> {
    match (left, right) {
        (Some(left), Some(right)) => Ok(left.is(right) || left.bind(py).eq(right)?),
        _ => Ok(left.is_none() && right.is_none()),
    }
}

#[pymethods]
impl RangeSnapshot {
    /// What is different in a newer snapshot: a list of tuples (range, old value, new value) of the
    /// indices whose values differ, in order. `default` stands for no value. Values differ if they
    /// are neither the same object nor equal. O(entries of both).
    #[pyo3(signature = (newer, /, *, default=None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        newer: &Bound<'py, RangeSnapshot>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut changes = Vec::new();
        for piece in self.pieces(py, newer.get(), true) {
            if !same(py, &piece.1, &piece.2)? {
                changes.push(piece);
            }
        }
        tuples(py, changes, default)
    }

    /// This snapshot and another one side by side: a list of tuples (range, value here, value
    /// there) of the indices that have a value in one of them, in order, cut where an entry of
    /// either begins or ends. `default` stands for no value. So one gets the union, the
    /// intersection and the difference of two maps. O(entries of both).
    ///
    /// >>> from sapwood import RangeMap
    /// >>> allowed = RangeMap({range(0, 100): "lan", range(200, 300): "vpn"}).snapshot()
    /// >>> blocked = RangeMap({range(50, 220): "scanner"}).snapshot()
    /// >>> [(range, who) for range, who, by in allowed.overlay(blocked) if who and not by]
    /// [(range(0, 50), 'lan'), (range(220, 300), 'vpn')]
    #[pyo3(signature = (other, /, *, default=None))]
    fn overlay<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, RangeSnapshot>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        tuples(py, self.pieces(py, other.get(), false), default)
    }

    /// An iterator for views, over the entries that have an index in a range.
    #[pyo3(signature = (kind, back, within=None))]
    fn _walk<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        back: bool,
        within: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let within = within.map_or(Ok(0..=u64::MAX), range_or_index)?;
        let entries = self.version.all(py, &within)?.into_iter();
        let entries = entries.map(|(range, value)| Ok((place(py, &range)?, value.into_bound(py))));
        let entries = entries.collect::<PyResult<_>>()?;
        listed(py, Kind::of(kind)?, back, entries)
    }

    fn __repr__(&self) -> String {
        let entries = self.version.snapshot.view().len();
        format!("<sapwood.RangeSnapshot: {entries} entries>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.version.reading.objects {
            Numbered::Ranges(map) => visit.call(map),
            Numbered::Fib(fib) => visit.call(fib),
        }
    }
}

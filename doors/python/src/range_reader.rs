//! `_RangeReader`: what all maps of ranges have in common.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};
use sapwood::maple::MapleView;

use crate::fib_table::absent;
use crate::range_keys::{self, Key, Range, Search, between, place, range_or_index};

/// A range and its value: a number, or what stands for an object.
pub type Entry = (Range, u64);

/// A range and its value as objects.
type Pair<'py> = (Bound<'py, PyAny>, Py<PyAny>);

/// Ranges as one read sees them.
pub enum View<'m> {
    #[cfg(target_os = "linux")]
    Numbers(MapleView<'m, u64>),
    /// The numbers of objects or of texts.
    Names(MapleView<'m, u32>),
}

/// What an expression is in one read of ranges.
macro_rules! find {
    ($ranges:expr, $view:ident => $answer:expr) => {
        $ranges.find(|all| match all {
            #[cfg(target_os = "linux")]
            $crate::range_reader::View::Numbers($view) => $answer,
            $crate::range_reader::View::Names($view) => $answer,
        })
    };
}
#[cfg(target_os = "linux")]
pub(crate) use find;

/// An entry with its value in 64 bits.
pub fn wide<V: Copy + Into<u64>>((range, value): (Range, &V)) -> Entry {
    (range, (*value).into())
}

/// The part of an entry that lies within a range.
pub fn clipped<V>((range, value): (Range, V), within: &Range) -> (Range, V) {
    let (first, last) = (
        *range.start().max(within.start()),
        *range.end().min(within.end()),
    );
    (first..=last, value)
}

/// Parts of entries as a list of pairs.
pub fn listed<'py>(
    py: Python<'py>,
    parts: Vec<(Range, Py<PyAny>)>,
) -> PyResult<Bound<'py, PyList>> {
    let pairs = parts.into_iter();
    let pairs = pairs.map(|(range, value)| Ok((place(py, &range)?, value)));
    PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
}

/// Ranges, wherever they lie.
pub trait Ranges: Send + Sync {
    /// Calls `f` with the newest map.
    fn read(&self, f: &mut dyn FnMut(View<'_>)) -> PyResult<()>;

    /// The entry that holds an index.
    fn at(&self, index: u64) -> PyResult<Option<Entry>>;

    /// The entry that `find` finds, with the object of its value.
    fn one(
        &self,
        py: Python<'_>,
        find: &dyn Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<(Range, Py<PyAny>)>>;

    /// The entries that have an index in a range, each whole, with the objects of their values.
    fn all(&self, py: Python<'_>, within: &Range) -> PyResult<Vec<(Range, Py<PyAny>)>>;
}

impl dyn Ranges {
    /// What `f` finds in one read.
    pub fn find<R>(&self, mut f: impl FnMut(View<'_>) -> R) -> PyResult<R> {
        let mut found = None;
        self.read(&mut |view| found = Some(f(view)))?;
        Ok(found.expect("read has called the function"))
    }
}

/// What RangeMap, LiveRanges and LiveRangesWriter have in common.
#[pyclass(frozen, mapping, name = "_RangeReader", subclass, weakref)]
pub struct RangeReader(pub Arc<dyn Ranges>);

impl RangeReader {
    fn value(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let at = Key::of(key)?;
        let found = self.0.one(key.py(), &|| {
            let entry = self.0.at(at.first())?;
            Ok(entry.filter(|(range, _)| at.fits(range)))
        })?;
        Ok(found.map(|(_, value)| value))
    }

    fn pair<'py>(
        &self,
        py: Python<'py>,
        find: impl Fn() -> PyResult<Option<Entry>>,
    ) -> PyResult<Option<Pair<'py>>> {
        let found = self.0.one(py, &find)?;
        let pair = |(range, value)| Ok((place(py, &range)?, value));
        found.map(pair).transpose()
    }
}

#[pymethods]
impl RangeReader {
    fn __len__(&self) -> PyResult<usize> {
        find!(self.0, view => view.len())
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if !key.is_instance_of::<PySlice>() {
            return self.value(key)?.ok_or_else(|| absent(key));
        }
        let within = range_or_index(key)?;
        let parts = self.0.all(key.py(), &within)?.into_iter();
        let parts = parts.map(|entry| clipped(entry, &within)).collect();
        listed(key.py(), parts)?.into_py_any(key.py())
    }

    pub(crate) fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let at = Key::of(key)?;
        let entry = self.0.at(at.first())?;
        Ok(entry.is_some_and(|(range, _)| at.fits(&range)))
    }

    /// The value at an index, or of the entry with exactly this range; `default` when there is
    /// none.
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.value(key)?.or(default))
    }

    /// The entry that holds an index: its range and its value; None in a gap.
    #[pyo3(signature = (index, /))]
    fn entry<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = range_keys::index(index)?;
        self.pair(index.py(), || self.0.at(at))
    }

    /// The first entry, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        self.pair(py, || find!(self.0, view => view.first().map(wide)))
    }

    /// The last entry, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        self.pair(py, || find!(self.0, view => view.last().map(wide)))
    }

    /// The first entry that begins behind an index, or None.
    #[pyo3(signature = (index, /))]
    fn next_after<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = range_keys::index(index)?;
        self.pair(
            index.py(),
            || find!(self.0, view => view.next_after(at).map(wide)),
        )
    }

    /// The last entry that ends before an index, or None.
    #[pyo3(signature = (index, /))]
    fn prev_before<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
        let at = range_keys::index(index)?;
        self.pair(
            index.py(),
            || find!(self.0, view => view.prev_before(at).map(wide)),
        )
    }

    /// A list of the gaps from `start` to before `stop`, clipped to it.
    #[pyo3(signature = (start=None, stop=None, /))]
    fn gaps<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let within = between(start, stop)?;
        let gaps: Vec<_> = find!(self.0, view => view.gaps(within.clone()).collect())?;
        let gaps = gaps.iter().map(|gap| place(py, gap));
        PyList::new(py, gaps.collect::<PyResult<Vec<_>>>()?)
    }

    /// `size` indices from `start` to before `stop` that no entry has; None when there is no such
    /// place. Of several places it is
    ///
    /// the lowest one; with highest=True, the highest one;
    /// with `near`, an index, the one that begins nearest to it;
    /// with `starting_at`, an index, the lowest at or after it, or else the lowest; with
    /// highest=True, the highest whose last index is not after it, or else the highest;
    /// with tightest=True, one in the smallest gap that has a place, of equal ones the first.
    ///
    /// It begins at a multiple of `align`, a power of two. With `rest`, it begins at an index that
    /// leaves this rest when it is divided by `align`, which may be any number then. At least
    /// `guard` indices on both sides of it are free.
    ///
    /// >>> from sapwood import RangeMap
    /// >>> map = RangeMap({range(0, 10): "a", range(15, 100): "b"})
    /// >>> map.find_gap(4, stop=200), map.find_gap(4, stop=200, highest=True)
    /// (range(10, 14), range(196, 200))
    /// >>> map.find_gap(4, align=64), map.find_gap(4, align=100, rest=7), map.find_gap(4, guard=2)
    /// (range(128, 132), range(107, 111), range(102, 106))
    #[pyo3(signature = (size, /, *, start=None, stop=None, align=1, rest=None, guard=0,
        tightest=false, highest=false, near=None, starting_at=None))]
    #[allow(clippy::too_many_arguments)]
    fn find_gap<'py>(
        &self,
        py: Python<'py>,
        size: u64,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        align: u64,
        rest: Option<u64>,
        guard: u64,
        tightest: bool,
        highest: bool,
        near: Option<&Bound<'py, PyAny>>,
        starting_at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
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
        let found = find!(self.0, view => view.find_gap(size, window.clone()))?;
        found.map(|range| place(py, &range)).transpose()
    }
}

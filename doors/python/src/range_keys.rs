//! Indices, ranges and windows as Python programs have them.

use std::ops::RangeInclusive;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyRange, PySlice};
use sapwood::maple::Window;

use crate::address::{kind, shown};
use crate::numbers::{in_arrow, int_of};
use crate::snapshot_iter::Place;

/// Indices from the first to the last.
pub type Range = RangeInclusive<u64>;

fn no_index(object: &Bound<'_, PyAny>) -> PyErr {
    PyIndexError::new_err(format!(
        "index {} is not from 0 to 2**64 - 1",
        shown(object)
    ))
}

/// An index, or the end of a range, which may be 2**64.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    // What most numbers are.
    if object.is_exact_instance_of::<PyInt>()
        && let Ok(number) = object.extract::<u64>()
    {
        return Ok(Some(number));
    }
    let Some(int) = int_of(object)? else {
        // Scalars of Arrow.
        if let Some(inside) = in_arrow(object)? {
            return number(&inside);
        }
        let text = format!("an index is an int, not {}", kind(object));
        return Err(PyTypeError::new_err(text));
    };
    if let Ok(number) = int.extract::<u64>() {
        return Ok(Some(number));
    }
    match int.extract::<u128>() {
        Ok(number) if number == 1 << 64 => Ok(None),
        _ => Err(no_index(object)),
    }
}

/// The index that an object stands for.
pub fn index(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    number(object)?.ok_or_else(|| no_index(object))
}

/// A key of a map of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The entry that holds an index.
    Index(u64),
    /// The entry that has exactly this range.
    Range(Range),
}

impl Key {
    /// The key that an object stands for: an index, or a `range`.
    #[inline]
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // What most keys are.
        if object.is_exact_instance_of::<PyInt>()
            && let Ok(index) = object.extract::<u64>()
        {
            return Ok(Key::Index(index));
        }
        if object.is_instance_of::<PySlice>() {
            let text = "[] looks up one index; items(start, stop) has the entries of a slice";
            return Err(PyTypeError::new_err(text));
        }
        match range_if(object)? {
            Some(range) => Ok(Key::Range(range)),
            None => index(object).map(Key::Index),
        }
    }

    /// An index of the entry.
    pub fn first(&self) -> u64 {
        match self {
            Key::Index(index) => *index,
            Key::Range(range) => *range.start(),
        }
    }

    /// Whether an entry with this range, which holds the first index, is meant.
    pub fn fits(&self, entry: &Range) -> bool {
        match self {
            Key::Index(_) => true,
            Key::Range(range) => range == entry,
        }
    }

    /// The indices that go when the key is removed.
    pub fn range(self) -> Range {
        match self {
            Key::Index(index) => index..=index,
            Key::Range(range) => range,
        }
    }
}

/// The range from `start` to before `stop`.
pub fn between(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
) -> PyResult<Range> {
    let from = start.map_or(Ok(Some(0)), number)?;
    let to = stop.map_or(Ok(None), number)?;
    let last = match to {
        None => Some(u64::MAX),
        Some(stop) => stop.checked_sub(1),
    };
    match (from, last) {
        (Some(from), Some(last)) if from <= last => Ok(from..=last),
        _ => {
            let part = |part: Option<&Bound<'_, PyAny>>| part.map(shown).unwrap_or_default();
            let text = format!("the range {}:{} is empty", part(start), part(stop));
            Err(PyValueError::new_err(text))
        }
    }
}

/// A range as an object.
pub fn place<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyAny>> {
    Place::Range(*range.start(), *range.end()).object(py)
}

/// The range from `start` to before `stop`, for views.
#[pyfunction(name = "_window")]
#[pyo3(signature = (start, stop, /))]
pub fn window_of<'py>(
    py: Python<'py>,
    start: Option<&Bound<'py, PyAny>>,
    stop: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    place(py, &between(start, stop)?)
}

/// A slice or a `range`, if the object is one.
pub fn range_if(object: &Bound<'_, PyAny>) -> PyResult<Option<Range>> {
    if !object.is_instance_of::<PySlice>() && !object.is_instance_of::<PyRange>() {
        return Ok(None);
    }
    let part = |name| Ok::<_, PyErr>(Some(object.getattr(name)?).filter(|part| !part.is_none()));
    if let Some(step) = part("step")?
        && !step.eq(1)?
    {
        let text = format!("a range has the step 1, not {}", shown(&step));
        return Err(PyValueError::new_err(text));
    }
    between(part("start")?.as_ref(), part("stop")?.as_ref()).map(Some)
}

/// A slice or a `range`, or an index as the range of itself.
pub fn range_or_index(object: &Bound<'_, PyAny>) -> PyResult<Range> {
    match range_if(object)? {
        Some(range) => Ok(range),
        None => index(object).map(|index| index..=index),
    }
}

/// The window of a search for a gap.
pub fn window(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    align: u64,
    from_end: bool,
    near: Option<u64>,
) -> PyResult<Window> {
    let mut window = Window::new(between(start, stop)?).aligned(align);
    if from_end {
        window = window.from_end();
    }
    if let Some(near) = near {
        window = window.starting_at(near);
    }
    Ok(window)
}

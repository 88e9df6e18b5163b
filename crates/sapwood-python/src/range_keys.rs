//! Indices, ranges and windows as Python programs have them.

use std::ops::RangeInclusive;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyRange, PySlice};
use sapwood::maple::Window;

use crate::address::{kind, shown};
use crate::batch;

/// Indices from the first to the last.
pub type Range = RangeInclusive<u64>;

/// An index, or the end of a range, which may be 2**64.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if let Ok(number) = object.extract::<u64>() {
        return Ok(Some(number));
    }
    if !object.is_instance_of::<PyInt>() && object.getattr_opt("__index__")?.is_none() {
        let text = format!("an index is an int, not {}", kind(object));
        return Err(PyTypeError::new_err(text));
    }
    match object.extract::<u128>() {
        Ok(number) if number == 1 << 64 => Ok(None),
        _ => Err(PyIndexError::new_err(format!(
            "index {} is not from 0 to 2**64 - 1",
            shown(object)
        ))),
    }
}

pub fn index(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    number(object)?.ok_or_else(|| {
        PyIndexError::new_err(format!(
            "index {} is not from 0 to 2**64 - 1",
            shown(object)
        ))
    })
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

/// Many indices: an array of uint64, uint32 or int64, or an iterable.
pub fn indices(object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let object = match object.getattr_opt("__array__")? {
        Some(array) if PyUntypedBuffer::get(object).is_err() => array.call0()?,
        _ => object.clone(),
    };
    let items = object.try_iter().map_err(|_| {
        let kind = kind(&object);
        PyTypeError::new_err(format!(
            "many indices are an array or an iterable, not {kind}"
        ))
    });
    match batch::unsigned(&object)? {
        Some(indices) => Ok(indices),
        None => items?.map(|item| index(&item?)).collect(),
    }
}

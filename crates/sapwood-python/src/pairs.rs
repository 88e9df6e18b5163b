//! Arguments that several classes take.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyTupleMethods};

use crate::address::kind;

/// The pairs of a mapping, or of an iterable of pairs.
pub fn pairs<'py>(
    items: &Bound<'py, PyAny>,
) -> PyResult<impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> + use<'py>> {
    let iterator = match items.getattr_opt("items")? {
        Some(items) => items.call0()?.try_iter(),
        None => items.try_iter(),
    };
    let iterator = iterator.map_err(|_| {
        PyTypeError::new_err(format!(
            "items are a mapping or an iterable of pairs, not {}",
            kind(items)
        ))
    })?;
    Ok(iterator.enumerate().map(|(index, pair)| two(index, pair?)))
}

/// The two parts of a pair.
fn two<'py>(
    index: usize,
    pair: Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = pair.cast::<PyTuple>()
        && pair.len() == 2
    {
        return Ok((pair.get_item(0)?, pair.get_item(1)?));
    }
    let iterator = pair.try_iter().map_err(|_| {
        PyTypeError::new_err(format!("item {index} is no pair, but of {}", kind(&pair)))
    })?;
    let parts = iterator.take(3).collect::<PyResult<Vec<_>>>()?;
    match <[Bound<'py, PyAny>; 2]>::try_from(parts) {
        Ok([key, value]) => Ok((key, value)),
        Err(parts) => {
            let many = match parts.len() {
                3 => "more than two parts".to_owned(),
                one => format!("{one} of two parts"),
            };
            Err(PyValueError::new_err(format!("item {index} has {many}")))
        }
    }
}

/// The default of `pop`, which may be left out.
pub fn at_most_one(name: &str, default: &Bound<'_, PyTuple>) -> PyResult<Option<Py<PyAny>>> {
    match default.len() {
        0 => Ok(None),
        1 => Ok(Some(default.get_item(0)?.unbind())),
        more => Err(PyTypeError::new_err(format!(
            "{name}() takes one or two arguments, and {} were given",
            more + 1
        ))),
    }
}

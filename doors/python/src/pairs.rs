//! Arguments that several classes take.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyTupleMethods};

use crate::address::kind;

/// A key and a value.
pub type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The pairs of a mapping, or of an iterable of pairs, and then those of named arguments.
pub fn pairs<'py>(
    items: Option<&Bound<'py, PyAny>>,
    others: Option<&Bound<'py, PyDict>>,
) -> PyResult<impl Iterator<Item = PyResult<Pair<'py>>> + use<'py>> {
    let items = items.map(of_items).transpose()?;
    let others = others.map(|others| others.items().into_iter());
    let others = others.into_iter().flatten();
    let others = others.map(|pair| two(0, pair));
    Ok(items.into_iter().flatten().chain(others))
}

fn of_items<'py>(
    items: &Bound<'py, PyAny>,
) -> PyResult<impl Iterator<Item = PyResult<Pair<'py>>> + use<'py>> {
    let wrong = |_| {
        PyTypeError::new_err(format!(
            "items are a mapping or an iterable of pairs, not {}",
            kind(items)
        ))
    };
    // What has keys() and [] is a mapping for a dict, too, also without items().
    let keys = match items.getattr_opt("items")? {
        Some(_) => None,
        None => items.getattr_opt("keys")?,
    };
    let iterator = match (items.getattr_opt("items")?, &keys) {
        (Some(items), _) => items.call0()?.try_iter(),
        (None, Some(keys)) => keys.call0()?.try_iter(),
        (None, None) => items.try_iter(),
    };
    let iterator = iterator.map_err(wrong)?;
    let map = keys.map(|_| items.clone());
    Ok(iterator.enumerate().map(move |(index, item)| match &map {
        Some(map) => {
            let key = item?;
            let value = map.get_item(&key)?;
            Ok((key, value))
        }
        None => two(index, item?),
    }))
}

/// The two parts of a pair.
fn two<'py>(index: usize, pair: Bound<'py, PyAny>) -> PyResult<Pair<'py>> {
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

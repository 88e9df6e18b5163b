//! Integers as Python programs have them: `int`, and numpy's scalars.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

/// The integer that an object stands for by its `__index__`, as scalars of numpy do. None if it
/// stands for none: a `bool` and a number with a fraction do not, and a mask is no list of indices.
pub fn int_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyInt>>> {
    if object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(int) = object.cast::<PyInt>() {
        return Ok(Some(int.clone()));
    }
    if object.getattr_opt("__index__")?.is_none() {
        return Ok(None);
    }
    match object.call_method0("__index__") {
        Ok(int) => Ok(int.cast_into::<PyInt>().ok()),
        // Arrays with more than one element have the method, and so has the class itself.
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number that an object stands for, if it is an integer that the type has.
pub fn whole<'py, T: FromPyObjectOwned<'py>>(object: &Bound<'py, PyAny>) -> PyResult<Option<T>> {
    Ok(int_of(object)?.and_then(|int| int.extract::<T>().ok()))
}

/// What a scalar of Arrow has inside; none for other objects.
pub fn in_arrow<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object
        .get_type()
        .module()?
        .to_str()?
        .starts_with("pyarrow.")
    {
        true => match object.getattr_opt("as_py")? {
            Some(inside) => inside.call0().map(Some),
            None => Ok(None),
        },
        false => Ok(None),
    }
}

/// Whether an object stands for a value that is missing: `None`, a float that is no number, the
/// nulls of pandas, Arrow and masked arrays.
pub fn is_null(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.is_none() {
        return Ok(true);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(float.extract::<f64>()?.is_nan());
    }
    let class = object.get_type();
    let (module, name) = (class.module()?, class.name()?);
    Ok(match (module.to_str()?, name.to_str()?) {
        (module, "NAType" | "NaTType") => module.starts_with("pandas."),
        (module, "MaskedConstant") => module.starts_with("numpy.ma"),
        _ => in_arrow(object)?.is_some_and(|inside| inside.is_none()),
    })
}

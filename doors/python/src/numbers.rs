//! Integers as Python programs have them: `int`, and numpy's scalars.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// The integer that an object stands for by its `__index__`, as scalars of numpy do. None if it
/// stands for none: a `bool` and a number with a fraction do not, and a mask is no list of indices.
pub fn int_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyInt>>> {
    if object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(int) = object.cast::<PyInt>() {
        return Ok(Some(int.clone()));
    }
    // A masked element has a number below its mask.
    if object.getattr_opt("__index__")?.is_none() || object.getattr_opt("mask")?.is_some() {
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

/// The module and the name of an object's type.
fn names(object: &Bound<'_, PyAny>) -> Option<(String, String)> {
    let class = object.get_type();
    Some((
        class.module().ok()?.to_string(),
        class.name().ok()?.to_string(),
    ))
}

/// What a scalar of Arrow has inside; none for other objects.
pub fn in_arrow<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !names(object).is_some_and(|(module, _)| module.starts_with("pyarrow.")) {
        return Ok(None);
    }
    let Some(inside) = object.getattr_opt("as_py")? else {
        return Ok(None);
    };
    let inside = inside.call0()?;
    let is_key = inside.is_none()
        || inside.is_exact_instance_of::<PyInt>()
        || inside.is_exact_instance_of::<PyString>()
        || inside.is_exact_instance_of::<PyBytes>();
    Ok(is_key.then_some(inside))
}

/// Whether an object stands for a value that is missing: `None`, a float that is no number, the
/// nulls of pandas, Arrow and masked arrays.
pub fn is_null(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.is_none() {
        return Ok(true);
    }
    let Some((module, name)) = names(object) else {
        return Ok(false);
    };
    let is_float = object.is_instance_of::<PyFloat>();
    Ok(match (module.as_str(), name.as_str()) {
        (module, "NAType" | "NaTType") => module.starts_with("pandas."),
        (module, "MaskedConstant") => module.starts_with("numpy.ma"),
        ("numpy", "float16" | "float32" | "longdouble") => object.extract::<f64>()?.is_nan(),
        _ if is_float => object.extract::<f64>()?.is_nan(),
        _ => in_arrow(object)?.is_some_and(|inside| inside.is_none()),
    })
}

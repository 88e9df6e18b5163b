//! The answers of a zone for a name.

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use sapwood::qp::Closest as Found;

use crate::name_keys::Keys;

/// The answers of a zone for a name; see NameMap.closest().
#[pyclass(frozen, get_all, generic, module = "sapwood")]
pub struct Closest {
    /// The name and its value, or None when it has no entry.
    exact: Option<(Py<PyAny>, Py<PyAny>)>,
    /// Whether the name has an entry, or an entry lies below it.
    exists: bool,
    /// The longest name at or above the asked one that exists; "." when there is none.
    encloser: Py<PyAny>,
    /// The longest name at or above the asked one that has an entry, and its value.
    ancestor: Option<(Py<PyAny>, Py<PyAny>)>,
    /// The wildcard below the encloser, and its value; None when the name exists.
    wildcard: Option<(Py<PyAny>, Py<PyAny>)>,
    /// The entry before the name.
    predecessor: Option<(Py<PyAny>, Py<PyAny>)>,
}

#[pymethods]
impl Closest {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let names = [
            "exact",
            "exists",
            "encloser",
            "ancestor",
            "wildcard",
            "predecessor",
        ];
        let part = |name| Ok(format!("{name}={}", slf.getattr(name)?.repr()?));
        let parts = names.into_iter().map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(format!("Closest({})", parts.join(", ")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let pairs = [
            &self.exact,
            &self.ancestor,
            &self.wildcard,
            &self.predecessor,
        ];
        for (key, value) in pairs.into_iter().flatten() {
            visit.call(key)?;
            visit.call(value)?;
        }
        Ok(())
    }
}

/// The objects of a library's answer, whose values `object` makes.
pub fn closest<V: ?Sized + sapwood::qp::Value>(
    py: Python<'_>,
    keys: Keys,
    name: &[u8],
    found: Found<'_, V>,
    object: impl Fn(&V) -> Py<PyAny>,
) -> Closest {
    let pair = |entry: Option<(&[u8], &V)>| {
        entry.map(|(key, value)| (keys.object(py, key).unbind(), object(value)))
    };
    Closest {
        exact: pair(found.exact),
        exists: found.exists,
        encloser: keys.object(py, &name[..found.encloser]).unbind(),
        ancestor: pair(found.ancestor),
        wildcard: pair(found.wildcard),
        predecessor: pair(found.predecessor),
    }
}

/// The error of `closest` on other keys than domain names.
pub fn needs_dns(keys: Keys) -> PyResult<()> {
    match keys {
        Keys::Dns => Ok(()),
        _ => Err(PyTypeError::new_err("closest() needs a map with dns=True")),
    }
}

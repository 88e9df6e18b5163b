//! The answers of a zone for a name.

use std::collections::HashSet;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use sapwood::qp::{Denial as Found, ReadEntry};

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
    /// Whether the wildcard below the encloser exists: it has an entry, or one lies below it.
    /// False when the name exists.
    wildcard_exists: bool,
    /// The entry before the name, and before the wildcard (None when the name exists). With is_cut,
    /// the last ones that lie below no cut: the owners of the NSEC records.
    predecessor: Option<(Py<PyAny>, Py<PyAny>)>,
    wildcard_predecessor: Option<(Py<PyAny>, Py<PyAny>)>,
    /// With is_cut, the topmost entry at or above the name that is a cut.
    cut: Option<(Py<PyAny>, Py<PyAny>)>,
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
            "wildcard_exists",
            "predecessor",
            "wildcard_predecessor",
            "cut",
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
            &self.wildcard_predecessor,
            &self.cut,
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
    let pair = |entry: Option<ReadEntry<'_, V>>| {
        entry.map(|(key, value)| (keys.object(py, &key).unbind(), object(value)))
    };
    let closest = found.closest;
    Closest {
        exact: pair(closest.exact),
        exists: closest.exists,
        encloser: keys.object(py, &name[..closest.encloser]).unbind(),
        ancestor: pair(closest.ancestor),
        wildcard: pair(closest.wildcard),
        wildcard_exists: found.wildcard_exists,
        predecessor: pair(found.predecessor),
        wildcard_predecessor: pair(found.wildcard_predecessor),
        cut: pair(closest.cut),
    }
}

/// Whether an entry is a cut, of which the function makes the value's object.
type Cuts<'f> = dyn FnMut(&[u8], &dyn Fn() -> Py<PyAny>) -> bool + 'f;

/// The answers of `search`, for which Python's `is_cut` says what a cut is.
///
/// Python is asked between two searches, and never within one, because it may use the map itself.
/// The first search tells which entries matter.
pub fn with_cuts(
    py: Python<'_>,
    keys: Keys,
    is_cut: Option<&Bound<'_, PyAny>>,
    mut search: impl FnMut(&mut Cuts<'_>) -> PyResult<Closest>,
) -> PyResult<Closest> {
    let mut asked = Vec::new();
    let found = search(&mut |key, object| {
        if is_cut.is_some() {
            asked.push((key.to_vec(), object()));
        }
        false
    })?;
    let mut cuts = HashSet::new();
    for (key, value) in asked {
        if let Some(is_cut) = is_cut
            && is_cut.call1((keys.object(py, &key), value))?.is_truthy()?
        {
            cuts.insert(key);
        }
    }
    match cuts.is_empty() {
        true => Ok(found),
        false => search(&mut |key, _| cuts.contains(key)),
    }
}

/// The error of `closest` on other keys than domain names.
pub fn needs_dns(keys: Keys) -> PyResult<()> {
    match keys {
        Keys::Dns => Ok(()),
        _ => Err(PyTypeError::new_err("closest() needs a map with dns=True")),
    }
}

//! The texts of live maps of the program `sapwood`, whose values are numbers.

use std::ops::Bound as Edge;
use std::path::Path;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sapwood::qp::{QpStore, ReadEntry};
use sapwood_live::{CheckedNames, Error};

use crate::live::{Pool, Trusting};
use crate::name_reader::Names;

/// The attempts to find a number and its text while the writer changes both, and to read a whole
/// table.
pub const TRIES: usize = 1000;

/// The texts of a live map, which the program `sapwood` keeps in a directory inside that of the
/// map: under the numbers as four bytes, most significant first.
pub struct Texts(Box<dyn Names<[u8]>>);

impl Texts {
    /// Opens the texts of the live map in a directory, if there are any.
    pub fn of_map(map: &Path, registered: bool) -> Result<Option<Texts>, Error> {
        let (folder, wait) = (map.join("texts"), Duration::ZERO);
        if !folder.join("control").exists() {
            return Ok(None);
        }
        Ok(Some(Texts(match registered {
            true => Box::new(Trusting::<QpStore<[u8]>>::open(&folder, wait)?),
            false => Box::new(Pool::<CheckedNames<QpStore<[u8]>>>::open(&folder, wait)?),
        })))
    }

    /// All numbers with their texts.
    pub fn all(&self, py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
        fn entry((key, text): ReadEntry<'_, [u8]>) -> Option<(u32, String)> {
            let number = u32::from_be_bytes((*key).try_into().ok()?);
            Some((number, String::from_utf8_lossy(text).into_owned()))
        }
        let all = (Edge::Unbounded, Edge::Unbounded);
        self.0
            .find(py, |texts| texts.range(all).filter_map(entry).collect())
    }
}

/// The object of a number, which stands for a text if there are any; none when the text has been
/// removed meanwhile.
pub fn object<'py>(
    py: Python<'py>,
    texts: Option<&Texts>,
    number: u64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(texts) = texts else {
        return number.into_bound_py_any(py).map(Some);
    };
    // The values of such a map have 32 bits.
    let key = (number as u32).to_be_bytes();
    let text = texts.0.find(py, |texts| {
        let text = texts.get(&key)?;
        Some(String::from_utf8_lossy(text).into_owned())
    })?;
    text.map(|text| text.into_bound_py_any(py)).transpose()
}

/// What `find` finds, which is asked again as long as it finds numbers whose texts are gone.
pub fn attempted<T>(find: impl Fn() -> PyResult<Option<T>>) -> PyResult<T> {
    for _ in 0..TRIES {
        if let Some(found) = find()? {
            return Ok(found);
        }
    }
    let text = "the live map changed during each attempt to read it";
    Err(PyRuntimeError::new_err(text))
}

//! `NameFile`: a saved map of names, read where it lies.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sapwood::qp::{OpenCause, QpFile};

use crate::errors::not_opened;
use crate::name_keys::Keys;
use crate::name_reader::{Either, NameReader, Names, Pickled};

/// A map of names in a file, read where it lies: it opens at once, and processes that open the same
/// file share its memory.
///
/// NameMap.save() writes such files, and so does the program `sapwood`. The file must not be
/// changed in place while it is open; saving again replaces it.
///
/// >>> import os, tempfile
/// >>> from sapwood import NameFile, NameMap
/// >>> path = os.path.join(tempfile.mkdtemp(), "blocked")
/// >>> NameMap({"ads.example": 1, "example.org": 2}, dns=True).save(path)
/// >>> blocked = NameFile.open(path, dns=True)
/// >>> blocked.longest_prefix("pixel.Ads.example"), "example" in blocked
/// (('ads.example', 1), False)
#[pyclass(frozen, extends = NameReader, generic, module = "sapwood")]
pub struct NameFile;

/// Opens a file with values of either kind.
fn opened(py: Python<'_>, path: &PathBuf, verify: bool) -> PyResult<Either> {
    let names = py.detach(|| {
        let numbers = match verify {
            true => QpFile::<u64>::open(path),
            false => QpFile::<u64>::open_unverified(path),
        };
        match numbers {
            Err(error) if matches!(error.cause, OpenCause::ByteStrings { .. }) => {
                let bytes = match verify {
                    true => QpFile::<[u8]>::open(path),
                    false => QpFile::<[u8]>::open_unverified(path),
                };
                bytes.map(|file| Either::Bytes(Names::File(file)))
            }
            numbers => numbers.map(|file| Either::Numbers(Names::File(file))),
        }
    });
    names.map_err(|error| not_opened(&error))
}

impl NameFile {
    fn of(
        py: Python<'_>,
        path: PathBuf,
        keys: Keys,
        text: bool,
        verify: bool,
    ) -> PyResult<Py<Self>> {
        let reader = NameReader {
            names: opened(py, &path, verify)?,
            keys,
            text,
            path,
        };
        Py::new(py, PyClassInitializer::from(reader).add_subclass(NameFile))
    }
}

#[pymethods]
impl NameFile {
    /// Opens a file that NameMap.save() wrote; `key` and `dns` are as for that map, which the file
    /// does not say. With text=True, values that were saved as bytes or str are returned as str.
    /// With verify=True, reads all of the file and checks its checksums and every invariant. With
    /// verify=False, checks the header only, in a time that does not depend on the size; damage
    /// then shows as wrong answers.
    #[classmethod]
    #[pyo3(signature = (path, /, *, key=None, dns=false, text=false, verify=true))]
    fn open(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        key: Option<&Bound<'_, PyAny>>,
        dns: bool,
        text: bool,
        verify: bool,
    ) -> PyResult<Py<Self>> {
        Self::of(class.py(), path, Keys::of(key, dns)?, text, verify)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let file = slf.as_super().get();
        let again = slf.get_type().getattr("_again")?;
        Ok((again, (file.path.clone(), file.keys.word(), file.text)))
    }

    #[classmethod]
    fn _again(
        class: &Bound<'_, PyType>,
        path: PathBuf,
        keys: &str,
        text: bool,
    ) -> PyResult<Py<Self>> {
        Self::of(class.py(), path, Keys::of_word(keys)?, text, true)
    }
}

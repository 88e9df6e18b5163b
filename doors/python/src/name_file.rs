//! `NameFile`: a saved map of names, read where it lies.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sapwood::qp::AnyFile;

use crate::errors::not_opened;
use crate::name_keys::Keys;
use crate::name_reader::{AnyNames, NameReader};

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
        let (py, keys) = (class.py(), Keys::of(key, dns)?);
        let file = py.detach(|| match verify {
            true => AnyFile::open_any(&path),
            false => AnyFile::open_any_unverified(&path),
        });
        let reader = NameReader {
            names: match file.map_err(|error| not_opened(&error))? {
                AnyFile::Numbers(file) => AnyNames::Numbers(Arc::new(file)),
                AnyFile::Bytes(file) => AnyNames::Bytes(Arc::new(file)),
            },
            counted: true,
            keys,
            text,
            path,
        };
        Py::new(py, PyClassInitializer::from(reader).add_subclass(NameFile))
    }
}

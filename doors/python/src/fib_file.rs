//! `FibFile`: a saved table of routes, read where it lies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ipnet::IpNet;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};
use sapwood::lpm::{self, HopRef, SavedHop};
use sapwood::qp::OpenCause;

use crate::address::{Key, key_of, prefix_of};
use crate::batch::{self, Addresses, Part};
use crate::errors::{not_opened, wrong_file};
use crate::snapshot_iter::{Kind, listed};

/// A value of a file.
pub enum Value {
    Number(u64),
    Name(String),
}

impl Value {
    /// The value that a next hop is, unless Python has none for it.
    fn of(hop: &SavedHop<'_>) -> Option<Self> {
        match hop {
            SavedHop::Number(number) => Some(Value::Number(*number)),
            SavedHop::Name(name) => Some(Value::Name((*name).to_owned())),
            _ => None,
        }
    }

    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Value::Number(number) => number.into_pyobject(py)?.into_any(),
            Value::Name(name) => PyString::new(py, name).into_any(),
        })
    }
}

/// What a `Fib` and a `FibFile` have for values, in errors.
const HOLDS: &str = "int and str";

/// The prefixes of a file with the positions of their values, and the values.
type Content = (Vec<(IpNet, u32)>, Vec<Value>);

/// A table of routes in a file, read where it lies: it opens at once, and processes that open the
/// same file share its memory.
///
/// Fib.save() writes such files, and so do the program `sapwood` and the libraries for Rust and C.
/// The file must not be changed in place while it is open; saving again replaces it. Values are int
/// or str, as they were saved; groups of next hops and null routes are errors. It is a
/// collections.abc.Mapping.
///
/// >>> import os, tempfile
/// >>> from sapwood import Fib, FibFile
/// >>> path = os.path.join(tempfile.mkdtemp(), "origins")
/// >>> Fib({"10.0.0.0/8": 64500, "2001:db8::/32": 64501}).save(path)
/// >>> file = FibFile.open(path)
/// >>> file["10.1.2.3"], file.lookup("2001:db8::1"), len(file)
/// (64500, ('2001:db8::/32', 64501), 2)
/// >>> file.lookup_many(["10.1.2.3", "192.0.2.1"]).tolist()
/// [64500, -1]
#[pyclass(frozen, mapping, weakref, module = "sapwood")]
pub struct FibFile {
    file: lpm::FibFile,
    path: PathBuf,
    /// Whether the values are str: a file lists names.
    names: bool,
}

impl FibFile {
    /// Opens a file, and reads and checks all of it with `verify`.
    pub fn opened(py: Python<'_>, path: &Path, verify: bool) -> PyResult<Self> {
        let file = py.detach(|| match verify {
            true => lpm::FibFile::open(path),
            false => lpm::FibFile::open_unverified(path),
        });
        let file = file.map_err(|error| not_opened(&error))?;
        let names = matches!(file.listed().next(), Some(Some(SavedHop::Name(_))));
        let path = path.to_owned();
        Ok(FibFile { file, path, names })
    }

    /// All that the file has, or what is wrong.
    pub fn all(&self) -> Result<Content, OpenCause> {
        let mut values = Vec::new();
        let entries = self.file.routes_as(HOLDS, |hop| {
            values.push(Value::of(hop)?);
            Some(values.len() as u32 - 1)
        });
        Ok((entries?, values))
    }

    fn find(&self, key: Key) -> Option<HopRef> {
        match key {
            Key::Address(address) => self.file.lookup_value(address),
            Key::Prefix(net) => self.file.get(net),
        }
    }

    fn object<'py>(&self, py: Python<'py>, hop: HopRef) -> PyResult<Bound<'py, PyAny>> {
        let Some(hop) = self.file.hop(hop) else {
            let text = format!("{} is damaged: it has no such value", self.path.display());
            return Err(PyRuntimeError::new_err(text));
        };
        match Value::of(&hop) {
            Some(value) => value.object(py),
            None => {
                let what = format!("{}, \"{hop}\"; a FibFile holds {HOLDS}", hop.kind());
                Err(wrong_file(&self.path, what))
            }
        }
    }

    /// The number of a value in an array, unless an array cannot have it beside the others.
    fn number(&self, hop: HopRef) -> Option<i64> {
        match self.names {
            true => hop.position().map(i64::from),
            false => match self.file.hop(hop)? {
                SavedHop::Number(number) => i64::try_from(number).ok(),
                _ => None,
            },
        }
    }

    /// Whether an array can have all values.
    fn lookup_all(&self, addresses: Part<'_>, out: &mut [[u8; 8]]) -> bool {
        let mut all = true;
        let mut put = |out: &mut [u8; 8], address: Option<IpAddr>| {
            let found = address.and_then(|address| self.file.lookup_value(address));
            let number = found.map_or(Some(-1), |hop| self.number(hop));
            all &= number.is_some();
            *out = number.unwrap_or(-1).to_ne_bytes();
        };
        match addresses {
            Part::V4(all) => (all.iter().zip(out))
                .for_each(|(a, out)| put(out, Some(Ipv4Addr::from_bits(*a).into()))),
            Part::V6(all) => {
                (all.iter().zip(out)).for_each(|(a, out)| put(out, Some(Ipv6Addr::from(*a).into())))
            }
            Part::Mixed(all) => all.iter().zip(out).for_each(|(a, out)| put(out, *a)),
        }
        all
    }
}

#[pymethods]
impl FibFile {
    /// Opens a file that Fib.save() wrote. With verify=True, reads all of it and checks its
    /// checksums and every invariant. With verify=False, checks the header only, in a time that
    /// does not depend on the size; damage then shows as wrong answers.
    #[classmethod]
    #[pyo3(signature = (path, /, *, verify=true))]
    fn open(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        verify: bool,
    ) -> PyResult<Self> {
        Self::opened(py, &path, verify)
    }

    fn __len__(&self) -> usize {
        self.file.len()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.find(key_of(key)?) {
            Some(value) => self.object(key.py(), value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key_of(key)?).is_some())
    }

    /// The value of exactly this prefix, or of the longest prefix of this address; `default` when
    /// there is none.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.find(key_of(key)?) {
            Some(value) => self.object(key.py(), value).map(Some),
            None => Ok(default),
        }
    }

    /// The value of exactly this prefix; an address is the prefix of this address alone.
    #[pyo3(signature = (prefix, default=None, /))]
    fn exact<'py>(
        &self,
        prefix: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.find(Key::Prefix(prefix_of(prefix)?)) {
            Some(value) => self.object(prefix.py(), value).map(Some),
            None => Ok(default),
        }
    }

    /// The longest prefix of an address, or the longest that covers a prefix (itself included), and
    /// its value; None when there is none.
    #[pyo3(signature = (key, /))]
    fn lookup<'py>(
        &self,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        let Some((net, hop)) = self.file.lookup_net(key_of(key)?.prefix()) else {
            return Ok(None);
        };
        Ok(Some((net.to_string(), self.object(key.py(), hop)?)))
    }

    /// Looks up many addresses, as Fib.lookup_many() does, without the interpreter's lock. Returns
    /// an array of int64: the values if they are int, or their positions in names(); -1 where an
    /// address has no prefix.
    #[pyo3(signature = (addresses, *, threads=1, mapped=false))]
    fn lookup_many<'py>(
        &self,
        addresses: &Bound<'py, PyAny>,
        threads: usize,
        mapped: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = addresses.py();
        let addresses = Addresses::of(addresses, mapped)?;
        let whole = AtomicBool::new(true);
        let found = batch::array(py, &addresses, batch::I64, threads, |part, out| {
            if !self.lookup_all(part, out.as_chunks_mut().0) {
                whole.store(false, Ordering::Relaxed);
            }
        })?;
        match whole.into_inner() {
            true => Ok(found),
            false => Err(wrong_file(
                &self.path,
                "an array cannot have all values that were found; lookup() returns each",
            )),
        }
    }

    /// The values that are str, by position; empty when the values are int. A group of next hops
    /// beside them is there as text.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let name = |hop: Option<SavedHop<'_>>| hop.map_or_else(String::new, |hop| hop.to_string());
        let names = self.names.then(|| self.file.listed().map(name));
        PyList::new(py, names.into_iter().flatten().collect::<Vec<_>>())
    }

    /// An iterator for views.
    fn _walk<'py>(&self, py: Python<'py>, kind: &str, back: bool) -> PyResult<Bound<'py, PyAny>> {
        let (entries, values) = py
            .detach(|| self.all())
            .map_err(|what| wrong_file(&self.path, what))?;
        let values = values.iter().map(|value| value.object(py));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        let entries = entries.into_iter().map(|(net, at)| {
            let net = PyString::new(py, &net.to_string()).into_any();
            (net, values[at as usize].clone())
        });
        listed(py, Kind::of(kind)?, back, entries.collect())
    }

    fn __repr__(&self) -> String {
        format!(
            "<sapwood.FibFile {:?}: {} prefixes>",
            self.path,
            self.file.len()
        )
    }

    /// What opens the file again, for pickles: its path, and named arguments of open().
    fn _opened<'py>(&self, py: Python<'py>) -> (&PathBuf, Bound<'py, PyDict>) {
        (&self.path, PyDict::new(py))
    }
}

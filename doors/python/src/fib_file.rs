//! `FibFile`: a saved table of routes, read where it lies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyType};
use sapwood::lpm::{BitFile, BitString};

use crate::address::{Key, key_of, prefix_of};
use crate::batch::{self, Addresses, Part};
use crate::errors::not_opened;
use crate::snapshot_iter::{Kind, listed};

/// Bits before the address: a byte that names the family.
const FAMILY: usize = 8;

/// The bits of a prefix in a file: the byte 4 or 6, and the bits of the prefix.
pub fn bits_of(net: IpNet) -> BitString {
    let mut bytes = [0; 17];
    match net.network() {
        IpAddr::V4(address) => {
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes[0] = 6;
            bytes[1..].copy_from_slice(&address.octets());
        }
    }
    let length = FAMILY + usize::from(net.prefix_len());
    match BitString::truncated(&bytes, length) {
        Ok(bits) => bits,
        Err(_) => unreachable!("a prefix has at most 136 bits with its family"),
    }
}

/// The prefix of bits in a file.
fn net_of(bits: &BitString) -> Option<IpNet> {
    let (family, address) = bits.as_bytes().split_first()?;
    let length = u8::try_from(bits.len().checked_sub(FAMILY)?).ok()?;
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    match family {
        4 => {
            let [a, b, c, d, ..] = octets;
            Ipv4Net::new(Ipv4Addr::new(a, b, c, d), length)
                .ok()
                .map(IpNet::V4)
        }
        6 => Ipv6Net::new(Ipv6Addr::from(octets), length)
            .ok()
            .map(IpNet::V6),
        _ => None,
    }
}

/// The prefixes of a file with their values, or with the positions of their names; and the names.
type Content = (Vec<(IpNet, u32)>, Vec<String>);

/// A table of routes in a file, read where it lies: it opens at once, and processes that open the
/// same file share its memory.
///
/// Fib.save() writes such files, and so does the program `sapwood`. The file must not be changed in
/// place while it is open; saving again replaces it. Values are int or str, as they were saved. It
/// is a collections.abc.Mapping.
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
    file: BitFile<u32>,
    path: PathBuf,
}

impl FibFile {
    /// Opens a file, and reads and checks all of it with `verify`.
    pub fn opened(py: Python<'_>, path: &Path, verify: bool) -> PyResult<Self> {
        let file = py.detach(|| match verify {
            true => BitFile::open(path),
            false => BitFile::open_unverified(path),
        });
        Ok(FibFile {
            file: file.map_err(|error| not_opened(&error))?,
            path: path.to_owned(),
        })
    }

    /// All that the file has, or what is wrong.
    pub fn all(&self) -> Result<Content, String> {
        let mut entries = Vec::with_capacity(self.file.len());
        for (bits, value) in self.file.iter() {
            let net = net_of(&bits);
            let net = net.ok_or_else(|| format!("{bits} is not a prefix of a table of routes"))?;
            entries.push((net, *value));
        }
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let names: Vec<String> = self.file.names().map(text).collect();
        let known = |value: u32| names.is_empty() || (value as usize) < names.len();
        match entries.iter().find(|(_, value)| !known(*value)) {
            Some((net, value)) => Err(format!("{net} has the value {value}, which has no name")),
            None => Ok((entries, names)),
        }
    }

    fn find(&self, key: Key) -> Option<u32> {
        match key {
            Key::Address(address) => Some(*self.file.lookup(bits_of(address.into()))?.1),
            Key::Prefix(net) => self.file.get(bits_of(net)).copied(),
        }
    }

    fn object<'py>(&self, py: Python<'py>, value: u32) -> PyResult<Bound<'py, PyAny>> {
        if self.file.names_len() == 0 {
            return Ok(value.into_pyobject(py)?.into_any());
        }
        match self.file.name(value) {
            Some(name) => Ok(PyString::new(py, &String::from_utf8_lossy(name)).into_any()),
            None => Err(PyRuntimeError::new_err(format!(
                "{} is damaged: it has no name {value}",
                self.path.display()
            ))),
        }
    }

    fn lookup_all(&self, addresses: Part<'_>, out: &mut [[u8; 8]]) {
        let find = |address: Option<IpAddr>| -> i64 {
            let found = address.and_then(|address| self.find(Key::Address(address)));
            found.map_or(-1, i64::from)
        };
        let put = |out: &mut [u8; 8], address| *out = find(address).to_ne_bytes();
        match addresses {
            Part::V4(all) => (all.iter().zip(out))
                .for_each(|(a, out)| put(out, Some(Ipv4Addr::from_bits(*a).into()))),
            Part::V6(all) => {
                (all.iter().zip(out)).for_each(|(a, out)| put(out, Some(Ipv6Addr::from(*a).into())))
            }
            Part::Mixed(all) => all.iter().zip(out).for_each(|(a, out)| put(out, *a)),
        }
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
        let net = key_of(key)?.prefix();
        let Some((length, value)) = self.file.lookup(bits_of(net)) else {
            return Ok(None);
        };
        let length = u8::try_from(length.saturating_sub(FAMILY)).unwrap_or(u8::MAX);
        let found = IpNet::new(net.network(), length).map(|net| net.trunc().to_string());
        let found = found.unwrap_or_else(|_| "a damaged prefix".into());
        Ok(Some((found, self.object(key.py(), *value)?)))
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
        batch::array(py, &addresses, batch::I64, threads, |part, out| {
            self.lookup_all(part, out.as_chunks_mut().0);
        })
    }

    /// The values that are str, by position; empty when the values are int.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.file.names().map(String::from_utf8_lossy);
        PyList::new(py, names.collect::<Vec<_>>())
    }

    /// An iterator for views.
    fn _walk<'py>(&self, py: Python<'py>, kind: &str, back: bool) -> PyResult<Bound<'py, PyAny>> {
        let (entries, names) = py
            .detach(|| self.all())
            .map_err(|what| crate::errors::wrong_file(&self.path, what))?;
        let names: Vec<Bound<'_, PyAny>> =
            (names.iter().map(|name| PyString::new(py, name).into_any())).collect();
        let entry = |(net, value): (IpNet, u32)| {
            let value = match names.get(value as usize) {
                Some(name) => name.clone(),
                None => value.into_pyobject(py)?.into_any(),
            };
            Ok((PyString::new(py, &net.to_string()).into_any(), value))
        };
        let entries = entries.into_iter().map(entry);
        listed(py, Kind::of(kind)?, back, entries.collect::<PyResult<_>>()?)
    }

    fn __repr__(&self) -> String {
        format!(
            "<sapwood.FibFile {:?}: {} prefixes>",
            self.path,
            self.file.len()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (PathBuf,))> {
        Ok((slf.get_type().getattr("open")?, (slf.get().path.clone(),)))
    }
}

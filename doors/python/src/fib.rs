//! `Fib`: prefixes of both families to any objects.

use std::path::PathBuf;

use ipnet::IpNet;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use sapwood::lpm::{IpFib, IpFibView};

use crate::address::{Key, key_of, prefix_of};
use crate::batch::{self, Addresses};
use crate::errors::refused;
use crate::fib_saved;
use crate::fib_table::{above, absent, longest};
use crate::objects::SharedObjects;
use crate::pairs::pairs;
use crate::snapshot_iter::{Kind, SnapshotIter};

/// A table of routes: IPv4 and IPv6 prefixes to any objects, looked up by longest prefix.
///
/// `items` is a mapping, or an iterable of pairs of a prefix and a value. A prefix is a str such as
/// "10.0.0.0/8" or an ipaddress.IPv4Network or IPv6Network. An address is a str, an int as
/// ipaddress.ip_address takes it, 4 or 16 bytes, or an ipaddress.IPv4Address or IPv6Address; where
/// a prefix is wanted, it stands for the prefix of this address alone. A prefix with bits set after
/// its length is an error. Prefixes are returned as str.
///
/// fib[prefix] is the value of exactly this prefix, fib[address] that of the address's longest
/// prefix. `in` and get() do the same.
///
/// >>> from sapwood import Fib
/// >>> fib = Fib({"10.0.0.0/8": "core", "10.1.2.0/24": "lab"})
/// >>> fib["10.1.2.3"], fib["10.9.9.9"]
/// ('lab', 'core')
/// >>> fib["10.0.0.0/8"]
/// 'core'
/// >>> "192.0.2.1" in fib
/// False
/// >>> fib["2001:db8::/32"] = {"any": "object"}
/// >>> fib.lookup("2001:db8::1")
/// ('2001:db8::/32', {'any': 'object'})
/// >>> list(fib)
/// ['10.0.0.0/8', '10.1.2.0/24', '2001:db8::/32']
///
/// Equal values that are str, bytes or int are kept once; any other object is kept as itself. Each
/// different value has a number, which lookup_many() returns.
///
/// It is a collections.abc.MutableMapping with what a dict has, too: |, |=, fromkeys(), copy(). Two
/// mappings are equal when dicts of their items are. The views of keys() and items() have prefixes,
/// also where [] takes an address. popitem() takes the first prefix.
///
/// The table has a root of 2**root_bits words for each family (6, 12, 18 or 24); 12 suits tables of
/// some thousand prefixes, and takes 64 KiB instead of 4 MiB.
#[pyclass(frozen, generic, mapping, weakref, module = "sapwood")]
pub struct Fib {
    pub(crate) table: IpFib<u32>,
    pub(crate) objects: SharedObjects,
    pub(crate) root_bits: u8,
}

impl AsRef<SharedObjects> for &Fib {
    fn as_ref(&self) -> &SharedObjects {
        &self.objects
    }
}

#[pymethods]
impl Fib {
    #[new]
    #[pyo3(signature = (items=None, *, root_bits=18))]
    fn new(py: Python<'_>, items: Option<&Bound<'_, PyAny>>, root_bits: u8) -> PyResult<Self> {
        let Some(items) = items else {
            return Self::of(py, root_bits, []);
        };
        let routes = pairs(Some(items), None)?.map(|pair| {
            let (prefix, value) = pair?;
            Ok((prefix_of(&prefix)?, value.unbind()))
        });
        Self::of(py, root_bits, routes)
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.find(key.py(), key_of(key)?).ok_or_else(|| absent(key))
    }

    fn __setitem__(&self, prefix: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(prefix_of(prefix)?, value).map(drop)
    }

    fn __delitem__(&self, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        let taken = self.take(prefix.py(), prefix_of(prefix)?)?;
        taken.map(drop).ok_or_else(|| absent(prefix))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        Ok(self.table.read(|view| match key {
            Key::Address(address) => view.lookup_value(address).is_some(),
            Key::Prefix(net) => view.get(net).is_some(),
        }))
    }

    /// The value of exactly this prefix, or of the longest prefix of this address; `default` when
    /// there is none.
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(key.py(), key_of(key)?).or(default))
    }

    /// The value of exactly this prefix; an address is the prefix of this address alone.
    ///
    /// >>> fib = Fib({"10.0.0.0/8": 1})
    /// >>> fib.get("10.0.0.1"), fib.exact("10.0.0.1")
    /// (1, None)
    #[pyo3(signature = (prefix, default=None, /))]
    fn exact(
        &self,
        prefix: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let net = prefix_of(prefix)?;
        Ok(self.find(prefix.py(), Key::Prefix(net)).or(default))
    }

    /// The longest prefix of an address, or the longest that covers a prefix (itself included), and
    /// its value; None when there is none.
    ///
    /// >>> fib = Fib({"10.0.0.0/8": 1, "10.1.0.0/16": 2})
    /// >>> fib.lookup("10.1.2.3"), fib.lookup("10.0.0.0/9"), fib.lookup("::1")
    /// (('10.1.0.0/16', 2), ('10.0.0.0/8', 1), None)
    #[pyo3(signature = (key, /))]
    fn lookup(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(String, Py<PyAny>)>> {
        let py = key.py();
        let key = key_of(key)?;
        let found = self.objects.with(py, |objects| {
            let (net, number) = self.table.read(|view| longest(&view, key))?;
            Some((net, objects.get(number)?.clone_ref(py)))
        });
        Ok(found.map(|(net, object)| (net.to_string(), object)))
    }

    /// Inserts a prefix or replaces its value; returns the old value, or None.
    #[pyo3(signature = (prefix, value, /))]
    fn insert(
        &self,
        prefix: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        self.put(prefix_of(prefix)?, value)
    }

    /// Removes exactly this prefix and returns its value; KeyError when it is not there.
    #[pyo3(signature = (prefix, /))]
    fn remove(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let taken = self.take(prefix.py(), prefix_of(prefix)?)?;
        taken.ok_or_else(|| absent(prefix))
    }

    /// Removes exactly this prefix and returns its value. When it is not there, returns `default`
    /// or raises KeyError.
    #[pyo3(signature = (key, /, *default))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let default = crate::pairs::at_most_one("pop", default)?;
        let taken = self.take(key.py(), prefix_of(key)?)?;
        taken.or(default).ok_or_else(|| absent(key))
    }

    /// The value of exactly this prefix; inserts `default` when it is not there.
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = key.py();
        let net = prefix_of(key)?;
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        self.objects.with(py, |objects| {
            if let Some(number) = self.table.get(net)
                && let Some(object) = objects.get(number)
            {
                return Ok(object.clone_ref(py));
            }
            let number = objects.take(&default)?;
            self.table.insert(net, number).map_err(|rejected| {
                objects.give_back(number);
                refused(rejected.error)
            })?;
            Ok(default.unbind())
        })
    }

    /// Removes the first prefix and returns it with its value; KeyError when there is none.
    fn popitem(&self, py: Python<'_>) -> PyResult<(String, Py<PyAny>)> {
        while let Some(net) = self.first() {
            if let Some(value) = self.take(py, net)? {
                return Ok((net.to_string(), value));
            }
        }
        Err(PyKeyError::new_err("the table is empty"))
    }

    /// Inserts all items of a mapping or of an iterable of pairs, and the named arguments. Readers
    /// see all of them or none of a family, and an error changes nothing.
    #[pyo3(signature = (items=None, /, **others))]
    fn update(
        &self,
        py: Python<'_>,
        items: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let routes: Vec<(IpNet, Bound<'_, PyAny>)> = pairs(items, others)?
            .map(|pair| {
                let (prefix, value) = pair?;
                Ok((prefix_of(&prefix)?, value))
            })
            .collect::<PyResult<_>>()?;
        self.put_all(py, &routes)
    }

    /// Removes all prefixes.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.objects.with(py, |objects| {
            let entries = self.entries();
            let mut txn = self.table.begin();
            let mut gone = Vec::new();
            for (net, number) in entries {
                txn.remove(net).map_err(refused)?;
                gone.push(number);
            }
            txn.commit();
            gone.iter().for_each(|number| objects.give_back(*number));
            Ok(())
        })
    }

    /// All prefixes that cover an address or a prefix, shortest first, with their values. A prefix
    /// is not its own parent.
    ///
    /// >>> fib = Fib({"0.0.0.0/0": 0, "10.0.0.0/8": 1, "10.1.0.0/16": 2})
    /// >>> fib.parents("10.1.0.0/16")
    /// [('0.0.0.0/0', 0), ('10.0.0.0/8', 1)]
    #[pyo3(signature = (key, /))]
    fn parents<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = key.py();
        let key = key_of(key)?;
        self.list(py, || self.table.read(|view| above(&view, key)))
    }

    /// The prefixes directly inside this one, in order, with their values: those inside it that no
    /// other prefix inside it covers. It need not be in the table.
    ///
    /// >>> fib = Fib({"10.0.0.0/8": 1, "10.1.0.0/16": 2, "10.1.2.0/24": 3, "10.7.0.0/16": 4})
    /// >>> fib.children("10.0.0.0/8")
    /// [('10.1.0.0/16', 2), ('10.7.0.0/16', 4)]
    #[pyo3(signature = (prefix, /))]
    fn children<'py>(&self, prefix: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let net = prefix_of(prefix)?;
        self.list(prefix.py(), || match net {
            IpNet::V4(net) => (self.table.v4().snapshot().children(net))
                .map(|(net, number)| (net.into(), *number))
                .collect(),
            IpNet::V6(net) => (self.table.v6().snapshot().children(net))
                .map(|(net, number)| (net.into(), *number))
                .collect(),
        })
    }

    /// The prefix itself, if it is in the table, and all prefixes inside it, in order, with their
    /// values.
    #[pyo3(signature = (prefix, /))]
    fn covered<'py>(&self, prefix: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let net = prefix_of(prefix)?;
        self.list(prefix.py(), || match net {
            IpNet::V4(net) => (self.table.v4().snapshot().covered_by(net))
                .map(|(net, number)| (net.into(), *number))
                .collect(),
            IpNet::V6(net) => (self.table.v6().snapshot().covered_by(net))
                .map(|(net, number)| (net.into(), *number))
                .collect(),
        })
    }

    /// All prefixes that cover an address or a prefix, itself included, shortest first, with their
    /// values.
    ///
    /// >>> fib = Fib({"0.0.0.0/0": 0, "10.0.0.0/8": 1, "10.1.0.0/16": 2})
    /// >>> fib.covering("10.1.0.0/16")
    /// [('0.0.0.0/0', 0), ('10.0.0.0/8', 1), ('10.1.0.0/16', 2)]
    #[pyo3(signature = (key, /))]
    fn covering<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let net = prefix_of(key)?;
        self.list(key.py(), || {
            let covering = |view: IpFibView<'_, u32>| {
                let found = view.covering(net);
                found.map(|(net, number)| (net, *number)).collect()
            };
            self.table.read(covering)
        })
    }

    /// A table with the fewest prefixes that give each address the same value as this one does; an
    /// address without a prefix stays without one. Values are the same if they have one number:
    /// see next_hops(). O(n log n).
    ///
    /// >>> fib = Fib({"10.0.0.0/9": "a", "10.128.0.0/9": "a", "10.1.0.0/16": "b"})
    /// >>> dict(fib.aggregated())
    /// {'10.0.0.0/8': 'a', '10.1.0.0/16': 'b'}
    fn aggregated(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy_of(py, sapwood::lpm::aggregate)
    }

    /// What is different in a newer table: a list of tuples (prefix, old value, new value) of the
    /// prefixes whose values differ, in order. `default` stands for no value. Values differ if they
    /// are neither the same object nor equal. O(prefixes of both).
    ///
    /// >>> old, new = Fib({"10.0.0.0/8": 1, "::/0": 2}), Fib({"10.0.0.0/8": 3})
    /// >>> old.diff(new)
    /// [('10.0.0.0/8', 1, 3), ('::/0', 2, None)]
    #[pyo3(signature = (newer, /, *, default=None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        newer: &Bound<'py, Fib>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.differences(py, newer.get(), default)
    }

    /// Looks up many addresses, without the interpreter's lock.
    ///
    /// `addresses` is an array of 32-bit IPv4 addresses (dtype uint32; or uint64 or int64 with
    /// numbers below 2**32), an array of shape (n, 4) or (n, 16) of uint8, whatever has such an
    /// array (`__array__`: columns of Arrow, polars and pandas), or any iterable of addresses. What
    /// is missing is no address: None, NaN, pandas.NA, nulls of Arrow and polars, masked elements.
    /// With mapped=True, IPv4-mapped IPv6 addresses (::ffff:192.0.2.1) are looked up as IPv4.
    ///
    /// Returns the numbers of the values as an array of int32, -1 where an address has no prefix.
    /// next_hops()[number] is the value as long as a prefix has it. The array is numpy's, or a
    /// memoryview when numpy is not installed. With objects=True, returns a list of the values, and
    /// `default` where there is none. With threads=n, up to n threads share a large batch.
    ///
    /// >>> from array import array
    /// >>> fib = Fib({"10.0.0.0/8": "core", "192.0.2.0/24": "lab"})
    /// >>> numbers = fib.lookup_many(["10.1.2.3", "::1", "192.0.2.7"])
    /// >>> [fib.next_hops()[n] if n >= 0 else None for n in numbers.tolist()]
    /// ['core', None, 'lab']
    /// >>> fib.lookup_many(array("I", [0x0A000001, 1]), objects=True)
    /// ['core', None]
    ///
    /// Other threads may change the table meanwhile. Each lookup then sees the table before a
    /// change or after it.
    #[pyo3(signature = (addresses, *, objects=false, default=None, threads=1, mapped=false))]
    fn lookup_many<'py>(
        &self,
        addresses: &Bound<'py, PyAny>,
        objects: bool,
        default: Option<Py<PyAny>>,
        threads: usize,
        mapped: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = addresses.py();
        let addresses = Addresses::of(addresses, mapped)?;
        if !objects {
            let find = |addresses: batch::Part<'_>, out: &mut [u8]| {
                batch::numbers(&self.table, addresses, out.as_chunks_mut().0);
            };
            return batch::array(py, &addresses, batch::I32, threads, find);
        }
        let reading = SharedObjects::read(py, self);
        let mut numbers = vec![[0; 4]; addresses.len()];
        py.detach(|| {
            batch::shared(&addresses, &mut numbers, threads, |part, out| {
                batch::numbers(&self.table, part, out);
            });
        });
        let default = default.unwrap_or_else(|| py.None());
        let found: Vec<Py<PyAny>> = self.objects.with(py, |objects| {
            let object = |number: [u8; 4]| {
                let found = usize::try_from(i32::from_ne_bytes(number)).ok();
                let found = found.and_then(|number| objects.get(number as u32));
                found.unwrap_or(&default).clone_ref(py)
            };
            numbers.into_iter().map(object).collect()
        });
        drop(reading);
        Ok(PyList::new(py, found)?.into_any())
    }

    /// The different values by number; None for a number that no prefix has.
    ///
    /// A value keeps its number as long as a prefix has the value. Later the number may get another
    /// value.
    fn next_hops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<Option<Py<PyAny>>> = self.objects.with(py, |objects| {
            let all = objects.all();
            all.map(|object| object.map(|object| object.clone_ref(py)))
                .collect()
        });
        PyList::new(py, all)
    }

    fn __iter__(slf: &Bound<'_, Self>) -> SnapshotIter {
        Self::iter(slf, Kind::Keys, false)
    }

    /// An iterator for views.
    fn _walk(slf: &Bound<'_, Self>, kind: &str, back: bool) -> PyResult<SnapshotIter> {
        Ok(Self::iter(slf, Kind::of(kind)?, back))
    }

    /// An empty table with such a root.
    fn _like(&self, py: Python<'_>) -> PyResult<Self> {
        Self::of(py, self.root_bits, [])
    }

    /// Another table with the same prefixes and the same objects.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy_of(py, |entries| entries)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let fib = slf.get();
        let state = fib_saved::state(fib, py)?;
        let make = slf.get_type().getattr("_empty")?;
        let arguments = PyTuple::new(py, [fib.root_bits])?;
        PyTuple::new(py, [make, arguments.into_any(), state.into_any()])
    }

    #[classmethod]
    fn _empty(_class: &Bound<'_, PyType>, py: Python<'_>, root_bits: u8) -> PyResult<Self> {
        Self::of(py, root_bits, [])
    }

    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        fib_saved::restore(self, state)
    }

    /// What the table takes, in bytes: a dict with "total", "v4", "v6" and "objects", the table of
    /// values without the values themselves.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (memory, objects) = self
            .objects
            .with(py, |objects| (self.table.memory(), objects.bytes()));
        let dict = PyDict::new(py);
        dict.set_item("total", memory.total() + objects)?;
        dict.set_item("v4", memory.v4.total())?;
        dict.set_item("v6", memory.v6.total())?;
        dict.set_item("objects", objects)?;
        Ok(dict)
    }

    fn __sizeof__(&self, py: Python<'_>) -> usize {
        self.objects.with(py, |objects| {
            self.table.memory().total() + objects.bytes() + size_of::<Self>()
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let values = self.objects.with(py, |objects| objects.len());
        let (v4, v6) = (self.table.v4().len(), self.table.v6().len());
        format!("<sapwood.Fib: {v4} IPv4 and {v6} IPv6 prefixes, {values} different values>")
    }

    /// Checks every invariant of the table and the counts of its values; ValueError says what is
    /// wrong. For tests.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.objects.with(py, |objects| {
            self.table.verify().map_err(PyValueError::new_err)?;
            let mut found = vec![0; objects.uses().count()];
            for (_, number) in self.entries() {
                found[number as usize] += 1;
            }
            match objects.uses().eq(found) {
                true => Ok(()),
                false => Err(PyValueError::new_err("the counts of the values are wrong")),
            }
        })
    }

    /// Saves the table for FibFile.open() and Fib.load(). All values are int from 0 to 2**32 - 1,
    /// or all are str. The file is written beside `path` and then renamed.
    #[pyo3(signature = (path, /))]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        fib_saved::save(self, py, &path)
    }

    /// A table of the prefixes of a file that save() wrote, or that the program `sapwood` did. The
    /// whole file is checked.
    #[classmethod]
    #[pyo3(signature = (path, /))]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        fib_saved::load(py, &path)
    }

    /// A table of lines of a prefix and a next hop, which is any text or none, as str; or of what
    /// `ip route`, `route -n`, FRR and BIRD print, told by the contents. Groups and null routes are
    /// their texts: "a weight 2, b weight 1", "blackhole". `source` is the path of a file, which
    /// may be compressed by gzip or bzip2. A `#` begins a comment. With truncate=True, bits after a
    /// prefix's length are cleared; otherwise they are an error.
    #[classmethod]
    #[pyo3(signature = (source, /, *, truncate=false))]
    fn from_text(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        source: PathBuf,
        truncate: bool,
    ) -> PyResult<Self> {
        fib_saved::from_text(py, &source, truncate)
    }

    /// A table of the unicast RIBs of an MRT dump (TABLE_DUMP_V2, TABLE_DUMP) with the updates
    /// after it (BGP4MP), which may be compressed by gzip or bzip2. The values are the next hops as
    /// str, or, with value="origin", the numbers of the autonomous systems that originate the
    /// prefixes, as int (None where a path has no single origin). `peer` is the address of the peer
    /// whose routes are taken; by default each prefix's first entry is.
    #[classmethod]
    #[pyo3(signature = (source, /, *, value="next_hop", peer=None))]
    fn from_mrt(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        source: PathBuf,
        value: &str,
        peer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        fib_saved::from_mrt(py, &source, value, peer)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.objects.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.objects.clear(py);
    }
}

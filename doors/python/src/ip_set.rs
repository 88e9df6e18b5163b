//! `IpSet`: sets of addresses of both families.

use std::hash::{DefaultHasher, Hash, Hasher};

use ipnet::IpNet;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
use sapwood::lpm::{IpSet as Addresses, V4, V6};

use crate::address::{Key, address_of, key_of, kind, prefix_of};

/// A set of addresses of both families, which does not change, as a frozenset.
///
/// `items` is an iterable of prefixes and addresses, as Fib takes them; another IpSet, or a mapping
/// with prefixes for keys, such as a Fib, is one, too. A prefix with bits set after its length is
/// an error. Iteration gives the fewest prefixes with exactly these addresses as str, IPv4 first.
///
/// `address in s` says whether the set has an address, and `prefix in s` whether it has all of a
/// prefix. |, &, -, ^ and ~ make new sets; <=, <, >= and > compare them. union(), intersection(),
/// difference(), symmetric_difference(), isdisjoint(), issubset() and issuperset() take any
/// iterable of prefixes. A set has sorted ranges in memory, so that all of these are quick.
///
/// >>> from sapwood import IpSet
/// >>> private = IpSet(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"])
/// >>> lab = IpSet(["10.1.0.0/17", "10.1.128.0/17", "192.0.2.7"])
/// >>> list(lab)
/// ['10.1.0.0/16', '192.0.2.7/32']
/// >>> "10.9.9.9" in private, "10.0.0.0/7" in private
/// (True, False)
/// >>> list(lab - private), list(lab & private)
/// (['192.0.2.7/32'], ['10.1.0.0/16'])
/// >>> len(~private & IpSet(["0.0.0.0/0"]))
/// 31
#[pyclass(frozen, weakref, module = "sapwood")]
pub struct IpSet {
    set: Addresses,
}

/// The set that an object stands for: one, or an iterable of prefixes.
fn set_of(items: &Bound<'_, PyAny>) -> PyResult<Addresses> {
    if let Ok(set) = items.cast::<IpSet>() {
        return Ok(set.get().set.clone());
    }
    if items.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "an IpSet is made of an iterable of prefixes, not of a str; IpSet.parse() reads a text",
        ));
    }
    let nets = items.try_iter()?.map(|item| prefix_of(&item?));
    nets.collect()
}

impl IpSet {
    fn of(set: Addresses) -> Self {
        IpSet { set }
    }
}

#[pymethods]
impl IpSet {
    #[new]
    #[pyo3(signature = (items=None, /))]
    fn new(items: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        items
            .map_or_else(|| Ok(Addresses::new()), set_of)
            .map(Self::of)
    }

    /// The set of a text with a prefix, an address or a range (192.0.2.1-192.0.2.9) in each line. A
    /// `#` begins a comment. ValueError says which line is none of these. str() gives such a text.
    ///
    /// >>> str(IpSet.parse("192.0.2.0-192.0.2.2 # three"))
    /// '192.0.2.0/31\n192.0.2.2/32\n'
    #[classmethod]
    #[pyo3(signature = (text, /))]
    fn parse(_class: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        let parsed = text.parse().map(Self::of);
        parsed.map_err(|error: sapwood::lpm::SetError| PyValueError::new_err(error.to_string()))
    }

    /// The set of ranges of addresses: pairs of a first and a last address, both included.
    ///
    /// >>> list(IpSet.from_ranges([("192.0.2.0", "192.0.2.2")]))
    /// ['192.0.2.0/31', '192.0.2.2/32']
    #[classmethod]
    #[pyo3(signature = (ranges, /))]
    fn from_ranges(_class: &Bound<'_, PyType>, ranges: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut all = Addresses::new();
        for range in ranges.try_iter()? {
            let (first, last): (Bound<'_, PyAny>, Bound<'_, PyAny>) = range?.extract()?;
            all.insert_range(address_of(&first)?, address_of(&last)?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        Ok(Self::of(all))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(match key_of(key)? {
            Key::Address(address) => self.set.contains(address),
            Key::Prefix(net) => self.set.covers(net),
        })
    }

    /// Whether the set has an address of this prefix.
    #[pyo3(signature = (prefix, /))]
    fn overlaps(&self, prefix: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.set.overlaps(prefix_of(prefix)?))
    }

    /// The number of the fewest prefixes.
    fn __len__(&self) -> usize {
        self.set.prefixes().count()
    }

    fn __bool__(&self) -> bool {
        !self.set.is_empty()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let all = self.set.prefixes().map(|net| net.to_string());
        let all = PyList::new(py, all.collect::<Vec<_>>())?;
        Ok(all.try_iter()?.into_any())
    }

    /// The ranges of addresses, as pairs of the first and the last address, in order. Between two
    /// ranges of a family is at least one address that is not in the set.
    ///
    /// >>> IpSet(["10.0.0.0/8", "11.0.0.0/8"]).ranges()
    /// [('10.0.0.0', '11.255.255.255')]
    fn ranges(&self) -> Vec<(String, String)> {
        let ranges = self.set.ranges();
        ranges
            .map(|(first, last)| (first.to_string(), last.to_string()))
            .collect()
    }

    /// The number of addresses of both families.
    #[getter]
    fn num_addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (v4, v6) = (self.set.v4().addresses(), self.set.v6().addresses());
        let v6 = v6.into_pyobject(py)?;
        // All of IPv6 is one more than 128 bits hold.
        let all = self.set.v6().covers(ipnet::Ipv6Net::default());
        v6.add(u8::from(all))?.add(v4)
    }

    /// The longest prefix that covers all addresses of the set; None when it is empty or has
    /// addresses of both families.
    ///
    /// >>> IpSet(["10.1.0.0/16", "10.2.3.0/24"]).supernet()
    /// '10.0.0.0/14'
    fn supernet(&self) -> Option<String> {
        let (v4, v6) = (self.set.v4().supernet(), self.set.v6().supernet());
        let net = match (v4, v6) {
            (Some(net), None) => IpNet::V4(net),
            (None, Some(net)) => IpNet::V6(net),
            _ => return None,
        };
        Some(net.to_string())
    }

    /// The addresses that are in either.
    #[pyo3(signature = (other, /))]
    fn union(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::of(self.set.union(&set_of(other)?)))
    }

    /// The addresses that are in both.
    #[pyo3(signature = (other, /))]
    fn intersection(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::of(self.set.intersection(&set_of(other)?)))
    }

    /// The addresses that are in this set only.
    #[pyo3(signature = (other, /))]
    fn difference(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::of(self.set.difference(&set_of(other)?)))
    }

    /// The addresses that are in one of both only.
    #[pyo3(signature = (other, /))]
    fn symmetric_difference(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::of(self.set.symmetric_difference(&set_of(other)?)))
    }

    /// The addresses of both families that are not in this set.
    fn complement(&self) -> Self {
        Self::of(self.set.complement())
    }

    /// Whether both have no address in common.
    #[pyo3(signature = (other, /))]
    fn isdisjoint(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.set.is_disjoint(&set_of(other)?))
    }

    /// Whether all addresses of this set are in the other.
    #[pyo3(signature = (other, /))]
    fn issubset(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.set.is_subset(&set_of(other)?))
    }

    /// Whether all addresses of the other are in this set.
    #[pyo3(signature = (other, /))]
    fn issuperset(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(set_of(other)?.is_subset(&self.set))
    }

    fn __or__(&self, other: &Self) -> Self {
        Self::of(&self.set | &other.set)
    }

    fn __and__(&self, other: &Self) -> Self {
        Self::of(&self.set & &other.set)
    }

    fn __sub__(&self, other: &Self) -> Self {
        Self::of(&self.set - &other.set)
    }

    fn __xor__(&self, other: &Self) -> Self {
        Self::of(&self.set ^ &other.set)
    }

    fn __invert__(&self) -> Self {
        self.complement()
    }

    fn __richcmp__(&self, other: &Self, op: CompareOp) -> bool {
        let (a, b) = (&self.set, &other.set);
        match op {
            CompareOp::Eq => a == b,
            CompareOp::Ne => a != b,
            CompareOp::Le => a.is_subset(b),
            CompareOp::Lt => a != b && a.is_subset(b),
            CompareOp::Ge => b.is_subset(a),
            CompareOp::Gt => a != b && b.is_subset(a),
        }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.set.hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        self.set.to_string()
    }

    fn __repr__(&self) -> String {
        const SHOWN: usize = 5;
        let nets = self
            .set
            .prefixes()
            .take(SHOWN)
            .map(|net| format!("'{net}'"));
        let shown = nets.collect::<Vec<_>>().join(", ");
        match self.set.prefixes().nth(SHOWN) {
            None if shown.is_empty() => "IpSet()".into(),
            None => format!("IpSet([{shown}])"),
            Some(_) => format!("<sapwood.IpSet: {shown}, … {} prefixes>", self.__len__()),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let make = slf.get_type().getattr("parse")?;
        let arguments = PyTuple::new(py, [slf.get().__str__()])?;
        PyTuple::new(py, [make, arguments.into_any()])
    }

    fn __sizeof__(&self) -> usize {
        let (v4, v6) = (self.set.v4().ranges().len(), self.set.v6().ranges().len());
        size_of::<Self>() + 8 * v4 + 32 * v6
    }
}

/// The longest prefix that covers all of these prefixes and addresses, as str; None when there are
/// none, or they are of both families.
///
/// >>> from sapwood import supernet
/// >>> supernet(["10.1.0.0/16", "10.2.3.4"])
/// '10.0.0.0/14'
#[pyfunction]
#[pyo3(signature = (prefixes, /))]
pub fn supernet(prefixes: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if prefixes.is_instance_of::<PyString>() {
        let text = format!("prefixes are an iterable, not {}", kind(prefixes));
        return Err(PyTypeError::new_err(text));
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in prefixes.try_iter()? {
        match prefix_of(&prefix?)? {
            IpNet::V4(net) => v4.push(net),
            IpNet::V6(net) => v6.push(net),
        }
    }
    let net = match (v4.is_empty(), v6.is_empty()) {
        (_, true) => sapwood::lpm::supernet::<V4>(v4).map(IpNet::V4),
        (true, _) => sapwood::lpm::supernet::<V6>(v6).map(IpNet::V6),
        _ => None,
    };
    Ok(net.map(|net| net.to_string()))
}

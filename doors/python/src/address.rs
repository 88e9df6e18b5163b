//! Addresses and prefixes as Python programs have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple, PyType};
use sapwood_routes::parse_prefix;

use crate::numbers::{in_arrow, int_of};

/// A key of a table of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// An address: text without a length, an integer, packed bytes, `ipaddress.IPv4Address`…
    Address(IpAddr),
    /// A prefix: text with a length, `ipaddress.IPv4Network`…
    Prefix(IpNet),
}

impl Key {
    /// The prefix, or the prefix of this address alone.
    pub fn prefix(self) -> IpNet {
        match self {
            Key::Address(address) => address.into(),
            Key::Prefix(net) => net,
        }
    }
}

fn bad(text: String) -> PyErr {
    PyValueError::new_err(text)
}

/// The first 60 characters of an object's `repr`, for messages.
pub fn shown(object: &Bound<'_, PyAny>) -> String {
    let Ok(repr) = object.repr().and_then(|repr| repr.extract::<String>()) else {
        return format!("an object of {}", kind(object));
    };
    match repr.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &repr[..end]),
        None => repr,
    }
}

/// The name of an object's type, for messages.
pub fn kind(object: &Bound<'_, PyAny>) -> String {
    match object.get_type().name() {
        Ok(name) => name.to_string(),
        Err(_) => "a type without a name".into(),
    }
}

/// The address of a text.
#[inline]
fn address_of_text(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not an IP address")
    })
}

/// The prefix of a text.
fn prefix_of_text(text: &str) -> Result<IpNet, String> {
    let (net, exact) = parse_prefix(text)?;
    without_more_bits(net, exact)
}

/// A prefix, if it is `exact`: no bit after its length is set.
fn without_more_bits(net: IpNet, exact: bool) -> Result<IpNet, String> {
    match exact {
        true => Ok(net),
        false => Err(format!(
            "{net} has bits set after its length; {} may be meant",
            net.trunc()
        )),
    }
}

/// The address of packed bytes.
pub fn address_of_bytes(bytes: &[u8]) -> Result<IpAddr, String> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(octets.into());
    }
    if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
        return Ok(octets.into());
    }
    Err(format!(
        "{} bytes are not a packed IP address: it has 4 or 16",
        bytes.len()
    ))
}

/// The address of an integer, as `ipaddress.ip_address` reads it.
fn address_of_int(number: &Bound<'_, PyInt>) -> PyResult<IpAddr> {
    if let Ok(small) = number.extract::<u32>() {
        return Ok(Ipv4Addr::from(small).into());
    }
    match number.extract::<u128>() {
        Ok(large) => Ok(Ipv6Addr::from(large).into()),
        Err(_) => Err(bad(format!(
            "{} is not an IP address: an integer has 32 or 128 bits, and no sign",
            shown(number)
        ))),
    }
}

/// The classes of `ipaddress`. An interface is an address, too.
struct Classes {
    addresses: Py<PyTuple>,
    interfaces: Py<PyTuple>,
    networks: Py<PyTuple>,
}

fn classes(py: Python<'_>) -> PyResult<&Classes> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || {
        let module = py.import("ipaddress")?;
        let class = |name: &str| {
            module
                .getattr(name)?
                .cast_into::<PyType>()
                .map_err(PyErr::from)
        };
        let pair = |v4, v6| Ok::<_, PyErr>(PyTuple::new(py, [class(v4)?, class(v6)?])?.unbind());
        Ok(Classes {
            addresses: pair("IPv4Address", "IPv6Address")?,
            interfaces: pair("IPv4Interface", "IPv6Interface")?,
            networks: pair("IPv4Network", "IPv6Network")?,
        })
    })
}

fn packed(address: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    let scope = address.getattr_opt("scope_id")?;
    if scope.is_some_and(|scope| !scope.is_none()) {
        let text = format!("{} has a scope, which no route has", shown(address));
        return Err(bad(text));
    }
    let bytes = address.getattr("packed")?;
    address_of_bytes(bytes.cast::<PyBytes>()?.as_bytes()).map_err(bad)
}

/// The prefix of an address and a length, as the text of both is read.
fn exact(address: IpAddr, network: &Bound<'_, PyAny>) -> PyResult<Key> {
    let length = network.getattr("prefixlen")?.extract::<u8>()?;
    let net = IpNet::new(address, length).map_err(|error| bad(error.to_string()))?;
    without_more_bits(net, net == net.trunc())
        .map(Key::Prefix)
        .map_err(bad)
}

/// A key that is no text.
#[cold]
fn key_of_other(object: &Bound<'_, PyAny>) -> PyResult<Key> {
    // What most of them are.
    if let Ok(number) = object.cast_exact::<PyInt>() {
        return address_of_int(number).map(Key::Address);
    }
    if let Some(number) = int_of(object)? {
        return address_of_int(&number).map(Key::Address);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return address_of_bytes(bytes.as_bytes())
            .map(Key::Address)
            .map_err(bad);
    }
    let py = object.py();
    let classes = classes(py)?;
    if object.is_instance(classes.interfaces.bind(py))? {
        return exact(packed(object)?, &object.getattr("network")?);
    }
    if object.is_instance(classes.addresses.bind(py))? {
        return packed(object).map(Key::Address);
    }
    if object.is_instance(classes.networks.bind(py))? {
        return exact(packed(&object.getattr("network_address")?)?, object);
    }
    // Scalars of Arrow.
    if let Some(inside) = in_arrow(object)? {
        return key_of(&inside);
    }
    Err(PyTypeError::new_err(format!(
        "an address or a prefix is a str, an int, bytes or an object of ipaddress, not {}",
        kind(object)
    )))
}

/// The key that an object stands for.
#[inline]
pub fn key_of(object: &Bound<'_, PyAny>) -> PyResult<Key> {
    let Ok(text) = object.cast::<PyString>() else {
        return key_of_other(object);
    };
    let text = text.to_str()?;
    // Most prefixes end with "/" and one to three digits; no address does.
    let is_prefix = text.bytes().rev().take(4).any(|byte| byte == b'/');
    if !is_prefix && let Ok(address) = text.parse() {
        return Ok(Key::Address(address));
    }
    match text.contains('/') {
        true => prefix_of_text(text).map(Key::Prefix).map_err(bad),
        false => address_of_text(text).map(Key::Address).map_err(bad),
    }
}

/// The prefix that an object stands for; an address is the prefix of this address alone.
pub fn prefix_of(object: &Bound<'_, PyAny>) -> PyResult<IpNet> {
    key_of(object).map(Key::prefix)
}

/// The address that an object stands for.
pub fn address_of(object: &Bound<'_, PyAny>) -> PyResult<IpAddr> {
    match key_of(object)? {
        Key::Address(address) => Ok(address),
        Key::Prefix(net) => Err(bad(format!("{net} is a prefix, and an address is wanted"))),
    }
}

/// The IPv4 address of an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`), as an
/// ipaddress.IPv4Address; any other address or prefix as it is.
///
/// Lookups take such an address for the IPv6 address that it is. A program whose sockets show IPv4
/// peers in this form asks for the IPv4 address, in batches with mapped=True.
///
/// >>> from sapwood import Fib, unmapped
/// >>> fib = Fib({"192.0.2.0/24": "lab"})
/// >>> fib.get("::ffff:192.0.2.1"), fib.get(unmapped("::ffff:192.0.2.1"))
/// (None, 'lab')
/// >>> fib.lookup_many(["::ffff:192.0.2.1", "192.0.2.1"], mapped=True).tolist()
/// [0, 0]
#[pyfunction]
#[pyo3(signature = (address, /))]
pub fn unmapped<'py>(address: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match key_of(address)? {
        Key::Address(IpAddr::V6(six)) => match six.to_ipv4_mapped() {
            Some(four) => Ok(four.into_pyobject(address.py())?),
            None => Ok(address.clone()),
        },
        _ => Ok(address.clone()),
    }
}

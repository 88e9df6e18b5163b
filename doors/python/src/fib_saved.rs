//! Tables of routes outside of memory: pickled, saved, read from texts and MRT dumps.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use sapwood::lpm::{FibFileBuilder, SavedHop};
use sapwood_routes::{
    Error as RouteError, Format, MrtRoutes, Peer, Reading, RouteSource, decompressed, format_of,
};

use crate::address::{address_of, shown};
use crate::errors::{not_read, not_saved, refused, wrong_file};
use crate::fib::Fib;
use crate::fib_file::FibFile;
use crate::numbers::whole;
use crate::objects::SharedObjects;

/// What is pickled: the prefixes, each with the position of its value, and the values.
///
/// A prefix is its family (4 or 6), its length, its packed address, and the position in four bytes,
/// little-endian.
pub fn state<'py>(fib: &Fib, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    let (bytes, values) = fib.objects.with(py, |objects| {
        let mut positions: Vec<Option<u32>> = vec![None; objects.uses().count()];
        let mut values: Vec<Py<PyAny>> = Vec::new();
        let mut bytes = Vec::new();
        for (net, number) in fib.entries() {
            let at = *positions[number as usize].get_or_insert_with(|| {
                let value = objects.get(number);
                values.push(value.map_or_else(|| py.None(), |value| value.clone_ref(py)));
                (values.len() - 1) as u32
            });
            match net {
                IpNet::V4(net) => {
                    bytes.extend([4, net.prefix_len()]);
                    bytes.extend(net.addr().octets());
                }
                IpNet::V6(net) => {
                    bytes.extend([6, net.prefix_len()]);
                    bytes.extend(net.addr().octets());
                }
            }
            bytes.extend(at.to_le_bytes());
        }
        (bytes, values)
    });
    let parts = [
        PyBytes::new(py, &bytes).into_any(),
        PyList::new(py, values)?.into_any(),
    ];
    PyTuple::new(py, parts)
}

/// One prefix of a state, the position of its value, and the rest.
fn first(bytes: &[u8]) -> Option<(IpNet, u32, &[u8])> {
    let (&[family, length], bytes) = bytes.split_first_chunk()?;
    let (net, bytes) = match family {
        4 => {
            let (octets, bytes) = bytes.split_first_chunk::<4>()?;
            (
                Ipv4Net::new(Ipv4Addr::from(*octets), length).ok()?.into(),
                bytes,
            )
        }
        6 => {
            let (octets, bytes) = bytes.split_first_chunk::<16>()?;
            (
                Ipv6Net::new(Ipv6Addr::from(*octets), length).ok()?.into(),
                bytes,
            )
        }
        _ => return None,
    };
    let (at, bytes) = bytes.split_first_chunk()?;
    Some((net, u32::from_le_bytes(*at), bytes))
}

/// Fills an empty table from what was pickled.
pub fn restore(fib: &Fib, state: &Bound<'_, PyTuple>) -> PyResult<()> {
    let py = state.py();
    let wrong = || PyValueError::new_err("this is not the state of a pickled Fib");
    let (bytes, values): (Bound<'_, PyBytes>, Bound<'_, PyList>) =
        state.extract().map_err(|_| wrong())?;
    let values: Vec<Bound<'_, PyAny>> = values.iter().collect();
    let mut rest = bytes.as_bytes();
    let mut routes = Vec::new();
    while !rest.is_empty() {
        let (net, at, after) = first(rest).ok_or_else(wrong)?;
        routes.push((net, values.get(at as usize).ok_or_else(wrong)?));
        rest = after;
    }
    fib.put_all(py, &routes)
}

/// The values of a table that are saved.
enum Saved {
    Numbers(Vec<u32>),
    Names(Vec<String>),
}

/// The values by number, if all are integers or all are texts.
fn values_of(fib: &Fib, py: Python<'_>) -> PyResult<(Vec<(IpNet, u32)>, Saved)> {
    let (entries, values) = fib.objects.with(py, |objects| {
        let values: Vec<Option<Py<PyAny>>> = (objects
            .all()
            .map(|value| value.map(|value| value.clone_ref(py))))
        .collect();
        (fib.entries(), values)
    });
    let wanted = "a file has values that are all int from 0 to 2**32 - 1, or all str";
    let is_text = |value: &Py<PyAny>| value.bind(py).is_instance_of::<PyString>();
    let refuse = |value: &Bound<'_, PyAny>| {
        PyValueError::new_err(format!("{} cannot be saved: {wanted}", shown(value)))
    };
    if values.iter().flatten().next().is_some_and(is_text) {
        let text = |value: &Option<Py<PyAny>>| match value {
            Some(value) => {
                let value = value.bind(py);
                let text = value.cast::<PyString>().map_err(|_| refuse(value))?;
                Ok(text.to_str()?.to_owned())
            }
            None => Ok(String::new()),
        };
        let names = values.iter().map(text).collect::<PyResult<_>>()?;
        return Ok((entries, Saved::Names(names)));
    }
    let number = |value: &Option<Py<PyAny>>| match value {
        Some(value) => {
            let value = value.bind(py);
            whole(value)?.ok_or_else(|| refuse(value))
        }
        None => Ok(0),
    };
    let numbers = values.iter().map(number).collect::<PyResult<_>>()?;
    Ok((entries, Saved::Numbers(numbers)))
}

/// Saves a table with integers or texts for values.
pub fn save(fib: &Fib, py: Python<'_>, path: &Path) -> PyResult<()> {
    let (entries, values) = values_of(fib, py)?;
    py.detach(|| {
        let mut file = FibFileBuilder::new();
        let hops = match &values {
            Saved::Numbers(numbers) => {
                let hops = numbers
                    .iter()
                    .map(|number| SavedHop::Number((*number).into()));
                hops.collect::<Vec<_>>()
            }
            Saved::Names(names) => names.iter().map(|name| SavedHop::Name(name)).collect(),
        };
        for (net, number) in entries {
            let put = file
                .hop(&hops[number as usize])
                .and_then(|hop| file.insert(net, hop));
            put.map_err(refused)?;
        }
        file.save(path).map_err(|error| not_saved(&error))
    })
}

/// A table of the prefixes of a file.
pub fn load(py: Python<'_>, path: &Path) -> PyResult<Fib> {
    let file = FibFile::opened(py, path, true)?;
    let (entries, values) = py
        .detach(|| file.all())
        .map_err(|what| wrong_file(path, what))?;
    table_of(py, entries, &values, |value| value.object(py))
}

/// A table of prefixes with the positions of their values; `make` makes the object of a value.
fn table_of<'py, T>(
    py: Python<'py>,
    entries: Vec<(IpNet, u32)>,
    values: &[T],
    make: impl Fn(&T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Fib> {
    let made = values.iter().map(make).collect::<PyResult<Vec<_>>>()?;
    let objects = SharedObjects::default();
    let numbered = objects.with(py, |objects| {
        let entries = entries.into_iter();
        entries
            .map(|(net, at)| Ok((net, objects.take(&made[at as usize])?)))
            .collect::<PyResult<Vec<_>>>()
    })?;
    Fib::with_numbers(py, 18, objects, numbered)
}

/// Routes as a source gave them: prefixes with positions of their values, and the values.
#[derive(Default)]
struct Collected<T> {
    entries: Vec<(IpNet, u32)>,
    values: Vec<T>,
    positions: std::collections::HashMap<T, u32>,
}

impl<T: Clone + std::hash::Hash + Eq> Collected<T> {
    fn push<Q>(&mut self, net: IpNet, value: &Q)
    where
        T: std::borrow::Borrow<Q>,
        Q: ToOwned<Owned = T> + std::hash::Hash + Eq + ?Sized,
    {
        let at = match self.positions.get(value) {
            Some(at) => *at,
            None => {
                let at = self.values.len() as u32;
                self.values.push(value.to_owned());
                self.positions.insert(value.to_owned(), at);
                at
            }
        };
        self.entries.push((net, at));
    }

    /// The table; `make` makes the object of a value.
    fn table<'py>(
        self,
        py: Python<'py>,
        make: impl Fn(&T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Fib> {
        table_of(py, self.entries, &self.values, make)
    }
}

fn route_error(path: &Path, error: RouteError) -> PyErr {
    match error {
        RouteError::Io(error) => not_read(path, &error),
        error => wrong_file(path, error),
    }
}

/// A table of lines.
pub fn from_text(py: Python<'_>, path: &Path, truncate: bool) -> PyResult<Fib> {
    let collected = py.detach(|| {
        let file = File::open(path).map_err(|error| not_read(path, &error))?;
        let reading = Reading {
            truncate,
            ..Reading::default()
        };
        let (format, mut routes) = reading
            .open(file)
            .map_err(|error| route_error(path, error))?;
        if format == Format::Mrt {
            return Err(wrong_file(
                path,
                "not a text; Fib.from_mrt() reads MRT dumps",
            ));
        }
        let mut all = Collected::<String>::default();
        while let Some(route) = routes
            .next_route()
            .map_err(|error| route_error(path, error))?
        {
            all.push(route.net, &*route.hop.to_string());
        }
        Ok(all)
    })?;
    collected.table(py, |text| Ok(PyString::new(py, text).into_any()))
}

/// A table of an MRT dump.
pub fn from_mrt(
    py: Python<'_>,
    path: &Path,
    value: &str,
    peer: Option<&Bound<'_, PyAny>>,
) -> PyResult<Fib> {
    let peer = match peer {
        Some(peer) => Peer::Address(address_of(peer)?),
        None => Peer::First,
    };
    let routes = |path| {
        let file = File::open(path).map_err(|error| not_read(path, &error))?;
        let input = decompressed(file, None).map_err(|error| not_read(path, &error))?;
        let (format, input) = format_of(input).map_err(|error| route_error(path, error))?;
        match format {
            Format::Mrt => Ok(MrtRoutes::new(input, peer)),
            _ => Err(wrong_file(
                path,
                "not an MRT dump; Fib.from_text() reads texts",
            )),
        }
    };
    match value {
        "next_hop" => {
            let all = py.detach(|| {
                collected::<String, _>(routes(path)?, path, |all, _, net, hop| all.push(net, hop))
            })?;
            all.table(py, |text| Ok(PyString::new(py, text).into_any()))
        }
        "origin" => {
            let all = py.detach(|| {
                collected::<Option<u32>, _>(routes(path)?, path, |all, origin, net, _| {
                    all.push(net, &origin);
                })
            })?;
            all.table(py, |origin| Ok(origin.into_pyobject(py)?))
        }
        other => Err(PyValueError::new_err(format!(
            "value is \"next_hop\" or \"origin\", not {other:?}"
        ))),
    }
}

/// All routes of an MRT dump. Bad records are errors.
fn collected<T, R: Read>(
    mut routes: MrtRoutes<R>,
    path: &Path,
    mut push: impl FnMut(&mut Collected<T>, Option<u32>, IpNet, &str),
) -> PyResult<Collected<T>>
where
    Collected<T>: Default,
{
    let mut all = Collected::default();
    let mut hop = String::new();
    loop {
        let route = routes
            .next_route()
            .map_err(|error| route_error(path, error))?;
        let Some(route) = route else { return Ok(all) };
        let net = route.net;
        hop.clear();
        hop.push_str(&route.hop.to_string());
        push(&mut all, routes.origin(), net, &hop);
    }
}

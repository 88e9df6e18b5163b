//! Many addresses at once: arrays in, arrays out, and lookups without the interpreter's lock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyImportError, PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use sapwood::lpm::{IpFib, IpFibView};
use sapwood::maple::MapleMap;
#[cfg(target_os = "linux")]
use sapwood_live::CheckedLiveReader;

use crate::address::{address_of, kind};
use crate::columns::{Column, copied, element};
use crate::range_keys::index;

/// Addresses that one thread looks up before it takes the next ones.
const PART: usize = 1 << 13;
/// Lookups whose waits for memory overlap.
const LANE: usize = 64;

/// Addresses that were read from an array or from an iterable.
pub enum Addresses {
    V4(Vec<u32>),
    V6(Vec<[u8; 16]>),
    Mixed(Vec<Option<IpAddr>>),
}

/// Some of the addresses, one after the other.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    V4(&'a [u32]),
    V6(&'a [[u8; 16]]),
    Mixed(&'a [Option<IpAddr>]),
}

/// Refuses one text where many things are wanted, although it can be iterated over.
fn refuse_one(object: &Bound<'_, PyAny>, many: &str) -> PyResult<()> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(format!(
            "many {many} are an array or an iterable, not {}; [] looks up one",
            kind(object)
        )));
    }
    Ok(())
}

impl Addresses {
    /// The addresses of an array, of what has one, or of an iterable. With `mapped`, IPv4-mapped
    /// IPv6 addresses are the IPv4 addresses that they stand for.
    pub fn of(object: &Bound<'_, PyAny>, mapped: bool) -> PyResult<Self> {
        refuse_one(object, "addresses")?;
        let addresses = match Column::of(object, "addresses")? {
            Column::Array(array, buffer) => Self::of_buffer(&array, buffer)?,
            Column::Objects(objects) => Addresses::Mixed(objects.read(address_of, at)?),
        };
        Ok(match mapped {
            true => addresses.unmapped(),
            false => addresses,
        })
    }

    /// IPv4 addresses for those that are mapped into IPv6.
    fn unmapped(self) -> Self {
        match self {
            Addresses::V4(_) => self,
            Addresses::V6(all) => {
                let address = |octets| Some(Ipv6Addr::from(octets).to_canonical());
                Addresses::Mixed(all.into_iter().map(address).collect())
            }
            Addresses::Mixed(mut all) => {
                for address in all.iter_mut().flatten() {
                    *address = address.to_canonical();
                }
                Addresses::Mixed(all)
            }
        }
    }

    fn of_buffer(object: &Bound<'_, PyAny>, buffer: PyUntypedBuffer) -> PyResult<Self> {
        use ElementType::{SignedInteger, UnsignedInteger};
        let format = buffer.format().to_string_lossy().into_owned();
        let shape = buffer.shape().to_vec();
        match (element(&buffer), &shape[..]) {
            (Some(UnsignedInteger { bytes: 4 }), [_]) => {
                Ok(Addresses::V4(copied(object, buffer, u32::from_ne_bytes)?))
            }
            (Some(UnsignedInteger { bytes: 8 }), [_]) => narrow(
                copied(object, buffer, u64::from_ne_bytes)?
                    .into_iter()
                    .map(i128::from),
            ),
            (Some(SignedInteger { bytes: 8 }), [_]) => narrow(
                copied(object, buffer, i64::from_ne_bytes)?
                    .into_iter()
                    .map(i128::from),
            ),
            (Some(UnsignedInteger { bytes: 1 }), [_, 4]) => {
                let octets = copied(object, buffer, u8::from_ne_bytes)?;
                let octets = octets.as_chunks().0.iter();
                Ok(Addresses::V4(
                    octets.map(|o| u32::from_be_bytes(*o)).collect(),
                ))
            }
            (Some(UnsignedInteger { bytes: 1 }), [_, 16]) => {
                let octets = copied(object, buffer, u8::from_ne_bytes)?;
                Ok(Addresses::V6(octets.as_chunks().0.to_vec()))
            }
            _ => Err(PyTypeError::new_err(format!(
                "an array of addresses has the dtype uint32 (or uint64 or int64) and one dimension, \
                 or uint8 and the shape (n, 4) or (n, 16); this one has the format {format:?} and \
                 the shape {shape:?}"
            ))),
        }
    }

    /// Number of addresses.
    pub fn len(&self) -> usize {
        match self {
            Addresses::V4(all) => all.len(),
            Addresses::V6(all) => all.len(),
            Addresses::Mixed(all) => all.len(),
        }
    }

    /// All addresses in parts.
    fn parts(&self) -> Box<dyn Iterator<Item = Part<'_>> + Send + '_> {
        match self {
            Addresses::V4(all) => Box::new(all.chunks(PART).map(Part::V4)),
            Addresses::V6(all) => Box::new(all.chunks(PART).map(Part::V6)),
            Addresses::Mixed(all) => Box::new(all.chunks(PART).map(Part::Mixed)),
        }
    }
}

/// Adds the position to an error; what it was is kept.
fn at(index: usize, item: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = item.py();
    let text = format!("address {index}: {}", error.value(py));
    match error {
        error if error.is_instance_of::<PyTypeError>(py) => PyTypeError::new_err(text),
        error if error.is_instance_of::<PyValueError>(py) => PyValueError::new_err(text),
        error => error,
    }
}

/// IPv4 addresses of wider numbers.
fn narrow(numbers: impl Iterator<Item = i128>) -> PyResult<Addresses> {
    let numbers = numbers.enumerate().map(|(index, number)| {
        u32::try_from(number).map_err(|_| {
            PyValueError::new_err(format!(
                "address {index}: {number} is not an IPv4 address, a number from 0 to 2**32 - 1"
            ))
        })
    });
    numbers.collect::<PyResult<_>>().map(Addresses::V4)
}

/// What an address without a prefix finds.
static NONE: u32 = u32::MAX;

/// Looks up addresses: `out` gets the number of each, or -1.
pub fn numbers(table: &IpFib<u32>, addresses: Part<'_>, out: &mut [[u8; 4]]) {
    table.read(|view| lookup(view, addresses, out, |number| number.to_ne_bytes()));
}

/// Looks up addresses: `out` gets the number of each as 64 bits, or -1.
pub fn wide_numbers(view: IpFibView<'_, u32>, addresses: Part<'_>, out: &mut [[u8; 8]]) {
    let wide = |number: &u32| match std::ptr::eq(number, &NONE) {
        true => -1,
        false => i64::from(*number),
    };
    lookup(view, addresses, out, |number| wide(number).to_ne_bytes());
}

/// The same by a reader that checks what it reads. Some are looked up at once, and again when
/// changes disturb it.
#[cfg(target_os = "linux")]
pub fn checked_numbers(
    reader: &mut CheckedLiveReader<IpFib<u32>>,
    addresses: Part<'_>,
    out: &mut [[u8; 8]],
) -> Result<(), sapwood_live::Error> {
    let address = |at: usize| match addresses {
        Part::V4(addresses) => Some(IpAddr::from(Ipv4Addr::from_bits(addresses[at]))),
        Part::V6(addresses) => Some(IpAddr::from(addresses[at])),
        Part::Mixed(addresses) => addresses[at],
    };
    for (lane, out) in out.chunks_mut(LANE).enumerate() {
        reader.read(|table| {
            for (at, out) in (lane * LANE..).zip(&mut *out) {
                let found = match address(at) {
                    Some(address) => table.lookup(address)?,
                    None => None,
                };
                let number = found.map_or(-1, |(_, number)| i64::from(number));
                *out = number.to_ne_bytes();
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Looks up addresses: `out` gets what `bytes` makes of the number of each, or of `NONE`.
fn lookup<const N: usize>(
    view: IpFibView<'_, u32>,
    addresses: Part<'_>,
    out: &mut [[u8; N]],
    bytes: impl Fn(&u32) -> [u8; N],
) {
    match addresses {
        Part::V4(addresses) => {
            let view = view.v4();
            let mut lane = [Ipv4Addr::UNSPECIFIED; LANE];
            let mut found = [&NONE; LANE];
            for (addresses, out) in addresses.chunks(LANE).zip(out.chunks_mut(LANE)) {
                let many = addresses.len();
                for (to, from) in lane.iter_mut().zip(addresses) {
                    *to = Ipv4Addr::from_bits(*from);
                }
                view.lookup_batch_or(&lane[..many], &NONE, &mut found[..many]);
                for (to, from) in out.iter_mut().zip(found) {
                    *to = bytes(from);
                }
            }
        }
        Part::V6(addresses) => {
            let view = view.v6();
            for (address, out) in addresses.iter().zip(out) {
                let found = view.lookup_value(Ipv6Addr::from(*address));
                *out = bytes(found.unwrap_or(&NONE));
            }
        }
        Part::Mixed(addresses) => {
            for (address, out) in addresses.iter().zip(out) {
                let found = address.and_then(|address| view.lookup_value(address));
                *out = bytes(found.unwrap_or(&NONE));
            }
        }
    }
}

/// Calls `f` for all parts of the addresses, each with its part of `out`, on up to `threads`
/// threads, this one among them. `out` has the same number of elements for each address.
pub fn shared<T: Send>(
    addresses: &Addresses,
    out: &mut [T],
    threads: usize,
    f: impl Fn(Part<'_>, &mut [T]) + Sync,
) {
    let Some(each) = out.len().checked_div(addresses.len()) else {
        return;
    };
    let parts = addresses.len().div_ceil(PART);
    let work = Mutex::new(addresses.parts().zip(out.chunks_mut(each * PART)));
    let run = || {
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((part, out)) = next else { return };
            f(part, out);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(parts) {
            // A thread that cannot be had is missed by nobody: the others do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
}

/// The numbers of an array: the code of `memoryview.cast`, numpy's name, and the bytes of one.
#[derive(Clone, Copy)]
pub struct Format {
    code: &'static str,
    dtype: &'static str,
    bytes: usize,
}

pub const I32: Format = Format {
    code: "i",
    dtype: "int32",
    bytes: 4,
};
pub const I64: Format = Format {
    code: "q",
    dtype: "int64",
    bytes: 8,
};

/// An array of the answers for addresses, which `find` finds without the interpreter's lock.
pub fn array<'py>(
    py: Python<'py>,
    addresses: &Addresses,
    format: Format,
    threads: usize,
    find: impl Fn(Part<'_>, &mut [u8]) + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    filled(py, addresses.len(), format, |out| {
        shared(addresses, out, threads, &find);
    })
}

/// An array that `fill` fills, without the interpreter's lock.
pub fn filled<'py>(
    py: Python<'py>,
    len: usize,
    format: Format,
    fill: impl FnOnce(&mut [u8]) + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, len * format.bytes, |out| {
        py.detach(|| fill(out));
        Ok(())
    })?;
    match py.import("numpy") {
        Ok(numpy) => numpy.call_method1("frombuffer", (bytes, format.dtype)),
        Err(error) if error.is_instance_of::<PyImportError>(py) => {
            PyMemoryView::from(&bytes.into_any())?.call_method1("cast", (format.code,))
        }
        Err(error) => Err(error),
    }
}

/// Many indices of a map of ranges; none for what stands for no index.
pub enum Indices {
    All(Vec<u64>),
    Some(Vec<Option<u64>>),
}

impl Indices {
    /// The indices of an array of uint64, uint32 or int64, or of an iterable.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        refuse_one(object, "indices")?;
        let (array, buffer) = match Column::of(object, "indices")? {
            Column::Objects(objects) => {
                let indices = objects.read(index, |_, _, error| error)?;
                return Ok(Indices::Some(indices));
            }
            Column::Array(array, buffer) => (array, buffer),
        };
        if buffer.shape().len() == 1
            && let Some(indices) = unsigned(&array, buffer)?
        {
            return Ok(Indices::All(indices));
        }
        let all: PyResult<Vec<u64>> = array.try_iter()?.map(|item| index(&item?)).collect();
        all.map(Indices::All)
    }

    /// Number of indices.
    pub fn len(&self) -> usize {
        match self {
            Indices::All(all) => all.len(),
            Indices::Some(all) => all.len(),
        }
    }

    /// Looks the indices up: `out` gets the number of each, or -1.
    pub fn numbers(&self, map: &MapleMap<u32>, out: &mut [[u8; 4]]) {
        match self {
            Indices::All(all) => range_numbers(map, all, out, |index| Some(*index)),
            Indices::Some(all) => range_numbers(map, all, out, |index| *index),
        }
    }
}

fn range_numbers<T>(
    map: &MapleMap<u32>,
    indices: &[T],
    out: &mut [[u8; 4]],
    index: impl Fn(&T) -> Option<u64>,
) {
    for (indices, out) in indices.chunks(PART).zip(out.chunks_mut(PART)) {
        map.read(|view| {
            for (at, out) in indices.iter().zip(out) {
                let found = index(at).and_then(|index| view.get(index));
                *out = found.unwrap_or(&NONE).to_ne_bytes();
            }
        });
    }
}

/// The numbers of an array of uint64, uint32 or int64.
fn unsigned(array: &Bound<'_, PyAny>, buffer: PyUntypedBuffer) -> PyResult<Option<Vec<u64>>> {
    use ElementType::{SignedInteger, UnsignedInteger};
    let numbers = match element(&buffer) {
        Some(UnsignedInteger { bytes: 8 }) => copied(array, buffer, u64::from_ne_bytes)?,
        Some(UnsignedInteger { bytes: 4 }) => {
            let numbers = copied(array, buffer, u32::from_ne_bytes)?;
            numbers.into_iter().map(u64::from).collect()
        }
        Some(SignedInteger { bytes: 8 }) => {
            let numbers = copied(array, buffer, i64::from_ne_bytes)?.into_iter();
            let number = |number| {
                u64::try_from(number).map_err(|_| {
                    let text = format!("index {number} is not from 0 to 2**64 - 1");
                    PyIndexError::new_err(text)
                })
            };
            numbers.map(number).collect::<PyResult<_>>()?
        }
        _ => return Ok(None),
    };
    Ok(Some(numbers))
}

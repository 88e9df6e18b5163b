//! Indices, ranges and windows as Python programs have them.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyRange, PySlice};
use sapwood::maple::{Error, Window};

use crate::address::{self, key_of, kind, shown};
use crate::errors::refused;
use crate::numbers::{in_arrow, int_of};
use crate::snapshot_iter::Place;

/// Indices from the first to the last.
pub type Range = RangeInclusive<u64>;

fn no_index(object: &Bound<'_, PyAny>) -> PyErr {
    PyIndexError::new_err(format!(
        "index {} is not from 0 to 2**64 - 1",
        shown(object)
    ))
}

/// What an object stands for that is no slice and no `range`.
enum Meant {
    /// An index, or the end of a range, which may be 2**64: none.
    Number(Option<u64>),
    /// The addresses of a prefix.
    Prefix(Range),
}

/// The index of an IPv4 address, or the indices of an IPv4 prefix, as other maps read them.
#[cold]
fn of_address(object: &Bound<'_, PyAny>) -> PyResult<Meant> {
    let key = key_of(object).map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(object.py()) {
            return error;
        }
        let text = format!(
            "an index is an int or an IPv4 address, not {}",
            kind(object)
        );
        PyTypeError::new_err(text)
    });
    match key? {
        address::Key::Address(IpAddr::V4(address)) => {
            Ok(Meant::Number(Some(address.to_bits().into())))
        }
        address::Key::Prefix(IpNet::V4(net)) => {
            let [first, last] = [net.network(), net.broadcast()].map(|end| end.to_bits().into());
            Ok(Meant::Prefix(first..=last))
        }
        _ => Err(PyValueError::new_err(format!(
            "{} is of IPv6, and an index has 64 bits",
            shown(object)
        ))),
    }
}

fn meant(object: &Bound<'_, PyAny>) -> PyResult<Meant> {
    // What most numbers are.
    if object.is_exact_instance_of::<PyInt>()
        && let Ok(number) = object.extract::<u64>()
    {
        return Ok(Meant::Number(Some(number)));
    }
    let Some(int) = int_of(object)? else {
        // Scalars of Arrow.
        return match in_arrow(object)? {
            Some(inside) => meant(&inside),
            None => of_address(object),
        };
    };
    if let Ok(number) = int.extract::<u64>() {
        return Ok(Meant::Number(Some(number)));
    }
    match int.extract::<u128>() {
        Ok(number) if number == 1 << 64 => Ok(Meant::Number(None)),
        _ => Err(no_index(object)),
    }
}

/// An index, or the end of a range, which may be 2**64.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    match meant(object)? {
        Meant::Number(number) => Ok(number),
        Meant::Prefix(_) => {
            let text = format!("{} is a prefix, and an index is wanted", shown(object));
            Err(PyValueError::new_err(text))
        }
    }
}

/// The index that an object stands for.
pub fn index(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    number(object)?.ok_or_else(|| no_index(object))
}

/// A key of a map of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The entry that holds an index.
    Index(u64),
    /// The entry that has exactly this range.
    Range(Range),
}

impl Key {
    /// The key that an object stands for: an index, a `range`, or a prefix.
    #[inline]
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // What most keys are.
        if object.is_exact_instance_of::<PyInt>()
            && let Ok(index) = object.extract::<u64>()
        {
            return Ok(Key::Index(index));
        }
        if object.is_instance_of::<PySlice>() {
            let text = "a slice is no key: [] has the parts of entries in it, and a range is the \
                        key of an entry";
            return Err(PyTypeError::new_err(text));
        }
        Key::or_slice(object)
    }

    /// The same, and slices, which are ranges.
    pub fn or_slice(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(range) = range_if(object)? {
            return Ok(Key::Range(range));
        }
        match meant(object)? {
            Meant::Number(Some(index)) => Ok(Key::Index(index)),
            Meant::Number(None) => Err(no_index(object)),
            Meant::Prefix(range) => Ok(Key::Range(range)),
        }
    }

    /// An index of the entry.
    pub fn first(&self) -> u64 {
        match self {
            Key::Index(index) => *index,
            Key::Range(range) => *range.start(),
        }
    }

    /// Whether an entry with this range, which holds the first index, is meant.
    pub fn fits(&self, entry: &Range) -> bool {
        match self {
            Key::Index(_) => true,
            Key::Range(range) => range == entry,
        }
    }

    /// The indices that go when the key is removed.
    pub fn range(self) -> Range {
        match self {
            Key::Index(index) => index..=index,
            Key::Range(range) => range,
        }
    }
}

/// The range from `start` to before `stop`.
pub fn between(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
) -> PyResult<Range> {
    let from = start.map_or(Ok(Some(0)), number)?;
    let to = stop.map_or(Ok(None), number)?;
    let last = match to {
        None => Some(u64::MAX),
        Some(stop) => stop.checked_sub(1),
    };
    match (from, last) {
        (Some(from), Some(last)) if from <= last => Ok(from..=last),
        _ => {
            let part = |part: Option<&Bound<'_, PyAny>>| part.map(shown).unwrap_or_default();
            let text = format!("the range {}:{} is empty", part(start), part(stop));
            Err(PyValueError::new_err(text))
        }
    }
}

/// A range as an object.
pub fn place<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyAny>> {
    Place::Range(*range.start(), *range.end()).object(py)
}

/// The range from `start` to before `stop`, for views.
#[pyfunction(name = "_window")]
#[pyo3(signature = (start, stop, /))]
pub fn window_of<'py>(
    py: Python<'py>,
    start: Option<&Bound<'py, PyAny>>,
    stop: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    place(py, &between(start, stop)?)
}

/// A slice or a `range`, if the object is one.
fn range_if(object: &Bound<'_, PyAny>) -> PyResult<Option<Range>> {
    if !object.is_instance_of::<PySlice>() && !object.is_instance_of::<PyRange>() {
        return Ok(None);
    }
    let part = |name| Ok::<_, PyErr>(Some(object.getattr(name)?).filter(|part| !part.is_none()));
    if let Some(step) = part("step")?
        && !step.eq(1)?
    {
        let text = format!("a range has the step 1, not {}", shown(&step));
        return Err(PyValueError::new_err(text));
    }
    between(part("start")?.as_ref(), part("stop")?.as_ref()).map(Some)
}

/// A slice, a `range` or a prefix, or an index as the range of itself.
pub fn range_or_index(object: &Bound<'_, PyAny>) -> PyResult<Range> {
    Key::or_slice(object).map(Key::range)
}

/// The arguments of a search for a gap.
pub struct Search<'a, 'py> {
    pub start: Option<&'a Bound<'py, PyAny>>,
    pub stop: Option<&'a Bound<'py, PyAny>>,
    pub align: u64,
    pub rest: Option<u64>,
    pub guard: u64,
    pub tightest: bool,
    pub highest: bool,
    pub near: Option<&'a Bound<'py, PyAny>>,
    pub starting_at: Option<&'a Bound<'py, PyAny>>,
}

impl Search<'_, '_> {
    /// The window of a search for `size` indices.
    pub fn window(&self, size: u64) -> PyResult<Window> {
        let align = self.align;
        let window = Window::new(between(self.start, self.stop)?).guarded(self.guard);
        let mut window = match self.rest {
            None => window.aligned(align),
            Some(rest) => window.congruent_to(rest, align),
        };
        if self.near.is_some() && (self.highest || self.starting_at.is_some()) {
            let text = "near is for itself: without highest, and without starting_at";
            return Err(PyValueError::new_err(text));
        }
        // A search that finds nothing does not say why.
        if size == 0 {
            return Err(refused(Error::<u64>::ZeroSize));
        }
        if align == 0 || (self.rest.is_none() && !align.is_power_of_two()) {
            return Err(refused(Error::<u64>::Alignment { align }));
        }
        if self.tightest {
            window = window.tightest();
        }
        if self.highest {
            window = window.from_end();
        }
        if let Some(near) = self.near {
            window = window.nearest_to(index(near)?);
        }
        if let Some(starting_at) = self.starting_at {
            window = window.starting_at(index(starting_at)?);
        }
        Ok(window)
    }
}

//! Many keys at once, as programs have them: arrays, columns of other libraries, iterables.

use pyo3::buffer::{Element, ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyIterator, PyMemoryView};

use crate::address::{kind, shown};
use crate::numbers::is_null;

/// Where many keys lie.
pub enum Column<'py> {
    /// An array, and its memory.
    Array(Bound<'py, PyAny>, PyUntypedBuffer),
    /// Objects, one by one.
    Objects(Objects<'py>),
}

/// Objects, one by one; each is a key, or stands for a value that is missing.
pub struct Objects<'py> {
    items: Bound<'py, PyIterator>,
    /// How many there are, as their owner says.
    promised: usize,
    /// Whether floats without a fraction are integers: libraries that know no missing integer turn
    /// the others into floats.
    floats: bool,
}

/// The least float that integers of 64 bits may have been rounded to.
const ROUNDED: f64 = (1u64 << 53) as f64;

impl<'py> Column<'py> {
    /// How `object` has its keys; `what` they are, for messages.
    pub fn of(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        if let Ok(buffer) = PyUntypedBuffer::get(object) {
            return Self::of_buffer(object, buffer, what);
        }
        let Some(array) = object.getattr_opt("__array__")? else {
            return Self::of_iterable(object, false, what);
        };
        let array = array.call0()?;
        let Ok(buffer) = PyUntypedBuffer::get(&array) else {
            return Self::of_iterable(&array, false, what);
        };
        // Integers with nulls come as floats. The column itself may still know them.
        let floats = matches!(element(&buffer), Some(ElementType::Float { .. }));
        if floats && buffer.shape().len() == 1 {
            for list in ["to_pylist", "to_list", "tolist"] {
                if let Some(list) = object.getattr_opt(list)? {
                    return Self::of_iterable(&list.call0()?, true, what);
                }
            }
        }
        Self::of_buffer(&array, buffer, what)
    }

    fn of_buffer(array: &Bound<'py, PyAny>, buffer: PyUntypedBuffer, what: &str) -> PyResult<Self> {
        let format = buffer.format().to_bytes();
        // The memory of a masked array has numbers below the mask, too.
        let masked = array.getattr_opt("mask")?.is_some();
        // Objects and texts of numpy.
        let objects = format == b"O" || format.ends_with(b"w");
        if buffer.shape().len() != 1 || !(masked || objects) {
            return match masked {
                true => Err(PyTypeError::new_err(format!(
                    "a masked array of {what} has one dimension"
                ))),
                false => Ok(Column::Array(array.clone(), buffer)),
            };
        }
        match masked {
            true => Self::of_iterable(&array.call_method0("tolist")?, false, what),
            false => Self::of_iterable(array, false, what),
        }
    }

    fn of_iterable(items: &Bound<'py, PyAny>, floats: bool, what: &str) -> PyResult<Self> {
        match items.try_iter() {
            Ok(iterator) => Ok(Column::Objects(Objects {
                items: iterator,
                promised: items.len().unwrap_or(0),
                floats,
            })),
            Err(_) => Err(PyTypeError::new_err(format!(
                "many {what} are an array or an iterable, not {}",
                kind(items)
            ))),
        }
    }
}

impl<'py> Objects<'py> {
    /// What `read` makes of each object; none of those that stand for nothing.
    pub fn read<T>(
        self,
        read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
        at: impl Fn(usize, &Bound<'py, PyAny>, PyErr) -> PyErr,
    ) -> PyResult<Vec<Option<T>>> {
        // A length is a promise of other people's code: it saves copying, and nothing else.
        let mut all = Vec::with_capacity(self.promised.min(1 << 16));
        for (index, item) in self.items.enumerate() {
            let item = item?;
            if item.is_none() {
                all.push(None);
                continue;
            }
            let one = match read(&item) {
                Err(_) if is_null(&item)? => Ok(None),
                Err(_) if self.floats && item.is_instance_of::<PyFloat>() => {
                    unrounded(&item).and_then(|item| read(&item)).map(Some)
                }
                one => one.map(Some),
            };
            all.push(one.map_err(|error| at(index, &item, error))?);
        }
        Ok(all)
    }
}

/// The integer that was turned into a float.
fn unrounded<'py>(float: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let number: f64 = float.extract()?;
    if number.fract() != 0.0 || number.abs() >= ROUNDED {
        let text = format!("{} may have been an integer, and was rounded", shown(float));
        return Err(PyValueError::new_err(text));
    }
    Ok((number as i64).into_pyobject(float.py())?.into_any())
}

/// The type of an array's numbers; none if their bytes are in the order of another machine.
pub fn element(buffer: &PyUntypedBuffer) -> Option<ElementType> {
    let foreign: &[u8] = match cfg!(target_endian = "little") {
        true => b">!",
        false => b"<",
    };
    match buffer.format().to_bytes().first() {
        Some(first) if foreign.contains(first) => None,
        _ => Some(ElementType::from_format(buffer.format())),
    }
}

/// The numbers of an array, also of one with strides.
pub fn copied<T: Element, const BYTES: usize>(
    object: &Bound<'_, PyAny>,
    buffer: PyUntypedBuffer,
    number: fn([u8; BYTES]) -> T,
) -> PyResult<Vec<T>> {
    match buffer.as_typed::<T>() {
        Ok(buffer) => buffer.to_vec(object.py()),
        // The array does not begin where such a number may lie.
        Err(_) => {
            let bytes = PyMemoryView::from(object)?.call_method0("tobytes")?;
            let numbers = bytes.cast::<PyBytes>()?.as_bytes().as_chunks().0.iter();
            Ok(numbers.map(|bytes| number(*bytes)).collect())
        }
    }
}

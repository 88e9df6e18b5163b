//! The library's errors as Python's exceptions.

use std::fmt::Display;
use std::io;
use std::path::Path;

use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::{PyErr, create_exception};
use sapwood::Error;
use sapwood::arena;
use sapwood::qp::{OpenCause, OpenError, SaveCause, SaveError};

create_exception!(
    sapwood,
    NoGapError,
    PyValueError,
    "No gap of a RangeMap has room for what was asked for."
);
create_exception!(
    sapwood,
    OccupiedError,
    PyValueError,
    "An entry of a RangeMap is in the way of an insertion."
);

/// `MemoryError` when there is no room, otherwise `ValueError`.
pub fn refused(error: impl Into<Error>) -> PyErr {
    use sapwood::{lpm, maple, qp};
    let error = error.into();
    let text = error.to_string();
    match &error {
        // An `OSError` with the system's number, as that of any other file that cannot grow.
        _ if error.arena_full().is_some_and(|full| full.is_no_space()) => no_space(text),
        _ if error.arena_full().is_some() || error.garbage_limit().is_some() => {
            PyMemoryError::new_err(text)
        }
        Error::Qp(qp::Error::Full { .. }) | Error::Lpm(lpm::Error::Full { .. }) => {
            PyMemoryError::new_err(text)
        }
        Error::Maple(maple::Error::NoGap { .. }) => NoGapError::new_err(text),
        Error::Maple(maple::Error::Occupied { .. }) => OccupiedError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The `OSError` of a full file system, with a text of ours.
pub fn no_space(text: String) -> PyErr {
    /// `ENOSPC`, which has the same number on all systems of the module.
    const ENOSPC: i32 = 28;
    PyOSError::new_err((ENOSPC, text))
}

/// The exception of an error of the system, with a text of ours: `FileNotFoundError` and so on.
pub fn system(error: &io::Error, text: String) -> PyErr {
    // Python chooses the class by the system's number.
    if let Some(number) = error.raw_os_error() {
        return PyOSError::new_err((number, text));
    }
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => PyValueError::new_err(text),
        kind => match io::Error::new(kind, text) {
            error if kind == io::ErrorKind::Other => PyOSError::new_err(error.to_string()),
            error => error.into(),
        },
    }
}

/// The exception for a file that cannot be opened: `OSError` when the system refused, `ValueError`
/// when the file is not what was asked for.
pub fn not_opened(error: &OpenError) -> PyErr {
    match &error.cause {
        OpenCause::Image(arena::OpenError::Io(cause)) => system(cause, error.to_string()),
        OpenCause::Table(_) => PyMemoryError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// The exception for a file that cannot be written.
pub fn not_saved(error: &SaveError) -> PyErr {
    match &error.cause {
        SaveCause::Io(cause) => system(cause, error.to_string()),
        _ => PyMemoryError::new_err(error.to_string()),
    }
}

/// The exception for a file that cannot be read.
pub fn not_read(path: &Path, error: &io::Error) -> PyErr {
    system(error, format!("cannot read {}: {error}", path.display()))
}

/// The exception for a fault in a file.
pub fn wrong_file(path: &Path, what: impl Display) -> PyErr {
    PyValueError::new_err(format!("{}: {what}", path.display()))
}

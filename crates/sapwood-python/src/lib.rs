//! The Python module `sapwood`: tables of routes, maps of names, and maps of ranges.
//!
//! The classes are thin: keys are read ([`address`]), a map of the library is asked, and objects are
//! numbers in it ([`objects`]).

mod address;
mod batch;
mod errors;
mod fib;
mod fib_file;
mod fib_iter;
mod fib_saved;
mod objects;
mod pairs;

use pyo3::prelude::*;

/// Ordered maps for routes, names and ranges.
///
/// Fib looks up IPv4 and IPv6 addresses by longest prefix. FibFile is a saved Fib.
#[pymodule(gil_used = true)]
mod sapwood {
    #[pymodule_export]
    use super::errors::{NoGapError, OccupiedError};
    #[pymodule_export]
    use super::fib::Fib;
    #[pymodule_export]
    use super::fib_file::FibFile;
    #[pymodule_export]
    use super::fib_iter::FibIter;
}

//! The Python module `sapwood`: tables of routes, maps of names, and maps of ranges.
//!
//! The classes are thin: keys are read ([`address`]), a map of the library is asked, and objects
//! are numbers in it ([`objects`]). What all mappings have in common is Python's
//! (`python/sapwood/_mapping.py`): views, equality, `|`.

mod address;
mod batch;
mod closest;
mod columns;
mod drops;
mod errors;
mod fib;
mod fib_file;
mod fib_saved;
mod fib_table;
mod ip_set;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod live_fib;
#[cfg(target_os = "linux")]
mod live_names;
#[cfg(target_os = "linux")]
mod live_ranges;
#[cfg(target_os = "linux")]
mod live_texts;
mod name_file;
mod name_iter;
mod name_keys;
mod name_reader;
mod names;
mod numbers;
mod objects;
mod pairs;
mod range_keys;
mod range_reader;
mod range_snapshot;
mod range_table;
mod range_txn;
mod ranges;
mod snapshot_iter;

use pyo3::prelude::*;

/// The classes of the package `sapwood`, without what python/sapwood/_mapping.py adds to them.
#[pymodule(name = "_native", gil_used = true)]
mod native {
    #[pymodule_export]
    use super::address::unmapped;
    #[pymodule_export]
    use super::closest::Closest;
    #[pymodule_export]
    use super::errors::{NoGapError, OccupiedError};
    #[pymodule_export]
    use super::fib::Fib;
    #[pymodule_export]
    use super::fib_file::FibFile;
    #[pymodule_export]
    use super::ip_set::{IpSet, supernet};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::live_fib::{LiveFib, LiveFibWriter};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::live_names::{LiveNames, LiveNamesWriter};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::live_ranges::{LiveRanges, LiveRangesWriter};
    #[pymodule_export]
    use super::name_file::NameFile;
    #[pymodule_export]
    use super::name_iter::NameIter;
    #[pymodule_export]
    use super::name_reader::NameReader;
    #[pymodule_export]
    use super::names::NameMap;
    #[pymodule_export]
    use super::range_keys::window_of;
    #[pymodule_export]
    use super::range_reader::RangeReader;
    #[pymodule_export]
    use super::range_snapshot::RangeSnapshot;
    #[pymodule_export]
    use super::range_txn::RangeTransaction;
    #[pymodule_export]
    use super::ranges::RangeMap;
    #[pymodule_export]
    use super::snapshot_iter::SnapshotIter;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

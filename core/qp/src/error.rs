//! The errors of operations.

#[cfg(feature = "std")]
use alloc::string::ToString;

use sapwood_arena::ArenaFull;
#[cfg(feature = "std")]
use sapwood_common::TableError;
use sapwood_qsbr::GarbageLimit;

/// The reason why an operation on a map of byte strings did not happen. The structure is as it was
/// before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is longer than 65,535 bytes.
    #[error("key of {len} bytes is too long (the limit is 65,535)")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The value, a byte string, is longer than 268,435,456 bytes.
    #[error("value of {len} bytes is too long (the limit is 268,435,456)")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The arena has reached its limit, or the system gives no more memory.
    #[error(transparent)]
    ArenaFull(#[from] ArenaFull),
    /// Memory that waits for readers has reached the hard limit of the domain.
    #[error(transparent)]
    GarbageLimit(#[from] GarbageLimit),
    /// The map has the most entries that it may have.
    #[error("the map is full: it has the {max_entries} entries that it may have")]
    Full {
        /// The most entries.
        max_entries: usize,
    },
    /// The key is in the map already, and the operation inserts only new ones.
    #[error("the key is there already")]
    Exists,
    /// The key is not in the map, and the operation replaces only values that are.
    #[error("the key is not there")]
    Absent,
    /// The value is not the one that the operation was to replace.
    #[error("the value is not the expected one")]
    Differs,
    /// Entries that should be sorted are not.
    #[error("entry {index} sorts before the one ahead of it")]
    NotSorted {
        /// Position of the entry, from 0.
        index: usize,
    },
}

/// An insertion that did not happen, with the value that was to be inserted.
pub type Rejected<V> = sapwood_common::Rejected<V, Error>;

impl<V> From<Rejected<V>> for Error {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error
    }
}

#[cfg(feature = "std")]
impl From<Error> for TableError {
    fn from(error: Error) -> Self {
        match error {
            Error::ArenaFull(full) => full.into(),
            Error::GarbageLimit(limit) => limit.into(),
            other => TableError::Refused(other.to_string()),
        }
    }
}

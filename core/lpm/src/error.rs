//! The errors of operations.

#[cfg(feature = "std")]
use alloc::string::ToString;

use sapwood_arena::ArenaFull;
#[cfg(feature = "std")]
use sapwood_common::TableError;
use sapwood_qsbr::GarbageLimit;

/// The reason why an operation on a table of prefixes did not happen. The structure is as it was
/// before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arena has reached its limit, or the system gives no more memory.
    #[error(transparent)]
    ArenaFull(#[from] ArenaFull),
    /// Memory that waits for readers has reached the hard limit of the domain.
    #[error(transparent)]
    GarbageLimit(#[from] GarbageLimit),
    /// The prefix has bits set after its length, as in `10.0.0.1/8`.
    #[error("{prefix} has bits set after its length")]
    HostBitsSet {
        /// The prefix as it was given.
        prefix: ipnet::IpNet,
    },
    /// The prefix has more bits than are allowed, or than its bytes have.
    #[error("prefix of {bits} bits is too long (the limit is {limit})")]
    PrefixTooLong {
        /// Its length in bits.
        bits: usize,
        /// The most bits.
        limit: usize,
    },
    /// The name of a file's table is longer than 65,530 bytes.
    #[error("name of {len} bytes is too long (the limit is 65,530)")]
    NameTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The table has the most names or entries that it may have.
    #[error("the table is full: it has the {max_entries} entries that it may have")]
    Full {
        /// The most entries.
        max_entries: usize,
    },
    /// The trie of a table of bit strings refused the change for another reason.
    #[error(transparent)]
    Trie(sapwood_qp::Error),
    /// The prefix, a bit string, has bits set after its length.
    #[error("bits are set after the {bits} bits of the prefix")]
    BitsBehindPrefix {
        /// Its length in bits.
        bits: usize,
    },
}

/// An insertion that did not happen, with the value that was to be inserted.
pub type Rejected<V> = sapwood_common::Rejected<V, Error>;

impl<V> From<Rejected<V>> for Error {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error
    }
}

impl From<sapwood_qp::Error> for Error {
    fn from(error: sapwood_qp::Error) -> Self {
        use sapwood_qp::Error as Trie;
        match error {
            Trie::ArenaFull(full) => full.into(),
            Trie::GarbageLimit(limit) => limit.into(),
            Trie::Full { max_entries } => Error::Full { max_entries },
            other => Error::Trie(other),
        }
    }
}

impl<V> From<sapwood_common::Rejected<V, sapwood_qp::Error>> for Error {
    fn from(rejected: sapwood_common::Rejected<V, sapwood_qp::Error>) -> Self {
        rejected.error.into()
    }
}

/// The cause when a table that was to be saved is refused by its file.
#[cfg(feature = "std")]
impl From<Error> for sapwood_common::SaveCause {
    fn from(error: Error) -> Self {
        match error {
            Error::ArenaFull(full) => Self::ArenaFull(full),
            other => Self::Io(std::io::Error::other(other)),
        }
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

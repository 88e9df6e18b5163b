//! The errors of operations.

use core::fmt;

use sapwood_arena::ArenaFull;
use sapwood_qsbr::GarbageLimit;

/// The reason why an operation did not happen. The structure is as it was before the call.
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
    /// The prefix, a bit string, has bits set after its length.
    #[error("bits are set after the {bits} bits of the prefix")]
    BitsBehindPrefix {
        /// Its length in bits.
        bits: usize,
    },
    /// The range ends before it begins.
    #[error("the range {start}..={end} is empty")]
    EmptyRange {
        /// Its first index.
        start: u64,
        /// Its last index.
        end: u64,
    },
    /// The range has an index of an entry, and the operation fills only gaps.
    #[error("the entry {start}..={end} is in the way")]
    Occupied {
        /// The first index of the first entry in the range.
        start: u64,
        /// Its last index.
        end: u64,
    },
    /// No gap in the window has room.
    #[error("no gap has room for {size} indices")]
    NoGap {
        /// Number of indices that were asked for.
        size: u64,
    },
    /// The window has fewer indices than are asked for.
    #[error("{size} indices do not fit into the window {start}..={end}")]
    WindowTooSmall {
        /// Number of indices that were asked for.
        size: u64,
        /// The window's first index.
        start: u64,
        /// The window's last index.
        end: u64,
    },
    /// No indices were asked for.
    #[error("a size of 0 was asked for")]
    ZeroSize,
    /// The alignment is not a power of two.
    #[error("the alignment {align} is not a power of two")]
    Alignment {
        /// The alignment that was asked for.
        align: u64,
    },
    /// The reservation's changes have all been made.
    #[error("the reservation has been used up")]
    ReservationUsedUp,
    /// Entries that should be sorted are not.
    #[error("entry {index} sorts before the one ahead of it")]
    NotSorted {
        /// Position of the entry, from 0.
        index: usize,
    },
}

/// An insertion that did not happen, with the value that was to be inserted.
///
/// Converts into [`Error`], so that `?` works where the value is not wanted back.
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected<V> {
    /// The value that was not inserted.
    pub value: V,
    /// The reason.
    pub error: Error,
}

impl<V> fmt::Debug for Rejected<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rejected").field(&self.error).finish()
    }
}

impl<V> fmt::Display for Rejected<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V> core::error::Error for Rejected<V> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<V> From<Rejected<V>> for Error {
    fn from(rejected: Rejected<V>) -> Self {
        rejected.error
    }
}

//! The errors of operations.

#[cfg(feature = "std")]
use alloc::string::ToString;

use sapwood_arena::ArenaFull;
#[cfg(feature = "std")]
use sapwood_common::TableError;
use sapwood_qsbr::GarbageLimit;

use crate::Index;

/// The reason why an operation on a range map did not happen. The structure is as it was
/// before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error<K: Index = u64> {
    /// The arena has reached its limit, or the system gives no more memory.
    #[error(transparent)]
    ArenaFull(#[from] ArenaFull),
    /// Memory that waits for readers has reached the hard limit of the domain.
    #[error(transparent)]
    GarbageLimit(#[from] GarbageLimit),
    /// The range ends before it begins.
    #[error("the range {start}..={end} is empty")]
    EmptyRange {
        /// Its first index.
        start: K,
        /// Its last index.
        end: K,
    },
    /// The range has an index of an entry, and the operation fills only gaps.
    #[error("the entry {start}..={end} is in the way")]
    Occupied {
        /// The first index of the first entry in the range.
        start: K,
        /// Its last index.
        end: K,
    },
    /// The range is inside of an entry, of which both sides would stay, and the map does not split
    /// its values ([`Split::never`](crate::Split::never)).
    #[error("the entry {start}..={end} would be cut in two, and its value cannot be split")]
    Split {
        /// The first index of the entry.
        start: K,
        /// Its last index.
        end: K,
    },
    /// The key is not in the map, and the operation replaces only values that are.
    #[error("the key is not there")]
    Absent,
    /// No gap in the window has room.
    #[error("no gap has room for {size} indices")]
    NoGap {
        /// Number of indices that were asked for.
        size: K::Word,
    },
    /// The window has fewer indices than are asked for.
    #[error("{size} indices do not fit into the window {start}..={end}")]
    WindowTooSmall {
        /// Number of indices that were asked for.
        size: K::Word,
        /// The window's first index.
        start: K,
        /// The window's last index.
        end: K,
    },
    /// No indices were asked for.
    #[error("a size of 0 was asked for")]
    ZeroSize,
    /// The alignment is not a power of two, or the modulus of
    /// [`congruent_to`](crate::Window::congruent_to) is 0.
    #[error("the alignment {align} is not a power of two")]
    Alignment {
        /// The alignment that was asked for.
        align: K::Word,
    },
    /// The reservation's changes have all been made.
    #[error("the reservation has been used up")]
    ReservationUsedUp,
}

/// An insertion that did not happen, with the value that was to be inserted.
pub type Rejected<V, K = u64> = sapwood_common::Rejected<V, Error<K>>;

/// Puts an entry that was joined with its neighbours: with the left neighbour's value, if there is
/// one. A refusal gives back `value`, not the neighbour's.
pub(crate) fn put_joined<V, K: Index>(
    left: Option<V>,
    value: V,
    put: impl FnOnce(V) -> Result<(), Rejected<V, K>>,
) -> Result<(), Rejected<V, K>> {
    match left {
        Some(left) => put(left).map_err(|Rejected { error, .. }| Rejected { value, error }),
        None => put(value),
    }
}

impl<V, K: Index> From<Rejected<V, K>> for Error<K> {
    fn from(rejected: Rejected<V, K>) -> Self {
        rejected.error
    }
}

#[cfg(feature = "std")]
impl<K: Index> From<Error<K>> for TableError {
    fn from(error: Error<K>) -> Self {
        match error {
            Error::ArenaFull(full) => full.into(),
            Error::GarbageLimit(limit) => limit.into(),
            other => TableError::Refused(other.to_string()),
        }
    }
}

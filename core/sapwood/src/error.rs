//! The errors of all structures.

use sapwood_arena::ArenaFull;
use sapwood_common::Rejected;
use sapwood_qsbr::GarbageLimit;

/// The reason why an operation on any structure did not happen: for programs that use several. The
/// structure is as it was before the call.
///
/// ```
/// use sapwood::{Error, maple::MapleMap, qp::QpMap};
///
/// fn both() -> Result<(), Error> {
///     let mut names = QpMap::new();
///     names.insert("ash", 1)?;
///     let ranges = MapleMap::new();
///     ranges.insert_new(0..=9, 1)?;
///     ranges.insert_new(9..=20, 2)?;
///     Ok(())
/// }
/// let error = both().unwrap_err();
/// assert_eq!(error.to_string(), "the entry 0..=9 is in the way");
/// assert!(matches!(error, Error::Maple(sapwood::maple::Error::Occupied { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of a map of byte strings.
    #[error(transparent)]
    Qp(#[from] crate::qp::Error),
    /// Of a range map.
    #[error(transparent)]
    Maple(#[from] crate::maple::Error),
    /// Of a table of prefixes or routes.
    #[error(transparent)]
    Lpm(#[from] crate::lpm::Error),
    /// Of a cache of routes.
    #[error(transparent)]
    Cache(#[from] sapwood_cache::Error),
}

impl<V, E> From<Rejected<V, E>> for Error
where
    Error: From<E>,
{
    fn from(rejected: Rejected<V, E>) -> Self {
        rejected.error.into()
    }
}

impl Error {
    /// The lack of memory, if that is the reason.
    ///
    /// O(1).
    pub fn arena_full(&self) -> Option<&ArenaFull> {
        match self {
            Error::Qp(crate::qp::Error::ArenaFull(full)) => Some(full),
            Error::Maple(crate::maple::Error::ArenaFull(full)) => Some(full),
            Error::Lpm(crate::lpm::Error::ArenaFull(full)) => Some(full),
            Error::Cache(crate::route::CacheError::ArenaFull(full)) => Some(full),
            _ => None,
        }
    }

    /// The hard limit of memory that waits for readers, if that is the reason.
    ///
    /// O(1).
    pub fn garbage_limit(&self) -> Option<&GarbageLimit> {
        match self {
            Error::Qp(crate::qp::Error::GarbageLimit(limit)) => Some(limit),
            Error::Maple(crate::maple::Error::GarbageLimit(limit)) => Some(limit),
            Error::Lpm(crate::lpm::Error::GarbageLimit(limit)) => Some(limit),
            _ => None,
        }
    }
}

/// Lets `?` turn the errors of all structures into a variant of another crate's error.
#[doc(hidden)]
#[macro_export]
macro_rules! from_structures {
    ($error:ident :: $variant:ident) => {
        $crate::from_structures!($error::$variant: $crate::qp::Error, $crate::maple::Error, $crate::lpm::Error);

        impl<V, E> From<$crate::Rejected<V, E>> for $error
        where
            $crate::Error: From<E>,
        {
            fn from(rejected: $crate::Rejected<V, E>) -> Self {
                $error::$variant(rejected.error.into())
            }
        }
    };
    ($error:ident :: $variant:ident : $($of:ty),*) => {$(
        impl From<$of> for $error {
            fn from(error: $of) -> Self {
                $error::$variant(error.into())
            }
        }
    )*};
}

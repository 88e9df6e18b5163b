//! The errors of operations.

use sapwood_arena::ArenaFull;

/// The reason why an operation on a cache did not happen. The structure is as it was
/// before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arena has reached its limit, or the system gives no more memory.
    #[error(transparent)]
    ArenaFull(#[from] ArenaFull),
}

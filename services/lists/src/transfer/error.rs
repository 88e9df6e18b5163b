//! Why a zone does not come.

use std::io;
use std::path::PathBuf;

/// Why a zone cannot be transferred. What was there before stays.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A key cannot be read.
    #[error("cannot read a key from {}: {what}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The primary cannot be reached, or does not go on.
    #[error("the primary does not answer: {0}")]
    Network(#[source] io::Error),
    /// The connection ended before the zone did.
    #[error("the primary closed the connection in the middle of its answer")]
    Cut,
    /// The whole transfer takes too long.
    #[error("the transfer takes more than {0} seconds")]
    Slow(u64),
    /// The primary refuses to answer.
    #[error("the primary answers {0}")]
    Refused(String),
    /// The signature is not that of the key.
    #[error("the answer is not signed as it has to be: {0}")]
    Signature(String),
    /// An answer is not what it has to be.
    #[error("the answer is wrong: {0}")]
    Wrong(String),
    /// The primary has an older version than the one that is here.
    #[error("the serial goes back: the primary has {has}, and {had} is here")]
    Back {
        /// The serial of the copy.
        had: u32,
        /// That of the primary.
        has: u32,
    },
    /// A zone is larger than it may be.
    #[error("the zone has more than {0} bytes")]
    TooLarge(u64),
    /// The copy of the zone cannot be read or written.
    #[error("the copy {}: {source}", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl TransferError {
    pub(super) fn copy(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        move |source| TransferError::Copy {
            path: path.into(),
            source,
        }
    }

    /// Whether the whole zone may be had though its changes are not.
    pub(super) fn is_of_changes(&self) -> bool {
        use TransferError::{Refused, TooLarge, Wrong};
        matches!(self, Refused(_) | Wrong(_) | TooLarge(_))
    }
}

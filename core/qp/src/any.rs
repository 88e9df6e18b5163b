//! Maps whose values are numbers or byte strings, which a program learns when it opens them.

use std::path::Path;

use crate::{OpenCause, OpenError, QpFile};

/// A map with values of one of the two kinds that programs in all languages read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyValues<N, B> {
    /// The values are 64-bit numbers.
    Numbers(N),
    /// The values are byte strings.
    Bytes(B),
}

/// A saved map with values of either kind.
pub type AnyFile = AnyValues<QpFile<u64>, QpFile<[u8]>>;

impl<N, B> AnyValues<N, B> {
    /// Opens a map of numbers; if it has other values, a map of byte strings. `is_other` says
    /// whether an error is that of other values. If the map has neither, the error is the first.
    ///
    /// The cost of the calls.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn open<E>(
        numbers: impl FnOnce() -> Result<N, E>,
        bytes: impl FnOnce() -> Result<B, E>,
        is_other: impl Fn(&E) -> bool,
    ) -> Result<Self, E> {
        let first = match numbers() {
            Ok(numbers) => return Ok(AnyValues::Numbers(numbers)),
            Err(error) if is_other(&error) => error,
            Err(error) => return Err(error),
        };
        match bytes() {
            Ok(bytes) => Ok(AnyValues::Bytes(bytes)),
            Err(error) if is_other(&error) => Err(first),
            Err(error) => Err(error),
        }
    }
}

impl AnyFile {
    /// Opens a saved map as [`QpFile::open`] does.
    ///
    /// ```
    /// use sapwood::qp::{AnyFile, QpMap};
    /// # let path = std::env::temp_dir().join(format!("sapwood-any-{}.qp", std::process::id()));
    /// let mut map = QpMap::<[u8]>::new();
    /// map.insert("ash", b"tree")?;
    /// map.save(&path)?;
    /// match AnyFile::open_any(&path)? {
    ///     AnyFile::Numbers(_) => unreachable!(),
    ///     AnyFile::Bytes(map) => assert_eq!(map.get("ash"), Some(&b"tree"[..])),
    /// }
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`QpFile::open`].
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::open(|| QpFile::open(path), || QpFile::open(path), other_layout)
    }

    /// Opens a saved map as [`QpFile::open_unverified`] does.
    ///
    /// # Errors
    /// Those of [`QpFile::open_unverified`].
    pub fn open_any_unverified(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let (numbers, bytes) = (
            || QpFile::open_unverified(path),
            || QpFile::open_unverified(path),
        );
        Self::open(numbers, bytes, other_layout)
    }

    /// Opens the file of a published map as `QpFile::open_published` does.
    ///
    /// # Errors
    /// Those of `QpFile::open_published`.
    #[cfg(all(unix, not(miri)))]
    pub fn open_any_published(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let (numbers, bytes) = (
            || QpFile::open_published(path),
            || QpFile::open_published(path),
        );
        Self::open(numbers, bytes, other_layout)
    }

    /// Number of entries.
    ///
    /// O(1).
    pub fn entries(&self) -> usize {
        match self {
            AnyValues::Numbers(map) => map.len(),
            AnyValues::Bytes(map) => map.len(),
        }
    }
}

fn other_layout(error: &OpenError) -> bool {
    OpenCause::is_other_layout(&error.cause)
}

//! Insertions that did not happen.

use core::fmt;

/// An insertion that did not happen, with the value that was to be inserted.
///
/// Converts into the structure's error, so that `?` works where the value is not wanted back.
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected<V, E> {
    /// The value that was not inserted.
    pub value: V,
    /// The reason.
    pub error: E,
}

impl<V, E> Rejected<V, E> {
    /// The same with the error of another structure.
    ///
    /// O(1).
    pub fn error_into<F: From<E>>(self) -> Rejected<V, F> {
        Rejected {
            value: self.value,
            error: self.error.into(),
        }
    }
}

impl<V, E: fmt::Debug> fmt::Debug for Rejected<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rejected").field(&self.error).finish()
    }
}

impl<V, E: fmt::Display> fmt::Display for Rejected<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V, E: core::error::Error + 'static> core::error::Error for Rejected<V, E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

//! Readers, views and snapshots of a table.

use core::fmt;

use zerocopy::{Immutable, IntoBytes};

use super::file;
use super::read::bit_methods;
use sapwood_qp::parts::{self, View};
use sapwood_qp::{QpSnapshot, QpView, SaveError, Trusted, Version};

/// One version of a table, read under a guard. It stays on its thread.
pub struct BitView<'g, V>(pub(super) QpView<'g, V>);

impl<V> Clone for BitView<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for BitView<'_, V> {}

impl<'g, V: Send + Sync> BitView<'g, V> {
    #[inline(always)]
    fn trie(&self) -> View<'g, V> {
        self.0.view()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    bit_methods!([] 'g [&] self Trusted);
}

impl<V: Send + Sync + fmt::Debug> fmt::Debug for BitView<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

/// A version of a table that stays alive until this is dropped. Any thread may read it, and it may
/// be sent to any thread.
pub struct BitSnapshot<V: Send + Sync + 'static>(pub(super) QpSnapshot<V>);

impl<V: Send + Sync + 'static> BitSnapshot<V> {
    #[inline(always)]
    fn trie(&self) -> View<'_, V> {
        self.0.view()
    }

    /// Number of prefixes.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The version's number.
    ///
    /// O(1).
    pub fn version(&self) -> Version {
        self.0.version()
    }

    bit_methods!(['s] 's [&'s ] self Trusted);

    /// Saves the table for [`BitFile::open`](super::BitFile::open). The file is written beside
    /// `path`, flushed, and renamed.
    ///
    /// O(sum of all key lengths), and the writing of the file. It takes no lock.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<(), SaveError>
    where
        V: IntoBytes + Immutable,
    {
        let (trie, version) = (self.trie(), self.version().get());
        let layout = file::layout::<V>();
        parts::save_as(&trie, self.len(), version, layout, path.as_ref())
    }
}

impl<V: Send + Sync + 'static> Clone for BitSnapshot<V> {
    fn clone(&self) -> Self {
        BitSnapshot(self.0.clone())
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for BitSnapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

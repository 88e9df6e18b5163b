//! Readers, views and snapshots of a table.

use core::fmt;

use sapwood_qsbr::Reader;
use zerocopy::{Immutable, IntoBytes};

use super::read::bit_methods;
use crate::qp::{self, QpReader, QpView, SaveError, Snapshot, Trusted, Version, View};

/// A thread's way into a [`BitFib`](super::BitFib): registered once, then wait-free.
///
/// As for a [`QpReader`]: call [`quiescent`](Self::quiescent) from time to time, or go [`offline`](Self::offline)
/// before blocking.
pub struct BitReader<V: Send + Sync + 'static>(pub(super) QpReader<V>);

impl<V: Send + Sync + 'static> BitReader<V> {
    /// The newest version. One load; the view stays on that version while newer ones are committed.
    #[inline]
    pub fn view(&self) -> BitView<'_, V> {
        BitView(self.0.view())
    }

    /// Reads the newest version.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(BitView<'_, V>) -> R) -> R {
        f(self.view())
    }

    /// Says that this thread holds nothing.
    #[inline]
    pub fn quiescent(&mut self) {
        self.0.quiescent();
    }

    /// Takes the reader offline while the result lives: for a thread that is about to block.
    pub fn offline(&mut self) -> sapwood_qsbr::Offline<'_> {
        self.0.offline()
    }

    /// The registered reader, for the hooks of an event loop.
    pub fn reader_mut(&mut self) -> &mut Reader {
        self.0.reader_mut()
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for BitReader<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitReader").finish_non_exhaustive()
    }
}

/// One version of a table, read under a guard. Stays on its thread.
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

/// A version of a table that is kept alive until this is dropped. May be read and sent anywhere.
pub struct BitSnapshot<V: Send + Sync + 'static>(pub(super) Snapshot<V>);

impl<V: Send + Sync + 'static> BitSnapshot<V> {
    #[inline(always)]
    fn trie(&self) -> View<'_, V> {
        self.0.view()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The version's number.
    pub fn version(&self) -> Version {
        self.0.version()
    }

    bit_methods!(['s] 's [&'s ] self Trusted);

    /// Saves the table for [`BitFile::open`](super::BitFile::open): written beside `path`, flushed, and renamed.
    ///
    /// # Errors
    /// [`SaveError`]; a file that was there before is untouched.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<(), SaveError>
    where
        V: IntoBytes + Immutable,
    {
        qp::save(&self.trie(), self.len(), path.as_ref())
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

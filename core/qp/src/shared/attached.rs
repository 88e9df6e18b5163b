//! Shared maps of another process.

use core::fmt;
use core::marker::PhantomData;

use sapwood_qsbr::StaysOnItsThread;

use super::ordered::ordered_reads;
use super::unordered::PointMapIter;
use super::{Order, Ordered, QpSharedRange, Unordered};
use crate::raw::attached::Attached;
use crate::raw::mem::Live;
use crate::raw::view::View;
use crate::{ReadEntry, Value};

/// A [`QpShared`](super::QpShared) or [`PointMap`](super::PointMap) that another process changes,
/// and that is mapped into this one. It can only be read.
///
/// It is for a crate that makes the writer's grace periods wait for readers in other processes, as
/// `sapwood-live` does. So [`attach`](Self::attach) and [`view`](Self::view) are unsafe.
pub struct AttachedMap<O: Order, V: ?Sized + Value + Send + Sync + 'static> {
    raw: Attached<V>,
    order: PhantomData<fn() -> O>,
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> AttachedMap<O, V> {
    pub(crate) fn new(raw: Attached<V>) -> Self {
        AttachedMap {
            raw,
            order: PhantomData,
        }
    }

    pub(crate) fn raw(&self) -> &Attached<V> {
        &self.raw
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> fmt::Debug for AttachedMap<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedMap").finish_non_exhaustive()
    }
}

/// An [`AttachedMap`], read under a grace period that its writer waits for. It stays on its thread.
///
/// Operations on one key are linearizable; walks are weakly consistent, as those of
/// [`SharedView`](super::SharedView). A query of several entries is not exact while others write. A
/// lookup in an unordered map begins anew if writers move eight whole tables meanwhile.
pub struct AttachedView<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> {
    raw: &'g Attached<V>,
    order: PhantomData<fn() -> O>,
    _local: StaysOnItsThread,
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Clone for AttachedView<'_, O, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> Copy for AttachedView<'_, O, V> {}

impl<'g, O: Order, V: ?Sized + Value + Send + Sync + 'static> AttachedView<'g, O, V> {
    #[inline]
    pub(crate) fn new(raw: &'g Attached<V>) -> Self {
        AttachedView {
            raw,
            order: PhantomData,
            _local: StaysOnItsThread::default(),
        }
    }

    /// The value of a key. With an index, it touches two cache lines; otherwise it takes O(key
    /// length).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&'g V> {
        Some(self.raw.entry_of(key.as_ref())?.1)
    }

    /// The stored key and its value.
    ///
    /// As [`get`](Self::get).
    pub fn get_key_value(&self, key: impl AsRef<[u8]>) -> Option<ReadEntry<'g, V>> {
        let (key, value) = self.raw.entry_of(key.as_ref())?;
        Some((key.into(), value))
    }

    /// Whether the key is stored.
    ///
    /// As [`get`](Self::get).
    #[inline]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.raw.entry_of(key.as_ref()).is_some()
    }

    /// Looks up many keys at once: `out[i]` becomes the value of `keys[i]`. Each key is looked up
    /// at a moment of its own.
    ///
    /// The sum of the lookups, of which many wait at once.
    ///
    /// # Panics
    /// When `keys` and `out` differ in length.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut [Option<&'g V>]) {
        assert_eq!(keys.len(), out.len(), "`keys` and `out` differ in length");
        self.raw.entries_of(keys, |i, value| out[i] = value);
    }
}

impl<'g, V: ?Sized + Value + Send + Sync + 'static> AttachedView<'g, Ordered, V> {
    #[inline(always)]
    fn view(&self) -> View<'g, V, Live> {
        self.raw.trie_of()
    }

    /// All entries in ascending order of keys, from both ends.
    ///
    /// O(1); each step is O(1) on average.
    pub fn iter(&self) -> QpSharedRange<'g, V> {
        self.range::<[u8], _>(..)
    }

    /// Whether there is no entry.
    ///
    /// O(length of the first key).
    pub fn is_empty(&self) -> bool {
        self.first_key_value().is_none()
    }

    ordered_reads!();
}

impl<'g, V: ?Sized + Value + Send + Sync + 'static> AttachedView<'g, Unordered, V> {
    /// All entries, in no order.
    ///
    /// O(1); each step is O(1) on average.
    pub fn iter(&self) -> PointMapIter<'g, V> {
        PointMapIter::new(self.raw.unordered())
    }

    /// Whether there is no entry.
    ///
    /// O(buckets of the index) at worst.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<O: Order, V: ?Sized + Value + Send + Sync + 'static> fmt::Debug for AttachedView<'_, O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedView").finish_non_exhaustive()
    }
}

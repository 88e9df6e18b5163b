//! Transactions: many changes that readers see together, or not at all.

use core::fmt;
use core::ops::{Deref, DerefMut};

use super::writer::MapleWriter;
use crate::index::{bounds, span};
use crate::{Error, Index, IndexRange, Range, Word, Words};

/// Changes of a [`MapleMap`](super::MapleMap) that become visible by one store, when
/// [`commit`](Self::commit) is called. A transaction that is dropped has changed nothing.
///
/// It holds the map's lock, and has all methods of a [`MapleWriter`], which see what it has
/// changed. (A [`snapshot`](MapleWriter::snapshot) is of the map as readers see it.) A change of a
/// transaction can fail, and then the transaction is as before the change; a commit cannot fail. So
/// a transaction is a reservation of many changes: when the last one is made, all memory is there.
///
/// ```
/// use sapwood::maple::MapleMap;
/// let map = MapleMap::from_iter([(0..=9, 'a'), (20..=29, 'b')]);
/// let mut txn = map.begin();
/// txn.clear_range(20..=29)?;
/// txn.store(40..=49, 'b')?;
/// assert_eq!(map.get(25), Some('b')); // as readers see it
/// assert_eq!(txn.view().get(45), Some(&'b'));
/// txn.commit();
/// assert_eq!((map.get(25), map.get(45)), (None, Some('b')));
///
/// let mut txn = map.begin();
/// txn.clear_range(0..=u64::MAX)?;
/// drop(txn);
/// assert_eq!(map.len(), 2);
/// # Ok::<(), sapwood::Error>(())
/// ```
///
/// # Cost
///
/// A change copies the leaf that it changes, as always. The first change below an inner node also
/// copies that node; later ones change the copy. Nodes that a transaction makes and replaces itself
/// are freed at once. A commit takes time in proportion to the nodes that the transaction made and
/// replaced.
pub struct MapleTxn<'m, V: Clone + Send + Sync + 'static, K: Index = u64> {
    writer: MapleWriter<'m, V, K>,
}

impl<'m, V: Clone + Send + Sync + 'static, K: Index> MapleTxn<'m, V, K> {
    pub(super) fn new(mut writer: MapleWriter<'m, V, K>) -> Self {
        writer.shared().begin(&mut writer.writer);
        MapleTxn { writer }
    }

    /// Makes all changes visible, by one store.
    ///
    /// O(nodes made and replaced), and takes no memory.
    pub fn commit(mut self) {
        let shared = self.writer.shared();
        let MapleWriter {
            writer, dropped, ..
        } = &mut self.writer;
        shared.commit(writer, dropped);
    }

    /// Number of entries, as the transaction has made them.
    ///
    /// O(1).
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether the transaction leaves no entries.
    ///
    /// O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every invariant of what the transaction has made. Linear time.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> Result<(), String> {
        self.writer.shared().verify(&self.writer.writer)
    }

    /// As [`MapleMap::modify_range`](super::MapleMap::modify_range).
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::ArenaFull`], [`Error::GarbageLimit`]. Then some entries of
    /// the range may be changed in the transaction.
    pub fn modify_range(
        &mut self,
        range: impl IndexRange<K>,
        mut change: impl FnMut(Range<K>, &V) -> V,
    ) -> Result<(), Error<K>>
    where
        V: PartialEq,
    {
        let (start, end) = bounds(range)?;
        let mut next = Some(start);
        while let Some(from) = next {
            let view = self.view().view;
            let Some(entry) = view.finger().forward(from) else {
                return Ok(());
            };
            if entry.start > end {
                return Ok(());
            }
            let value = view.value(entry.slot);
            let part = (from.max(entry.start), end.min(entry.end));
            next = (entry.end < end).then(|| entry.end.above());
            // A part that begins inside of its entry may have another value.
            let by = part.0 - entry.start;
            let split = || self.shared().split.at_offset(value, by);
            let inner = (by > K::Word::ZERO).then(split).flatten();
            let old = inner.as_ref().unwrap_or(value);
            let new = change(span::<K>(part), old);
            match part == (entry.start, entry.end) && *old == new {
                // Only a join may be left to do.
                true if !self.can_join(part, &new) => {}
                _ => {
                    self.store_coalescing(span::<K>(part), new)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a neighbour that touches a range has this value.
    fn can_join(&self, range: Words<K>, value: &V) -> bool
    where
        V: PartialEq,
    {
        let split = &self.shared().split;
        self.view().joined(range, value, split).0 != range
    }

    /// As [`MapleMap::move_range`](super::MapleMap::move_range).
    ///
    /// # Errors
    /// [`Error::EmptyRange`]; [`Error::WindowTooSmall`] when the range would end beyond the highest
    /// index; [`Error::ArenaFull`], [`Error::GarbageLimit`]. Then a part of the move may be made in
    /// the transaction.
    pub fn move_range(&mut self, range: impl IndexRange<K>, to: K) -> Result<(), Error<K>> {
        let (start, end) = bounds(range)?;
        let first = to.to_word();
        let last = first.checked_add(end - start);
        let Some(last) = last.filter(|last| *last <= K::MAX.to_word()) else {
            return Err(Error::WindowTooSmall {
                size: (end - start).saturating_add(K::Word::ONE),
                start: to,
                end: K::MAX,
            });
        };
        let parts = self.parts((start, end));
        self.clear_words((start, end))?;
        self.clear_words((first, last))?;
        let moved = |index: K| index.to_word() - start + first;
        for (part, value) in parts {
            self.put((moved(*part.start()), moved(*part.end())), value)?;
        }
        Ok(())
    }
}

impl<'m, V: Clone + Send + Sync + 'static, K: Index> Deref for MapleTxn<'m, V, K> {
    type Target = MapleWriter<'m, V, K>;

    fn deref(&self) -> &MapleWriter<'m, V, K> {
        &self.writer
    }
}

impl<'m, V: Clone + Send + Sync + 'static, K: Index> DerefMut for MapleTxn<'m, V, K> {
    fn deref_mut(&mut self) -> &mut MapleWriter<'m, V, K> {
        &mut self.writer
    }
}

impl<V: Clone + Send + Sync + 'static, K: Index> Drop for MapleTxn<'_, V, K> {
    fn drop(&mut self) {
        let shared = self.writer.shared();
        let MapleWriter {
            writer, dropped, ..
        } = &mut self.writer;
        // After a commit there is nothing to roll back.
        shared.roll_back(writer, dropped);
    }
}

impl<V: Clone + Send + Sync + fmt::Debug + 'static, K: Index> fmt::Debug for MapleTxn<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

//! Walks over an owned map that need it whole.

use alloc::vec::Vec;
use core::fmt;
use core::iter::FusedIterator;

use crate::index::span;
use crate::raw::owned::{Owned, Ranged, WalkMut};
use crate::{Index, Range, Words};

/// Entries in order, with values that may be changed.
pub struct IterMut<'m, V, K: Index = u64> {
    walk: WalkMut<'m, V, K::Word>,
}

impl<'m, V, K: Index> IterMut<'m, V, K> {
    pub(super) fn new(owned: &'m mut Owned<V, K::Word>, range: Option<Words<K>>) -> Self {
        IterMut {
            walk: owned.walk_mut(range),
        }
    }
}

impl<'m, V, K: Index> Iterator for IterMut<'m, V, K> {
    type Item = (Range<K>, &'m mut V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (start, end, value) = self.walk.next()?;
        Some((span::<K>((start, end)), value))
    }
}

impl<V, K: Index> FusedIterator for IterMut<'_, V, K> {}

impl<V, K: Index> fmt::Debug for IterMut<'_, V, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").finish_non_exhaustive()
    }
}

/// Entries in order, from both ends, taken out of their map.
#[derive(Debug)]
pub struct IntoIter<V, K: Index = u64> {
    entries: alloc::vec::IntoIter<Ranged<V, K::Word>>,
}

impl<V, K: Index> IntoIter<V, K> {
    pub(super) fn new(entries: Vec<Ranged<V, K::Word>>) -> Self {
        IntoIter {
            entries: entries.into_iter(),
        }
    }
}

fn ranged<V, K: Index>((start, end, value): Ranged<V, K::Word>) -> (Range<K>, V) {
    (span::<K>((start, end)), value)
}

impl<V, K: Index> Iterator for IntoIter<V, K> {
    type Item = (Range<K>, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(ranged::<V, K>)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<V, K: Index> DoubleEndedIterator for IntoIter<V, K> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(ranged::<V, K>)
    }
}

impl<V, K: Index> ExactSizeIterator for IntoIter<V, K> {}

impl<V, K: Index> FusedIterator for IntoIter<V, K> {}

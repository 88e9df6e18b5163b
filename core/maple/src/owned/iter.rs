//! Walks over an owned map that need it whole.

use core::fmt;
use core::iter::FusedIterator;

use crate::Range;
use crate::raw::owned::{Owned, WalkMut};

/// Entries in order, with values that may be changed.
pub struct IterMut<'m, V> {
    walk: WalkMut<'m, V>,
}

impl<'m, V> IterMut<'m, V> {
    pub(super) fn new(owned: &'m mut Owned<V>, range: &Range) -> Self {
        let range = (!range.is_empty()).then_some((*range.start(), *range.end()));
        IterMut {
            walk: owned.walk_mut(range),
        }
    }
}

impl<'m, V> Iterator for IterMut<'m, V> {
    type Item = (Range, &'m mut V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (start, end, value) = self.walk.next()?;
        Some((start..=end, value))
    }
}

impl<V> FusedIterator for IterMut<'_, V> {}

impl<V> fmt::Debug for IterMut<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").finish_non_exhaustive()
    }
}

/// Entries in order, from both ends, taken out of their map.
#[derive(Debug)]
pub struct IntoIter<V> {
    entries: alloc::vec::IntoIter<(u64, u64, V)>,
}

impl<V> IntoIter<V> {
    pub(super) fn new(entries: Vec<(u64, u64, V)>) -> Self {
        IntoIter {
            entries: entries.into_iter(),
        }
    }
}

fn ranged<V>((start, end, value): (u64, u64, V)) -> (Range, V) {
    (start..=end, value)
}

impl<V> Iterator for IntoIter<V> {
    type Item = (Range, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(ranged)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<V> DoubleEndedIterator for IntoIter<V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(ranged)
    }
}

impl<V> ExactSizeIterator for IntoIter<V> {}

impl<V> FusedIterator for IntoIter<V> {}

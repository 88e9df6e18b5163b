//! Iterators that give mutable references to values.

use core::fmt;
use core::iter::FusedIterator;

use super::raw::span_mut::SpanMut;
use super::raw::value::Value;
use crate::Key;

/// The entries of a map in ascending order of keys, with mutable references to their values.
pub struct IterMut<'a, V: ?Sized + Value> {
    span: Option<SpanMut<'a, V>>,
    /// Number of entries that are left, or `usize::MAX` when it is not known.
    left: usize,
}

impl<'a, V: ?Sized + Value> IterMut<'a, V> {
    pub(crate) fn new(span: Option<SpanMut<'a, V>>, left: usize) -> Self {
        IterMut { span, left }
    }

    fn took(&mut self) {
        if self.left != usize::MAX {
            self.left -= 1;
        }
    }
}

impl<'a, V: ?Sized + Value> Iterator for IterMut<'a, V> {
    type Item = (Key<'a>, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.span.as_mut()?.next()?;
        self.took();
        Some((key.into(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.left == usize::MAX {
            (0, None)
        } else {
            (self.left, Some(self.left))
        }
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for IterMut<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (key, value) = self.span.as_mut()?.next_back()?;
        self.took();
        Some((key.into(), value))
    }
}

impl<V: ?Sized + Value> FusedIterator for IterMut<'_, V> {}

impl<V: ?Sized + Value> fmt::Debug for IterMut<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").finish_non_exhaustive()
    }
}

/// Mutable references to all values of a map, in order of their keys.
#[derive(Debug)]
pub struct ValuesMut<'a, V: ?Sized + Value>(pub(crate) IterMut<'a, V>);

impl<'a, V: ?Sized + Value> Iterator for ValuesMut<'a, V> {
    type Item = &'a mut V;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(_, value)| value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for ValuesMut<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(_, value)| value)
    }
}

impl<V: ?Sized + Value> FusedIterator for ValuesMut<'_, V> {}

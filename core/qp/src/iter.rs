//! Iterators over entries in key order, from both ends.

use core::fmt;
use core::iter::FusedIterator;

use super::raw::inline::EntryRef;
use super::raw::mem::{Mem, Trusted};
use super::raw::span::Span;
use super::raw::view::View;
use crate::{Key, ReadEntry, Value};

/// The entries of a part of a map, in ascending order of keys: the result of `range` and `prefix`.
///
/// `range` takes two descents. Each step takes amortized O(1).
pub struct Range<'a, V: ?Sized + Value, M = Trusted> {
    pub(crate) span: Span<'a, V, M>,
}

impl<V: ?Sized + Value, M: Copy> Clone for Range<'_, V, M> {
    fn clone(&self) -> Self {
        Range {
            span: self.span.clone(),
        }
    }
}

impl<'a, V: ?Sized + Value, M: Mem> Iterator for Range<'a, V, M> {
    type Item = ReadEntry<'a, V>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.span.next()?;
        self.span.view.entry(entry)
    }
}

impl<V: ?Sized + Value, M: Mem> DoubleEndedIterator for Range<'_, V, M> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.span.next_back()?;
        self.span.view.entry(entry)
    }
}

impl<V: ?Sized + Value, M: Mem> FusedIterator for Range<'_, V, M> {}

impl<V: ?Sized + Value + fmt::Debug, M: Mem> fmt::Debug for Range<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.clone().map(Shown::entry))
            .finish()
    }
}

/// A key as text with escapes.
pub(crate) struct Shown<'a>(pub(crate) Key<'a>);

impl<'a> Shown<'a> {
    /// A key as text, with its value as it is.
    pub(crate) fn entry<V>((key, value): (impl Into<Key<'a>>, V)) -> (Self, V) {
        (Shown(key.into()), value)
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// All entries of a map, in ascending order of keys.
pub struct Iter<'a, V: ?Sized + Value, M: Copy = Trusted> {
    range: Range<'a, V, M>,
    left: usize,
}

impl<V: ?Sized + Value, M: Copy> Clone for Iter<'_, V, M> {
    fn clone(&self) -> Self {
        Iter {
            range: self.range.clone(),
            left: self.left,
        }
    }
}

impl<'a, V: ?Sized + Value, M: Mem> Iter<'a, V, M> {
    pub(crate) fn new(span: Span<'a, V, M>, len: usize) -> Self {
        Iter {
            range: Range { span },
            left: len,
        }
    }

    /// Goes to the next entry.
    #[inline(always)]
    fn step(&mut self) -> Option<EntryRef> {
        let entry = self.range.span.next()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }

    /// Goes to the next entry from the back.
    #[inline]
    fn step_back(&mut self) -> Option<EntryRef> {
        let entry = self.range.span.next_back()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }
}

impl<'a, V: ?Sized + Value, M: Mem> Iterator for Iter<'a, V, M> {
    type Item = ReadEntry<'a, V>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.step()?;
        self.range.span.view.entry(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<V: ?Sized + Value, M: Mem> DoubleEndedIterator for Iter<'_, V, M> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.step_back()?;
        self.range.span.view.entry(entry)
    }
}

impl<V: ?Sized + Value, M: Mem> ExactSizeIterator for Iter<'_, V, M> {}
impl<V: ?Sized + Value, M: Mem> FusedIterator for Iter<'_, V, M> {}

impl<V: ?Sized + Value + fmt::Debug, M: Mem> fmt::Debug for Iter<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}

macro_rules! half {
    ($(#[$doc:meta])* $name:ident, $item:ty, $pick:expr) => {
        $(#[$doc])*
        pub struct $name<'a, V: ?Sized + Value, M: Copy = Trusted>(pub(crate) Iter<'a, V, M>);

        impl<V: ?Sized + Value, M: Copy> Clone for $name<'_, V, M> {
            fn clone(&self) -> Self {
                $name(self.0.clone())
            }
        }

        impl<'a, V: ?Sized + Value, M: Mem> Iterator for $name<'a, V, M> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                let entry = self.0.step()?;
                $pick(self.0.range.span.view, entry)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<'a, V: ?Sized + Value, M: Mem> DoubleEndedIterator for $name<'a, V, M> {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                let entry = self.0.step_back()?;
                $pick(self.0.range.span.view, entry)
            }
        }

        impl<V: ?Sized + Value, M: Mem> ExactSizeIterator for $name<'_, V, M> {}
        impl<V: ?Sized + Value, M: Mem> FusedIterator for $name<'_, V, M> {}
    };
}

half!(
    /// All keys of a map, in ascending order.
    Keys, Key<'a>, |view: View<'a, V, M>, entry| view.entry(entry).map(|(key, _)| key)
);
half!(
    /// All values of a map, in ascending order of their keys.
    Values, &'a V, |view: View<'a, V, M>, entry| view.value(entry)
);

impl<V: ?Sized + Value, M: Mem> fmt::Debug for Keys<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.clone().map(Shown);
        f.debug_list().entries(entries).finish()
    }
}

impl<V: ?Sized + Value + fmt::Debug, M: Mem> fmt::Debug for Values<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

//! Ordered walks over a trie that changes meanwhile.
//!
//! A walk keeps the branches on its path, even if they are replaced meanwhile. A replaced branch
//! does not change any more, and its cells lead to all keys that were there when it was replaced
//! and are still there. So a walk never skips a key that is there throughout. In any state of a
//! branch, all keys below a child come before those below the next child. So a walk never goes back
//! and never repeats a key. It may return an entry that was removed meanwhile, or a value that was
//! replaced, and it may miss a key that was inserted.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::raw::cursor::Cursor;
use crate::raw::leaf::Value;
use crate::raw::mem::Live;
use crate::raw::view::View;

/// The entries between two bounds, from both ends.
pub(crate) struct Walk<'g, V: ?Sized + Value> {
    view: View<'g, V, Live>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    over: bool,
}

impl<V: ?Sized + Value> Clone for Walk<'_, V> {
    fn clone(&self) -> Self {
        Walk {
            view: self.view,
            low: self.low.clone(),
            high: self.high.clone(),
            front: self.front.clone(),
            back: self.back.clone(),
            over: self.over,
        }
    }
}

/// The bounds of all keys that start with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut after = prefix.to_vec();
    while after.last() == Some(&u8::MAX) {
        after.pop();
    }
    let high = match after.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(after)
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.to_vec()), high)
}

impl<'g, V: ?Sized + Value> Walk<'g, V> {
    pub(crate) fn new(view: View<'g, V, Live>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Walk {
            view,
            low,
            high,
            front: None,
            back: None,
            over: false,
        }
    }

    /// The key that a cursor stands on.
    fn key_at(&self, cursor: &Option<Cursor>) -> Option<&'g [u8]> {
        let entry = cursor.as_ref()?.entry.some()?;
        self.view.leaf_key(entry.cell())
    }

    /// Moves the front; returns whether it is inside the bounds.
    fn advance(&mut self) -> bool {
        let view = self.view;
        match &mut self.front {
            Some(front) => front.next(&view),
            None => {
                let front = self.front.insert(Cursor::new());
                match &self.low {
                    Bound::Unbounded => front.first(&view),
                    Bound::Included(key) => front.seek_ge(&view, key, false),
                    Bound::Excluded(key) => front.seek_ge(&view, key, true),
                }
            }
        }
        self.key_at(&self.front).is_some_and(|key| {
            let below = match &self.high {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= high.as_slice(),
                Bound::Excluded(high) => key < high.as_slice(),
            };
            below && self.key_at(&self.back).is_none_or(|last| key < last)
        })
    }

    /// Moves the back; returns whether it is inside the bounds.
    fn retreat(&mut self) -> bool {
        let view = self.view;
        match &mut self.back {
            Some(back) => back.prev(&view),
            None => {
                let back = self.back.insert(Cursor::new());
                match &self.high {
                    Bound::Unbounded => back.last(&view),
                    Bound::Included(key) => back.seek_le(&view, key, false),
                    Bound::Excluded(key) => back.seek_le(&view, key, true),
                }
            }
        }
        self.key_at(&self.back).is_some_and(|key| {
            let above = match &self.low {
                Bound::Unbounded => true,
                Bound::Included(low) => key >= low.as_slice(),
                Bound::Excluded(low) => key > low.as_slice(),
            };
            above && self.key_at(&self.front).is_none_or(|first| key > first)
        })
    }
}

impl<'g, V: ?Sized + Value> Iterator for Walk<'g, V> {
    type Item = (&'g [u8], &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.over = self.over || !self.advance();
        let front = self.front.as_ref().filter(|_| !self.over)?;
        self.view.leaf_entry(front.entry.cell())
    }
}

impl<V: ?Sized + Value> DoubleEndedIterator for Walk<'_, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.over = self.over || !self.retreat();
        let back = self.back.as_ref().filter(|_| !self.over)?;
        self.view.leaf_entry(back.entry.cell())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_prefix() {
        let high = |prefix: &[u8]| prefix_bounds(prefix).1;
        assert_eq!(high(b""), Bound::Unbounded);
        assert_eq!(high(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(high(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(high(b"a\xff"), Bound::Excluded(b"b".to_vec()));
    }
}

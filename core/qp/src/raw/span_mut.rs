//! Mutable references to values, one by one and in order.

use core::marker::PhantomData;

use super::inline::EntryRef;
use super::leaf::Value;
use super::span::Span;
use super::tree::Tree;
use super::view::View;
use crate::Pieces;

/// A run of leaves of a trie that is borrowed exclusively for `'a`.
pub(crate) struct SpanMut<'a, V: ?Sized + Value> {
    span: Span<'a, V>,
    exclusive: PhantomData<&'a mut V>,
}

impl<'a, V: ?Sized + Value> SpanMut<'a, V> {
    fn item(&self, entry: EntryRef) -> Option<(Pieces<'a>, &'a mut V)> {
        let (key, value) = self.span.view.parts(entry)?;
        // SAFETY: the trie is borrowed exclusively for 'a; a span hands out each entry once, and
        // the key bytes and the value do not overlap.
        Some((key, unsafe { &mut *value }))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Pieces<'a>, &'a mut V)> {
        let entry = self.span.next()?;
        self.item(entry)
    }

    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<(Pieces<'a>, &'a mut V)> {
        let entry = self.span.next_back()?;
        self.item(entry)
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// All leaves.
    pub(crate) fn all_mut(&mut self) -> SpanMut<'_, V> {
        self.span_mut(Span::all)
    }

    /// The leaves of the span that `pick` makes.
    pub(crate) fn span_mut<'a>(
        &'a mut self,
        pick: impl FnOnce(View<'a, V>) -> Span<'a, V>,
    ) -> SpanMut<'a, V> {
        let tree: &'a Self = self;
        SpanMut {
            span: pick(tree.view()),
            exclusive: PhantomData,
        }
    }

    /// A mutable reference to the value of a key.
    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let entry = self.find(key)?;
        Some(self.value_mut(entry))
    }

    /// The key of a live entry, and the place of its value.
    pub(super) fn parts_of(&self, entry: EntryRef) -> (Pieces<'_>, *mut V) {
        match self.view().parts(entry) {
            Some(parts) => parts,
            None => unreachable!("entries of a trie in trusted memory are whole"),
        }
    }

    /// The key of a live entry, which callers got from this trie and have not changed since.
    pub(crate) fn key_at(&self, entry: EntryRef) -> Pieces<'_> {
        self.parts_of(entry).0
    }

    /// The value of a live entry, as above.
    pub(crate) fn value_at(&self, entry: EntryRef) -> &V {
        // SAFETY: a live value.
        unsafe { &*self.parts_of(entry).1 }
    }

    /// A mutable reference to the value of a live entry, as above.
    pub(crate) fn value_mut(&mut self, entry: EntryRef) -> &mut V {
        // SAFETY: a live value, and the trie is borrowed exclusively.
        unsafe { &mut *self.parts_of(entry).1 }
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// Takes the arena out. The caller is responsible for the nodes and values in it.
    #[cfg(feature = "std")]
    pub(crate) fn into_arena(mut self) -> sapwood_arena::Arena {
        let empty = sapwood_arena::Arena::new(sapwood_arena::ArenaOptions::default());
        self.root = 0;
        self.len = 0;
        core::mem::replace(&mut self.arena, empty)
    }
}

impl<V: ?Sized + Value> Drop for Tree<V> {
    fn drop(&mut self) {
        self.clear();
    }
}

//! Mutable references to values, one by one and in order.

use core::marker::PhantomData;

use super::leaf::{LeafOf, Value};
use super::span::Span;
use super::tree::Tree;
use super::view::View;

/// A run of leaves of a trie that is borrowed exclusively for `'a`.
pub(crate) struct SpanMut<'a, V: ?Sized + Value> {
    span: Span<'a, V>,
    exclusive: PhantomData<&'a mut V>,
}

impl<'a, V: ?Sized + Value> SpanMut<'a, V> {
    fn item(&self, leaf: u32) -> Option<(&'a [u8], &'a mut V)> {
        let p = self.span.view.leaf(leaf)?;
        // SAFETY: the trie is borrowed exclusively for 'a; a span hands out each leaf once, and the
        // key bytes and the value do not overlap.
        Some(unsafe { (LeafOf::<V>::key(p), &mut *LeafOf::<V>::value_ptr(p)) })
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<(&'a [u8], &'a mut V)> {
        let leaf = self.span.next()?;
        self.item(leaf)
    }

    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<(&'a [u8], &'a mut V)> {
        let leaf = self.span.next_back()?;
        self.item(leaf)
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
        let leaf = self.find(key)?;
        Some(self.leaf_value_mut(leaf))
    }

    /// The key of a live leaf.
    pub(crate) fn leaf_key(&self, leaf: u32) -> &[u8] {
        // SAFETY: callers got the leaf from this trie and have not changed it since.
        unsafe { LeafOf::<V>::key(self.pointer(leaf)) }
    }

    /// The value of a live leaf.
    pub(crate) fn leaf_value(&self, leaf: u32) -> &V {
        // SAFETY: callers got the leaf from this trie and have not changed it since.
        unsafe { &*LeafOf::<V>::value_ptr(self.pointer(leaf)) }
    }

    /// A mutable reference to the value of a live leaf.
    pub(crate) fn leaf_value_mut(&mut self, leaf: u32) -> &mut V {
        // SAFETY: as above, and the trie is borrowed exclusively.
        unsafe { &mut *LeafOf::<V>::value_ptr(self.pointer(leaf)) }
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

//! Changes of many entries of an owned trie: removal, moves to another trie, drops.
//!
//! The drop of a value may panic. So a trie is whole again before the first value is dropped, or a
//! guard drops the rest.

use alloc::vec::Vec;
use core::marker::PhantomData;

use sapwood_arena::{Arena, ArenaFull, PAGE};

use super::cursor::Cursor;
use super::leaf::{LeafOf, Value};
use super::mem::byte_of;
use super::node::LEAF;
use super::tree::{Owned, Policy, Tree, each_child};

impl<V: ?Sized + Value> Tree<V> {
    /// Removes the entries whose keys start with `prefix`; returns their number, and their values
    /// if these need to be dropped.
    pub(crate) fn remove_prefix(&mut self, prefix: &[u8]) -> (usize, Vec<V::Held>) {
        let mut values = Vec::new();
        let Ok(tops) = self.unlink_prefix(&mut Owned, prefix) else {
            return (0, values);
        };
        let before = self.len;
        for top in tops {
            self.each_cell(top, |tree, cell| {
                // SAFETY: the subtree is unlinked; children come before their parents.
                unsafe {
                    if cell & LEAF != 0 {
                        tree.len -= 1;
                        tree.point_removed(cell);
                        let value = tree.take_leaf(cell);
                        if V::NEEDS_DROP {
                            values.push(value);
                        }
                    } else {
                        let h = tree.header(cell);
                        Owned.gone(&mut tree.arena, cell, h);
                    }
                }
            });
        }
        if self.len == 0 {
            self.emptied();
        }
        (before - self.len, values)
    }

    /// Gives the memory back of a trie that has become empty, but not the last page: a trie whose
    /// only entry comes and goes need not ask the system each time.
    #[cold]
    pub(crate) fn emptied(&mut self) {
        if self.arena.committed() > PAGE {
            self.clear();
        }
    }

    /// Moves the entry of a leaf of `from` into this trie; returns the value that it replaced. On
    /// failure the entry stays in `from`.
    ///
    /// # Safety
    /// `leaf` is a live leaf of `from`.
    pub(crate) unsafe fn move_from(
        &mut self,
        from: &mut Self,
        leaf: u32,
    ) -> Result<Option<V::Taken>, ArenaFull> {
        let p = from.pointer(leaf);
        // SAFETY: the key's bytes stay until the leaf is freed below. The value is copied bit by
        // bit, and only one of the copies is used: the one here, or on failure the one in `from`.
        unsafe {
            let key = LeafOf::<V>::key(p);
            match self.insert(key, V::second(p)) {
                Err((value, full)) => {
                    core::mem::forget(value);
                    Err(full)
                }
                Ok(old) => {
                    let unlinked = from.unlink(&mut Owned, key, leaf);
                    debug_assert!(unlinked.is_ok());
                    from.len -= 1;
                    from.forget_leaf(leaf);
                    Ok(old)
                }
            }
        }
    }

    /// Moves the first entry of `from` into this trie. Returns `None` if there is no entry,
    /// otherwise the value that it replaced, if any.
    pub(crate) fn move_first(
        &mut self,
        from: &mut Self,
    ) -> Result<Option<Option<V::Taken>>, ArenaFull> {
        let mut cursor = Cursor::new();
        cursor.first(&from.view());
        if cursor.leaf == 0 {
            return Ok(None);
        }
        // SAFETY: a live leaf of `from`.
        unsafe { self.move_from(from, cursor.leaf) }.map(Some)
    }

    /// Frees a leaf's block, but not its value, which has moved.
    ///
    /// # Safety
    /// The leaf is live, unlinked, and nobody reads it any more.
    unsafe fn forget_leaf(&mut self, leaf: u32) {
        self.point_removed(leaf);
        // SAFETY: the caller's promise.
        unsafe { self.free_leaf(leaf, |p| LeafOf::<V>::forget(p)) }
    }

    /// Moves all entries from `key` on into a new trie in `fresh`. On failure all entries stay
    /// here.
    pub(crate) fn split_into(&mut self, key: &[u8], fresh: Arena) -> Result<Self, ArenaFull> {
        let mut upper = Tree::new(fresh);
        if self.points.is_some() {
            upper.index_all();
        }
        let mut cursor = Cursor::new();
        cursor.seek_ge(&self.view(), key, false);
        while cursor.leaf != 0 {
            let leaf = cursor.leaf;
            cursor.next(&self.view());
            // SAFETY: a live leaf. Until the end both tries have each value, and only this trie's
            // are used.
            unsafe {
                let p = self.pointer(leaf);
                let copy = V::second(p);
                if let Err((copy, full)) = upper.insert(LeafOf::<V>::key(p), copy) {
                    core::mem::forget(copy);
                    upper.forget_values();
                    return Err(full);
                }
            }
        }
        loop {
            cursor.seek_ge(&self.view(), key, false);
            let leaf = cursor.leaf;
            if leaf == 0 {
                if self.len == 0 {
                    self.emptied();
                }
                return Ok(upper);
            }
            // SAFETY: a live leaf, whose value now belongs to the other trie; unlinking in place
            // cannot fail.
            unsafe {
                let key = LeafOf::<V>::key(self.pointer(leaf));
                let unlinked = self.unlink(&mut Owned, key, leaf);
                debug_assert!(unlinked.is_ok());
                self.len -= 1;
                self.forget_leaf(leaf);
            }
        }
    }

    /// Empties a trie whose values belong to another.
    fn forget_values(&mut self) {
        let root = core::mem::take(&mut self.root);
        self.len = 0;
        self.order.end();
        self.points = None;
        if LeafOf::<V>::BOXED {
            self.each_cell(root, |tree, cell| {
                if cell & LEAF != 0 {
                    // SAFETY: each leaf comes once.
                    unsafe { LeafOf::<V>::forget(tree.pointer(cell)) };
                }
            });
        }
    }

    /// Drops all values and empties the trie. The arena is cleared even if the drop of a value
    /// panics.
    pub(crate) fn clear(&mut self) {
        struct Clear<'a>(&'a mut Arena);
        impl Drop for Clear<'_> {
            fn drop(&mut self) {
                self.0.clear();
            }
        }
        let root = core::mem::take(&mut self.root);
        self.len = 0;
        self.order.end();
        self.points_cleared();
        let base = self.arena.base();
        let _clear = Clear(&mut self.arena);
        // SAFETY: the whole trie is unlinked, and the arena is cleared after the values are
        // dropped.
        unsafe { drop_values::<V>(base, Vec::from_iter((root != 0).then_some(root))) };
    }
}

/// Drops the values of all leaves at and below these cells. If a drop panics, the other values are
/// still dropped.
///
/// # Safety
/// The cells are live in the memory at `base`. Each leaf is below one of them once. None is used
/// afterwards.
pub(crate) unsafe fn drop_values<V: ?Sized + Value>(base: *mut u8, cells: Vec<u32>) {
    struct Rest<V: ?Sized + Value> {
        base: *mut u8,
        todo: Vec<u32>,
        values: PhantomData<V>,
    }
    impl<V: ?Sized + Value> Rest<V> {
        fn next(&mut self) -> Option<V::Held> {
            loop {
                let cell = self.todo.pop()?;
                let p = self.base.wrapping_add(byte_of(cell));
                // SAFETY: the promise of the caller of `drop_values`.
                unsafe {
                    if cell & LEAF != 0 {
                        return Some(LeafOf::<V>::take(p));
                    }
                    each_child(self.base, cell, |child| self.todo.push(child));
                }
            }
        }
    }
    impl<V: ?Sized + Value> Drop for Rest<V> {
        fn drop(&mut self) {
            while let Some(value) = self.next() {
                drop(value);
            }
        }
    }
    if LeafOf::<V>::NEEDS_DROP {
        let mut rest: Rest<V> = Rest {
            base,
            todo: cells,
            values: PhantomData,
        };
        while let Some(value) = rest.next() {
            drop(value);
        }
    }
}

//! Changes of many entries of an owned trie: removal, moves to another trie, drops.
//!
//! The drop of a value may panic. So a trie is whole again before the first value is dropped, or a
//! guard drops the rest.

use alloc::vec::Vec;
use core::marker::PhantomData;

use sapwood_arena::{Arena, ArenaFull, PAGE};

use super::cursor::Cursor;
use super::inline::{Held, Inline};
use super::leaf::{LeafOf, Value};
use super::mem::byte_of;
use super::node::{Cluster, INLINE, KIND, LEAF};
use super::tree::{Owned, Policy, Tree, each_child};
use super::view::Subtree;

impl<V: ?Sized + Value> Tree<V> {
    /// Removes the entries whose keys start with `prefix`; returns their number, and their values
    /// if these need to be dropped.
    pub(crate) fn remove_prefix(&mut self, prefix: &[u8]) -> (usize, Vec<V::Held>) {
        let mut values = Vec::new();
        let Ok((tops, some)) = self.unlink_prefix(&mut Owned, prefix) else {
            return (0, values);
        };
        let before = self.len;
        let mut keep = |value| {
            if V::NEEDS_DROP {
                values.push(value);
            }
        };
        if let Some(Subtree { cell, from, to, .. }) = some {
            // SAFETY: the block is live, and stays with the other entries.
            unsafe { self.take_run(cell, (from, to), &mut keep) };
            self.len -= to - from;
        }
        for top in tops {
            self.each_cell(top, |tree, cell| {
                // SAFETY: the subtree is unlinked; children come before their parents.
                unsafe {
                    match cell & KIND {
                        LEAF => {
                            tree.len -= 1;
                            tree.point_removed(cell);
                            keep(tree.take_leaf(cell));
                        }
                        INLINE => {
                            tree.len -= tree.cluster(cell).leaves();
                            tree.take_block(cell, &mut keep);
                        }
                        _ => {
                            let h = tree.header(cell);
                            Owned.gone(&mut tree.arena, cell, h);
                        }
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

    /// Moves the first entry of `from` into this trie. Returns `None` if there is no entry,
    /// otherwise the value that it replaced, if any. On failure the entry stays in `from`.
    pub(crate) fn move_first(
        &mut self,
        from: &mut Self,
    ) -> Result<Option<Option<V::Taken>>, ArenaFull> {
        let mut cursor = Cursor::new();
        cursor.first(&from.view());
        let Some(first) = cursor.entry.some() else {
            return Ok(None);
        };
        let (key, value) = from.parts_of(first);
        let key = key.to_box();
        // SAFETY: the value is copied bit by bit, and only one of the copies is used: the one here,
        // or on failure the one in `from`. The key is there, and its path is the newest.
        unsafe {
            let second = V::copied(&*value);
            match self.insert(&key, second) {
                Err((value, full)) => {
                    core::mem::forget(value);
                    Err(full)
                }
                Ok(old) => {
                    from.forget(&key);
                    Ok(Some(old))
                }
            }
        }
    }

    /// Removes an entry whose value has moved.
    ///
    /// # Safety
    /// The key is there, and nobody uses its value any more.
    unsafe fn forget(&mut self, key: &[u8]) {
        let Some(path) = self.view().path_of_present(key) else {
            unreachable!("the key is there")
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.detach(
                key,
                &path,
                |p| LeafOf::<V>::forget(p),
                |slot| V::slot_forget(slot),
            );
        }
    }

    /// Moves all entries from `key` on into a new trie in `fresh`. On failure all entries stay
    /// here.
    pub(crate) fn split_into(&mut self, key: &[u8], fresh: Arena) -> Result<Self, ArenaFull> {
        let mut upper = Tree::new(fresh);
        (upper.inline, upper.only_leaves) = (self.inline, self.only_leaves);
        upper.prefix_max = self.prefix_max;
        if self.points.is_some() {
            upper.index_all();
        }
        let mut cursor = Cursor::new();
        cursor.seek_ge(&self.view(), key, false);
        while let Some(entry) = cursor.entry.some() {
            cursor.next(&self.view());
            let key = self.key_at(entry).to_box();
            // SAFETY: a live entry. Until the end both tries have each value, and only this trie's
            // are used.
            let copy = unsafe { V::copied(self.value_at(entry)) };
            if let Err((copy, full)) = upper.insert(&key, copy) {
                core::mem::forget(copy);
                upper.forget_values();
                return Err(full);
            }
        }
        loop {
            cursor.seek_ge(&self.view(), key, false);
            let Some(entry) = cursor.entry.some() else {
                if self.len == 0 {
                    self.emptied();
                }
                return Ok(upper);
            };
            let key = self.key_at(entry).to_box();
            // SAFETY: the value belongs to the other trie now.
            unsafe { self.forget(&key) };
        }
    }

    /// Empties a trie whose values belong to another.
    fn forget_values(&mut self) {
        let root = core::mem::take(&mut self.root);
        self.len = 0;
        self.order.end();
        self.points = None;
        if LeafOf::<V>::BOXED {
            // SAFETY: each entry comes once.
            self.each_cell(root, |tree, cell| unsafe {
                match cell & KIND {
                    LEAF => LeafOf::<V>::forget(tree.pointer(cell)),
                    INLINE => tree.forget_block(cell),
                    _ => {}
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
        /// The inline cluster that is being emptied, and the number of its next entry.
        block: Option<(u32, usize)>,
        values: PhantomData<V>,
    }
    impl<V: ?Sized + Value> Rest<V> {
        fn next(&mut self) -> Option<V::Held> {
            loop {
                if let Some((cell, i)) = self.block {
                    // SAFETY: the promise of the caller of `drop_values`.
                    unsafe {
                        let p = self.base.wrapping_add(byte_of(cell));
                        let c = Cluster::of(p, cell);
                        self.block = (i + 1 < c.leaves()).then_some((cell, i + 1));
                        let block = Inline::of(c);
                        match block.held::<V>(i) {
                            Held::Leaf(leaf) => self.todo.push(leaf),
                            Held::Here { tail, len } => {
                                return Some(V::slot_take(Inline::slot::<V>(tail, len)));
                            }
                        }
                    }
                    continue;
                }
                let cell = self.todo.pop()?;
                let p = self.base.wrapping_add(byte_of(cell));
                // SAFETY: the promise of the caller of `drop_values`.
                unsafe {
                    match cell & KIND {
                        LEAF => return Some(LeafOf::<V>::take(p)),
                        INLINE => self.block = Some((cell, 0)),
                        _ => each_child(self.base, cell, |child| self.todo.push(child)),
                    }
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
            block: None,
            values: PhantomData,
        };
        while let Some(value) = rest.next() {
            drop(value);
        }
    }
}

//! Copies of a map with nodes of the same shape.

use core::marker::PhantomData;

use sapwood_arena::ArenaFull;

use super::leaf::copy_slot;
use super::node::{INNER, Inner, LEAF, Leaf, Mem, VALUE};
use super::path::Root;
use super::table::{MapleShared, Writer};
use super::values::{Apart, Values};
use sapwood_format::maple::word::Word;

impl<V: Clone, W: Word> MapleShared<V, W> {
    /// Copies a map into an empty one of the same kind. On an error the caller drops the copy; the
    /// entries that it has by then are whole.
    pub(crate) fn copy_to(
        &self,
        from: &Writer<V, W>,
        other: &MapleShared<V, W>,
        to: &mut Writer<V, W>,
    ) -> Result<(), ArenaFull> {
        let Root { node, height } = from.root;
        if node == 0 {
            return Ok(());
        }
        let mut copied = Copied {
            values: Vec::new(),
            types: PhantomData,
        };
        let copy = Copy {
            shared: self,
            from: from.mem(),
            fanout: from.limits.fanout,
        };
        // SAFETY: the tree is that of a writer that is borrowed; the other one's blocks are seen by
        // nobody.
        let node = unsafe { copy.node(&mut to.space, node, height, &mut copied)? };
        copied.values.clear();
        to.root = Root { node, height };
        to.len = from.len;
        other.publish_root(to);
        other.publish_len(to);
        Ok(())
    }
}

/// Cloned values that no tree has yet. They are dropped when the copy fails or a clone panics.
struct Copied<V> {
    values: Vec<*mut V>,
    types: PhantomData<V>,
}

impl<V> Drop for Copied<V> {
    fn drop(&mut self) {
        for value in self.values.drain(..) {
            // SAFETY: written by the copy, into blocks that nobody else knows and that are dropped
            // with their arena.
            unsafe { value.drop_in_place() };
        }
    }
}

struct Copy<'a, V, W: Word> {
    shared: &'a MapleShared<V, W>,
    from: Mem,
    fanout: usize,
}

impl<V: Clone, W: Word> Copy<'_, V, W> {
    /// Copies a node and the nodes below it; `copied` gets the values.
    ///
    /// # Safety
    /// The node is live, and of this level.
    unsafe fn node(
        &self,
        space: &mut super::space::Space,
        node: u32,
        level: usize,
        copied: &mut Copied<V>,
    ) -> Result<u32, ArenaFull> {
        let p = self.from.at(node);
        // SAFETY: the caller's promise; new blocks have the sizes of the old nodes.
        unsafe {
            if level == 0 {
                let leaf = Leaf::<W>::at(p);
                let slot = self.shared.published.slot;
                let r = space.alloc(leaf.bytes(), LEAF)?;
                let mut slots = Vec::with_capacity(leaf.len());
                for k in 0..leaf.len() {
                    if self.shared.published.values == Values::Apart {
                        let old = leaf.slot(k, slot).cast::<u32>().read();
                        let value = &*Apart::<V>::place(self.from.at(old));
                        let value = value.clone();
                        let new = space.alloc(Apart::<V>::BYTES, VALUE)?;
                        let place = Apart::<V>::place(space.mem().at(new));
                        place.write(value);
                        copied.values.push(place);
                        slots.push(new);
                    }
                }
                let to = space.mem().at(r);
                core::ptr::copy_nonoverlapping(p, to, leaf.bytes());
                let copy = Leaf::<W>::at(to);
                for (k, new) in slots.iter().enumerate() {
                    let at = copy.slot(k, slot).cast_mut();
                    copy_slot((&raw const *new).cast(), at, slot);
                }
                space.made += 1;
                return Ok(r);
            }
            let inner = Inner::<W>::at(p);
            let n = inner.len();
            let r = space.alloc(inner.bytes(), INNER)?;
            let mut children = Vec::with_capacity(n);
            for i in 0..n {
                let child = self.node(space, inner.child(i), level - 1, copied)?;
                let upper = if i + 1 < n { inner.pivot(i) } else { W::MAX };
                children.push((child, upper, inner.gap(i)));
            }
            Inner::<W>::write(space.mem().at(r), self.fanout, children.into_iter());
            space.made += 1;
            Ok(r)
        }
    }
}

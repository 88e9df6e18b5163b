//! The garbage that changes of a store make, as it is known before the change.

use alloc::vec::Vec;

use super::inline::Inline;
use super::leaf::{LeafOf, Value};
use super::node::{CLUSTER, FRESH, INLINE, KIND, is_leaf};
use super::tree::each_child;
use super::version::Writer;
use super::view::Subtree;

impl<V: ?Sized + Value> Writer<V> {
    /// The most bytes of garbage that a change of a key makes.
    pub(crate) fn cost(&self, key: &[u8]) -> usize {
        let old = match V::VARIES {
            true => self.tree.view().find(key),
            false => None,
        };
        let old = old.and_then(|entry| match (entry.cell(), entry.index()) {
            (cell, i) if entry.is_held() => {
                // SAFETY: the entry is one of the trie.
                let block = unsafe { Inline::of(self.tree.cluster(cell)) };
                // SAFETY: as above.
                unsafe { block.leaves::<V>(i..i + 1) }.next()
            }
            (leaf, _) => Some(leaf),
        });
        let old = old.map(|leaf| self.tree.pointer(leaf).cast_const());
        // The path, and the leaf with its key. SAFETY: the leaf is live.
        self.tree.path_bytes(key) + unsafe { LeafOf::<V>::block_of_key(key.len(), old) }
    }

    /// The most bytes of garbage that the removal of all keys with a prefix makes.
    pub(crate) fn prefix_cost(&self, prefix: &[u8]) -> usize {
        let tree = &self.tree;
        let Some(Subtree { cell, from, to, .. }) = tree.view().subtree(prefix) else {
            return 0;
        };
        let mut bytes = tree.path_bytes(prefix);
        let mut todo = Vec::new();
        // SAFETY: cells below the root are live; only some entries of a cluster may have the
        // prefix.
        unsafe {
            match cell & KIND {
                CLUSTER => {
                    let cluster = tree.cluster(cell);
                    todo.extend((from..to).map(|i| cluster.cell(i)));
                }
                INLINE => todo.extend(Inline::of(tree.cluster(cell)).leaves::<V>(from..to)),
                _ => todo.push(cell),
            }
        }
        while let Some(cell) = todo.pop() {
            // SAFETY: cells below the root are live.
            unsafe {
                if is_leaf(cell) {
                    bytes += tree.block(cell).0;
                    continue;
                }
                if tree.header(cell) & FRESH == 0 {
                    bytes += tree.block(cell).0;
                }
                if cell & KIND == INLINE {
                    let c = tree.cluster(cell);
                    todo.extend(Inline::of(c).leaves::<V>(0..c.leaves()));
                    continue;
                }
                each_child(tree.arena.base(), cell, |child| todo.push(child));
            }
        }
        bytes
    }
}

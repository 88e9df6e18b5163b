//! The garbage that changes of a store make, as it is known before the change.

use alloc::vec::Vec;

use super::leaf::{LeafOf, Value};
use super::node::{CLUSTER, FRESH, LEAF};
use super::tree::{block_of, each_child};
use super::version::Writer;
use super::view::Subtree;

impl<V: ?Sized + Value> Writer<V> {
    /// The most bytes of garbage that a change of a key makes.
    pub(crate) fn cost(&self, key: &[u8]) -> usize {
        let old = match V::VARIES {
            true => self.tree.view().find(key),
            false => None,
        };
        let old = old.map(|leaf| self.tree.pointer(leaf.cell()).cast_const());
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
        // SAFETY: cells below the root are live; only some leaves of a cluster may have the prefix.
        unsafe {
            if cell & (LEAF | CLUSTER) == CLUSTER {
                let cluster = tree.cluster(cell);
                todo.extend((from..to).map(|i| cluster.cell(i)));
            } else {
                todo.push(cell);
            }
        }
        while let Some(cell) = todo.pop() {
            // SAFETY: cells below the root are live.
            unsafe {
                if cell & LEAF != 0 {
                    bytes += tree.block(cell).0;
                    continue;
                }
                let h = tree.header(cell);
                if h & FRESH == 0 {
                    bytes += block_of(cell, h).0;
                }
                each_child(tree.arena.base(), cell, |child| todo.push(child));
            }
        }
        bytes
    }
}

//! The point index of a shared trie.
//!
//! The index and the trie change one after the other, under the locks of branches. A new leaf is
//! added to the index first and then to the trie. An old leaf is removed from the trie first and
//! then from the index. Lookups follow the index. So a writer that does nothing, as the key is
//! there already or is absent, answers only when both agree. Otherwise its answer would depend on a
//! change that lookups do not see yet.

use super::trie::Trie;
use crate::raw::index::Found;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::writers::shard::{Held, Inner};
use crate::raw::writers::writer_pool::Blocks;

impl<V: ?Sized + Value> Trie<V> {
    /// The hash of a key, if there is an index.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.index.as_ref().map_or(0, |index| index.hash(key))
    }

    /// Whether the index has the same answer for a key as the trie: this leaf, or none.
    ///
    /// # Safety
    /// This thread holds a guard; the hash is the key's.
    pub(crate) unsafe fn index_agrees(&self, hash: u64, key: &[u8], leaf: Option<u32>) -> bool {
        let Some(index) = &self.index else {
            return true;
        };
        // SAFETY: the caller's promise.
        match unsafe { index.find(self.depot.base(), hash, key) } {
            Found::Leaf(found) => leaf == Some(found),
            Found::Absent => leaf.is_none(),
            Found::AskTrie => true,
        }
    }

    /// Adds a leaf that is about to be linked.
    ///
    /// # Safety
    /// This thread holds a guard and the lock of the slot where the leaf will be; the leaf is whole
    /// and new.
    #[inline]
    pub(crate) unsafe fn index_insert(&self, held: &mut Held<'_>, hash: u64, leaf: u32) {
        if let Some(index) = &self.index {
            let mut blocks = Blocks::new(&self.depot, &mut held.inner);
            // SAFETY: the caller's promise: changes of one key come one after the other, because
            // they need that lock.
            unsafe { index.insert(&mut blocks, hash, leaf) };
        }
    }

    /// Replaces a leaf by another one of the same key.
    ///
    /// # Safety
    /// As for `index_insert`; the old leaf was linked in that slot.
    #[inline]
    pub(crate) unsafe fn index_replace(&self, hash: u64, old: u32, new: u32) {
        if let Some(index) = &self.index {
            // SAFETY: the caller's promise.
            unsafe { index.replace(self.depot.base(), hash, old, new) };
        }
    }

    /// Removes a leaf that was unlinked.
    ///
    /// # Safety
    /// As for `index_insert`; the leaf was linked in that slot, and is not retired yet.
    #[inline]
    pub(crate) unsafe fn index_remove(&self, hash: u64, leaf: u32) {
        if let Some(index) = &self.index {
            // SAFETY: the caller's promise.
            unsafe { index.remove(self.depot.base(), hash, leaf) };
        }
    }

    /// Lets the index grow or shrink by a step, if it is time.
    ///
    /// # Safety
    /// This thread holds a guard, and no lock of a branch.
    #[inline]
    pub(crate) unsafe fn index_step(&self, inner: &mut Inner) {
        if let Some(index) = &self.index {
            let about = self.about(inner);
            let mut blocks = Blocks::new(&self.depot, inner);
            // SAFETY: the caller's promise.
            unsafe { index.step(&mut blocks, about) };
        }
    }

    /// Puts the leaves of a new trie into its index.
    pub(crate) fn fill_index(&self, len: usize) {
        let Some(index) = &self.index else { return };
        let mut held = self.shard();
        // SAFETY: the trie is new, and nobody else has it.
        unsafe {
            let mut blocks = Blocks::new(&self.depot, &mut held.inner);
            index.reserve(&mut blocks, len);
        }
        self.each_leaf(|leaf| {
            // SAFETY: as above; leaves are alive.
            unsafe {
                let hash = index.hash(LeafOf::<V>::key(self.pointer(leaf)));
                self.index_insert(&mut held, hash, leaf);
            }
        });
    }
}

//! The trie as one of the structures that many writers change, and the methods that only a trie
//! has.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use sapwood_qsbr::Guard;

use super::trie::Trie;
use super::walk::Walk;
use crate::QpSharedMemory;
use crate::raw::batch;
use crate::raw::index::Found;
use crate::raw::inline::EntryRef;
use crate::raw::leaf::Value;
use crate::raw::mem::Live;
use crate::raw::view::View;
use crate::raw::writers::ops::{Lack, Structure};
use crate::raw::writers::shard::Inner;
use crate::raw::writers::writer_pool::Blocks;

/// The number of keys that a step of a walk returns.
const KEYS_AT_ONCE: usize = 64;

// SAFETY: under a guard, a walk from the root finds leaves that are linked, and so does the index,
// which holds a leaf until it is unlinked.
unsafe impl<V: ?Sized + Value> Structure<V> for Trie<V> {
    /// The key before the next one.
    type Place = Vec<u8>;

    #[inline]
    unsafe fn find(&self, key: &[u8]) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(index) = &self.index {
                match index.find(self.depot.base(), index.hash(key), key) {
                    Found::Leaf(leaf) => return Some(leaf),
                    Found::Absent => return None,
                    Found::AskTrie => {}
                }
            }
            self.view().find(key).map(EntryRef::cell)
        }
    }

    unsafe fn find_many<K: AsRef<[u8]>>(&self, keys: &[K], mut each: impl FnMut(usize, u32)) {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(index) = &self.index else {
                return batch::find_many(&self.view(), keys, |i, entry| each(i, entry.cell()));
            };
            index.find_many(self.depot.base(), keys, |i, key, found| {
                let leaf = match found {
                    Found::Leaf(leaf) => leaf,
                    Found::Absent => 0,
                    Found::AskTrie => self.view().find(key).map_or(0, EntryRef::cell),
                };
                each(i, leaf);
            });
        }
    }

    fn next_keys(
        &self,
        guard: Guard<'_>,
        from: Option<Vec<u8>>,
    ) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let low = from.map_or(Bound::Unbounded, Bound::Excluded);
        let walk = Walk::new(self.guarded_view(guard), low, Bound::Unbounded);
        let keys: Vec<_> = walk
            .take(KEYS_AT_ONCE)
            .map(|(key, _)| key.to_vec())
            .collect();
        let next = keys.last().cloned();
        (keys, next)
    }

    #[inline]
    fn is_vacant(&self) -> bool {
        self.root() == 0
    }

    fn may_be_vacant(&self, _: &Inner) -> bool {
        self.is_vacant()
    }

    fn empty(&self) -> bool {
        let Some(index) = self.index.as_ref().filter(|index| index.taken().bytes > 0) else {
            return true;
        };
        if self.is_stopped_here() {
            return true;
        }
        let mut shards = self.all_shards();
        if self.is_vacant() {
            let mut blocks = Blocks::new(&self.depot, &mut shards[0].inner);
            // SAFETY: all shards are held, so nobody writes; there is no entry, so any answer of
            // the index is right.
            unsafe { index.clear(&mut blocks) };
        }
        self.is_vacant()
    }

    fn memory(&self) -> QpSharedMemory {
        self.memory_beside(size_of::<Self>())
    }

    fn verify(&self) -> Result<(), String> {
        self.verify_all()
    }
}

impl<V: ?Sized + Value> Trie<V> {
    /// A view of the trie as it is now.
    #[inline(always)]
    pub(crate) fn guarded_view<'g>(&'g self, guard: Guard<'g>) -> View<'g, V, Live> {
        debug_assert!(
            guard.belongs_to(self.domain()),
            "the view checked the guard's domain"
        );
        // SAFETY: the guard, of the trie's domain, is held for 'g.
        unsafe { self.view() }
    }

    /// One step of a compaction; returns whether there is more to do.
    pub(crate) fn compact(&self, _: Guard<'_>, budget: usize) -> Result<bool, Lack> {
        let mut values = Vec::new();
        // SAFETY: the guard is held.
        unsafe { self.step(budget, &mut values) }
    }
}

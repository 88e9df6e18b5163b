//! The index without a trie as one of the structures that many writers change.

use alloc::string::String;
use alloc::vec::Vec;

use sapwood_qsbr::{Guard, StaysOnItsThread};

use super::IndexOnly;
use crate::QpSharedMemory;
use crate::raw::index::{Found, Index, Together};
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::mem::byte_of;
use crate::raw::writers::ops::Structure;
use crate::raw::writers::shard::Inner;
use crate::raw::writers::writer_pool::Blocks;

// SAFETY: the index names only linked leaves, because a leaf is linked by being in the index.
unsafe impl<V: ?Sized + Value> Structure<V> for IndexOnly<V> {
    /// The upper half of a hash.
    type Place = u32;

    #[inline]
    unsafe fn find(&self, key: &[u8]) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe { self.find_hashed(self.index.hash(key), key) }
    }

    unsafe fn find_many<K: AsRef<[u8]>>(&self, keys: &[K], mut each: impl FnMut(usize, u32)) {
        // SAFETY: the caller's promise.
        unsafe {
            (self.index).find_many(self.depot.base(), keys, |i, _, found| {
                let leaf = match found {
                    Found::Leaf(leaf) => leaf,
                    _ => 0,
                };
                each(i, leaf);
            });
        }
    }

    fn next_keys(&self, _: Guard<'_>, from: Option<u32>) -> (Vec<Vec<u8>>, Option<u32>) {
        let mut leaves = Together::new();
        // SAFETY: the guard is held until the keys were copied.
        unsafe {
            let from = from.unwrap_or_default();
            let next = (self.index).leaves_from(self.depot.base(), from, &mut leaves);
            let copy = |(_, leaf): &(u64, u32)| LeafOf::<V>::key(self.pointer(*leaf)).to_vec();
            (leaves.iter().map(copy).collect(), next)
        }
    }

    fn is_vacant(&self) -> bool {
        self.len() == 0
    }

    fn may_be_vacant(&self, inner: &Inner) -> bool {
        inner.about == 0
    }

    fn empty(&self) -> bool {
        // The caller may hold a guard that keeps a writer waiting for room, so this does not wait
        // for writers.
        let Some(mut shards) = self.try_all_shards() else {
            return false;
        };
        if self.is_vacant() && self.index.taken().bytes > 0 {
            let mut blocks = Blocks::new(&self.depot, &mut shards[0].inner);
            // SAFETY: all shards are held, so nobody writes; there is no entry, so any answer of
            // the index is right.
            unsafe { self.index.clear(&mut blocks) };
        }
        self.is_vacant()
    }

    fn memory(&self) -> QpSharedMemory {
        self.memory_beside(size_of::<Self>() + size_of_val(&*self.stripes))
    }

    fn verify(&self) -> Result<(), String> {
        self.verify_all()
    }
}

/// A walk over the entries, in no order.
pub(crate) struct Walk<'g, V: ?Sized + Value> {
    index: &'g Index<V, true>,
    /// The address of the arena.
    base: *mut u8,
    /// The hashes that come next; `None` at the end.
    from: Option<u32>,
    /// The leaves that were read, of which the last one comes next.
    ready: Together,
    _local: StaysOnItsThread,
}

impl<V: ?Sized + Value> Clone for Walk<'_, V> {
    fn clone(&self) -> Self {
        Walk {
            ready: self.ready.clone(),
            ..*self
        }
    }
}

impl<V: ?Sized + Value> IndexOnly<V> {
    /// A walk over all entries from a place on; 0 is the first.
    pub(crate) fn walk_from<'g>(&'g self, _: Guard<'g>, place: u32) -> Walk<'g, V> {
        // SAFETY: the guard is held for 'g.
        unsafe { Walk::from(&self.index, self.depot.base(), place) }
    }
}

impl<'g, V: ?Sized + Value> Walk<'g, V> {
    /// A walk over all entries of an index from a place on; 0 is the first.
    ///
    /// # Safety
    /// The index's arena lies at `base`, and nothing that the index has during `'g` is freed before
    /// its end.
    pub(crate) unsafe fn from(index: &'g Index<V, true>, base: *mut u8, place: u32) -> Self {
        Walk {
            index,
            base,
            from: Some(place),
            ready: Together::new(),
            _local: StaysOnItsThread::default(),
        }
    }

    /// The place behind the entries that were read; `None` at the end.
    pub(crate) fn place(&self) -> Option<u32> {
        self.from
    }

    /// The next of the entries that were read already.
    #[inline]
    pub(crate) fn next_ready(&mut self) -> Option<(&'g [u8], &'g V)> {
        let (_, leaf) = self.ready.pop()?;
        // SAFETY: the leaf was in the index during 'g, so it is not freed before the end of 'g.
        Some(unsafe {
            let p = self.base.add(byte_of(leaf));
            (LeafOf::<V>::key(p), &*LeafOf::<V>::value_ptr(p))
        })
    }
}

impl<'g, V: ?Sized + Value> Iterator for Walk<'g, V> {
    type Item = (&'g [u8], &'g V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.next_ready() {
                return Some(entry);
            }
            let from = self.from?;
            // SAFETY: the promise of the caller of `from`.
            self.from = unsafe { self.index.leaves_from(self.base, from, &mut self.ready) };
        }
    }
}

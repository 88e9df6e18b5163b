//! Maps that have only the point index: leaves, and tables that name them.
//!
//! Readers look keys up as beside a trie ([`index`](super::index)). The index requires that only
//! one writer at a time changes a key. In a trie the lock of a branch ensures this. Here it is the
//! lock of one of some dozens of *stripes*, which the hash of the key chooses. Under the stripe the
//! writer looks the key up once more, and the answer holds until it releases the stripe. So each
//! change takes effect with one store, which puts a leaf into its slot, replaces another leaf, or
//! clears its tag.
//!
//! Locks are taken in this order: shard, stripe, the index's turn, buckets. A thread that holds all
//! shards needs no stripe. The user's code (tests of values) runs under a shard's lock only. If the
//! writer, once it holds the stripe, finds another leaf than the tested one, it tests again.
//!
//! The index publishes a leaf only if it has a slot for it
//! ([`insert_alone`](super::index::Index::insert_alone)). If it has none, the writer frees the
//! leaf.
//!
//! | file | what it is |
//! |---|---|
//! | [`write`] | the changes |
//! | [`ops`] | the index as one of the structures that many writers change |
//! | [`verify`] | all of it checked |

pub(crate) mod ops;
mod verify;
mod write;

use alloc::boxed::Box;
use core::ops::Deref;

use crossbeam_utils::CachePadded;
use sapwood_arena::Arena;
use sapwood_qsbr::Domain;

use super::index::{Found, Index};
use super::leaf::{LeafOf, Value};
use super::writers::lock::{LockContention, Parking};
use super::writers::shard::Counts;
use super::writers::writer_pool::WriterPool;
use crate::sync;

/// The number of stripes for each shard.
const STRIPES: usize = 8;

/// A map that has only the point index: see the module.
pub struct IndexOnly<V: ?Sized + Value> {
    writers: WriterPool,
    index: Index<V, true>,
    parking: Parking,
    stripes: Box<[CachePadded<sync::AtomicU32>]>,
}

// SAFETY: the map owns its values; `&V` goes to other threads (Sync), and the thread that reclaims
// drops values (Send).
unsafe impl<V: ?Sized + Value + Send + Sync> Send for IndexOnly<V> {}
// SAFETY: as above. Leaves do not change once they are published, and the index changes only by its
// protocol.
unsafe impl<V: ?Sized + Value + Send + Sync> Sync for IndexOnly<V> {}

impl<V: ?Sized + Value> IndexOnly<V> {
    /// An empty map in an arena with a stable base.
    pub(crate) fn new(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Index<V, true>,
    ) -> Self {
        let writers = WriterPool::new(arena, domain, most, 0, Counts::default());
        let stripes =
            (0..writers.shard_count() * STRIPES).map(|_| CachePadded::new(sync::AtomicU32::new(0)));
        IndexOnly {
            stripes: stripes.collect(),
            parking: Parking::new(),
            index: index.without_trie(),
            writers,
        }
    }

    /// Locks the stripe of a hash.
    #[inline]
    fn lock(&self, hash: u64, contention: &mut LockContention) -> Stripe<'_> {
        // The tag comes from the lowest bits, the home from the highest.
        let word = &*self.stripes[(hash >> 8) as usize & (self.stripes.len() - 1)];
        // A stripe is never obsolete.
        while self.parking.acquire(word, contention).is_none() {}
        Stripe {
            parking: &self.parking,
            word,
        }
    }

    /// The leaf of a key.
    ///
    /// # Safety
    /// This thread holds a guard as long as it uses the leaf; the hash is the key's.
    #[inline]
    unsafe fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        // SAFETY: the caller's promise.
        match unsafe { self.index.find(self.depot.base(), hash, key) } {
            Found::Leaf(leaf) => Some(leaf),
            found => {
                debug_assert_eq!(found, Found::Absent, "there is no trie to ask");
                None
            }
        }
    }
}

/// A stripe that this thread holds.
struct Stripe<'a> {
    parking: &'a Parking,
    word: &'a sync::AtomicU32,
}

impl Drop for Stripe<'_> {
    #[inline]
    fn drop(&mut self) {
        self.parking.release(self.word);
    }
}

impl<V: ?Sized + Value> Deref for IndexOnly<V> {
    type Target = WriterPool;

    #[inline(always)]
    fn deref(&self) -> &WriterPool {
        &self.writers
    }
}

impl<V: ?Sized + Value> Drop for IndexOnly<V> {
    fn drop(&mut self) {
        if !LeafOf::<V>::NEEDS_DROP {
            return;
        }
        let mut leaves = self.writers.take_waiting();
        // SAFETY: `&mut self`: each leaf is in the index or waited, and nobody uses them
        // afterwards.
        unsafe {
            (self.index).each_leaf(self.depot.base(), |leaf| leaves.push(leaf));
            for leaf in leaves {
                drop(LeafOf::<V>::take(self.pointer(leaf)));
            }
        }
    }
}

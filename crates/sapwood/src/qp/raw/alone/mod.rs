//! A map that has only the point index: leaves, and tables that name them.
//!
//! Readers look keys up as beside a trie ([`index`](super::index)). The index demands that who changes a key is alone with it. In a
//! trie the lock of a branch sees to that; here it is one of some dozens of *stripes*, by the hash of the key. Under it, a
//! writer looks the key up once more, and what it finds stays true until it is done. So each change has one moment: the store that
//! puts a leaf into its slot, puts it over another one, or clears its tag.
//!
//! Locks are taken in this order: shard, stripe, the index's turn, buckets. Who has all shards has all stripes. The user's code (tests
//! of values) runs under a shard's lock alone: the leaf that it was asked about must be the key's still when the stripe is held,
//! or it is asked again.
//!
//! Nothing is published before it is sure to have a slot: [`insert_alone`](super::index::Index::insert_alone) says so, and what it
//! refuses is taken apart again.
//!
//! | file | what it is |
//! |---|---|
//! | [`write`] | the changes |
//! | [`ops`] | whole operations for callers with a guard |
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
use super::leaf::LeafOf;
use super::shared::commons::{Blocks, Commons};
use super::shared::lock::{Met, Parking};
use super::shared::shard::Counts;
use crate::sync;

/// Stripes for each shard.
const STRIPES: usize = 8;

/// See the module.
pub(crate) struct Alone<V> {
    commons: Commons,
    index: Index<V, true>,
    parking: Parking,
    stripes: Box<[CachePadded<sync::AtomicU32>]>,
}

// SAFETY: the map owns its values; `&V` goes to other threads (Sync), and who reclaims drops (Send).
unsafe impl<V: Send + Sync> Send for Alone<V> {}
// SAFETY: as above. Leaves are not changed once they are published, and the index by its own protocol only.
unsafe impl<V: Send + Sync> Sync for Alone<V> {}

impl<V> Alone<V> {
    /// An empty map in an arena with a stable base.
    pub(crate) fn new(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        index: Index<V, true>,
    ) -> Self {
        let commons = Commons::new(arena, domain, most, 0, Counts::default());
        let stripes =
            (0..commons.shard_count() * STRIPES).map(|_| CachePadded::new(sync::AtomicU32::new(0)));
        Alone {
            stripes: stripes.collect(),
            parking: Parking::new(),
            index: index.without_trie(),
            commons,
        }
    }

    /// Waits until this thread is alone with the keys of a stripe: that of the hash.
    #[inline]
    fn lock(&self, hash: u64, met: &mut Met) -> Stripe<'_> {
        // The tag comes from the lowest bits, the home from the highest.
        let word = &*self.stripes[(hash >> 8) as usize & (self.stripes.len() - 1)];
        // A stripe is never obsolete.
        while self.parking.acquire(word, met).is_none() {}
        Stripe {
            parking: &self.parking,
            word,
        }
    }

    /// The leaf of a key.
    ///
    /// # Safety
    /// This thread holds a guard for as long as it uses the leaf; the hash is the key's.
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

    /// Takes the memory of an emptied map's index back, if no writer is at work. Whether the map is empty.
    fn empty_index(&self) -> bool {
        let Some(mut shards) = self.try_all_shards() else {
            return false;
        };
        if self.len() > 0 {
            return false;
        }
        if self.index.taken().bytes > 0 {
            let mut blocks = Blocks::new(&self.depot, &mut shards[0].inner);
            // SAFETY: all shards are held, so nobody writes; there is no entry, so what readers are told is right anyhow.
            unsafe { self.index.clear(&mut blocks) };
        }
        true
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

impl<V> Deref for Alone<V> {
    type Target = Commons;

    #[inline(always)]
    fn deref(&self) -> &Commons {
        &self.commons
    }
}

impl<V> Drop for Alone<V> {
    fn drop(&mut self) {
        if !LeafOf::<V>::BOXED && !core::mem::needs_drop::<V>() {
            return;
        }
        let mut leaves = self.commons.take_waiting();
        // SAFETY: `&mut self`: each leaf is in the index or waited, and nobody uses them afterwards.
        unsafe {
            (self.index).each_leaf(self.depot.base(), |leaf| leaves.push(leaf));
            for leaf in leaves {
                drop(LeafOf::<V>::take(self.pointer(leaf)));
            }
        }
    }
}

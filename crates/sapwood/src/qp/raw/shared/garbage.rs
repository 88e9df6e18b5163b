//! What was unlinked waits for readers; then its memory is used again.

use alloc::vec::Vec;

use sapwood_arena::Area;

use super::commons::Commons;
use super::lock::Met;
use super::shard::{Contended, Counts, Garbage, Held, Inner};
use super::trie::Trie;
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::node::LEAF;
use crate::qp::raw::tree::{LEAF_KIND, ref_of};
use crate::sync;

/// Nodes that a shard collects before it asks for a grace period: the domain's counters are shared by all writers.
const BATCH: usize = 64;
/// The same where garbage is limited, so that the limit means something.
const BATCH_LIMITED: usize = 1;

/// So many nodes freed at once may leave whole pages.
const MUCH: usize = 4096;

impl<V> Trie<V> {
    /// Takes a node that was unlinked: it is freed when no reader can hold it.
    ///
    /// # Safety
    /// The node is whole and unlinked, and this is the only call for it.
    pub(crate) unsafe fn retire(&self, inner: &mut Inner, cell: u32) {
        // SAFETY: the caller's promise.
        let (bytes, kind) = unsafe { self.block(cell) };
        inner.retire_node(cell, bytes, kind);
    }

    /// Frees up to `budget` nodes of all shards that nobody can hold any more; hands out their values. With an empty
    /// trie, pools give back what they keep.
    pub(crate) fn reclaim(&self, budget: usize, values: &mut Vec<V>) -> usize {
        let empty = self.is_vacant();
        if empty {
            self.empty_index();
        }
        self.reclaim_all(budget, values, empty)
    }

    /// Makes what free memory there is usable by everybody, after a block could not be had; whether there was any.
    pub(crate) fn scavenge(&self, values: &mut Vec<V>) -> bool {
        let found = self.reclaim(usize::MAX, values) > 0;
        self.drain_pools() || found
    }
}

impl Commons {
    /// Takes a leaf that was unlinked, as `Trie::retire` does.
    ///
    /// # Safety
    /// The leaf, with a value `V`, is unlinked, and this is the only call for it.
    pub(crate) unsafe fn retire_leaf<V>(&self, inner: &mut Inner, cell: u32) {
        // SAFETY: the caller's promise.
        let size = unsafe { LeafOf::<V>::size(LeafOf::<V>::key_len(self.pointer(cell))) };
        inner.retire_node(cell, (size + 7) & !7, LEAF_KIND);
    }

    /// Ends an operation: hands on what it unlinked when that has become much, and frees what can be freed.
    pub(crate) fn settle<V>(&self, inner: &mut Inner, met: Met, values: &mut Vec<V>) {
        inner.contended.operations += 1;
        if met.locks > 0 {
            inner.contended.met += 1;
            inner.contended.waited += met.waited;
        }
        let batch = if self.domain().hard_limit().is_some() {
            BATCH_LIMITED
        } else {
            BATCH
        };
        if inner.open.len() >= batch {
            self.seal(inner);
            let budget = if self.domain().over_soft_limit() {
                usize::MAX
            } else {
                3 * batch
            };
            self.reclaim_shard(inner, budget, values);
        }
    }

    fn seal(&self, inner: &mut Inner) {
        let counted = |(garbage, bytes)| ((garbage, bytes), bytes as usize);
        inner.queue.extend(inner.open.drain(..).map(counted));
        inner.queue.seal();
    }

    /// Frees up to `budget` nodes of a shard that nobody can hold any more; hands out their values.
    fn reclaim_shard<V>(&self, inner: &mut Inner, budget: usize, values: &mut Vec<V>) -> usize {
        let Inner {
            pool,
            queue,
            counts,
            ..
        } = inner;
        queue.reclaim(budget, |(garbage, bytes)| {
            let bytes = bytes as usize;
            counts.waiting.0 -= 1;
            counts.waiting.1 -= bytes as isize;
            // SAFETY: unlinked a grace period ago; the queue hands each out once.
            unsafe {
                match garbage {
                    Garbage::Node(cell) if cell & LEAF != 0 => {
                        // A value that nothing becomes of is not read once more: its line is long gone from the cache.
                        if LeafOf::<V>::BOXED || core::mem::needs_drop::<V>() {
                            values.push(LeafOf::<V>::take(self.pointer(cell)));
                        }
                        pool.free(&self.depot, ref_of(cell), bytes, Area::Leaves);
                    }
                    Garbage::Node(cell) => {
                        pool.free(&self.depot, ref_of(cell), bytes, Area::Nodes);
                    }
                    Garbage::Block(block) => {
                        pool.free(&self.depot, block, bytes, Area::Leaves);
                    }
                }
            }
        })
    }

    /// Frees up to `budget` nodes of all shards that nobody can hold any more; hands out their values. With an empty
    /// map, pools give back what they keep.
    pub(crate) fn reclaim_all<V>(&self, budget: usize, values: &mut Vec<V>, empty: bool) -> usize {
        let mut freed = 0;
        // A shard that is at work reclaims by itself.
        for mut inner in self.idle_shards() {
            self.seal(&mut inner);
            let before = freed;
            freed += self.reclaim_shard(&mut inner, budget - freed, values);
            if empty {
                inner.pool.drain(&self.depot);
            } else if freed - before >= MUCH {
                // A compaction, most likely: what pools keep of it would hold the pages of all of it.
                inner.pool.drain_nodes(&self.depot);
            }
            if freed >= budget {
                break;
            }
        }
        if empty || freed >= MUCH {
            self.depot.arena(|arena| arena.release_free(usize::MAX));
        }
        freed
    }

    /// Gives back what pools keep; whether there was anything.
    pub(crate) fn drain_pools(&self) -> bool {
        let mut found = false;
        for mut inner in self.idle_shards() {
            found |= inner.pool.bytes() > 0;
            inner.pool.drain(&self.depot);
        }
        found
    }

    /// Sums over shards that are all held.
    pub(crate) fn sums(shards: &[Held<'_>]) -> (Counts, usize, usize) {
        let mut counts = Counts::default();
        let (mut pooled, mut overhead) = (0, 0);
        for held in shards {
            counts.add(&held.inner.counts);
            pooled += held.inner.pool.bytes();
            overhead += held.inner.pool.overhead();
        }
        (counts, pooled, overhead)
    }

    /// What operations met so far.
    pub(crate) fn contended(&self) -> Contended {
        let mut sum = Contended::default();
        for shard in &self.shards {
            let one = sync::lock(&shard.inner).contended;
            sum.operations += one.operations;
            sum.met += one.met;
            sum.waited += one.waited;
        }
        sum
    }
}

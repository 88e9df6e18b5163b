//! Garbage: unlinked nodes wait for readers, and then their memory is used again.

use alloc::vec::Vec;

use sapwood_arena::Area;

use super::lock::LockContention;
use super::shard::{Garbage, Inner};
use super::writer_pool::WriterPool;
use crate::Contention;
use crate::raw::compact::pages_for;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::node::LEAF;
use crate::raw::tree::{LEAF_KIND, ref_of};
use crate::sync;

/// The number of nodes that a shard collects before it asks for a grace period, because all writers
/// share the domain's counters.
const BATCH: usize = 64;
/// The number of bytes that a shard collects before it asks for a grace period, because a chunk of
/// the index has the bytes of thousands of leaves.
const BATCH_BYTES: usize = 8 << 10;
/// The number of nodes that an operation tries to free where garbage is limited and each operation
/// asks for a grace period. It is more than an operation unlinks.
const BUDGET_LIMITED: usize = 8;

/// The number of nodes that may leave whole pages when they are freed at once.
const MUCH: usize = 4096;

impl WriterPool {
    /// Retires a leaf that was unlinked.
    ///
    /// # Safety
    /// The leaf, with a value `V`, is unlinked, and this is the only call for it.
    pub(crate) unsafe fn retire_leaf<V: ?Sized + Value>(&self, inner: &mut Inner, cell: u32) {
        // SAFETY: the caller's promise.
        let bytes = unsafe { LeafOf::<V>::block(self.pointer(cell)) };
        inner.retire_node(cell, bytes, LEAF_KIND);
    }

    /// Ends an operation. If the shard has collected enough garbage, it moves to the retire queue;
    /// nodes whose grace period is over are freed. Where garbage is limited, all of it moves to the
    /// queue, and the operation returns the room that it had reserved beyond that.
    pub(crate) fn settle<V: ?Sized + Value>(
        &self,
        inner: &mut Inner,
        contention: LockContention,
        values: &mut Vec<V::Held>,
    ) {
        inner.contention.operations += 1;
        if contention.locks > 0 {
            inner.contention.met_lock += 1;
            inner.contention.waited += contention.waited;
        }
        let limited = self.domain().hard_limit().is_some();
        if limited || inner.open.len() >= BATCH || inner.open_bytes >= BATCH_BYTES {
            self.seal(inner);
            let budget = if self.domain().over_soft_limit() {
                usize::MAX
            } else if limited {
                BUDGET_LIMITED
            } else {
                3 * BATCH
            };
            self.reclaim_shard::<V>(inner, budget, values);
        }
    }

    fn seal(&self, inner: &mut Inner) {
        let counted = |(garbage, bytes)| ((garbage, bytes), bytes as usize);
        inner.queue.extend(inner.open.drain(..).map(counted));
        inner.open_bytes = 0;
        inner.queue.seal();
        inner.queue.release(0);
    }

    /// Frees up to `budget` nodes of a shard that nobody can hold any more; adds their values to
    /// `values`.
    fn reclaim_shard<V: ?Sized + Value>(
        &self,
        inner: &mut Inner,
        budget: usize,
        values: &mut Vec<V::Held>,
    ) -> usize {
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
            // SAFETY: the node was unlinked a grace period ago, and the queue returns it once.
            unsafe {
                match garbage {
                    Garbage::Node(cell) if cell & LEAF != 0 => {
                        // A value without a destructor is not read again, because its cache line
                        // has left the cache.
                        if LeafOf::<V>::NEEDS_DROP {
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

    /// Frees up to `budget` nodes of all shards that nobody can hold any more; adds their values to
    /// `values`. If the map is empty, pools return their free memory. After many nodes, free pages
    /// go back to the system, in proportion to the budget; the next calls go on.
    pub(crate) fn reclaim_all<V: ?Sized + Value>(
        &self,
        budget: usize,
        values: &mut Vec<V::Held>,
        empty: bool,
    ) -> usize {
        let mut freed = 0;
        // A shard whose writer is at work reclaims by itself.
        for mut inner in self.idle_shards() {
            self.seal(&mut inner);
            let before = freed;
            freed += self.reclaim_shard::<V>(&mut inner, budget - freed, values);
            if empty {
                inner.pool.drain(&self.depot);
            } else if freed - before >= MUCH {
                // This was probably a compaction. The few blocks that pools would keep of its
                // garbage would hold back all of the pages.
                inner.pool.drain_nodes(&self.depot);
            }
            if freed >= budget {
                break;
            }
        }
        self.depot
            .give_back(pages_for(budget), empty || freed >= MUCH);
        freed
    }

    /// Returns the free memory of all pools to the arena; returns whether there was any.
    pub(crate) fn drain_pools(&self) -> bool {
        let mut found = false;
        for mut inner in self.idle_shards() {
            found |= inner.pool.bytes() > 0;
            inner.pool.drain(&self.depot);
        }
        found
    }

    /// The contention of all operations so far.
    ///
    /// # Panics
    /// As [`check_not_stopped_here`](Self::check_not_stopped_here).
    pub(crate) fn contention(&self) -> Contention {
        self.check_not_stopped_here();
        let mut sum = Contention::default();
        for shard in &self.shards {
            let one = sync::lock(&shard.inner).contention;
            sum.operations += one.operations;
            sum.met_lock += one.met_lock;
            sum.waited += one.waited;
        }
        sum
    }
}

//! What each writer has for itself: free blocks, what waits for readers, counts.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

use sapwood_arena::{Area, ArenaFull, Kind, Ref};
use sapwood_qsbr::{GarbageLimit, RetireQueue};

use super::block_pool::{BlockPool, Depot};
use crate::qp::Contention;
use crate::qp::raw::tree::LEAF_KIND;
use crate::sync::{Mutex, MutexGuard};

/// Blocks in use and blocks that wait, by kind; of one shard, so each may be less than nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Blocks and bytes of branches, clusters, leaves.
    pub(crate) live: [(isize, isize); 3],
    /// Blocks and bytes that wait for readers.
    pub(crate) waiting: (isize, isize),
    /// Bytes of the point index's chunks.
    pub(crate) index: isize,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        for (sum, one) in self.live.iter_mut().zip(other.live) {
            *sum = (sum.0 + one.0, sum.1 + one.1);
        }
        self.waiting.0 += other.waiting.0;
        self.waiting.1 += other.waiting.1;
        self.index += other.index;
    }
}

/// What waits for readers.
#[derive(Clone, Copy)]
pub(super) enum Garbage {
    /// The cell of a branch or leaf.
    Node(u32),
    /// A block of the point index.
    Block(Ref),
}

/// What one writer needs, behind the shard's lock.
pub struct Inner {
    pub(crate) pool: BlockPool,
    pub(super) queue: RetireQueue<(Garbage, u32)>,
    /// What was unlinked and is not in the queue yet, with its bytes.
    pub(super) open: Vec<(Garbage, u32)>,
    /// The bytes of all of that.
    pub(super) open_bytes: usize,
    /// Entries that there are, or were some operations ago.
    pub(crate) about: usize,
    pub(crate) counts: Counts,
    pub(crate) contention: Contention,
}

pub(crate) struct Shard {
    pub(super) inner: Mutex<Inner>,
    /// Entries added less entries removed. Changed by the holder of the lock.
    pub(super) len: AtomicIsize,
    /// Odd while its writer publishes changes.
    pub(super) sequence: AtomicU64,
}

/// A shard that this thread works in.
pub struct Held<'t> {
    pub(crate) shard: &'t Shard,
    pub(crate) inner: MutexGuard<'t, Inner>,
}

impl Held<'_> {
    pub(crate) fn add_len(&mut self, by: isize) {
        let len = self.shard.len.load(Ordering::Relaxed);
        self.shard.len.store(len + by, Ordering::Relaxed);
        self.inner.about = self.inner.about.saturating_add_signed(by);
    }

    /// The stores that follow change what readers find.
    #[inline]
    pub(crate) fn begin(&self) {
        let sequence = self.shard.sequence.load(Ordering::Relaxed);
        self.shard.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// The change is whole.
    #[inline]
    pub(crate) fn end(&self) {
        let sequence = self.shard.sequence.load(Ordering::Relaxed);
        self.shard.sequence.store(sequence + 1, Ordering::Release);
    }
}

/// A number for each thread, so that threads spread over shards.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

pub(super) fn shards_of_this_machine() -> usize {
    if cfg!(any(miri, loom, shuttle)) {
        return 2;
    }
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    (threads * 4).next_power_of_two().clamp(8, 128)
}

/// The index of a kind in `Counts::live`.
pub(crate) fn place_of(kind: Kind) -> usize {
    usize::from(kind.0)
}

impl Inner {
    /// Takes a block of the point index: it is freed when no reader can be there.
    pub(crate) fn retire_block(&mut self, block: Ref, bytes: usize) {
        let bytes = (bytes + 7) & !7;
        self.counts.index -= bytes as isize;
        self.retire(Garbage::Block(block), bytes);
    }

    /// Takes a node that was unlinked.
    pub(crate) fn retire_node(&mut self, cell: u32, bytes: usize, kind: Kind) {
        self.uncount(bytes, kind);
        self.retire(Garbage::Node(cell), bytes);
    }

    #[inline]
    fn retire(&mut self, garbage: Garbage, bytes: usize) {
        self.counts.waiting.0 += 1;
        self.counts.waiting.1 += bytes as isize;
        self.open.push((garbage, bytes as u32));
        self.open_bytes += bytes;
    }

    /// Reserves room for `bytes` more garbage of the operation under way, where garbage is limited.
    ///
    /// # Errors
    /// What the operation would need in all.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), GarbageLimit> {
        if self.queue.domain().hard_limit().is_none() {
            return Ok(());
        }
        self.reserve_limited(bytes)
    }

    #[cold]
    fn reserve_limited(&mut self, bytes: usize) -> Result<(), GarbageLimit> {
        let all = self.open_bytes + bytes;
        self.queue.reserve(all).map_err(|limit| {
            let mut limit = limit;
            // What the operation has reserved goes back when it gives up.
            limit.garbage = limit.garbage.saturating_sub(self.queue.reserved());
            limit.requested = all;
            limit
        })
    }

    /// A block for a node.
    pub(crate) fn alloc(
        &mut self,
        depot: &Depot,
        bytes: usize,
        kind: Kind,
        area: Area,
    ) -> Result<Ref, ArenaFull> {
        let r = self.pool.alloc(depot, bytes, area)?;
        self.count(bytes, kind);
        Ok(r)
    }

    fn count(&mut self, bytes: usize, kind: Kind) {
        let count = &mut self.counts.live[place_of(kind)];
        count.0 += 1;
        count.1 += ((bytes + 7) & !7) as isize;
    }

    /// Gives back a block that was never published.
    ///
    /// # Safety
    /// The block came from `alloc` with these arguments, and nobody else knows it.
    pub(crate) unsafe fn free(&mut self, depot: &Depot, r: Ref, bytes: usize, kind: Kind) {
        self.uncount(bytes, kind);
        let area = if kind == LEAF_KIND {
            Area::Leaves
        } else {
            Area::Nodes
        };
        // SAFETY: the caller's promise.
        unsafe { self.pool.free(depot, r, bytes, area) };
    }

    fn uncount(&mut self, bytes: usize, kind: Kind) {
        let count = &mut self.counts.live[place_of(kind)];
        count.0 -= 1;
        count.1 -= ((bytes + 7) & !7) as isize;
    }
}

//! Shards, the state of each writer: free blocks, garbage that waits for readers, and counts.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

use sapwood_arena::{Area, ArenaFull, Kind, Ref};
use sapwood_qsbr::{GarbageLimit, RetireQueue};

use super::block_pool::{BlockPool, Depot};
use crate::Contention;
use crate::raw::tree::LEAF_KIND;
use crate::sync::{Mutex, MutexGuard};

/// The blocks in use and the blocks that wait, by kind. They are those of one shard, so each number
/// may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Numbers and bytes of the blocks of branches, clusters and leaves.
    pub(crate) live: [(isize, isize); 3],
    /// Number and bytes of the blocks that wait for readers.
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

/// A block that waits for readers.
#[derive(Clone, Copy)]
pub(super) enum Garbage {
    /// The cell of a branch or leaf.
    Node(u32),
    /// A block of the point index.
    Block(Ref),
}

/// The state of one writer, behind the shard's lock.
pub struct Inner {
    pub(crate) pool: BlockPool,
    pub(super) queue: RetireQueue<(Garbage, u32)>,
    /// Nodes and blocks that were unlinked and are not in the retire queue yet, with their bytes.
    pub(super) open: Vec<(Garbage, u32)>,
    /// The bytes of all blocks in `open`.
    pub(super) open_bytes: usize,
    /// The number of entries of the map, now or some operations ago.
    pub(crate) about: usize,
    pub(crate) counts: Counts,
    pub(crate) contention: Contention,
}

pub(crate) struct Shard {
    pub(super) inner: Mutex<Inner>,
    /// Number of entries added minus number of entries removed. The holder of the lock changes it.
    pub(super) len: AtomicIsize,
    /// A sequence number, which is odd while the shard's writer publishes a change.
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

    /// Begins the stores that change what readers find.
    #[inline]
    pub(crate) fn begin(&self) {
        let sequence = self.shard.sequence.load(Ordering::Relaxed);
        self.shard.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Ends them: the change is complete.
    #[inline]
    pub(crate) fn end(&self) {
        let sequence = self.shard.sequence.load(Ordering::Relaxed);
        self.shard.sequence.store(sequence + 1, Ordering::Release);
    }
}

/// The number of this thread, by which threads spread over shards.
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
    /// Retires a block of the point index. It is freed when no reader can hold it.
    pub(crate) fn retire_block(&mut self, block: Ref, bytes: usize) {
        let bytes = (bytes + 7) & !7;
        self.counts.index -= bytes as isize;
        self.retire(Garbage::Block(block), bytes);
    }

    /// Retires a node that was unlinked.
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
    /// The error has the room that the operation would need in all.
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
            // The room that the operation has reserved is returned when it fails.
            limit.garbage = limit.garbage.saturating_sub(self.queue.reserved());
            limit.requested = all;
            limit
        })
    }

    /// Allocates a block for a node.
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

    /// Frees a block that was never published.
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

//! The state that all writers of a map share, with a trie or without: memory, shards, limits.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use sapwood_arena::{Area, Arena, ArenaFull, Ref};
use sapwood_qsbr::{Domain, RetireQueue};

use super::block_pool::{BlockPool, Depot};
use super::ops::Lack;
use super::shard::{Counts, Garbage, Held, Inner, Shard, shards_of_this_machine, thread_number};
use crate::Contention;
use crate::raw::index::Chunks;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::mem::byte_of;
use crate::raw::node::LEAF;
use crate::raw::tree::{LEAF_KIND, leaf_cell, ref_of};
use crate::sync::{self, Mutex};

/// The memory, the shards and the limits of a map with many writers.
pub struct WriterPool {
    pub(crate) depot: Depot,
    pub(super) shards: Box<[CachePadded<Shard>]>,
    /// [`sync::this_thread`] of the thread that makes writers wait while it runs a user's query, or
    /// 0.
    stopped_by: AtomicUsize,
    domain: Domain,
    /// The greatest number of entries, and the number that there are, which is counted only if
    /// there is such a limit.
    most: Option<usize>,
    count: CachePadded<AtomicUsize>,
}

impl WriterPool {
    /// The pool of a map with `len` entries in this arena, which has a stable base. `counts` are
    /// those of the blocks in use there.
    pub(crate) fn new(
        arena: Arena,
        domain: Domain,
        most: Option<usize>,
        len: usize,
        counts: Counts,
    ) -> Self {
        let shard = |first: bool| Shard {
            inner: Mutex::new(Inner {
                pool: BlockPool::new(),
                queue: RetireQueue::new(&domain),
                open: Vec::new(),
                open_bytes: 0,
                about: len,
                counts: if first { counts } else { Counts::default() },
                contention: Contention::default(),
            }),
            len: AtomicIsize::new(if first { len as isize } else { 0 }),
            sequence: AtomicU64::new(0),
        };
        let shards = (0..shards_of_this_machine()).map(|i| CachePadded::new(shard(i == 0)));
        WriterPool {
            shards: shards.collect(),
            stopped_by: AtomicUsize::new(0),
            depot: Depot::new(arena),
            domain,
            most,
            count: CachePadded::new(AtomicUsize::new(len)),
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Number of entries. It is exact while no writer is at work. Otherwise each operation counts
    /// once, when it is done.
    pub(crate) fn len(&self) -> usize {
        let sum: isize = self
            .shards
            .iter()
            .map(|shard| shard.len.load(Ordering::Relaxed))
            .sum();
        sum.max(0) as usize
    }

    pub(crate) fn most(&self) -> Option<usize> {
        self.most
    }

    /// Reserves the place of one more entry, if the limit allows it.
    pub(crate) fn reserve_entry(&self) -> bool {
        let Some(most) = self.most else { return true };
        self.count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < most).then_some(n + 1)
            })
            .is_ok()
    }

    pub(crate) fn return_entry(&self) {
        if self.most.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn pointer(&self, cell: u32) -> *mut u8 {
        // SAFETY: cells point inside the arena.
        unsafe { self.depot.base().add(byte_of(cell)) }
    }

    /// Makes a leaf; without memory it returns the value.
    pub(crate) fn make_leaf<'a, V: ?Sized + Value>(
        &self,
        inner: &mut Inner,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<u32, (V::New<'a>, ArenaFull)> {
        let size = LeafOf::<V>::size_for(key.len(), &value);
        match inner.alloc(&self.depot, size, LEAF_KIND, Area::Leaves) {
            Ok(r) => {
                let leaf = leaf_cell(r);
                // SAFETY: a new block of that size.
                unsafe { LeafOf::<V>::write(self.pointer(leaf), key, value) };
                Ok(leaf)
            }
            Err(full) => Err((value, full)),
        }
    }

    /// Takes the value out of a leaf that was not linked, and frees the leaf.
    ///
    /// # Safety
    /// The leaf has a value `V`. Nobody else knows it, and this is its last use.
    pub(crate) unsafe fn unmake_leaf<'a, V: ?Sized + Value>(
        &self,
        inner: &mut Inner,
        leaf: u32,
        spare: V::Spare<'a>,
    ) -> V::New<'a> {
        // SAFETY: the caller's promise; the value is out before the block is freed.
        unsafe {
            let bytes = LeafOf::<V>::size(self.pointer(leaf));
            let value = LeafOf::<V>::take(self.pointer(leaf));
            inner.free(&self.depot, ref_of(leaf), (bytes + 7) & !7, LEAF_KIND);
            V::again(spare, value)
        }
    }

    /// Takes a shard to work in.
    pub(crate) fn shard(&self) -> Held<'_> {
        let own = thread_number();
        let n = self.shards.len();
        for i in 0..n {
            let shard = &*self.shards[(own + i) & (n - 1)];
            if let Some(inner) = sync::try_lock(&shard.inner) {
                return Held { shard, inner };
            }
        }
        self.check_not_stopped_here();
        let shard = &*self.shards[own & (n - 1)];
        Held {
            shard,
            inner: sync::lock(&shard.inner),
        }
    }

    /// The number of shards, which is a power of two.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Makes writers wait until the result is dropped, while this thread runs a user's query.
    ///
    /// # Panics
    /// As [`check_not_stopped_here`](Self::check_not_stopped_here).
    pub(crate) fn stop_writers(&self) -> Stopped<'_> {
        let shards = self.all_shards();
        self.stopped_by
            .store(sync::this_thread(), Ordering::Relaxed);
        Stopped {
            pool: self,
            _shards: shards,
        }
    }

    /// Whether this thread makes writers wait, in [`stop_writers`](Self::stop_writers).
    pub(crate) fn is_stopped_here(&self) -> bool {
        // Relaxed: a thread finds its own mark if and only if it has set it.
        self.stopped_by.load(Ordering::Relaxed) == sync::this_thread()
    }

    /// Refuses what would wait for this thread itself.
    ///
    /// # Panics
    /// When this thread makes writers wait, in [`stop_writers`](Self::stop_writers).
    pub(crate) fn check_not_stopped_here(&self) {
        assert!(
            !self.is_stopped_here(),
            "all writers wait while this thread runs an exact query, and the query changes the \
             same map or asks for its accounts: it would wait for itself"
        );
    }

    /// Takes all shards, so that no writer is at work.
    ///
    /// # Panics
    /// As [`check_not_stopped_here`](Self::check_not_stopped_here).
    pub(crate) fn all_shards(&self) -> Vec<Held<'_>> {
        self.check_not_stopped_here();
        let hold = |shard| Held::<'_> {
            shard,
            inner: sync::lock(&shard.inner),
        };
        self.shards.iter().map(|shard| hold(&**shard)).collect()
    }

    /// Takes all shards, unless a writer is at work now.
    pub(crate) fn try_all_shards(&self) -> Option<Vec<Held<'_>>> {
        let mut all = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let inner = sync::try_lock(&shard.inner)?;
            all.push(Held { shard, inner });
        }
        Some(all)
    }

    /// The shards whose writers are not at work now, one after the other.
    pub(super) fn idle_shards(&self) -> impl Iterator<Item = sync::MutexGuard<'_, Inner>> {
        self.shards
            .iter()
            .filter_map(|shard| sync::try_lock(&shard.inner))
    }

    /// Runs `read`; returns its result if nothing was changed meanwhile.
    pub(crate) fn undisturbed<R>(&self, read: impl FnOnce() -> R) -> Option<R> {
        let mut before = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let sequence = shard.sequence.load(Ordering::Acquire);
            if sequence % 2 == 1 {
                return None;
            }
            before.push(sequence);
        }
        let result = read();
        fence(Ordering::Acquire);
        let same = |(shard, sequence): (&CachePadded<Shard>, &u64)| {
            shard.sequence.load(Ordering::Relaxed) == *sequence
        };
        self.shards.iter().zip(&before).all(same).then_some(result)
    }

    /// The number of entries that a writer assumes after an operation. It is exact while there are
    /// few entries.
    #[inline]
    pub(crate) fn about(&self, inner: &mut Inner) -> usize {
        if inner.about < COUNT_BELOW || inner.contention.operations % COUNT_EVERY == 0 {
            inner.about = self.len();
        }
        inner.about
    }

    /// Takes the leaves that wait for readers, when no reader and no writer is left.
    pub(crate) fn take_waiting(&mut self) -> Vec<u32> {
        let mut leaves = Vec::new();
        for shard in &mut self.shards {
            let inner = match shard.inner.get_mut() {
                Ok(inner) => inner,
                Err(poisoned) => poisoned.into_inner(),
            };
            let mut waiting = core::mem::take(&mut inner.open);
            inner.queue.drain(|garbage| waiting.push(garbage));
            // Only leaves are taken: the nodes below a branch that waits are live, or wait
            // themselves.
            let cells = waiting
                .into_iter()
                .filter_map(|(garbage, _)| match garbage {
                    Garbage::Node(cell) if cell & LEAF != 0 => Some(cell),
                    _ => None,
                });
            leaves.extend(cells);
        }
        leaves
    }

    /// Bytes of the shards themselves, outside the arena.
    pub(crate) fn outside(&self) -> usize {
        self.shards.len() * size_of::<CachePadded<Shard>>()
    }

    /// The arena's accounts.
    pub(crate) fn arena_memory(&self) -> sapwood_arena::Memory {
        self.depot.arena(|arena: &mut Arena| arena.memory())
    }
}

/// The state in which writers wait for this thread's query, until this is dropped.
pub(crate) struct Stopped<'t> {
    pool: &'t WriterPool,
    _shards: Vec<Held<'t>>,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // The shards are released afterwards.
        self.pool.stopped_by.store(0, Ordering::Relaxed);
    }
}

/// The number of operations after which a writer counts the entries anew, and the number of entries
/// below which it always does. The smallest tables are full before they hold that number.
const COUNT_EVERY: u64 = 64;
const COUNT_BELOW: usize = 2048;

/// The memory of a shared index: blocks that it frees wait for readers.
pub(crate) struct Blocks<'t> {
    depot: &'t Depot,
    inner: &'t mut Inner,
    /// Why a block could not be allocated, or could not be freed.
    pub(crate) lack: Option<Lack>,
}

impl<'t> Blocks<'t> {
    #[inline(always)]
    pub(crate) fn new(depot: &'t Depot, inner: &'t mut Inner) -> Self {
        Blocks {
            depot,
            inner,
            lack: None,
        }
    }
}

impl Chunks for Blocks<'_> {
    fn base(&self) -> *mut u8 {
        self.depot.base()
    }

    fn alloc(&mut self, bytes: usize) -> Option<Ref> {
        let block = self.inner.pool.alloc(self.depot, bytes, Area::Leaves);
        let block = block.map_err(|full| self.lack = Some(full.into())).ok()?;
        self.inner.counts.index += ((bytes + 7) & !7) as isize;
        Some(block)
    }

    fn may_free(&mut self, bytes: usize) -> bool {
        let reserved = self.inner.reserve(bytes);
        reserved
            .map_err(|limit| self.lack = Some(limit.into()))
            .is_ok()
    }

    unsafe fn free(&mut self, block: Ref, bytes: usize) {
        self.inner.retire_block(block, bytes);
    }

    unsafe fn discard(&mut self, block: Ref, bytes: usize) {
        let Inner { pool, counts, .. } = self.inner;
        let bytes = (bytes + 7) & !7;
        counts.index -= bytes as isize;
        // SAFETY: the caller's promise.
        unsafe { pool.free(self.depot, block, bytes, Area::Leaves) };
    }
}

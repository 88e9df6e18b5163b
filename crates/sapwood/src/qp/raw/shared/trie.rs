//! What the users of a shared trie have in common: the root, slots and their locks, the shards.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use sapwood_arena::Kind;
use sapwood_qsbr::{Domain, RetireQueue};

use super::lock::{Met, Parking};
use super::pool::{Depot, POOLED, Pool};
use super::shard::{
    Contended, Counts, Garbage, Held, Inner, Shard, place_of, shards_of_this_machine, thread_number,
};
use crate::qp::raw::bulk::drop_values;
use crate::qp::raw::index::Index;
use crate::qp::raw::leaf::LeafOf;
use crate::qp::raw::mem::{Live, byte_of};
use crate::qp::raw::node::{self, BIG, Branch, LEAF};
use crate::qp::raw::tree::{BIG_KIND, LEAF_KIND, SMALL_KIND, Tree};
use crate::qp::raw::view::View;
use crate::sync::{self, Mutex};

/// Where a cell is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Root,
    Child { branch: u32, index: usize },
}

/// The root cell and its lock.
struct Root {
    cell: AtomicU32,
    word: sync::AtomicU32,
}

/// See the module.
pub(crate) struct Trie<V> {
    root: CachePadded<Root>,
    pub(crate) depot: Depot,
    pub(crate) parking: Parking,
    pub(super) shards: Box<[CachePadded<Shard>]>,
    domain: Domain,
    /// The most entries, and how many there are; counted only when there is a most.
    most: Option<usize>,
    count: CachePadded<AtomicUsize>,
    /// Where in the arena others find the root cell, in bytes from the base.
    published: Option<usize>,
    pub(crate) compaction: Mutex<super::compact::Compaction>,
    /// The point index, if there is one. It holds a new leaf before the trie does, and an old one until after.
    pub(crate) index: Option<Index<V, true>>,
}

// SAFETY: the trie owns its values; `&V` goes to other threads (Sync), and who reclaims drops (Send).
unsafe impl<V: Send + Sync> Send for Trie<V> {}
// SAFETY: as above. Nodes are changed by the protocol of the module only.
unsafe impl<V: Send + Sync> Sync for Trie<V> {}

impl<V> Trie<V> {
    /// A shared trie of a tree's entries, whose arena has a stable base.
    pub(crate) fn new(
        mut tree: Tree<V>,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> Self {
        let memory = tree.arena.memory();
        let mut counts = Counts::default();
        for kind in [SMALL_KIND, BIG_KIND, LEAF_KIND] {
            let account = &memory.kinds[place_of(kind)];
            counts.live[place_of(kind)] = (account.count as isize, account.bytes as isize);
            tree.arena.lend_all(kind, POOLED);
        }
        let (root, len) = (tree.root, tree.len);
        let shard = |first: bool| Shard {
            inner: Mutex::new(Inner {
                pool: Pool::new(),
                queue: RetireQueue::new(&domain),
                open: Vec::new(),
                about: len,
                counts: if first { counts } else { Counts::default() },
                contended: Contended::default(),
            }),
            len: AtomicIsize::new(if first { len as isize } else { 0 }),
            sequence: AtomicU64::new(0),
        };
        let shards = (0..shards_of_this_machine()).map(|i| CachePadded::new(shard(i == 0)));
        let trie = Trie {
            root: CachePadded::new(Root {
                cell: AtomicU32::new(root),
                word: sync::AtomicU32::new(0),
            }),
            shards: shards.collect(),
            depot: Depot::new(tree.into_arena()),
            parking: Parking::new(),
            domain,
            most,
            count: CachePadded::new(AtomicUsize::new(len)),
            published: None,
            compaction: Mutex::default(),
            index,
        };
        trie.fill_index(len);
        trie
    }

    /// Keeps the root cell also in the arena, in the aligned word at so many bytes from the base, for others to read.
    pub(crate) fn publish(&mut self, at: usize) {
        self.published = Some(at);
        self.publish_root(self.root.cell.load(Ordering::Relaxed));
    }

    fn publish_root(&self, cell: u32) {
        if let Some(at) = self.published {
            // SAFETY: a word of the arena's header, which only atomics use.
            let word = unsafe { AtomicU64::from_ptr(self.depot.base().add(at).cast()) };
            word.store(u64::from(cell), Ordering::Release);
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// What readers see, from the root as it is now.
    ///
    /// # Safety
    /// For `'g`, this thread holds a guard of the trie's domain, or no writer is at work.
    #[inline(always)]
    pub(crate) unsafe fn view<'g>(&self) -> View<'g, V, Live> {
        let mem = Live {
            base: self.depot.base(),
        };
        sync::point();
        // SAFETY: nodes that can be reached now are freed only a grace period after they were unlinked.
        unsafe { View::new(mem, self.root.cell.load(Ordering::Acquire)) }
    }

    /// Entries: exact when no writer is at work; else each operation counts once, when it is done.
    pub(crate) fn len(&self) -> usize {
        let sum: isize = self
            .shards
            .iter()
            .map(|shard| shard.len.load(Ordering::Relaxed))
            .sum();
        sum.max(0) as usize
    }

    /// Whether there is no entry.
    pub(crate) fn is_vacant(&self) -> bool {
        self.root.cell.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn most(&self) -> Option<usize> {
        self.most
    }

    /// Takes the place of an entry more, if there may be one.
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

    /// # Safety
    /// `cell` is a branch that is not freed.
    #[inline(always)]
    pub(crate) unsafe fn branch(&self, cell: u32) -> Branch {
        // SAFETY: the caller's promise.
        unsafe { Branch::at(self.pointer(cell)) }
    }

    /// The lock word of a slot: the root's, or the header of the branch.
    ///
    /// # Safety
    /// The branch is not freed.
    #[inline(always)]
    pub(crate) unsafe fn word(&self, slot: Slot) -> &sync::AtomicU32 {
        match slot {
            Slot::Root => &self.root.word,
            // SAFETY: a branch begins with its header; the caller's promise.
            Slot::Child { branch, .. } => unsafe { &*self.pointer(branch).cast() },
        }
    }

    /// What is in a slot.
    ///
    /// # Safety
    /// The branch is not freed and has the child.
    #[inline(always)]
    pub(crate) unsafe fn load(&self, slot: Slot) -> u32 {
        match slot {
            Slot::Root => self.root.cell.load(Ordering::Acquire),
            // SAFETY: the caller's promise.
            Slot::Child { branch, index } => unsafe { self.branch(branch).cell(index) },
        }
    }

    /// Puts a cell into a slot: what it refers to is published.
    ///
    /// # Safety
    /// As for `load`; this thread holds the slot's lock, and the cell's node is whole.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, slot: Slot, cell: u32) {
        sync::point();
        match slot {
            Slot::Root => {
                self.root.cell.store(cell, Ordering::Release);
                self.publish_root(cell);
            }
            // SAFETY: the caller's promise.
            Slot::Child { branch, index } => unsafe { self.branch(branch).set_cell(index, cell) },
        }
    }

    /// Locks a slot if it still holds `cell`.
    ///
    /// # Safety
    /// As for `load`.
    #[inline]
    pub(crate) unsafe fn lock_slot(&self, slot: Slot, cell: u32, met: &mut Met) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let word = self.word(slot);
            if self.parking.acquire(word, met).is_none() {
                met.locks += 1;
                return false;
            }
            if self.load(slot) != cell {
                self.parking.release(word);
                met.locks += 1;
                return false;
            }
        }
        true
    }

    /// # Safety
    /// This thread holds the slot's lock.
    #[inline]
    pub(crate) unsafe fn unlock_slot(&self, slot: Slot) {
        // SAFETY: locked branches are not freed.
        self.parking.release(unsafe { self.word(slot) });
    }

    /// A shard to work in.
    pub(crate) fn shard(&self) -> Held<'_> {
        let own = thread_number();
        let n = self.shards.len();
        for i in 0..n {
            let shard = &*self.shards[(own + i) & (n - 1)];
            if let Some(inner) = sync::try_lock(&shard.inner) {
                return Held { shard, inner };
            }
        }
        let shard = &*self.shards[own & (n - 1)];
        Held {
            shard,
            inner: sync::lock(&shard.inner),
        }
    }

    /// All shards, so that no writer is at work.
    pub(crate) fn all_shards(&self) -> Vec<Held<'_>> {
        let hold = |shard| Held::<'_> {
            shard,
            inner: sync::lock(&shard.inner),
        };
        self.shards.iter().map(|shard| hold(&**shard)).collect()
    }

    /// Runs `read`, and gives its result if nothing was changed meanwhile.
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

    /// Bytes of a node, and what it counts as.
    ///
    /// # Safety
    /// The cell's node is whole.
    pub(crate) unsafe fn block(&self, cell: u32) -> (usize, Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            if cell & LEAF != 0 {
                let size = LeafOf::<V>::size(LeafOf::<V>::key_len(self.pointer(cell)));
                ((size + 7) & !7, LEAF_KIND)
            } else {
                let h = self.branch(cell).h;
                let kind = if h & BIG == 0 { SMALL_KIND } else { BIG_KIND };
                (node::block_of(h), kind)
            }
        }
    }

    /// Empties the trie; no reader and no writer is left.
    fn drop_all(&mut self) {
        let mut values = Vec::new();
        for shard in &mut self.shards {
            let inner = match shard.inner.get_mut() {
                Ok(inner) => inner,
                Err(poisoned) => poisoned.into_inner(),
            };
            let mut waiting = core::mem::take(&mut inner.open);
            inner.queue.drain(|garbage| waiting.push(garbage));
            // Leaves only: what a branch that waits refers to is live, or waits as well.
            values.extend(
                waiting
                    .into_iter()
                    .filter_map(|(garbage, _)| match garbage {
                        Garbage::Node(cell) if cell & LEAF != 0 => Some(cell),
                        _ => None,
                    }),
            );
        }
        let root = self.root.cell.load(Ordering::Relaxed);
        values.extend((root != 0).then_some(root));
        // SAFETY: `&mut self`: each leaf is below the root or waited, and nobody uses them afterwards.
        unsafe { drop_values::<V>(self.depot.base(), values) };
    }
}

impl<V> Drop for Trie<V> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

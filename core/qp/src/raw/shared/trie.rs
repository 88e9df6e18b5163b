//! The shared trie: its root, its slots and their locks.

use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use sapwood_arena::Kind;
use sapwood_qsbr::Domain;

use crate::raw::bulk::drop_values;
use crate::raw::index::Index;
use crate::raw::leaf::{LeafOf, Value};
use crate::raw::mem::Live;
use crate::raw::node::{Branch, LEAF};
use crate::raw::tree::{BRANCH_KIND, CLUSTER_KIND, LEAF_KIND, Tree, block_of};
use crate::raw::view::View;
use crate::raw::writers::block_pool::POOLED;
use crate::raw::writers::lock::{LockContention, Parking};
use crate::raw::writers::shard::{Counts, Inner, place_of};
use crate::raw::writers::writer_pool::WriterPool;
use crate::sync::{self, Mutex};

/// The place of a cell: the root, or a child of a branch.
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

/// A trie that many writers change: see the parent module.
pub struct Trie<V: ?Sized + Value> {
    root: CachePadded<Root>,
    writers: WriterPool,
    pub(crate) parking: Parking,
    /// The place in the arena where the root cell is published for others, in bytes from the base.
    published: Option<usize>,
    /// Whether slots of clusters may die, as all readers know dead slots.
    pub(super) slots_die: bool,
    pub(crate) compaction: Mutex<super::compact::Compaction>,
    /// The point index, if there is one. It has a new leaf before the trie has it, and an old leaf
    /// until after the trie has lost it.
    pub(crate) index: Option<Index<V, true>>,
}

// SAFETY: the trie owns its values; `&V` goes to other threads (Sync), and the thread that reclaims
// drops values (Send).
unsafe impl<V: ?Sized + Value + Send + Sync> Send for Trie<V> {}
// SAFETY: as above. Nodes change only by the protocol of the module.
unsafe impl<V: ?Sized + Value + Send + Sync> Sync for Trie<V> {}

impl<V: ?Sized + Value> Trie<V> {
    /// A shared trie over the nodes of a tree, whose arena must have a stable base.
    pub(crate) fn new(
        mut tree: Tree<V>,
        domain: Domain,
        most: Option<usize>,
        index: Option<Index<V, true>>,
    ) -> Self {
        let memory = tree.arena.memory();
        let mut counts = Counts::default();
        for kind in [BRANCH_KIND, CLUSTER_KIND, LEAF_KIND] {
            let account = &memory.kinds[place_of(kind)];
            counts.live[place_of(kind)] = (account.count as isize, account.bytes as isize);
            tree.arena.lend_all(kind, POOLED);
        }
        let (root, len) = (tree.root, tree.len);
        let trie = Trie {
            root: CachePadded::new(Root {
                cell: AtomicU32::new(root),
                word: sync::AtomicU32::new(0),
            }),
            writers: WriterPool::new(tree.into_arena(), domain, most, len, counts),
            parking: Parking::new(),
            published: None,
            slots_die: true,
            compaction: Mutex::default(),
            index,
        };
        trie.fill_index(len);
        trie
    }

    /// From now on publishes the root cell also in the arena, in the aligned word at `at` bytes
    /// from the base, for others to read. They may find dead slots only if they know them.
    pub(crate) fn publish(&mut self, at: usize, know_dead: bool) {
        self.published = Some(at);
        self.slots_die = know_dead;
        self.publish_root(self.root.cell.load(Ordering::Relaxed));
    }

    fn publish_root(&self, cell: u32) {
        if let Some(at) = self.published {
            // SAFETY: a word of the arena's header, which is accessed only as an atomic.
            let word = unsafe { AtomicU64::from_ptr(self.depot.base().add(at).cast()) };
            word.store(u64::from(cell), Ordering::Release);
        }
    }

    /// A view of the trie, from the root as it is now.
    ///
    /// # Safety
    /// For `'g`, this thread holds a guard of the trie's domain, or no writer is at work.
    #[inline(always)]
    pub(crate) unsafe fn view<'g>(&self) -> View<'g, V, Live> {
        let mem = Live {
            base: self.depot.base(),
        };
        sync::point();
        // SAFETY: nodes that the root reaches now are freed only a grace period after they were
        // unlinked.
        unsafe { View::new(mem, self.root.cell.load(Ordering::Acquire)) }
    }

    /// The root cell; 0 if there is no entry.
    pub(super) fn root(&self) -> u32 {
        self.root.cell.load(Ordering::Relaxed)
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

    /// The cell in a slot.
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

    /// Stores a cell in a slot, which publishes its node.
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
    pub(crate) unsafe fn lock_slot(
        &self,
        slot: Slot,
        cell: u32,
        contention: &mut LockContention,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let word = self.word(slot);
            if self.parking.acquire(word, contention).is_none() {
                contention.locks += 1;
                return false;
            }
            if self.load(slot) != cell {
                self.parking.release(word);
                contention.locks += 1;
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

    /// Retires a node that was unlinked. It is freed when no reader can hold it.
    ///
    /// # Safety
    /// The node is whole and unlinked, and this is the only call for it.
    pub(super) unsafe fn retire_node(&self, inner: &mut Inner, cell: u32) {
        // SAFETY: the caller's promise.
        let (bytes, kind) = unsafe { self.block(cell) };
        inner.retire_node(cell, bytes, kind);
    }

    /// Bytes and kind of a node.
    ///
    /// # Safety
    /// The cell's node is whole.
    pub(crate) unsafe fn block(&self, cell: u32) -> (usize, Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            if cell & LEAF != 0 {
                (LeafOf::<V>::block(self.pointer(cell)), LEAF_KIND)
            } else {
                // Both begin with their header.
                block_of(cell, self.branch(cell).h)
            }
        }
    }

    /// Drops all values; no reader and no writer is left.
    fn drop_all(&mut self) {
        let mut values = self.writers.take_waiting();
        let root = self.root.cell.load(Ordering::Relaxed);
        values.extend((root != 0).then_some(root));
        // SAFETY: `&mut self`: each leaf is below the root or waited, and nobody uses them
        // afterwards.
        unsafe { drop_values::<V>(self.depot.base(), values) };
    }
}

impl<V: ?Sized + Value> Deref for Trie<V> {
    type Target = WriterPool;

    #[inline(always)]
    fn deref(&self) -> &WriterPool {
        &self.writers
    }
}

impl<V: ?Sized + Value> Drop for Trie<V> {
    fn drop(&mut self) {
        self.drop_all();
    }
}

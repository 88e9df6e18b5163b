//! Versions of a store: what a commit publishes and retires, and when the retired nodes are freed.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use sapwood_arena::{Arena, ArenaFull, ArenaOptions, Backing, FEW_BLOCKS, PAGE, ROOTS_AT};
use sapwood_format::header;
use sapwood_format::inline::HELD_MAX;
use sapwood_qsbr::{Domain, GarbageLimit, Guard, RetireQueue};

use super::change::Tops;
use super::compact::{Compaction, pages_for};
use super::inline::{EntryRef, Held, Inline};
use super::leaf::{LeafOf, Value};
use super::mem::Trusted;
use super::node::{self, FRESH, INLINE, KIND, LEAF, is_leaf};
use super::order::Order;
use super::path::Path;
use super::tree::{Cow, LEAF_KIND, Policy, Tree, block_at, ref_of};
use super::verify;
use super::view::{Subtree, View};
use zerocopy::{FromBytes, Immutable};

use crate::QpView;
use crate::garbage;
use crate::kept::{KeptVersion, Versions};
use crate::sync::{self, WriterGuard, WriterLock};

/// The least number of nodes that a commit tries to free.
const RECLAIM_LEAST: usize = 64;

/// A transaction that has unlinked fewer of its own nodes keeps them to its end.
const DEAD_FROM: usize = 256;

/// One version: the root cell and the number of entries, which are published in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) cell: u32,
    /// Number of entries. References have 31 bits, so there are fewer leaves than 2^31.
    pub(crate) len: u32,
}

impl Root {
    fn word(self) -> u64 {
        u64::from(self.len) << 32 | u64::from(self.cell)
    }

    fn from_word(word: u64) -> Self {
        Root {
            cell: word as u32,
            len: (word >> 32) as u32,
        }
    }
}

/// The state that all handles of a store share.
pub(crate) struct StoreShared<V: ?Sized + Value> {
    /// The newest committed version. Only commits write it. It has a cache line of its own, for
    /// readers.
    published: crossbeam_utils::CachePadded<AtomicU64>,
    base: *mut u8,
    /// Whether clusters hold their entries.
    inline: bool,
    /// The place in the arena's header where the newest version is also published for others.
    header: Option<usize>,
    domain: Domain,
    writer: WriterLock<Writer<V>>,
    versions: Arc<Versions>,
}

// SAFETY: `base` is the arena's, which the writer owns; readers use it only to read published
// nodes.
unsafe impl<V: ?Sized + Value + Send + Sync> Send for StoreShared<V> {}
// SAFETY: as above; `&V` goes to other threads (Sync), and the thread that reclaims drops (Send).
unsafe impl<V: ?Sized + Value + Send + Sync> Sync for StoreShared<V> {}

/// Where the value is that a change of a transaction replaced or removed.
#[derive(Clone, Copy)]
pub(crate) enum Old {
    /// In a leaf.
    Leaf(u32),
    /// In the writer's copy, of this many bytes.
    Copy { bytes: usize },
}

/// The state of the writer, behind its lock.
pub(crate) struct Writer<V: ?Sized + Value> {
    pub(crate) tree: Tree<V>,
    pub(crate) cow: Cow,
    queue: RetireQueue<u32>,
    pub(crate) compaction: Compaction,
    /// Pages at which nobody looked since a compaction retired nodes in them.
    unseen: usize,
    /// A copy of the value that was replaced or removed last, if it was in an inline cluster.
    old: [MaybeUninit<u64>; HELD_MAX / 8 + 1],
    /// Whether the memory stays as it is when the store is dropped: that of a file, for others.
    leaves: bool,
}

impl<V: ?Sized + Value> StoreShared<V> {
    /// A store over a tree whose arena has a stable base.
    pub(crate) fn new(mut tree: Tree<V>, domain: Domain) -> Self {
        assert!(
            tree.arena.is_stable(),
            "{}",
            sapwood_common::raw::memory::NEEDS_STABLE
        );
        // Versions share leaves, so leaves cannot lie in the order of each version.
        tree.order = Order::default();
        let root = Root {
            cell: tree.root,
            len: tree.len as u32,
        };
        StoreShared {
            published: AtomicU64::new(root.word()).into(),
            base: tree.arena.base(),
            inline: tree.inline,
            header: None,
            writer: WriterLock::new(Writer {
                queue: RetireQueue::new(&domain),
                tree,
                cow: Cow::default(),
                compaction: Compaction::default(),
                unseen: 0,
                old: [MaybeUninit::uninit(); HELD_MAX / 8 + 1],
                leaves: false,
            }),
            versions: Versions::new(&domain),
            domain,
        }
    }

    /// From now on publishes the newest version also in the arena, in the aligned word at `at`
    /// bytes from the base, for others to read: the root cell in the lower half, the number of
    /// entries in the upper one.
    pub(crate) fn publish_at(&mut self, at: usize) {
        self.header = Some(at);
        let mut writer = self.writer.lock();
        let backing = writer.tree.arena.options().chosen_backing();
        writer.leaves = matches!(backing, Backing::File(_) | Backing::Memfd);
        drop(writer);
        self.publish(Root::from_word(self.published.load(Ordering::Relaxed)));
    }

    /// Makes a version the newest one.
    fn publish(&self, root: Root) {
        self.published.store(root.word(), Ordering::Release);
        if let Some(at) = self.header {
            // SAFETY: a word of the arena's header, which is accessed only as an atomic.
            let word = unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) };
            word.store(root.word(), Ordering::Release);
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The newest version, as long as the guard is held. It takes one load and is wait-free.
    ///
    /// # Panics
    /// When the guard is one of another domain.
    #[inline]
    pub(crate) fn view<'g>(&'g self, guard: Guard<'g>) -> (View<'g, V>, usize) {
        assert!(
            guard.belongs_to(&self.domain),
            "{}",
            sapwood_common::raw::FOREIGN_GUARD
        );
        sync::point();
        let root = Root::from_word(self.published.load(Ordering::Acquire));
        // SAFETY: nodes of a published version are freed only a grace period after the commit that
        // unlinked them; the guard holds that grace period back.
        (unsafe { self.at(root) }, root.len as usize)
    }

    /// Number of entries of the newest version.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        Root::from_word(self.published.load(Ordering::Acquire)).len as usize
    }

    /// # Safety
    /// The version is kept alive for `'g`.
    unsafe fn at<'g>(&self, root: Root) -> View<'g, V> {
        // SAFETY: the caller's promise; published branches never change.
        unsafe { View::new(Trusted { base: self.base }, root.cell) }
    }

    #[track_caller]
    pub(crate) fn write(&self) -> WriterGuard<'_, Writer<V>> {
        self.writer.lock()
    }

    pub(crate) fn try_write(&self) -> Option<WriterGuard<'_, Writer<V>>> {
        self.writer.try_lock()
    }

    /// Publishes the writer's tree as the newest version and queues the nodes that it retires;
    /// returns the version's number.
    pub(crate) fn commit(&self, writer: &mut Writer<V>) -> u64 {
        let root = Root {
            cell: writer.tree.root,
            len: writer.tree.len as u32,
        };
        if writer.cow.fresh.is_empty() && writer.cow.retired.is_empty() {
            let published = Root::from_word(self.published.load(Ordering::Relaxed));
            if published == root {
                return self.version();
            }
        }
        for &cell in &writer.cow.fresh {
            if !is_leaf(cell) {
                // SAFETY: fresh nodes are allocated until the end of the transaction, and nobody
                // reads them.
                unsafe {
                    let h = writer.tree.header(cell);
                    node::set_header(writer.tree.pointer(cell), h & !FRESH);
                }
            }
        }
        let version = {
            let mut versions = self.versions.lock();
            sync::point();
            self.publish(root);
            let version = versions.publish();
            versions.retire(writer.cow.retired_bytes);
            version
        };
        writer.queue_retired(version);
        writer.free_dead();
        writer.cow.fresh.clear();
        version
    }

    /// Resets the tree to the newest committed version and frees the nodes of the transaction; adds
    /// their values to `values`.
    pub(crate) fn roll_back(&self, writer: &mut Writer<V>, values: &mut Vec<V::Held>) {
        let root = Root::from_word(self.published.load(Ordering::Relaxed));
        writer.queue.release(0);
        let Writer { tree, cow, .. } = writer;
        tree.root = root.cell;
        tree.len = root.len as usize;
        cow.dead.clear();
        cow.retired.clear();
        cow.retired_bytes = 0;
        for cell in cow.fresh.drain(..) {
            // SAFETY: made by this transaction, seen by nobody else; each node is in the list once.
            unsafe {
                if is_leaf(cell) {
                    values.push(tree.take_leaf(cell));
                } else {
                    let (bytes, kind) = tree.block(cell);
                    tree.arena.free(ref_of(cell), bytes, kind);
                }
            }
        }
    }

    /// Frees up to `budget` nodes that nobody can hold any more; adds their values to `values`.
    pub(crate) fn reclaim(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        values: &mut Vec<V::Held>,
    ) -> usize {
        if writer.queue.is_empty() {
            return 0;
        }
        let (_, oldest) = self.versions.lock().bounds();
        let Writer { tree, queue, .. } = writer;
        // A node that version `r` retired may be part of any version before `r`.
        let freed = queue.reclaim_while(
            budget,
            |_, version| version <= oldest,
            // SAFETY: unlinked by a commit whose grace period is over, and no snapshot is older.
            |cell| unsafe { tree.free_retired(cell, values) },
        );
        if tree.arena.is_unused() {
            writer.emptied();
        }
        freed
    }

    /// Reserves room for `bytes` more garbage of the open transaction, by the domain's policy.
    pub(crate) fn admit(
        &self,
        writer: &mut Writer<V>,
        bytes: usize,
        values: &mut Vec<V::Held>,
    ) -> Result<(), GarbageLimit> {
        garbage::admit(
            &self.domain,
            writer,
            |writer| bytes + writer.cow.retired_bytes,
            |writer| &mut writer.queue,
            |writer| {
                self.reclaim(writer, usize::MAX, values);
                !writer.queue.is_empty()
            },
        )
    }

    /// The number of nodes that a commit of the open transaction tries to free: all, if the store
    /// becomes empty.
    pub(crate) fn reclaim_budget(&self, writer: &Writer<V>) -> usize {
        if self.domain.over_soft_limit() || writer.tree.root == 0 {
            usize::MAX
        } else {
            RECLAIM_LEAST.max(2 * writer.cow.retired.len())
        }
    }

    /// The number of the newest version.
    pub(crate) fn version(&self) -> u64 {
        self.versions.newest()
    }

    /// Keeps the newest version alive.
    pub(crate) fn keep(self: &Arc<Self>) -> Kept<V> {
        let root = || Root::from_word(self.published.load(Ordering::Acquire));
        let (version, root) = self.versions.keep(root);
        Kept {
            shared: Arc::clone(self),
            root,
            version,
        }
    }

    /// The list of versions that snapshots keep.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }
}

impl<'g, V: ?Sized + Value + FromBytes + Immutable + Send + Sync> QpView<'g, V> {
    /// A view of the newest version of a store that a process publishes
    /// ([`Builder::build_in`](crate::Builder::build_in)), in memory that is mapped here at `base`.
    /// It takes one load and is wait-free. For a crate that makes grace periods wait for readers in
    /// other processes, as `sapwood-live` does.
    ///
    /// # Safety
    /// The memory begins with the header page of a store with these values, which was published. It
    /// stays mapped for `'g`, and for as long the writer frees nothing that its newest version
    /// reaches now.
    #[inline]
    pub unsafe fn of_published(base: NonNull<u8>) -> QpView<'g, V> {
        let at = ROOTS_AT + 8 * header::ROOT;
        // SAFETY: a word of the header page, which is accessed only as an atomic.
        let word = unsafe { AtomicU64::from_ptr(base.as_ptr().add(at).cast()) };
        let root = Root::from_word(word.load(Ordering::Acquire));
        let memory = Trusted {
            base: base.as_ptr(),
        };
        // SAFETY: the caller's promise; published branches never change.
        QpView::of(unsafe { View::new(memory, root.cell) }, root.len as usize)
    }
}

/// A version that a snapshot keeps alive.
pub(crate) struct Kept<V: ?Sized + Value> {
    shared: Arc<StoreShared<V>>,
    root: Root,
    version: KeptVersion,
}

impl<V: ?Sized + Value> Kept<V> {
    pub(crate) fn view(&self) -> View<'_, V> {
        // SAFETY: while the version is in the list of snapshots, nothing that it reaches is freed.
        unsafe { self.shared.at(self.root) }
    }

    pub(crate) fn len(&self) -> usize {
        self.root.len as usize
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.number()
    }

    pub(crate) fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether both are versions of a store with inline clusters, and these are two values with the
    /// same bytes. In such a store entries move, so nothing else says whether one was written.
    pub(crate) fn has_same(&self, other: &Self, old: &V, new: &V) -> bool {
        if !self.shared.inline || !self.same_store(other) {
            return false;
        }
        let bytes = |value: &V| {
            let p: *const V = value;
            ptr::slice_from_raw_parts(p.cast::<u8>(), size_of_val(value))
        };
        // SAFETY: a store has inline clusters only if its values have no padding and do not change.
        unsafe { *bytes(old) == *bytes(new) }
    }
}

impl<V: ?Sized + Value> Clone for Kept<V> {
    fn clone(&self) -> Self {
        Kept {
            shared: Arc::clone(&self.shared),
            root: self.root,
            version: self.version.clone(),
        }
    }
}

impl<V: ?Sized + Value> Writer<V> {
    /// Counts the nodes that the transaction retired, and queues them.
    fn queue_retired(&mut self, version: u64) {
        let Writer {
            tree, cow, queue, ..
        } = self;
        for cell in cow.retired.drain(..) {
            // SAFETY: retired nodes are whole until they are freed.
            let (bytes, kind) = unsafe { tree.block(cell) };
            tree.arena.retire(bytes, kind);
            queue.push(cell, bytes);
        }
        cow.retired_bytes = 0;
        queue.seal_tagged(version);
    }

    /// Gives the memory back of a store that has no node in any version, but not the last page.
    #[cold]
    fn emptied(&mut self) {
        if self.tree.arena.committed() > PAGE {
            self.tree.arena.give_back_free();
            self.queue.give_back();
            let Cow {
                fresh,
                dead,
                retired,
                ..
            } = &mut self.cow;
            for list in [fresh, dead, retired] {
                list.shrink_to_fit();
            }
        }
    }

    /// Frees the branches and clusters that the transaction made and unlinked.
    fn free_dead(&mut self) {
        for cell in self.cow.dead.drain(..) {
            // SAFETY: no version has the node.
            unsafe {
                let (bytes, kind) = self.tree.block(cell);
                self.tree.arena.free(ref_of(cell), bytes, kind);
            }
        }
    }

    /// Frees the same nodes before the end of the transaction if they are most of what it made.
    /// Else one transaction that fills a store would take several times its memory, as clusters
    /// are written anew while they grow. O(1) on average for each node made, but for a sort.
    #[inline]
    fn free_dead_early(&mut self) {
        let Cow { fresh, dead, .. } = &mut self.cow;
        if dead.len() >= DEAD_FROM && dead.len() >= fresh.len() / 2 {
            self.free_dead_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn free_dead_now(&mut self) {
        let Cow { fresh, dead, .. } = &mut self.cow;
        dead.sort_unstable();
        fresh.retain(|cell| dead.binary_search(cell).is_err());
        self.free_dead();
    }

    /// Inserts or replaces in the open transaction; returns where the old value is, if any.
    pub(crate) fn put<'a>(
        &mut self,
        key: &[u8],
        value: V::New<'a>,
    ) -> Result<Option<Old>, (V::New<'a>, ArenaFull)> {
        self.free_dead_early();
        self.expect_nodes(self.cow.fresh.len());
        let Writer { tree, cow, .. } = self;
        let path = tree.view().path(key);
        let old = path.as_ref().map(|path| path.near);
        let old = old.and_then(|near| near.part.is_none().then_some(near.entry));
        match (old, path) {
            (Some(old), Some(path)) if old.is_held() => {
                return self.put_over(key, path, value).map(Some);
            }
            (None, Some(mut path)) if tree.inline => {
                tree.link_inline(cow, key, &mut path, value)?
            }
            (_, path) => {
                let spare = V::spare(&value);
                let leaf = tree.make_leaf(key, value)?;
                let linked = match path {
                    None => {
                        tree.root = leaf;
                        Ok(())
                    }
                    // SAFETY: the path is the key's; the leaf is new.
                    Some(path) if old.is_some() => unsafe { tree.replace(cow, &path, leaf) },
                    // SAFETY: as above.
                    Some(mut path) => unsafe { tree.link_new(cow, key, &mut path, leaf) },
                };
                if let Err(full) = linked {
                    // SAFETY: the leaf is neither linked nor listed.
                    let value = unsafe { tree.take_leaf(leaf) };
                    return Err((V::again(spare, value), full));
                }
                cow.made(leaf);
            }
        }
        if let Some(old) = old {
            self.gone_leaf(old.cell());
            return Ok(Some(Old::Leaf(old.cell())));
        }
        self.tree.len += 1;
        Ok(None)
    }

    /// Replaces the value of an entry of an inline cluster.
    fn put_over<'a>(
        &mut self,
        key: &[u8],
        path: Path,
        value: V::New<'a>,
    ) -> Result<Old, (V::New<'a>, ArenaFull)> {
        // SAFETY: the path is the key's, which is there. Inline clusters of stores have values
        // without drops.
        unsafe {
            let old = self.keep_old(&path);
            let Writer { tree, cow, .. } = self;
            match old {
                Old::Leaf(leaf) => {
                    tree.rewrite_outside(cow, key, &path, value)?;
                    self.gone_leaf(leaf);
                }
                Old::Copy { bytes } if !V::VARIES || bytes == V::slot_behind(&value) => {
                    tree.write_over(cow, &path, value)?;
                }
                Old::Copy { .. } => tree.rewrite_inline(cow, key, path, value)?,
            }
            Ok(old)
        }
    }

    /// Copies the value at the end of a path, unless it is in a leaf; returns where it is.
    ///
    /// # Safety
    /// The path ends in an inline cluster of the trie as it is now.
    unsafe fn keep_old(&mut self, path: &Path) -> Old {
        // SAFETY: the caller's promise; the copy has room for all values of inline clusters.
        unsafe {
            let block = Inline::of(self.tree.cluster(path.end));
            match block.held::<V>(path.near.index) {
                Held::Leaf(leaf) => Old::Leaf(leaf),
                Held::Here { tail, len } => {
                    let slot = Inline::slot::<V>(tail, len);
                    let bytes = match V::VARIES {
                        true => V::slot_len(slot),
                        false => V::ENTRIES.head,
                    };
                    assert!(bytes <= size_of_val(&self.old));
                    ptr::copy_nonoverlapping(slot, self.old.as_mut_ptr().cast(), bytes);
                    Old::Copy { bytes }
                }
            }
        }
    }

    /// Removes a key in the open transaction; returns where its value is, if it was there.
    pub(crate) fn take(&mut self, key: &[u8]) -> Result<Option<Old>, ArenaFull> {
        self.free_dead_early();
        let Some(path) = self.tree.view().path_of_present(key) else {
            return Ok(None);
        };
        let entry = path.near.entry;
        // SAFETY: the path is the key's, which is there.
        let old = unsafe {
            if entry.is_held() {
                let old = self.keep_old(&path);
                self.tree.remove_inline(&mut self.cow, key, &path)?;
                old
            } else {
                self.tree.unlink_at(&mut self.cow, key, &path)?;
                Old::Leaf(entry.cell())
            }
        };
        self.tree.len -= 1;
        if let Old::Leaf(leaf) = old {
            self.gone_leaf(leaf);
        }
        Ok(Some(old))
    }

    /// Removes the entries whose keys start with `prefix` in the open transaction; returns their
    /// number.
    pub(crate) fn take_prefix(&mut self, prefix: &[u8]) -> Result<usize, ArenaFull> {
        let (tops, some) = self.tree.unlink_prefix(&mut self.cow, prefix)?;
        let before = self.tree.len;
        let Writer { tree, cow, .. } = self;
        if let Some(Subtree { cell, from, to, .. }) = some {
            let Some(frames) = tree.view().frames_to(prefix, cell) else {
                unreachable!("a subtree lies on the path of its prefix")
            };
            // SAFETY: the block is live, and is whole until the transaction ends.
            unsafe {
                let block = Inline::of(tree.cluster(cell));
                let leaves: Tops = block.leaves::<V>(from..to).collect();
                tree.remove_run(cow, (&frames, cell), (from, to))?;
                for leaf in leaves {
                    tree.free_bits(cow, leaf);
                }
            }
            tree.len -= to - from;
        }
        for top in tops {
            tree.each_cell(top, |tree, cell| {
                // SAFETY: the nodes were unlinked just now, and each is visited once.
                unsafe {
                    match cell & KIND {
                        LEAF => tree.len -= 1,
                        INLINE => {
                            let c = tree.cluster(cell);
                            for leaf in Inline::of(c).leaves::<V>(0..c.leaves()) {
                                tree.free_bits(cow, leaf);
                            }
                            tree.len -= c.leaves();
                        }
                        _ => {}
                    }
                    tree.free_bits(cow, cell);
                }
            });
        }
        Ok(before - self.tree.len)
    }

    /// Retires a leaf that the new version does not have.
    fn gone_leaf(&mut self, leaf: u32) {
        let Writer { tree, cow, .. } = self;
        // SAFETY: the leaf is whole.
        cow.retire_leaf(leaf, || unsafe { LeafOf::<V>::block(tree.pointer(leaf)) });
    }

    /// The value that the last change of the open transaction replaced or removed. It lives until
    /// the next one.
    pub(crate) fn value(&self, old: Old) -> &V {
        match old {
            Old::Leaf(leaf) => self.tree.value_at(EntryRef::leaf(leaf)),
            // SAFETY: the copy is that of a slot, and is aligned as the greatest of them.
            Old::Copy { .. } => unsafe { &*V::slot_value(self.old.as_ptr().cast()) },
        }
    }

    /// Chooses how memory comes from the system for a transaction that makes so many nodes.
    #[inline]
    pub(crate) fn expect_nodes(&mut self, count: usize) {
        self.tree.arena.use_small_pages(count < FEW_BLOCKS);
    }

    /// One step of compaction in the open transaction; returns whether there is more to do. See
    /// [`Compaction`].
    pub(crate) fn compact_step(&mut self, budget: usize) -> Result<bool, ArenaFull> {
        self.expect_nodes(budget);
        let Writer {
            tree,
            cow,
            compaction,
            ..
        } = self;
        let more = compaction.step(tree, cow, budget)?;
        if !more {
            // The sweep gave back only what was free already.
            self.unseen = tree.arena.high().div_ceil(PAGE);
        }
        Ok(more)
    }

    /// Gives free pages back to the system, in proportion to the budget, when all nodes are freed
    /// that a compaction retired. The next calls go on.
    pub(crate) fn give_back(&mut self, budget: usize) {
        if self.queue.is_empty() && self.unseen > 0 {
            let pages = pages_for(budget).min(self.unseen);
            self.tree.arena.release_free(pages);
            self.unseen -= pages;
        }
    }

    /// Number and bytes of the nodes that wait to be freed.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.bytes())
    }

    /// Checks the tree and the accounts.
    pub(crate) fn verify(&self) -> Result<(), alloc::string::String> {
        let memory = self.tree.arena.memory();
        if memory.retired != self.queue.bytes() {
            return Err(alloc::format!(
                "{} bytes are retired, but {} wait in the queue",
                memory.retired,
                self.queue.bytes()
            ));
        }
        verify::tree(&self.tree, &[])
    }
}

impl<V: ?Sized + Value> Tree<V> {
    /// Bytes and kind of a node's block.
    ///
    /// # Safety
    /// The cell is a whole node.
    pub(crate) unsafe fn block(&self, cell: u32) -> (usize, sapwood_arena::Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_leaf(cell) {
                (LeafOf::<V>::block(self.pointer(cell)), LEAF_KIND)
            } else {
                block_at(self.arena.base(), cell, self.header(cell))
            }
        }
    }

    /// Frees a retired node; adds a leaf's value to `values`.
    ///
    /// # Safety
    /// The node is unlinked, counted as retired, and nobody can hold it any more.
    unsafe fn free_retired(&mut self, cell: u32, values: &mut Vec<V::Held>) {
        // SAFETY: the caller's promise; the value is out before the block is freed.
        unsafe {
            let (bytes, kind) = self.block(cell);
            if is_leaf(cell) && LeafOf::<V>::NEEDS_DROP {
                values.push(LeafOf::<V>::take(self.pointer(cell)));
            }
            self.arena.free_retired(ref_of(cell), bytes, kind);
        }
    }
}

impl<V: ?Sized + Value> Drop for Writer<V> {
    /// Frees all nodes that wait: without a handle there are no readers and no snapshots. If other
    /// processes read the memory, it stays as it is.
    fn drop(&mut self) {
        let mut values = Vec::new();
        let Writer {
            tree,
            queue,
            leaves,
            ..
        } = self;
        if *leaves {
            // The values are plain bytes, which have nothing to drop.
            queue.drain(|_| ());
            let empty = Tree::new(Arena::new(ArenaOptions::default()));
            drop(core::mem::replace(tree, empty).into_arena());
            return;
        }
        // SAFETY: as above.
        queue.drain(|cell| unsafe { tree.free_retired(cell, &mut values) });
    }
}

/// An arena for a store: its base does not move.
pub(crate) fn stable_arena(options: ArenaOptions) -> Result<Arena, ArenaFull> {
    let mut arena = Arena::new(options);
    // The base is known after the first use.
    arena.set_roots([0; 8])?;
    Ok(arena)
}

//! A map: the published tree, and the writer behind its lock.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use sapwood_arena::{Arena, ArenaOptions, Ref};
use sapwood_qsbr::{Domain, GarbageLimit, Guard};

use super::below::leaves_below;
use super::draft::Draft;
use super::entries::Limits;
use super::node::{LEAF, Leaf, Mem, RESERVED, VALUE, leaf_holds};
use super::path::Root;
use super::read::has_native;
use super::seen::Published;
use super::space::Space;
use super::txn::Txn;
use super::unknown::Unknown;
use super::values::{Apart, Values};
use super::verify::Check;
use super::view::View;
use crate::figures;
use crate::garbage::{self, Block, SEAL};
use crate::kept::{KeptVersion, Versions};
use crate::split::Split;
use crate::sync::{WriterGuard, WriterLock};
use sapwood_format::maple::word::Word;

/// The state that all handles of a map share.
pub(crate) struct MapleShared<V, W: Word> {
    pub(super) published: Published,
    /// How values are split.
    pub(crate) split: Split<V, W>,
    domain: Domain,
    versions: Arc<Versions>,
    writer: WriterLock<Writer<V, W>>,
}

// SAFETY: the base points into the arena, which the writer owns; readers use it only to read
// published nodes.
unsafe impl<V: Send + Sync, W: Word> Send for MapleShared<V, W> {}
// SAFETY: as above; `&V` goes to other threads (Sync), and the thread that reclaims drops (Send).
unsafe impl<V: Send + Sync, W: Word> Sync for MapleShared<V, W> {}

/// The writing side, behind its lock.
pub(crate) struct Writer<V, W> {
    pub(crate) space: Space,
    pub(crate) limits: Limits,
    pub(super) draft: Draft<W>,
    /// The newest draft, until it is carried out, with its number: a plan of that draft is not
    /// stale.
    pub(super) newest: Option<Drafted<W>>,
    /// The transaction under way: then the root and the number of entries are its own.
    pub(super) txn: Option<Txn>,
    pub(super) drafts: u64,
    /// Snapshots may see the newest tree, so that its inner nodes must stay as they are.
    pub(super) kept: bool,
    /// Blocks of the change under way.
    pub(super) nodes: Vec<u32>,
    pub(super) gone: Vec<Block>,
    pub(crate) root: Root,
    pub(crate) len: usize,
    pub(crate) unknown: Unknown,
    values: PhantomData<V>,
}

// SAFETY: the blocks' addresses are in the arena, which the writer owns.
unsafe impl<V: Send, W: Word> Send for Writer<V, W> {}

/// A draft: its number, and what it makes an entry (`put`) or a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drafted<W> {
    pub(crate) number: u64,
    pub(crate) range: (W, W),
    pub(crate) put: bool,
}

/// The configuration of a map.
pub(crate) struct Config<V, W> {
    pub(crate) options: ArenaOptions,
    pub(crate) values: Values,
    pub(crate) split: Split<V, W>,
    pub(crate) leaf: usize,
    pub(crate) fanout: usize,
}

impl<V, W: Word> MapleShared<V, W> {
    pub(crate) fn new(config: Config<V, W>, domain: Domain) -> Self {
        let arena = Arena::new(config.options.clone());
        MapleShared::new_in(arena, config, domain, None)
    }

    /// A map in an arena. With `header`, others find it by the words at that offset of the arena's
    /// header page, which is there.
    pub(crate) fn new_in(
        arena: Arena,
        config: Config<V, W>,
        domain: Domain,
        header: Option<usize>,
    ) -> Self {
        let (values, slot) = match config.values {
            Values::InSlots => (Values::InSlots, size_of::<V>()),
            _ => (Values::Apart, size_of::<u32>()),
        };
        let limits = Limits {
            leaf: config.leaf,
            least: leaf_holds::<W>(config.leaf, slot, W::WIDEST).div_ceil(2),
            fanout: config.fanout,
            slot,
            shifts: config.split.shifts(),
            roomy: false,
        };
        limits.check();
        let largest = limits.largest::<W>();
        MapleShared {
            published: Published {
                root: CachePadded::default(),
                base: AtomicPtr::new(match header {
                    Some(_) => arena.base(),
                    None => core::ptr::null_mut(),
                }),
                len: AtomicUsize::new(0),
                values,
                slot,
                native: has_native(),
                frozen: false,
                settles: false,
                header,
            },
            split: config.split,
            versions: Versions::new(&domain),
            writer: WriterLock::new(Writer {
                space: Space::new(arena, &domain, largest, Apart::<V>::BYTES),
                unknown: Unknown::new::<W>(&limits, values == Values::Apart),
                limits,
                draft: Draft::<W>::new(),
                newest: None,
                txn: None,
                drafts: 0,
                kept: false,
                nodes: Vec::new(),
                gone: Vec::new(),
                root: Root::EMPTY,
                len: 0,
                values: PhantomData,
            }),
            domain,
        }
    }

    /// The configuration of another map like this one.
    ///
    /// A copy of a published map is not published: two maps cannot be in one file.
    pub(crate) fn config(&self, writer: &Writer<V, W>) -> Config<V, W> {
        let options = match self.published.header {
            Some(_) => {
                let mut memory = crate::builder::memory();
                memory.limit = writer.space.arena.options().chosen_limit();
                memory.stable()
            }
            None => writer.space.arena.options().clone(),
        };
        Config {
            options,
            values: self.published.values,
            split: self.split,
            leaf: writer.limits.leaf,
            fanout: writer.limits.fanout,
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    pub(crate) fn len(&self) -> usize {
        self.published.len.load(Ordering::Acquire)
    }

    #[track_caller]
    pub(crate) fn write(&self) -> WriterGuard<'_, Writer<V, W>> {
        self.writer.lock()
    }

    /// Whether this thread has the writer's lock.
    pub(crate) fn is_written_here(&self) -> bool {
        self.writer.is_held_here()
    }

    pub(crate) fn try_write(&self) -> Option<WriterGuard<'_, Writer<V, W>>> {
        self.writer.try_lock()
    }

    /// The newest map at each step, while the guard is held.
    ///
    /// # Panics
    /// When the guard is of another domain.
    #[inline]
    pub(crate) fn view<'g>(&'g self, guard: Guard<'g>) -> View<'g, V, W> {
        assert!(
            guard.belongs_to(&self.domain),
            "{}",
            sapwood_common::raw::FOREIGN_GUARD
        );
        // SAFETY: what the root reaches is freed only a grace period after it was unlinked, and the
        // guard holds that grace period back.
        unsafe { View::new(&self.published) }
    }

    /// The map while its writer makes no change; in a transaction, as that has made it.
    pub(crate) fn still<'w>(&'w self, writer: &'w Writer<V, W>) -> View<'w, V, W> {
        let tree = match &writer.txn {
            Some(txn) => &txn.published,
            None => &self.published,
        };
        // SAFETY: only changes through the writer free anything.
        unsafe { View::new(tree) }
    }

    /// The snapshots.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Keeps the tree as it is. Until the snapshot is dropped, changes copy the inner nodes that
    /// they would change in place.
    pub(crate) fn keep(
        self: &Arc<Self>,
        writer: &mut Writer<V, W>,
        dropped: &mut Vec<V>,
    ) -> Snapshot<V, W> {
        // Blocks that were retired before are tagged with this version, which does not reach them.
        self.reclaim(writer, 0, dropped);
        let (version, published) = self.versions.keep(|| self.published.freeze());
        writer.kept = true;
        // Plans of drafts that would change nodes in place are stale.
        writer.newest = None;
        Snapshot {
            published,
            version,
            shared: Arc::clone(self),
        }
    }

    /// Makes the tree of the writer the one that readers see.
    pub(super) fn publish_root(&self, writer: &Writer<V, W>) {
        let base = writer.space.mem().0;
        self.published.base.store(base, Ordering::Relaxed);
        self.published.publish_root(writer.root);
    }

    pub(super) fn publish_len(&self, writer: &Writer<V, W>) {
        self.published.publish_len(writer.len);
    }

    /// Reserves room for `bytes` more garbage, by the domain's policy.
    pub(super) fn admit(
        &self,
        writer: &mut Writer<V, W>,
        bytes: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), GarbageLimit> {
        garbage::admit(
            &self.domain,
            writer,
            |writer| bytes + writer.space.garbage.unqueued(),
            |writer| writer.space.garbage.queue(),
            |writer| {
                self.reclaim(writer, usize::MAX, dropped);
                !writer.space.garbage.is_empty()
            },
        )
    }

    /// Frees up to `budget` blocks that nobody can reach any more; hands out their values.
    pub(crate) fn reclaim(
        &self,
        writer: &mut Writer<V, W>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> usize {
        let bounds = self.versions.lock().bounds();
        let freed = writer.space.reclaim(budget, bounds, |arena, r| {
            let p = Mem(arena.base()).at(r);
            // SAFETY: the block holds a value that was unlinked, and whose grace period is over.
            unsafe {
                dropped.push(Apart::<V>::place(p).read());
                if let Some(r) = Ref::new(r) {
                    arena.free_retired(r, Apart::<V>::BYTES, VALUE);
                }
            }
        });
        if writer.len == 0 && writer.space.arena.is_unused() {
            // No reservation counts on room in the lists.
            writer.gone.shrink_to(0);
            writer.nodes.shrink_to(0);
        }
        freed
    }

    /// Frees some garbage of earlier changes, at the end of every change and at the start of every
    /// reservation.
    pub(crate) fn tidy(&self, writer: &mut Writer<V, W>, dropped: &mut Vec<V>) {
        if writer.len == 0 {
            self.reclaim(writer, usize::MAX, dropped);
        } else if writer.space.garbage.is_due(writer.space.arena.live()) {
            self.reclaim(writer, 4 * SEAL, dropped);
        }
    }
}

impl<V, W: Word> Writer<V, W> {
    pub(crate) fn mem(&self) -> Mem {
        self.space.mem()
    }

    /// Bytes of the lists outside the arena in which reservations make room.
    pub(crate) fn room(&self) -> usize {
        self.gone.capacity() * size_of::<Block>() + self.space.garbage.room()
    }

    /// The number of leaves.
    pub(crate) fn leaves(&self) -> usize {
        self.space.arena.memory().kinds[LEAF.0 as usize].count
    }
}

impl<V, W: Word> MapleShared<V, W> {
    /// Walks the tree and compares the sums with the arena's accounts.
    pub(crate) fn verify(&self, writer: &Writer<V, W>) -> Result<(), String> {
        let apart = self.published.values == Values::Apart;
        let mut check = Check::<W>::new(writer.mem(), &writer.limits, apart);
        check.in_txn = writer.txn.is_some();
        // SAFETY: the tree is the writer's.
        unsafe { check.tree(writer.root)? };
        if writer.txn.is_some() {
            // Two trees share nodes, of which the accounts count each once.
            let (met, counted) = (check.entries, writer.len);
            return match met == counted {
                true => Ok(()),
                false => Err(format!("{met} entries, but {counted} are counted")),
            };
        }
        if check.entries != writer.len || check.entries != self.len() {
            return Err(format!(
                "{} entries, but {} are counted and {} published",
                check.entries,
                writer.len,
                self.len()
            ));
        }
        check.accounts(&writer.space.arena)?;
        let reserved = figures::kind(&writer.space.arena.memory(), RESERVED).0;
        if !writer.unknown.is_held() && writer.unknown.held() != 0 {
            return Err("blocks are held for no store".into());
        }
        if reserved < writer.unknown.held() {
            return Err("fewer blocks are reserved than held".into());
        }
        Ok(())
    }
}

/// A version of a map that is kept, with all nodes that it reaches.
pub(crate) struct Snapshot<V, W: Word> {
    published: Published,
    version: KeptVersion,
    shared: Arc<MapleShared<V, W>>,
}

impl<V, W: Word> Snapshot<V, W> {
    #[inline]
    pub(crate) fn view(&self) -> View<'_, V, W> {
        // SAFETY: while the version is in the list of snapshots, nothing that it reaches is freed;
        // the arena lives as long as what all handles share.
        unsafe { View::new(&self.published) }
    }
}

impl<V, W: Word> Clone for Snapshot<V, W> {
    fn clone(&self) -> Self {
        Snapshot {
            published: self.published.freeze(),
            version: self.version.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<V, W: Word> Drop for MapleShared<V, W> {
    fn drop(&mut self) {
        if self.published.values == Values::InSlots || !core::mem::needs_drop::<V>() {
            return;
        }
        let slot = self.published.slot;
        let writer = self.writer.get_mut();
        let mem = writer.mem();
        let mut values: Vec<V> = Vec::new();
        let mut take = |r: u32| {
            // SAFETY: nobody has a handle any more, so nobody reads; each value is met once.
            values.push(unsafe { Apart::<V>::place(mem.at(r)).read() });
        };
        writer.space.garbage.drain(|block| {
            if block.kind() == VALUE {
                take(block.at());
            }
        });
        if writer.root.node != 0 {
            // SAFETY: the tree is live.
            unsafe {
                leaves_below(
                    mem,
                    writer.root.node,
                    writer.root.height,
                    &mut |_, leaf: Leaf<W>| {
                        for k in 0..leaf.len() {
                            take(leaf.slot(k, slot).cast::<u32>().read());
                        }
                    },
                );
            }
        }
    }
}

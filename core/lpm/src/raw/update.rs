//! Changes that are published one by one, changes of the open transaction, and when their garbage
//! is freed.

use alloc::vec::Vec;
use core::hash::Hash;
use core::ops::Range;

use sapwood_arena::{ArenaFull, Ref};
use sapwood_qsbr::GarbageLimit;

use super::blocks::{Blocks, area};
use super::node::VALUE;
use super::pages::{self, page_bytes, pages_of, publish_page, save_page};
use super::root::{Overlay, Root, Target};
use super::table::FibShared;
use super::values;
use super::writer::Writer;
use crate::family::Key;
use crate::garbage::{self, Block, SEAL};
use crate::kept::Numbers;
use crate::sync::{self, MutexGuard};
use sapwood_format::lpm::Word;

/// The result of an insertion.
pub(crate) type Put<V> = Result<Option<u32>, (V, crate::Error)>;

impl<V: Eq + Hash> FibShared<V> {
    /// Reserves room for `bytes` more garbage and the value of one prefix, by the domain's policy.
    pub(super) fn admit(
        &self,
        writer: &mut Writer<V>,
        bytes: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), GarbageLimit> {
        garbage::admit(
            &self.domain,
            writer,
            |writer| {
                let values = (writer.taken.len() + 1) * values::bytes::<V>();
                bytes + values + writer.retired_bytes + writer.garbage.unqueued()
            },
            |writer| writer.garbage.queue(),
            |writer| {
                self.reclaim(writer, usize::MAX, dropped);
                !writer.garbage.is_empty()
            },
        )
    }

    /// Frees up to `budget` blocks that nobody can reach any more; hands out their values.
    pub(crate) fn reclaim(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> usize {
        if writer.garbage.is_empty() {
            return 0;
        }
        let bounds = {
            let mut versions = self.versions.lock();
            versions.retire(writer.garbage.unqueued());
            versions.bounds()
        };
        let Writer {
            blocks, garbage, ..
        } = writer;
        // SAFETY: unlinked by a version whose grace period is over, and no snapshot is older.
        let freed = garbage.reclaim(budget, bounds, |block| unsafe {
            free_retired(blocks, block, dropped)
        });
        if writer.len == 0 && !writer.blocks.marks && writer.garbage.is_empty() {
            writer.emptied(self.root_block());
        }
        freed
    }

    /// How many of the pages of these slots a change has to save for snapshots.
    #[inline]
    fn unsaved(&self, versions: &Numbers, slots: &Range<usize>) -> usize {
        let (Some(heads), Some(kept)) = (self.heads(), versions.newest_kept()) else {
            return 0;
        };
        let heads = &heads[pages_of(slots)];
        heads.iter().filter(|head| head.is_in_root(kept)).count()
    }

    /// Reserves room for `bytes` more garbage, and saves the pages of these slots for snapshots.
    /// Until the lock is released nobody makes a snapshot.
    fn make_ready<'a>(
        &'a self,
        writer: &mut Writer<V>,
        slots: &Range<usize>,
        bytes: usize,
        dropped: &mut Vec<V>,
    ) -> Result<MutexGuard<'a, Numbers>, crate::Error> {
        self.admit(writer, bytes, dropped)?;
        let versions = self.versions.lock();
        match self.unsaved(&versions, slots) {
            0 => Ok(versions),
            lacking => {
                drop(versions);
                self.make_ready_with_pages(writer, slots, (bytes, lacking), dropped)
            }
        }
    }

    /// [`make_ready`](Self::make_ready) where there is a snapshot that lacks this many pages.
    #[cold]
    #[inline(never)]
    fn make_ready_with_pages<'a>(
        &'a self,
        writer: &mut Writer<V>,
        slots: &Range<usize>,
        (bytes, mut lacking): (usize, usize),
        dropped: &mut Vec<V>,
    ) -> Result<MutexGuard<'a, Numbers>, crate::Error> {
        let ready = loop {
            let garbage = bytes + lacking * page_bytes(self.root());
            if let Err(limit) = self.admit(writer, garbage, dropped) {
                break Err(limit.into());
            }
            let made = (writer.spare.len()..lacking).try_for_each(|_| {
                let page = writer.blocks.page(self.root())?;
                writer.spare.push(page);
                Ok::<(), ArenaFull>(())
            });
            if let Err(full) = made {
                break Err(full.into());
            }
            let versions = self.versions.lock();
            lacking = self.unsaved(&versions, slots);
            if lacking <= writer.spare.len() {
                break Ok(versions);
            }
        };
        if let Ok(versions) = &ready {
            self.save(versions, writer, slots);
        }
        for page in core::mem::take(&mut writer.spare) {
            // SAFETY: a block that was not used.
            unsafe { writer.blocks.free_page(self.root(), page) };
        }
        ready
    }

    /// Saves the pages of these slots into the spare blocks, which are enough.
    fn save(&self, versions: &Numbers, writer: &mut Writer<V>, slots: &Range<usize>) {
        let (Some(heads), Some(kept)) = (self.heads(), versions.newest_kept()) else {
            return;
        };
        let root = self.root();
        for page in pages_of(slots) {
            if !heads[page].is_in_root(kept) {
                continue;
            }
            let Some(r) = writer.spare.pop() else {
                unreachable!("as many blocks as pages to save");
            };
            // SAFETY: a new block. It is retired with the version that is published next, so it
            // stays as long as earlier ones are kept.
            unsafe { save_page(self.mem, root, heads, page, (r, versions.next())) };
            let block = pages::block_of(root, r);
            writer
                .garbage
                .retire(&mut writer.blocks.arena, block, block.bytes());
        }
    }

    /// Publishes the pages of the open transaction, under the lock of the versions.
    pub(super) fn publish_pages(&self, versions: &Numbers, writer: &mut Writer<V>) {
        let root = self.root();
        let kept = self.heads().zip(versions.newest_kept());
        for (page, r) in writer.overlay.take() {
            let heads = kept.map_or(&[][..], |(heads, _)| heads);
            let saves = kept.is_some_and(|(heads, kept)| heads[page].is_in_root(kept));
            let until = saves.then(|| versions.next());
            // SAFETY: the transaction's block. As for `save`, if it keeps the former words.
            unsafe { publish_page(self.mem, root, heads, page, (r, until)) };
            if saves {
                let block = pages::block_of(root, r);
                writer.retired.push((block, block.bytes()));
            } else {
                // SAFETY: nobody else knows the block.
                unsafe { writer.blocks.free_page(root, r) };
            }
        }
    }

    /// Publishes the change or the open transaction. `words` stores words of the root; it holds the
    /// lock under which snapshots are made.
    pub(super) fn publish(
        &self,
        writer: &mut Writer<V>,
        locked: Option<MutexGuard<'_, Numbers>>,
        words: impl FnOnce(&Numbers, &mut Writer<V>),
    ) {
        writer.blocks.arena.use_zeros();
        let mut versions = locked.unwrap_or_else(|| self.versions.lock());
        words(&versions, writer);
        sync::point();
        self.publish_head(writer.root_prefixes, writer.len);
        versions.publish();
        drop(versions);
        writer.settle();
    }

    /// Inserts or replaces the value of a prefix, in the open transaction or published at once.
    /// Returns the old value's block, which lives on while `writer` is held.
    pub(crate) fn put<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: V,
        dropped: &mut Vec<V>,
    ) -> Put<V> {
        let mem = self.mem;
        if let Some(block) = writer.values.find(mem, &value) {
            return match self.set(writer, at, block, dropped) {
                Ok(old) => {
                    // The caller drops it without the lock.
                    if core::mem::needs_drop::<V>() {
                        dropped.push(value);
                    }
                    Ok(old)
                }
                Err(error) => Err((value, error)),
            };
        }
        let added = writer.values.add(&mut writer.blocks.arena, value);
        let added = added.or_else(|(value, full)| {
            if writer.blocks.arena.failed_by_injection() {
                return Err((value, full));
            }
            // The free blocks of the pool may make room.
            writer.blocks.clear_pool();
            writer.values.add(&mut writer.blocks.arena, value)
        });
        let block = added.map_err(|(value, full)| (value, full.into()))?;
        self.set(writer, at, block, dropped).map_err(|error| {
            writer.values.forget(mem, block);
            // SAFETY: no prefix has it, nobody saw it.
            let value = unsafe { values::free_new(mem, &mut writer.blocks.arena, block) };
            (value, error)
        })
    }

    /// Removes a prefix. Returns its value's block, as [`put`](Self::put) does.
    pub(crate) fn take<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        self.set(writer, at, 0, dropped)
    }

    fn set<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: u32,
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        let bits = self.bits();
        if writer.blocks.marks {
            let mut overlay = core::mem::take(&mut writer.overlay);
            let mut target = Over {
                shared: self,
                root: self.root(),
                overlay: &mut overlay,
                dropped,
            };
            let done = writer.apply(&mut target, bits, at, value);
            writer.overlay = overlay;
            return done.map(|old| (old != 0).then_some(old));
        }
        writer.blocks.arena.use_zeros();
        let mut target = Locked {
            shared: self,
            root: self.root(),
            dropped,
            locked: None,
        };
        let done = writer.apply(&mut target, bits, at, value);
        if done.as_ref().is_ok_and(|old| *old != value) {
            self.publish(writer, target.locked, |_, _| ());
            writer.garbage.release();
            self.grow_if_due::<K>(writer);
        } else {
            writer.garbage.release();
        }
        done.map(|old| (old != 0).then_some(old))
    }

    /// Copies the nodes below a root word into other memory.
    pub(crate) fn move_nodes(
        &self,
        writer: &mut Writer<V>,
        slot: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), crate::Error> {
        let word = self.root().get(slot);
        // SAFETY: a word's child is live.
        let new = match unsafe { writer.blocks.copy_nodes(word.child()) } {
            Ok(new) => new,
            Err(full) => {
                writer.blocks.undo();
                return Err(full.into());
            }
        };
        let ready = self.make_ready(writer, &(slot..slot + 1), writer.gone_bytes(), dropped);
        let locked = match ready {
            Ok(locked) => locked,
            Err(refused) => {
                writer.blocks.undo();
                return Err(refused);
            }
        };
        self.publish(writer, Some(locked), |_, _| {
            self.root().set(slot, word.with_child(new))
        });
        writer.leave_gone();
        writer.garbage.release();
        self.tidy(writer, dropped);
        Ok(())
    }

    /// Frees some garbage of earlier changes, at the end of every single change.
    pub(crate) fn tidy(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        if writer.len == 0 {
            self.reclaim(writer, usize::MAX, dropped);
        } else if writer.garbage.is_due(writer.blocks.arena.live()) {
            self.reclaim(writer, 4 * SEAL, dropped);
        }
    }
}

/// The published root, for a change that is published at once.
struct Locked<'a, V> {
    shared: &'a FibShared<V>,
    root: Root<'a>,
    dropped: &'a mut Vec<V>,
    /// The lock under which snapshots are made, from the first store on.
    locked: Option<MutexGuard<'a, Numbers>>,
}

impl<V: Eq + Hash> Target<V> for Locked<'_, V> {
    fn get(&self, slot: usize) -> Word {
        self.root.get(slot)
    }

    #[inline]
    fn set(&mut self, slot: usize, word: Word) {
        debug_assert!(self.locked.is_some());
        self.root.set(slot, word);
    }

    fn admit(
        &mut self,
        writer: &mut Writer<V>,
        slots: Range<usize>,
        bytes: usize,
    ) -> Result<(), crate::Error> {
        let ready = self.shared.make_ready(writer, &slots, bytes, self.dropped);
        self.locked = Some(ready?);
        Ok(())
    }
}

/// A transaction's words over the published ones.
struct Over<'a, V> {
    shared: &'a FibShared<V>,
    root: Root<'a>,
    overlay: &'a mut Overlay,
    dropped: &'a mut Vec<V>,
}

impl<V: Eq + Hash> Target<V> for Over<'_, V> {
    fn get(&self, slot: usize) -> Word {
        self.overlay.get(self.shared.mem, self.root, slot)
    }

    fn set(&mut self, slot: usize, word: Word) {
        self.overlay.set(self.shared.mem, slot, word);
    }

    fn admit(
        &mut self,
        writer: &mut Writer<V>,
        slots: Range<usize>,
        bytes: usize,
    ) -> Result<(), crate::Error> {
        let (root, pages) = (self.root, pages_of(&slots));
        // Snapshots that are there at the commit keep the former words of the pages.
        let pages_kept = match self.shared.versions.snapshots() {
            0 => 0,
            _ => self.overlay.count() + self.overlay.lacking(pages.clone()),
        };
        let garbage = bytes + pages_kept * page_bytes(root);
        self.shared.admit(writer, garbage, self.dropped)?;
        Ok(self.overlay.copy(&mut writer.blocks, root, pages)?)
    }
}

/// # Safety
/// The block is retired, and nobody can reach it.
unsafe fn free_retired<V>(blocks: &mut Blocks, block: Block, dropped: &mut Vec<V>) {
    // SAFETY: the caller's promise.
    unsafe {
        if block.kind() == VALUE {
            dropped.push(values::take(blocks.mem, block.at()));
            values::free::<V>(&mut blocks.arena, block.at(), true);
        } else if let Some(r) = Ref::new(block.at()) {
            let Blocks { arena, pool, .. } = blocks;
            let (bytes, kind) = (block.bytes(), block.kind());
            pool.free_retired(arena, (r, bytes, kind), area(kind));
        }
    }
}

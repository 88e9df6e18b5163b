//! Changes that are published one by one, changes of the open transaction, and when their garbage
//! is freed.

use alloc::vec::Vec;
use core::hash::Hash;

use sapwood_arena::Ref;
use sapwood_qsbr::GarbageLimit;

use super::blocks::{Blocks, area};
use super::node::VALUE;
use super::root::{Over, Overlay, Root, Target};
use super::table::FibShared;
use super::values;
use super::writer::Writer;
use crate::garbage::{self, Block, SEAL};
use crate::kept::{Numbers, Versions};
use crate::lpm::family::Key;
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

    /// Publishes the change or the open transaction.
    pub(super) fn publish(
        &self,
        writer: &mut Writer<V>,
        words: impl FnOnce(Root<'_>, &mut Overlay),
    ) {
        writer.blocks.arena.use_zeros();
        let mut versions = self.versions.lock();
        words(self.root(), &mut writer.overlay);
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
        let bits = self.bits;
        let admit = |writer: &mut Writer<V>, bytes| self.admit(writer, bytes, dropped);
        if writer.blocks.marks {
            let mut overlay = core::mem::take(&mut writer.overlay);
            let mut target = Over {
                overlay: &mut overlay,
                root: self.root(),
            };
            let done = writer.apply(&mut target, bits, at, value, admit);
            writer.overlay = overlay;
            return done.map(|old| (old != 0).then_some(old));
        }
        writer.blocks.arena.use_zeros();
        let mut target = Locked {
            root: self.root(),
            versions: &self.versions,
            locked: None,
        };
        let done = writer.apply(&mut target, bits, at, value, admit);
        if done.as_ref().is_ok_and(|old| *old != value) {
            let locked = target.locked;
            let mut versions = locked.unwrap_or_else(|| self.versions.lock());
            self.publish_head(writer.root_prefixes, writer.len);
            versions.publish();
            drop(versions);
            writer.settle();
        }
        writer.garbage.release();
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
        if let Err(limit) = self.admit(writer, writer.gone_bytes(), dropped) {
            writer.blocks.undo();
            return Err(limit.into());
        }
        self.publish(writer, |root, _| root.set(slot, word.with_child(new)));
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

/// The published root. Its first store takes the lock under which snapshots are made.
struct Locked<'a> {
    root: Root<'a>,
    versions: &'a Versions,
    locked: Option<MutexGuard<'a, Numbers>>,
}

impl Target for Locked<'_> {
    fn get(&self, slot: usize) -> Word {
        self.root.get(slot)
    }

    #[inline]
    fn set(&mut self, slot: usize, word: Word) {
        self.locked.get_or_insert_with(|| self.versions.lock());
        self.root.set(slot, word);
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

//! Changes that everybody sees at once; and when what they leave behind is freed.

use alloc::vec::Vec;
use core::hash::Hash;

use sapwood_arena::Ref;
use sapwood_qsbr::GarbageLimit;

use super::blocks::{Block, Blocks, area};
use super::node::{VALUE, Word};
use super::root::{Overlay, Root, Target};
use super::table::{Shared, Versions};
use super::values;
use super::writer::{SEAL, Writer};
use crate::lpm::family::Key;
use crate::sync::{self, MutexGuard};

/// What became of an insertion.
pub(crate) type Put<V> = Result<Option<u32>, (V, crate::Error)>;

impl<V: Eq + Hash> Shared<V> {
    /// Makes room for `bytes` more garbage, by the domain's policy.
    pub(super) fn admit(
        &self,
        writer: &mut Writer<V>,
        bytes: usize,
        dropped: &mut Vec<V>,
    ) -> Result<(), GarbageLimit> {
        if self.domain.hard_limit().is_none() && !self.domain.over_soft_limit() {
            return Ok(());
        }
        let bytes = bytes + writer.retired_bytes + writer.left_bytes;
        if self.domain.over_soft_limit() || self.domain.try_admit(bytes).is_err() {
            self.reclaim(writer, usize::MAX, dropped);
        }
        self.domain.admit_with(bytes, || {
            self.reclaim(writer, usize::MAX, dropped);
            !writer.queue.is_empty()
        })
    }

    /// Frees up to `budget` blocks that nobody can hold any more; hands out their values.
    pub(crate) fn reclaim(
        &self,
        writer: &mut Writer<V>,
        budget: usize,
        dropped: &mut Vec<V>,
    ) -> usize {
        if writer.queue.is_empty() && writer.left.is_empty() {
            return 0;
        }
        let (current, oldest) = {
            let versions = sync::lock(&self.versions);
            let oldest = versions.live.keys().next().copied();
            (versions.current, oldest.unwrap_or(u64::MAX))
        };
        writer.queue_left(current);
        let Writer { blocks, queue, .. } = writer;
        // What was retired by version r is part of all versions before r that have it.
        queue.reclaim_while(
            budget,
            |_, version| version <= oldest,
            // SAFETY: unlinked by a version whose grace period is over, and no snapshot is older.
            |block| unsafe { free_retired(blocks, block, dropped) },
        )
    }

    /// Publishes what the change or the open transaction did.
    pub(super) fn publish(
        &self,
        writer: &mut Writer<V>,
        words: impl FnOnce(Root<'_>, &mut Overlay),
    ) -> u64 {
        let mut versions = sync::lock(&self.versions);
        words(self.root(), &mut writer.overlay);
        sync::point();
        self.tell(writer.shelf, writer.len);
        versions.current += 1;
        versions.current
    }

    /// Gives a prefix a value, at once for everybody. The old value's block, which lives on while `writer` is held.
    pub(crate) fn put<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: V,
        dropped: &mut Vec<V>,
    ) -> Put<V> {
        self.with_value(writer, value, dropped, |shared, writer, value, dropped| {
            shared.set(writer, at, value, dropped)
        })
    }

    /// Takes a prefix away, at once for everybody. Its value's block, as for [`put`](Self::put).
    pub(crate) fn take<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        self.set(writer, at, 0, dropped)
    }

    /// Finds or makes the block of a value, and undoes that when the rest fails.
    pub(super) fn with_value(
        &self,
        writer: &mut Writer<V>,
        value: V,
        dropped: &mut Vec<V>,
        rest: impl FnOnce(&Self, &mut Writer<V>, u32, &mut Vec<V>) -> Result<Option<u32>, crate::Error>,
    ) -> Put<V> {
        let mem = self.mem;
        if let Some(block) = writer.values.find(mem, &value) {
            return match rest(self, writer, block, dropped) {
                Ok(old) => {
                    // Dropped without the lock.
                    if core::mem::needs_drop::<V>() {
                        dropped.push(value);
                    }
                    Ok(old)
                }
                Err(error) => Err((value, error)),
            };
        }
        let added = writer.values.add(&mut writer.blocks.arena, value);
        let added = added.or_else(|(value, _)| {
            // What is kept for nodes may make room.
            writer.blocks.clear_pool();
            writer.values.add(&mut writer.blocks.arena, value)
        });
        let block = match added {
            Ok(block) => block,
            Err((value, full)) => return Err((value, full.into())),
        };
        rest(self, writer, block, dropped).map_err(|error| {
            writer.values.forget(mem, block);
            // SAFETY: no prefix has it, nobody saw it.
            unsafe {
                let value = values::take(mem, block);
                values::free::<V>(&mut writer.blocks.arena, block, false);
                (value, error)
            }
        })
    }

    fn set<K: Key>(
        &self,
        writer: &mut Writer<V>,
        at: (K, u8),
        value: u32,
        dropped: &mut Vec<V>,
    ) -> Result<Option<u32>, crate::Error> {
        let mut versions = None;
        let mut target = Locked {
            shared: self,
            versions: &mut versions,
        };
        let old = writer.apply(&mut target, self.bits, at, value, |writer, bytes| {
            self.admit(writer, bytes, dropped)
        })?;
        if old == value {
            return Ok((old != 0).then_some(old));
        }
        let version = {
            let mut versions = versions.unwrap_or_else(|| sync::lock(&self.versions));
            self.tell(writer.shelf, writer.len);
            versions.current += 1;
            versions.current
        };
        writer.settle(version);
        Ok((old != 0).then_some(old))
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
        let version = self.publish(writer, |root, _| root.set(slot, word.with_child(new)));
        writer.leave_gone();
        writer.settle(version);
        self.tidy(writer, dropped);
        Ok(())
    }

    /// What every single change does at its end: frees some of what earlier ones left behind.
    pub(crate) fn tidy(&self, writer: &mut Writer<V>, dropped: &mut Vec<V>) {
        if writer.left.is_empty() && !writer.queue.is_empty() {
            self.reclaim(writer, 4 * SEAL, dropped);
        }
    }
}

/// The root that everybody reads; its first store takes the lock under which snapshots are made.
struct Locked<'a, 'v, V> {
    shared: &'a Shared<V>,
    versions: &'v mut Option<MutexGuard<'a, Versions>>,
}

impl<V> Target for Locked<'_, '_, V> {
    fn get(&self, slot: usize) -> Word {
        self.shared.root().get(slot)
    }

    #[inline]
    fn set(&mut self, slot: usize, word: Word) {
        self.versions
            .get_or_insert_with(|| sync::lock(&self.shared.versions));
        self.shared.root().set(slot, word);
    }
}

/// # Safety
/// The block is retired, and nobody can hold it.
unsafe fn free_retired<V>(blocks: &mut Blocks, block: Block, dropped: &mut Vec<V>) {
    // SAFETY: the caller's promise.
    unsafe {
        if block.kind() == VALUE {
            dropped.push(values::take(blocks.mem, block.at()));
            values::free::<V>(&mut blocks.arena, block.at(), true);
        } else {
            if let Some(r) = Ref::new(block.at()) {
                let Blocks { arena, pool, .. } = blocks;
                let (bytes, kind) = (block.bytes(), block.kind());
                pool.free_retired(arena, (r, bytes, kind), area(kind));
            }
        }
    }
}

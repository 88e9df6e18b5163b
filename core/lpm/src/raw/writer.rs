//! The writing side of a table, behind its lock: one change, and the garbage that it leaves.

use alloc::vec::Vec;
use core::hash::Hash;

use sapwood_arena::{Arena, PAGE, Ref};
use sapwood_qsbr::Domain;

use super::blocks::Blocks;
use super::change::Stop;
use super::compact::Compaction;
use super::node::VALUE;
use super::read::{Copied, Reading};
use super::root::{Overlay, Target};
use super::values::{self, Values};
use crate::family::Key;
use crate::garbage::{Block, Garbage};

/// The writing side, behind its lock.
pub(crate) struct Writer<V> {
    pub(crate) blocks: Blocks,
    pub(crate) values: Values<V>,
    pub(super) garbage: Garbage,
    /// Blocks that the change or the open transaction unlinked, with their bytes.
    pub(super) retired: Vec<(Block, usize)>,
    pub(super) retired_bytes: usize,
    /// Values that it gave to prefixes, and values that it took from them.
    pub(super) taken: Vec<u32>,
    pub(super) given: Vec<u32>,
    pub(super) overlay: Overlay,
    /// Blocks for pages of the root that the change under way saves.
    pub(super) spare: Vec<u32>,
    /// The first block of root prefixes, and the number of prefixes, as the open transaction has
    /// them.
    pub(super) root_prefixes: u32,
    pub(super) len: usize,
    /// The number of prefixes from which on the root is to grow.
    pub(super) grow_at: usize,
    /// The progress of an incremental compaction.
    pub(crate) compaction: Compaction,
}

// SAFETY: the blocks' pointer reaches memory of the arena, which the writer owns.
unsafe impl<V: Send> Send for Writer<V> {}

impl<V: Eq + Hash> Writer<V> {
    pub(super) fn new(arena: Arena, domain: &Domain, seed: u64) -> Self {
        Writer {
            blocks: Blocks::new(arena),
            values: Values::new(seed),
            garbage: Garbage::new(domain),
            retired: Vec::new(),
            retired_bytes: 0,
            taken: Vec::new(),
            given: Vec::new(),
            overlay: Overlay::default(),
            spare: Vec::new(),
            root_prefixes: 0,
            len: 0,
            grow_at: usize::MAX,
            compaction: Default::default(),
        }
    }

    /// Gives a prefix a value (0: removes the prefix), and returns the old one (0: none). The
    /// target gets its words when nothing can fail any more, and none when the value is the old
    /// one. The caller publishes the first block of root prefixes.
    ///
    /// The target decides about the bytes that would be retired, before any are.
    pub(super) fn apply<K: Key>(
        &mut self,
        target: &mut impl Target<V>,
        bits: u32,
        (key, len): (K, u8),
        value: u32,
    ) -> Result<u32, crate::Error> {
        let len = u32::from(len);
        let slot = key.top(bits);
        let made = if len > bits {
            let child = target.get(slot).child();
            // SAFETY: a word's child is 0 or live.
            unsafe {
                self.blocks
                    .change(child, 0, key.skip(bits), len - bits, value)
            }
        } else {
            // SAFETY: the block is 0 or live.
            unsafe {
                self.blocks
                    .change_root_prefixes(self.root_prefixes, key, len, value)
            }
        };
        let (new, old) = match made {
            Ok(made) => made,
            Err(Stop::Same(old)) => return Ok(old),
            Err(Stop::Full(full)) => {
                self.blocks.undo();
                return Err(full.into());
            }
        };
        let bytes = self.gone_bytes();
        let slots = slot..slot + (1 << bits.saturating_sub(len));
        if let Err(refused) = target.admit(self, slots.clone(), bytes) {
            self.blocks.undo();
            return Err(refused);
        }
        if len > bits {
            target.set(slot, target.get(slot).with_child(new));
        } else {
            self.root_prefixes = new;
            let (mark, seen) = match value {
                0 => self.cover(key, len),
                _ => (len + 1, value),
            };
            for slot in slots {
                let word = target.get(slot);
                // Slots that a longer prefix covers stay as they are.
                if word.mark() <= len + 1 {
                    target.set(slot, word.with_value(mark, seen));
                }
            }
        }
        self.leave_gone();
        if value != 0 {
            self.values.retain(self.blocks.mem, value);
            self.given.push(value);
        }
        if old != 0 {
            self.taken.push(old);
        }
        self.len = self.len + usize::from(value != 0) - usize::from(old != 0);
        Ok(old)
    }

    /// Bytes that the current change would retire.
    pub(super) fn gone_bytes(&self) -> usize {
        let gone = self.blocks.gone.iter();
        // SAFETY: the unlinked blocks are still live.
        let stays = |b: &&Block| !self.blocks.marks || unsafe { !self.blocks.is_fresh(**b) };
        gone.filter(stays).map(|b| b.bytes()).sum()
    }

    /// Retires the blocks that a finished change unlinked, and frees those that nobody saw.
    pub(super) fn leave_gone(&mut self) {
        self.blocks.made.clear();
        let mut gone = core::mem::take(&mut self.blocks.gone);
        for block in gone.drain(..) {
            if !self.blocks.marks {
                self.garbage
                    .retire(&mut self.blocks.arena, block, block.bytes());
            // SAFETY: live until now, and what the transaction made was seen by nobody.
            } else if unsafe { self.blocks.is_fresh(block) } {
                // SAFETY: as above; unlinked just now.
                unsafe { self.blocks.free(block) };
            } else {
                self.retired.push((block, block.bytes()));
                self.retired_bytes += block.bytes();
            }
        }
        self.blocks.gone = gone;
    }

    /// Mark and value of the longest prefix that is shorter than this one, which ends inside the
    /// root.
    fn cover<K: Key>(&self, key: K, len: u32) -> (u32, u32) {
        let mut best = (0, 0);
        let Some(most) = len.checked_sub(1) else {
            return best;
        };
        let reading = Reading {
            mem: self.blocks.mem,
            words: Copied {
                words: &[],
                root_prefixes: self.root_prefixes,
            },
            bits: 0,
            native: false,
        };
        reading.each_root_prefix(key, most as u8, |(len, value)| {
            best = (u32::from(len) + 1, value);
        });
        best
    }

    /// Hands the blocks that a published version unlinked to the garbage.
    pub(super) fn settle(&mut self) {
        let mut taken = core::mem::take(&mut self.taken);
        for value in taken.drain(..) {
            if self.values.release(self.blocks.mem, value) {
                let block = Block::new(value, VALUE, 0);
                let bytes = values::bytes::<V>();
                self.garbage.retire(&mut self.blocks.arena, block, bytes);
            }
        }
        self.taken = taken;
        for (block, bytes) in self.retired.drain(..) {
            self.garbage.retire(&mut self.blocks.arena, block, bytes);
        }
        self.retired_bytes = 0;
        self.given.clear();
    }

    /// Gives the memory back of a table that has become empty, but not the last page. The words of
    /// the root are zeros.
    #[cold]
    pub(super) fn emptied(&mut self, (root, bytes): (u32, usize)) {
        let Blocks {
            arena,
            pool,
            made,
            gone,
            ..
        } = &mut self.blocks;
        if arena.committed() <= PAGE {
            return;
        }
        pool.give_back(arena);
        arena.give_back_free();
        if let Some(root) = Ref::new(root) {
            arena.release_zeros(root, 0..bytes);
        }
        self.garbage.give_back();
        self.values.give_back();
        for list in [made, gone] {
            list.shrink_to_fit();
        }
        for list in [&mut self.taken, &mut self.given] {
            list.shrink_to_fit();
        }
        self.retired.shrink_to_fit();
    }

    /// Blocks and bytes that wait for readers and snapshots.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        self.garbage.waiting()
    }

    /// Prefixes, the open transaction's included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn root_prefixes(&self) -> u32 {
        self.root_prefixes
    }
}

//! Clusters of both kinds in a window that others write, and the entries of inline ones. As with
//! other nodes, what is read is checked before use.

use sapwood_format::branch::FRESH;
use sapwood_format::cluster::{self, SLOTS_MAX};
use sapwood_format::inline::{self, Entries, Extent, OUTSIDE, TAIL_MAX};
use sapwood_format::{CLUSTER, INLINE, KIND, Window, byte_of, leaf};

use crate::nodes::{Entry, Nodes, mismatch};
use crate::{Trouble, bytes};

/// A cluster whose header was read. It lies inside the window.
#[derive(Clone, Copy)]
pub struct Cluster {
    at: usize,
    header: u32,
    /// Of an inline cluster, which is large enough for its slots: its second word, and the layout
    /// of its entries.
    inline: Option<(Extent, Entries)>,
}

/// The borders of a cluster's entries: for each slot, where its key parts from the one before.
#[derive(Clone, Copy)]
pub(crate) struct Borders {
    base: usize,
    leaves: usize,
    distances: [u8; SLOTS_MAX],
    bytes: [u8; SLOTS_MAX],
}

impl Cluster {
    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        let bytes = match self.inline {
            Some((extent, _)) => extent.block,
            None => cluster::block_of(self.header),
        };
        (self.at, self.at + bytes)
    }

    /// Whether it holds its entries.
    #[cfg(test)]
    pub(crate) fn is_inline(&self) -> bool {
        self.inline.is_some()
    }

    /// The number of its entries.
    pub(crate) fn leaves(&self) -> usize {
        cluster::leaves_of(self.header)
    }

    fn capacity(&self) -> usize {
        cluster::capacity_of(self.header)
    }

    /// The place of its tags.
    pub(crate) fn tags_at(&self) -> usize {
        self.at
            + match self.inline {
                Some(_) => inline::TAGS_AT,
                None => cluster::TAGS_AT,
            }
    }

    /// The place of what says where the entries are, and its bytes for each slot.
    fn slots_at(&self) -> (usize, usize) {
        let bytes = if self.inline.is_some() { 1 } else { 4 };
        (self.tags_at() + self.capacity(), bytes)
    }

    /// The places of both arrays of its borders.
    pub(crate) fn borders_at(&self) -> [usize; 2] {
        let distances = match self.inline {
            Some((extent, _)) => inline::borders_at(self.capacity(), extent.prefix),
            None => cluster::borders_at(self.header),
        };
        let at = self.at + distances;
        [at, at + self.capacity()]
    }

    /// The place and the length of the bytes that all keys share, if it is inline.
    fn prefix(&self) -> (usize, usize) {
        let (slots, bytes) = self.slots_at();
        let prefix = self.inline.map_or(0, |(extent, _)| extent.prefix);
        (slots + bytes * self.capacity(), prefix)
    }

    /// The header words that a reader relies on: their places, the bits that count, the words.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, u32, u32)> {
        let extent = self
            .inline
            .map(|(extent, _)| (self.at + 4, u32::MAX, extent.word()));
        [(self.at, !FRESH, self.header)].into_iter().chain(extent)
    }
}

impl Borders {
    /// The offset at which the entry in a slot parts from the one before.
    fn offset(&self, slot: usize) -> usize {
        self.base + usize::from(self.distances[slot])
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.leaves
    }

    /// The slot of an entry that shares the longest prefix with a key. If the key is there, its
    /// slot.
    pub(crate) fn search(&self, key: &[u8]) -> usize {
        let (mut found, mut least) = (0, usize::MAX);
        for slot in 1..self.leaves {
            let offset = self.offset(slot);
            if offset < least {
                match key.get(offset) {
                    Some(byte) if *byte >= self.bytes[slot] => (found, least) = (slot, usize::MAX),
                    _ => least = offset,
                }
            }
        }
        found
    }

    /// The first slot whose keys are greater than a key that is not there, or the number of slots.
    /// The key parts at `at` from the entry in the slot `found` of [`search`](Self::search), or in
    /// the live one beside it, and is less than that entry's key if `less`.
    pub(crate) fn place(&self, found: usize, at: usize, less: bool) -> usize {
        let mut slot = found;
        if less {
            while slot > 0 && self.offset(slot) > at {
                slot -= 1;
            }
            return slot;
        }
        slot += 1;
        while slot < self.leaves && self.offset(slot) > at {
            slot += 1;
        }
        slot
    }

    /// The border between two slots that have only dead ones between them: the first of the least.
    fn between(&self, left: usize, right: usize) -> usize {
        let all = left + 1..=right;
        all.min_by_key(|slot| self.offset(*slot)).unwrap_or(right)
    }

    /// Whether the keys of a slot share more bytes with those of a slot before it than with those
    /// of one behind it.
    pub(crate) fn is_nearer(&self, before: usize, slot: usize, behind: usize) -> bool {
        let (left, right) = (self.between(before, slot), self.between(slot, behind));
        self.offset(left) > self.offset(right)
    }

    /// Whether two keys part as the border between their slots says. Slots between them are dead.
    pub(crate) fn part(&self, slots: (usize, usize), left: &[u8], right: &[u8]) -> bool {
        let border = self.between(slots.0, slots.1);
        let (offset, label) = (self.offset(border), self.bytes[border]);
        let between = match (left.get(offset), right.get(offset)) {
            (None, _) => label == 0,
            (Some(left), Some(right)) => *left < label && label <= *right,
            (Some(_), None) => false,
        };
        between && mismatch(left, right) == Some(offset)
    }
}

impl<W: Window> Nodes<W> {
    /// The cluster of a cell, of either kind.
    pub fn cluster(&self, cell: u32) -> Result<Cluster, Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        let entries = self.entries.filter(|_| cell & KIND == INLINE);
        if (cell & KIND != CLUSTER && entries.is_none()) || !self.inside(at, cluster::block(4)) {
            return damaged("a cluster outside the window");
        }
        let header = self.window.u32(at) & !FRESH;
        let sound = match entries {
            Some(_) => inline::is_sound(header),
            None => cluster::is_sound(header),
        };
        if !sound {
            return damaged("no cluster has such a header");
        }
        let inline = entries.map(|entries| (Extent::of(self.window.u32(at + 4)), entries));
        if let Some((extent, entries)) = inline {
            let heap = entries.heap_at(cluster::capacity_of(header), extent.prefix);
            if !(inline::block(heap)..=inline::BLOCK_MAX).contains(&extent.block) {
                return damaged("a cluster of a size that does not fit its slots");
            }
        }
        let cluster = Cluster { at, header, inline };
        match self.inside(at, cluster.block().1 - at) {
            true => Ok(cluster),
            false => damaged("a cluster that ends outside the window"),
        }
    }

    /// The borders of a cluster's entries. No offset may be less than `min`.
    pub(crate) fn borders(&self, cluster: &Cluster, min: usize) -> Result<Borders, Trouble> {
        let leaves = cluster.leaves();
        let part = |at| {
            let mut part = [0; SLOTS_MAX];
            bytes::copy_to(&self.window, at, &mut part[..leaves]);
            part
        };
        let [distances, bytes] = cluster.borders_at().map(part);
        let borders = Borders {
            base: cluster::base_of(cluster.header),
            leaves,
            distances,
            bytes,
        };
        match (1..leaves).all(|slot| borders.offset(slot) >= min) {
            true => Ok(borders),
            false => Err(Trouble::Damaged(
                "entries that part before the branch above them",
                cluster.at,
            )),
        }
    }

    /// Checks the parts that only `verify` checks: the slots behind the last entry, the border
    /// before the first, the lock if it must be free, and the block of an inline cluster. Slots
    /// that programs have cut off keep their bytes.
    pub(crate) fn check_cluster(&self, cluster: &Cluster, free: bool) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, cluster.at));
        let leaves = cluster.leaves();
        if free && self.window.u32(cluster.at) != cluster.header {
            return damaged("a cluster that is locked");
        }
        let spare = cluster.capacity() - leaves;
        let is_zero = |at, len| self.copy(at, len).iter().all(|byte| *byte == 0);
        let (slots, bytes) = cluster.slots_at();
        let borders = cluster.borders_at();
        let spare = if self.cut_slots { 0 } else { spare };
        let zeros = is_zero(cluster.tags_at() + leaves, spare)
            && is_zero(slots + bytes * leaves, bytes * spare)
            && borders
                .iter()
                .all(|at| is_zero(*at, 1) && is_zero(at + leaves, spare));
        if !zeros {
            return damaged("a cluster with something in a slot that has no entry");
        }
        match cluster.inline {
            Some((extent, entries)) => self.check_block(cluster, extent, entries),
            None => Ok(()),
        }
    }

    /// Checks that the entries of an inline cluster lie in its heap, that no two share a byte, and
    /// that the other bytes of the heap are counted as dead.
    fn check_block(
        &self,
        cluster: &Cluster,
        extent: Extent,
        entries: Entries,
    ) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, cluster.at));
        let heap = cluster.at + entries.heap_at(cluster.capacity(), extent.prefix);
        let end = cluster.at + extent.end;
        if end < heap || end > cluster.block().1 {
            return damaged("a heap that does not end in its block");
        }
        let held = (0..cluster.leaves()).map(|slot| self.held(cluster, entries, slot));
        let blocks: Result<Vec<_>, Trouble> = held.map(|held| Ok(held?.0.block())).collect();
        let mut blocks = blocks?;
        blocks.sort_unstable();
        let (mut before, mut live) = (heap, 0);
        for (from, to) in blocks {
            if from < before || to > end {
                return damaged("an entry that is not in the heap, or over another one");
            }
            live += to - from;
            before = to;
        }
        match heap + live + extent.dead == end {
            true => Ok(()),
            false => damaged("a heap whose dead bytes are counted wrong"),
        }
    }

    /// The tags of a cluster's entries.
    pub(crate) fn tags(&self, cluster: &Cluster) -> Vec<u8> {
        self.copy(cluster.tags_at(), cluster.leaves())
    }

    /// Whether a key begins with what all keys of a cluster share.
    pub(crate) fn has_prefix(&self, cluster: &Cluster, key: &[u8]) -> bool {
        let (at, len) = cluster.prefix();
        key.get(..len)
            .is_some_and(|start| bytes::are(&self.window, at, start))
    }

    /// The entry in a slot of a cluster; `None` when the slot is dead, which the last one never is.
    /// `see` gets the word that says where the entry is, and its place.
    pub(crate) fn slot(
        &self,
        cluster: &Cluster,
        slot: usize,
        see: impl FnOnce(usize, u32),
    ) -> Result<Option<Entry>, Trouble> {
        debug_assert!(slot < cluster.leaves());
        let (slots, bytes) = cluster.slots_at();
        let at = (slots + bytes * slot) & !3;
        let word = self.window.u32(at);
        see(at, word);
        let Some((_, entries)) = cluster.inline else {
            let is_dead = word == 0 && self.dead_slots && slot + 1 < cluster.leaves();
            return (!is_dead).then(|| self.leaf(word)).transpose();
        };
        let (here, outside) = self.held(cluster, entries, slot)?;
        outside.map_or(Ok(here), |cell| self.leaf(cell)).map(Some)
    }

    /// What lies in the block of an inline cluster for the entry in a slot, and, if the entry is a
    /// leaf of its own, the cell.
    fn held(
        &self,
        cluster: &Cluster,
        entries: Entries,
        slot: usize,
    ) -> Result<(Entry, Option<u32>), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, cluster.at));
        let end = cluster.block().1;
        let byte = |at| bytes::byte(&self.window, at);
        let at = cluster.at + usize::from(byte(cluster.slots_at().0 + slot)) * entries.step;
        let tail = at + entries.head + 1;
        let mut here = Entry {
            at,
            pieces: [cluster.prefix(), (tail, 0)],
            value_at: at,
            value_len: self.value_bytes,
            end: at + entries.outside(),
            is_leaf: false,
        };
        let outside = "an entry that ends outside its cluster";
        if tail > end {
            return damaged(outside);
        }
        let len = byte(tail - 1);
        if len == OUTSIDE {
            if here.end > end {
                return damaged(outside);
            }
            let mut cell = [0; 4];
            bytes::copy_to(&self.window, at + entries.cell_at(), &mut cell);
            return Ok((here, Some(u32::from_ne_bytes(cell))));
        }
        let len = usize::from(len);
        if len > TAIL_MAX {
            return damaged("a tail of a length that no entry has");
        }
        here.pieces[1].1 = len;
        let mut behind = 0;
        if self.strings {
            if tail + len >= end {
                return damaged(outside);
            }
            // The length of such a value has one byte.
            behind = 1 + usize::from(byte(tail + len));
            if behind > usize::from(leaf::VALUE_U16) {
                return damaged("a value of a length that only a leaf has");
            }
            (here.value_at, here.value_len) = (tail + len + 1, behind - 1);
        }
        here.end = at + entries.entry(len, behind);
        match here.end <= end {
            true => Ok((here, None)),
            false => damaged(outside),
        }
    }
}

//! Whole tables, from prefixes in order: each block is made once, nodes before the nodes below
//! them.

use alloc::vec::Vec;
use core::hash::Hash;

use sapwood_arena::ArenaFull;

use super::blocks::{Blocks, Tail};
use super::node::Prefixes;
use super::table::FibShared;
use super::values;
use super::writer::Writer;
use crate::family::Key;
use sapwood_format::lpm::{CHILD, SLOTS, STRIDE, Set, Word, slots_of};

/// A prefix with its value's block.
pub(crate) type Entry<K> = (K, u8, u32);

/// The result of a build: the root's words and the first block of root prefixes.
pub(crate) struct Built {
    pub(crate) words: Vec<Word>,
    pub(crate) root_prefixes: u32,
}

impl Blocks {
    /// Builds a table of prefixes in the order of bits and length, without duplicates. On an error
    /// it undoes everything.
    pub(crate) fn build<K: Key>(
        &mut self,
        entries: &[Entry<K>],
        bits: u32,
    ) -> Result<Built, ArenaFull> {
        let built = self.build_all(entries, bits);
        if built.is_err() {
            self.undo();
        }
        // The list was as long as the table.
        self.made = Vec::new();
        built
    }

    fn build_all<K: Key>(&mut self, entries: &[Entry<K>], bits: u32) -> Result<Built, ArenaFull> {
        let mut words = alloc::vec![Word::default(); 1 << bits];
        let mut short = Vec::new();
        for chunk in entries.chunk_by(|a, b| {
            let long = |e: &Entry<K>| u32::from(e.1) > bits;
            long(a) && long(b) && a.0.top(bits) == b.0.top(bits)
        }) {
            let (key, len, value) = chunk[0];
            let (slot, len) = (key.top(bits), u32::from(len));
            if len <= bits {
                // What covers this prefix came before it.
                for word in &mut words[slot..slot + (1 << (bits - len))] {
                    *word = word.with_value(len + 1, value);
                }
                short.push(chunk[0]);
                continue;
            }
            let child = self.build_node(chunk, bits, 0)?;
            words[slot] = words[slot].with_child(child);
        }
        let root_prefixes = self.build_root_prefixes(&short, 0)?;
        Ok(Built {
            words,
            root_prefixes,
        })
    }

    /// The node of prefixes that share their first `depth` bits and are longer; 0 for none.
    fn build_node<K: Key>(
        &mut self,
        entries: &[Entry<K>],
        depth: u32,
        base: u32,
    ) -> Result<u32, ArenaFull> {
        if let [(key, len, value)] = *entries {
            return self.one((key.skip(depth), u32::from(len) - depth, value), base);
        }
        let mut slots = [0; SLOTS];
        let mut below: [&[Entry<K>]; SLOTS] = [&[]; SLOTS];
        let mut set = Set::default();
        // Indexed by the prefix's number, as in the node.
        let mut values = [0; 2 * SLOTS];
        for (heap, value, slot, deeper) in strides(entries, depth) {
            if deeper.is_empty() {
                set.insert(heap);
                values[heap] = value;
                // What covers this prefix came before it.
                slots[slots_of(heap)].fill(value);
            } else {
                below[slot] = deeper;
            }
        }
        let all: Vec<u32> = set.iter().map(|heap| values[heap]).collect();
        let prefixes = Prefixes { set, values: &all };
        // The node is made before its children, so each child is only a mark yet, which makes the
        // slot a run of its own.
        let mut marked = slots;
        for (slot, entries) in below.iter().enumerate() {
            if !entries.is_empty() {
                marked[slot] = CHILD | slot as u32;
            }
        }
        let node = self.node(&marked, base, Tail::from_prefixes(prefixes))?;
        for (slot, entries) in below.iter().enumerate() {
            if !entries.is_empty() {
                let child = self.build_node(entries, depth + STRIDE, slots[slot])?;
                // SAFETY: a live node that nobody else knows; a child is a run of its own.
                unsafe { self.mem.node(node).set_child(slot, child) };
            }
        }
        Ok(node)
    }

    /// The block of root prefixes that share their first `depth` bits; 0 for none.
    fn build_root_prefixes<K: Key>(
        &mut self,
        entries: &[Entry<K>],
        depth: u32,
    ) -> Result<u32, ArenaFull> {
        if entries.is_empty() {
            return Ok(0);
        }
        let (mut set, mut kids) = (Set::default(), 0_u64);
        let mut values = [0; 2 * SLOTS];
        let mut below = Vec::new();
        for (heap, value, slot, deeper) in strides(entries, depth) {
            if deeper.is_empty() {
                set.insert(heap);
                values[heap] = value;
            } else {
                kids |= 1 << slot;
                below.push(self.build_root_prefixes(deeper, depth + STRIDE)?);
            }
        }
        let words = set.iter().map(|heap| values[heap]).chain(below);
        self.root_prefixes(set, kids, words)
    }

    /// Copies the nodes from this one down, parents first.
    ///
    /// # Safety
    /// The node is live.
    pub(crate) unsafe fn copy_nodes(&mut self, node: u32) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        // SAFETY: live.
        let new = unsafe { self.copy(node, n.base()) }?;
        for (slot, child) in n.children() {
            // SAFETY: a live node's children are live.
            let copy = unsafe { self.copy_nodes(child) }?;
            // SAFETY: a live node that nobody else knows, with the same runs.
            unsafe { self.mem.node(new).set_child(slot, copy) };
        }
        Ok(new)
    }
}

/// The prefixes of a stride in order: each with its number and value, or a slot with all prefixes
/// that continue below it.
fn strides<K: Key>(
    entries: &[Entry<K>],
    depth: u32,
) -> impl Iterator<Item = (usize, u32, usize, &[Entry<K>])> {
    let ends = move |e: &Entry<K>| u32::from(e.1) <= depth + STRIDE;
    let slot = move |e: &Entry<K>| e.0.skip(depth).top(STRIDE);
    entries
        .chunk_by(move |a, b| !ends(a) && !ends(b) && slot(a) == slot(b))
        .map(move |chunk| {
            let e = &chunk[0];
            if !ends(e) {
                return (0, 0, slot(e), chunk);
            }
            let len = u32::from(e.1) - depth;
            let bits = if len == 0 {
                0
            } else {
                e.0.skip(depth).top(len)
            };
            (Set::heap(len, bits), e.2, 0, &[][..])
        })
}

impl<V: Eq + Hash> FibShared<V> {
    /// The block of a value for [`build`](Self::build); no prefix has it yet.
    pub(crate) fn intern(
        &self,
        writer: &mut Writer<V>,
        value: V,
        dropped: &mut Vec<V>,
    ) -> Result<u32, ArenaFull> {
        if let Some(block) = writer.values.find(self.mem, &value) {
            // The caller drops it without the lock.
            if core::mem::needs_drop::<V>() {
                dropped.push(value);
            }
            return Ok(block);
        }
        let added = writer.values.add(&mut writer.blocks.arena, value);
        added.map_err(|(value, full)| {
            dropped.push(value);
            full
        })
    }

    /// Fills an empty table with prefixes in the order of bits and length, without duplicates, and
    /// with values from [`intern`](Self::intern).
    pub(crate) fn build<K: Key>(
        &self,
        writer: &mut Writer<V>,
        entries: &[Entry<K>],
        dropped: &mut Vec<V>,
    ) -> Result<(), ArenaFull> {
        debug_assert!(writer.len == 0 && writer.root_prefixes == 0);
        self.begin_with(writer, entries.len());
        let built = writer.blocks.build(entries, self.bits())?;
        for &(_, _, value) in entries {
            writer.values.retain(self.mem, value);
        }
        // Values whose prefixes all came again later with other values.
        let all: Vec<u32> = writer.values.blocks().collect();
        for block in all {
            if writer.values.count(self.mem, block) == 0 {
                writer.values.forget(self.mem, block);
                // SAFETY: no prefix has it, nobody saw it.
                let value = unsafe { values::free_new(self.mem, &mut writer.blocks.arena, block) };
                dropped.push(value);
            }
        }
        writer.root_prefixes = built.root_prefixes;
        writer.len = entries.len();
        // Nobody has a handle of the table yet, so there is no snapshot.
        self.publish(writer, None, |_, _| {
            let root = self.root();
            for (slot, &word) in built.words.iter().enumerate() {
                if word != root.get(slot) {
                    root.set(slot, word);
                }
            }
        });
        Ok(())
    }
}

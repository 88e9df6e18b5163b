//! The check of every invariant of a table.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hash;

use super::node::{Mem, Prefixes, ROOT, VALUE, runs_of};
use super::table::FibShared;
use super::values;
use super::writer::Writer;
use sapwood_format::lpm::{CHILD, LONE_MAX, REF, SLOTS, STRIDE, len_of, slots_of};

/// The findings of a walk: blocks and bytes by kind, and how many prefixes have each value.
struct Found {
    kinds: [(usize, usize); 4],
    prefixes: usize,
    uses: BTreeMap<u32, u32>,
}

impl Found {
    fn block(&mut self, kind: sapwood_arena::Kind, bytes: usize) {
        let kind = &mut self.kinds[kind.0 as usize];
        kind.0 += 1;
        kind.1 += bytes.next_multiple_of(8);
    }

    fn value(&mut self, value: u32) {
        self.prefixes += 1;
        *self.uses.entry(value).or_insert(0) += 1;
    }
}

fn check(right: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(what()) }
}

fn node(mem: Mem, r: u32, base: u32, left: u32, found: &mut Found) -> Result<(), String> {
    check(left > 0, || format!("node {r}: below the last bit"))?;
    // SAFETY: reached from the root, under the writer's lock.
    let n = unsafe { mem.node(r) };
    let block = n.block(r);
    found.block(block.kind(), block.bytes());
    check(!n.is_fresh(), || format!("node {r}: marked as unpublished"))?;
    check(n.base() == base, || {
        format!("node {r}: base {}, its parent says {base}", n.base())
    })?;
    if let Some(lone) = n.lone() {
        // SAFETY: a lone prefix has two cells.
        let (count, none) = (n.count(), unsafe { n.cell(0) });
        let len = lone.len();
        check((STRIDE + 1..=left.min(LONE_MAX)).contains(&len), || {
            format!("lone prefix {r}: {len} of {left} bits")
        })?;
        let value = lone.value;
        check(
            value != 0 && value <= REF && count == 1 && none == 0,
            || format!("lone prefix {r}: value {value}, {count} prefixes, {none} for others"),
        )?;
        found.value(value);
        return Ok(());
    }
    let slots = n.expand();
    check(runs_of(&slots) == n.runs(), || {
        format!("node {r}: equal neighbours are stored twice")
    })?;
    let mut seen = [0; SLOTS];
    let Prefixes { set, values } = n.prefixes();
    check(set.0[0] & 0b11 == 0 && set.len() == n.count(), || {
        format!("node {r}: {} prefixes {set:x?}", n.count())
    })?;
    for (heap, &value) in set.iter().zip(values) {
        let fits = len_of(heap) <= left;
        check(fits && value != 0 && value <= REF, || {
            format!("node {r}: prefix {heap} with value {value}, {left} bits left")
        })?;
        found.value(value);
        // In this order shorter ones come first.
        seen[slots_of(heap)].fill(value);
    }
    let mut lone = 0;
    let mut below = 0;
    for (slot, &cell) in slots.iter().enumerate() {
        if cell & CHILD == 0 {
            check(cell == seen[slot], || {
                format!(
                    "node {r}: slot {slot} has {cell}, its prefixes say {}",
                    seen[slot]
                )
            })?;
        } else {
            below += 1;
            // SAFETY: as above.
            let child = unsafe { mem.node(cell & REF) }.sole();
            lone += usize::from(child.is_some_and(|lone| lone.seen_above(slot).is_some()));
            node(
                mem,
                cell & REF,
                seen[slot],
                left.saturating_sub(STRIDE),
                found,
            )?;
        }
    }
    check(set.len() + below > 0, || format!("node {r}: empty"))?;
    check(!set.is_empty() || below > 1 || below > lone, || {
        format!("node {r}: a lone prefix needs no node above")
    })
}

/// Checks a block of root prefixes, and that the root words below it have the same values.
fn root_prefixes(
    mem: Mem,
    r: u32,
    depth: u32,
    words: &mut [(u32, u32)],
    found: &mut Found,
) -> Result<(), String> {
    // SAFETY: as above.
    let s = unsafe { mem.root_prefixes(r) };
    let block = s.block(r);
    found.block(block.kind(), block.bytes());
    let set = s.set();
    let right = set.0[0] & (if depth == 0 { 1 } else { 3 }) == 0;
    check(right && (!set.is_empty() || s.kids() != 0), || {
        format!("root prefixes {r}: prefixes {set:x?}, below {:x}", s.kids())
    })?;
    let each = words.len() / SLOTS;
    for (heap, &value) in set.iter().zip(s.values()) {
        found.value(value);
        let covered = slots_of(heap);
        let len = depth + len_of(heap);
        words[covered.start * each..covered.end * each].fill((len + 1, value));
    }
    let slots = (0..SLOTS).filter(|slot| s.kids() >> slot & 1 != 0);
    for (slot, &below) in slots.zip(s.below()) {
        check(each > 1, || {
            format!("root prefixes {r}: below the last level")
        })?;
        root_prefixes(
            mem,
            below,
            depth + STRIDE,
            &mut words[slot * each..][..each],
            found,
        )?;
    }
    Ok(())
}

impl<V: Eq + Hash> FibShared<V> {
    /// Walks the newest version and checks every invariant, and compares the accounts with what the
    /// walk found.
    pub(crate) fn verify(&self, writer: &Writer<V>, width: u32) -> Result<(), String> {
        let mem = writer.blocks.mem;
        let root = self.root();
        let mut found = Found {
            kinds: [(0, 0); 4],
            prefixes: 0,
            uses: Default::default(),
        };
        found.block(ROOT, root.len() * 8);
        let mut words: Vec<(u32, u32)> = vec![(0, 0); root.len()];
        if writer.root_prefixes() != 0 {
            root_prefixes(mem, writer.root_prefixes(), 0, &mut words, &mut found)?;
        }
        for (slot, &(mark, value)) in words.iter().enumerate() {
            let word = root.get(slot);
            check((word.mark(), word.value()) == (mark, value), || {
                format!("root word {slot}: {word:x?}, its prefixes say {mark} {value}")
            })?;
            if word.child() != 0 {
                node(mem, word.child(), 0, width - self.bits(), &mut found)?;
            }
        }
        check(
            found.prefixes == self.len() && writer.len() == self.len(),
            || format!("{} prefixes, but len is {}", found.prefixes, self.len()),
        )?;
        check(found.uses.len() == writer.values.len(), || {
            format!(
                "{} values in use, {} known",
                found.uses.len(),
                writer.values.len()
            )
        })?;
        for (value, uses) in core::mem::take(&mut found.uses) {
            let count = writer.values.count(mem, value);
            check(count == uses, || {
                format!("value {value}: {uses} prefixes have it, {count} are counted")
            })?;
            found.block(VALUE, values::bytes::<V>());
        }
        let arena = &writer.blocks.arena;
        arena.verify()?;
        let memory = arena.memory();
        for (kind, &(count, bytes)) in found.kinds.iter().enumerate() {
            let account = memory.kinds[kind];
            check((account.count, account.bytes) == (count, bytes), || {
                format!(
                    "kind {kind}: {count} blocks of {bytes} bytes, the accounts say {account:?}"
                )
            })?;
        }
        let (_, waiting) = writer.waiting();
        check(waiting == memory.retired, || {
            format!("{waiting} bytes wait, the arena says {}", memory.retired)
        })
    }
}

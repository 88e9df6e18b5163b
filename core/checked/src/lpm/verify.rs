//! The check of every invariant of a table that another process wrote.

use std::collections::HashSet;

use sapwood_format::lpm::{
    CHILD, LONE_BYTES, NODE_SLOTS, ROOT_PREFIXES_VALUES, SLOTS, STRIDE, Set, len_of, node_bytes,
    ones, slots_of,
};
use sapwood_format::{UNIT, Window};

use super::FibCensus;
use super::table::{Node, Table};
use crate::Trouble;
use crate::bytes::Met;

/// What a walk over all blocks found so far.
struct Check<'a, W> {
    table: &'a Table<W>,
    met: Met,
    values: HashSet<u32>,
    census: FibCensus,
}

/// Walks over the whole table.
pub(super) fn verify(table: &Table<impl Window>) -> Result<FibCensus, Trouble> {
    let mut check = Check {
        table,
        met: Met::default(),
        values: HashSet::new(),
        census: FibCensus::default(),
    };
    check.mark((table.root, table.root + (UNIT << table.bits)))?;
    let mut words = vec![(0, 0); 1 << table.bits];
    let shelf = table.root_prefixes_word();
    if shelf != 0 {
        check.root_prefixes(shelf, 0, &mut words)?;
    }
    for (slot, &said) in words.iter().enumerate() {
        let word = table.word(slot, table.raw_word(slot))?;
        if (word.mark(), word.value()) != said {
            check.census.unsettled += 1;
        }
        if word.value() != 0 {
            check.value(word.value())?;
        }
        if word.child() != 0 {
            check.node(word.child(), 0, table.bits)?;
        }
    }
    let mut census = check.census;
    census.values = check.values.len();
    census.stated = table.stated_len();
    Ok(census)
}

impl<W: Window> Check<'_, W> {
    fn mark(&mut self, block: (usize, usize)) -> Result<(), Trouble> {
        let block = (block.0, block.1.next_multiple_of(UNIT));
        match self.met.mark(block) {
            true => Ok(()),
            false => Err(Trouble::Damaged("a block over another block", block.0)),
        }
    }

    /// Checks the place of a value.
    fn value(&mut self, value: u32) -> Result<(), Trouble> {
        if !self.values.insert(value) {
            return Ok(());
        }
        let len = self.table.value(value)?.len() + 4;
        let at = value as usize * UNIT;
        self.mark((at, at + len))
    }

    /// Checks a block of root prefixes and those below, and writes what the root words below have
    /// to say.
    fn root_prefixes(
        &mut self,
        reference: u64,
        depth: u32,
        words: &mut [(u32, u32)],
    ) -> Result<(), Trouble> {
        let block = self.table.root_prefixes(reference, depth)?;
        self.mark((block.at, block.end()))?;
        let damaged = |why| Err(Trouble::Damaged(why, block.at));
        if block.set.0[0] & Set::FRESH != 0 {
            return damaged("root prefixes of an open transaction");
        }
        if block.set.is_empty() && block.kids == 0 {
            return damaged("root prefixes that are none");
        }
        let each = words.len() / SLOTS;
        for heap in block.set.iter() {
            let values = block.at + ROOT_PREFIXES_VALUES;
            let value = self.table.value_at(values, block.set, heap)?;
            self.value(value)?;
            self.census.prefixes += 1;
            let covered = slots_of(heap);
            let mark = depth + len_of(heap) + 1;
            words[covered.start * each..covered.end * each].fill((mark, value));
        }
        for slot in 0..SLOTS {
            if let Some(below) = self.table.kid(&block, slot) {
                let words = &mut words[slot * each..][..each];
                self.root_prefixes(below, depth + STRIDE, words)?;
            }
        }
        Ok(())
    }

    /// Checks a node and those below. `base` is what the node above says of its place.
    fn node(&mut self, reference: u32, base: u32, depth: u32) -> Result<(), Trouble> {
        let table = self.table;
        let node = table.node(reference, depth)?;
        let (at, runs, set, values) = match node {
            Node::Lone { at, value, .. } => {
                self.mark((at, at + LONE_BYTES))?;
                let others = table.window.u32(at + NODE_SLOTS);
                if table.base(&node) != base || others != 0 || table.is_fresh(at) {
                    return Err(Trouble::Damaged("no lone prefix has such words here", at));
                }
                self.census.prefixes += 1;
                self.census.lone += 1;
                return self.value(value);
            }
            Node::Strides {
                at,
                runs,
                set,
                values,
            } => (at, runs, set, values),
        };
        let damaged = |why| Err(Trouble::Damaged(why, at));
        self.mark((at, at + node_bytes(ones(runs) as usize, set.len())))?;
        self.census.nodes += 1;
        if table.is_fresh(at) {
            return damaged("a node of an open transaction");
        }
        if table.base(&node) != base {
            return damaged("a base that the node above does not say");
        }
        let mut says = [0; SLOTS];
        for heap in set.iter() {
            let value = table.value_at(values, set, heap)?;
            self.value(value)?;
            self.census.prefixes += 1;
            // In this order shorter ones come first.
            says[slots_of(heap)].fill(value);
        }
        let (mut below, mut before, mut run) = (0, 0, 0);
        for (slot, &says) in says.iter().enumerate() {
            let begins = runs >> slot & 1 != 0;
            run += usize::from(begins);
            let cell = table.cell(at, run - 1);
            if begins == (slot > 0 && cell == before) {
                return damaged("equal neighbours that are stored twice");
            }
            before = cell;
            if cell & CHILD == 0 {
                if cell != says {
                    return damaged("a slot that its prefixes say something else of");
                }
                continue;
            }
            below += 1;
            self.node(table.child(at, cell)?, says, depth + STRIDE)?;
        }
        match set.is_empty() && below == 0 {
            true => damaged("a node without a prefix"),
            false => Ok(()),
        }
    }
}

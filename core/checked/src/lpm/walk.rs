//! A walk over the prefixes of a table, in the order of their bits and, of equal ones, their
//! length.
//!
//! What a root word reaches does not change until it is freed, so the walk keeps what it read of
//! the nodes on its path for as long as the root word stays. When the word has changed, the walk
//! finds its place again from the root.

use sapwood_format::Window;
use sapwood_format::lpm::{SLOTS, STRIDE, Set, len_of, lone_len, ones, slots_of};

use super::table::{BITS, Node, RootPrefixes, Table, first, six};
use crate::Trouble;

/// The most nodes that the walk enters to find a prefix: a path to the prefix before, and one from
/// there, as each node has a prefix in it or below.
const NODES_BETWEEN: usize = 2 * (BITS / STRIDE + 1) as usize;

/// A prefix: its bits, and its length.
pub(super) type Prefix = (u128, u8);

/// What a node has, in order.
#[derive(Clone, Copy)]
enum Item {
    Prefix(Prefix, u32),
    /// A node below: the bits before it, their number, and its reference.
    Child(u128, u32, u32),
}

impl Item {
    /// The prefix, or the one from which on the node below has prefixes.
    fn begin(&self) -> Prefix {
        match *self {
            Item::Prefix(prefix, _) => prefix,
            Item::Child(bits, depth, _) => (bits, depth as u8),
        }
    }
}

/// The items of a node that the walk has not passed yet, the last of them first.
type Frame = Vec<Item>;

/// A place in a table, between two prefixes.
#[derive(Default)]
pub(super) struct Walk {
    /// The slot of the root that the walk is in, its word, and the word of the root prefixes, as
    /// they were read.
    slot: usize,
    word: u64,
    shelf: u64,
    /// The nodes on the path.
    frames: Vec<Frame>,
    /// The blocks of root prefixes on the path to the slots of which this is one.
    blocks: Vec<RootPrefixes>,
    blocks_of: usize,
    /// Whether the walk has begun.
    begun: bool,
    nodes: usize,
}

impl Walk {
    /// The next prefix and its value, from the place where the walk stands, or else from `after`
    /// on.
    pub(super) fn next(
        &mut self,
        table: &Table<impl Window>,
        after: Option<Prefix>,
        stands: bool,
    ) -> Result<Option<(Prefix, Vec<u8>)>, Trouble> {
        let found = self.read(table, after, stands);
        let same = !self.begun
            || table.raw_word(self.slot) == self.word && table.root_prefixes_word() == self.shelf;
        match same {
            true => found,
            false => Err(Trouble::Changed),
        }
    }

    fn read(
        &mut self,
        table: &Table<impl Window>,
        after: Option<Prefix>,
        stands: bool,
    ) -> Result<Option<(Prefix, Vec<u8>)>, Trouble> {
        self.nodes = 0;
        if !stands {
            self.begin(table, after)?;
        }
        let Some((prefix, value)) = self.advance(table)? else {
            return Ok(None);
        };
        if after.is_some_and(|after| prefix <= after) {
            let at = table.root + 8 * self.slot;
            return Err(Trouble::Damaged("prefixes that do not ascend", at));
        }
        Ok(Some((prefix, table.value(value)?)))
    }

    /// Moves before the first prefix after `after`.
    fn begin(&mut self, table: &Table<impl Window>, after: Option<Prefix>) -> Result<(), Trouble> {
        self.blocks.clear();
        self.blocks_of = usize::MAX;
        let slot = after.map_or(0, |(bits, _)| table.slot_of(bits));
        self.enter(table, slot)?;
        let Some(after) = after else { return Ok(()) };
        while let Some(item) = self
            .frames
            .last_mut()
            .and_then(|frame| frame.last().copied())
        {
            let passed = match item {
                Item::Prefix(prefix, _) => prefix <= after,
                Item::Child(bits, depth, _) => {
                    let above = first(after.0, depth);
                    bits < above || bits == above && u32::from(after.1) > depth
                }
            };
            if !passed {
                break;
            }
            self.pop();
            if let Item::Child(bits, depth, reference) = item {
                if bits == first(after.0, depth) {
                    self.push(table, bits, depth, reference)?;
                }
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<Item> {
        self.frames.last_mut()?.pop()
    }

    fn advance(&mut self, table: &Table<impl Window>) -> Result<Option<(Prefix, u32)>, Trouble> {
        loop {
            match self.pop() {
                Some(Item::Prefix(prefix, value)) => return Ok(Some((prefix, value))),
                Some(Item::Child(bits, depth, node)) => self.push(table, bits, depth, node)?,
                None if self.frames.len() > 1 => drop(self.frames.pop()),
                None => {
                    // Where a prefix of the root begins, the word has the prefix or a longer one.
                    let last = (1 << table.bits) - 1;
                    let is_used = |slot: &usize| table.raw_word(*slot) != 0;
                    match (self.slot + 1..=last).find(is_used) {
                        Some(slot) => self.enter(table, slot)?,
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// Enters a slot of the root.
    fn enter(&mut self, table: &Table<impl Window>, slot: usize) -> Result<(), Trouble> {
        self.slot = slot;
        self.word = table.raw_word(slot);
        let shelf = table.root_prefixes_word();
        if shelf != self.shelf {
            self.shelf = shelf;
            self.blocks_of = usize::MAX;
        }
        self.begun = true;
        self.frames.truncate(1);
        let mut frame = self.frames.pop().unwrap_or_default();
        frame.clear();
        let bits = (slot as u128) << (BITS - table.bits);
        let word = table.word(slot, self.word)?;
        if word.child() != 0 {
            frame.push(Item::Child(bits, table.bits, word.child()));
        }
        self.find_blocks(table, slot)?;
        for block in self.blocks.iter().rev() {
            for len in (u32::from(block.depth > 0)..=STRIDE).rev() {
                // Only in the slot where the prefix begins.
                if first(bits, block.depth + len) != bits {
                    break;
                }
                let heap = Set::heap(len, six(bits, block.depth) >> (STRIDE - len));
                if block.set.has(heap) {
                    let values = block.at + sapwood_format::lpm::ROOT_PREFIXES_VALUES;
                    let value = table.value_at(values, block.set, heap)?;
                    frame.push(Item::Prefix((bits, (block.depth + len) as u8), value));
                }
            }
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Reads the blocks of root prefixes on the path to a slot, unless they are those of the slot
    /// before.
    fn find_blocks(&mut self, table: &Table<impl Window>, slot: usize) -> Result<(), Trouble> {
        let group = slot / SLOTS;
        if self.blocks_of == group {
            return Ok(());
        }
        self.blocks.clear();
        self.blocks_of = group;
        let bits = (slot as u128) << (BITS - table.bits);
        let mut next = Some(self.shelf).filter(|word| *word != 0);
        let mut depth = 0;
        while let Some(word) = next {
            let block = table.root_prefixes(word, depth)?;
            next = table.kid(&block, six(bits, depth));
            self.blocks.push(block);
            depth += STRIDE;
        }
        Ok(())
    }

    /// Moves before the first item of a node.
    fn push(
        &mut self,
        table: &Table<impl Window>,
        bits: u128,
        depth: u32,
        reference: u32,
    ) -> Result<(), Trouble> {
        self.nodes += 1;
        if self.nodes > NODES_BETWEEN {
            let at = table.root + 8 * self.slot;
            return Err(Trouble::Damaged(
                "nodes without a prefix below a root word",
                at,
            ));
        }
        let frame = items(table, bits, depth, reference)?;
        self.frames.push(frame);
        Ok(())
    }
}

/// The items of a node, the last of them first.
fn items(
    table: &Table<impl Window>,
    bits: u128,
    depth: u32,
    reference: u32,
) -> Result<Frame, Trouble> {
    let (at, mut runs, set, values) = match table.node(reference, depth)? {
        Node::Lone { word, value, .. } => {
            let rest = u128::from(word & (word - 1)) << 64 >> depth;
            let prefix = (bits | rest, (depth + lone_len(word)) as u8);
            return Ok(vec![Item::Prefix(prefix, value)]);
        }
        Node::Strides {
            at,
            runs,
            set,
            values,
        } => (at, runs, set, values),
    };
    let below = |slot: usize| bits | (slot as u128) << (BITS - STRIDE) >> depth;
    let mut items = Vec::with_capacity(set.len() + ones(runs) as usize);
    for heap in set.iter() {
        let prefix = (below(slots_of(heap).start), (depth + len_of(heap)) as u8);
        items.push(Item::Prefix(prefix, table.value_at(values, set, heap)?));
    }
    for run in 0..ones(runs) as usize {
        let slot = runs.trailing_zeros() as usize;
        runs &= runs - 1;
        let child = table.child(at, table.cell(at, run))?;
        if child == 0 {
            continue;
        }
        let end = if runs == 0 {
            SLOTS
        } else {
            runs.trailing_zeros() as usize
        };
        if end != slot + 1 || depth + STRIDE >= table.width {
            return Err(Trouble::Damaged("a node in slots that cannot have it", at));
        }
        items.push(Item::Child(below(slot), depth + STRIDE, child));
    }
    // A prefix of a whole stride comes before the node below it.
    items.sort_by(|a, b| {
        b.begin()
            .cmp(&a.begin())
            .then(b.is_child().cmp(&a.is_child()))
    });
    Ok(items)
}

impl Item {
    fn is_child(&self) -> bool {
        matches!(self, Item::Child(..))
    }
}

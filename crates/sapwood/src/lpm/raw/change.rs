//! Changing: the blocks of a table are replaced, never changed, from the prefix up to the root word.
//!
//! A change makes all of its new blocks first, which may fail, and then links them, which may not. What it makes and
//! what it does without is noted, so that the caller can undo it or retire the old blocks.

use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, ArenaFull, Ref};

use super::node::{
    CHILD, FRESH, Mem, NODE, Node, PREFIXES, Prefixes, REF, SLOTS, STRIDE, Set, Shelf, runs_of,
    slots_of,
};
use crate::lpm::family::Key;

/// A block and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(u32);

impl Block {
    const KIND: u32 = 27;

    pub(crate) fn node(r: u32) -> Self {
        Block(r)
    }

    pub(crate) fn prefixes(r: u32) -> Self {
        Block(r | 1 << Self::KIND)
    }

    pub(crate) fn shelf(r: u32) -> Self {
        Block(r | 2 << Self::KIND)
    }

    pub(crate) fn value(r: u32) -> Self {
        Block(r | 3 << Self::KIND)
    }

    pub(crate) fn at(self) -> u32 {
        self.0 & REF
    }

    /// The kind as the arena knows it.
    pub(crate) fn kind(self) -> sapwood_arena::Kind {
        sapwood_arena::Kind((self.0 >> Self::KIND) as u8)
    }
}

/// The blocks of a table, and what the change under way did.
pub(crate) struct Blocks {
    pub(crate) arena: Arena,
    /// Blocks that the change made.
    pub(crate) made: Vec<Block>,
    /// Blocks that the table does without when the change is done.
    pub(crate) gone: Vec<Block>,
    /// New blocks are marked as made by a transaction.
    pub(crate) marks: bool,
    pub(crate) mem: Mem,
}

impl Blocks {
    /// Blocks in an arena that does not move.
    pub(crate) fn new(arena: Arena) -> Self {
        assert!(arena.is_stable(), "readers need a base that stays");
        Blocks {
            mem: Mem(arena.base()),
            arena,
            made: Vec::new(),
            gone: Vec::new(),
            marks: false,
        }
    }

    /// Bytes of a block that is not a value.
    ///
    /// # Safety
    /// It is live or retired.
    pub(crate) unsafe fn bytes(&self, block: Block) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match block.kind() {
                NODE => self.mem.node(block.at()).bytes(),
                PREFIXES => self.mem.prefixes(block.at()).bytes(),
                _ => self.mem.shelf(block.at()).bytes(),
            }
        }
    }

    /// Whether a block that is not a value was made by the open transaction.
    ///
    /// # Safety
    /// It is live.
    pub(crate) unsafe fn is_fresh(&self, block: Block) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match block.kind() {
                NODE => self.mem.node(block.at()).is_fresh(),
                PREFIXES => self.mem.prefixes(block.at()).set().0[0] & Set::FRESH != 0,
                _ => self.mem.shelf(block.at()).is_fresh(),
            }
        }
    }

    /// Frees a block that nobody else knows.
    ///
    /// # Safety
    /// It is live, not a value, and not used again.
    pub(crate) unsafe fn free(&mut self, block: Block) {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = self.bytes(block);
            if let Some(r) = Ref::new(block.at()) {
                self.arena.free(r, bytes, block.kind());
            }
        }
    }

    /// Undoes a change that could not be finished.
    pub(crate) fn undo(&mut self) {
        self.gone.clear();
        while let Some(block) = self.made.pop() {
            // SAFETY: made by this change, linked nowhere.
            unsafe { self.free(block) };
        }
    }

    fn alloc(&mut self, bytes: usize, block: fn(u32) -> Block) -> Result<*mut u8, ArenaFull> {
        let kind = block(0).kind();
        let area = if kind == NODE {
            Area::Nodes
        } else {
            Area::Leaves
        };
        let r = self.arena.alloc(bytes, kind, area)?.get();
        debug_assert!(r <= REF, "the arena's limit is what references reach");
        self.made.push(block(r));
        Ok(self.mem.hint(r))
    }

    /// The reference of the block that was made last.
    fn last(&self) -> u32 {
        self.made.last().map_or(0, |block| block.at())
    }

    /// A node with these slots.
    pub(crate) fn node(
        &mut self,
        slots: &[u32; SLOTS],
        base: u32,
        prefixes: u32,
    ) -> Result<u32, ArenaFull> {
        let runs = runs_of(slots);
        let p = self.alloc(Node::size(runs.count_ones()), Block::node)?;
        let word = prefixes | if self.marks { FRESH } else { 0 };
        // SAFETY: a new block of that size: 16 bytes and a cell for each run.
        unsafe {
            p.cast::<u64>().write(runs);
            p.add(8).cast::<[u32; 2]>().write([base, word]);
            let mut cell = p.add(16).cast::<u32>();
            let mut left = runs;
            while left != 0 {
                cell.write(slots[left.trailing_zeros() as usize]);
                cell = cell.add(1);
                left &= left - 1;
            }
        }
        Ok(self.last())
    }

    /// A copy of a node with another base, and `cell` in place of the one of a run.
    ///
    /// # Safety
    /// `old` is a live node with that run.
    unsafe fn copy(
        &mut self,
        old: u32,
        base: u32,
        replace: Option<(usize, u32)>,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(old) };
        let p = self.alloc(n.bytes(), Block::node)?;
        let word = n.prefixes() | if self.marks { FRESH } else { 0 };
        // SAFETY: a new block of the same size; the run is one of it.
        unsafe {
            core::ptr::copy_nonoverlapping(n.0, p, Node::size(n.cells().len() as u32));
            p.add(8).cast::<[u32; 2]>().write([base, word]);
            if let Some((rank, cell)) = replace {
                p.add(16 + 4 * rank).cast::<u32>().write(cell);
            }
        }
        self.gone.push(Block::node(old));
        Ok(self.last())
    }

    /// A block of prefixes.
    pub(crate) fn prefixes(
        &mut self,
        mut set: Set,
        values: impl Iterator<Item = u32>,
    ) -> Result<u32, ArenaFull> {
        let count = set.len();
        let p = self.alloc(Prefixes::size(count), Block::prefixes)?;
        set.0[0] = set.0[0] & !Set::FRESH | u64::from(self.marks);
        // SAFETY: a new block of that size.
        unsafe {
            p.cast::<[u64; 2]>().write(set.0);
            for (i, value) in values.take(count).enumerate() {
                p.add(16 + 4 * i).cast::<u32>().write(value);
            }
        }
        Ok(self.last())
    }

    /// A shelf.
    pub(crate) fn shelf(
        &mut self,
        mut set: Set,
        kids: u64,
        words: impl Iterator<Item = u32>,
    ) -> Result<u32, ArenaFull> {
        let (values, below) = (set.len(), kids.count_ones() as usize);
        let p = self.alloc(Shelf::size(values, below), Block::shelf)?;
        set.0[0] = set.0[0] & !Set::FRESH | u64::from(self.marks);
        // SAFETY: a new block of that size.
        unsafe {
            p.cast::<[u64; 3]>().write([set.0[0], set.0[1], kids]);
            for (i, word) in words.take(values + below).enumerate() {
                p.add(24 + 4 * i).cast::<u32>().write(word);
            }
        }
        Ok(self.last())
    }

    /// The node in place of `node` (0: none) when the prefix of `left` bits below it has `value` (0: is gone, and was
    /// there). `base` is the value at the node's slot. 0 when nothing is left of it.
    ///
    /// # Safety
    /// `node` is 0 or live.
    pub(crate) unsafe fn change<K: Key>(
        &mut self,
        node: u32,
        base: u32,
        rest: K,
        left: u32,
        value: u32,
    ) -> Result<u32, ArenaFull> {
        if left <= STRIDE {
            // SAFETY: the caller's promise.
            return unsafe { self.change_here(node, base, Set::heap(left, rest.top(left)), value) };
        }
        let slot = rest.top(STRIDE);
        if node == 0 {
            // SAFETY: there is none.
            let below = unsafe { self.change(0, 0, rest.skip(STRIDE), left - STRIDE, value) }?;
            let mut slots = [0; SLOTS];
            slots[slot] = CHILD | below;
            return self.node(&slots, base, 0);
        }
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(node) };
        let rank = n.rank(slot);
        // SAFETY: the rank of a slot.
        let cell = unsafe { n.cell(rank) };
        let (child, here) = if cell & CHILD != 0 {
            // SAFETY: a live node's children are live.
            (cell & REF, unsafe { self.mem.node(cell & REF) }.base())
        } else {
            (0, cell)
        };
        // SAFETY: as above.
        let below = unsafe { self.change(child, here, rest.skip(STRIDE), left - STRIDE, value) }?;
        if child != 0 && below != 0 {
            // SAFETY: live, with that run; a child is a run of its own.
            return unsafe { self.copy(node, base, Some((rank, CHILD | below))) };
        }
        let mut slots = n.expand();
        slots[slot] = if below == 0 { here } else { CHILD | below };
        self.gone.push(Block::node(node));
        self.node_unless_empty(&slots, base, n.prefixes())
    }

    fn node_unless_empty(
        &mut self,
        slots: &[u32; SLOTS],
        base: u32,
        prefixes: u32,
    ) -> Result<u32, ArenaFull> {
        if prefixes == 0 && slots.iter().all(|&cell| cell == 0) {
            return Ok(0);
        }
        self.node(slots, base, prefixes)
    }

    /// As [`change`](Self::change), for a prefix that ends inside this node.
    ///
    /// # Safety
    /// `node` is 0 or live.
    unsafe fn change_here(
        &mut self,
        node: u32,
        base: u32,
        heap: usize,
        value: u32,
    ) -> Result<u32, ArenaFull> {
        let (mut slots, old) = if node == 0 {
            ([0; SLOTS], 0)
        } else {
            // SAFETY: the caller's promise.
            let n = unsafe { self.mem.node(node) };
            self.gone.push(Block::node(node));
            (n.expand(), n.prefixes())
        };
        let (mut set, values): (Set, &[u32]) = if old == 0 {
            (Set::default(), &[])
        } else {
            // SAFETY: a live node's block of prefixes is live.
            let block = unsafe { self.mem.prefixes(old) };
            self.gone.push(Block::prefixes(old));
            (block.set(), block.values())
        };
        let seen = match (value, set.cover(heap, 2)) {
            (0, Some(cover)) => values[set.rank(cover)],
            (0, None) => 0,
            _ => value,
        };
        let at = set.rank(heap);
        let there = usize::from(set.has(heap));
        let new = if value == 0 { None } else { Some(value) };
        match new {
            Some(_) => set.insert(heap),
            None => set.remove(heap),
        }
        let prefixes = if set.is_empty() {
            0
        } else {
            let before = values[..at].iter().copied();
            let after = values[at + there..].iter().copied();
            self.prefixes(set, before.chain(new).chain(after))?
        };
        for i in slots_of(heap) {
            // Slots that a longer prefix covers are not ours.
            if set.cover((SLOTS | i) << 1, heap << 1).is_some() {
                continue;
            }
            let cell = slots[i];
            if cell & CHILD == 0 {
                slots[i] = seen;
                continue;
            }
            // SAFETY: a live node's children are live.
            if unsafe { self.mem.node(cell & REF) }.base() != seen {
                // SAFETY: as above.
                slots[i] = CHILD | unsafe { self.copy(cell & REF, seen, None) }?;
            }
        }
        self.node_unless_empty(&slots, base, prefixes)
    }

    /// The shelf in place of `shelf` (0: none) when the prefix of `left` bits on it has `value` (0: is gone, and was
    /// there). 0 when nothing is left.
    ///
    /// # Safety
    /// `shelf` is 0 or live.
    pub(crate) unsafe fn change_shelf<K: Key>(
        &mut self,
        shelf: u32,
        rest: K,
        left: u32,
        value: u32,
    ) -> Result<u32, ArenaFull> {
        let (mut set, mut kids, values, below): (Set, u64, &[u32], &[u32]) = if shelf == 0 {
            (Set::default(), 0, &[], &[])
        } else {
            // SAFETY: the caller's promise.
            let s = unsafe { self.mem.shelf(shelf) };
            self.gone.push(Block::shelf(shelf));
            (s.set(), s.kids(), s.values(), s.below())
        };
        // What stands in the list of values, or of shelves below, at `at`, in place of `there` old ones.
        let (at, there, new);
        if left > STRIDE {
            let slot = rest.top(STRIDE);
            let rank = (kids & ((1 << slot) - 1)).count_ones() as usize;
            there = (kids >> slot & 1) as usize;
            let old = if there == 0 { 0 } else { below[rank] };
            // SAFETY: a live shelf's shelves are live.
            let changed =
                unsafe { self.change_shelf(old, rest.skip(STRIDE), left - STRIDE, value) }?;
            kids = kids & !(1 << slot) | u64::from(changed != 0) << slot;
            (at, new) = (values.len() + rank, changed);
        } else {
            let bits = if left == 0 { 0 } else { rest.top(left) };
            let heap = Set::heap(left, bits);
            there = usize::from(set.has(heap));
            (at, new) = (set.rank(heap), value);
            match value {
                0 => set.remove(heap),
                _ => set.insert(heap),
            }
        }
        if set.is_empty() && kids == 0 {
            return Ok(0);
        }
        let all = || values.iter().chain(below).copied();
        let words = all().take(at).chain((new != 0).then_some(new));
        self.shelf(set, kids, words.chain(all().skip(at + there)))
    }
}

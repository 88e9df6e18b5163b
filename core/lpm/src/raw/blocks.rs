//! The blocks of a table: how they are made, and which blocks the current change made and unlinked.

use alloc::vec::Vec;

use sapwood_arena::{Area, Arena, ArenaFull, Kind, Pool, Ref};

use super::node::{Lone, Mem, NODE, POOLED, Prefixes, ROOT, ROOT_PREFIXES, runs_of};
use crate::garbage::Block;
use sapwood_format::lpm::{
    CHILD, FRESH, LONE_BYTES, NODE_SLOTS, REF, ROOT_PREFIXES_VALUES, SET, SLOTS, STRIDE, Set,
    node_bytes, node_tail, ones, root_prefixes_bytes, slots_of,
};

/// The largest block that the pool keeps, in bytes: the size of the largest block of root prefixes.
const POOLED_BLOCK: usize = 800;
/// The most bytes of free blocks that the pool keeps.
const POOLED_MOST: usize = 1 << 16;

/// Where blocks of a kind lie.
pub(crate) fn area(kind: Kind) -> Area {
    if kind == NODE || kind == ROOT {
        Area::Nodes
    } else {
        Area::Leaves
    }
}

/// The prefixes of a new node: the values of an old node, and one value between them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tail<'a> {
    pub(crate) set: Set,
    pub(crate) before: &'a [u32],
    pub(crate) put: Option<u32>,
    pub(crate) behind: &'a [u32],
}

impl<'a> Tail<'a> {
    /// The prefixes of another node.
    pub(crate) fn from_prefixes(prefixes: Prefixes<'a>) -> Self {
        Tail {
            set: prefixes.set,
            before: prefixes.values,
            ..Tail::default()
        }
    }

    /// The value of the first prefix.
    pub(crate) fn first(&self) -> Option<u32> {
        let before = self.before.first().copied();
        before.or(self.put).or(self.behind.first().copied())
    }

    /// # Safety
    /// There is room for the set and its values at `p`, which is aligned to 8.
    unsafe fn write(self, p: *mut u8) {
        let put = usize::from(self.put.is_some());
        debug_assert_eq!(self.set.len(), self.before.len() + put + self.behind.len());
        // SAFETY: the caller's promise.
        unsafe {
            p.cast::<[u64; 2]>().write(self.set.0);
            let mut to = p.add(SET).cast::<u32>();
            copy_words(self.before, to);
            to = to.add(self.before.len());
            if let Some(value) = self.put {
                to.write(value);
                to = to.add(1);
            }
            copy_words(self.behind, to);
        }
    }
}

/// The blocks of a table, and what the current change did.
pub(crate) struct Blocks {
    pub(crate) arena: Arena,
    pub(crate) pool: Pool,
    /// Blocks that the change made.
    pub(crate) made: Vec<Block>,
    /// Blocks that the change unlinks.
    pub(crate) gone: Vec<Block>,
    /// New blocks are marked as made by a transaction.
    pub(crate) marks: bool,
    pub(crate) mem: Mem,
}

impl Blocks {
    /// Blocks in an arena that does not move.
    pub(crate) fn new(arena: Arena) -> Self {
        assert!(
            arena.is_stable(),
            "{}",
            sapwood_common::raw::memory::NEEDS_STABLE
        );
        Blocks {
            mem: Mem(arena.base()),
            pool: Pool::new(&arena, POOLED, POOLED_BLOCK, POOLED_MOST),
            arena,
            made: Vec::new(),
            gone: Vec::new(),
            marks: false,
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
                _ => self.mem.root_prefixes(block.at()).is_fresh(),
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
            if let Some(r) = Ref::new(block.at()) {
                let (bytes, kind) = (block.bytes(), block.kind());
                self.pool
                    .free(&mut self.arena, (r, bytes, kind), area(kind));
            }
        }
    }

    /// Gives the pool's free blocks back to the arena.
    pub(crate) fn clear_pool(&mut self) {
        self.pool.clear(&mut self.arena);
    }

    /// Undoes a change that could not be finished.
    pub(crate) fn undo(&mut self) {
        self.gone.clear();
        while let Some(block) = self.made.pop() {
            // SAFETY: made by this change, linked nowhere.
            unsafe { self.free(block) };
        }
    }

    fn alloc(&mut self, kind: Kind, bytes: usize) -> Result<(u32, *mut u8), ArenaFull> {
        let kept = self.pool.take(&mut self.arena, bytes, kind, area(kind));
        let r = match kept {
            Some(r) => r.get(),
            None => match self.arena.alloc(bytes, kind, area(kind)) {
                Ok(r) => r.get(),
                Err(full) if self.arena.failed_by_injection() => return Err(full),
                // Free blocks of other sizes that the pool keeps may make one of this size.
                Err(_) => {
                    self.clear_pool();
                    self.arena.alloc(bytes, kind, area(kind))?.get()
                }
            },
        };
        debug_assert!(r <= REF, "references reach the whole arena");
        self.made.push(Block::new(r, kind, bytes));
        Ok((r, self.mem.hint(r)))
    }

    /// A new node whose cells the caller still writes.
    fn begin_node(
        &mut self,
        runs: u64,
        base: u32,
        tail: Tail<'_>,
    ) -> Result<(u32, *mut u32), ArenaFull> {
        let (runs_len, count) = (ones(runs) as usize, tail.set.len());
        let (r, p) = self.alloc(NODE, node_bytes(runs_len, count))?;
        let word = count as u32 | if self.marks { FRESH } else { 0 };
        // SAFETY: a new block of that size, aligned to 8: 16 bytes, a cell for each run, and the
        // tail.
        unsafe {
            p.cast::<u64>().write(runs);
            p.add(8).cast::<[u32; 2]>().write([base, word]);
            if count != 0 {
                tail.write(p.add(node_tail(runs_len)));
            }
            Ok((r, p.add(NODE_SLOTS).cast()))
        }
    }

    /// The block of a prefix that is the only one from here on: a lone prefix, or a node when the
    /// prefix ends inside it.
    pub(crate) fn lone(&mut self, lone: Lone, base: u32) -> Result<u32, ArenaFull> {
        let len = lone.len();
        if len <= STRIDE {
            let heap = Set::heap(len, (lone.word >> (64 - len)) as usize);
            let mut set = Set::default();
            set.insert(heap);
            let (covered, put) = (slots_of(heap), Some(lone.value));
            let tail = Tail {
                set,
                put,
                ..Tail::default()
            };
            if covered.len() == 1 {
                return self.node_of_one(covered.start, lone.value, base, tail);
            }
            let mut slots = [0; SLOTS];
            slots[covered].fill(lone.value);
            return self.node(&slots, base, tail);
        }
        let (r, p) = self.alloc(NODE, LONE_BYTES)?;
        let word = 1 | if self.marks { FRESH } else { 0 };
        // SAFETY: a new block of that size, aligned to 8.
        unsafe {
            p.cast::<u64>().write(lone.word);
            p.add(8)
                .cast::<[u32; 4]>()
                .write([base, word, 0, lone.value]);
        }
        Ok(r)
    }

    /// The mark for the words of a root that has grown: see [`Lone::is_moved`].
    pub(crate) fn mark_of_a_moved_root(&mut self) -> Result<u32, ArenaFull> {
        let (r, p) = self.alloc(NODE, LONE_BYTES)?;
        // SAFETY: a new block of that size, aligned to 8.
        unsafe {
            p.cast::<u64>().write(0);
            p.add(8).cast::<[u32; 4]>().write([0, 1, 0, 0]);
        }
        Ok(r)
    }

    /// A node with these slots.
    pub(crate) fn node(
        &mut self,
        slots: &[u32; SLOTS],
        base: u32,
        tail: Tail<'_>,
    ) -> Result<u32, ArenaFull> {
        let mut left = runs_of(slots);
        let (r, mut cell) = self.begin_node(left, base, tail)?;
        while left != 0 {
            // SAFETY: there is a cell for each run.
            unsafe {
                cell.write(slots[left.trailing_zeros() as usize]);
                cell = cell.add(1);
            }
            left &= left - 1;
        }
        Ok(r)
    }

    /// A node with one slot that is not empty.
    pub(crate) fn node_of_one(
        &mut self,
        slot: usize,
        cell: u32,
        base: u32,
        tail: Tail<'_>,
    ) -> Result<u32, ArenaFull> {
        // The slot's run, and the run of the empty slots behind it.
        let runs = 1 | 1 << slot | (1_u64 << slot) << 1;
        let (r, cells) = self.begin_node(runs, base, tail)?;
        let first = usize::from(slot != 0);
        let all = [0, cell, 0];
        for (i, &cell) in all[1 - first..]
            .iter()
            .take(ones(runs) as usize)
            .enumerate()
        {
            // SAFETY: there is a cell for each run.
            unsafe { cells.add(i).write(cell) };
        }
        Ok(r)
    }

    /// A node that replaces a live one and has another cell in one slot; 0 when it would be empty.
    ///
    /// # Safety
    /// `old` is a live node.
    pub(crate) unsafe fn node_with(
        &mut self,
        old: u32,
        slot: usize,
        new: u32,
        base: u32,
        tail: Tail<'_>,
    ) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(old) };
        let (runs, cells, rank) = (n.runs(), n.cells(), n.rank(slot));
        self.gone.push(n.block(old));
        if new & cells[rank] & CHILD != 0 {
            // A node below is a run of its own, before and after.
            let (r, to) = self.begin_node(runs, base, tail)?;
            // SAFETY: the new node has as many cells.
            unsafe {
                copy_words(cells, to);
                to.add(rank).write(new);
            }
            return Ok(r);
        }
        // The slot's run goes on before it, and behind it.
        let before = runs >> slot & 1 == 0;
        let behind = slot + 1 < SLOTS && runs >> (slot + 1) & 1 == 0;
        let left = if before { rank + 1 } else { rank };
        let right = if behind { rank } else { rank + 1 };
        // The slot begins a run unless it equals its neighbour, and so does the slot after it.
        let begins = left == 0 || cells[left - 1] != new;
        let follows = right < cells.len() && cells[right] != new;
        let bit = 1_u64 << slot;
        let next = bit << 1;
        let runs =
            runs & !(bit | next) | if begins { bit } else { 0 } | if follows { next } else { 0 };
        if runs == 1 && new == 0 && tail.set.is_empty() {
            return Ok(0);
        }
        let right = right + usize::from(right < cells.len() && !follows);
        let (r, to) = self.begin_node(runs, base, tail)?;
        let put = usize::from(begins);
        debug_assert_eq!(left + put + cells.len() - right, ones(runs) as usize);
        // SAFETY: there is a cell for each run of the new node; the parts are of the old one.
        unsafe {
            copy_words(&cells[..left], to);
            if begins {
                to.add(left).write(new);
            }
            copy_words(&cells[right..], to.add(left + put));
        }
        Ok(r)
    }

    /// A copy of a node with another base.
    ///
    /// # Safety
    /// `old` is a live node.
    pub(crate) unsafe fn copy(&mut self, old: u32, base: u32) -> Result<u32, ArenaFull> {
        // SAFETY: the caller's promise.
        let n = unsafe { self.mem.node(old) };
        if let Some(lone) = n.lone() {
            let r = self.lone(lone, base)?;
            self.gone.push(n.block(old));
            return Ok(r);
        }
        let cells = n.cells();
        let (r, to) = self.begin_node(n.runs(), base, Tail::from_prefixes(n.prefixes()))?;
        // SAFETY: the new node has as many cells.
        unsafe { copy_words(cells, to) };
        self.gone.push(n.block(old));
        Ok(r)
    }

    /// A block of root prefixes.
    pub(crate) fn root_prefixes(
        &mut self,
        mut set: Set,
        kids: u64,
        words: impl Iterator<Item = u32>,
    ) -> Result<u32, ArenaFull> {
        let count = set.len() + ones(kids) as usize;
        let (r, p) = self.alloc(ROOT_PREFIXES, root_prefixes_bytes(count))?;
        set.0[0] = set.0[0] & !Set::FRESH | u64::from(self.marks);
        // SAFETY: a new block of that size, aligned to 8.
        unsafe {
            p.cast::<[u64; 3]>().write([set.0[0], set.0[1], kids]);
            let mut left = p.add(ROOT_PREFIXES_VALUES).cast::<u32>();
            for word in words.take(count) {
                left.write(word);
                left = left.add(1);
            }
        }
        Ok(r)
    }
}

/// Copies a few words: a call of the library's function would take longer than the copying.
///
/// # Safety
/// `to` has room for them, and does not overlap them.
#[inline(always)]
unsafe fn copy_words(from: &[u32], to: *mut u32) {
    let mut to = to;
    let mut chunks = from.chunks_exact(4);
    // SAFETY: the caller's promise.
    unsafe {
        for four in &mut chunks {
            to.cast::<[u32; 4]>()
                .write([four[0], four[1], four[2], four[3]]);
            to = to.add(4);
        }
        for &word in chunks.remainder() {
            to.write(word);
            to = to.add(1);
        }
    }
}

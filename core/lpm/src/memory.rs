//! Reports of a table's memory.

use core::fmt;

use sapwood_arena::Memory;

use super::fib::NextHop;
use super::raw::node::{NODE, POOLED, ROOT, ROOT_PREFIXES, VALUE};
use super::raw::table::FibShared;
use super::raw::writer::Writer;
use crate::figures::{self, table};

/// A report of a table's memory. Pairs are a number of blocks and their bytes; other sums are
/// bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FibMemory {
    /// Prefixes.
    pub prefixes: usize,
    /// Bytes of the root.
    pub root: usize,
    /// Nodes below the root, with the prefixes that end in them: number and bytes.
    pub nodes: (usize, usize),
    /// Blocks of root prefixes, which are not longer than the root: number and bytes.
    pub shelves: (usize, usize),
    /// Different values: number and bytes.
    pub values: (usize, usize),
    /// Blocks that wait for readers and snapshots: number and bytes.
    pub waiting: (usize, usize),
    /// Free bytes that the writer keeps for the next changes.
    pub pooled: usize,
    /// Snapshots that are alive. They copy nothing; what changes save for them waits.
    pub snapshots: usize,
    /// Bytes of the table's own structures outside the arena.
    pub outside: usize,
    /// The arena's accounts.
    pub arena: Memory,
}

impl FibMemory {
    pub(super) fn new<V: NextHop>(writer: &Writer<V>, shared: &FibShared<V>) -> Self {
        let arena = writer.blocks.arena.memory();
        let kind = |kind| figures::kind(&arena, kind);
        let snapshots = shared.versions().snapshots();
        FibMemory {
            prefixes: writer.len(),
            root: kind(ROOT).1,
            nodes: kind(NODE),
            shelves: kind(ROOT_PREFIXES),
            values: kind(VALUE),
            waiting: writer.waiting(),
            pooled: kind(POOLED).1,
            snapshots,
            outside: size_of::<FibShared<V>>()
                + writer.values.bytes()
                + writer.blocks.pool.bytes()
                + shared.heads_bytes(),
            arena,
        }
    }

    /// All bytes that the table takes from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        figures::total(&self.arena, self.outside)
    }
}

impl fmt::Display for FibMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = [
            ("root", (1, self.root)),
            ("nodes", self.nodes),
            ("shelves", self.shelves),
            ("values", self.values),
            ("waiting", self.waiting),
        ];
        let sums = figures::sums(&self.arena, self.pooled, self.outside);
        table(f, ("prefixes", "a prefix"), self.prefixes, &blocks, &sums)
    }
}

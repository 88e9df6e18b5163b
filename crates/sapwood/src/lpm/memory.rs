//! What a table's memory holds.

use core::fmt;

use sapwood_arena::Memory;

use super::fib::NextHop;
use super::raw::node::{NODE, POOLED, ROOT, SHELF, VALUE};
use super::raw::table::Shared;
use super::raw::writer::Writer;
use crate::figures::table;

/// What a table's memory holds: number of blocks and bytes, or bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FibMemory {
    /// Prefixes.
    pub prefixes: usize,
    /// Bytes of the root.
    pub root: usize,
    /// Nodes below the root, with the prefixes that end in them: number and bytes.
    pub nodes: (usize, usize),
    /// Shelves, for prefixes that are not longer than the root: number and bytes.
    pub shelves: (usize, usize),
    /// Values that differ: number and bytes.
    pub values: (usize, usize),
    /// Blocks that wait for readers and snapshots: number and bytes.
    pub waiting: (usize, usize),
    /// Free bytes that the writer keeps for the next changes.
    pub pooled: usize,
    /// Snapshots that are alive. Each has a copy of the root besides.
    pub snapshots: usize,
    /// Bytes of the table's own structures outside the arena.
    pub outside: usize,
    /// The arena's accounts.
    pub arena: Memory,
}

impl FibMemory {
    pub(super) fn of<V: NextHop>(writer: &Writer<V>, shared: &Shared<V>) -> Self {
        let arena = writer.blocks.arena.memory();
        let kind = |kind: sapwood_arena::Kind| {
            let kind = &arena.kinds[kind.0 as usize];
            (kind.count, kind.bytes)
        };
        let snapshots = shared.kept();
        FibMemory {
            prefixes: writer.len(),
            root: kind(ROOT).1,
            nodes: kind(NODE),
            shelves: kind(SHELF),
            values: kind(VALUE),
            waiting: writer.waiting(),
            pooled: kind(POOLED).1,
            snapshots,
            outside: size_of::<Shared<V>>()
                + writer.values.bytes()
                + writer.blocks.pool.bytes()
                + snapshots * kind(ROOT).1,
            arena,
        }
    }

    /// All bytes that the table takes from the system.
    pub fn total(&self) -> usize {
        self.arena.committed + self.arena.overhead + self.outside
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
        let sums = [
            ("pooled", self.pooled),
            ("free", self.arena.free),
            ("outside", self.outside + self.arena.overhead),
            ("total", self.total()),
        ];
        table(f, ("prefixes", "a prefix"), self.prefixes, &blocks, &sums)
    }
}

//! Reports of a map's memory.

use core::fmt;

use sapwood_arena::{Arena, Memory};

#[cfg(not(feature = "std"))]
use super::raw::node::{INNER, LEAF};
#[cfg(feature = "std")]
use super::raw::node::{INNER, LEAF, POOLED, RESERVED, VALUE};
use super::raw::owned::Owned;
#[cfg(feature = "std")]
use super::raw::table::{MapleShared, Writer};
use crate::Word;
use crate::figures::{self, ENTRIES, table};

/// A report of a map's memory. Pairs are a number of blocks and their bytes; other sums are bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MapleMemory {
    /// Entries.
    pub entries: usize,
    /// Levels of inner nodes above the leaves.
    pub height: usize,
    /// Leaves: number and bytes.
    pub leaves: (usize, usize),
    /// Inner nodes: number and bytes.
    pub inner: (usize, usize),
    /// Values that do not lie in leaves: number and bytes.
    pub values: (usize, usize),
    /// Blocks of reservations: number and bytes.
    pub reserved: (usize, usize),
    /// Blocks that wait for readers and snapshots: number and bytes.
    pub waiting: (usize, usize),
    /// Free bytes that the writer keeps for the next changes.
    pub pooled: usize,
    /// The number of nodes that the map has made since it began.
    pub nodes_made: u64,
    /// Bytes of the map's own structures outside the arena.
    pub outside: usize,
    /// The arena's accounts.
    pub arena: Memory,
}

impl MapleMemory {
    #[cfg(feature = "std")]
    pub(super) fn new<V, W: Word>(writer: &Writer<V, W>) -> Self {
        let arena = writer.space.arena.memory();
        let kind = |kind| figures::kind(&arena, kind);
        MapleMemory {
            entries: writer.len,
            height: writer.root.height,
            leaves: kind(LEAF),
            inner: kind(INNER),
            values: kind(VALUE),
            reserved: kind(RESERVED),
            waiting: writer.space.garbage.waiting(),
            pooled: kind(POOLED).1,
            nodes_made: writer.space.made,
            outside: size_of::<MapleShared<V, W>>() + writer.space.pool.bytes() + writer.room(),
            arena,
        }
    }

    pub(super) fn owned<V, W: Word>(owned: &Owned<V, W>) -> Self {
        let arena = owned.arena().memory();
        let kind = |kind| figures::kind(&arena, kind);
        MapleMemory {
            entries: owned.len(),
            height: owned.height(),
            leaves: kind(LEAF),
            inner: kind(INNER),
            // The arena's own part is in its accounts.
            outside: size_of::<Owned<V, W>>() - size_of::<Arena>(),
            arena,
            ..MapleMemory::default()
        }
    }

    /// All bytes that the map takes from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        figures::total(&self.arena, self.outside)
    }
}

impl fmt::Display for MapleMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = [
            ("leaves", self.leaves),
            ("inner nodes", self.inner),
            ("values", self.values),
            ("reserved", self.reserved),
            ("waiting", self.waiting),
        ];
        let sums = figures::sums(&self.arena, self.pooled, self.outside);
        table(f, ENTRIES, self.entries, &blocks, &sums)
    }
}

//! Reports of what a map's memory holds.

use core::fmt;

use crate::figures::{self, ENTRIES, table};
use sapwood_arena::{Kind, Memory};

use super::raw::points::INDEX_KIND;
use super::raw::tree::Tree;
use crate::Value;

/// What a map's memory holds, in bytes. All parts of `arena` add up to the arena's frontier.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QpMemory {
    /// Number of entries.
    pub entries: usize,
    /// Branches: number and bytes.
    pub branches: (usize, usize),
    /// Clusters, of leaves' cells or of entries, with their keys and values: number and bytes.
    pub clusters: (usize, usize),
    /// Leaves, with keys and values, of entries that no cluster holds: number and bytes.
    pub leaves: (usize, usize),
    /// Bytes of the point index.
    pub index: usize,
    /// Bytes of the map's own structures outside the arena.
    pub outside: usize,
    /// The arena's accounts.
    pub arena: Memory,
}

impl QpMemory {
    pub(crate) fn from_tree<V: ?Sized + Value>(tree: &Tree<V>) -> Self {
        let arena = tree.arena.memory();
        let kind = |kind| figures::kind(&arena, kind);
        QpMemory {
            entries: tree.len,
            branches: kind(Kind(0)),
            clusters: kind(Kind(1)),
            leaves: kind(Kind(2)),
            index: kind(INDEX_KIND).1,
            outside: size_of::<Tree<V>>() + tree.order.bytes(),
            arena,
        }
    }

    /// All bytes that the map takes from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        figures::total(&self.arena, self.outside)
    }
}

impl fmt::Display for QpMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = [
            ("branches", self.branches),
            ("clusters", self.clusters),
            ("leaves", self.leaves),
        ];
        let sums = [
            ("point index", self.index),
            ("live", self.arena.live),
            ("retired", self.arena.retired),
            ("free", self.arena.free),
            ("committed", self.arena.committed),
            ("side tables", self.arena.overhead + self.outside),
            ("total", self.total()),
        ];
        // A map without an index has no line for it.
        let from = usize::from(self.index == 0);
        table(f, ENTRIES, self.entries, &blocks, &sums[from..])
    }
}

/// What a store's memory holds.
#[cfg(feature = "std")]
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QpStoreMemory {
    /// The newest version and the arena. `arena.retired` is the bytes that older versions and
    /// readers hold back.
    pub map: QpMemory,
    /// Retired nodes that wait for readers and snapshots: number and bytes.
    pub waiting: (usize, usize),
    /// Number of snapshots that are alive.
    pub snapshots: usize,
}

#[cfg(feature = "std")]
impl QpStoreMemory {
    pub(crate) fn from_writer<V: ?Sized + Value>(
        writer: &super::raw::version::Writer<V>,
        snapshots: usize,
    ) -> Self {
        QpStoreMemory {
            map: QpMemory::from_tree(&writer.tree),
            waiting: writer.waiting(),
            snapshots,
        }
    }
}

#[cfg(feature = "std")]
impl fmt::Display for QpStoreMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshots = ("snapshots", self.snapshots as u64);
        figures::counts(f, &[("waiting", self.waiting.0 as u64), snapshots])?;
        self.map.fmt(f)
    }
}

/// What a shared map's memory holds, in bytes:
/// `branches + clusters + leaves + waiting + pooled + index` are the arena's live bytes.
#[cfg(feature = "std")]
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QpSharedMemory {
    /// Number of entries.
    pub entries: usize,
    /// Branches: number and bytes.
    pub branches: (usize, usize),
    /// Clusters of leaves: number and bytes.
    pub clusters: (usize, usize),
    /// Leaves, with keys and values: number and bytes.
    pub leaves: (usize, usize),
    /// Retired nodes that wait for readers: number and bytes.
    pub waiting: (usize, usize),
    /// Bytes of free blocks that writers keep for their next changes.
    pub pooled: usize,
    /// Bytes of the point index, in the arena.
    pub index: usize,
    /// Bytes of the map's own structures outside the arena.
    pub outside: usize,
    /// The arena's accounts.
    pub arena: Memory,
}

#[cfg(feature = "std")]
impl QpSharedMemory {
    /// All bytes that the map takes from the system.
    ///
    /// O(1).
    pub fn total(&self) -> usize {
        figures::total(&self.arena, self.outside)
    }
}

#[cfg(feature = "std")]
impl fmt::Display for QpSharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = [
            ("branches", self.branches),
            ("clusters", self.clusters),
            ("leaves", self.leaves),
            ("waiting", self.waiting),
        ];
        let sums = [
            ("point index", self.index),
            ("pooled", self.pooled),
            ("live", self.arena.live),
            ("free", self.arena.free),
            ("committed", self.arena.committed),
            ("side tables", self.arena.overhead + self.outside),
            ("total", self.total()),
        ];
        table(f, ENTRIES, self.entries, &blocks, &sums)
    }
}

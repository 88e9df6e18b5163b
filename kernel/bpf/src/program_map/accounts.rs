//! What a map tells of itself: the work of its service, its memory, its shape, failed operations.

use std::fmt;

/// The work of a step of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Serviced {
    /// Fetched blocks that programs had retired.
    pub fetched: usize,
    /// Blocks freed after their grace period.
    pub freed: usize,
    /// Blocks put into rings.
    pub given: usize,
    /// Whether some blocks could not be supplied, for want of memory.
    pub starved: bool,
}

impl Serviced {
    /// Whether the step had no work.
    pub fn is_idle(&self) -> bool {
        self.fetched + self.freed + self.given == 0
    }
}

impl fmt::Display for Serviced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Serviced {
            fetched,
            freed,
            given,
            starved,
        } = self;
        write!(f, "{fetched} blocks fetched, {freed} freed, {given} given")?;
        match starved {
            true => f.write_str("; no memory for more"),
            false => Ok(()),
        }
    }
}

/// Where the bytes of a map are. All of them, from `fixed` to `free`, add up to `frontier`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramMapMemory {
    /// Header, rings and index.
    pub fixed: usize,
    /// Of these, the index.
    pub index: usize,
    /// Blocks in rings, for programs to take.
    pub offered: usize,
    /// Blocks that programs have: branches, clusters and leaves.
    pub live: usize,
    /// Of these, branches, as programs say.
    pub branches: usize,
    /// Of these, clusters, as programs say.
    pub clusters: usize,
    /// Of these, leaves, as programs say.
    pub leaves: usize,
    /// Retired blocks that were not fetched yet.
    pub retired: usize,
    /// Blocks that wait for the end of a grace period.
    pub waiting: usize,
    /// Free memory below the frontier.
    pub free: usize,
    /// Bytes from the window's beginning that are in use.
    pub frontier: usize,
}

impl fmt::Display for ProgramMapMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, bytes) in [
            ("fixed", self.fixed),
            ("index", self.index),
            ("offered", self.offered),
            ("live", self.live),
            ("branches", self.branches),
            ("clusters", self.clusters),
            ("leaves", self.leaves),
            ("retired", self.retired),
            ("waiting", self.waiting),
            ("free", self.free),
            ("frontier", self.frontier),
        ] {
            writeln!(f, "{what:<16} {bytes:>16} bytes")?;
        }
        Ok(())
    }
}

/// The shape of a map, as a walk over all of it found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramMapShape {
    /// Entries.
    pub entries: usize,
    /// Branches of the trie.
    pub branches: usize,
    /// Clusters of leaves.
    pub clusters: usize,
    /// The most branches above a leaf.
    pub depth: usize,
    /// Entries that do not lie in their home bucket.
    pub displaced: usize,
    /// Entries that the index has no slot for.
    pub spilled: usize,
    /// References that programs retired since the map was made, and that were not their blocks.
    pub refused: u64,
}

impl fmt::Display for ProgramMapShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [
            ("entries", self.entries as u64),
            ("branches", self.branches as u64),
            ("clusters", self.clusters as u64),
            ("depth", self.depth as u64),
            ("displaced", self.displaced as u64),
            ("spilled", self.spilled as u64),
            ("refused", self.refused),
        ] {
            writeln!(f, "{what:<16} {count:>16}")?;
        }
        Ok(())
    }
}

/// The operations of programs that failed on a processor, by reason, since the map was made. With
/// more than 32 processors, some share counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramMapDrops {
    /// The number of the processor.
    pub processor: usize,
    /// A writer that was interrupted held a lock, or another one held it too long (`-EBUSY`).
    pub busy: u64,
    /// No block of that size, or no room for retired blocks (`-ENOMEM`).
    pub no_memory: u64,
    /// The map had `max_entries`, or the index no slot (`-E2BIG`, `-ENOSPC`).
    pub full: u64,
}

impl ProgramMapDrops {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.busy + self.no_memory + self.full
    }
}

impl fmt::Display for ProgramMapDrops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramMapDrops {
            processor,
            busy,
            no_memory,
            full,
        } = self;
        write!(
            f,
            "processor {processor}: {busy} busy, {no_memory} without memory, {full} full"
        )
    }
}

//! The choices of builders about memory, for structures whose memory must not move.

use sapwood_arena::{ArenaOptions, Backing};

/// The message of the panic about memory that moves, with what to do about it.
pub const NEEDS_STABLE: &str = "readers need a base that stays: to limit the memory, call \
    `memory_limit` and not `options`; or choose a backing that stays, as \
    `.backing(Backing::Mmap { reserve })` does";

/// The options of an arena, and a limit that holds besides them.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    pub options: ArenaOptions,
    pub limit: Option<usize>,
}

/// Bytes of address space that a structure reserves at first, unless its memory is limited.
pub const RESERVE: usize = 64 << 20;

impl Default for MemoryOptions {
    /// A small reservation of address space, which grows where it lies. Memory is committed as it
    /// is used.
    fn default() -> Self {
        let backing = Backing::Growing { reserve: RESERVE };
        MemoryOptions {
            options: ArenaOptions::default().backing(backing),
            limit: None,
        }
    }
}

impl MemoryOptions {
    /// The options of the arena.
    ///
    /// # Panics
    /// When the backing moves as it grows.
    pub fn stable(self) -> ArenaOptions {
        let backing = self.options.chosen_backing();
        let moves = matches!(backing, Backing::Auto | Backing::Heap);
        assert!(!moves, "{NEEDS_STABLE}");
        // What is promised to the structure is there from the start.
        let growing = matches!(backing, Backing::Growing { .. });
        match self.limit {
            Some(reserve) if growing => self
                .options
                .backing(Backing::Growing { reserve })
                .limit_to(reserve),
            Some(limit) => self.options.limit_to(limit),
            None => self.options,
        }
    }
}

//! The choices of builders about memory, for structures whose memory must not move.

use sapwood_arena::{ArenaOptions, Backing};

/// The message of the panic about memory that moves, with what to do about it.
pub(crate) const NEEDS_STABLE: &str = "readers need a base that stays: to limit the memory, call \
    `memory_limit` and not `options`; or choose a backing that stays, as \
    `.backing(Backing::Mmap { reserve })` does";

/// The options of an arena, and a limit that holds besides them.
#[derive(Clone, Debug)]
pub(crate) struct MemoryOptions {
    pub(crate) options: ArenaOptions,
    pub(crate) limit: Option<usize>,
}

impl MemoryOptions {
    /// Memory in this many bytes of address space, committed as it is used.
    pub(crate) fn reserve(bytes: usize) -> Self {
        let backing = Backing::Mmap { reserve: bytes };
        MemoryOptions {
            options: ArenaOptions::default().backing(backing),
            limit: None,
        }
    }

    /// The options of the arena.
    ///
    /// # Panics
    /// When the backing moves as it grows.
    pub(crate) fn stable(self) -> ArenaOptions {
        let backing = self.options.chosen_backing();
        let moves = matches!(backing, Backing::Auto | Backing::Heap);
        assert!(!moves, "{NEEDS_STABLE}");
        self.options.limit_to(self.limit.unwrap_or(usize::MAX))
    }
}

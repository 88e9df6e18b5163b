//! The options of an arena, which are chosen when it is made.

use crate::reference::MAX_BYTES;
#[cfg(feature = "std")]
use std::path::PathBuf;

/// The source of an arena's memory.
///
/// ```
/// use sapwood_arena::{Arena, ArenaOptions, Backing};
/// let arena = Arena::new(ArenaOptions::default().backing(Backing::HeapFixed(1 << 16)));
/// # let _ = arena;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backing {
    /// [`AutoRegion`](crate::AutoRegion): heap while small, then pages that may move. For maps with
    /// one owner.
    #[default]
    Auto,
    /// A [`HeapRegion`](crate::HeapRegion), which moves when it grows.
    Heap,
    /// A [`HeapRegion::fixed`](crate::HeapRegion::fixed) of this many bytes, which does not move.
    HeapFixed(usize),
    /// A [`MmapRegion`](crate::MmapRegion) over this many bytes of address space, which does not
    /// move. Without `mmap`, and under Miri, a fixed heap region of `reserve` or 1 MiB, whichever
    /// is less.
    Mmap {
        /// Bytes of address space.
        reserve: usize,
    },
    /// A [`MmapRegion::growing`](crate::MmapRegion::growing), which does not move: it reserves so
    /// many bytes of address space, and grows where it lies up to the arena's
    /// [`limit`](ArenaOptions::limit). Without `mmap`, and under Miri, as `Mmap`.
    Growing {
        /// Bytes of address space at first.
        reserve: usize,
    },
    /// [`FileRegion`](crate::FileRegion): a new file, shared with every process that maps it.
    #[cfg(feature = "std")]
    File(PathBuf),
    /// A [`FileRegion`](crate::FileRegion) without a name, shared by passing its descriptor. Linux
    /// only.
    #[cfg(feature = "std")]
    Memfd,
}

/// The header of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderMode {
    /// A header of 64 bytes that has only the roots: for memory that no other program will open.
    #[default]
    Line,
    /// A page that says what the memory is, so that other programs can check it: see
    /// [`Header`](crate::Header).
    Page,
}

/// How an arena looks for uses of freed memory. The modes are for tests: they take more time and
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebugMode {
    /// The arena does not look.
    #[default]
    Off,
    /// The arena fills freed memory with `0xDB`, and checks that it still is when it allocates the
    /// memory again: it panics after a write after free. It fills new blocks with `0xCD`. Chunks
    /// are as small as possible.
    Poison,
    /// Every block has pages of its own. Access to freed pages is forbidden, so a use after free
    /// ends the program by a signal. The arena uses freed pages again when 64 MiB of others were
    /// freed after them. This mode needs a backing with pages ([`Backing::Mmap`]), and an arena
    /// with a limit below 64 MiB is soon full.
    Protect,
}

/// The options of an arena. Each method names its default.
///
/// ```
/// use sapwood_arena::{ArenaOptions, Backing, HeaderMode};
/// let options = ArenaOptions::default()
///     .backing(Backing::Mmap { reserve: 1 << 30 })
///     .header(HeaderMode::Page)
///     .layout_hash(0x1234)
///     .limit(100 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ArenaOptions {
    pub(crate) backing: Backing,
    pub(crate) limit: usize,
    pub(crate) header: HeaderMode,
    pub(crate) debug: DebugMode,
    pub(crate) chunk: usize,
    pub(crate) huge_pages: bool,
    pub(crate) layout_hash: u64,
    pub(crate) fail_every: u64,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        ArenaOptions {
            backing: Backing::Auto,
            limit: MAX_BYTES,
            header: HeaderMode::Line,
            debug: DebugMode::Off,
            chunk: 256 << 10,
            huge_pages: true,
            layout_hash: 0,
            fail_every: 0,
        }
    }
}

impl ArenaOptions {
    /// The source of the memory. Default: [`Backing::Auto`].
    pub fn backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// The backing that was chosen.
    pub fn chosen_backing(&self) -> &Backing {
        &self.backing
    }

    /// The most bytes from the base to the frontier, header included. Default (and most): 8 GiB.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Lowers the [`limit`](Self::limit) to `most` if it is higher, for structures whose references
    /// reach less far.
    pub fn limit_to(mut self, most: usize) -> Self {
        self.limit = self.limit.min(most);
        self
    }

    /// The limit that was chosen, if one was: see [`limit`](Self::limit).
    pub fn chosen_limit(&self) -> Option<usize> {
        (self.limit < MAX_BYTES).then_some(self.limit)
    }

    /// The header of the arena. Default: [`HeaderMode::Line`].
    pub fn header(mut self, header: HeaderMode) -> Self {
        self.header = header;
        self
    }

    /// The header that was chosen.
    pub fn header_mode(&self) -> HeaderMode {
        self.header
    }

    /// How the arena looks for uses of freed memory. Default: [`DebugMode::Off`].
    pub fn debug(mut self, debug: DebugMode) -> Self {
        self.debug = debug;
        self
    }

    /// The most bytes that an area takes from the frontier at once, 512 or more. Default: 256 KiB.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes;
        self
    }

    /// Whether the arena asks for huge pages when it reaches 16 MiB. Default: yes.
    pub fn huge_pages(mut self, yes: bool) -> Self {
        self.huge_pages = yes;
        self
    }

    /// The hash by which the structure names its layout. A program that opens the memory checks it.
    /// Default: 0.
    pub fn layout_hash(mut self, hash: u64) -> Self {
        self.layout_hash = hash;
        self
    }

    /// Fault injection: every `n`th request fails. Default: 0, none.
    /// [`Arena::fail_after`](crate::Arena::fail_after) says which calls are requests.
    pub fn fail_every(mut self, n: u64) -> Self {
        self.fail_every = n;
        self
    }
}

//! What an arena is made of: chosen once, when it is made.

use crate::reference::MAX_BYTES;
#[cfg(feature = "std")]
use std::path::PathBuf;

/// Where the memory comes from.
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
    /// [`HeapRegion`](crate::HeapRegion) that moves when it grows.
    Heap,
    /// [`HeapRegion::fixed`](crate::HeapRegion::fixed) of this many bytes: never moves.
    HeapFixed(usize),
    /// [`MmapRegion`](crate::MmapRegion) over this many bytes of address space: never moves.
    /// Without `mmap` (and under Miri), a fixed heap region of `reserve` or 1 MiB, whichever is
    /// less.
    Mmap {
        /// Bytes of address space.
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

/// How the arena begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderMode {
    /// 64 bytes that hold the roots and nothing else: for memory that no one else will open.
    #[default]
    Line,
    /// A page that says what the memory is, so that others can check it: see
    /// [`Header`](crate::Header).
    Page,
}

/// How hard to look for uses of freed memory. For tests: slower, and larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebugMode {
    /// Do not look.
    #[default]
    Off,
    /// Freed memory is filled with `0xDB`, and whoever gets it next checks that it still is: a
    /// write after free panics. New blocks are filled with `0xCD`. Chunks are as small as they can
    /// be.
    Poison,
    /// Every block has pages of its own. Freed pages may not be touched, and are used again when 64
    /// MiB of
    /// others were freed after them: a use after free dies at once. Needs a backing with pages
    /// ([`Backing::Mmap`]); an arena with a limit below 64 MiB is soon full.
    Protect,
}

/// How an arena is made; see each method for its default.
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
    /// Where the memory comes from. Default: [`Backing::Auto`].
    pub fn backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// Where the memory comes from, as it was chosen.
    pub fn chosen_backing(&self) -> &Backing {
        &self.backing
    }

    /// The most bytes from the base to the frontier, header included. Default (and most): 8 GiB.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Lowers the [`limit`](Self::limit) to this if it is higher: for structures whose references
    /// reach less far.
    pub fn limit_to(mut self, most: usize) -> Self {
        self.limit = self.limit.min(most);
        self
    }

    /// How the arena begins. Default: [`HeaderMode::Line`].
    pub fn header(mut self, header: HeaderMode) -> Self {
        self.header = header;
        self
    }

    /// How the arena begins, as it was chosen.
    pub fn header_mode(&self) -> HeaderMode {
        self.header
    }

    /// How hard to look for uses of freed memory. Default: [`DebugMode::Off`].
    pub fn debug(mut self, debug: DebugMode) -> Self {
        self.debug = debug;
        self
    }

    /// The most bytes that an area takes from the frontier at once, 512 or more. Default: 256 KiB.
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes;
        self
    }

    /// Whether to ask for huge pages. Default: yes. They begin when the arena reaches 16 MiB.
    pub fn huge_pages(mut self, yes: bool) -> Self {
        self.huge_pages = yes;
        self
    }

    /// What the structure calls its layout; checked by whoever opens the memory. Default: 0.
    pub fn layout_hash(mut self, hash: u64) -> Self {
        self.layout_hash = hash;
        self
    }

    /// Fault injection: every `n`th request fails. Default: 0, never. See
    /// [`Arena::fail_after`](crate::Arena::fail_after) for what is a request.
    pub fn fail_every(mut self, n: u64) -> Self {
        self.fail_every = n;
        self
    }
}

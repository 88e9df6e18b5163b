//! Lent memory: runs that pools cut into blocks of their own and give back in other pieces.

use crate::arena::Arena;
use crate::options::DebugMode;
use crate::reference::{Area, Kind, Ref, UNIT};
use crate::region::ArenaFull;

impl Arena {
    /// Lends a run of memory that the caller cuts into blocks by itself, such as a cache of one
    /// thread. It counts under `kind` in bytes, not in blocks. Its contents are unspecified.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind, Ref};
    /// # let mut arena = Arena::new(ArenaOptions::default());
    /// let run = arena.lend(4096, Kind(7), Area::Nodes)?;
    /// assert_eq!(arena.memory().kinds[7].bytes, 4096);
    /// let second_half = Ref::new(run.get() + 256).unwrap();
    /// // SAFETY: parts of the run, which nobody uses.
    /// unsafe {
    ///     arena.give_back(second_half, 2048, Kind(7));
    ///     arena.give_back(run, 2048, Kind(7));
    /// }
    /// assert_eq!(arena.memory().live, 0);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc`](Arena::alloc).
    pub fn lend(&mut self, bytes: usize, kind: Kind, area: Area) -> Result<Ref, ArenaFull> {
        let run = self.alloc(bytes, kind, area)?;
        self.kinds[kind.index()].blocks -= 1;
        Ok(run)
    }

    /// Counts all blocks of one kind as lent under another kind.
    pub fn lend_all(&mut self, from: Kind, to: Kind) {
        let units = core::mem::take(&mut self.kinds[from.index()]).units;
        self.kinds[to.index()].units += units;
    }

    /// Counts a live block as lent under another kind. Its owner keeps it for the next block of its
    /// size.
    #[inline]
    pub fn lend_live(&mut self, bytes: usize, from: Kind, to: Kind) {
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        self.kinds[from.index()].blocks -= 1;
        self.kinds[from.index()].units -= n;
        self.kinds[to.index()].units += n;
    }

    /// As [`lend_live`](Arena::lend_live), for a retired block.
    #[inline]
    pub fn lend_retired(&mut self, bytes: usize, to: Kind) {
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        self.retired -= n;
        self.live += n;
        self.kinds[to.index()].units += n;
    }

    /// Counts lent memory as a live block again.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// # let mut arena = Arena::new(ArenaOptions::default());
    /// let (node, kept) = (Kind(0), Kind(7));
    /// let r = arena.alloc(40, node, Area::Nodes)?;
    /// arena.lend_live(40, node, kept);
    /// assert_eq!((arena.memory().kinds[0].count, arena.memory().kinds[7].bytes), (0, 40));
    /// arena.use_lent(40, kept, node);
    /// assert_eq!((arena.memory().kinds[0].count, arena.memory().kinds[7].bytes), (1, 0));
    /// # let _ = r;
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    #[inline]
    pub fn use_lent(&mut self, bytes: usize, from: Kind, to: Kind) {
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        self.kinds[from.index()].units -= n;
        self.kinds[to.index()].blocks += 1;
        self.kinds[to.index()].units += n;
    }

    /// Takes back lent memory, in any pieces. If [`splits_runs`](Arena::splits_runs) is false, it
    /// takes runs only as they were lent.
    ///
    /// # Safety
    ///
    /// The bytes at `r`, rounded up to whole units, were lent under this kind, and nobody reads or
    /// writes them any more.
    pub unsafe fn give_back(&mut self, r: Ref, bytes: usize, kind: Kind) {
        self.kinds[kind.index()].blocks += 1;
        // SAFETY: the caller's promise; the accounts count units, and the number of blocks was
        // corrected.
        unsafe { self.free(r, bytes, kind) };
    }

    /// Whether more than an eighth of an area is free and can be allocated now. Memory that waits
    /// for the sweep of an evacuation does not count. Then callers should allocate blocks one by
    /// one, which fills gaps, and not cut them from long runs, which need new memory.
    pub fn has_gaps(&self, area: Area) -> bool {
        let area = area as usize;
        self.spaces[area].lists.units > self.spaces[area].owned / 8
    }

    /// Whether lent runs may be cut up. In [`DebugMode::Poison`](crate::DebugMode::Poison) and
    /// [`DebugMode::Protect`](crate::DebugMode::Protect) they may not: lend each block by itself
    /// there.
    pub fn splits_runs(&self) -> bool {
        self.options.debug == DebugMode::Off && self.options.fail_every == 0
    }
}

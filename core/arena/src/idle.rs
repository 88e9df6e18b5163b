//! Memory that a structure does not use, as when it has become empty: blocks of zeros that the
//! system need not back, and all that is free.

use crate::arena::{Arena, GRANULE};
use crate::lists::Lists;
use crate::options::DebugMode;
use crate::reference::{Area, Kind, Ref, UNIT};
use crate::region::{ArenaFull, PAGE};

impl Arena {
    /// Allocates a block of zeros. As [`alloc`](Arena::alloc), but the contents are zeros; memory
    /// that was never used is not written, so that pages come as the block is used. Until
    /// [`use_zeros`](Arena::use_zeros) is called, such pages do not count as committed.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Backing, Kind};
    /// let backing = Backing::Mmap { reserve: 1 << 20 };
    /// let mut arena = Arena::new(ArenaOptions::default().backing(backing));
    /// let table = arena.alloc_zeroed(300 << 10, Kind(0), Area::Nodes)?;
    /// # #[cfg(not(miri))]
    /// assert!(arena.committed() <= 8 << 10);
    /// arena.use_zeros();
    /// assert!(arena.committed() >= 300 << 10);
    /// # let _ = table;
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc`](Arena::alloc).
    pub fn alloc_zeroed(&mut self, bytes: usize, kind: Kind, area: Area) -> Result<Ref, ArenaFull> {
        let touched = self.touched;
        let r = self.alloc(bytes, kind, area)?;
        // What a region adds to itself is zeros. A caller's region may have been used before.
        if r.get() >= touched && !self.given && !self.special {
            if self.region.as_ref().is_some_and(|r| r.releases_to_zeros()) {
                self.zeros = whole(r, bytes).len();
            }
            return Ok(r);
        }
        let len = bytes.div_ceil(UNIT) * UNIT;
        // SAFETY: a new block of that size.
        unsafe { self.base.add(r.byte_offset()).write_bytes(0, len) };
        Ok(r)
    }

    /// Gives back the pages of a live block whose whole pages in `range` (bytes from the block's
    /// start) have only zeros, and have them after this. Others may read them meanwhile. Returns
    /// the bytes given back, which do not count as committed until
    /// [`use_zeros`](Arena::use_zeros) is called. It does nothing for a heap, and takes time in
    /// proportion to the range.
    pub fn release_zeros(&mut self, r: Ref, range: core::ops::Range<usize>) -> usize {
        let Some(start) = Ref::new(r.get() + (range.start / UNIT) as u32) else {
            return 0;
        };
        let mut pages = whole(start, range.len());
        // What lies in the last page behind the last block is of no use.
        let end = start.byte_offset() + range.len();
        if end.next_multiple_of(GRANULE as usize * UNIT) >= self.frontier as usize * UNIT {
            let len = self.region.as_ref().map_or(0, |region| region.len());
            pages.end = end
                .next_multiple_of(PAGE)
                .min(len / PAGE * PAGE)
                .max(pages.end);
        }
        debug_assert!(
            // SAFETY: a part of a live block.
            unsafe { core::slice::from_raw_parts(self.base.add(start.byte_offset()), range.len()) }
                .iter()
                .all(|&byte| byte == 0),
            "pages of zeros"
        );
        let Some(region) = &mut self.region else {
            return 0;
        };
        let off = self.options.debug == DebugMode::Off;
        let wanted = off && !pages.is_empty() && region.releases_to_zeros();
        if wanted && region.release(pages.clone()) {
            self.zeros = pages.len();
            return pages.len();
        }
        0
    }

    /// Counts the pages of zeros as committed again: they are about to be written.
    #[inline]
    pub fn use_zeros(&mut self) {
        self.zeros = 0;
    }

    /// Bytes that the system has to back: see [`Memory::committed`](crate::Memory::committed).
    #[inline]
    pub fn committed(&self) -> usize {
        let released = self.released_pages as usize * PAGE;
        self.backed.saturating_sub(released + self.zeros)
    }

    /// Whether there is no block, live or retired.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.nothing_used()
    }

    /// Gives back all memory that no block uses, with the tables outside the region that are for
    /// it: for a structure that has become empty, or nearly so. References stay valid, and so do
    /// the roots. Takes time in proportion to the memory that was in use, most of it in the system,
    /// which gets all pages in one call: this is no step of a bounded length, as
    /// [`release_free`](Arena::release_free) is.
    ///
    /// A region that may move is given back whole when there is no block. In debug modes nothing
    /// is given back.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Backing, Kind};
    /// let backing = Backing::Mmap { reserve: 1 << 30 };
    /// let mut arena = Arena::new(ArenaOptions::default().backing(backing));
    /// let table = arena.alloc(100, Kind(0), Area::Nodes)?;
    /// let big = arena.alloc(10 << 20, Kind(0), Area::Nodes)?;
    /// // SAFETY: nobody else knows the block.
    /// unsafe { arena.free(big, 10 << 20, Kind(0)) };
    /// arena.give_back_free();
    /// # #[cfg(not(miri))]
    /// assert!(arena.memory().committed + arena.memory().overhead <= 8 << 10);
    /// # let _ = table;
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    pub fn give_back_free(&mut self) {
        if self.options.debug != DebugMode::Off || self.frontier == 0 {
            return;
        }
        for area in Area::ALL {
            if self.is_evacuating(area) {
                if !self.nothing_used() {
                    return;
                }
                self.finish_evacuation(area);
            }
        }
        if self.nothing_used() && !self.given && !self.is_stable() && self.roots() == [0; 8] {
            return self.clear();
        }
        self.lower_all();
        self.release_above(usize::MAX);
        self.release_all_pages();
        let granules = self.frontier.div_ceil(GRANULE) as usize;
        self.bits.shrink(granules * GRANULE as usize);
        self.owners.shrink(granules);
        if self.released_pages == 0 {
            self.released.shrink(0);
        }
        for space in &mut self.spaces {
            if space.owned == 0 {
                space.lists = Lists::new();
            }
        }
    }
}

/// The whole pages of a block.
fn whole(r: Ref, bytes: usize) -> core::ops::Range<usize> {
    let start = r.byte_offset().next_multiple_of(PAGE);
    let end = (r.byte_offset() + bytes) / PAGE * PAGE;
    start..end.max(start)
}

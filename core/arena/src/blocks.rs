//! Allocation: how blocks are found and freed.
//!
//! Invariants (`verify` checks them):
//! - a unit below the frontier is free exactly if its bit is set, or it lies in an area's bump run;
//! - every maximal run of set bits within one area, not crossing an edge of that area's hole, is
//!   one fragment in one list of that area (inside the hole: in none);
//! - a granule of 64 units belongs to one area; runs never reach across areas.
//!
//! A freed block is merged with its neighbours at once. The bitmap has small neighbours; large
//! fragments carry their sizes at both ends. So no step depends on how much memory is free.

use crate::arena::{Arena, GRANULE};
use crate::lists::{EXACT, Mem, class_of};
use crate::reference::{Area, Kind, Ref, UNIT};
use crate::region::ArenaFull;

/// The most units of a run that moves to or from the bump run (1 MiB), because its bits are
/// rewritten.
const BUMP_MAX: u32 = 1 << 17;
/// The frontier from which on nodes are padded. In smaller arenas, padding is not worth its bytes.
pub(crate) const PAD_FROM: u32 = 64 * GRANULE;

/// Whether a block that fits into one cache line would lie in two.
#[inline]
fn straddles(start: u32, n: u32) -> bool {
    n <= 8 && (start & 7) + n > 8
}

impl Arena {
    #[inline]
    pub(crate) fn mem(&self) -> Mem {
        Mem(self.base)
    }

    #[inline]
    pub(crate) fn units_of(&self, bytes: usize) -> Result<u32, ArenaFull> {
        if bytes > self.limit_bytes() {
            return Err(ArenaFull::new(bytes, self.limit_bytes()));
        }
        Ok((bytes.div_ceil(UNIT) as u32).max(1))
    }

    /// Allocates a block of `bytes` bytes, rounded up to whole units of 8, aligned to 8. Its
    /// contents are unspecified.
    ///
    /// This takes constant time, apart from the time in which the backing grows: the system gives
    /// pages, and a heap is copied. The memory may move, unless the backing is stable.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if no free fragment is large enough and the frontier cannot rise; nothing is
    /// changed then.
    #[inline]
    pub fn alloc(&mut self, bytes: usize, kind: Kind, area: Area) -> Result<Ref, ArenaFull> {
        let n = self.units_of(bytes)?;
        if self.special {
            return self.alloc_special(n, bytes, kind, area);
        }
        let start = match self.take(n, area as usize) {
            Some(start) => start,
            None => self.take_fresh(n, bytes, area as usize)?,
        };
        Ok(self.counted(start, n, kind))
    }

    /// Counts a new block and returns its reference.
    #[inline]
    pub(crate) fn counted(&mut self, start: u32, n: u32, kind: Kind) -> Ref {
        let count = &mut self.kinds[kind.index()];
        count.blocks += 1;
        count.units += n;
        self.live += n;
        match Ref::new(start) {
            Some(r) => r,
            None => unreachable!("blocks lie between the header and the limit"),
        }
    }

    #[inline]
    pub(crate) fn uncount(&mut self, n: u32, kind: Kind) {
        let count = &mut self.kinds[kind.index()];
        debug_assert!(
            count.units >= n && count.blocks > 0,
            "more of {kind:?} freed than allocated"
        );
        count.blocks = count.blocks.wrapping_sub(1);
        count.units = count.units.wrapping_sub(n);
        self.live = self.live.wrapping_sub(n);
    }

    /// Frees a live block. Its memory may be part of another block at once.
    ///
    /// # Safety
    ///
    /// `r` came from `alloc` of this arena with the same number of bytes (or one that rounds to the
    /// same units) and kind, is live, and nobody reads or writes it any more.
    #[inline]
    pub unsafe fn free(&mut self, r: Ref, bytes: usize, kind: Kind) {
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        self.uncount(n, kind);
        if self.special {
            self.free_special(r.get(), n);
        } else {
            self.put(r.get(), n);
        }
    }

    /// Counts a live block as retired: it is unlinked from the structure, but perhaps still being
    /// read. The memory stays as it is.
    #[inline]
    pub fn retire(&mut self, bytes: usize, kind: Kind) {
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        self.uncount(n, kind);
        self.retired += n;
    }

    /// Frees a retired block.
    ///
    /// # Safety
    ///
    /// As for [`free`](Arena::free), for a block that [`retire`](Arena::retire) has counted.
    #[inline]
    pub unsafe fn free_retired(&mut self, r: Ref, bytes: usize, kind: Kind) {
        let _ = kind;
        let n = (bytes.div_ceil(UNIT) as u32).max(1);
        debug_assert!(self.retired >= n, "more freed than retired");
        self.retired = self.retired.wrapping_sub(n);
        if self.special {
            self.free_special(r.get(), n);
        } else {
            self.put(r.get(), n);
        }
    }

    /// Takes `n` units from memory that the area owns.
    #[inline]
    pub(crate) fn take(&mut self, n: u32, area: usize) -> Option<u32> {
        let mem = self.mem();
        let space = &mut self.spaces[area];
        let mut class = class_of(n);
        if n < EXACT {
            let head = space.lists.head(class);
            if head != 0 {
                // SAFETY: the head of a list is a fragment.
                let second = unsafe { mem.read(head, 1) };
                let start = if second != 0 && straddles(head, n) && !straddles(second, n) {
                    second
                } else {
                    head
                };
                self.unlink(area, start, n);
                self.claim(start, n);
                return Some(start);
            }
        } else {
            // A class of large fragments may have some that are too small: look at a few.
            let mut at = space.lists.head(class);
            for _ in 0..4 {
                if at == 0 {
                    break;
                }
                // SAFETY: a listed fragment of this class.
                let (m, next) = unsafe { (space.lists.size(mem, at, class), mem.read(at, 1)) };
                if m >= n {
                    return Some(self.carve(area, at, m, n));
                }
                at = next;
            }
        }
        class += 1;
        let found = space.lists.first_from(class);
        let bump_len = space.bump_end - space.bump;
        // Small leftovers first, then the bump run, then large fragments.
        if bump_len >= n && !found.is_some_and(|c| c <= GRANULE as usize || n >= EXACT) {
            return Some(self.take_bump(area, n));
        }
        let class = found?;
        let at = self.spaces[area].lists.head(class);
        // SAFETY: the head of a nonempty class is a fragment of it.
        let m = unsafe { self.spaces[area].lists.size(mem, at, class) };
        if class > GRANULE as usize && m.min(self.chunk_max) / 4 >= n {
            self.refill(area, at, m);
            return Some(self.take_bump(area, n));
        }
        Some(self.carve(area, at, m, n))
    }

    /// Cuts `n` units off the bump run, which has them.
    #[inline]
    pub(crate) fn take_bump(&mut self, area: usize, n: u32) -> u32 {
        let space = &mut self.spaces[area];
        let mut start = space.bump;
        // A walk reads a leaf once, so leaves are better side by side.
        if area == Area::Nodes as usize && straddles(start, n) && self.frontier >= PAD_FROM {
            let pad = 8 - (start & 7);
            // Padding is among the listed fragments, so this bounds its share of the memory.
            if space.bump_end - start >= pad + n && space.lists.units < space.owned / 32 {
                space.bump = start + pad + n;
                self.list_run(area, start, start + pad);
                start += pad;
                return start;
            }
        }
        space.bump = start + n;
        start
    }

    /// Cuts `n` units off the fragment of `m` at `at`.
    fn carve(&mut self, area: usize, at: u32, m: u32, n: u32) -> u32 {
        let mut start = at;
        if straddles(start, n) && !straddles(at + m - n, n) {
            start = at + m - n;
        }
        self.unlink(area, at, m);
        self.claim(start, n);
        if start > at {
            self.link(area, at, start - at);
        }
        if start + n < at + m {
            self.link(area, start + n, at + m - start - n);
        }
        start
    }

    /// Makes the large fragment, or a part of it, the bump run.
    fn refill(&mut self, area: usize, at: u32, m: u32) {
        let piece = m.min(self.chunk_max);
        self.unlink(area, at, m);
        self.claim(at, piece);
        if piece < m {
            self.link(area, at + piece, m - piece);
        }
        self.replace_bump(area, at, at + piece);
    }

    /// Lists the rest of the bump run and begins another one, or extends the one that ends at
    /// `start`.
    pub(crate) fn replace_bump(&mut self, area: usize, start: u32, end: u32) {
        let space = &mut self.spaces[area];
        let (old, old_end) = (space.bump, space.bump_end);
        space.bump_end = end;
        if old_end == start && old < old_end {
            return;
        }
        space.bump = start;
        if old < old_end {
            self.list_run(area, old, old_end);
        }
    }

    /// Marks free units as taken; pages that were given back come into use again.
    #[inline]
    pub(crate) fn claim(&mut self, start: u32, n: u32) {
        self.bits.fill(start as usize, n as usize, false);
        if self.released_pages > 0 {
            self.unrelease(start, n);
        }
    }

    #[inline]
    pub(crate) fn link(&mut self, area: usize, start: u32, n: u32) {
        let mem = self.mem();
        // SAFETY: callers link runs that are free and unlisted; `ensure` was called when the area
        // got its memory.
        unsafe { self.spaces[area].lists.link(mem, start, n) };
        if self.released_pages > 0 {
            self.tags_touched(start, n);
        }
    }

    #[inline]
    pub(crate) fn unlink(&mut self, area: usize, start: u32, n: u32) {
        let mem = self.mem();
        // SAFETY: callers unlink fragments they found in the lists or in the bitmap.
        unsafe { self.spaces[area].lists.unlink(mem, start, n) };
        if self.poison {
            self.poison_tags(start, n);
        }
    }

    /// Units of the fragment that ends at `end`.
    #[inline]
    pub(crate) fn left_run(&self, end: u32, area: usize) -> u32 {
        let space = &self.spaces[area];
        let last = end - 1;
        let (w, b) = ((last / GRANULE) as usize, last % GRANULE);
        let ones = (self.bits.word(w) << (63 - b)).leading_ones();
        if ones == 0 || (b == 63 && self.owner(last) != area) {
            return 0;
        }
        // Free units in the hole are in no list, and an edge of the hole ends a run.
        let most = if last >= space.hole_end {
            end - space.hole_end
        } else if last >= space.hole {
            return 0;
        } else {
            end
        };
        let mut run = ones;
        if ones == b + 1 && ones < most {
            // The whole granule up to `end`, and the one before it, if the area owns it.
            let before = last - b;
            if before > 0 && self.owner(before - 1) == area {
                let more = self.bits.word(w - 1).leading_ones();
                run += more;
                if more == GRANULE && run < most {
                    // SAFETY: these units are one fragment of this area, and it carries its size
                    // at its end.
                    run = unsafe { self.mem().read(last, 1) };
                }
            }
        }
        run.min(most)
    }

    /// Units of the fragment that begins at `start`.
    #[inline]
    fn right_run(&self, start: u32, area: usize) -> u32 {
        let space = &self.spaces[area];
        let (w, b) = ((start / GRANULE) as usize, start % GRANULE);
        let ones = (self.bits.word(w) >> b).trailing_ones();
        if ones == 0 || (b == 0 && self.owner(start) != area) {
            return 0;
        }
        let most = if start < space.hole {
            space.hole - start
        } else if start < space.hole_end {
            return 0;
        } else {
            u32::MAX
        };
        let mut run = ones;
        if ones == GRANULE - b && ones < most {
            let after = start - b + GRANULE;
            let more = self.bits.word(w + 1).trailing_ones();
            if more > 0 && self.owner(after) == area {
                run += more;
                if more == GRANULE && run < most {
                    // SAFETY: these units are one fragment of this area, and it carries its size
                    // in unit 1.
                    run = unsafe { self.mem().read(start + 1, 0) };
                }
            }
        }
        run.min(most)
    }

    /// Makes the units free.
    pub(crate) fn put(&mut self, start: u32, n: u32) {
        let area = self.owner(start);
        let mut end = start + n;
        let space = &mut self.spaces[area];
        if space.hole < space.hole_end && start < space.hole_end && end > space.hole {
            // Units in the hole are only marked. A block can reach into the hole, but not out of
            // its far end.
            let from = start.max(space.hole);
            space.held += end - from;
            self.bits.fill(from as usize, (end - from) as usize, true);
            if from == start {
                return;
            }
            end = from;
        }
        let left = self.left_run(start, area);
        let right = self.right_run(end, area);
        let (from, to) = (start - left, end + right);
        let space = &self.spaces[area];
        let (bump, bump_end) = (space.bump, space.bump_end);
        let below = to == bump && bump_end - from <= BUMP_MAX;
        let above = from == bump_end && to - bump <= BUMP_MAX;
        if left > 0 {
            self.unlink(area, from, left);
        }
        if right > 0 {
            self.unlink(area, end, right);
        }
        if bump < bump_end && (below || above) {
            if left > 0 {
                self.claim(from, left);
            }
            if right > 0 {
                self.claim(end, right);
            }
            let space = &mut self.spaces[area];
            space.bump = from.min(bump);
            space.bump_end = to.max(bump_end);
            if to.max(bump_end) == self.frontier || self.nothing_used() {
                self.lower_frontier();
            }
            return;
        }
        self.bits.fill(start as usize, (end - start) as usize, true);
        self.link(area, from, to - from);
        if to == self.frontier || self.nothing_used() {
            self.lower_frontier();
        }
    }

    /// Lists a run whose bits are not set, merged with its neighbours.
    pub(crate) fn list_run(&mut self, area: usize, start: u32, end: u32) {
        let left = self.left_run(start, area);
        let right = self.right_run(end, area);
        if left > 0 {
            self.unlink(area, start - left, left);
        }
        if right > 0 {
            self.unlink(area, end, right);
        }
        self.bits.fill(start as usize, (end - start) as usize, true);
        self.link(area, start - left, end - start + left + right);
    }
}

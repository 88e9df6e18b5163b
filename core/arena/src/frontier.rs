//! The frontier: how areas get memory from it, how it falls, and what `ensure` promises.

use crate::arena::{Arena, GRANULE};
use crate::blocks::PAD_FROM;
use crate::lists::class_floor;
use crate::reference::{Area, UNIT};
use crate::region::ArenaFull;

/// The frontier is lowered by at most this much (2 MiB) at a time, because bits are rewritten.
const LOWER_MAX: u32 = 1 << 18;

/// An operation that makes fewer blocks is to be short: its structure calls
/// [`use_small_pages`](Arena::use_small_pages) before.
pub const FEW_BLOCKS: usize = 256;

#[inline]
pub(crate) const fn up(n: u32) -> u32 {
    n.next_multiple_of(GRANULE)
}

/// `units` for one area, and 0 for the other.
fn only(area: usize, units: u32) -> [u32; 2] {
    if area == 0 { [units, 0] } else { [0, units] }
}

impl Arena {
    pub(crate) fn nothing_used(&self) -> bool {
        self.live == 0 && self.retired == 0
    }

    /// The units that an area takes from the frontier at once.
    fn chunk(&self) -> u32 {
        let room = self.limit.saturating_sub(self.frontier) / 16;
        (self.frontier / 256)
            .min(room)
            .clamp(GRANULE, self.chunk_max)
            / GRANULE
            * GRANULE
    }

    /// Lowers the frontier by the free granules that touch it, if they are at least a chunk
    /// (otherwise the next block would take them again), or if no other memory is in use.
    pub(crate) fn lower_frontier(&mut self) {
        match self.nothing_used() {
            true => self.lower(1, 64),
            false => self.lower(self.chunk(), 8),
        }
    }

    /// Lowers the frontier by all free granules that touch it.
    pub(crate) fn lower_all(&mut self) {
        let mut before = u32::MAX;
        while self.frontier < before {
            before = self.frontier;
            self.lower(1, 64);
        }
    }

    /// Lowers the frontier by free granules that touch it, in up to `steps` steps of at least
    /// `least` units.
    fn lower(&mut self, least: u32, steps: usize) {
        if least == 1 {
            for area in 0..2 {
                let (bump, end) = (self.spaces[area].bump, self.spaces[area].bump_end);
                self.spaces[area].bump_end = bump;
                if bump < end {
                    self.list_run(area, bump, end);
                }
            }
        }
        for _ in 0..steps {
            let f = self.frontier;
            let floor = self
                .header
                .max(self.spaces[0].hole_end)
                .max(self.spaces[1].hole_end);
            if f <= floor {
                return;
            }
            let area = self.owner(f - 1);
            let space = &mut self.spaces[area];
            if space.bump < space.bump_end && space.bump_end == f {
                let to = up(space.bump).max(floor).min(f);
                if f - to < least {
                    return;
                }
                // The header is in the first granule, so a whole granule may begin behind the
                // header.
                let to = if space.bump == self.header {
                    self.header
                } else {
                    to
                };
                space.owned -= f - to;
                space.bump_end = to.max(space.bump);
                self.frontier = to;
                continue;
            }
            let run = self.left_run(f, area);
            let from = f - run;
            let to = if from == self.header { from } else { up(from) };
            let to = to.max(floor).max(f.saturating_sub(LOWER_MAX)).min(f);
            if run == 0 || f - to < least {
                return;
            }
            self.unlink(area, from, run);
            self.claim(to, f - to);
            if to > from {
                self.link(area, from, to - from);
            }
            self.spaces[area].owned -= f - to;
            self.frontier = to;
        }
    }

    /// From now on new memory comes in pages of the least size, or in huge pages again where the
    /// region asks for these. A huge page takes the system 0.2 ms at its first byte, and 4 ms in a
    /// virtual machine whose host has to find the memory: too long for an operation that is to be
    /// short. Where the system gives huge pages unasked, this changes nothing.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Backing, Kind};
    /// let backing = Backing::Mmap { reserve: 1 << 30 };
    /// let mut arena = Arena::new(ArenaOptions::default().backing(backing));
    /// arena.use_small_pages(true);
    /// # #[cfg(not(miri))]
    /// arena.alloc((20 << 20) + 100, Kind(0), Area::Nodes)?;
    /// assert!(arena.committed() < 21 << 20);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    #[inline]
    pub fn use_small_pages(&mut self, yes: bool) {
        self.small_pages = yes;
    }

    /// Takes `n` units from the frontier.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_fresh(
        &mut self,
        n: u32,
        bytes: usize,
        area: usize,
    ) -> Result<u32, ArenaFull> {
        self.open_chunk(n, area).map_err(|full| ArenaFull {
            requested: bytes,
            ..full
        })?;
        Ok(self.take_bump(area, n))
    }

    /// Takes memory for blocks of `bytes` bytes in all from the frontier. The blocks that are
    /// allocated next in that area of an empty arena lie side by side, in the order of their
    /// allocation.
    ///
    /// It does nothing in [`DebugMode::Poison`](crate::DebugMode::Poison) and
    /// [`DebugMode::Protect`](crate::DebugMode::Protect).
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.reserve(4096, Area::Leaves)?;
    /// let first = arena.alloc(40, Kind(2), Area::Leaves)?;
    /// arena.alloc(16, Kind(0), Area::Nodes)?;
    /// let second = arena.alloc(24, Kind(2), Area::Leaves)?;
    /// assert_eq!(second.get(), first.get() + 40 / 8);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the frontier cannot rise by as many bytes; nothing is changed then.
    pub fn reserve(&mut self, bytes: usize, area: Area) -> Result<(), ArenaFull> {
        if self.special || bytes == 0 {
            return Ok(());
        }
        let n = self.units_of(bytes)?;
        self.open_chunk(n, area as usize)
    }

    /// Raises the frontier until the area's bump run has `n` units.
    fn open_chunk(&mut self, n: u32, area: usize) -> Result<(), ArenaFull> {
        self.start()?;
        let f = self.frontier;
        let full = ArenaFull::new(n as usize * UNIT, self.limit_bytes());
        let space = &self.spaces[area];
        let adjacent = space.bump < space.bump_end && space.bump_end == f;
        let have = if adjacent {
            space.bump_end - space.bump
        } else {
            0
        };
        let least = f
            .checked_add(n - have)
            .filter(|&e| e <= self.limit)
            .ok_or(full)?;
        let least = up(least);
        let most = (f + self.chunk()) / GRANULE * GRANULE;
        let end = most.max(least);
        if end > self.limit || self.prepare(end, only(area, end - f)).is_err() {
            self.prepare(least, only(area, least - f))?;
            return self.extend(area, f, least);
        }
        self.extend(area, f, end)
    }

    /// Gives `f..end` to the area. `prepare` has succeeded for it.
    fn extend(&mut self, area: usize, f: u32, end: u32) -> Result<(), ArenaFull> {
        for granule in f / GRANULE..end / GRANULE {
            self.owners.put(granule as usize, area == 1);
        }
        self.frontier = end;
        self.spaces[area].owned += end - f;
        self.touched = self.touched.max(end);
        if end > self.high {
            self.high = end;
            if let Some(region) = &mut self.region {
                let end = end as usize * UNIT;
                self.backed = if self.small_pages {
                    region.will_use_small(end)
                } else {
                    region.will_use(end)
                };
            }
        }
        if self.released_pages > 0 {
            self.unrelease(f, end - f);
        }
        if self.poison {
            self.poison_run(f, end - f);
        }
        self.replace_bump(area, f, end);
        Ok(())
    }

    /// Makes region and side tables ready for a frontier of `end`, and for areas with `more` units.
    /// Apart from the base, which may move, the arena behaves as before.
    fn prepare(&mut self, end: u32, more: [u32; 2]) -> Result<(), ArenaFull> {
        let full = ArenaFull::new(end as usize * UNIT, self.limit_bytes());
        if end > self.limit {
            return Err(full);
        }
        let no_heap = |_| ArenaFull::no_heap(full.requested, full.limit);
        self.bits.ensure(end as usize).map_err(no_heap)?;
        self.owners
            .ensure(end.div_ceil(GRANULE) as usize)
            .map_err(no_heap)?;
        for (space, more) in self.spaces.iter_mut().zip(more) {
            if more > 0 {
                space
                    .lists
                    .ensure((space.owned + more).min(end))
                    .map_err(no_heap)?;
            }
        }
        if end > self.len {
            let region = self.region.as_mut().ok_or(full)?;
            region.grow(end as usize * UNIT)?;
            self.base = region.base().as_ptr();
            self.len = crate::arena::units_in(region.len());
        }
        Ok(())
    }

    /// Promises that the next blocks of up to 2 KiB each, `bytes` in all, can be allocated in
    /// either area without failing. The promise ends with the first allocation of anything else.
    /// With it an operation of many blocks is all or nothing.
    ///
    /// The memory may move, unless the backing is stable.
    ///
    /// # Errors
    ///
    /// [`ArenaFull`] if the arena cannot promise that; nothing is changed then. Close to the limit
    /// this may fail although the blocks would fit, because it allows for the worst order of sizes
    /// and areas.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.ensure(3 * 40)?;
    /// for _ in 0..3 {
    ///     arena.alloc(40, Kind(0), Area::Nodes).expect("promised");
    /// }
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    #[inline]
    pub fn ensure(&mut self, bytes: usize) -> Result<(), ArenaFull> {
        if self.special {
            return self.ensure_special(bytes);
        }
        self.ensure_units(bytes)
    }

    #[inline]
    pub(crate) fn ensure_units(&mut self, bytes: usize) -> Result<(), ArenaFull> {
        let n = self.units_of(bytes)?;
        // With padding, a block takes less than twice its size.
        let worst = if self.frontier >= PAD_FROM {
            n.saturating_mul(2)
        } else {
            n
        };
        if self.spaces.iter().all(|s| s.bump_end - s.bump >= worst) {
            return Ok(());
        }
        self.ensure_fresh(n, worst, bytes)
    }

    #[cold]
    fn ensure_fresh(&mut self, n: u32, worst: u32, bytes: usize) -> Result<(), ArenaFull> {
        let full = ArenaFull::new(bytes, self.limit_bytes());
        self.start()?;
        let chunk = self.chunk();
        let mut more = [0; 2];
        let mut lacking = 0;
        for (space, more) in self.spaces.iter().zip(&mut more) {
            let largest = space.lists.last().map_or(0, class_floor);
            // A longer fragment is not used while a shorter one fits, so a long one lasts.
            if space.bump_end - space.bump < worst
                && largest < worst.saturating_mul(2).saturating_add(512)
            {
                *more = if worst <= GRANULE - self.header.min(GRANULE) {
                    chunk
                } else {
                    chunk + GRANULE
                };
                lacking += 1;
            }
        }
        if lacking == 0 {
            return Ok(());
        }
        // The rest of a bump run into which a block does not fit is smaller than that block.
        let extra = if n <= GRANULE - 8 && worst == n {
            0
        } else {
            worst.checked_mul(2).ok_or(full)?
        };
        // The first chunk shares its granule with the header.
        let from = self.frontier / GRANULE * GRANULE;
        let end = more
            .iter()
            .try_fold(from, |end, &m| end.checked_add(m))
            .and_then(|e| e.checked_add(extra));
        let end = up(end.filter(|&e| e <= self.limit).ok_or(full)?);
        let more = more.map(|m| if m > 0 { m + extra } else { 0 });
        self.prepare(end, more).map_err(|f| ArenaFull {
            requested: bytes,
            ..f
        })
    }
}

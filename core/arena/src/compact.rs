//! Giving memory back: releasing free pages, and evacuating an area so that its pages become free.
//!
//! # How an area is compacted
//!
//! The arena does not know the references to a block, so the structure moves its blocks itself:
//!
//! 1. It calls [`Arena::begin_evacuation`]. From now on new blocks of the area come from memory
//!    above the frontier of this moment. Blocks that are freed below it count as free, but are not
//!    used again yet.
//! 2. It moves its blocks, any number at a time: it allocates a new block, copies, publishes, and
//!    retires the old block. Other work can go on meanwhile. It may leave blocks where they are.
//! 3. When the old blocks are free (after a grace period, if there are readers), it calls
//!    [`Arena::evacuation_step`] until that is done. Each step looks at a bounded stretch, makes
//!    the free memory there usable again, in runs that are as long as possible, and gives whole
//!    pages back.
//!
//! The structure may stop moving blocks at any time and continue with 3. Blocks may also be freed
//! later, ahead of the sweep or behind it. [`Arena::finish_evacuation`] does all steps at once.
//!
//! Beginning takes constant time. A step takes time in proportion to its budget, and gives at most
//! [`STEP_MOST`] bytes back to the system, because the system takes its time for each page. What is
//! left is for the next steps.

use crate::arena::{Arena, GRANULE};
use crate::lists::TAGGED;
use crate::options::DebugMode;
use crate::reference::{Area, UNIT};
use crate::region::PAGE;

const PAGE_UNITS: u32 = (PAGE / UNIT) as u32;

/// The most bytes that a step gives back to the system. Linux takes some 15 us for as many; for 50
/// MB in one call it takes milliseconds.
pub const STEP_MOST: usize = 512 << 10;
/// The most units that a step of an evacuation sweeps. It gives back pages of them, and may give
/// back one before them and one that they share with their neighbours.
const SWEEP_MOST: u32 = ((STEP_MOST - 2 * PAGE) / UNIT) as u32;
/// For as many pages of a budget, the frontier of an arena without blocks is lowered once.
const PAGES_A_ROUND: usize = STEP_MOST / PAGE;

/// The result of a step of an evacuation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvacuationStep {
    /// Whether the evacuation has ended.
    pub done: bool,
    /// Bytes that became usable again in this step.
    pub reclaimed: usize,
    /// Bytes of pages given back to the system in this step.
    pub released: usize,
}

impl Arena {
    /// Begins to evacuate an area; see the [module documentation](crate::compact) for the protocol.
    ///
    /// Returns whether it began. It does not if the area is being evacuated already, or if there is
    /// nothing to do. It does nothing in [`DebugMode::Protect`], which reuses memory late.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// # let mut arena = Arena::new(ArenaOptions::default());
    /// let old = arena.alloc(40, Kind(0), Area::Nodes)?;
    /// assert!(arena.begin_evacuation(Area::Nodes));
    /// let new = arena.alloc(40, Kind(0), Area::Nodes)?;
    /// assert!(new > old);
    /// // copy the node, publish the new reference, wait for readers; then:
    /// // SAFETY: nobody knows the old block any more.
    /// unsafe { arena.free(old, 40, Kind(0)) };
    /// while !arena.evacuation_step(Area::Nodes, 4096).done {}
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    pub fn begin_evacuation(&mut self, area: Area) -> bool {
        let a = area as usize;
        if self.guard.is_some() || self.spaces[a].owned == 0 || self.is_evacuating(area) {
            return false;
        }
        let (bump, bump_end) = (self.spaces[a].bump, self.spaces[a].bump_end);
        if self.poison {
            // From here on these runs are not fragments, and their tags are not kept.
            let mut class = 0;
            while let Some(c) = self.spaces[a].lists.first_from(class) {
                let at = self.spaces[a].lists.head(c);
                // SAFETY: the head of a nonempty class is a fragment of it.
                let n = unsafe { self.spaces[a].lists.size(self.mem(), at, c) };
                self.unlink(a, at, n);
                self.spaces[a].held += n;
                class = c;
            }
        }
        let frontier = self.frontier;
        let space = &mut self.spaces[a];
        space.held += space.lists.units + (bump_end - bump);
        space.lists.reset();
        space.bump = frontier;
        space.bump_end = frontier;
        space.hole = self.header;
        space.hole_end = frontier;
        if bump < bump_end {
            self.bits
                .fill(bump as usize, (bump_end - bump) as usize, true);
        }
        true
    }

    /// Whether an evacuation of the area has begun and not ended.
    pub fn is_evacuating(&self, area: Area) -> bool {
        let space = &self.spaces[area as usize];
        space.hole < space.hole_end
    }

    /// Whether the structure should move this block in the evacuation of its area.
    #[inline]
    pub fn should_move(&self, r: crate::Ref) -> bool {
        let space = &self.spaces[self.owner(r.get())];
        space.hole <= r.get() && r.get() < space.hole_end
    }

    /// Makes the free memory in the next `budget_units` units of an evacuated area usable again,
    /// and gives whole pages back.
    ///
    /// It takes time in proportion to the budget: about a nanosecond for 50 units, and the system
    /// calls for pages. A step never sweeps more than [`STEP_MOST`] bytes, nor gives more back.
    /// Without an evacuation it does nothing and is done.
    pub fn evacuation_step(&mut self, area: Area, budget_units: u32) -> EvacuationStep {
        let a = area as usize;
        let mut step = EvacuationStep {
            done: true,
            ..EvacuationStep::default()
        };
        let space = &mut self.spaces[a];
        if space.hole >= space.hole_end {
            return step;
        }
        let from = space.hole;
        let budget = budget_units.clamp(GRANULE, SWEEP_MOST);
        let end = from.saturating_add(budget) / GRANULE * GRANULE;
        let to = end
            .max(from / GRANULE * GRANULE + GRANULE)
            .min(space.hole_end);
        step.done = to == space.hole_end;
        if step.done {
            space.hole = 0;
            space.hole_end = 0;
        } else {
            space.hole = to;
        }
        let mut run: Option<u32> = None;
        let mut at = from;
        while at < to {
            let (w, b) = (at / GRANULE, at % GRANULE);
            let ours = usize::from(self.owners.get(w as usize)) == a;
            let word = if ours {
                self.bits.word(w as usize) >> b
            } else {
                0
            };
            let ones = word.trailing_ones().min(GRANULE - b);
            if ones > 0 {
                run.get_or_insert(at);
                at += ones;
            }
            if at % GRANULE == 0 && ones > 0 {
                continue;
            }
            if let Some(start) = run.take() {
                step.reclaimed += self.reclaim(a, start, at);
            }
            if at >= to {
                break;
            }
            let rest = if ours {
                self.bits.word(w as usize) >> (at % GRANULE)
            } else {
                0
            };
            at += rest.trailing_zeros().min(GRANULE - at % GRANULE);
        }
        if let Some(start) = run.take() {
            step.reclaimed += self.reclaim(a, start, to);
        }
        // From one page back, because whether a page can be given back depends on the page after
        // it.
        let first = (from / PAGE_UNITS).saturating_sub(1);
        step.released = self.release_pages(first, to / PAGE_UNITS);
        if step.done {
            self.lower_frontier();
        }
        step
    }

    /// Does all remaining steps of an evacuation, in time proportional to the arena.
    pub fn finish_evacuation(&mut self, area: Area) -> EvacuationStep {
        let mut sum = EvacuationStep::default();
        while !sum.done {
            let step = self.evacuation_step(area, u32::MAX);
            sum.done = step.done;
            sum.reclaimed += step.reclaimed;
            sum.released += step.released;
        }
        sum
    }

    /// Lists a run that the sweep found; its bits are set.
    fn reclaim(&mut self, area: usize, start: u32, end: u32) -> usize {
        self.spaces[area].held -= end - start;
        self.bits
            .fill(start as usize, (end - start) as usize, false);
        self.list_run(area, start, end);
        (end - start) as usize * UNIT
    }

    /// Gives free pages back to the system, looking at `budget_pages` pages of 4 KiB, from where
    /// the last call stopped. Returns the bytes given back, which are no more than these pages
    /// have. They stay part of the arena, counted as free and as
    /// [`released`](crate::Memory::released), until they are used again.
    ///
    /// It begins with memory above the frontier that was in use once: all of it, from its end, and
    /// then the pages below the frontier. As many calls as [`high`](Self::high) has pages for their
    /// budgets look at all memory. It does nothing for a heap, and with [`DebugMode::Poison`] and
    /// [`DebugMode::Protect`].
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Backing, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default().backing(Backing::Mmap { reserve: 1 << 30 }));
    /// let big = arena.alloc(1 << 20, Kind(0), Area::Leaves)?;
    /// let _next = arena.alloc(8, Kind(0), Area::Leaves)?;
    /// // SAFETY: nobody else knows the block.
    /// unsafe { arena.free(big, 1 << 20, Kind(0)) };
    /// # #[cfg(not(miri))]
    /// assert!(arena.release_free(1000) > 900 << 10);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    pub fn release_free(&mut self, budget_pages: usize) -> usize {
        if self.options.debug != DebugMode::Off {
            return 0;
        }
        // A freed block lowers the frontier by some runs, and by all of them if it was the last
        // block.
        let mut rounds = budget_pages.div_ceil(PAGES_A_ROUND);
        while self.nothing_used() && rounds > 0 {
            let before = self.frontier;
            self.lower_frontier();
            if self.frontier == before {
                break;
            }
            rounds -= 1;
        }
        let mut released = self.release_above(budget_pages.saturating_mul(PAGE));
        let budget_pages = budget_pages - released.div_ceil(PAGE).min(budget_pages);
        let pages = self.frontier / PAGE_UNITS;
        let mut left = (budget_pages.min(u32::MAX as usize) as u32).min(pages);
        while left > 0 {
            if self.sweep_page >= pages {
                self.sweep_page = 0;
            }
            let first = self.sweep_page;
            let n = left.min(pages - first);
            released += self.release_pages(first, first + n);
            self.sweep_page = first + n;
            left -= n;
        }
        released
    }

    /// The end of the memory that was in use since it was given back last, in bytes from the base.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.alloc(100, Kind(0), Area::Nodes)?;
    /// assert!(arena.high() >= arena.frontier() && arena.frontier() >= 100);
    /// # Ok::<(), sapwood_arena::ArenaFull>(())
    /// ```
    #[inline]
    pub fn high(&self) -> usize {
        self.high as usize * UNIT
    }

    /// Gives back up to `most` bytes (whole pages) above the frontier, from the end of what was in
    /// use; returns how many.
    pub(crate) fn release_above(&mut self, most: usize) -> usize {
        let above = self.frontier().next_multiple_of(PAGE);
        let high = self.high();
        let from = above.max(high.saturating_sub(most).next_multiple_of(PAGE));
        let Some(region) = &mut self.region else {
            return 0;
        };
        if from >= high || !region.release(from..high) {
            return 0;
        }
        self.backed = region.will_use(from.min(region.len()));
        self.high = if from == above {
            self.frontier
        } else {
            (from / UNIT) as u32
        };
        high - from
    }

    /// Gives back all free pages below the frontier.
    pub(crate) fn release_all_pages(&mut self) {
        self.release_pages(0, self.frontier / PAGE_UNITS);
    }

    /// Gives back those pages of `first..end` that are free and have no links or sizes of a
    /// fragment.
    fn release_pages(&mut self, first: u32, end: u32) -> usize {
        let mut released = 0;
        if self.options.debug != DebugMode::Off {
            return 0;
        }
        let mut page = first;
        while page < end {
            let start = page;
            while page < end && self.can_release(page) {
                page += 1;
            }
            if page > start {
                released += self.release_run(start, page);
            }
            page += 1;
        }
        released
    }

    /// Whether the whole page is inside one listed fragment and has neither of the fragment's ends.
    fn can_release(&self, page: u32) -> bool {
        let first = page * PAGE_UNITS;
        let after = first + PAGE_UNITS;
        if first < self.header + 2 || after >= self.frontier || self.released.get(page as usize) {
            return false;
        }
        let words = first / GRANULE..after / GRANULE;
        let area = self.owner(first);
        let space = &self.spaces[area];
        let (hole, hole_end) = (space.hole, space.hole_end);
        // A fragment ends at an edge of the hole, and units in the hole wait for the sweep.
        if hole < hole_end && after >= hole && first < hole_end + 2 {
            return false;
        }
        words.clone().all(|w| self.bits.word(w as usize) == u64::MAX)
            && words.clone().all(|w| self.owner(w * GRANULE) == area)
            // Unit 1 of a fragment has its size, so the two units before must belong to it as well.
            && (first - 2..first).chain([after]).all(|u| self.bits.get(u as usize) && self.owner(u) == area)
    }

    fn release_run(&mut self, first: u32, end: u32) -> usize {
        let Some(region) = &mut self.region else {
            return 0;
        };
        if self
            .released
            .ensure((self.frontier / PAGE_UNITS) as usize + 1)
            .is_err()
        {
            return 0;
        }
        if !region.release(first as usize * PAGE..end as usize * PAGE) {
            return 0;
        }
        self.released
            .fill(first as usize, (end - first) as usize, true);
        self.released_pages += end - first;
        (end - first) as usize * PAGE
    }

    /// Counts the pages of units that are about to be used as backed again.
    #[cold]
    pub(crate) fn unrelease(&mut self, start: u32, n: u32) {
        let mut page = start / PAGE_UNITS;
        let end = (start + n - 1) / PAGE_UNITS;
        while page <= end {
            let word = self.released.word((page / 64) as usize) >> (page % 64);
            if word == 0 {
                page = (page / 64 + 1) * 64;
                continue;
            }
            page += word.trailing_zeros();
            if page > end {
                break;
            }
            self.released.put(page as usize, false);
            self.released_pages -= 1;
            page += 1;
        }
    }

    /// Counts the pages with a new fragment's links and sizes as backed, as these were written.
    #[cold]
    pub(crate) fn tags_touched(&mut self, start: u32, n: u32) {
        self.unrelease(start, n.min(2));
        if n >= TAGGED {
            self.unrelease(start + n - 1, 1);
        }
    }
}

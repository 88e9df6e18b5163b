//! Debug modes and fault injection, which `alloc` and `free` call.

use crate::arena::Arena;
use crate::lists::TAGGED;
use crate::reference::{Area, Kind, Ref, UNIT};
use crate::region::{ArenaFull, PAGE};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// The byte that fills freed memory.
pub(crate) const FREED: u8 = 0xDB;
/// The byte that fills new blocks.
pub(crate) const FRESH: u8 = 0xCD;

const PAGE_UNITS: u32 = (PAGE / UNIT) as u32;
/// The number of pages that are freed before a freed page is used again (64 MiB).
const QUARANTINE: u32 = 1 << 14;

/// The allocator of `DebugMode::Protect`, which gives out whole pages and reuses them late.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Freed runs in the order of their freeing: first unit and pages.
    waiting: VecDeque<(u32, u32)>,
    waiting_pages: u32,
    /// Freed runs that may be used again, by their pages.
    ready: BTreeMap<u32, Vec<u32>>,
    /// Live and retired blocks: the units that were asked for, by first unit.
    blocks: BTreeMap<u32, u32>,
    /// Bytes in free pages, and bytes in allocated pages beyond what was asked for.
    pub(crate) idle: usize,
    /// Whether the region can forbid access.
    forbids: bool,
}

impl Guard {
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.capacity() * 8
            + self.blocks.len() * 16
            + self
                .ready
                .values()
                .map(|v| v.capacity() * 4 + 32)
                .sum::<usize>()
    }

    /// Checks the sum of the blocks.
    pub(crate) fn verify(&self, live_and_retired: u32) -> Result<(), String> {
        let sum: u32 = self.blocks.values().sum();
        if sum != live_and_retired {
            return Err(alloc::format!(
                "blocks have {sum} units, counted are {live_and_retired}"
            ));
        }
        Ok(())
    }
}

impl Arena {
    /// Fault injection: the `n`th request from now fails with [`ArenaFull`], once; 0 switches that
    /// off.
    ///
    /// A request is a call of [`alloc`](Arena::alloc) or [`ensure`](Arena::ensure). Blocks that a
    /// successful `ensure` has promised do not count as requests, and do not fail.
    ///
    /// ```
    /// # use sapwood_arena::{Arena, ArenaOptions, Area, Kind};
    /// let mut arena = Arena::new(ArenaOptions::default());
    /// arena.fail_after(2);
    /// assert!(arena.alloc(8, Kind(0), Area::Nodes).is_ok());
    /// assert!(arena.alloc(8, Kind(0), Area::Nodes).is_err());
    /// assert!(arena.alloc(8, Kind(0), Area::Nodes).is_ok());
    /// ```
    pub fn fail_after(&mut self, n: u64) {
        self.faults.every = 0;
        self.faults.countdown = n;
        self.special = true;
    }

    /// Whether fault injection made the last failed request fail. Then the caller can ask again
    /// without freeing anything.
    pub fn failed_by_injection(&self) -> bool {
        self.faults.injected
    }

    /// Counts a request, and fails if fault injection says so.
    fn fault(&mut self, bytes: usize) -> Result<(), ArenaFull> {
        self.faults.injected = false;
        if self.faults.countdown == 0 {
            return Ok(());
        }
        self.faults.countdown -= 1;
        if self.faults.countdown > 0 {
            return Ok(());
        }
        self.faults.countdown = self.faults.every;
        self.faults.injected = true;
        Err(ArenaFull::new(bytes, self.limit_bytes()))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn ensure_special(&mut self, bytes: usize) -> Result<(), ArenaFull> {
        self.fault(bytes)?;
        if self.guard.is_some() {
            self.start()?;
            // Every block may be a single unit, and takes a page.
            let pages = self.units_of(bytes)?;
            let end = u64::from(self.frontier) + u64::from(pages) * u64::from(PAGE_UNITS);
            self.guard_room(end, bytes)?;
        } else {
            self.ensure_units(bytes)?;
        }
        self.faults.promised = bytes.div_ceil(UNIT) as u64;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_special(
        &mut self,
        n: u32,
        bytes: usize,
        kind: Kind,
        area: Area,
    ) -> Result<Ref, ArenaFull> {
        if u64::from(n) <= self.faults.promised {
            self.faults.promised -= u64::from(n);
        } else {
            self.fault(bytes)?;
        }
        if self.guard.is_some() {
            let start = self.guard_alloc(n, bytes)?;
            return Ok(self.counted(start, n, kind));
        }
        let start = match self.take(n, area as usize) {
            Some(start) => start,
            None => self.take_fresh(n, bytes, area as usize)?,
        };
        if self.poison {
            self.check_poison(start, n);
            // SAFETY: nobody has the block yet.
            unsafe {
                self.base
                    .add(start as usize * UNIT)
                    .write_bytes(FRESH, n as usize * UNIT)
            };
        }
        Ok(self.counted(start, n, kind))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn free_special(&mut self, start: u32, n: u32) {
        if self.guard.is_some() {
            self.guard_free(start, n);
            return;
        }
        if self.poison {
            assert!(
                !self.bits.get(start as usize),
                "Ref({start}) is freed twice"
            );
            self.poison_run(start, n);
        }
        self.put(start, n);
    }

    /// Fills units that are free.
    pub(crate) fn poison_run(&mut self, start: u32, n: u32) {
        // SAFETY: the units are free: nothing else uses them.
        unsafe {
            self.base
                .add(start as usize * UNIT)
                .write_bytes(FREED, n as usize * UNIT)
        };
    }

    /// Fills the places where an unlinked fragment had its links and sizes.
    #[cold]
    pub(crate) fn poison_tags(&mut self, start: u32, n: u32) {
        self.poison_run(start, 1);
        if n >= TAGGED {
            self.poison_run(start + 1, 1);
            self.poison_run(start + n - 1, 1);
        }
    }

    fn check_poison(&self, start: u32, n: u32) {
        for unit in start..start + n {
            // SAFETY: the unit is free, so nobody else uses it.
            let word = unsafe { self.base.add(unit as usize * UNIT).cast::<u64>().read() };
            let expected = u64::from_ne_bytes([FREED; 8]);
            assert!(
                word == expected,
                "written after free at Ref({unit}), found while allocating Ref({start}): {word:#018x}"
            );
        }
    }

    /// Makes room up to `end` units in the region, for `Protect`.
    fn guard_room(&mut self, end: u64, bytes: usize) -> Result<(), ArenaFull> {
        let full = ArenaFull::new(bytes, self.limit_bytes());
        if end > u64::from(self.limit) {
            return Err(full);
        }
        if end > u64::from(self.len) {
            let region = self.region.as_mut().ok_or(full)?;
            region
                .grow(end as usize * UNIT)
                .map_err(|lacks| ArenaFull {
                    requested: bytes,
                    ..lacks
                })?;
            self.base = region.base().as_ptr();
            self.len = crate::arena::units_in(region.len());
        }
        Ok(())
    }

    fn guard_alloc(&mut self, n: u32, bytes: usize) -> Result<u32, ArenaFull> {
        self.start()?;
        let pages = n.div_ceil(PAGE_UNITS);
        let size = (pages * PAGE_UNITS) as usize * UNIT;
        let mut start = None;
        if let (Some(guard), Some(region)) = (&mut self.guard, &mut self.region) {
            if let Some(list) = guard.ready.get_mut(&pages) {
                if let Some(at) = list.pop() {
                    let offset = at as usize * UNIT;
                    if region.protect(offset..offset + size, false) || !guard.forbids {
                        guard.idle -= n as usize * UNIT;
                        start = Some(at);
                    } else {
                        // There are too many mappings: take fresh pages.
                        list.push(at);
                    }
                }
            }
        }
        let start = match start {
            Some(start) => start,
            None => {
                let start = self.frontier;
                let end = start + pages * PAGE_UNITS;
                self.guard_room(u64::from(end), bytes)?;
                self.frontier = end;
                self.high = self.high.max(end);
                if let Some(region) = &mut self.region {
                    self.backed = region.will_use(end as usize * UNIT);
                }
                if let Some(guard) = &mut self.guard {
                    guard.idle += size - n as usize * UNIT;
                }
                start
            }
        };
        if let Some(guard) = &mut self.guard {
            guard.blocks.insert(start, n);
        }
        Ok(start)
    }

    fn guard_free(&mut self, start: u32, n: u32) {
        let Some(guard) = &mut self.guard else { return };
        let asked = guard.blocks.remove(&start);
        assert!(
            asked == Some(n),
            "Ref({start}) freed with {n} units, allocated with {asked:?}"
        );
        self.guard_free_pages(start, n.div_ceil(PAGE_UNITS));
        if let Some(guard) = &mut self.guard {
            guard.idle += n as usize * UNIT;
        }
    }

    /// Frees the whole pages of a block's tail. The rest of the tail stays unused.
    pub(crate) fn guard_shrink(&mut self, start: u32, from: u32, to: u32) {
        let Some(guard) = &mut self.guard else { return };
        let asked = guard.blocks.insert(start, to);
        assert!(
            asked == Some(from),
            "Ref({start}) shrunk from {from} units, allocated with {asked:?}"
        );
        guard.idle += (from - to) as usize * UNIT;
        let (before, after) = (from.div_ceil(PAGE_UNITS), to.div_ceil(PAGE_UNITS));
        if after < before {
            self.guard_free_pages(start + after * PAGE_UNITS, before - after);
        }
    }

    /// Forbids access to pages, and lets them wait.
    fn guard_free_pages(&mut self, start: u32, pages: u32) {
        let (Some(guard), Some(region)) = (&mut self.guard, &mut self.region) else {
            return;
        };
        let offset = start as usize * UNIT;
        let range = offset..offset + (pages * PAGE_UNITS) as usize * UNIT;
        if region.protect(range.clone(), true) {
            guard.forbids = true;
        } else {
            // The region cannot forbid pages: at least the contents are overwritten. SAFETY: the
            // block was just freed, and its pages hold nothing else.
            unsafe { self.base.add(offset).write_bytes(FREED, range.len()) };
        }
        guard.waiting.push_back((start, pages));
        guard.waiting_pages += pages;
        while guard.waiting_pages > QUARANTINE {
            let Some((old, pages)) = guard.waiting.pop_front() else {
                break;
            };
            guard.waiting_pages -= pages;
            guard.ready.entry(pages).or_default().push(old);
        }
    }
}

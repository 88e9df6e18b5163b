//! Pools of free blocks, one for each shard, so that writers do not contend for the arena.
//!
//! A pool borrows runs of a few KiB from the arena, cuts blocks off them, and keeps freed blocks
//! for the next request of the same size. Blocks beyond a limit go back to the arena, where
//! neighbours are merged. Blocks of more than [`SMALL`] units, and all blocks in the arena's modes
//! for tests, come from the arena and go back to it one by one.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sapwood_arena::{Area, Arena, ArenaFull, Kind, PAGE, Ref};

use crate::sync::{self, Mutex};

/// Accounting kind of all blocks that pools have borrowed, whether in use or free.
pub(crate) const POOLED: Kind = Kind(3);
/// The largest block that is pooled, in units of 8 bytes.
const SMALL: usize = 40;
/// The limit for [`Depot::vacate_below`] that all branches lie below.
pub(crate) const ALL: u32 = u32::MAX;
/// The shortest and the longest run that a pool borrows, in bytes.
const RUN: (usize, usize) = (512, 8 << 10);
/// The greatest numbers of units and of blocks that a pool borrows at once when it fills gaps with
/// blocks of one size.
const GAPS: usize = 512;
const GAPS_MOST: usize = 32;
/// The bounds of the free bytes beyond which a pool returns most of its blocks. Between them, the
/// limit is a share of the memory in use. It is generous because writers that hold a guard for long
/// get their garbage back in bursts.
const KEEP: (usize, usize) = (32 << 10, 256 << 10);
const KEEP_SHARE: usize = 64;

/// The arena, and the values that pools read without its lock.
pub(crate) struct Depot {
    arena: Mutex<Arena>,
    base: *mut u8,
    splits: bool,
    /// While branches are moved to new memory, blocks of branches below this reference are not used
    /// again.
    vacate: AtomicU32,
    /// The most free bytes that each pool keeps.
    keep: AtomicUsize,
    /// The pages that are still to be looked at, since many nodes were freed.
    unseen: AtomicUsize,
}

// SAFETY: the base is the arena's, and this type only returns it.
unsafe impl Send for Depot {}
// SAFETY: as above; the arena is behind its lock.
unsafe impl Sync for Depot {}

impl Depot {
    pub(crate) fn new(arena: Arena) -> Self {
        assert!(
            arena.is_stable(),
            "{}",
            sapwood_common::raw::memory::NEEDS_STABLE
        );
        Depot {
            base: arena.base(),
            splits: arena.splits_runs(),
            arena: Mutex::new(arena),
            vacate: AtomicU32::new(0),
            keep: AtomicUsize::new(KEEP.0),
            unseen: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn arena<R>(&self, f: impl FnOnce(&mut Arena) -> R) -> R {
        f(&mut sync::lock(&self.arena))
    }

    /// Gives free memory back to the system: all of it if no block is used, else of up to `pages`
    /// pages, until all were looked at once since `many` nodes were freed.
    pub(crate) fn give_back(&self, pages: usize, many: bool) {
        if !many && self.unseen.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.arena(|arena| {
            let all = if many {
                arena.high().div_ceil(PAGE)
            } else {
                self.unseen.load(Ordering::Relaxed)
            };
            let left = if arena.is_unused() {
                arena.give_back_free();
                0
            } else {
                arena.release_free(pages.min(all));
                all.saturating_sub(pages)
            };
            self.unseen.store(left, Ordering::Relaxed);
        });
    }

    /// Sets a limit: until it is 0 again, blocks of branches below it go back to the arena when
    /// they are freed. With [`ALL`], new blocks are cut from runs of free memory.
    pub(crate) fn vacate_below(&self, limit: u32) {
        self.vacate.store(limit, Ordering::Relaxed);
    }

    /// Whether branches are being moved into free memory, wherever it is.
    pub(crate) fn is_filling(&self) -> bool {
        self.vacate.load(Ordering::Relaxed) == ALL
    }

    /// Whether a block of a branch at `r` is not used again for now.
    #[inline]
    pub(crate) fn is_vacated(&self, r: Ref) -> bool {
        r.get() < self.vacate.load(Ordering::Relaxed)
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(8).max(1)
}

fn reference(unit: u32) -> Ref {
    match Ref::new(unit) {
        Some(r) => r,
        None => unreachable!("blocks lie behind the header"),
    }
}

/// The free blocks of one area.
struct Cache {
    /// The rest of the run.
    at: u32,
    end: u32,
    /// The free blocks, by their units.
    free: Vec<Vec<u32>>,
    /// Number of units in `free`.
    held: usize,
    /// Size of the next run in bytes.
    run: usize,
}

impl Cache {
    fn new() -> Self {
        Cache {
            at: 0,
            end: 0,
            free: Vec::new(),
            held: 0,
            run: RUN.0,
        }
    }

    fn take(&mut self, units: usize) -> Option<u32> {
        self.take_free(units).or_else(|| self.take_next(units))
    }

    fn take_free(&mut self, units: usize) -> Option<u32> {
        let block = self.free.get_mut(units)?.pop()?;
        self.held -= units;
        Some(block)
    }

    fn take_next(&mut self, units: usize) -> Option<u32> {
        if (self.end - self.at) as usize >= units {
            let block = self.at;
            self.at += units as u32;
            return Some(block);
        }
        None
    }

    fn keep(&mut self, block: u32, units: usize) {
        if self.free.is_empty() {
            self.free.resize_with(SMALL + 1, Vec::new);
        }
        self.free[units].push(block);
        self.held += units;
    }

    /// Borrows some blocks of `n` units, wherever they fit; returns one and keeps the others.
    fn fill_gaps(&mut self, arena: &mut Arena, n: usize, area: Area) -> Result<Ref, ArenaFull> {
        let first = arena.lend(n * 8, POOLED, area)?;
        for _ in 1..(GAPS / n).min(GAPS_MOST) {
            match arena.lend(n * 8, POOLED, area) {
                Ok(r) => self.keep(r.get(), n),
                Err(_) => break,
            }
        }
        // The block that is kept last is used first. So without this, neighbours would come in
        // descending order.
        if let Some(blocks) = self.free.get_mut(n) {
            blocks.reverse();
        }
        Ok(first)
    }

    /// Returns the rest of the run, and all but `rest` units of free blocks, to the arena.
    fn give_back(&mut self, arena: &mut Arena, rest: usize) {
        if self.at < self.end {
            let bytes = (self.end - self.at) as usize * 8;
            // SAFETY: the rest of a run was never allocated.
            unsafe { arena.give_back(reference(self.at), bytes, POOLED) };
        }
        (self.at, self.end) = (0, 0);
        while self.held > rest {
            for (units, blocks) in self.free.iter_mut().enumerate() {
                let keep = if rest == 0 { 0 } else { blocks.len() / 2 };
                for block in blocks.drain(keep..) {
                    self.held -= units;
                    // SAFETY: the free block was borrowed, and nobody reads it any more.
                    unsafe { arena.give_back(reference(block), units * 8, POOLED) };
                }
                blocks.shrink_to(2 * keep);
            }
        }
    }

    fn bytes(&self) -> usize {
        ((self.end - self.at) as usize + self.held) * 8
    }
}

/// The free blocks of a shard: see the module.
pub(crate) struct BlockPool {
    nodes: Cache,
    leaves: Cache,
}

impl BlockPool {
    pub(crate) fn new() -> Self {
        BlockPool {
            nodes: Cache::new(),
            leaves: Cache::new(),
        }
    }

    fn cache(&mut self, area: Area) -> &mut Cache {
        match area {
            Area::Nodes => &mut self.nodes,
            Area::Leaves => &mut self.leaves,
        }
    }

    /// Allocates a block of `bytes` bytes, rounded up to whole units.
    #[inline]
    pub(crate) fn alloc(
        &mut self,
        depot: &Depot,
        bytes: usize,
        area: Area,
    ) -> Result<Ref, ArenaFull> {
        let n = units(bytes);
        if n <= SMALL && depot.splits {
            if let Some(block) = self.cache(area).take(n) {
                return Ok(reference(block));
            }
            return self.refill(depot, n, area);
        }
        depot.arena(|arena| arena.lend(bytes, POOLED, area))
    }

    #[cold]
    fn refill(&mut self, depot: &Depot, n: usize, area: Area) -> Result<Ref, ArenaFull> {
        let cache = self.cache(area);
        depot.arena(|arena| {
            let keep = (arena.frontier() / KEEP_SHARE).clamp(KEEP.0, KEEP.1);
            depot.keep.store(keep, Ordering::Relaxed);
            let moving = depot.is_filling() && matches!(area, Area::Nodes);
            if !moving && arena.has_gaps(area) {
                return cache.fill_gaps(arena, n, area);
            }
            let run = cache.run;
            cache.run = (run * 2).min(RUN.1);
            cache.give_back(arena, usize::MAX);
            match arena.lend(run, POOLED, area) {
                Ok(r) => {
                    cache.at = r.get() + n as u32;
                    cache.end = r.get() + (run / 8) as u32;
                    Ok(r)
                }
                // There is no room for the run: this block comes alone, and runs are short from now
                // on.
                Err(_) => {
                    cache.run = RUN.0;
                    arena.lend(n * 8, POOLED, area)
                }
            }
        })
    }

    /// Frees a block that nobody reads any more.
    ///
    /// # Safety
    /// The block came from a pool of this depot, with the same number of bytes and the same area,
    /// and is not used again.
    #[inline]
    pub(crate) unsafe fn free(&mut self, depot: &Depot, r: Ref, bytes: usize, area: Area) {
        let n = units(bytes);
        let pooled = n <= SMALL && depot.splits;
        if !pooled || (matches!(area, Area::Nodes) && depot.is_vacated(r)) {
            // SAFETY: the caller's promise.
            depot.arena(|arena| unsafe { arena.give_back(r, bytes, POOLED) });
            return;
        }
        let cache = self.cache(area);
        cache.keep(r.get(), n);
        let keep = depot.keep.load(Ordering::Relaxed);
        if cache.held * 8 > keep {
            depot.arena(|arena| cache.give_back(arena, keep / 16));
        }
    }

    /// Returns all free memory to the arena.
    pub(crate) fn drain(&mut self, depot: &Depot) {
        depot.arena(|arena| {
            for cache in [&mut self.nodes, &mut self.leaves] {
                cache.give_back(arena, 0);
                cache.free = Vec::new();
                cache.run = RUN.0;
            }
        });
    }

    /// Returns free memory for branches to the arena.
    pub(crate) fn drain_nodes(&mut self, depot: &Depot) {
        depot.arena(|arena| self.nodes.give_back(arena, 0));
    }

    /// Number of bytes that are borrowed and free.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.leaves.bytes()
    }

    /// Bytes of the pool's own tables.
    pub(crate) fn overhead(&self) -> usize {
        [&self.nodes, &self.leaves]
            .iter()
            .flat_map(|cache| &cache.free)
            .map(|blocks| blocks.capacity() * 4 + size_of::<Vec<u32>>())
            .sum()
    }

    /// The free blocks, for a check that none is there twice.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        [&self.nodes, &self.leaves].into_iter().flat_map(|cache| {
            let lists = cache.free.iter().enumerate();
            let free =
                lists.flat_map(|(units, blocks)| blocks.iter().map(move |block| (*block, units)));
            let run = (cache.at < cache.end).then_some((cache.at, (cache.end - cache.at) as usize));
            free.chain(run)
        })
    }
}

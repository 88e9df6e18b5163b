//! Pools of free blocks by size. A structure that replaces blocks by others of about the same sizes
//! takes a block from a pool in a few instructions, where the arena would merge and split.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::arena::Arena;
use crate::reference::{Area, Kind, Ref, UNIT};

/// Units that a pool may keep, however few are live.
const LEAST: usize = (16 << 10) / UNIT;

/// A pool of free blocks of one arena, by size and area. The arena counts them as lent under a kind
/// of their own.
///
/// ```
/// use sapwood_arena::{Area, Arena, ArenaOptions, Kind, Pool};
/// const NODE: Kind = Kind(0);
/// let mut arena = Arena::new(ArenaOptions::default());
/// let mut pool = Pool::new(&arena, Kind(7), 256, 1 << 16);
/// let r = arena.alloc(40, NODE, Area::Nodes)?;
/// // SAFETY: the block is live, and is not used any more.
/// unsafe { pool.free(&mut arena, (r, 40, NODE), Area::Nodes) };
/// assert_eq!(arena.memory().kinds[7].bytes, 40);
/// assert_eq!(pool.take(&mut arena, 40, NODE, Area::Nodes), Some(r));
/// # // SAFETY: as above.
/// # unsafe { pool.free(&mut arena, (r, 40, NODE), Area::Nodes) };
/// pool.clear(&mut arena);
/// assert_eq!(arena.memory().live, 0);
/// # Ok::<(), sapwood_arena::ArenaFull>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Vec<Ref>>; 2],
    kind: Kind,
    /// The most units of a block that the pool keeps.
    block: usize,
    /// The most units that the pool keeps.
    most: usize,
    held: usize,
    /// Whether the pool keeps blocks: not in debug modes that look at each block by itself.
    on: bool,
}

impl Pool {
    /// An empty pool for blocks of up to `block` bytes, and up to `most` bytes in all. It also
    /// keeps at most a quarter of the arena's live bytes, or 16 KiB if that is more, and no block
    /// that an [evacuation](Arena::begin_evacuation) is to leave.
    pub fn new(arena: &Arena, kind: Kind, block: usize, most: usize) -> Self {
        Pool {
            free: Default::default(),
            kind,
            block: block / UNIT,
            most: most / UNIT,
            held: 0,
            on: arena.splits_runs(),
        }
    }

    /// Takes a block of `bytes` bytes from the pool. It counts as live from now on.
    #[inline]
    pub fn take(&mut self, arena: &mut Arena, bytes: usize, kind: Kind, area: Area) -> Option<Ref> {
        let units = bytes.div_ceil(UNIT);
        let block = self.free[area as usize].get_mut(units)?.pop()?;
        self.held -= units;
        arena.use_lent(bytes, self.kind, kind);
        Some(block)
    }

    /// Whether the pool would keep this block. It keeps none that an evacuation is to leave: the
    /// next block that is moved would come to lie there again.
    fn wants(&self, arena: &Arena, r: Ref, bytes: usize, area: Area) -> bool {
        let most = self.most.min((arena.live() / UNIT / 4).max(LEAST));
        self.on
            && bytes.div_ceil(UNIT) <= self.block
            && self.held < most
            && !(arena.is_evacuating(area) && arena.should_move(r))
    }

    fn keep(&mut self, r: Ref, bytes: usize, area: Area) {
        let free = &mut self.free[area as usize];
        if free.is_empty() {
            free.resize_with(self.block + 1, Vec::new);
        }
        free[bytes.div_ceil(UNIT)].push(r);
        self.held += bytes.div_ceil(UNIT);
    }

    /// Puts a live block (reference, bytes, kind) into the pool, or frees it.
    ///
    /// # Safety
    /// As for [`Arena::free`]; the block was allocated in this area.
    pub unsafe fn free(&mut self, arena: &mut Arena, block: (Ref, usize, Kind), area: Area) {
        let (r, bytes, kind) = block;
        if self.wants(arena, r, bytes, area) {
            arena.lend_live(bytes, kind, self.kind);
            self.keep(r, bytes, area);
        } else {
            // SAFETY: the caller's promise.
            unsafe { arena.free(r, bytes, kind) };
        }
    }

    /// As [`free`](Self::free), but takes nothing from the process's heap: it keeps the block only
    /// if [`reserve`](Self::reserve) or an earlier block made room for it.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    pub unsafe fn free_in_room(
        &mut self,
        arena: &mut Arena,
        block: (Ref, usize, Kind),
        area: Area,
    ) {
        let (r, bytes, kind) = block;
        let list = self.free[area as usize].get(bytes.div_ceil(UNIT));
        if list.is_some_and(|list| list.len() < list.capacity()) {
            // SAFETY: the caller's promise.
            unsafe { self.free(arena, block, area) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { arena.free(r, bytes, kind) };
        }
    }

    /// Makes room for `count` more blocks of this size, or for as many as the pool would keep.
    ///
    /// # Errors
    /// When the process's heap has no memory for the list.
    pub fn reserve(
        &mut self,
        bytes: usize,
        area: Area,
        count: usize,
    ) -> Result<(), TryReserveError> {
        let units = bytes.div_ceil(UNIT);
        if !self.on || units > self.block {
            return Ok(());
        }
        let lists = &mut self.free[area as usize];
        if lists.is_empty() {
            lists.try_reserve_exact(self.block + 1)?;
            lists.resize_with(self.block + 1, Vec::new);
        }
        let most = self.most / units.max(1) + 1;
        lists[units].try_reserve(count.min(most))
    }

    /// Puts a retired block into the pool, or frees it.
    ///
    /// # Safety
    /// As for [`Arena::free_retired`]; the block was allocated in this area.
    #[inline]
    pub unsafe fn free_retired(
        &mut self,
        arena: &mut Arena,
        block: (Ref, usize, Kind),
        area: Area,
    ) {
        let (r, bytes, kind) = block;
        if self.wants(arena, r, bytes, area) {
            arena.lend_retired(bytes, self.kind);
            self.keep(r, bytes, area);
        } else {
            // SAFETY: the caller's promise.
            unsafe { arena.free_retired(r, bytes, kind) };
        }
    }

    /// Gives all blocks back to the arena.
    pub fn clear(&mut self, arena: &mut Arena) {
        for lists in &mut self.free {
            for (units, list) in lists.iter_mut().enumerate() {
                for r in list.drain(..) {
                    // SAFETY: kept blocks were lent, and nobody uses them.
                    unsafe { arena.give_back(r, units * UNIT, self.kind) };
                }
            }
        }
        self.held = 0;
    }

    /// Gives all blocks back to the arena, and the lists of them to the heap.
    pub fn give_back(&mut self, arena: &mut Arena) {
        self.clear(arena);
        self.free = Default::default();
    }

    /// Bytes outside the arena.
    pub fn bytes(&self) -> usize {
        let lists = self.free.iter().flatten();
        lists
            .map(|list| size_of::<Vec<Ref>>() + list.capacity() * 4)
            .sum()
    }
}

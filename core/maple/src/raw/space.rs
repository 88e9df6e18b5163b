//! The blocks of a map: allocation of nodes and values, reservations, garbage.

use alloc::collections::TryReserveError;

use sapwood_arena::{Area, Arena, ArenaFull, Kind, PAGE, Pool, Ref};
use sapwood_qsbr::Domain;

use super::node::{INNER, LEAF, Mem, POOLED, RESERVED, VALUE};
use crate::garbage::{Block, Garbage};

/// The most bytes of free blocks that the pool keeps.
const POOLED_MOST: usize = 1 << 17;
/// The area of a kind of block.
fn area(kind: Kind) -> Area {
    if kind == VALUE {
        Area::Leaves
    } else {
        Area::Nodes
    }
}

/// A block of a reservation: its place, bytes, and what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) r: Ref,
    pub(crate) bytes: usize,
    pub(crate) area: Area,
}

/// The error when the process's heap has no memory for a list of `bytes` bytes.
pub(crate) fn no_heap(_: TryReserveError, bytes: usize) -> ArenaFull {
    ArenaFull::no_heap(bytes, isize::MAX as usize)
}

/// The blocks of a map.
pub(crate) struct Space {
    pub(crate) arena: Arena,
    pub(crate) pool: Pool,
    pub(crate) garbage: Garbage,
    /// Bytes of a value's block.
    value: usize,
    /// The number of nodes made since the map began.
    pub(crate) made: u64,
}

impl Space {
    pub(crate) fn new(arena: Arena, domain: &Domain, largest: usize, value: usize) -> Self {
        assert!(
            arena.is_stable(),
            "{}",
            sapwood_common::raw::memory::NEEDS_STABLE
        );
        Space {
            pool: Pool::new(&arena, POOLED, largest, POOLED_MOST),
            arena,
            garbage: Garbage::new(domain),
            value,
            made: 0,
        }
    }

    /// The memory, once there is a block.
    pub(crate) fn mem(&self) -> Mem {
        Mem(self.arena.base())
    }

    pub(crate) fn bytes(&self, block: Block) -> usize {
        if block.kind() == VALUE {
            self.value
        } else {
            block.bytes()
        }
    }

    /// A new block.
    #[inline]
    pub(crate) fn alloc(&mut self, bytes: usize, kind: Kind) -> Result<u32, ArenaFull> {
        match self.pool.take(&mut self.arena, bytes, kind, area(kind)) {
            Some(r) => Ok(r.get()),
            None => Ok(self.arena.alloc(bytes, kind, area(kind))?.get()),
        }
    }

    /// Frees a block that nobody else knows.
    ///
    /// # Safety
    /// It is live, of this kind and length, and not used again.
    pub(crate) unsafe fn free(&mut self, r: u32, bytes: usize, kind: Kind) {
        if let Some(r) = Ref::new(r) {
            // SAFETY: the caller's promise.
            unsafe {
                self.pool
                    .free(&mut self.arena, (r, bytes, kind), area(kind))
            };
        }
    }

    /// A block for a reservation.
    pub(crate) fn hold(&mut self, bytes: usize, area: Area) -> Result<Held, ArenaFull> {
        let r = match self.pool.take(&mut self.arena, bytes, RESERVED, area) {
            Some(r) => r,
            None => self.arena.alloc(bytes, RESERVED, area)?,
        };
        Ok(Held { r, bytes, area })
    }

    /// A block for a reservation, for a value.
    pub(crate) fn hold_value(&mut self) -> Result<Held, ArenaFull> {
        self.hold(self.value, Area::Leaves)
    }

    /// Bytes of a value's block.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value
    }

    /// The number of nodes and values that the map has.
    pub(crate) fn in_use(&self) -> usize {
        let kinds = self.arena.memory().kinds;
        [LEAF, INNER, VALUE]
            .iter()
            .map(|kind| kinds[kind.0 as usize].count)
            .sum()
    }

    /// Makes room in the pool for `count` free blocks, or for as many of them as the pool would
    /// keep.
    pub(crate) fn room_to_keep(
        &mut self,
        bytes: usize,
        area: Area,
        count: usize,
    ) -> Result<(), ArenaFull> {
        self.pool
            .reserve(bytes, area, count)
            .map_err(|refused| no_heap(refused, count * size_of::<Ref>()))
    }

    /// Makes room in the lists for `blocks` blocks that the map will retire.
    pub(crate) fn room_for_garbage(&mut self, blocks: usize) -> Result<(), ArenaFull> {
        let bytes = blocks * size_of::<(Block, usize)>();
        self.garbage
            .reserve(blocks)
            .map_err(|refused| no_heap(refused, bytes))
    }

    /// Gives a reservation's block back, and takes nothing from the process's heap.
    ///
    /// # Safety
    /// It came from [`hold`](Self::hold), and is not used again.
    pub(crate) unsafe fn drop_held(&mut self, held: Held) {
        let block = (held.r, held.bytes, RESERVED);
        // SAFETY: the caller's promise.
        unsafe {
            self.pool.free_in_room(&mut self.arena, block, held.area);
        }
    }

    /// Makes a reservation's block one of the map's, of `bytes` bytes or a few less than it has.
    ///
    /// # Safety
    /// As for [`drop_held`](Self::drop_held).
    pub(crate) unsafe fn use_held(&mut self, held: Held, bytes: usize, kind: Kind) -> u32 {
        assert!(bytes <= held.bytes, "a reserved block is large enough");
        // SAFETY: the caller's promise; nobody uses the tail.
        unsafe {
            self.arena
                .shrink(held.r, (held.bytes, RESERVED), (bytes, kind));
        }
        held.r.get()
    }

    /// Retires a block that the map has unlinked.
    #[inline]
    pub(crate) fn leave(&mut self, block: Block) {
        let bytes = self.bytes(block);
        self.garbage.retire(&mut self.arena, block, bytes);
    }

    /// Frees up to `budget` blocks that nobody can reach any more: `value` frees the values, this
    /// method the others. `bounds` are the newest version and the oldest that is kept.
    pub(crate) fn reclaim(
        &mut self,
        budget: usize,
        bounds: (u64, u64),
        mut value: impl FnMut(&mut Arena, u32),
    ) -> usize {
        if self.garbage.is_empty() {
            return 0;
        }
        let Space {
            arena,
            pool,
            garbage,
            ..
        } = self;
        let freed = garbage.reclaim(budget, bounds, |block| match block.kind() {
            VALUE => value(arena, block.at()),
            kind => {
                if let Some(r) = Ref::new(block.at()) {
                    // SAFETY: unlinked, retired, and its grace period is over.
                    unsafe { pool.free_retired(arena, (r, block.bytes(), kind), area(kind)) };
                }
            }
        });
        if garbage.is_empty() && self.in_use() == 0 {
            self.emptied();
        }
        freed
    }

    /// Gives the memory back of a map that has become empty, but not the last page.
    #[cold]
    fn emptied(&mut self) {
        if self.arena.committed() <= PAGE {
            return;
        }
        self.pool.give_back(&mut self.arena);
        // Blocks of reservations stay.
        if self.arena.is_unused() {
            self.arena.give_back_free();
            self.garbage.give_back();
        }
    }
}

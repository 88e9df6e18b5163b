//! Blocks: where new nodes and values come from, and when old ones are freed.

use sapwood_arena::{Area, Arena, ArenaFull, Kind, Pool, Ref};
use sapwood_qsbr::{Domain, RetireQueue};

use super::node::{INNER, Inner, LEAF, LINE, Leaf, Mem, POOLED, RESERVED, VALUE};

/// Free blocks are kept up to so many bytes in all.
const POOLED_MOST: usize = 1 << 17;
/// Blocks are handed to the grace period so many at a time.
pub(crate) const SEAL: usize = 64;

/// A block, what it is and how long: 32 bits of reference, 16 of kind, 16 of lines. The length of values is their type's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(u64);

impl Block {
    fn new(r: u32, kind: Kind, lines: usize) -> Self {
        Block(u64::from(r) | u64::from(kind.0) << 32 | (lines as u64) << 48)
    }

    pub(crate) fn leaf(r: u32, leaf: Leaf) -> Self {
        Block::new(r, LEAF, leaf.bytes() / LINE)
    }

    pub(crate) fn inner(r: u32, inner: Inner) -> Self {
        Block::new(r, INNER, inner.bytes() / LINE)
    }

    pub(crate) fn value(r: u32) -> Self {
        Block::new(r, VALUE, 0)
    }

    pub(crate) fn at(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn kind(self) -> Kind {
        Kind((self.0 >> 32) as u8)
    }

    fn lines(self) -> usize {
        (self.0 >> 48) as usize
    }
}

/// Where a kind of block lies.
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

/// The blocks of a map.
pub(crate) struct Space {
    pub(crate) arena: Arena,
    pub(crate) pool: Pool,
    queue: RetireQueue<Block>,
    /// What changes left behind and the queue has not got yet: it takes many at once.
    left: Vec<(Block, usize)>,
    left_bytes: usize,
    /// Bytes of a value's block.
    value: usize,
    /// Nodes that were ever made.
    pub(crate) made: u64,
}

impl Space {
    pub(crate) fn new(arena: Arena, domain: &Domain, largest: usize, value: usize) -> Self {
        assert!(arena.is_stable(), "readers need a base that stays");
        Space {
            pool: Pool::new(&arena, POOLED, largest, POOLED_MOST),
            arena,
            queue: RetireQueue::new(domain),
            left: Vec::new(),
            left_bytes: 0,
            value,
            made: 0,
        }
    }

    /// From references to addresses, once there is a block.
    pub(crate) fn mem(&self) -> Mem {
        Mem(self.arena.base())
    }

    pub(crate) fn bytes(&self, block: Block) -> usize {
        if block.kind() == VALUE {
            self.value
        } else {
            block.lines() * LINE
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

    /// Gives a reservation's block back.
    ///
    /// # Safety
    /// It came from [`hold`](Self::hold), and is not used again.
    pub(crate) unsafe fn drop_held(&mut self, held: Held) {
        let block = (held.r, held.bytes, RESERVED);
        // SAFETY: the caller's promise.
        unsafe { self.pool.free(&mut self.arena, block, held.area) };
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

    /// A block that the map does without from now on.
    #[inline]
    pub(crate) fn leave(&mut self, block: Block) {
        let bytes = self.bytes(block);
        self.arena.retire(bytes, block.kind());
        self.left_bytes += bytes;
        self.left.push((block, bytes));
    }

    /// Whether so much was left behind that the queue should have it.
    pub(crate) fn has_left_much(&self) -> bool {
        self.left.len() >= SEAL
    }

    /// Hands what was left behind to the queue, and what nobody can hold any more, up to `budget` blocks, to `value` if they
    /// are values, or else back to the arena.
    pub(crate) fn reclaim(
        &mut self,
        budget: usize,
        mut value: impl FnMut(&mut Arena, u32),
    ) -> usize {
        if self.left.is_empty() && self.queue.is_empty() {
            return 0;
        }
        self.left_bytes = 0;
        self.queue.extend(self.left.drain(..));
        self.queue.seal();
        let Space {
            arena, pool, queue, ..
        } = self;
        queue.reclaim(budget, |block| match block.kind() {
            VALUE => value(arena, block.at()),
            kind => {
                if let Some(r) = Ref::new(block.at()) {
                    let bytes = block.lines() * LINE;
                    // SAFETY: unlinked, retired, and its grace period is over.
                    unsafe { pool.free_retired(arena, (r, bytes, kind), area(kind)) };
                }
            }
        })
    }

    /// Hands over everything that waits, without waiting: for the end of the map.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Block)) {
        self.left_bytes = 0;
        for (block, _) in self.left.drain(..) {
            each(block);
        }
        self.queue.drain(each);
    }

    /// Blocks and bytes that wait for readers.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (
            self.queue.len() + self.left.len(),
            self.queue.bytes() + self.left_bytes,
        )
    }

    /// Bytes that wait and that the domain has not been told of.
    pub(crate) fn untold(&self) -> usize {
        self.left_bytes
    }
}

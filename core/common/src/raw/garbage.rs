//! Garbage: blocks that a writer has unlinked and that readers may still reach.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use sapwood_arena::{Arena, Kind, UNIT};
use sapwood_qsbr::{Domain, GarbageLimit, RetireQueue};

/// The number of blocks that are handed to the grace period at once.
pub const SEAL: usize = 64;

/// A block, its kind and its length: 32 bits of reference, 16 of kind, 16 of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block(u64);

impl Block {
    /// A block of at most 512 KiB. A length of 0 is that of values, whose length follows from their
    /// type.
    #[inline]
    pub fn new(r: u32, kind: Kind, bytes: usize) -> Self {
        Block(u64::from(r) | u64::from(kind.0) << 32 | (bytes.div_ceil(UNIT) as u64) << 48)
    }

    #[inline]
    pub fn at(self) -> u32 {
        self.0 as u32
    }

    /// The kind in the arena's accounts.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind((self.0 >> 32) as u8)
    }

    /// Bytes in whole units.
    #[inline]
    pub fn bytes(self) -> usize {
        (self.0 >> 48) as usize * UNIT
    }
}

/// The garbage of one writer.
pub struct Garbage {
    queue: RetireQueue<Block>,
    /// Blocks that are not in the queue yet, with their bytes. The queue takes many at once.
    left: Vec<(Block, usize)>,
    left_bytes: usize,
    /// Bytes of blocks that a transaction will retire when it ends.
    pledged: usize,
}

impl Garbage {
    pub fn new(domain: &Domain) -> Self {
        Garbage {
            queue: RetireQueue::new(domain),
            left: Vec::new(),
            left_bytes: 0,
            pledged: 0,
        }
    }

    /// Retires a block that the newest version does not reach.
    #[inline]
    pub fn retire(&mut self, arena: &mut Arena, block: Block, bytes: usize) {
        arena.retire(bytes, block.kind());
        self.left_bytes += bytes;
        self.left.push((block, bytes));
    }

    /// Makes room for `blocks` more, so that [`retire`](Self::retire) takes nothing from the heap.
    pub fn reserve(&mut self, blocks: usize) -> Result<(), TryReserveError> {
        self.left.try_reserve(blocks)
    }

    /// Bytes of the list of the newest blocks.
    pub fn room(&self) -> usize {
        self.left.capacity() * size_of::<(Block, usize)>()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.queue.is_empty()
    }

    /// Whether the queue should get the newest blocks, in an arena with `live` bytes: when they are
    /// [`SEAL`] blocks, or a quarter of `live` and at least 4 KiB.
    #[inline]
    pub fn is_due(&self, live: usize) -> bool {
        self.left.len() >= SEAL || self.left_bytes >= (live / 4).max(4 << 10)
    }

    /// Frees up to `budget` blocks that no reader can reach any more, and that were retired by
    /// version `oldest` or an earlier one. `newest` is the number of a version that reaches none of
    /// the blocks.
    pub fn reclaim(
        &mut self,
        budget: usize,
        (newest, oldest): (u64, u64),
        free: impl FnMut(Block),
    ) -> usize {
        self.left_bytes = 0;
        self.queue.extend(self.left.drain(..));
        self.queue.seal_tagged(newest);
        // Versions before r may reach the blocks that version r retired.
        self.queue
            .reclaim_while(budget, |_, version| version <= oldest, free)
    }

    /// Hands over all blocks without waiting: for the end of the structure.
    pub fn drain(&mut self, mut each: impl FnMut(Block)) {
        self.left_bytes = 0;
        self.left.drain(..).for_each(|(block, _)| each(block));
        self.queue.drain(each);
    }

    /// The number and bytes of the blocks that wait.
    pub fn waiting(&self) -> (usize, usize) {
        let (len, bytes) = (self.left.len(), self.left_bytes);
        (self.queue.len() + len, self.queue.bytes() + bytes)
    }

    /// Bytes of the blocks that are not in the queue yet, with those that are pledged.
    pub fn unqueued(&self) -> usize {
        self.left_bytes + self.pledged
    }

    /// Counts a block that a transaction has unlinked, and will retire when it ends.
    pub fn pledge(&mut self, bytes: usize) {
        self.pledged += bytes;
    }

    /// A transaction ends: what it pledged is retired next, or not at all.
    pub fn redeem(&mut self) {
        self.pledged = 0;
    }

    /// Gives back the memory of the lists, if nothing waits.
    pub fn give_back(&mut self) {
        if self.is_empty() {
            self.left = Vec::new();
            self.queue.give_back();
        }
    }

    /// The queue, which reserves room for garbage.
    pub fn queue(&mut self) -> &mut RetireQueue<Block> {
        &mut self.queue
    }

    /// Gives back the reserved room, except that of the blocks that are not in the queue yet.
    #[inline]
    pub fn release(&mut self) {
        self.queue.release(self.left_bytes + self.pledged);
    }
}

/// Reserves room for garbage, by the domain's policy. `total` is the bytes of the blocks that are
/// not in the queue yet and of those that the change may retire. `reclaim` frees what it can, and
/// returns whether any garbage is left.
pub fn admit<W, T>(
    domain: &Domain,
    writer: &mut W,
    total: impl Fn(&W) -> usize,
    queue: impl Fn(&mut W) -> &mut RetireQueue<T>,
    mut reclaim: impl FnMut(&mut W) -> bool,
) -> Result<(), GarbageLimit> {
    let mut reclaimed = domain.over_soft_limit();
    if reclaimed {
        reclaim(writer);
    }
    loop {
        let bytes = total(writer);
        let Err(full) = queue(writer).reserve(bytes) else {
            return Ok(());
        };
        if !reclaimed {
            reclaim(writer);
            reclaimed = true;
        } else if bytes > full.limit {
            // This writer's change alone needs more than the limit, so waiting cannot help.
            return Err(full);
        } else {
            domain.admit_with(full.requested, || reclaim(writer))?;
        }
    }
}

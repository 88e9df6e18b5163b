//! The bytes of the index: a table's header and directory, and its buckets.
//!
//! A bucket is a cache line of twelve tags, a word of state, and twelve leaf cells:
//!
//! ```text
//! word 0        tags of the slots 0..8, slot 0 in the lowest byte; 0 = empty
//! word 1        bits 0..32: tags of the slots 8..12; bits 32..64: state
//! 16..64        twelve leaf cells, u32
//!
//! state   bit 32       LOCK: a writer is at work
//!         bit 33       MOVED: the keys that are at home here are in the next table
//!         bits 34..40  out: keys that are at home here and lie in a bucket behind
//!         bits 40..48  reach: they lie at most this many buckets behind
//!         bits 48..56  spilled: keys that are at home here and found no slot; all ones: not known any more
//!         bits 56..64  filter: one bit for each tag (its lowest three bits) of the keys that lie behind; 0 if none do
//! ```
//!
//! Because of the filter, most misses do not look behind. A third of the homes of a full table have
//! two or three keys there.
//!
//! Both words are read and written whole, so nothing depends on the order of bytes in them.
//!
//! A table is a block with a header and a directory, and the chunks of buckets that the directory
//! names:
//!
//! ```text
//! 0    homes: buckets that a key can be at home in
//! 4    total: homes and the few buckets behind, for keys that found no slot at the end
//! 8    shift: a chunk has 1 << shift buckets; the last one as many as are left
//! 12   next: the table that the keys are being moved to, 0 if none, NOTHING if there is no other
//! 16   directory: one word a chunk, 0 = not there (not yet, or not any more)
//! ```
//!
//! A directory word is the reference of the chunk's first bucket, which is aligned to a line. So
//! the word's lowest three bits are free: they have the number of units that the bucket lies behind
//! the start of the chunk's block.

use crate::UNIT;

/// Slots of a bucket.
pub const SLOTS: usize = 12;
/// Bytes of a bucket.
pub const LINE: usize = 64;
/// The offset of the cells of a bucket.
pub const CELLS_AT: usize = 16;

/// Bit of word 1: a writer is at work.
pub const LOCK: u64 = 1 << 32;
/// Bit of word 1: the keys that are at home here are in the next table.
pub const MOVED: u64 = 1 << 33;
/// The first bit in word 1 of the number of keys behind.
pub const OUT: u32 = 34;
/// The most keys of a home that lie behind it. If all hashes are equal, a lookup compares twelve
/// leaves more than these.
pub const OUT_MAX: u32 = 0x3f;
/// The first bit in word 1 of the reach.
pub const REACH: u32 = 40;
/// The greatest distance of a key behind its home, in buckets.
pub const REACH_MAX: u32 = 0xff;
/// The first bit in word 1 of the number of spilled keys.
pub const SPILLED: u32 = 48;
/// A number of spilled keys that is not known any more. It stays so.
pub const STICKY: u32 = 0xff;
/// The first bit in word 1 of the filter.
pub const FILTER: u32 = 56;

/// The number of buckets that a key may lie in, its home included.
pub const WINDOW: u32 = REACH_MAX + 1;

/// The offset in a table's header of the number of homes.
pub const HOMES_AT: usize = 0;
/// The offset in a table's header of the number of buckets.
pub const TOTAL_AT: usize = 4;
/// The offset in a table's header of the shift.
pub const SHIFT_AT: usize = 8;
/// The offset in a table's header of the reference of the next table.
pub const NEXT_AT: usize = 12;
/// Bytes of a table's header: the directory follows.
pub const HEAD: usize = 16;
/// The reference of the table after the last one, which has no keys.
pub const NOTHING: u32 = u32::MAX;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The tag of a hash, from its low byte. It is not 0. The home follows from the high half.
#[inline(always)]
pub const fn tag_of(hash: u64) -> u8 {
    let low = hash as u8;
    low | (low == 0) as u8
}

/// The bit of a tag in a home's filter.
#[inline(always)]
pub const fn filter_bit(tag: u8) -> u8 {
    1 << (tag % 8)
}

/// The home of a hash: the number of its bucket. A larger hash has the same home or a later one.
#[inline(always)]
pub const fn home(hash: u64, homes: u32) -> u32 {
    (((hash >> 32) * homes as u64) >> 32) as u32
}

/// The least and the greatest hash whose home is a bucket.
pub const fn hashes(home: u32, homes: u32) -> (u64, u64) {
    let first = (home as u64) << 32;
    let (first, last) = (
        first.div_ceil(homes as u64),
        (first + (1 << 32)).div_ceil(homes as u64),
    );
    (first << 32, (last << 32).wrapping_sub(1))
}

/// The number of chunks of a table with this number of buckets.
#[inline(always)]
pub const fn chunks(total: u32, shift: u32) -> u32 {
    ((total - 1) >> shift) + 1
}

/// The number of buckets in a chunk.
pub const fn buckets_of(total: u32, shift: u32, chunk: u32) -> u32 {
    let (left, most) = (total - (chunk << shift), 1 << shift);
    if left < most { left } else { most }
}

/// Bytes of the block of a table with this number of chunks.
pub const fn head_bytes(chunks: u32) -> usize {
    (HEAD + 4 * chunks as usize + UNIT - 1) & !(UNIT - 1)
}

/// The byte offset of the chunk that a directory word names.
#[inline(always)]
pub const fn chunk_at(entry: u32) -> usize {
    (entry & !7) as usize * UNIT
}

/// The directory word of the chunk whose block is at this reference.
pub const fn entry_of(block: u32) -> u32 {
    let aligned = (block + 7) & !7;
    aligned | (aligned - block)
}

/// The reference of the block of the chunk that a directory word names, or 0 if it names none.
pub const fn block_of(entry: u32) -> u32 {
    (entry & !7).wrapping_sub(entry & 7)
}

/// The byte offset of a bucket in its chunk.
#[inline(always)]
pub const fn place_of(bucket: u32, shift: u32) -> usize {
    (bucket & ((1 << shift) - 1)) as usize * LINE
}

/// A copy of a bucket's two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Word 0: tags.
    pub low: u64,
    /// Word 1: tags and state.
    pub high: u64,
}

impl Words {
    /// The slots with this tag, as bits.
    #[inline(always)]
    pub const fn slots_with(self, tag: u8) -> u32 {
        let pattern = (tag as u64).wrapping_mul(ONES);
        zero_bytes(self.low ^ pattern) | (zero_bytes(self.high ^ pattern) & 0xf) << 8
    }

    /// The tag of a slot, or 0 if it is empty.
    #[inline(always)]
    pub const fn tag(self, slot: usize) -> u8 {
        if slot < 8 {
            (self.low >> (8 * slot)) as u8
        } else {
            (self.high >> (8 * (slot - 8))) as u8
        }
    }

    /// Changes the tag of a slot.
    #[inline(always)]
    pub const fn set_tag(&mut self, slot: usize, tag: u8) {
        let (word, at) = if slot < 8 {
            (&mut self.low, 8 * slot)
        } else {
            (&mut self.high, 8 * (slot - 8))
        };
        *word = *word & !(0xff << at) | (tag as u64) << at;
    }

    /// Whether a writer is at work.
    #[inline(always)]
    pub const fn is_locked(self) -> bool {
        self.high & LOCK != 0
    }

    /// Whether the keys of this home are in the next table.
    #[inline(always)]
    pub const fn is_moved(self) -> bool {
        self.high & MOVED != 0
    }

    /// Notes that the keys of this home are in the next table.
    #[inline(always)]
    pub const fn set_moved(&mut self) {
        self.high |= MOVED;
    }

    /// The number of keys of this home that lie in a bucket behind.
    #[inline(always)]
    pub const fn out(self) -> u32 {
        (self.high >> OUT) as u32 & OUT_MAX
    }

    /// The greatest distance of these keys, in buckets.
    #[inline(always)]
    pub const fn reach(self) -> u32 {
        (self.high >> REACH) as u32 & REACH_MAX
    }

    /// The filter: a bit for each tag of the keys that lie behind.
    #[inline(always)]
    pub const fn filter(self) -> u8 {
        (self.high >> FILTER) as u8
    }

    /// Whether a key with this tag may lie behind.
    #[inline(always)]
    pub const fn may_be_behind(self, tag: u8) -> bool {
        self.high >> (FILTER + (tag % 8) as u32) & 1 != 0
    }

    /// Whether every key of this home lies here or behind.
    #[inline(always)]
    pub const fn has_all(self) -> bool {
        self.high & (STICKY as u64) << SPILLED == 0
    }

    /// Whether a key of this home with this tag is absent, if this bucket does not have the tag.
    #[inline(always)]
    pub const fn rules_out(self, tag: u8) -> bool {
        let filter = 1 << (FILTER + (tag % 8) as u32);
        self.high & (MOVED | (STICKY as u64) << SPILLED | filter) == 0
    }

    const fn set_out(&mut self, out: u32, reach: u32, filter: u8) {
        debug_assert!(out <= OUT_MAX && reach <= REACH_MAX);
        let all = (OUT_MAX as u64) << OUT | (REACH_MAX as u64) << REACH | 0xff << FILTER;
        let both = (out as u64) << OUT | (reach as u64) << REACH;
        self.high = self.high & !all | both | (filter as u64) << FILTER;
    }

    /// Counts one key more that lies `far` buckets behind and has this tag.
    pub const fn go_out(&mut self, far: u32, tag: u8) {
        let reach = if far > self.reach() {
            far
        } else {
            self.reach()
        };
        self.set_out(self.out() + 1, reach, self.filter() | filter_bit(tag));
    }

    /// Counts one key less that lies behind.
    pub const fn come_back(&mut self) {
        match self.out() {
            0 | 1 => self.set_out(0, 0, 0),
            out => self.set_out(out - 1, self.reach(), self.filter()),
        }
    }

    /// The number of keys of this home that found no slot, or [`STICKY`].
    #[inline(always)]
    pub const fn spilled(self) -> u32 {
        (self.high >> SPILLED) as u32 & STICKY
    }

    /// Counts one key more that found no slot.
    pub const fn spill(&mut self) {
        if self.spilled() != STICKY {
            self.high += 1 << SPILLED;
        }
    }

    /// Counts one key less that found no slot.
    pub const fn unspill(&mut self) {
        let spilled = self.spilled();
        debug_assert!(spilled > 0, "a key that was never inserted is removed");
        if spilled != STICKY && spilled != 0 {
            self.high -= 1 << SPILLED;
        }
    }

    /// Notes that the number of spilled keys is not known any more.
    pub const fn stick(&mut self) {
        self.high |= (STICKY as u64) << SPILLED;
    }

    /// Whether there are no keys, no lock, and nothing counted.
    pub const fn is_empty(self) -> bool {
        self.low == 0 && self.high == 0
    }
}

/// The counts that a home must have, computed from its keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Home {
    /// The number of keys that lie behind.
    pub out: u32,
    /// The greatest distance of these keys, in buckets.
    pub reach: u32,
    /// The bits of their tags.
    pub filter: u8,
    /// The number of keys without a slot.
    pub spilled: u32,
}

impl Home {
    /// Adds a key that lies `far` buckets behind and has this tag.
    pub fn add(&mut self, far: u32, tag: u8) {
        self.out += 1;
        self.reach = self.reach.max(far);
        self.filter |= filter_bit(tag);
    }

    /// Whether a bucket has these counts.
    pub const fn fits(&self, words: Words) -> bool {
        let any = words.reach() > 0 || words.filter() != 0;
        words.out() == self.out
            && words.reach() >= self.reach
            && words.filter() & self.filter == self.filter
            && (self.out > 0 || !any)
    }
}

/// The bytes that are 0, as bits; exact for every byte.
const fn zero_bytes(x: u64) -> u32 {
    // The high bit of a byte: set where the byte is not 0. No carry leaves a byte.
    let some = ((x & LOWS) + LOWS) | x | LOWS;
    // The product gathers one bit of each byte in the top byte: the summands do not overlap.
    ((!some >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

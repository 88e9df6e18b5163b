//! The bytes of an inline cluster: up to 24 entries in the order of their keys, which it holds, and
//! the places where neighbours part. `docs/qp.md` has a drawing.
//!
//! ```text
//! 0        header, as in a cluster: base, number of entries (1..=24), FRESH, capacity
//! 4        u8 end of the heap, in units of 4 bytes
//! 5        u8 bytes of the block, in units of 8
//! 6        u8 bytes of the prefix, which all keys share
//! 7        u8 bytes of removed entries in the heap, in units of 4
//! tags     a byte for each slot: 8 bits of a hash of the key
//! places   a byte for each slot: where the entry begins, in units of 4 bytes
//! prefix   the bytes that all keys share; what is longer than 255 bytes stays in the tails
//! d, c     a byte each for each slot: the borders, as in a cluster
//! heap     from a multiple of 4 on, entries in the order of their insertion
//! values   a value for each slot, where values have one size; the block ends with them
//! ```
//!
//! An entry in the heap begins at a multiple of 4. It has the length of its tail in one byte, the
//! tail (its key without the prefix), and, where values are byte strings, the value with its
//! length, as in a leaf. A long entry is a leaf of its own: its first byte is [`OUTSIDE`], and its
//! second four bytes are the leaf's cell.
//!
//! Kindred: the leaf pages of B-trees with cut prefixes and fingerprints (Müller, Benson, Leis,
//! "B-Trees Are Back", 2025) and the embedded tries of the B²-tree (Schmeißer and others, 2021).

use crate::branch::{CELLS_AT, COUNT_AT};
use crate::cluster;

/// The offset of the tags.
pub const TAGS_AT: usize = 8;
/// The unit of places in the heap, in bytes.
pub const STEP: usize = 4;
/// The first byte of an entry that is a leaf of its own.
pub const OUTSIDE: u8 = 0x80;
/// Bytes of such an entry in the heap.
pub const OUTSIDE_BYTES: usize = 8;
/// The longest tail in a block.
pub const TAIL_MAX: usize = 127;
/// Entries with longer tails, or longer byte strings as values, are leaves of their own when they
/// are inserted.
pub const HELD_MAX: usize = 64;
/// The longest prefix.
pub const PREFIX_MAX: usize = 255;
/// The greatest end of the heap, in bytes.
pub const END_MAX: usize = 255 * STEP;
/// A block whose heap would end behind this is parted.
pub const END_FULL: usize = 756;
/// The most bytes of a block.
pub const BLOCK_MAX: usize = 255 * 8;

/// The second word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The end of the heap, in bytes.
    pub end: usize,
    /// Bytes of the block.
    pub block: usize,
    /// Bytes of the prefix.
    pub prefix: usize,
    /// Bytes of removed entries in the heap.
    pub dead: usize,
}

impl Extent {
    /// From the second word.
    #[inline(always)]
    pub const fn of(word: u32) -> Self {
        let [end, block, prefix, dead] = word.to_le_bytes();
        Extent {
            end: end as usize * STEP,
            block: block as usize * 8,
            prefix: prefix as usize,
            dead: dead as usize * STEP,
        }
    }

    /// The second word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        debug_assert!(self.end <= END_MAX && self.block <= BLOCK_MAX);
        debug_assert!(self.end % STEP == 0 && self.block % 8 == 0 && self.dead % STEP == 0);
        u32::from_le_bytes([
            (self.end / STEP) as u8,
            (self.block / 8) as u8,
            self.prefix as u8,
            (self.dead / STEP) as u8,
        ])
    }
}

/// The length of the prefix of keys that first differ at this offset.
#[inline(always)]
pub const fn prefix_for(base: usize) -> usize {
    if base < PREFIX_MAX { base } else { PREFIX_MAX }
}

/// The offset of the places.
#[inline(always)]
pub const fn places_at(capacity: usize) -> usize {
    TAGS_AT + capacity
}

/// The offset of the prefix.
#[inline(always)]
pub const fn prefix_at(capacity: usize) -> usize {
    TAGS_AT + 2 * capacity
}

/// The offset of `d`; `c` follows.
#[inline(always)]
pub const fn borders_at(capacity: usize, prefix: usize) -> usize {
    prefix_at(capacity) + prefix
}

/// The offset of the heap.
#[inline(always)]
pub const fn heap_at(capacity: usize, prefix: usize) -> usize {
    (borders_at(capacity, prefix) + 2 * capacity + STEP - 1) & !(STEP - 1)
}

/// Bytes of an entry in the heap with a tail of this length and this many bytes behind it.
#[inline(always)]
pub const fn entry(tail: usize, behind: usize) -> usize {
    (1 + tail + behind + STEP - 1) & !(STEP - 1)
}

/// Bytes of the values of this many slots, of this size each.
#[inline(always)]
pub const fn values(capacity: usize, size: usize) -> usize {
    (capacity * size + 7) & !7
}

/// Bytes of a block whose heap ends there, with that many slots for values of this size.
#[inline(always)]
pub const fn block(end: usize, capacity: usize, size: usize) -> usize {
    let bytes = ((end + 7) & !7) + values(capacity, size);
    // Searches load the tags in pieces of 16 bytes.
    if bytes < 32 { 32 } else { bytes }
}

/// Builds a header word.
#[inline]
pub const fn header(base: usize, entries: usize, capacity: usize) -> u32 {
    debug_assert!(base <= 0xffff && 1 <= entries && entries <= capacity);
    debug_assert!(capacity % 4 == 0 && capacity <= cluster::SLOTS_MAX);
    base as u32 | (entries as u32) << COUNT_AT | (capacity as u32) << CELLS_AT
}

/// Whether a block may have this header. The header is without FRESH.
#[inline]
pub const fn is_sound(h: u32) -> bool {
    let (entries, capacity) = (cluster::leaves_of(h), cluster::capacity_of(h));
    h & (1 << 31 | crate::branch::FRESH | 3 << 24) == 0
        && 1 <= entries
        && entries <= capacity
        && capacity <= cluster::SLOTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_come_back() {
        for end in [STEP, END_FULL, END_MAX] {
            for prefix in [0, 1, PREFIX_MAX] {
                let extent = Extent {
                    end,
                    block: BLOCK_MAX,
                    prefix,
                    dead: 3 * STEP,
                };
                assert_eq!(Extent::of(extent.word()), extent);
            }
        }
    }

    #[test]
    fn parts_of_a_block_do_not_overlap() {
        for capacity in (4..=cluster::SLOTS_MAX).step_by(4) {
            for prefix in [0, 3, PREFIX_MAX] {
                assert!(heap_at(capacity, prefix) >= borders_at(capacity, prefix) + 2 * capacity);
                let end = heap_at(capacity, prefix) + entry(TAIL_MAX, 66);
                for size in [0, 1, 8, 64] {
                    assert!(block(end, capacity, size) >= end + capacity * size);
                }
            }
        }
    }
}

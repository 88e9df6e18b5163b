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
//! places   a byte for each slot: where the entry begins, in steps
//! prefix   the bytes that all keys share; what is longer than 255 bytes stays in the tails
//! d, c     a byte each for each slot: the borders, as in a cluster
//! heap     from a step on, entries in the order of their insertion
//! ```
//!
//! An entry in the heap begins at a multiple of a *step*: 8 bytes where values have an alignment of
//! 8, otherwise 4. It has the value, where values have one size, then the length of its tail in one
//! byte and the tail (its key without the prefix), and, where values are byte strings, the value
//! with its length, as in a leaf. A long entry is a leaf of its own: [`OUTSIDE`] is in the place of
//! the length, and the leaf's cell in the place of the value, or behind that byte where a value has
//! less than four bytes.
//!
//! Kindred: the leaf pages of B-trees with cut prefixes and fingerprints (Müller, Benson, Leis,
//! "B-Trees Are Back", 2025) and the embedded tries of the B²-tree (Schmeißer and others, 2021).

use crate::branch::{CELLS_AT, COUNT_AT};
use crate::cluster;

/// The offset of the byte that has the length of the prefix.
pub const PREFIX_BYTES_AT: usize = 6;
/// The offset of the tags.
pub const TAGS_AT: usize = 8;
/// The unit of the heap's end and of dead bytes.
pub const UNIT: usize = 4;
/// The first byte of an entry that is a leaf of its own.
pub const OUTSIDE: u8 = 0x80;
/// The longest tail in a block.
pub const TAIL_MAX: usize = 127;
/// Entries with longer tails, or longer byte strings as values, are leaves of their own when they
/// are inserted.
pub const HELD_MAX: usize = 64;
/// Entries with longer keys are leaves of their own, so that readers have each longer key in one
/// piece.
pub const KEY_MAX: usize = 254;
/// The most slots of a block.
pub const SLOTS_MAX: usize = 24;
/// The longest prefix.
pub const PREFIX_MAX: usize = 255;
/// The greatest end of the heap, in bytes.
pub const END_MAX: usize = 255 * UNIT;
/// A block whose heap would end behind this is parted.
pub const END_FULL: usize = 756;
/// The most bytes of a block.
pub const BLOCK_MAX: usize = 1024;

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
            end: end as usize * UNIT,
            block: block as usize * 8,
            prefix: prefix as usize,
            dead: dead as usize * UNIT,
        }
    }

    /// The second word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        debug_assert!(self.end <= END_MAX && self.block <= BLOCK_MAX);
        debug_assert!(self.end % UNIT == 0 && self.block % 8 == 0 && self.dead % UNIT == 0);
        u32::from_le_bytes([
            (self.end / UNIT) as u8,
            (self.block / 8) as u8,
            self.prefix as u8,
            (self.dead / UNIT) as u8,
        ])
    }
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

/// Bytes of a block whose heap ends there.
#[inline(always)]
pub const fn block(end: usize) -> usize {
    // Searches load the tags in pieces of 16 bytes.
    if end < 32 { 32 } else { (end + 7) & !7 }
}

/// The layout of entries, which the type of the values determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Bytes of a value before the tail.
    pub head: usize,
    /// Entries begin at multiples of this.
    pub step: usize,
}

impl Entries {
    /// Of values of this many bytes and this alignment; of byte strings, 0 and 1.
    pub const fn of(head: usize, align: usize) -> Self {
        let step = if align > 4 { 8 } else { 4 };
        Entries { head, step }
    }

    const fn rounded(self, bytes: usize) -> usize {
        (bytes + self.step - 1) & !(self.step - 1)
    }

    /// The offset of the heap.
    #[inline(always)]
    pub const fn heap_at(self, capacity: usize, prefix: usize) -> usize {
        self.rounded(borders_at(capacity, prefix) + 2 * capacity)
    }

    /// Bytes of an entry with a tail of this length and this many bytes behind it.
    #[inline(always)]
    pub const fn entry(self, tail: usize, behind: usize) -> usize {
        self.rounded(self.head + 1 + tail + behind)
    }

    /// The offset of the cell in an entry that is a leaf of its own.
    #[inline(always)]
    pub const fn cell_at(self) -> usize {
        if self.head >= 4 { 0 } else { self.head + 1 }
    }

    /// Bytes of such an entry.
    #[inline(always)]
    pub const fn outside(self) -> usize {
        self.rounded(if self.head >= 4 {
            self.head + 1
        } else {
            self.head + 5
        })
    }
}

/// Builds a header word.
#[inline]
pub const fn header(base: usize, entries: usize, capacity: usize) -> u32 {
    debug_assert!(base <= 0xffff && 1 <= entries && entries <= capacity);
    debug_assert!(capacity % 4 == 0 && capacity <= SLOTS_MAX);
    base as u32 | (entries as u32) << COUNT_AT | (capacity as u32) << CELLS_AT
}

/// Whether a block may have this header. The header is without FRESH.
#[inline]
pub const fn is_sound(h: u32) -> bool {
    let (entries, capacity) = (cluster::leaves_of(h), cluster::capacity_of(h));
    h & (1 << 31 | crate::branch::FRESH | 3 << 24) == 0
        && 1 <= entries
        && entries <= capacity
        && capacity <= SLOTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_come_back() {
        for end in [UNIT, END_FULL, END_MAX] {
            for prefix in [0, 1, PREFIX_MAX] {
                let extent = Extent {
                    end,
                    block: BLOCK_MAX,
                    prefix,
                    dead: 3 * UNIT,
                };
                assert_eq!(Extent::of(extent.word()), extent);
            }
        }
    }

    #[test]
    fn parts_of_a_block_do_not_overlap() {
        for capacity in (4..=SLOTS_MAX).step_by(4) {
            for prefix in [0, 3, PREFIX_MAX] {
                for (head, align) in [(0, 1), (1, 1), (4, 4), (8, 8), (64, 8)] {
                    let entries = Entries::of(head, align);
                    let heap = entries.heap_at(capacity, prefix);
                    assert!(heap >= borders_at(capacity, prefix) + 2 * capacity);
                    assert_eq!(heap % align.max(4), 0);
                    assert!(entries.entry(TAIL_MAX, 66) >= head + 1 + TAIL_MAX + 66);
                    assert!(entries.outside() >= (entries.cell_at() + 4).max(head + 1));
                }
            }
        }
    }
}

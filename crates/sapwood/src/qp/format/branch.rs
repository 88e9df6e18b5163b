//! The bytes of a branch: header, labels, cells. Drawn in `docs/qp.md`.
//!
//! Every branch starts with one header word:
//!
//! ```text
//! bit 0..16   offset: the index of the key byte at which the children differ
//! bit 16..24  number of labels - 1 (1..=256 labels)
//! bit 24      END: the first cell is the child whose key ends at the offset
//! bit 25      BIG: bitmap layout (more than 32 labels)
//! bit 26      FRESH: made by the open transaction, not yet published, may be changed in place
//! bit 27..31  where the cell of the first label is, in units of 4 bytes
//! bit 31      MARK: with FRESH, a lock of the map that many threads write
//! ```
//!
//! Bits 27 to 30 follow from the others; they are there because a descent needs them at every
//! level.
//!
//! A small branch has its labels from byte 4 on, in ascending order, padded with the last one to a
//! multiple of four. A big branch has four rank bytes there (how many labels come before each word
//! of the bitmap), and from byte 8 on a bitmap of four words. Cells follow, END's first.

/// Header bit: the first cell belongs to the key that ends at the branch's offset.
pub const END: u32 = 1 << 24;
/// Header bit: bitmap layout.
pub const BIG: u32 = 1 << 25;
/// Header bit: unpublished, owned by the open transaction. In a map that many threads write:
/// locked.
pub const FRESH: u32 = 1 << 26;
/// Header bit: how writers of a shared map wait for the lock.
pub const MARK: u32 = 1 << 31;
/// Header bits that readers ignore.
pub const LOCKS: u32 = FRESH | MARK;

/// The most labels in the small layout.
pub const SMALL_MAX: usize = 32;
/// Where the labels of a small branch start.
pub const LABELS_AT: usize = 4;
/// Where the rank bytes of a big branch start.
pub const RANKS_AT: usize = 4;
/// Where the bitmap of a big branch starts.
pub const BIG_MAP: usize = 8;
/// Where the cells of a big branch start.
pub const BIG_CELLS: usize = 40;
/// Bytes of the largest branch: a bitmap and 257 cells.
pub const LARGEST: usize = BIG_CELLS + 257 * 4 + 4;

/// The key byte index at which the children differ.
#[inline(always)]
pub const fn offset_of(header: u32) -> usize {
    (header & 0xffff) as usize
}

/// The number of labels, without the END child.
#[inline(always)]
pub const fn labels_of(header: u32) -> usize {
    ((header >> 16) & 0xff) as usize + 1
}

/// 1 when the branch has an END child.
#[inline(always)]
pub const fn end_of(header: u32) -> usize {
    ((header >> 24) & 1) as usize
}

/// The number of children, END included.
#[inline(always)]
pub const fn children_of(header: u32) -> usize {
    labels_of(header) + end_of(header)
}

/// Whether there are up to eight labels.
#[inline(always)]
pub const fn is_up_to_8(header: u32) -> bool {
    header & 0x00f8_0000 == 0
}

/// Whether there are up to 32 labels.
#[inline(always)]
pub const fn is_up_to_32(header: u32) -> bool {
    header & 0x00e0_0000 == 0
}

/// Where the cell of the first label is.
#[inline(always)]
pub const fn first_at(header: u32) -> usize {
    (header >> 25) as usize & 0x3c
}

/// Where the cells start: END's first.
#[inline(always)]
pub const fn cells_at(header: u32) -> usize {
    first_at(header) - 4 * end_of(header)
}

/// Bytes of the branch, before rounding to units: where the cells end.
#[inline(always)]
pub const fn size_of(header: u32) -> usize {
    first_at(header) + 4 * labels_of(header)
}

/// Bytes of the branch's block.
#[inline(always)]
pub const fn block_of(header: u32) -> usize {
    (size_of(header) + 7) & !7
}

/// The number of label bytes in a small branch, padding included.
#[inline(always)]
pub const fn padded(labels: usize) -> usize {
    (labels + 3) & !3
}

/// Builds a header word; the layout follows from the number of labels.
#[inline]
pub const fn header(offset: usize, labels: usize, end: bool) -> u32 {
    debug_assert!(offset <= 0xffff && 1 <= labels && labels <= 256);
    let (big, cells) = if labels > SMALL_MAX {
        (BIG, BIG_CELLS)
    } else {
        (0, LABELS_AT + padded(labels))
    };
    let first = cells as u32 / 4 + end as u32;
    offset as u32 | (labels as u32 - 1) << 16 | (end as u32) << 24 | big | first << 27
}

/// Whether a branch can have this header, without the bits that readers ignore, below one whose
/// offset is `min - 1`.
#[inline]
pub const fn is_sound(h: u32, min: usize) -> bool {
    h == header(offset_of(h), labels_of(h), h & END != 0)
        && children_of(h) >= 2
        && offset_of(h) >= min
}

/// The word of a bitmap that has a label's bit.
#[inline(always)]
pub const fn word_of(label: u8) -> usize {
    (label >> 6) as usize
}

/// The bit of a label in its word of a bitmap.
#[inline(always)]
pub const fn bit_of(label: u8) -> u64 {
    1 << (label & 63)
}

/// The label whose bit is the `nth` of this word of a bitmap, which has more bits than that.
#[inline(always)]
pub const fn label_of(word_index: usize, mut word: u64, nth: u32) -> u8 {
    let mut i = 0;
    while i < nth {
        word &= word - 1;
        i += 1;
    }
    (word_index as u32 * 64 + word.trailing_zeros()) as u8
}

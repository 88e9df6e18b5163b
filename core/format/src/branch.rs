//! The bytes of a branch: header, labels, cells. `docs/qp.md` has a drawing.
//!
//! Every branch starts with one header word:
//!
//! ```text
//! bit 0..16   offset: the index of the key byte by which the children are chosen
//! bit 16..24  number of labels - 1 (1..=256 labels)
//! bit 24      BIG: a map of bytes instead of labels (more than 32 labels)
//! bit 26      FRESH: made by the open transaction, not yet published, may be changed in place
//! bit 27..31  where the cells begin, in units of 4 bytes; 0 in a big branch
//! bit 31      MARK: with FRESH, a lock of the map that many threads write
//! ```
//!
//! A branch has one child more than labels. Child `i` has the keys whose byte at the offset is at
//! least label `i - 1` and less than label `i`: a *run* of bytes. Child 0 also has the key that
//! ends at the offset. So the number of a key's child is the number of labels that are not greater
//! than its byte, and 0 for a key that ends.
//!
//! All keys below a branch agree in the bytes before its offset. A child that is a branch has a
//! greater offset, so all keys below the child have the same byte at the parent's offset.
//!
//! A small branch has its labels from byte 4 on, in ascending order, padded with the last one to a
//! multiple of four. A big branch has a map there with a byte for each value of the key's byte: the
//! number of its child, or that number less one when there are 256 labels. Cells follow.

/// Header bit: a map of bytes instead of labels.
pub const BIG: u32 = 1 << 24;
/// Header bit: the branch is not published, and belongs to the open transaction. In a map that many
/// threads write: it is locked. Clusters have the bit, too.
pub const FRESH: u32 = 1 << 26;
/// Header bit: how writers of a shared map wait for the lock.
pub const MARK: u32 = 1 << 31;
/// Header bits that readers ignore.
pub const LOCKS: u32 = FRESH | MARK;

/// Header bits: the offset; in a cluster, its base.
pub const OFFSET: u32 = 0xffff;
/// The place of the count in a header: labels less one, in a cluster leaves.
pub const COUNT_AT: u32 = 16;
/// The bits of the count, at its place.
pub const COUNT: u32 = 0xff;
/// The bits of the count that a branch with more than eight labels has.
pub const OVER_8: u32 = (COUNT & !7) << COUNT_AT;
/// The place from which a header has the bytes before the cells of a small branch, which are a
/// multiple of 4; in a cluster, the number of slots.
pub const CELLS_AT: u32 = 25;
/// The bits of those bytes, at their place.
pub const CELLS: u32 = 0x3c;

/// The most labels in the small layout.
pub const SMALL_MAX: usize = 32;
/// The most labels.
pub const LABELS_MAX: usize = 256;
/// The offset of the labels of a small branch.
pub const LABELS_AT: usize = 4;
/// The offset of the map of a big branch.
pub const MAP_AT: usize = 4;
/// The offset of the cells of a big branch.
pub const BIG_CELLS: usize = MAP_AT + 256;
/// Bytes of the largest branch: a map and 257 cells.
pub const LARGEST: usize = BIG_CELLS + 257 * 4;

/// The offset in the key of the byte that selects the child.
#[inline(always)]
pub const fn offset_of(header: u32) -> usize {
    (header & OFFSET) as usize
}

/// The number of labels.
#[inline(always)]
pub const fn labels_of(header: u32) -> usize {
    ((header >> COUNT_AT) & COUNT) as usize + 1
}

/// The number of children: one more than labels.
#[inline(always)]
pub const fn children_of(header: u32) -> usize {
    labels_of(header) + 1
}

/// Whether there are up to eight labels.
#[inline(always)]
pub const fn is_up_to_8(header: u32) -> bool {
    header & OVER_8 == 0
}

/// The offset of the cells.
#[inline(always)]
pub const fn cells_at(header: u32) -> usize {
    if header & BIG == 0 {
        small_cells_at(header)
    } else {
        BIG_CELLS
    }
}

/// The offset of the cells of a small branch.
#[inline(always)]
pub const fn small_cells_at(header: u32) -> usize {
    ((header >> CELLS_AT) & CELLS) as usize
}

/// Bytes of the branch, before rounding to units.
#[inline(always)]
pub const fn size_of(header: u32) -> usize {
    cells_at(header) + 4 * children_of(header)
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
pub const fn header(offset: usize, labels: usize) -> u32 {
    debug_assert!(offset <= 0xffff && 1 <= labels && labels <= LABELS_MAX);
    let layout = if labels > SMALL_MAX {
        BIG
    } else {
        ((LABELS_AT + padded(labels)) as u32) << CELLS_AT
    };
    offset as u32 | (labels as u32 - 1) << COUNT_AT | layout
}

/// Whether a branch can have this header below a branch whose offset is `min - 1`. The header is
/// without the bits that readers ignore.
#[inline]
pub const fn is_sound(h: u32, min: usize) -> bool {
    h == header(offset_of(h), labels_of(h)) && offset_of(h) >= min
}

/// The child of a byte in a big branch, from the byte's entry in the map.
#[inline(always)]
pub const fn child_of_map(header: u32, mapped: u8) -> usize {
    mapped as usize + (labels_of(header) >> 8)
}

/// The entry in the map of a big branch for a byte whose child has this number.
#[inline(always)]
pub const fn mapped(labels: usize, child: usize) -> u8 {
    (child - (labels >> 8)) as u8
}

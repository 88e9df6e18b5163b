//! The published byte format: the bits of cells, branches, leaves, index buckets and the hash.
//!
//! Other implementations are written from this module, from `docs/qp.md` and from `docs/shared.md`:
//! programs in C (by the numbers of [`LAYOUT`]), and readers that check what they read. The maps of
//! this crate use the same functions. All of them compute on words that were read already; none
//! reads memory.
//!
//! Words have the byte order of the machine. The published format is that of little-endian
//! machines.
//!
//! A *reference* is a place in the arena, in units of 8 bytes. A *cell* is a `u32` that refers to a
//! node: bit 0 says that the node is a leaf, the other 31 bits are the reference. So the byte
//! offset of a node is `cell * 4` without bit 0, and the empty cell is 0.
//!
//! ```
//! use sapwood::qp::format::{self, branch};
//! // A branch with three labels that differ at byte 7 of the keys.
//! let header = branch::header(7, 3, false);
//! assert_eq!((branch::offset_of(header), branch::children_of(header)), (7, 3));
//! assert_eq!((branch::cells_at(header), branch::block_of(header)), (8, 24));
//! assert_eq!(format::byte_of(0x41), 0x100);
//! ```

pub mod branch;
pub mod bucket;
pub mod hash;
pub mod leaf;

/// Bytes of a unit, which references count in.
pub const UNIT: usize = 8;
/// The bit of a cell that says that its node is a leaf.
pub const LEAF: u32 = 1;

/// The byte offset of a cell's node.
#[inline(always)]
pub const fn byte_of(cell: u32) -> usize {
    (cell & !LEAF) as usize * 4
}

/// The reference of a cell's node.
#[inline(always)]
pub const fn reference_of(cell: u32) -> u32 {
    cell >> 1
}

/// The cell of the branch at a reference.
#[inline(always)]
pub const fn branch_cell(reference: u32) -> u32 {
    reference << 1
}

/// The cell of the leaf at a reference.
#[inline(always)]
pub const fn leaf_cell(reference: u32) -> u32 {
    reference << 1 | LEAF
}

/// The numbers that programs in other languages are compiled with: names as in `docs/qp.md` and
/// `docs/shared.md`.
pub const LAYOUT: [(&str, u64); 20] = [
    ("END", branch::END as u64),
    ("BIG", branch::BIG as u64),
    ("LEAF", LEAF as u64),
    ("SMALL_MAX", branch::SMALL_MAX as u64),
    // A branch for each byte of the longest key, one for its end, and the leaf.
    ("DEPTH_MAX", leaf::MAX_KEY as u64 + 2),
    ("TABLE_HOMES", bucket::HOMES_AT as u64),
    ("TABLE_TOTAL", bucket::TOTAL_AT as u64),
    ("TABLE_SHIFT", bucket::SHIFT_AT as u64),
    ("TABLE_NEXT", bucket::NEXT_AT as u64),
    ("TABLE_DIRECTORY", bucket::HEAD as u64),
    ("TABLE_NOTHING", bucket::NOTHING as u64),
    ("BUCKET_BYTES", bucket::LINE as u64),
    ("BUCKET_SLOTS", bucket::SLOTS as u64),
    ("BUCKET_LEAVES", bucket::CELLS_AT as u64),
    ("BUCKET_LOCK", bucket::LOCK),
    ("BUCKET_MOVED", bucket::MOVED),
    ("BUCKET_OUT", bucket::OUT as u64),
    ("BUCKET_REACH", bucket::REACH as u64),
    ("BUCKET_SPILLED", bucket::SPILLED as u64),
    ("BUCKET_FILTER", bucket::FILTER as u64),
];

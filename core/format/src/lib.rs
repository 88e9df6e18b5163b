//! The published byte format: the bits of cells, branches, clusters, leaves, index buckets and the
//! hash; the words of tables ([`lpm`]) and of range maps ([`maple`]).
//!
//! This module, `docs/qp.md` and `docs/shared.md` suffice to write another implementation: programs
//! in C use the numbers of [`LAYOUT`], checked readers these functions. The maps of the crate
//! `sapwood` use the same functions. All of them compute on words that were read already; none
//! reads memory. [`Window`] is the memory from which a checked reader reads the words.
//!
//! Words have the byte order of the machine. The published format is that of little-endian
//! machines.
//!
//! A *reference* is an offset in the arena, in units of 8 bytes. A *cell* is a `u32` that refers to
//! a node: bit 0 says that the node is a leaf, bit 1 that it is a cluster, both that it is a
//! cluster that holds its entries ([`inline`]), neither that it is a branch; the other 30 bits are
//! the reference. So the byte offset of a node is twice its cell without these bits, and the empty
//! cell is 0.
//!
//! ```
//! use sapwood_format::{self as format, branch};
//! // A branch with two labels, for byte 7 of the keys.
//! let header = branch::header(7, 2);
//! assert_eq!((branch::offset_of(header), branch::children_of(header)), (7, 3));
//! assert_eq!((branch::cells_at(header), branch::block_of(header)), (8, 24));
//! assert_eq!(format::byte_of(0x41), 0x80);
//! ```

#![no_std]
#![forbid(unsafe_code)]

pub mod branch;
pub mod bucket;
pub mod cluster;
pub mod hash;
pub mod header;
pub mod inline;
pub mod leaf;
pub mod lpm;
pub mod maple;
mod window;

pub use window::Window;

/// Bytes of a unit, in which references count.
pub const UNIT: usize = 8;
/// The bit of a cell that says that its node is a leaf.
pub const LEAF: u32 = 1;
/// The bit of a cell that says that its node is a cluster.
pub const CLUSTER: u32 = 2;
/// The bits of a cell that says that its node is an inline cluster.
pub const INLINE: u32 = LEAF | CLUSTER;
/// The bits of a cell that say what its node is; a branch has none.
pub const KIND: u32 = LEAF | CLUSTER;

/// The byte offset of a cell's node.
#[inline(always)]
pub const fn byte_of(cell: u32) -> usize {
    (cell & !KIND) as usize * 2
}

/// The reference of a cell's node.
#[inline(always)]
pub const fn reference_of(cell: u32) -> u32 {
    cell >> 2
}

/// The cell of the branch at a reference.
#[inline(always)]
pub const fn branch_cell(reference: u32) -> u32 {
    reference << 2
}

/// The cell of the cluster at a reference.
#[inline(always)]
pub const fn cluster_cell(reference: u32) -> u32 {
    reference << 2 | CLUSTER
}

/// The cell of the leaf at a reference.
#[inline(always)]
pub const fn leaf_cell(reference: u32) -> u32 {
    reference << 2 | LEAF
}

/// Whether a cell's node is a branch (or the cell is empty).
#[inline(always)]
pub const fn is_branch(cell: u32) -> bool {
    cell & KIND == 0
}

/// The numbers that programs in other languages are compiled with, with their names in `docs/qp.md`
/// and `docs/shared.md`.
pub const LAYOUT: [(&str, u64); 34] = [
    ("BIG", branch::BIG as u64),
    ("HEAD_OFFSET", branch::OFFSET as u64),
    ("HEAD_COUNT_AT", branch::COUNT_AT as u64),
    ("HEAD_COUNT", branch::COUNT as u64),
    ("HEAD_OVER_8", branch::OVER_8 as u64),
    ("HEAD_CELLS_AT", branch::CELLS_AT as u64),
    ("HEAD_CELLS", branch::CELLS as u64),
    ("LEAF", LEAF as u64),
    ("CLUSTER", CLUSTER as u64),
    ("INLINE", INLINE as u64),
    ("INLINE_TAGS", inline::TAGS_AT as u64),
    ("INLINE_PREFIX_BYTES", inline::PREFIX_BYTES_AT as u64),
    ("INLINE_UNIT", inline::UNIT as u64),
    ("INLINE_OUTSIDE", inline::OUTSIDE as u64),
    ("BIG_CELLS", branch::BIG_CELLS as u64),
    ("SLOTS_MAX", cluster::SLOTS_MAX as u64),
    ("FILL_MAX", cluster::FILL_MAX as u64),
    ("SMALL_MAX", branch::SMALL_MAX as u64),
    // A branch for each byte of the longest key, one for the key's end, and the cluster or leaf.
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

/// What FNV-1a begins with, by which layout hashes are made of bytes and words.
pub const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// The factor of FNV-1a.
pub const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of bytes and words, for layout hashes.
const fn fnv(name: &[u8], words: &[u64]) -> u64 {
    let mut hash = FNV_BASIS;
    let mut i = 0;
    while i < name.len() + words.len() {
        let word = match i < name.len() {
            true => name[i] as u64,
            false => words[i - name.len()],
        };
        hash = (hash ^ word).wrapping_mul(FNV_PRIME);
        i += 1;
    }
    hash
}

/// The example of the crate's README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! The bytes of a cluster: up to 32 leaves in the order of their keys, and the places where
//! neighbours part. `docs/qp.md` has a drawing.
//!
//! ```text
//! header   bit 0..16   base: an offset that no two neighbours part before
//!          bit 16..24  number of leaves (2..=32)
//!          bit 26      FRESH: as in a branch
//!          bit 27..31  capacity, in units of 4 slots (1..=8)
//! tags     a byte for each slot: 8 bits of a hash of the key
//! cells    a u32 for each slot: leaves in ascending order of keys; 0 in a dead slot, see below
//! d        a byte for each slot: leaves i - 1 and i part at offset base + d[i]
//! c        a byte for each slot: there, leaf i - 1 ends or has a byte less than c[i], and leaf i has a
//!          byte of c[i] or more; 0 when leaf i - 1 ends there, and only then
//! ```
//!
//! Slots behind the last leaf, `d[0]` and `c[0]` are zeros.
//!
//! A slot is dead when the leaf was removed by a store of 0, as maps do that many writers change.
//! Its tag and borders are those of the leaf. The last slot is never dead.
//!
//! `d` and `c` are a binary Patricia trie laid flat: an ordered search reads only them, and then
//! one leaf. They are the node of the String B-tree (Ferragina, Grossi, "The String B-tree", 1999).

use crate::branch::{CELLS, CELLS_AT, COUNT, COUNT_AT, FRESH, OFFSET};

/// The most slots of a cluster.
pub const SLOTS_MAX: usize = 32;
/// The most leaves in clusters that the maps of the crate `sapwood` make. There are few under a
/// scheduler, so that clusters split and join in short runs.
pub const FILL_MAX: usize = if cfg!(shuttle) { 4 } else { 24 };
/// The greatest distance from the base at which neighbours may part.
pub const REACH: usize = 255;
/// The offset of the tags.
pub const TAGS_AT: usize = 4;

/// The offset in the key from which `d` counts.
#[inline(always)]
pub const fn base_of(header: u32) -> usize {
    (header & OFFSET) as usize
}

/// The number of leaves.
#[inline(always)]
pub const fn leaves_of(header: u32) -> usize {
    ((header >> COUNT_AT) & COUNT) as usize
}

/// The number of slots.
#[inline(always)]
pub const fn capacity_of(header: u32) -> usize {
    ((header >> CELLS_AT) & CELLS) as usize
}

/// The offset of the cells.
#[inline(always)]
pub const fn cells_at(header: u32) -> usize {
    TAGS_AT + capacity_of(header)
}

/// The offset of `d`.
#[inline(always)]
pub const fn borders_at(header: u32) -> usize {
    TAGS_AT + 5 * capacity_of(header)
}

/// The offset of `c`.
#[inline(always)]
pub const fn bytes_at(header: u32) -> usize {
    TAGS_AT + 6 * capacity_of(header)
}

/// Bytes of a cluster with `capacity` slots, before rounding to units.
#[inline(always)]
pub const fn size(capacity: usize) -> usize {
    TAGS_AT + 7 * capacity
}

/// Bytes of the block of a cluster with `capacity` slots.
#[inline(always)]
pub const fn block(capacity: usize) -> usize {
    (size(capacity) + 7) & !7
}

/// Bytes of the cluster's block.
#[inline(always)]
pub const fn block_of(header: u32) -> usize {
    block(capacity_of(header))
}

/// The least capacity for this number of leaves.
#[inline(always)]
pub const fn capacity_for(leaves: usize) -> usize {
    (leaves + 3) & !3
}

/// Builds a header word.
#[inline]
pub const fn header(base: usize, leaves: usize, capacity: usize) -> u32 {
    debug_assert!(base <= 0xffff && 2 <= leaves && leaves <= capacity);
    debug_assert!(capacity % 4 == 0 && capacity <= SLOTS_MAX);
    base as u32 | (leaves as u32) << COUNT_AT | (capacity as u32) << CELLS_AT
}

/// Whether a cluster can have this header. The header is without FRESH.
#[inline]
pub const fn is_sound(h: u32) -> bool {
    let (leaves, capacity) = (leaves_of(h), capacity_of(h));
    h & (1 << 31 | FRESH | 3 << 24) == 0
        && 2 <= leaves
        && leaves <= capacity
        && capacity <= SLOTS_MAX
}

/// The four words of a key of 8 to 32 bytes that the tag is made of. Depending on the length they
/// overlap, so that no branch depends on it. `None` for a shorter key.
#[inline(always)]
fn words(key: &[u8]) -> Option<[u64; 4]> {
    // The words end or begin where slices do whose lengths the compiler knows to be 8 or more. So
    // it leaves no checks.
    let half = key.len().min(16);
    let words = [
        key.first_chunk()?,
        key[..half].last_chunk()?,
        key[key.len() - half..].first_chunk()?,
        key.last_chunk()?,
    ];
    Some(words.map(|word| u64::from_le_bytes(*word)))
}

/// The factors of a tag's words, and that of its mixing: odd constants, from xxHash and SplitMix.
pub const FACTORS: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x9e37_79b9_7f4a_7c15,
];

/// The tag of a key: the upper 8 bits of a hash.
///
/// Four words are multiplied with constants and added; the sum is mixed. In a key of 8 to 32 bytes
/// these are the words at the offsets 0, min(8, n - 8), max(16, n) - 16 and n - 8. A shorter key is
/// the first word, and the others are 0. A longer key is hashed in pieces of 32 bytes, of which the
/// last piece is the last 32 bytes; the sum is mixed between the pieces.
///
/// The tag has no secret, so an attacker can choose keys that all have the same tag. A lookup then
/// compares up to 32 leaves.
///
/// ```
/// use sapwood_format::cluster::tag;
/// assert_ne!(tag(b"larch"), tag(b"Larch"));
/// ```
#[inline(always)]
pub fn tag(key: &[u8]) -> u8 {
    match words(key) {
        Some(words) if key.len() <= 32 => tag_of(added(key.len() as u64, words)),
        _ => tag_of_other(key),
    }
}

/// The tag of a key of fewer than 8 or more than 32 bytes.
#[inline(never)]
fn tag_of_other(key: &[u8]) -> u8 {
    let n = key.len();
    let mut sum = n as u64;
    let mut rest = key;
    while rest.len() > 32 {
        let (piece, behind) = rest.split_at(32);
        sum = mixed(added(sum, words(piece).unwrap_or_default()));
        rest = behind;
    }
    let last = match n.checked_sub(32) {
        Some(at) => words(&key[at..]).unwrap_or_default(),
        None => {
            let mut first = [0; 8];
            first[..n].copy_from_slice(key);
            [u64::from_le_bytes(first), 0, 0, 0]
        }
    };
    tag_of(added(sum, last))
}

#[inline(always)]
fn tag_of(sum: u64) -> u8 {
    (mixed(sum) >> 56) as u8
}

#[inline(always)]
fn added(sum: u64, words: [u64; 4]) -> u64 {
    let mut sum = sum;
    for (word, factor) in words.into_iter().zip(FACTORS) {
        sum = sum.wrapping_add(word.wrapping_mul(factor));
    }
    sum
}

#[inline(always)]
fn mixed(sum: u64) -> u64 {
    (sum ^ sum >> 32).wrapping_mul(FACTORS[4])
}

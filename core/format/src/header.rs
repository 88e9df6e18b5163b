//! The root words of the arena's header page, by which other programs find a published map.
//!
//! The secrets of the index's hash, [`SECRETS`](crate::hash::SECRETS) words, lie from [`EXTRA_AT`]
//! on.

/// Bytes of the header page. Nodes lie behind it.
pub const PAGE: usize = 4096;
/// The offset of the layout hash.
pub const LAYOUT_AT: usize = 16;
/// The offset of the root words.
pub const ROOTS_AT: usize = 48;
/// The offset of a structure's own words: the secrets of the index's hash.
pub const EXTRA_AT: usize = 1024;

/// The offset of a root word.
pub const fn root_at(index: usize) -> usize {
    ROOTS_AT + 8 * index
}

/// Bytes of a value, a multiple of 8, or [`BYTE_STRINGS`]. A leaf is a value, a length, and a key.
pub const VALUE_BYTES: usize = 0;
/// The value of [`VALUE_BYTES`] that says that values are byte strings, which lie behind the key
/// ([`leaf`](crate::leaf)). In [`layout_hash`] they have this size and the alignment 8, which no
/// type has together.
pub const BYTE_STRINGS: u64 = 1;
/// The parts of the map: 0, only the trie; 1, an index beside it; [`ONLY_INDEX`], no trie.
pub const HAS_INDEX: usize = 1;
/// The value of [`HAS_INDEX`] that says that there is no trie.
pub const ONLY_INDEX: u64 = 2;
/// The root cell, in the lower half of the word. It is 0 while the map is empty, and when there is
/// no trie. Of a store, the upper half has the number of entries; of other maps it is 0.
pub const ROOT: usize = 2;
/// The reference of the index's table where lookups begin. With 0, lookups ask the trie, or, when
/// there is none, the map is empty.
pub const TABLE: usize = 3;
/// The unit of the places of entries in inline clusters
/// ([`inline::Entries`](crate::inline::Entries) has it as `step`), which readers that do not know
/// the type of the values need.
pub const STEP: usize = 4;

/// The number of the format of branches, clusters and leaves.
pub const FORMAT: u64 = 2;
/// The number of the format that has inline clusters, too ([`inline`](crate::inline)): that of
/// saved maps and tables, and of published stores.
pub const INLINE_FORMAT: u64 = 3;
/// The number of the format that has no inline clusters, but dead slots
/// ([`cluster`](crate::cluster)): that of published shared maps.
pub const SHARED_FORMAT: u64 = 4;

/// The number of the format of saved tables of routes. Those of format 1 have no inline clusters.
pub const ROUTES_FORMAT: u64 = 2;

/// The layout hash in the header page of saved ranges, whose format is 1 and whose values have this
/// size and this alignment.
pub const fn ranges_hash(size: usize, align: usize) -> u64 {
    crate::fnv(b"sapwood ranges", &[size as u64, align as u64, 1])
}

/// The layout hash in the header page of a saved table of bit strings, whose values have this size
/// and this alignment. The hash of such a table without inline clusters is that of a map.
pub const fn bits_hash(size: usize, align: usize) -> u64 {
    crate::fnv(b"sapwood bits", &[size as u64, align as u64, INLINE_FORMAT])
}

/// The layout hash in the header page of a saved table of routes of this format, up to
/// [`ROUTES_FORMAT`].
pub const fn routes_hash(format: u64) -> u64 {
    crate::fnv(b"sapwood routes", &[format])
}

/// The layout hash in the header page of a map of this format, whose values have this size and this
/// alignment. A reader must compare it.
pub const fn layout_hash(size: usize, align: usize, format: u64) -> u64 {
    crate::fnv(b"sapwood qp", &[size as u64, align as u64, format])
}

/// The alignment and the format that a layout hash says: one of these alignments, and [`FORMAT`],
/// [`INLINE_FORMAT`] or [`SHARED_FORMAT`]. `None` when it says another type or another format.
pub fn layout_of(size: usize, aligns: &[usize], hash: u64) -> Option<(usize, u64)> {
    let formats = [INLINE_FORMAT, SHARED_FORMAT, FORMAT].into_iter();
    let mut layouts = formats.flat_map(|format| aligns.iter().map(move |align| (*align, format)));
    layouts.find(|(align, format)| layout_hash(size, *align, *format) == hash)
}

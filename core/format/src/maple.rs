//! The words of a range map: its root word, and the heads of leaves and inner nodes.
//! `docs/maple.md` has a drawing.
//!
//! A reference counts units of 8 bytes. Nodes take whole lines of 64 bytes.

pub mod gap;
pub mod word;

/// Bytes of a line. A node's head counts its lines.
pub const LINE: usize = 64;
/// The most levels of inner nodes.
pub const LEVELS: usize = 20;
/// Bytes of a leaf before its ends, where indices have 64 bits.
pub const LEAF_HEAD: usize = leaf_head(8);
/// Bytes of an inner node before its pivots.
pub const INNER_HEAD: usize = 8;

/// The root words of the arena's header page, by which other processes find a published map.
///
/// The words that changes store lie in different cache lines: readers load only `ROOT`, and most
/// changes store only `LEN`.
pub mod header {
    /// Bytes of a value.
    pub const VALUE_BYTES: usize = 0;
    /// The number of entries. A change stores it after it is visible.
    pub const LEN: usize = 1;
    /// The root word.
    pub const ROOT: usize = 2;
    /// Bytes of a slot.
    pub const SLOT: usize = 3;
    /// What slots hold: 0, values; 1, references of their blocks.
    pub const APART: usize = 4;

    /// The number of the format.
    const FORMAT: u64 = 1;

    /// The layout hash in the header page of a map whose values have this size and this alignment.
    /// A reader must compare it.
    pub const fn layout_hash(size: usize, align: usize) -> u64 {
        crate::fnv(b"sapwood maple", &[size as u64, align as u64, FORMAT])
    }
}

/// The word of a tree: the reference of its root, and its number of levels of inner nodes. It is 0
/// while the map is empty.
#[inline(always)]
pub const fn root_word(node: u32, height: usize) -> u64 {
    node as u64 | (height as u64) << 32
}

/// The reference in a root word, and the number of levels of inner nodes.
#[inline(always)]
pub const fn root_of(word: u64) -> (u32, usize) {
    (word as u32, (word >> 32) as usize)
}

/// The first word of a leaf, in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafHead {
    /// Number of entries, at least 1.
    pub n: usize,
    /// The width of borders: 1, 2, 3 or 4 for 2, 4, 8 or 16 bytes.
    pub width: u32,
    /// Borders are in units of `1 << shift` indices.
    pub shift: u32,
    /// Lines of the leaf.
    pub lines: usize,
    /// The offset of the starts.
    pub starts: usize,
    /// The offset of the slots.
    pub values: usize,
}

impl LeafHead {
    /// The parts of a word.
    #[inline(always)]
    pub const fn from_word(word: u64) -> LeafHead {
        LeafHead {
            n: word as usize & 0xFF,
            width: (word >> 8) as u32 & 0xFF,
            shift: (word >> 16) as u32 & 0xFF,
            lines: (word >> 24) as usize & 0xFF,
            starts: (word >> 32) as usize & 0xFFFF,
            values: (word >> 48) as usize,
        }
    }

    /// The word.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.n as u64
            | (self.width as u64) << 8
            | (self.shift as u64) << 16
            | (self.lines as u64) << 24
            | (self.starts as u64) << 32
            | (self.values as u64) << 48
    }
}

/// Bytes of a leaf before its ends, where indices have `word` bytes.
#[inline(always)]
pub const fn leaf_head(word: usize) -> usize {
    8 + word
}

/// The offsets of starts and of slots in a leaf of `n` entries with borders of this width and slots
/// of `slot` bytes, and the leaf's end. Before its ends, it has `head` bytes.
#[inline(always)]
pub const fn leaf_places(head: usize, n: usize, width: u32, slot: usize) -> (usize, usize, usize) {
    let bytes = n << width;
    let starts = head + bytes;
    let values = (starts + bytes).next_multiple_of(8);
    (starts, values, values + n * slot)
}

/// Bytes behind a leaf's head that a reader may load however few entries there are, by width.
pub const LEAF_READ: [usize; 5] = [0, 96, 128, 160, 0];

/// Bytes of a leaf.
#[inline(always)]
pub const fn leaf_bytes(head: usize, n: usize, width: u32, slot: usize) -> usize {
    let end = leaf_places(head, n, width, slot).2;
    let least = head + LEAF_READ[width as usize];
    (if end > least { end } else { least }).next_multiple_of(LINE)
}

/// The first word of an inner node, in parts. The byte that says that the node was replaced is not
/// among them, as it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerHead {
    /// Number of children, at least 2.
    pub n: usize,
    /// Number of pivots, with those that fill up vectors: a multiple of 4, at least `n - 1`.
    pub filled: usize,
    /// Lines of the node.
    pub lines: usize,
}

impl InnerHead {
    /// The parts of a word.
    #[inline(always)]
    pub const fn from_word(word: u64) -> InnerHead {
        InnerHead {
            n: word as usize & 0xFF,
            filled: (word >> 8) as usize & 0xFF,
            lines: (word >> 24) as usize & 0xFF,
        }
    }

    /// The word of a node that is part of the map.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.n as u64 | (self.filled as u64) << 8 | (self.lines as u64) << 24
    }

    /// The offset of the children, 32 bits each, where indices have 64 bits.
    #[inline(always)]
    pub const fn cells_at(self) -> usize {
        INNER_HEAD + self.filled * 8
    }

    /// The offset of the gap words, 16 bits each.
    #[inline(always)]
    pub const fn gaps_at(self) -> usize {
        self.cells_at() + self.n * 4
    }
}

/// Bytes of an inner node with `n` children and `filled` pivots of `word` bytes.
#[inline(always)]
pub const fn inner_bytes(word: usize, n: usize, filled: usize) -> usize {
    (INNER_HEAD + filled * word + n * 6).next_multiple_of(LINE)
}

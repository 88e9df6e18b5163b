//! The layout of a range map's window, for C: the root words, the heads of leaves and of inner
//! nodes. `docs/maple.md` has a drawing.

use sapwood_format::maple::{self, InnerHead, LeafHead};

use super::root;

numbers! { CONSTANTS:
    /// Where the bytes of a value are.
    VALUE_BYTES: usize = root(maple::header::VALUE_BYTES) as usize;
    /// Where the number of entries is.
    LEN: usize = root(maple::header::LEN) as usize;
    /// Where the root word is.
    ROOT: usize = root(maple::header::ROOT) as usize;
    /// Where the bytes of a slot are.
    SLOT: usize = root(maple::header::SLOT) as usize;
    /// Where the word is that says what slots hold: 0, values; 1, references of their blocks.
    APART: usize = root(maple::header::APART) as usize;
    /// The bit of the root word at which the number of levels begins.
    HEIGHT_AT: u32 = 32;
    /// The most levels of inner nodes.
    LEVELS: usize = maple::LEVELS;
    /// Bytes of a line.
    LINE: usize = maple::LINE;
    /// The bit of a head at which the number of lines begins.
    LINES_AT: u32 = 24;
    /// The bit of a leaf's head at which the width of borders begins.
    LEAF_WIDTH_AT: u32 = 8;
    /// The bit of a leaf's head at which the shift begins.
    LEAF_SHIFT_AT: u32 = 16;
    /// The bit of a leaf's head at which the offset of the starts begins.
    LEAF_STARTS_AT: u32 = 32;
    /// The bit of a leaf's head at which the offset of the slots begins.
    LEAF_VALUES_AT: u32 = 48;
    /// In a leaf: the base.
    LEAF_BASE: usize = 8;
    /// In a leaf: the ends.
    LEAF_ENDS: usize = maple::LEAF_HEAD;
    /// The bytes behind a leaf's head that there are at least: this, and
    /// [`LEAF_READ_WIDTH`] for each step of the width.
    LEAF_READ: usize = 64;
    /// What each step of the width adds to [`LEAF_READ`].
    LEAF_READ_WIDTH: usize = 32;
    /// The bit of an inner node's head at which the number of pivots begins.
    INNER_FILLED_AT: u32 = 8;
    /// The bits of an inner node's head that are 0: all but those of the numbers of children,
    /// pivots and lines, and the one that says that the node was replaced.
    INNER_ZEROS: u64 = 0xFFFF_FFFE_00FF_0000;
    /// In an inner node: the pivots.
    INNER_PIVOTS: usize = maple::INNER_HEAD;
    /// The most pivots of an inner node.
    INNER_PIVOTS_MAX: usize = 128;
    /// Bits of precision in the code of a gap's size.
    GAP_BITS: u32 = 11;
}

// The heads of `sapwood_format` have their parts at these bits.
const _: () = {
    let leaf = LeafHead {
        n: 1,
        width: 1,
        shift: 1,
        lines: 1,
        starts: 1,
        values: 1,
    };
    let bits = 1
        | 1 << LEAF_WIDTH_AT
        | 1 << LEAF_SHIFT_AT
        | 1 << LINES_AT
        | 1 << LEAF_STARTS_AT
        | 1 << LEAF_VALUES_AT;
    assert!(leaf.word() == bits);
    let inner = InnerHead {
        n: 1,
        filled: 1,
        lines: 1,
    };
    assert!(inner.word() == 1 | 1 << INNER_FILLED_AT | 1 << LINES_AT);
    assert!(inner.word() & INNER_ZEROS == 0 && !INNER_ZEROS == 0x1_FF00_FFFF);
    assert!(maple::root_word(0, 1) == 1 << HEIGHT_AT);
    let mut width = 1;
    while width <= 3 {
        assert!(maple::LEAF_READ[width] == LEAF_READ + width * LEAF_READ_WIDTH);
        width += 1;
    }
};

//! The words of a table: the bits of references, root words and slots, and the offsets in blocks.
//! `docs/lpm.md` has a drawing. Programs in other languages use the same numbers: [`LAYOUT`].
//!
//! References have 27 bits and count units of 8 bytes, so a table has at most 1 GiB.
//!
//! ```text
//! root word (u64, one for each value of the first 6, 12, 18 or 24 bits)
//!     bit  0..27  node below, or 0
//!     bit 27..32  length + 1 of the prefix that the value is of, or 0
//!     bit 32..59  value of the longest prefix that is not longer than the root, or 0
//!
//! node (64 slots, one for each value of the next 6 bits; equal neighbours are stored once)
//!     0   u64  runs: bit i says that slot i differs from slot i - 1; bit 0 is set
//!     8   u32  base: the value at the node's own slot in its parent, or 0
//!     12  u32  number of prefixes that end inside the node; bit 31: FRESH
//!     16  u32  slots: 0, or a value, or CHILD | node
//!     then, at the next multiple of 8, if there are prefixes (lookups of values never touch this):
//!         u64  two words of 64 bits: bit 1 << length | bits
//!         u32  values, in the order of the bits
//!
//! lone prefix (in the place of a node, where one prefix of more than 6 bits is all that there is)
//!     0   u64  the prefix's remaining bits from the top, then a 1, then zeros; bit 0 is clear
//!     8   u32  base, as above
//!     12  u32  1; bit 31: FRESH
//!     16  u32  0: what addresses find that the prefix does not match
//!     20  u32  the prefix's value
//!
//! root prefixes, in C a shelf (prefixes that end inside the root, by 6 bits a level; lookups do
//! not touch them)
//!     0   u64  two words, as above; bit 1: the prefix of length 0, on the first level; bit 0: FRESH
//!     16  u64  which of the 64 have a block below
//!     24  u32  values, then blocks below
//! ```

/// The bits of a reference.
pub const REF: u32 = (1 << MARK) - 1;
/// The most bytes of a table.
pub const MAX_BYTES: usize = (REF as usize) * 8;
/// The tag of a slot's cell that refers to a node.
pub const CHILD: u32 = 1 << 31;
/// The tag of a node's number of prefixes: the open transaction made the node, and nobody else
/// reads it.
pub const FRESH: u32 = 1 << 31;
/// Bits of a stride.
pub const STRIDE: u32 = 6;
/// Slots of a node.
pub const SLOTS: usize = 1 << STRIDE;

/// The first bits in a root word of the length of its prefix, and of its value.
const MARK: u32 = 27;
const VALUE: u32 = 32;

/// The offset of a node's runs.
pub const NODE_RUNS: usize = 0;
/// The offset of a node's base.
pub const NODE_BASE: usize = 8;
/// The offset of the number of a node's prefixes.
pub const NODE_COUNT: usize = 12;
/// The offset of a node's slots.
pub const NODE_SLOTS: usize = 16;

/// The offset of a lone prefix's value, its second cell.
pub const LONE_VALUE: usize = NODE_SLOTS + 4;
/// Bytes of a lone prefix.
pub const LONE_BYTES: usize = 24;
/// The most bits that a lone prefix has left; it has more than a stride. Nodes above a longer one
/// take the bits before these, and a shorter one ends inside a node.
pub const LONE_MAX: u32 = 62;

/// The offset in a block of root prefixes of the bits that say which slots have a block below. The
/// block begins with its set.
pub const ROOT_PREFIXES_KIDS: usize = 16;
/// The offset of the values in a block of root prefixes.
pub const ROOT_PREFIXES_VALUES: usize = 24;

/// Bytes of a set of prefixes.
pub const SET: usize = 16;

/// The root words of the arena's header page, by which other programs find a published table.
pub mod header {
    /// Bytes of a value, a multiple of 4.
    pub const VALUE_BYTES: usize = 0;
    /// Bits of an address, 32 or 128.
    pub const WIDTH: usize = 1;
    /// The reference of the block of root words, and in the upper half the number of bits of an
    /// address that it resolves. Both do not change.
    pub const ROOT: usize = 2;
    /// The first block of root prefixes (in C, a shelf), 0 for none.
    pub const SHELF: usize = 3;
    /// The number of prefixes.
    pub const LEN: usize = 4;

    /// The number of the format.
    const FORMAT: u64 = 2;

    /// The layout hash in the header page of a table of addresses of this width, whose values have
    /// this size and this alignment. A reader must compare it.
    pub const fn layout_hash(width: u8, size: usize, align: usize) -> u64 {
        let words = [width as u64, size as u64, align as u64, FORMAT];
        crate::fnv(b"sapwood lpm", &words)
    }
}

/// The numbers that programs in other languages are compiled with, with their names in
/// `docs/lpm.md`, in capitals.
pub const LAYOUT: [(&str, u64); 13] = [
    ("REF", REF as u64),
    ("CHILD", CHILD as u64),
    ("FRESH", FRESH as u64),
    ("STRIDE", STRIDE as u64),
    ("WORD_MARK", MARK as u64),
    ("WORD_VALUE", VALUE as u64),
    ("NODE_RUNS", NODE_RUNS as u64),
    ("NODE_BASE", NODE_BASE as u64),
    ("NODE_COUNT", NODE_COUNT as u64),
    ("NODE_SLOTS", NODE_SLOTS as u64),
    ("LONE_VALUE", LONE_VALUE as u64),
    ("SHELF_KIDS", ROOT_PREFIXES_KIDS as u64),
    ("SHELF_VALUES", ROOT_PREFIXES_VALUES as u64),
];

/// The word of a published table's header that names its root and the root's bits.
pub const fn root_word(root: u32, bits: u32) -> u64 {
    (bits as u64) << 32 | root as u64
}

/// The offset of the prefixes of a node with `runs` runs.
pub const fn node_tail(runs: usize) -> usize {
    (NODE_SLOTS + 4 * runs).next_multiple_of(8)
}

/// Bytes of a node with these numbers of runs and prefixes.
pub const fn node_bytes(runs: usize, prefixes: usize) -> usize {
    match prefixes {
        0 => node_tail(runs),
        _ => node_tail(runs) + SET + 4 * prefixes,
    }
}

/// The first word of a lone prefix: its remaining bits, from the top, and their number, from 1 to
/// [`LONE_MAX`].
pub const fn lone_word(bits: u64, len: u32) -> u64 {
    debug_assert!(len >= 1 && len <= LONE_MAX);
    bits & !(u64::MAX >> len) | 1 << (63 - len)
}

/// Whether the first word of a node says that the node is a lone prefix.
#[inline(always)]
pub const fn is_lone(word: u64) -> bool {
    word & 1 == 0
}

/// The number of bits that a lone prefix has left.
pub const fn lone_len(word: u64) -> u32 {
    63_u32.saturating_sub(word.trailing_zeros())
}

/// Whether a lone prefix matches the bits of an address from the node on.
#[inline(always)]
pub const fn lone_matches(word: u64, bits: u64) -> bool {
    // The bits before the mark are equal when all that differs lies below twice the mark.
    (word ^ bits) < (word & word.wrapping_neg()) << 1
}

/// Bytes of a block of root prefixes with this number of values and blocks below.
pub const fn root_prefixes_bytes(words: usize) -> usize {
    ROOT_PREFIXES_VALUES + 4 * words
}

/// The node that a slot's cell refers to, or 0.
#[inline(always)]
pub const fn child_of(cell: u32) -> u32 {
    if cell & CHILD == 0 { 0 } else { cell & REF }
}

/// The run that a slot belongs to.
#[inline(always)]
pub const fn rank_of(runs: u64, slot: usize) -> usize {
    (ones(runs << (SLOTS - 1 - slot)) - 1) as usize
}

/// The number of set bits of a word, for machines that may have no instruction that counts them.
#[inline(always)]
pub const fn ones(word: u64) -> u32 {
    word.count_ones()
}

/// A root word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word(
    /// The word.
    pub u64,
);

impl Word {
    /// A root word of the node below, length + 1 of the value's prefix, and the value.
    pub const fn new(child: u32, mark: u32, value: u32) -> Self {
        debug_assert!(child <= REF && value <= REF && mark < 32);
        Word((value as u64) << VALUE | (mark << MARK | child) as u64)
    }

    /// The node below.
    #[inline(always)]
    pub const fn child(self) -> u32 {
        self.0 as u32 & REF
    }

    /// Length + 1 of the value's prefix.
    #[inline(always)]
    pub const fn mark(self) -> u32 {
        self.0 as u32 >> MARK
    }

    /// The value.
    #[inline(always)]
    pub const fn value(self) -> u32 {
        (self.0 >> VALUE) as u32
    }

    /// The same word with another node below.
    pub const fn with_child(self, child: u32) -> Self {
        Word::new(child, self.mark(), self.value())
    }

    /// The same word with another prefix and its value.
    pub const fn with_value(self, mark: u32, value: u32) -> Self {
        Word::new(self.child(), mark, value)
    }
}

/// A set of the prefixes inside a stride: bit `1 << length | bits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Set(
    /// The two words.
    pub [u64; 2],
);

impl Set {
    /// The bit of the first word that no prefix has: the open transaction made the block.
    pub const FRESH: u64 = 1;

    /// The number of a prefix.
    pub const fn heap(len: u32, bits: usize) -> usize {
        1 << len | bits
    }

    /// Whether the prefix of this number is in the set.
    pub const fn has(self, heap: usize) -> bool {
        self.0[heap >> 6] >> (heap & 63) & 1 != 0
    }

    /// Inserts the prefix of this number.
    pub const fn insert(&mut self, heap: usize) {
        self.0[heap >> 6] |= 1 << (heap & 63);
    }

    /// Removes the prefix of this number.
    pub const fn remove(&mut self, heap: usize) {
        self.0[heap >> 6] &= !(1 << (heap & 63));
    }

    /// The number of prefixes before this one.
    pub const fn rank(self, heap: usize) -> usize {
        let low = self.0[0] & !Self::FRESH;
        let word = if heap < 64 { low } else { self.0[1] };
        let below = ones(word & ((1 << (heap & 63)) - 1));
        (below + if heap < 64 { 0 } else { ones(low) }) as usize
    }

    /// The number of prefixes.
    pub const fn len(self) -> usize {
        (ones(self.0[0] & !Self::FRESH) + ones(self.0[1])) as usize
    }

    /// Whether there is no prefix.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The longest prefix in the set that is a proper prefix of this one, down to number `least`.
    pub fn cover(self, heap: usize, least: usize) -> Option<usize> {
        let mut h = heap >> 1;
        while h >= least {
            if self.has(h) {
                return Some(h);
            }
            h >>= 1;
        }
        None
    }

    /// The numbers of all prefixes, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        Self::heaps([self.0[0] & !Self::FRESH, self.0[1]])
    }

    /// The numbers of the prefixes in the set that a slot lies in, shortest first.
    #[inline]
    pub fn around(self, slot: usize) -> impl Iterator<Item = usize> {
        Self::heaps([self.0[0] & AROUND[slot / 2], self.0[1] & 1 << slot])
    }

    /// The numbers of the bits that are set.
    #[inline]
    fn heaps(mut words: [u64; 2]) -> impl Iterator<Item = usize> {
        core::iter::from_fn(move || {
            let i = usize::from(words[0] == 0);
            let bit = words[i].trailing_zeros() as usize;
            words[i] &= words[i].checked_sub(1)?;
            Some(64 * i + bit)
        })
    }
}

/// The bits of a set's first word for the prefixes around two slots: those of 0 to 5 bits.
static AROUND: [u64; SLOTS / 2] = {
    let mut all = [0; SLOTS / 2];
    let mut pair = 0;
    while pair < SLOTS / 2 {
        let mut len = 0;
        while len < STRIDE {
            all[pair] |= 1 << Set::heap(len, pair >> (STRIDE - 1 - len));
            len += 1;
        }
        pair += 1;
    }
    all
};

/// The length of the prefix of this number.
pub const fn len_of(heap: usize) -> u32 {
    heap.ilog2()
}

/// The slots that a prefix covers.
pub const fn slots_of(heap: usize) -> core::ops::Range<usize> {
    let len = len_of(heap);
    let start = (heap - (1 << len)) << (STRIDE - len);
    start..start + (1 << (STRIDE - len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_around_a_slot_are_those_that_cover_it() {
        // Every prefix, every third one, and none but the longest.
        for keep in [1, 3, 64] {
            let mut set = Set([Set::FRESH, 0]);
            for heap in (1..128).filter(|heap| heap % keep == 0) {
                set.insert(heap);
            }
            for slot in 0..SLOTS {
                let covers = |heap: &usize| slots_of(*heap).contains(&slot);
                assert!(set.around(slot).eq(set.iter().filter(covers)), "{slot}");
            }
        }
    }
}

//! The words of a published table of prefixes, checked before use.

use sapwood_format::lpm::{
    CHILD, FRESH, LONE_BYTES, LONE_MAX, LONE_VALUE, NODE_BASE, NODE_COUNT, NODE_RUNS, NODE_SLOTS,
    REF, ROOT_PREFIXES_KIDS, ROOT_PREFIXES_VALUES, SLOTS, STRIDE, Set, Word, header, is_lone,
    len_of, lone_len, lone_matches, node_bytes, node_tail, ones, rank_of, root_prefixes_bytes,
};
use sapwood_format::{UNIT, Window, header as page};

use crate::{CheckedValue, Trouble, Values, bytes};

/// Bits of the widest address, in which addresses are left-aligned.
pub(super) const BITS: u32 = 128;
/// The most prefixes that end inside a node.
const COUNT_MAX: usize = 126;

/// The six bits of an address after the first `depth`.
pub(super) fn six(key: u128, depth: u32) -> usize {
    (key.checked_shl(depth).unwrap_or(0) >> (BITS - STRIDE)) as usize
}

/// Only the first bits of an address.
pub(super) fn first(key: u128, len: u32) -> u128 {
    key & u128::MAX.checked_shl(BITS - len).unwrap_or(0)
}

/// A table in a window, whose header was read and is sound.
#[derive(Clone)]
pub(super) struct Table<W> {
    pub(super) window: W,
    pub(super) value_bytes: usize,
    /// Bits of an address.
    pub(super) width: u32,
    /// Bits that the root resolves.
    pub(super) bits: u32,
    /// The place of the root words.
    pub(super) root: usize,
}

/// A node, or a lone prefix in the place of one, that lies inside the window.
#[derive(Clone, Copy)]
pub(super) enum Node {
    Lone {
        at: usize,
        word: u64,
        value: u32,
    },
    Strides {
        at: usize,
        runs: u64,
        /// The prefixes that end inside the node, and the place of their values.
        set: Set,
        values: usize,
    },
}

/// A block of root prefixes that lies inside the window.
#[derive(Clone, Copy)]
pub(super) struct RootPrefixes {
    pub(super) at: usize,
    pub(super) depth: u32,
    pub(super) set: Set,
    pub(super) kids: u64,
}

impl RootPrefixes {
    /// The place at which the block ends.
    pub(super) fn end(&self) -> usize {
        let words = self.set.len() + ones(self.kids) as usize;
        self.at + root_prefixes_bytes(words).next_multiple_of(UNIT)
    }
}

impl<W: Window> Table<W> {
    /// The table in a window, if its values are of this type.
    pub(super) fn new<V: CheckedValue>(window: W) -> Result<Self, Trouble> {
        if window.len() < page::PAGE {
            return Err(Trouble::Damaged("no room for a header page", window.len()));
        }
        let word = |index| window.u64(page::root_at(index));
        let damaged = |why, index| Err(Trouble::Damaged(why, page::root_at(index)));
        let value_bytes = word(header::VALUE_BYTES);
        if value_bytes % 4 != 0 || value_bytes >= window.len() as u64 {
            return damaged("values of a size that no table has", header::VALUE_BYTES);
        }
        let value_bytes = value_bytes as usize;
        let width = match word(header::WIDTH) {
            32 => 32_u8,
            128 => 128,
            _ => return damaged("addresses that no table has", header::WIDTH),
        };
        if !V::fits(value_bytes) {
            return Err(Trouble::Values(Values::Bytes(value_bytes)));
        }
        let hash = window.u64(page::LAYOUT_AT);
        if V::prefix_layout_hash(width).is_some_and(|expected| expected != hash) {
            let bytes = value_bytes;
            return Err(Trouble::Values(Values::Layout { bytes, hash }));
        }
        let root = word(header::ROOT);
        let (bits, at) = ((root >> 32) as u32, root as u32 as usize * UNIT);
        if !matches!(bits, 6 | 12 | 18 | 24) || !bytes::inside(&window, at, UNIT << bits) {
            return damaged("a root that does not lie inside the window", header::ROOT);
        }
        Ok(Table {
            window,
            value_bytes,
            width: width.into(),
            bits,
            root: at,
        })
    }

    /// The number of prefixes that the header states.
    pub(super) fn stated_len(&self) -> u64 {
        self.window.u64(page::root_at(header::LEN))
    }

    /// The word of the header that refers to the first block of root prefixes.
    pub(super) fn root_prefixes_word(&self) -> u64 {
        self.window.u64(page::root_at(header::SHELF))
    }

    /// The root word of an address, or the slot's.
    pub(super) fn slot_of(&self, key: u128) -> usize {
        (key >> (BITS - self.bits)) as usize
    }

    /// A root word as it is.
    pub(super) fn raw_word(&self, slot: usize) -> u64 {
        self.window.u64(self.root + UNIT * slot)
    }

    /// Checks a root word.
    pub(super) fn word(&self, slot: usize, raw: u64) -> Result<Word, Trouble> {
        let word = Word(raw);
        let sound = word.value() <= REF
            && (word.mark() == 0) == (word.value() == 0)
            && word.mark() <= self.bits + 1;
        match sound {
            true => Ok(word),
            false => {
                let at = self.root + UNIT * slot;
                Err(Trouble::Damaged("no root word has such bits", at))
            }
        }
    }

    /// The place of a block of this many bytes at least.
    fn block(&self, reference: u32, bytes: usize, why: &'static str) -> Result<usize, Trouble> {
        let at = reference as usize * UNIT;
        match reference <= REF && bytes::inside(&self.window, at, bytes) {
            true => Ok(at),
            false => Err(Trouble::Damaged(why, at)),
        }
    }

    /// The node at a reference, behind this many bits of addresses.
    pub(super) fn node(&self, reference: u32, depth: u32) -> Result<Node, Trouble> {
        let at = self.block(reference, LONE_BYTES, "a node outside the window")?;
        let damaged = |why| Err(Trouble::Damaged(why, at));
        let left = match self.width.checked_sub(depth) {
            None | Some(0) => return damaged("a node below the last bit"),
            Some(left) => left,
        };
        let runs = self.window.u64(at + NODE_RUNS);
        let count = (self.window.u32(at + NODE_COUNT) & !FRESH) as usize;
        if is_lone(runs) {
            let value = self.window.u32(at + LONE_VALUE);
            let len = lone_len(runs);
            let sound = (STRIDE + 1..=left.min(LONE_MAX)).contains(&len)
                && count == 1
                && (1..=REF).contains(&value);
            return match sound {
                true => Ok(Node::Lone {
                    at,
                    word: runs,
                    value,
                }),
                false => damaged("no lone prefix has such words here"),
            };
        }
        let cells = ones(runs) as usize;
        let fits = count <= COUNT_MAX && bytes::inside(&self.window, at, node_bytes(cells, count));
        if !fits {
            return damaged("a node that ends outside the window");
        }
        let tail = at + node_tail(cells);
        let mut set = Set::default();
        if count > 0 {
            set = Set([self.window.u64(tail), self.window.u64(tail + 8)]);
        }
        // The prefixes that are longer than the rest of an address.
        let too_long = match left {
            STRIDE.. => false,
            5 => set.0[1] != 0,
            _ => set.0[1] != 0 || set.0[0] >> (2 << left) != 0,
        };
        if set.0[0] & 0b11 != 0 || set.len() != count || too_long {
            return damaged("no node has such a set of prefixes here");
        }
        Ok(Node::Strides {
            at,
            runs,
            set,
            values: tail + sapwood_format::lpm::SET,
        })
    }

    /// The value that the node above gives to a node's place, or 0.
    pub(super) fn base(&self, node: &Node) -> u32 {
        let (Node::Lone { at, .. } | Node::Strides { at, .. }) = node;
        self.window.u32(at + NODE_BASE)
    }

    /// Whether a node is one of an open transaction.
    pub(super) fn is_fresh(&self, at: usize) -> bool {
        self.window.u32(at + NODE_COUNT) & FRESH != 0
    }

    /// The cell of a run of a node.
    pub(super) fn cell(&self, at: usize, run: usize) -> u32 {
        self.window.u32(at + NODE_SLOTS + 4 * run)
    }

    /// The value of a prefix of a set, as a reference.
    pub(super) fn value_at(&self, values: usize, set: Set, heap: usize) -> Result<u32, Trouble> {
        let at = values + 4 * set.rank(heap);
        match self.window.u32(at) {
            value @ 1..=REF => Ok(value),
            _ => Err(Trouble::Damaged("a prefix without a value", at)),
        }
    }

    /// The node that a cell of a node at `at` refers to, or 0.
    pub(super) fn child(&self, at: usize, cell: u32) -> Result<u32, Trouble> {
        match cell {
            _ if cell & CHILD == 0 => Ok(0),
            _ if cell & !CHILD == 0 || cell & !CHILD > REF => {
                Err(Trouble::Damaged("a cell that refers to no node", at))
            }
            _ => Ok(cell & !CHILD),
        }
    }

    /// The block of root prefixes at a reference, behind this many bits of addresses.
    pub(super) fn root_prefixes(&self, word: u64, depth: u32) -> Result<RootPrefixes, Trouble> {
        let outside = "root prefixes outside the window";
        let reference = u32::try_from(word).unwrap_or(u32::MAX);
        let at = self.block(reference, ROOT_PREFIXES_VALUES, outside)?;
        let damaged = |why| Err(Trouble::Damaged(why, at));
        let set = Set([self.window.u64(at), self.window.u64(at + 8)]);
        let kids = self.window.u64(at + ROOT_PREFIXES_KIDS);
        // The bit of the prefix of length 0, which is on the first level.
        let whole = set.0[0] & 0b10 != 0;
        if (whole && depth > 0) || (kids != 0 && depth + STRIDE >= self.bits) {
            return damaged("no block of root prefixes has such bits here");
        }
        let block = RootPrefixes {
            at,
            depth,
            set,
            kids,
        };
        match bytes::inside(&self.window, at, block.end() - at) {
            true => Ok(block),
            false => damaged("root prefixes that end outside the window"),
        }
    }

    /// The reference of the block below a slot of a block of root prefixes, if there is one.
    pub(super) fn kid(&self, block: &RootPrefixes, slot: usize) -> Option<u64> {
        let before = ones(block.kids & ((1 << slot) - 1)) as usize;
        let at = block.at + ROOT_PREFIXES_VALUES + 4 * (block.set.len() + before);
        (block.kids >> slot & 1 != 0).then(|| self.window.u32(at).into())
    }

    /// The bytes of a value.
    pub(super) fn value(&self, reference: u32) -> Result<Vec<u8>, Trouble> {
        // Behind the value comes a number, which only the writer uses.
        let bytes = self.value_bytes + 4;
        let at = self.block(reference, bytes, "a value outside the window")?;
        Ok(bytes::copy(&self.window, at, self.value_bytes))
    }

    /// The length and the value of the longest prefix of an address.
    pub(super) fn lookup(&self, key: u128) -> Result<Option<(u8, Vec<u8>)>, Trouble> {
        let slot = self.slot_of(key);
        let raw = self.raw_word(slot);
        let found = self.longest(slot, raw, key);
        // What a root word reaches does not change until it is freed, which is after the word has
        // changed.
        match self.raw_word(slot) == raw {
            true => found,
            false => Err(Trouble::Changed),
        }
    }

    fn longest(&self, slot: usize, raw: u64, key: u128) -> Result<Option<(u8, Vec<u8>)>, Trouble> {
        let word = self.word(slot, raw)?;
        let mut best = (word.mark().saturating_sub(1), word.value());
        let (mut node, mut depth) = (word.child(), self.bits);
        while node != 0 {
            match self.node(node, depth)? {
                Node::Lone { word, value, .. } => {
                    let rest = (key.checked_shl(depth).unwrap_or(0) >> 64) as u64;
                    if lone_matches(word, rest) {
                        best = (depth + lone_len(word), value);
                    }
                    break;
                }
                Node::Strides {
                    at,
                    runs,
                    set,
                    values,
                } => {
                    let slot = six(key, depth);
                    // The prefix of the whole stride, then shorter ones.
                    let mut heap = SLOTS | slot;
                    while heap > 1 && !set.has(heap) {
                        heap >>= 1;
                    }
                    if heap > 1 {
                        best = (depth + len_of(heap), self.value_at(values, set, heap)?);
                    }
                    node = self.child(at, self.cell(at, rank_of(runs, slot)))?;
                    depth += STRIDE;
                }
            }
        }
        match best {
            (_, 0) => Ok(None),
            (len, value) => Ok(Some((len as u8, self.value(value)?))),
        }
    }

    /// All prefixes that cover the prefix of these bits and this length, itself included: their
    /// lengths and values, shortest first.
    pub(super) fn covering(&self, key: u128, most: u32) -> Result<Vec<(u8, Vec<u8>)>, Trouble> {
        let slot = self.slot_of(key);
        let (raw, shelf) = (self.raw_word(slot), self.root_prefixes_word());
        let mut found = Vec::new();
        let read = self.cover_above(shelf, key, most, &mut found);
        let read = read.and_then(|()| self.cover_below(slot, raw, key, most, &mut found));
        // As for a lookup; a change of a root prefix changes the word of its blocks.
        match self.raw_word(slot) == raw && self.root_prefixes_word() == shelf {
            true => read?,
            false => return Err(Trouble::Changed),
        }
        let value = |(len, value)| Ok((len as u8, self.value(value)?));
        found.into_iter().map(value).collect()
    }

    /// Those that the root resolves.
    fn cover_above(
        &self,
        shelf: u64,
        key: u128,
        most: u32,
        found: &mut Vec<(u32, u32)>,
    ) -> Result<(), Trouble> {
        let mut next = Some(shelf).filter(|word| *word != 0);
        let mut depth = 0;
        while let Some(word) = next.filter(|_| depth <= most) {
            let block = self.root_prefixes(word, depth)?;
            let here = six(key, depth);
            for len in u32::from(depth > 0)..=STRIDE {
                let heap = Set::heap(len, here >> (STRIDE - len));
                if depth + len <= most && block.set.has(heap) {
                    let values = block.at + ROOT_PREFIXES_VALUES;
                    found.push((depth + len, self.value_at(values, block.set, heap)?));
                }
            }
            next = self.kid(&block, here);
            depth += STRIDE;
        }
        Ok(())
    }

    /// Those in the nodes below a slot of the root.
    fn cover_below(
        &self,
        slot: usize,
        raw: u64,
        key: u128,
        most: u32,
        found: &mut Vec<(u32, u32)>,
    ) -> Result<(), Trouble> {
        let (mut node, mut depth) = (self.word(slot, raw)?.child(), self.bits);
        while node != 0 && depth < most {
            match self.node(node, depth)? {
                Node::Lone { word, value, .. } => {
                    let rest = (key.checked_shl(depth).unwrap_or(0) >> 64) as u64;
                    if depth + lone_len(word) <= most && lone_matches(word, rest) {
                        found.push((depth + lone_len(word), value));
                    }
                    break;
                }
                Node::Strides {
                    at,
                    runs,
                    set,
                    values,
                } => {
                    let slot = six(key, depth);
                    for len in 1..=STRIDE {
                        let heap = Set::heap(len, slot >> (STRIDE - len));
                        if depth + len <= most && set.has(heap) {
                            found.push((depth + len, self.value_at(values, set, heap)?));
                        }
                    }
                    node = self.child(at, self.cell(at, rank_of(runs, slot)))?;
                    depth += STRIDE;
                }
            }
        }
        Ok(())
    }
}

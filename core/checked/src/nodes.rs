//! Branches, leaves and entries of a window that others write, and with `clusters` all its nodes.
//! They are read word by word, and checked before use.
//!
//! All reads are atomic, so a change during a read gives other words, and is not a data race. A
//! reference is followed only to bytes inside the window.

use sapwood_format::branch::{self, BIG, LABELS_AT, LOCKS, MAP_AT};
use sapwood_format::header;
use sapwood_format::inline::Entries;
use sapwood_format::{KIND, LEAF, UNIT, Window, byte_of, is_branch, leaf, leaf_cell};

use crate::{Trouble, bytes};

/// The nodes in a window, for one operation.
#[derive(Clone)]
pub struct Nodes<W> {
    pub(crate) window: W,
    /// Bytes of a value, which lies before the key; 0 when values are byte strings.
    pub(crate) value_bytes: usize,
    /// Whether values are byte strings, which lie behind the key.
    pub(crate) strings: bool,
    /// The layout of entries in inline clusters, if there may be some.
    pub(crate) entries: Option<Entries>,
    /// Whether slots of clusters of cells may be dead.
    pub(crate) dead_slots: bool,
    /// Whether slots at the end of a cluster may be cut off. They keep their bytes.
    pub(crate) cut_slots: bool,
}

/// A branch whose header and labels were read and are consistent.
#[derive(Clone, Copy)]
pub struct Branch {
    at: usize,
    header: u32,
    /// The labels, one bit each.
    labels: [u64; 4],
}

/// An entry that lies inside the window: a leaf, or an entry in the block of an inline cluster.
#[derive(Clone, Copy)]
pub struct Entry {
    pub(crate) at: usize,
    /// The pieces of the key: the prefix of the cluster, which a leaf has not, and the rest.
    pub(crate) pieces: [(usize, usize); 2],
    pub(crate) value_at: usize,
    pub(crate) value_len: usize,
    pub(crate) end: usize,
    pub(crate) is_leaf: bool,
}

/// The length of the longest common prefix of two keys, or `None` when they are equal.
pub(crate) fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common < a.len() || common < b.len()).then_some(common)
}

/// A mask of the labels in a word up to `byte`.
fn up_to(byte: u8) -> u64 {
    u64::MAX >> (63 - byte % 64)
}

impl Branch {
    pub(crate) fn offset(&self) -> usize {
        branch::offset_of(self.header)
    }

    pub(crate) fn children(&self) -> usize {
        branch::children_of(self.header)
    }

    /// The places at which its block begins and ends.
    pub fn block(&self) -> (usize, usize) {
        (self.at, self.at + branch::block_of(self.header))
    }

    /// The child that a key belongs to: the number of labels that are not greater than its byte.
    pub(crate) fn child(&self, key: &[u8]) -> usize {
        let Some(&byte) = key.get(self.offset()) else {
            return 0;
        };
        let word = usize::from(byte / 64);
        let before: u32 = self.labels[..word]
            .iter()
            .map(|word| word.count_ones())
            .sum();
        (before + (self.labels[word] & up_to(byte)).count_ones()) as usize
    }

    /// Adds a label. Returns whether it is greater than all labels before it.
    fn add(&mut self, label: u8) -> bool {
        let (word, bit) = (usize::from(label / 64), 1 << (label % 64));
        let ascends = self.labels[word] < bit && self.labels[word + 1..].iter().all(|w| *w == 0);
        self.labels[word] |= bit;
        ascends
    }
}

impl Entry {
    pub(crate) fn key_len(&self) -> usize {
        let [prefix, rest] = self.pieces;
        prefix.1 + rest.1
    }

    /// The cell of the leaf; `None` when the entry lies in the block of an inline cluster.
    pub(crate) fn leaf(&self) -> Option<u32> {
        self.is_leaf.then(|| leaf_cell((self.at / UNIT) as u32))
    }

    /// The places at which its block begins and ends: that of a leaf, or its part of a cluster.
    pub fn block(&self) -> (usize, usize) {
        match self.is_leaf {
            true => (self.at, self.end.next_multiple_of(UNIT)),
            false => (self.at, self.end),
        }
    }
}

impl<W: Window> Nodes<W> {
    /// The nodes of a window whose values have this many bytes, a multiple of 8, or are
    /// [`header::BYTE_STRINGS`]. There are no inline clusters, and no dead slots.
    pub fn new(window: W, value_bytes: usize) -> Nodes<W> {
        let strings = value_bytes as u64 == header::BYTE_STRINGS;
        Nodes {
            window,
            value_bytes: if strings { 0 } else { value_bytes },
            strings,
            entries: None,
            dead_slots: false,
            cut_slots: false,
        }
    }

    /// The same nodes, of a map that programs in the kernel write: leaves of clusters leave a dead
    /// slot, or their slots are cut off.
    pub fn of_programs(self) -> Nodes<W> {
        Nodes {
            dead_slots: true,
            cut_slots: true,
            ..self
        }
    }

    /// The same nodes, of a map of this format whose values, unless they are byte strings, have
    /// this alignment.
    pub(crate) fn of_format(self, align: usize, format: u64) -> Nodes<W> {
        let align = if self.strings { 1 } else { align };
        let entries = Entries::of(self.value_bytes, align);
        Nodes {
            entries: (format == header::INLINE_FORMAT).then_some(entries),
            dead_slots: format == header::SHARED_FORMAT,
            ..self
        }
    }

    /// Whether there may be inline clusters.
    pub(crate) fn has_inline(&self) -> bool {
        self.entries.is_some()
    }

    /// Bytes of a value, unless values are byte strings.
    pub(crate) fn value_bytes(&self) -> Option<usize> {
        (!self.strings).then_some(self.value_bytes)
    }

    fn root_word(&self, index: usize) -> u64 {
        self.window.u64(header::root_at(index))
    }

    /// The root cell.
    pub fn root(&self) -> u32 {
        self.root_word(header::ROOT) as u32
    }

    /// The number of entries that the header page states, which is 0 unless the map is a store.
    pub(crate) fn stated_len(&self) -> usize {
        (self.root_word(header::ROOT) >> 32) as usize
    }

    /// The header page's word on whether there is an index.
    pub(crate) fn has_index(&self) -> u64 {
        self.root_word(header::HAS_INDEX)
    }

    /// Whether the map has an index and no trie.
    pub(crate) fn has_only_index(&self) -> bool {
        self.has_index() == header::ONLY_INDEX
    }

    /// The reference of the index's table where lookups begin.
    pub(crate) fn table(&self) -> u32 {
        self.root_word(header::TABLE) as u32
    }

    /// The secrets of the index's hash.
    pub(crate) fn secrets(&self) -> [u64; sapwood_format::hash::SECRETS] {
        std::array::from_fn(|i| self.window.u64(header::EXTRA_AT + 8 * i))
    }

    /// Whether this many bytes from `at` on lie inside the window, behind the header page.
    pub(crate) fn inside(&self, at: usize, bytes: usize) -> bool {
        bytes::inside(&self.window, at, bytes)
    }

    /// The place and the header of a cell's branch, which lies inside the window. Its offset must
    /// be at least `min`.
    pub(crate) fn branch_header(&self, cell: u32, min: usize) -> Result<(usize, u32), Trouble> {
        let at = byte_of(cell);
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if !is_branch(cell) || !self.inside(at, 16) {
            return damaged("a branch outside the window");
        }
        let header = self.window.u32(at) & !LOCKS;
        if !branch::is_sound(header, min) {
            return damaged("no branch has such a header here");
        }
        match self.inside(at, branch::block_of(header)) {
            true => Ok((at, header)),
            false => damaged("a branch that ends outside the window"),
        }
    }

    /// The branch of a cell. Its offset must be at least `min`.
    pub fn branch(&self, cell: u32, min: usize) -> Result<Branch, Trouble> {
        let (at, header) = self.branch_header(cell, min)?;
        let damaged = |why| Err(Trouble::Damaged(why, at));
        let mut branch = Branch {
            at,
            header,
            labels: [0; 4],
        };
        if branch.header & BIG != 0 {
            let mut before = 0;
            for at_byte in (0..256).step_by(4) {
                let word = self.window.u32(at + MAP_AT + at_byte).to_ne_bytes();
                for (byte, mapped) in (at_byte..).zip(word) {
                    let child = branch::child_of_map(branch.header, mapped);
                    if child == before + 1 {
                        branch.add(byte as u8);
                    } else if child != before {
                        return damaged("a map of bytes that skips children");
                    }
                    before = child;
                }
            }
            if before != branch::labels_of(branch.header) {
                return damaged("a map of bytes that has not all children");
            }
        } else {
            let labels = branch::labels_of(branch.header);
            for i in (0..labels).step_by(4) {
                let word = self.window.u32(at + LABELS_AT + i).to_ne_bytes();
                for &label in &word[..(labels - i).min(4)] {
                    if !branch.add(label) {
                        return damaged("labels that do not ascend");
                    }
                }
            }
        }
        Ok(branch)
    }

    /// Checks the parts that only `verify` checks: the padding of labels, and the lock if it must
    /// be free.
    pub(crate) fn check_branch(&self, branch: &Branch, free: bool) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, branch.at));
        if free && self.window.u32(branch.at) != branch.header {
            return damaged("a branch that is locked");
        }
        if branch.header & BIG == 0 {
            let labels = branch::labels_of(branch.header);
            let padded = self.copy(branch.at + LABELS_AT, branch::padded(labels));
            if padded[labels..]
                .iter()
                .any(|label| *label != padded[labels - 1])
            {
                return damaged("labels that are padded with something else");
            }
        }
        Ok(())
    }

    /// The cell of the `i`th child.
    pub(crate) fn cell(&self, branch: &Branch, i: usize) -> u32 {
        debug_assert!(i < branch.children());
        let cells = branch.at + branch::cells_at(branch.header);
        self.window.u32(cells + 4 * i)
    }

    /// Whether a branch still has the header that was read, checked after all earlier reads.
    pub(crate) fn is_still(&self, branch: &Branch) -> bool {
        self.window.u32(branch.at) & !LOCKS == branch.header
    }

    /// The leaf of a cell.
    pub fn leaf(&self, cell: u32) -> Result<Entry, Trouble> {
        let at = byte_of(cell);
        if cell & KIND != LEAF || !self.inside(at, self.value_bytes + 8) {
            return Err(Trouble::Damaged("a leaf outside the window", at));
        }
        let [a, b, c, ..] = self.window.u64(at + self.value_bytes).to_ne_bytes();
        let key_len = leaf::key_len([a, b, c]);
        if usize::from(a) == leaf::LONG && key_len < leaf::LONG {
            let why = "a length that is written as if it were longer";
            return Err(Trouble::Damaged(why, at));
        }
        let size = leaf::size(self.value_bytes, key_len);
        if !self.inside(at, size + usize::from(self.strings)) {
            return Err(Trouble::Damaged("a leaf that ends outside the window", at));
        }
        let key_at = at + leaf::key_at(self.value_bytes, key_len);
        let mut leaf = Entry {
            at,
            pieces: [(key_at, 0), (key_at, key_len)],
            value_at: at,
            value_len: self.value_bytes,
            end: at + size,
            is_leaf: true,
        };
        if self.strings {
            self.find_string(&mut leaf)?;
        }
        Ok(leaf)
    }

    /// Finds the byte string behind the key of a leaf. The first byte of its length lies inside the
    /// window.
    fn find_string(&self, leaf: &mut Entry) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, leaf.at));
        let at = leaf.end;
        let outside = "a value that ends outside the window";
        let bytes = leaf::value_length_bytes(bytes::byte(&self.window, at));
        if !self.inside(at, bytes) {
            return damaged(outside);
        }
        let mut length = [0; 5];
        bytes::copy_to(&self.window, at, &mut length[..bytes]);
        let len = leaf::value_len(length);
        if leaf::value_length(len).1 != bytes {
            return damaged("a value's length that is written as if it were longer");
        }
        if !self.inside(at, bytes + len) {
            return damaged(outside);
        }
        leaf.value_at = at + bytes;
        leaf.value_len = len;
        leaf.end = leaf.value_at + len;
        Ok(())
    }

    /// Copies bytes that lie inside the window.
    pub(crate) fn copy(&self, from: usize, len: usize) -> Vec<u8> {
        bytes::copy(&self.window, from, len)
    }

    pub(crate) fn key(&self, entry: &Entry) -> Vec<u8> {
        let mut key = Vec::with_capacity(entry.key_len());
        for (at, len) in entry.pieces {
            bytes::append(&self.window, at, len, &mut key);
        }
        key
    }

    /// Whether an entry has this key.
    pub(crate) fn has_key(&self, entry: &Entry, key: &[u8]) -> bool {
        let [(prefix, cut), (rest, _)] = entry.pieces;
        entry.key_len() == key.len()
            && bytes::are(&self.window, rest, &key[cut..])
            && bytes::are(&self.window, prefix, &key[..cut])
    }

    /// Calls `take` with the bytes of an entry's value.
    pub(crate) fn with_value<R>(&self, entry: &Entry, take: impl Fn(&[u8]) -> R) -> R {
        bytes::with_copy(&self.window, entry.value_at, entry.value_len, take)
    }

    /// The bytes of an entry's value.
    pub fn value(&self, entry: &Entry) -> Vec<u8> {
        self.copy(entry.value_at, entry.value_len)
    }

    /// The key and the value of an entry.
    pub fn entry(&self, entry: &Entry) -> Copied {
        (self.key(entry), self.value(entry))
    }

    /// Whether the rest of a leaf's block has only zeros.
    pub(crate) fn is_padded(&self, leaf: &Entry) -> bool {
        let (end, block) = (leaf.end, leaf.block().1);
        self.copy(end, block - end).iter().all(|byte| *byte == 0)
    }
}

/// A key and the bytes of its value.
pub type Copied = (Vec<u8>, Vec<u8>);

//! Branches and leaves of a window that others write: read word by word, and checked before they are believed.
//!
//! Everything is read through atomics, so what changes meanwhile gives other words, never anything worse. A reference is
//! followed only to bytes that the window has.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use sapwood::qp::Published;
use sapwood_arena::EXTRA_AT;

use crate::raw::arena::{Memory, PAGE};

/// Tag of a leaf's cell.
pub(super) const LEAF: u32 = 1;
const END: u32 = 1 << 24;
const BIG: u32 = 1 << 25;
/// Bits of a header that are locks, not layout.
const LOCKS: u32 = 1 << 26 | 1 << 31;
const SMALL_MAX: usize = 32;
/// Where the bitmap and the cells of a big branch are.
const BIG_MAP: usize = 8;
const BIG_CELLS: usize = 40;
/// Lengths from here on take two bytes more.
const LONG: usize = 255;

/// Why a read came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// What lies at this byte of the window cannot be what it should be.
    Damaged(&'static str, usize),
    /// It was changed while it was read.
    Changed,
}

/// A window, as far as one operation relies on it.
#[derive(Clone)]
pub(super) struct Nodes {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
    value_bytes: usize,
}

/// A branch whose header and labels were read and fit each other.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    at: usize,
    header: u32,
    /// The labels, a bit each.
    map: [u64; 4],
}

/// A leaf that lies inside.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    at: usize,
    key_at: usize,
    key_len: usize,
}

impl Branch {
    pub(super) fn offset(&self) -> usize {
        (self.header & 0xffff) as usize
    }

    fn labels(&self) -> usize {
        ((self.header >> 16) & 0xff) as usize + 1
    }

    fn end(&self) -> usize {
        usize::from(self.header & END != 0)
    }

    pub(super) fn children(&self) -> usize {
        self.labels() + self.end()
    }

    /// Where the cells begin, END's first.
    fn cells(&self) -> usize {
        match self.header & BIG {
            0 => 4 + self.labels().next_multiple_of(4),
            _ => BIG_CELLS,
        }
    }

    fn bytes(&self) -> usize {
        (self.cells() + 4 * self.children()).next_multiple_of(8)
    }

    /// Where its block begins and ends.
    pub(super) fn block(&self) -> (usize, usize) {
        (self.at, self.at + self.bytes())
    }

    /// What the header must be, given what it says about labels, END and offset.
    fn right_header(&self) -> u32 {
        let big = if self.labels() > SMALL_MAX { BIG } else { 0 };
        let cells = if big != 0 {
            BIG_CELLS
        } else {
            4 + self.labels().next_multiple_of(4)
        };
        let first = (cells / 4 + self.end()) as u32;
        self.header & (0x00ff_ffff | END) | big | first << 27
    }

    /// How many children come before one with this byte (`None`: END).
    pub(super) fn rank(&self, byte: Option<u8>) -> usize {
        let Some(byte) = byte else { return 0 };
        let word = usize::from(byte >> 6);
        let before: u32 = self.map[..word].iter().map(|word| word.count_ones()).sum();
        let below = self.map[word] & ((1 << (byte & 63)) - 1);
        (before + below.count_ones()) as usize + self.end()
    }

    /// The child with this byte of the key (`None`: the key ends).
    pub(super) fn find(&self, byte: Option<u8>) -> Option<usize> {
        let there = match byte {
            None => self.end() == 1,
            Some(byte) => self.map[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1,
        };
        there.then(|| self.rank(byte))
    }

    /// The byte of the `i`th child; `None`: END.
    pub(super) fn label(&self, i: usize) -> Option<u8> {
        let mut rest = i.checked_sub(self.end())?;
        for (at, word) in self.map.iter().enumerate() {
            let count = word.count_ones() as usize;
            if rest < count {
                let word = (0..rest).fold(*word, |word, _| word & (word - 1));
                return Some((at as u32 * 64 + word.trailing_zeros()) as u8);
            }
            rest -= count;
        }
        None
    }
}

impl Leaf {
    /// Where its block begins and ends.
    pub(super) fn block(&self) -> (usize, usize) {
        let end = self.key_at + self.key_len;
        (self.at, end.next_multiple_of(8))
    }
}

impl Nodes {
    /// The window of so many bytes at `at`, both whole pages inside the memory, with values of so many bytes.
    pub(super) fn new(memory: &Arc<Memory>, at: usize, len: usize, value_bytes: usize) -> Nodes {
        debug_assert!(at % PAGE == 0 && len % PAGE == 0 && at + len <= memory.len());
        Nodes {
            memory: Arc::clone(memory),
            at,
            len,
            value_bytes,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn u64(&self, at: usize) -> u64 {
        self.memory.u64(self.at + at).load(Ordering::Relaxed)
    }

    pub(super) fn u64_acquire(&self, at: usize) -> u64 {
        self.memory.u64(self.at + at).load(Ordering::Acquire)
    }

    pub(super) fn u32_acquire(&self, at: usize) -> u32 {
        self.memory.u32(self.at + at).load(Ordering::Acquire)
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        self.memory.u32(self.at + at).load(Ordering::Relaxed)
    }

    /// A root word of the header page.
    pub(super) fn root_word(memory: &Memory, window: usize, index: usize) -> u64 {
        memory
            .u64(window + super::ROOTS_AT + 8 * index)
            .load(Ordering::Acquire)
    }

    /// The root cell.
    pub(super) fn root(&self) -> u32 {
        Nodes::root_word(&self.memory, self.at, Published::ROOT) as u32
    }

    /// Whether there is an index, as the header page says.
    pub(super) fn has_index(&self) -> u64 {
        Nodes::root_word(&self.memory, self.at, Published::HAS_INDEX)
    }

    /// Whether there is no trie.
    pub(super) fn has_only_index(&self) -> bool {
        self.has_index() == Published::ONLY_INDEX
    }

    /// The reference of the index's table where lookups begin.
    pub(super) fn table(&self) -> u32 {
        Nodes::root_word(&self.memory, self.at, Published::TABLE) as u32
    }

    /// The secrets of the index's hash.
    pub(super) fn secrets(&self) -> [u64; Published::SECRETS] {
        std::array::from_fn(|i| self.u64(EXTRA_AT + 8 * i))
    }

    /// Where the node of a cell begins, if `bytes` of it are inside, behind the header page.
    pub(super) fn inside(&self, at: usize, bytes: usize) -> bool {
        at >= PAGE && bytes <= self.len && at <= self.len - bytes
    }

    /// The branch of a cell; its offset must be `min` at least.
    pub(super) fn branch(&self, cell: u32, min: usize) -> Result<Branch, Trouble> {
        let at = (cell & !LEAF) as usize * 4;
        let damaged = |why| Err(Trouble::Damaged(why, at));
        if cell & LEAF != 0 || !self.inside(at, 16) {
            return damaged("a branch outside the window");
        }
        let mut branch = Branch {
            at,
            header: self.u32(at) & !LOCKS,
            map: [0; 4],
        };
        if branch.header != branch.right_header() & !LOCKS || branch.children() < 2 {
            return damaged("no branch has such a header");
        }
        if branch.offset() < min {
            return damaged("an offset that does not grow");
        }
        if !self.inside(at, branch.bytes()) {
            return damaged("a branch that ends outside the window");
        }
        if branch.header & BIG != 0 {
            for (i, word) in branch.map.iter_mut().enumerate() {
                *word = self.u64(at + BIG_MAP + 8 * i);
            }
        } else {
            let labels = branch.labels();
            let mut before = None;
            for i in (0..labels).step_by(4) {
                let word = self.u32(at + 4 + i).to_ne_bytes();
                for &label in &word[..(labels - i).min(4)] {
                    if before.is_some_and(|before| before >= label) {
                        return damaged("labels that do not ascend");
                    }
                    before = Some(label);
                    branch.map[usize::from(label >> 6)] |= 1 << (label & 63);
                }
            }
        }
        let count: u32 = branch.map.iter().map(|word| word.count_ones()).sum();
        match count as usize == branch.labels() {
            true => Ok(branch),
            false => damaged("labels that are not as many as the header says"),
        }
    }

    /// What nothing but a whole check looks at: padding of labels, and ranks.
    pub(super) fn check_spare(&self, branch: &Branch) -> Result<(), Trouble> {
        let damaged = |why| Err(Trouble::Damaged(why, branch.at));
        if branch.header & BIG != 0 {
            let ranks = self.u32(branch.at + 4).to_ne_bytes();
            let mut before = 0;
            for (word, rank) in branch.map.iter().zip(ranks) {
                if u32::from(rank) != before {
                    return damaged("ranks that do not fit the bitmap");
                }
                before += word.count_ones();
            }
        } else {
            let labels = branch.labels();
            let last = branch.label(branch.children() - 1);
            for i in labels..labels.next_multiple_of(4) {
                let word = self.u32(branch.at + 4 + i / 4 * 4).to_ne_bytes();
                if Some(word[i % 4]) != last {
                    return damaged("labels that are padded with something else");
                }
            }
        }
        Ok(())
    }

    /// The cell of the `i`th child, END first.
    pub(super) fn cell(&self, branch: &Branch, i: usize) -> u32 {
        debug_assert!(i < branch.children());
        let at = self.at + branch.at + branch.cells() + 4 * i;
        self.memory.u32(at).load(Ordering::Acquire)
    }

    /// Whether a branch has the header that it had, when everything read so far was read.
    pub(super) fn is_still(&self, branch: &Branch) -> bool {
        self.u32(branch.at) & !LOCKS == branch.header
    }

    /// The leaf of a cell.
    pub(super) fn leaf(&self, cell: u32) -> Result<Leaf, Trouble> {
        let at = (cell & !LEAF) as usize * 4;
        let len_at = at + self.value_bytes;
        if cell & LEAF == 0 || !self.inside(at, self.value_bytes + 8) {
            return Err(Trouble::Damaged("a leaf outside the window", at));
        }
        let head = self.u64(len_at).to_ne_bytes();
        let (key_len, key_at) = match usize::from(head[0]) {
            LONG => (usize::from(u16::from_ne_bytes([head[1], head[2]])), 3),
            short => (short, 1),
        };
        let leaf = Leaf {
            at,
            key_at: len_at + key_at,
            key_len,
        };
        if key_at == 3 && key_len < LONG {
            return Err(Trouble::Damaged(
                "a length that is written as if it were longer",
                at,
            ));
        }
        match self.inside(at, leaf.key_at + key_len - at) {
            true => Ok(leaf),
            false => Err(Trouble::Damaged("a leaf that ends outside the window", at)),
        }
    }

    /// Copies bytes that are inside.
    fn copy(&self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 16);
        let first = from / 8 * 8;
        for at in (first..from + len).step_by(8) {
            bytes.extend_from_slice(&self.u64(at).to_ne_bytes());
        }
        bytes.truncate(from - first + len);
        bytes.drain(..from - first);
        bytes
    }

    pub(super) fn key(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.key_at, leaf.key_len)
    }

    pub(super) fn value(&self, leaf: &Leaf) -> Vec<u8> {
        self.copy(leaf.at, self.value_bytes)
    }
}

/// Everything read before this is compared with what is read after it.
pub(super) fn done_reading() {
    fence(Ordering::Acquire);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_maps() {
        let ours = [
            ("LEAF", LEAF),
            ("END", END),
            ("BIG", BIG),
            ("SMALL_MAX", SMALL_MAX as u32),
        ];
        for (name, value) in ours {
            let theirs = Published::layout().find(|(there, _)| *there == name);
            assert_eq!(theirs, Some((name, u64::from(value))));
        }
    }

    #[test]
    fn labels_and_ranks() {
        let labels = [0u8, 1, 63, 64, 200, 255];
        let mut map = [0u64; 4];
        for label in labels {
            map[usize::from(label >> 6)] |= 1 << (label & 63);
        }
        for end in [0, END] {
            let mut branch = Branch {
                at: PAGE,
                header: 5 | 5 << 16 | end,
                map,
            };
            branch.header = branch.right_header();
            assert_eq!(branch.header, branch.right_header());
            let first = usize::from(end != 0);
            assert_eq!(branch.children(), 6 + first);
            assert_eq!(branch.find(None), (end != 0).then_some(0));
            for (i, label) in labels.into_iter().enumerate() {
                assert_eq!(branch.label(i + first), Some(label));
                assert_eq!(branch.find(Some(label)), Some(i + first));
                assert_eq!(branch.rank(Some(label)), i + first);
            }
            assert_eq!(branch.find(Some(62)), None);
            assert_eq!(branch.rank(Some(62)), 2 + first);
        }
    }
}
